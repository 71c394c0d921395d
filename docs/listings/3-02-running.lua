-- Listing 3-2: the main function of a thread that runs its loop until it has a reason to end.
--
--   rlhost 3-02-running.lua
--
-- Each run returns after one source was handled, or after ten seconds without one; its result distinguishes these
-- cases. The thread checks its state between runs. It ends when the loop was stopped, when the loop has nothing to wait
-- for, or when its own condition holds.

local rl = require "runloop"

-- The main function of all three threads. `set_up` adds sources and timers; `is_done` is the "other exit condition".
local function skeleton(name, set_up, patience)
  local loop = rl.current()
  local state = { done = false }
  local keep = set_up(loop, state)
  local log = {}
  repeat
    local result = loop:run { mode = rl.modes.default, timeout = patience, return_after_source = true }
    log[#log + 1] = result
    if result == "stopped" or result == "finished" then state.done = true end
  until state.done
  -- Otherwise these items would keep the thread's loop running after this function.
  if keep then keep:invalidate() end
  return name .. ": " .. table.concat(log, ", ")
end

-- 1. Nothing to wait for: the loop does not even start.
local function nothing() end

-- 2. Two pieces of work come to a source, one after the other; then a timer stops the loop. A source that stops the
--   loop has also been handled, and the result reports only the latter. So in this form of running, a source must
--   report through `state`.
local function stopped(loop)
  local steps = {
    one = function(source) rl.after(0.01, function() source:post "two" end) end,
    two = function() rl.after(0.01, function() loop:stop() end) end,
  }
  local source = rl.source { perform = function(source) for step in source:commands() do steps[step](source) end end }
  loop:add(source)
  source:post "one"
  return source
end

-- 3. A source that sets the condition itself.
local function told(loop, state)
  local port = rl.port { callback = function(_, message) state.done = message.data == "enough" end }
  loop:add(port)
  port:send { data = "more" }
  port:send { data = "enough" }
  return port
end

-- 4. No source is signalled, and the thread does some housekeeping after each wait.
local function timed_out(loop, state)
  local port = rl.port {}                     -- an empty port: it keeps the loop from finishing
  loop:add(port)
  local rounds = 0
  local watch = rl.observer { activities = { "exit" }, callback = function()
    rounds = rounds + 1
    state.done = rounds == 2
  end }
  loop:add(watch)
  return port
end

for _, case in ipairs {
  { "nothing to wait for", nothing, 10 },
  { "stopped by a timer", stopped, 10 },
  { "told by a message", told, 10 },
  { "nobody comes", timed_out, 0.02 },
} do
  print(select(2, assert(rl.thread(skeleton, table.unpack(case)):join())))
end

--[[ expected:
nothing to wait for: finished
stopped by a timer: handled_source, handled_source, stopped
told by a message: handled_source, handled_source
nobody comes: timed_out, timed_out
]]
