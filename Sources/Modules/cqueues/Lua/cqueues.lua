-- runloop.cqueues: serves a controller of cqueues on the run loop of this thread.

local _, internals = ...
local rl = require "runloop"
local misuse, objects = require "runloop.misuse", require "runloop.objects"
local bridges = require "runloop.bridges"
local pack, unpack = table.pack, table.unpack
local getupvalue, setupvalue = debug.getupvalue, debug.setupvalue

local cqueues = bridges.library "cqueues"
local controller = cqueues.new()

-- Waits in the wrong place -------------------------------------------------------------------------------------------
local running = cqueues.running
local condition = require "cqueues.condition"
local originals, wait = { sleep = cqueues.sleep, poll = cqueues.poll }, nil

local function refuse(name)
  misuse.raise("%s: a task of runloop's cannot wait for cqueues; use require 'runloop.cqueues':call(fn)", name)
end

-- Replaces the function that `cqueues.poll` calls first. `poll` itself cannot be replaced, since modules such as
-- cqueues.socket keep a copy.
local function set_running(fn)
  for i = 1, 255 do
    local name = getupvalue(originals.poll, i)
    if name == "running" then setupvalue(originals.poll, i, fn) end
    if not name then return end
  end
end

local function enter()
  for name, original in next, originals do
    cqueues[name] = function(...)
      if not running() then refuse("cqueues." .. name) end
      return original(...)
    end
  end
  set_running(function()
    local inner, is_running = running()
    if not inner then refuse "cqueues.poll" end
    return inner, is_running
  end)
  wait = condition.interpose("wait", function(...)
    if not running() then refuse "condition:wait" end
    return wait(...)
  end)
end

local function leave()
  for name, original in next, originals do cqueues[name] = original end
  set_running(running)
  condition.interpose("wait", wait)
end

-- Turns --------------------------------------------------------------------------------------------------------------
local is_stepping = false

-- Names the task that reports an error.
local SUBJECT <const> = {}
internals.set_subject(SUBJECT, "a coroutine of cqueues")

local start, LABEL <const> = bridges.start, bridges.label("error", "cqueues")

local function raise_again(_, err) error(err, 0) end

local port

local function report()
  local count = controller:count()
  port:report(count > 0, controller:timeout(), count == 1 and "1 coroutine" or count .. " coroutines")
end

local function turn()
  if is_stepping then return end
  is_stepping = true
  local fine, problem
  repeat
    fine, problem = controller:step(0)
    -- The controller stops at each error. A task reports the error.
    if not fine then start(0, LABEL, raise_again, SUBJECT, problem) end
  until fine
  is_stepping = false
  report()
end

port = bridges.port { fd = controller:pollfd(), name = "cqueues", callback = turn }

-- Calls from one kind of coroutine to the other ----------------------------------------------------------------------
-- The futures for which tasks wait in `call`.
local calls = {}

local Bridge = bridges.class("cqueues", function()
  leave()
  for future in next, calls do future:fail "bridge:call: the bridge became invalid" end
end)

local function check(self, name, fn)
  bridges.expect_function(name, fn)
  if not self:is_valid() then misuse.raise("bridge:%s: the bridge is invalid; require it again", name) end
end

function Bridge:wrap(fn, ...)
  check(self, "wrap", fn)
  controller:wrap(fn, ...)
  report()
end

local function finish(future, fine, ...)
  calls[future] = nil
  if fine then future:complete(...) else future:fail((...)) end
end

function Bridge:call(fn, ...)
  check(self, "call", fn)
  local future, arguments = rl.future(), pack(...)
  calls[future] = true
  controller:wrap(function() finish(future, pcall(fn, unpack(arguments, 1, arguments.n))) end)
  report()
  return future:await()
end

local function results_of(results)
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, results.n)
end

function Bridge:await(fn, ...)
  bridges.expect_function("await", fn)
  local _, is_theirs = cqueues.running()
  if not is_theirs then
    misuse.raise "bridge:await: only a coroutine of cqueues can wait with it; a task calls the function itself"
  end
  local done, results = condition.new(), nil
  rl.task { function(...)
    results = pack(pcall(fn, ...))
    done:signal()
    report()
  end, name = "cqueues", ... }
  while not results do done:wait() end
  return results_of(results)
end

objects.methods(Bridge, "bridge")

enter()
return setmetatable({ _port = port }, Bridge)
