-- Prints the microseconds of processor time of a GET: with one GET after the other, with 50 tasks, and with batches of
-- 100.

local rl = require "runloop"
local redis = require "runloop.redis"
local db <close> = assert(redis.open(arg[1]))
local n = math.tointeger(arg[2])
assert(db:call("SET", "key", "value"))

local function measure(label, count, fn)
  local before = os.clock()
  fn()
  print(label, (os.clock() - before) / count * 1e6)
end

local function gets(count) for _ = 1, count do assert(db:call("GET", "key") == "value") end end

gets(n // 10)
measure("GET, one after the other", n, function() gets(n) end)
measure("GET by 50 tasks", n, function()
  local tasks = {}
  for i = 1, 50 do tasks[i] = rl.task(function() gets(n // 50) end) end
  for i = 1, 50 do tasks[i]:await() end
end)
local batch = {}
for i = 1, 100 do batch[i] = { "GET", "key" } end
measure("GET in a batch of 100", n, function()
  for _ = 1, n // 100 do assert(db:batch(batch)[100] == "value") end
end)
