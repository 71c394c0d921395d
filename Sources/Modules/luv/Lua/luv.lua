-- runloop.luv: serves luv's loop on the run loop of this thread.

local native, internals = ...
local rl = require "runloop"
local misuse, objects = require "runloop.misuse", require "runloop.objects"
local bridges = require "runloop.bridges"
local luv = native.open()
local pack, unpack, next, setmetatable = table.pack, table.unpack, next, setmetatable

local uv = bridges.library "luv"

-- Callbacks ----------------------------------------------------------------------------------------------------------
local start, LABEL <const> = bridges.start, bridges.label("callback", "luv")
-- For each function: the queue of further calls, which wait until the running call has returned. A queue is kept as
-- long as its function. Costs if removed: 1,800 instructions for each call.
local queues = setmetatable({}, { __mode = "k" })
-- Names the tasks in messages.
local SUBJECT <const> = {}
internals.set_subject(SUBJECT, "a callback of luv")

-- The result with which recordings show the end of a callback.
local DONE <const> = 1

local run
local Queue = {}

-- If an error has ended the task, another task then continues with the next call.
function Queue:__close()
  local first = self.first
  if first > self.last then
    self.is_busy = false
    return
  end
  local arguments = self[first]
  self[first], self.first = nil, first + 1
  start(0, LABEL, run, SUBJECT, self, unpack(arguments, 1, arguments.n))
end

function run(_, queue, ...)
  local _ <close> = queue
  queue.fn(...)
  return DONE
end

-- Called by luv for each callback. A function whose results luv uses cannot wait.
local function dispatch(results, fn, ...)
  if results ~= 0 then return fn(...) end
  local queue = queues[fn]
  if not queue then
    queue = setmetatable({ fn = fn, is_busy = false, first = 1, last = 0 }, Queue)
    queues[fn] = queue
  elseif queue.is_busy then
    queue.last = queue.last + 1
    queue[queue.last] = pack(...)
    return
  end
  queue.is_busy = true
  start(0, LABEL, run, SUBJECT, queue, ...)
end

local path = package.searchpath("luv", package.cpath)
local source, fd
if path then source, fd = luv.serve(path, dispatch) end
if not source then
  error("module 'runloop.luv': luv 1.44 or later is needed, which has luv_set_callback (apt install lua-luv)", 0)
end

-- Turns --------------------------------------------------------------------------------------------------------------
local uv_run, uv_stop, is_alive, turn = uv.run, uv.stop, uv.loop_alive, luv.turn
-- Tasks that wait in uv.run, by the future that ends their wait.
local waiters = {}
-- Whether uv.stop was called while no task waited: the next uv.run returns at once.
local is_stopped = false

local function wake_waiters(has_called, all)
  for future, mode in next, waiters do
    if all or mode == "once" and has_called then
      waiters[future] = nil
      future:complete()
    end
  end
end

local function take_turn()
  local has_called = turn(source)
  if next(waiters) then wake_waiters(has_called, not is_alive()) end
end

local Bridge = bridges.class("luv", function()
  uv.run, uv.stop = uv_run, uv_stop
  luv.leave(source)
  wake_waiters(false, true)
end)
objects.methods(Bridge, "bridge")

local MODES <const> = { default = true, once = true, nowait = true }

function uv.run(mode)
  mode = mode or "default"
  if not MODES[mode] then
    misuse.raise("uv.run: argument #1 must be \"default\", \"once\" or \"nowait\", got %s", misuse.describe(mode))
  end
  local stops = is_stopped
  is_stopped = false
  if mode == "nowait" then
    take_turn()
  elseif is_alive() and not stops then
    local future = rl.future()
    -- A cancelled wait must not count as one of those that uv.stop ends.
    local _ <close> = setmetatable({}, { __close = function() waiters[future] = nil end })
    waiters[future] = mode
    future:await()
  end
  return is_alive()
end

-- Ends the waits in uv.run. The bridge continues to serve libuv.
function uv.stop()
  is_stopped = next(waiters) == nil
  wake_waiters(false, true)
end

local port = bridges.port { fd = fd, name = "luv", source = source, callback = take_turn }
return setmetatable({ _port = port }, Bridge)
