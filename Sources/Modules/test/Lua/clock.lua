-- In the state of a test, and in the threads that it starts, os.time, os.clock and os.date use the clock of rl.

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
