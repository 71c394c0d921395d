-- Listing 3-11: a timer in Core Foundation's way, in the common modes.
--
--   rlhost 3-11-core-foundation-timer.lua
--
-- The original gives 0.1 as the first fire date. That is a date in the year 2001, so the timer is due at once, and then
-- every 0.3 seconds. A date in the past does the same here. The times are a tenth of the original's.

local rl = require "runloop"
local loop = rl.current()

local timer = rl.timer {
  fire_date = rl.date(978307200.1),           -- 0.1 seconds after the first moment of 2001, as Core Foundation counts
  interval = 0.03,
  name = "common",
  -- The chapter's context structure carries data to the callback. A function has its upvalues for that.
  callback = function(timer)
    print("fires in mode " .. loop:mode())
    if loop:mode() == "modal" then timer:invalidate() end
    loop:stop()
  end,
}

-- Common modes are a set that can grow. An item in "common" is in all of them, also in those that come later.
loop:add(timer, rl.modes.common)
print("in default: " .. tostring(loop:contains(timer, "default")))
print("in modal: " .. tostring(loop:contains(timer, "modal")))
loop:add_common_mode(rl.modes.modal)
print("in modal, now that it is a common mode: " .. tostring(loop:contains(timer, "modal")))

print(loop:run {})
print(loop:run { mode = rl.modes.modal })
print("still valid: " .. tostring(timer:is_valid()))

--[[ expected:
in default: true
in modal: false
in modal, now that it is a common mode: true
fires in mode default
stopped
fires in mode modal
stopped
still valid: false
]]
