-- A phase of a test, or of a group: a function that runs as a task, and its outcome.

local system, internals = ...

local pairs, xpcall, type = pairs, xpcall, type
local tostring, getmetatable = tostring, getmetatable
local format, concat = string.format, table.concat
local rl = require "runloop"
local explain = require "runloop.test.explain"
local leaks = require "runloop.test.leaks"
local events = require "runloop.test.events"
local state = require "runloop.test.state"

local phase = {}
local core, options
local real_on_error = rl.on_error

--- Sets the test library and the runner's settings.
function phase.use(library, settings) core, options = library, settings end

-- Errors that nobody catches ------------------------------------------------------------------------------------------

-- The handler that the tested code has set for errors, if any. A failed assertion does not reach the handler.
local handler

local function on_error(value, info)
  local meta = type(value) == "table" and getmetatable(value)
  if handler and meta ~= core.Failure and meta ~= core.Skip then return handler(value, info) end
  local current = core.current
  if not current then return end
  current.caught[#current.caught + 1] = explain.uncaught { value = value, message = tostring(value),
    note = info and info.where and "in " .. info.where, frames = {} }
  system.fail()
end

function rl.on_error(fn)
  if fn ~= nil and type(fn) ~= "function" then return real_on_error(fn) end
  local before = handler
  handler = fn
  real_on_error(fn and on_error)
  return before
end

-- Returns the failures in callbacks since the last call, the first one first.
function phase.take_failures(current, forget)
  local list = current.caught
  current.caught = {}
  for _, err in pairs(system.take_errors(forget)) do list[#list + 1] = explain.uncaught(err) end
  return list
end

-- A phase -------------------------------------------------------------------------------------------------------------

local function why_late(current, details)
  local reasons, reads, works = system.clock_state()
  if reasons ~= "" and not current.real_time then
    details[#details + 1] = format("real time passed while the test waited for %s", reasons)
    for i = 1, #works do details[#details + 1] = "  " .. works[i] end
  end
  return reads
end

local function fired() return rl.current():stats().callbacks.timer end

-- `timers`: the number of timers that have fired in the phase.
local function too_late(current, name, seconds, failure, timers)
  local ran = failure and failure.message == explain.TOO_LONG
  local late = { kind = "timeout", message = format("the %s took longer than %g s", name, seconds),
    details = explain.waits() }
  local details = late.details
  if ran then
    details[#details + 1] = "it was running at"
    for _, frame in pairs(failure.frames or { failure.where or "?" }) do details[#details + 1] = "  " .. frame end
    if failure.note then details[#details + 1] = "  " .. failure.note end
  end
  local reads = why_late(current, details)
  if not current.real_time then
    local again = system.due()
    -- Making a timer reads the clock, too. So if a timer is due again and again, that is the better explanation. A
    -- timer is not due while its function runs. The loop reads the clock five times for each timer.
    if ran and reads > 1000 + 8 * timers and #again == 0 then
      details[#details + 1] =
        "the clock was read again and again: it stands still while Lua runs; use rl.sleep, or real_time"
    end
    if rl.now() >= 3600 then
      details[#details + 1] = format("the clock has jumped to %g s, and the awaited event has not happened",
        rl.now())
    end
    if #again > 0 then
      details[#details + 1] = format("something is due again and again while the clock stands still at %g s:", rl.now())
      for i = 1, #again do details[#details + 1] = "  " .. explain.whole(again[i]) end
    end
  end
  return late
end

--- Runs a function as a task; returns its failure, or nil.
function phase.run(current, body, seconds, name)
  local failure, is_over
  local before = fired()
  current.tries = nil
  if handler then real_on_error(on_error) end
  local outcome = system.run(function()
    state.enter()
    local fine, result = xpcall(body, explain.error)
    -- If the end of the phase makes the function raise an error, that error is not the cause of the failure.
    if not fine and (not is_over or result.message == explain.STUCK) then failure = result end
  end, seconds)
  is_over = true
  if outcome == "ended" then return failure end
  local errors = phase.take_failures(current)
  if current.exit then
    failure = current.exit
  elseif #errors > 0 and errors[1].message == explain.TOO_LONG then
    -- The time was over in a callback, not in the test itself.
    failure = too_late(current, name, seconds, errors[1], fired() - before)
  elseif #errors > 0 then
    failure = errors[1]
    for i = 2, #errors do current.more[#current.more + 1] = errors[i] end
  elseif outcome == "time" then
    failure = too_late(current, name, seconds, failure, fired() - before)
  elseif outcome == "stuck" then
    local frames, where
    if failure and failure.message == explain.STUCK then
      frames, where = failure.frames, failure.where
    end
    failure = { kind = "stuck", message = format(
      frames and "the %s waits for ever in a run of the loop: nothing is left that " .. "could end it"
        or "the %s waits for ever: the clock does not move, and nothing else can happen", name),
      where = where, frames = frames, details = explain.waits() }
  else
    local unmet = core.unmet(current)
    local waits = explain.waits()
    if #unmet > 0 and waits[1] == "the test waits in t.expect" then
      failure = nil  -- reported by its real cause
    else
      failure = { kind = "stuck", message = format("the %s never ended: nothing is left that could wake it", name),
        details = waits }
    end
  end
  -- The phase ended inside t.forall, so the failure lists the values that were being tried.
  if failure and current.tries then
    failure.details = failure.details or {}
    for _, line in pairs(current.tries()) do failure.details[#failure.details + 1] = line end
  end
  system.cancel_waiting()
  current.caught = {}
  return failure
end

--- Returns the context in which one or several phases run.
function phase.context(fields)
  local current = { expectations = {}, programs = {}, more = {}, caught = {}, after = {} }
  for name, value in pairs(fields or {}) do current[name] = value end
  return current
end

--- Ends everything that the test has begun, and resets the loop. Returns false if that is impossible in this process.
function phase.clean_up(current, pids)
  local is_clean = true
  for _, program in pairs(current.programs) do program:kill() end
  if #system.threads() > 0 then
    local left = system.stop_threads(2)
    if #left > 0 then
      is_clean = false
      events.emit { k = "broken", text = "threads do not stop: " .. concat(left, ", ") }
    end
  end
  leaks.end_programs(pids or {})
  system.cancel_waiting()
  handler = nil
  leaks.forget_observers()
  if internals.forget_shutdown then internals.forget_shutdown() end
  system.reset(options.seed, options.real_time and false or nil)
  return is_clean
end

return phase
