-- Listing 3-1: a thread whose run loop tells an observer what it is doing.
--
--   rlhost 3-01-observer.lua
--
-- The thread adds an observer for all activities and a repeating timer, and then runs its loop for a while, again and again.
-- How often the timer fires depends on the machine, the order of what happens does not: so the story of the first fire is
-- printed, and the rest is counted.

local rl = require "runloop"

local ROUNDS, SECONDS, INTERVAL = 3, 0.2, 0.02

local function main()
  local loop = rl.current()
  local told, counts, fires = {}, {}, 0

  -- An observer starts to work when it is added to a mode, and in that mode only.
  local observer = rl.observer {
    activities = "all",
    name = "reporter",
    callback = function(_, activity)
      counts[activity] = (counts[activity] or 0) + 1
      if fires == 0 or #told < 7 then told[#told + 1] = activity end
    end,
  }
  loop:add(observer, rl.modes.default)

  -- Made and added in one go.
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

  -- For what is left, the thread's loop would go on when this has returned.
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
