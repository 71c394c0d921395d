-- Listing 3-10: two timers, one made first and added afterwards, the other made and added in one step.
--
--   rlhost 3-10-timers.lua
--
-- All times are a tenth of the chapter's. The script also tries the chapter's general statements: a late timer keeps
-- its grid, fires once for all the dates that it has missed, and fires only in its modes.

local rl = require "runloop"
local loop = rl.current()

-- Returns whether a date is on a timer's grid, except for rounding.
local function is_on_grid(date, first, interval)
  local steps = (date - first) / interval
  return math.abs(steps - math.floor(steps + 0.5)) < 1e-3
end

-- The long way: the first fire is a date, and you choose the mode.
local first_date = rl.now() + 0.1
local count1, on_grid, late = 0, true, true
local first = rl.timer {
  fire_date = first_date,
  interval = 0.01,
  name = "first",
  callback = function(timer)
    count1 = count1 + 1
    late = late and rl.now() >= first_date + (count1 - 1) * 0.01
    on_grid = on_grid and is_on_grid(timer:fire_date(), first_date, 0.01)
    if count1 == 10 then timer:invalidate() end
  end,
}
loop:add(first, rl.modes.default)

-- The short way: in the common modes, of which "default" is one.
local count2 = 0
rl.every(0.02, function(timer)
  count2 = count2 + 1
  if count2 == 1 then print("the second timer fires, before the first: " .. tostring(count1 == 0)) end
  if count2 == 12 then timer:invalidate() end
end)

print("the loop is " .. loop:run {} .. " when both are invalid")
print(("fires: %d and %d"):format(count1, count2))
print("never early: " .. tostring(late))
print("always on the grid: " .. tostring(on_grid))

-- A handler that takes six intervals: the loop counts the fires that it prevents, and does not catch up on them.
local started, fires, missed = nil, 0, nil
rl.every(0.01, function(timer, skipped)
  fires = fires + 1
  if fires == 1 then
    started = rl.now()
    repeat until rl.now() >= started + 0.06
  else
    missed = skipped
    timer:invalidate()
  end
end)
loop:run {}
print(("a busy loop: %d fires, at least four missed: %s"):format(fires, missed >= 4))

-- A timer waits for its mode.
local elsewhere = rl.timer { delay = 0.001, callback = function() print("it fires in mode " .. loop:mode()) end }
loop:add(elsewhere, "com.example.tracking")
rl.after(0.02, function() print "the time has come, but not the mode" end)
loop:run {}
loop:run { mode = "com.example.tracking" }

--[[ expected:
the second timer fires, before the first: true
the loop is finished when both are invalid
fires: 10 and 12
never early: true
always on the grid: true
a busy loop: 2 fires, at least four missed: true
the time has come, but not the mode
it fires in mode com.example.tracking
]]
