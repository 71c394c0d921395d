-- Listing 3-1: a thread whose run loop calls an observer at each step.
--
--   rlhost 3-01-observer.lua
--
-- The thread adds an observer for all activities and a repeating timer, and then runs its loop three times for a while.
-- The number of fires depends on the machine, but the order of events does not. So the script prints the events of the
-- first fire, and counts the rest.

local rl = require "runloop"

local ROUNDS, SECONDS, INTERVAL = 3, 0.2, 0.02

local function main()
  local loop = rl.current()
  local told, counts, fires = {}, {}, 0

  -- An observer is called in the modes to which it is added.
  local observer = rl.observer {
    activities = "all",
    name = "reporter",
    callback = function(_, activity)
      counts[activity] = (counts[activity] or 0) + 1
      if fires == 0 or #told < 7 then told[#told + 1] = activity end
    end,
  }
  loop:add(observer, rl.modes.default)

  -- Makes and adds it in one step.
  local timer = rl.every(INTERVAL, function()
    fires = fires + 1
    if fires == 1 then told[#told + 1] = "the timer fires" end
  end)

  local fired = {}
  for round = 1, ROUNDS do
    local before = fires
    loop:run_until(rl.now() + SECONDS)
    fired[round] = fires > before
  end

  -- Otherwise these items would keep the thread's loop running after this function.
  timer:invalidate()
  return table.concat(told, "\n  ", 1, 7), fired, counts
end

local thread = rl.thread { main, name = "observed" }
local ended, story, fired, counts = thread:join()
assert(ended, story)

print "until the timer fired for the first time, and a little further:"
print("  " .. story)
for round = 1, ROUNDS do print(("round %d: the timer fired: %s"):format(round, fired[round])) end
print("each entry has its exit: " .. tostring(counts.entry == counts.exit))
print("each sleep has its end: " .. tostring(counts.before_waiting == counts.after_waiting))

--[[ expected:
until the timer fired for the first time, and a little further:
  entry
  before_timers
  before_sources
  before_waiting
  after_waiting
  the timer fires
  before_timers
round 1: the timer fired: true
round 2: the timer fired: true
round 3: the timer fired: true
each entry has its exit: true
each sleep has its end: true
]]
