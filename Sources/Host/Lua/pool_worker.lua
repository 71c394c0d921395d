-- runloop.pool_worker: the code that runs in the threads of a pool with `setup`. Each thread keeps the value that
-- `setup` has returned there, and hands it to one function at a time.

local native = ...
local rl = require "runloop"
local pcall, setmetatable, unpack = pcall, setmetatable, table.unpack

local worker = {}
local setup, on_close, state
local is_ready = false
local turn, over, port

-- Lets the thread end as soon as the running function has returned.
function worker.finish() over:broadcast() end

-- The thread's last work. It may call functions that wait, and nothing interrupts it while the program waits for its
-- threads.
local function last()
  native.shield()
  port:invalidate()
  if is_ready and on_close then on_close(state) end
end

-- The thread's function. The thread is cancelled if the program ends.
function worker.serve(begin, finish)
  setup, on_close = begin, finish
  turn, over, port = rl.mutex(), rl.condition(), rl.port()
  rl.current():add(port, "common")
  local _ <close> = setmetatable({}, { __close = last })
  pcall(over.wait, over)
end

-- Calls a function with the state and `count` arguments, of which the last may be nil.
function worker.call(fn, count, ...)
  local _ <close> = turn:lock()
  if not is_ready then
    state = setup()
    is_ready = true
  end
  return fn(state, unpack({ ... }, 1, count))
end

-- Returns when all earlier functions have ended.
function worker.rest() turn:lock():unlock() end

return worker
