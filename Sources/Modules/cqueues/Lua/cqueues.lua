-- runloop.cqueues: serves a controller of cqueues on the run loop of this thread.

local _, internals = ...
local rl = require "runloop"
local misuse, objects = require "runloop.misuse", require "runloop.objects"
local items = require "runloop.luv.items"
local pack, unpack = table.pack, table.unpack

local is_there, cqueues = pcall(require, "cqueues")
if not is_there then error("module 'runloop.cqueues': cqueues is not installed (apt install lua-cqueues)", 0) end

local Bridge = objects.class("runloop.cqueues.Bridge", { __name = "cqueues bridge", __stays = true, __item = "_item" })
local self = setmetatable({}, Bridge)
local controller = cqueues.new()

-- Waits in the wrong place -------------------------------------------------------------------------------------------
local originals = {}
for _, name in next, { "sleep", "poll" } do
  local original = cqueues[name]
  originals[name] = original
  cqueues[name] = function(...)
    if not cqueues.running() and rl.current():mode() then
      misuse.raise("cqueues.%s: a task of runloop's cannot wait for cqueues; "
        .. "use require 'runloop.cqueues':call(fn)", name)
    end
    return original(...)
  end
end

-- Turns --------------------------------------------------------------------------------------------------------------
local is_stepping = false

-- Names the task that reports an error.
local SUBJECT <const> = {}
internals.set_subject(SUBJECT, "a coroutine of cqueues")

local function raise_again(_, err) error(err, 0) end

local function turn()
  if is_stepping then return nil, true end
  is_stepping = true
  local fine, problem
  repeat
    fine, problem = controller:step(0)
    -- It stops at each error. The task reports this one.
    if not fine then rl.task { raise_again, SUBJECT, problem, name = "cqueues" } end
  until fine
  is_stepping = false
  return controller:timeout(), not controller:empty()
end

self._items = items.new {
  name = "cqueues", fd = controller:pollfd(), turn = turn, is_active = function() return not controller:empty() end,
}
self._item = self._items.observer

-- Calls between both -------------------------------------------------------------------------------------------------
local function expect_function(name, value)
  if type(value) ~= "function" then misuse.wrong("bridge:" .. name, "argument #1", "a function", value) end
end

function Bridge:wrap(fn, ...)
  expect_function("wrap", fn)
  controller:wrap(fn, ...)
  self._items:wake()
end

local function finish(future, fine, ...)
  if fine then future:complete(...) else future:fail((...)) end
end

function Bridge:call(fn, ...)
  expect_function("call", fn)
  local future, arguments = rl.future(), pack(...)
  self:wrap(function() finish(future, pcall(fn, unpack(arguments, 1, arguments.n))) end)
  return future:await()
end

local function results_of(results)
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, results.n)
end

function Bridge:await(fn, ...)
  expect_function("await", fn)
  local _, is_theirs = cqueues.running()
  if not is_theirs then
    misuse.raise "bridge:await: only a coroutine of cqueues can wait with it; a task calls the function itself"
  end
  local done, results = require "cqueues.condition".new(), nil
  rl.task { function(...)
    results = pack(pcall(fn, ...))
    done:signal()
    self._items:wake()
  end, name = "cqueues", ... }
  while not results do done:wait() end
  return results_of(results)
end

function Bridge:is_valid() return self._items.observer:is_valid() end
function Bridge:name() return "cqueues" end

function Bridge:invalidate()
  if not self:is_valid() then return end
  self._items:invalidate()
  for name, original in next, originals do cqueues[name] = original end
  package.loaded["runloop.cqueues"] = nil
end
objects.methods(Bridge, "bridge")

return self
