-- The clock that a test moves: rl.clock.

local rl = require "runloop"
local system = ...

local type, setmetatable, format, math = type, setmetatable, string.format, math

--- Adds the clock to `rl`.
return function(_, core)

  local misuse, describe_value = core.misuse, core.describe_value

  local ADVANCE = { quiet = "a number of seconds, more than 0" }

  local Clock = {}
  Clock.__index = Clock
  Clock.__name = "clock"

  local function clock_of(self, name)
    if self ~= rl.clock then misuse(name .. ": call it with a colon") end
    if rl.this_thread() then misuse(name .. ": only the test's own thread moves the clock") end
    if core.current and core.current.real_time then misuse(name .. ": this test runs in real time") end
  end

  -- Returns how many times the loop has called ports and sources, which stand for events from outside.
  local function arrivals()
    local calls = rl.current():stats().callbacks
    return calls.port + calls.source
  end

  --- Moves the clock by a number of seconds, and returns when everything that is due by then has happened. The clock
  --- jumps even if it is held, or if a task waits for a descriptor. With `quiet`, the clock jumps only after that many
  --- seconds without an event from outside.
  function Clock:advance(seconds, options)
    clock_of(self, "rl.clock:advance")
    if type(seconds) ~= "number" or not (seconds >= 0) then
      misuse("rl.clock:advance: argument #1 must be a number of seconds, 0 or more, got " .. describe_value(seconds))
    end
    core.check_argument(options, "table or nil", "rl.clock:advance", 2, "a table like {quiet = 0.1}")
    core.check_options(options, ADVANCE, "rl.clock:advance", function(value)
      return type(value) == "number" and value > 0
    end)
    local date, quiet = rl.now() + seconds, options and options.quiet
    while quiet and rl.now() < date do
      local before = arrivals()
      rl.sleep(math.min(quiet, date - rl.now()))
      if arrivals() == before then break end
    end
    system.allow_jump(date)
    rl.sleep(math.max(0, date - rl.now()))
    system.settle()
  end

  --- Lets everything happen that can happen at this moment, in all threads. Returns when only the passing of time, or
  --- events from outside, can make more code run.
  function Clock:settle()
    clock_of(self, "rl.clock:settle")
    system.settle()
  end

  --- Jumps to the next timer and lets it fire; returns the seconds that passed, or nil if there is no timer.
  function Clock:next()
    clock_of(self, "rl.clock:next")
    local date = system.next_date()
    if not date then return nil end
    local seconds = date - rl.now()
    if seconds < 0 then seconds = 0 end
    system.allow_jump(date)
    rl.sleep(seconds)
    system.settle()
    return seconds
  end

  --- Sets the wall clock, as a user may set the clock of a computer: rl.time() returns the new time, and tasks that
  --- wait for a wall-clock time notice. The monotonic clock of rl.now() is unaffected.
  function Clock:set_time(seconds)
    clock_of(self, "rl.clock:set_time")
    if type(seconds) ~= "number" or seconds ~= seconds then
      misuse("rl.clock:set_time: argument #1 must be a number of seconds since 1970, got " .. describe_value(seconds))
    end
    system.set_wall_clock(seconds)
  end

  --- Holds the clock until release or the end of the test: only advance and next move it.
  function Clock:hold()
    clock_of(self, "rl.clock:hold")
    system.hold(true)
    return setmetatable({}, { __close = function() system.hold(false) end })
  end

  --- Ends a hold.
  function Clock:release()
    clock_of(self, "rl.clock:release")
    system.hold(false)
  end

  -- Whether time is virtual in the test that runs; for the host's own modules.
  function Clock._is_virtual() return not (core.current and core.current.real_time) end

  function Clock.__tostring() return format("clock (%g s)", rl.now()) end

  rl.clock = setmetatable({}, Clock)

end
