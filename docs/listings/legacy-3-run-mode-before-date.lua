-- The older document: running a mode once, and the loops that people write around it.
--
--   rlhost legacy-3-run-mode-before-date.lua
--
-- `run_mode` handles one input source, or waits until its date; timers fire meanwhile and do not end it. It returns
-- false if the mode was empty.

local rl = require "runloop"
local loop = rl.current()
local MODE = "com.example.answers"

-- An empty mode has nothing to wait for, whatever the date.
print("nothing in it: " .. tostring(loop:run_mode(MODE, math.huge)))

-- 1. Forever, or until the mode is empty.
local port
port = rl.port { callback = function(port, message)
  print("message " .. message.data)
  if message.data == 3 then port:invalidate() end
end }
loop:add(port, MODE)
for i = 1, 3 do port:send { data = i } end

local rounds = 0
while loop:run_mode(MODE, math.huge) do rounds = rounds + 1 end
print("rounds: " .. rounds)

-- 2. Until a handler sets a condition. The timer alone does not end a round: the source that it signals does.
local answer
local source = rl.source { perform = function() answer = 42 end }
loop:add(source, MODE)
loop:add(rl.timer { delay = 0.01, callback = function() print "the timer fires" source:signal() end }, MODE)
repeat until answer or not loop:run_mode(MODE, math.huge)
print("the answer: " .. answer)

-- 3. Waits until a date at the latest, even if nothing happens.
local date = rl.now() + 0.03
print("ran until the date: " .. tostring(loop:run_mode(MODE, date) and rl.now() >= date))

-- 4. The default mode until a date: sources do not end it.
source:invalidate()
local performed = 0
local busy = rl.source { perform = function(source)
  performed = performed + 1
  if performed < 5 then source:signal() end
end }
loop:add(busy)
busy:signal()
date = rl.now() + 0.2
loop:run_until(date)
print(("performed %d times, and it is late: %s"):format(performed, rl.now() >= date))
busy:invalidate()

--[[ expected:
nothing in it: false
message 1
message 2
message 3
rounds: 3
the timer fires
the answer: 42
ran until the date: true
performed 5 times, and it is late: true
]]
