-- The loops of a test work in turns. The loop that has the turn wakes the next one, and no other loop wakes up
-- meanwhile, except one that checks now and then whether the turn is stuck. The kernel counts how often each thread has
-- waited.

local rl, fs = require "runloop", require "runloop.fs"
local t = require "runloop.test"

-- Returns a function that returns how often the threads that exist now have waited since its last call.
local function counter()
  local threads, last = fs.list "/proc/self/task", 0
  return function()
    local count = 0
    for _, thread in ipairs(threads) do
      local file <close> = assert(io.open("/proc/self/task/" .. (thread.name or thread) .. "/status"))
      count = count + tonumber(file:read "a":match "\nvoluntary_ctxt_switches:%s*(%d+)")
    end
    count, last = count - last, count
    return count
  end
end

local function real_time()
  local file <close> = assert(io.open "/proc/uptime")
  return file:read "n"
end

local function sleepers(seconds, times)
  local threads = {}
  for i = 1, 8 do
    threads[i] = rl.thread(function(seconds, times)
      local rl = require "runloop"
      for _ = 1, times do rl.sleep(seconds) end
    end, seconds, times)
  end
  return threads
end

t.it("loops that wait do not look while another one computes", function()
  local threads = sleepers(100, 1)
  rl.sleep(1)
  local waits = counter()
  waits()
  local began, sum = real_time(), 0
  for i = 1, 2e7 do sum = sum + i end
  -- Eight loops that woke up each 5 ms would wait 1,600 times in a second.
  local count, seconds = waits(), real_time() - began
  t.truthy(count < 30 + 400 * seconds, count .. " waits in " .. seconds .. " s")
  for _, thread in ipairs(threads) do thread:join() end
end)

t.it("a turn is handed over by one wake-up", function()
  local threads = sleepers(1, 201)
  rl.sleep(0.5)
  local waits = counter()
  waits()
  rl.sleep(200)
  -- Each of the 1,600 turns ends with one wait.
  local count = waits()
  t.truthy(count > 1000 and count < 2 * 1600, count)
  for _, thread in ipairs(threads) do thread:join() end
end)
