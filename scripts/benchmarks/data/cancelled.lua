-- Cancels 10,000 calls of a database while other calls go on. Prints how many of the other calls got wrong answers, the
-- number of connections beyond `size`, and the kB by which the process has grown in the second half: the first calls
-- grow the heap in steps.

local rl = require "runloop"
local name, where, most = arg[1], arg[2], math.tointeger(arg[3])
local size = 4
local db <close> = assert(require("runloop." .. name).open(where, { size = size }))

-- For each database: a call that returns the number that it gets.
local ask = ({
  sqlite = function(i)
    return db:value([[with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
      select $1 + count(*) - 2000 from n]], i)
  end,
  postgres = function(i) return db:value("select $1::int from pg_sleep(0.001)", i) end,
  redis = function(i) return tonumber(db:call("ECHO", i)) end,
})[name]

local function memory()
  collectgarbage()
  collectgarbage()
  for line in io.lines "/proc/self/status" do
    local kilobytes = line:match "^VmRSS:%s+(%d+)"
    if kilobytes then return tonumber(kilobytes) end
  end
end

local wrong, cancelled, beyond, calls = 0, 0, 0, 0
local before
while cancelled < most do
  local tasks = {}
  for k = 1, 20 do
    calls = calls + 1
    local key = calls
    tasks[k] = rl.task(function() if ask(key) ~= key then wrong = wrong + 1 end end)
  end
  -- Redis answers all of them at once.
  if name ~= "redis" then rl.sleep(calls % 60 == 0 and 0.0005 or 0) end
  for k = 2, 20, 2 do if tasks[k]:cancel() then cancelled = cancelled + 1 end end
  for k = 1, 20, 2 do tasks[k]:await() end
  beyond = math.max(beyond, db:stats().connections - size)
  if not before and cancelled >= most // 2 then before = memory() end
end
print("wrong answers beside cancelled calls", wrong)
print("connections beyond size, then", beyond)
print("kB more memory in the second half of them", memory() - before)
