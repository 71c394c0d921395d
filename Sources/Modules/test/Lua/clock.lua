-- In the state of a test, and of the threads it starts, os.time, os.clock and os.date tell the same time as rl.

local rl = require "runloop"
local os_time, os_date, floor = os.time, os.date, math.floor

function os.time(date)
  if date ~= nil then return os_time(date) end
  return floor(rl.time())
end

function os.clock() return rl.now() end

function os.date(pattern, time)
  if time == nil then time = floor(rl.time()) end
  return os_date(pattern or "%c", time)
end

return true
