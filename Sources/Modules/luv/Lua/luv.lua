-- runloop.luv: serves luv's loop on the run loop of this thread.

local native, internals = ...
local rl = require "runloop"
local misuse, objects = require "runloop.misuse", require "runloop.objects"
local items = require "runloop.luv.items"
local bridge = native.open()
local pack, unpack, remove = table.pack, table.unpack, table.remove

local is_there, uv = pcall(require, "luv")
if not is_there then error("module 'runloop.luv': luv is not installed (apt install lua-luv)", 0) end

local Bridge = objects.class("runloop.luv.Bridge", { __name = "luv bridge", __stays = true, __item = "_item" })
local self = setmetatable({}, Bridge)

-- Callbacks ----------------------------------------------------------------------------------------------------------
-- Calls that wait until an earlier one of the same function has returned, by function.
local queues = {}
local calls = 0

-- Names the tasks in messages.
local SUBJECT <const> = {}
internals.set_subject(SUBJECT, "a callback of luv")

local function run(_, fn, queue, ...)
  local done <close> = setmetatable({}, { __close = function()
    -- An error has ended this task: the next call goes on in another one.
    if queue.first <= queue.last then return self._next(fn, queue) end
    queues[fn] = nil
  end })
  fn(...)
  while queue.first <= queue.last do
    local arguments = queue[queue.first]
    queue[queue.first], queue.first = nil, queue.first + 1
    fn(unpack(arguments, 1, arguments.n))
  end
end

function self._next(fn, queue)
  local arguments = queue[queue.first]
  queue[queue.first], queue.first = nil, queue.first + 1
  rl.task { name = "luv", run, SUBJECT, fn, queue, unpack(arguments, 1, arguments.n) }
end

-- Called by luv for each callback. One whose results luv uses cannot wait.
local function dispatch(results, fn, ...)
  calls = calls + 1
  if results ~= 0 then return fn(...) end
  local queue = queues[fn]
  if queue then
    queue.last = queue.last + 1
    queue[queue.last] = pack(...)
    return
  end
  queue = { first = 1, last = 0 }
  queues[fn] = queue
  local task = rl.task { name = "luv", run, SUBJECT, fn, queue, ... }
  return task and nil
end

local path = package.searchpath("luv", package.cpath)
if not path or not bridge.serve(path, dispatch) then
  error("module 'runloop.luv': luv 1.44 or later is needed, which has luv_set_callback (apt install lua-luv)", 0)
end

-- Turns --------------------------------------------------------------------------------------------------------------
local uv_run, is_alive = uv.run, uv.loop_alive
local is_running = false
-- Tasks that wait in uv.run, by the future that ends their wait.
local waiters = {}

local function wake_waiters()
  for future, mode in next, waiters do
    if not is_alive() or mode == "once" then
      waiters[future] = nil
      future:complete()
    end
  end
end

-- Runs what is due. Returns the seconds until the next date, or nil; and whether something is left.
local function turn()
  if is_running then return nil, true end
  is_running = true
  local before = calls
  uv_run "nowait"
  is_running = false
  if calls ~= before or not is_alive() then wake_waiters() end
  local alive = is_alive()
  local milliseconds = alive and uv.backend_timeout() or -1
  return milliseconds >= 0 and milliseconds / 1000 or nil, alive
end

local MODES <const> = { default = true, once = true, nowait = true }

local function run_by_hand(mode)
  mode = mode or "default"
  if not MODES[mode] then
    misuse.raise("uv.run: argument #1 must be \"default\", \"once\" or \"nowait\", got %s", misuse.describe(mode))
  end
  if mode == "nowait" then
    turn()
  elseif is_alive() then
    local future = rl.future()
    waiters[future] = mode
    self._items:wake()
    future:await()
  end
  return is_alive()
end

self._items = items.new { name = "luv", fd = uv.backend_fd(), turn = turn, is_active = is_alive }
self._item = self._items.observer
uv.run = run_by_hand

function Bridge:is_valid() return self._items.observer:is_valid() end
function Bridge:name() return "luv" end

function Bridge:invalidate()
  if not self:is_valid() then return end
  self._items:invalidate()
  uv.run = uv_run
  bridge.serve(path)
  for future in next, waiters do
    waiters[future] = nil
    future:complete()
  end
  package.loaded["runloop.luv"] = nil
end
objects.methods(Bridge, "bridge")

return self
