-- Does one thing a number of times and ends: allocations.lua WHAT TIMES. The collector is off, since its allocations do
-- not count.
local rl = require "runloop"
local what, times = arg[1], tonumber(arg[2])
collectgarbage "stop"

local done = 0
local function finished()
  done = done + 1
  if done == times then os.exit(0) end
end

local function source(perform)
  local s = rl.source { perform = perform }
  rl.current():add(s)
  s:signal()
end

local kinds = {}

function kinds.timer() rl.every(0.00001, finished) end

function kinds.signal()
  source(function(s)
    finished()
    s:signal()
  end)
end

function kinds.observer()
  rl.observe({ "before_timers" }, finished)
  source(function(s) s:signal() end)
end

function kinds.descriptor() rl.on_readable(io.popen "yes", finished) end

function kinds.switch()
  for _ = 1, 2 do
    rl.task(function()
      while true do
        rl.sleep(0)
        finished()
      end
    end)
  end
end

function kinds.move()
  local timer, date = rl.after(1000, finished), rl.now() + 2000
  for i = 1, times do timer:set_fire_date(date + i) end
  os.exit(0)
end

-- Each of these functions makes one object.
function kinds.request()
  local function again()
    finished()
    rl.perform(again)
  end
  again()
end

function kinds.after()
  local function again()
    finished()
    rl.after(0, again)
  end
  again()
end

kinds[what]()
rl.run()
