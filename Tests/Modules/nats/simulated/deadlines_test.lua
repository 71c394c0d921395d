-- Simulated: more jobs than workers can do. No job may begin after its caller has stopped waiting.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

local JOBS = os.getenv "RLHOST_SIMULATE" and 1000 or 100
local LATENCY = 0.002

t.it("no job begins after the time limit of its call", { timeout = 120 }, function()
  local fake = nats.fake { latency = LATENCY, jetstream = true }
  local function connect()
    local bus = t.truthy(nats.connect(fake))
    t.finally(function() bus:close() end)
    return bus
  end
  local begun, latest, done, late = 0, -math.huge, 0, 0
  -- All processes share one clock here, so a job can compare the time with its caller's deadline. The message of a job
  -- travels for two latencies.
  local function work(ends, seconds)
    begun, latest = begun + 1, math.max(latest, rl.now() - ends)
    rl.sleep(seconds)
    return true
  end
  local clients, workers = {}, {}
  for i, durable in ipairs { false, true } do
    local name = "jobs" .. i
    for _ = 1, 3 do
      local bus = connect()
      workers[#workers + 1] = t.truthy(rl.worker { via = bus, name = name, functions = { work = work },
        concurrency = math.random(3) })
    end
    clients[i] = function(timeout)
      local pool <close> = t.truthy(rl.pool { via = connect(), name = name, timeout = timeout, durable = durable })
      local fine = pcall(pool.run, pool, "work", rl.now() + timeout, math.random())
      done, late = done + (fine and 1 or 0), late + (fine and 0 or 1)
    end
  end
  local tasks = {}
  for i = 1, JOBS do
    tasks[i] = rl.task { clients[i % 2 + 1], 0.1 + math.random() * 4 }
    rl.sleep(math.random() / 20)
  end
  for i = 1, JOBS do tasks[i]:await() end
  rl.sleep(60)
  t.truthy(latest <= 3 * LATENCY, ("a job began %g s after its end"):format(latest))
  t.truthy(done > 0 and late > 0 and begun >= done)
  for _, worker in ipairs(workers) do worker:invalidate() end
  if os.getenv "RLHOST_SIMULATE" then
    print(("sum\tjobs done\t%d\nsum\tjobs given up\t%d\nmax\tms by which one began late\t%.1f"):format(done, late,
      math.max(0, latest) * 1000))
  end
end)
