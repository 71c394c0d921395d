-- Futures, mutexes, values of tasks, and pools with setup, beside the code that they replace. See clients.py.

local rl = require "runloop"
local share = tonumber(arg[1]) or 1

-- Prints the cost of an operation in each of two ways: the best of several times, in seconds. The ways take turns.
local function row(label, goal, count, ours, theirs)
  count = math.max(1000, count * share // 1)
  local best = { math.huge, math.huge }
  for _ = 1, 5 do
    for i, way in ipairs { ours, theirs } do
      collectgarbage()
      local start = os.clock()
      way(count)
      best[i] = math.min(best[i], (os.clock() - start) / count)
    end
  end
  print(("%s\t%.9f\t%.9f\t%g"):format(label, best[1], best[2], goal))
end

-- Tasks that repeatedly wait for an answer; one more task gives all answers.
local function answered(make, wait, answer)
  return function(n)
    local asked, count = {}, 0
    local group <close> = rl.group()
    for _ = 1, 50 do
      group:task(function()
        for _ = 1, n // 50 do
          local one = make()
          count = count + 1
          asked[count] = one
          wait(one)
        end
      end)
    end
    group:task(function()
      while count > 0 do
        local batch, size = asked, count
        asked, count = {}, 0
        for i = 1, size do answer(batch[i], i) end
        rl.sleep(0)
      end
    end)
    group:wait()
  end
end

local function new_pair() return { condition = rl.condition() } end

local function wait_for_pair(pair)
  if not pair.is_done then pair.condition:wait() end
  return pair.value
end

local function answer_pair(pair, value)
  pair.value, pair.is_done = value, true
  pair.condition:signal()
end

row("future made, completed, awaited: without waiting", 0.3, 200000, function(n)
  for i = 1, n do
    local future = rl.future()
    future:complete(i)
    future:await()
  end
end, function(n)
  for i = 1, n do
    local pair = new_pair()
    answer_pair(pair, i)
    wait_for_pair(pair)
  end
end)

row("future made, completed, awaited: waiting", 0.4, 100000,
  answered(rl.future, function(future) return future:await() end, function(future, value) future:complete(value) end),
  answered(new_pair, wait_for_pair, answer_pair))

row("lock and unlock of a free mutex", 0.5, 200000, function(n)
  local mutex = rl.mutex()
  for _ = 1, n do
    local held = mutex:lock()
    held:unlock()
  end
end, function(n)
  local channel = rl.channel(1)
  for _ = 1, n do
    channel:send(true)
    channel:receive()
  end
end)

row("a value of rl.locals", 3, 1000000, function(n)
  rl.locals.name = 1
  for _ = 1, n do local _ = rl.locals.name end
end, function(n)
  local fields = { name = 1 }
  local function get() return fields end
  for _ = 1, n do local _ = get().name end
end)

local function increment(number) return number + 1 end
local function add(one, number) return number + one end
local pool <close> = rl.pool { setup = function() return 1 end }
row("call of a pool with setup", 1.1, 10000, function(n) for i = 1, n do pool:run(add, i) end end,
  function(n) for i = 1, n do rl.blocking(increment, i) end end)
