-- The clock that a test moves: rl.clock.

local rl = require "runloop"
local system = ...

local type, setmetatable, format, math = type, setmetatable, string.format, math

--- Gives `rl` its clock.
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

  -- How much has come from outside of the loop: what its ports and sources were called for.
  local function arrivals()
    local calls = rl.current():stats().callbacks
    return calls.port + calls.source
  end

  --- Lets so many seconds pass for everything, and returns when all that was due by then has happened. The clock jumps
  --- even though it is held, or a descriptor is waited for. `quiet`: not before nothing real has come for so many seconds.
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

  --- Lets everything happen that can happen at this moment, in all threads, and returns when only the passing of time, or the
  --- world outside, can bring more.
  function Clock:settle()
    clock_of(self, "rl.clock:settle")
    system.settle()
  end

  --- Jumps to the next timer and lets it fire; returns the seconds that took, or nil if there is none.
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

  --- Sets the wall clock, as somebody may set a computer's: rl.time() tells that from now on, and whoever waits for a moment of it
  --- is told. The monotonic clock of rl.now() goes on as before.
  function Clock:set_time(seconds)
    clock_of(self, "rl.clock:set_time")
    if type(seconds) ~= "number" or seconds ~= seconds then
      misuse("rl.clock:set_time: argument #1 must be a number of seconds since 1970, got " .. describe_value(seconds))
    end
    system.set_wall_clock(seconds)
  end

  --- From now on, until release or the end of the test, the clock moves only by advance and next.
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

  function Clock.__tostring() return format("clock (%g s)", rl.now()) end

  rl.clock = setmetatable({}, Clock)

end
