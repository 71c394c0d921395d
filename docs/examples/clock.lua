-- A clock that does not drift.
--
--   rlhost clock.lua [TICKS [SECONDS]]
--
-- Each tick pretends to work for a third of the interval. A program that sleeps, works and sleeps again would be late
-- by that much more each time. A repeating timer keeps the fire dates that it got when it was made, so delays never add
-- up: the last column stays small however long the clock runs.

local rl = require "runloop"

local ticks = tonumber(arg[1] or 10) or error "clock.lua: TICKS must be a number"
local interval = tonumber(arg[2] or 1) or error "clock.lua: SECONDS must be a number"

local function work(seconds)
  local done = rl.now() + seconds
  repeat until rl.now() >= done
end

local start, tick, worst = nil, 0, 0

local timer = rl.timer {
  interval = interval,
  name = "clock",
  callback = function(timer, missed)
    -- Intervals that passed while the loop was busy (or the machine slept) are reported as one number, not as a burst
    -- of calls.
    tick = tick + 1 + missed
    local late = rl.now() - (start + tick * interval)
    worst = math.max(worst, late)
    print(("tick %d  %s  %.2f ms late"):format(tick, os.date "%H:%M:%S", late * 1000))
    if tick >= ticks then
      -- The loop is empty then, so the program ends.
      timer:invalidate()
      print(("worst: %.2f ms"):format(worst * 1000))
    else
      work(interval / 3)
    end
  end,
}
start = timer:fire_date() - interval
rl.current():add(timer)
