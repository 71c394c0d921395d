-- Simulated: a work queue whose workers are killed. Each job is acknowledged at least once, and has its effect once.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

local JOBS, WORKERS = os.getenv "RLHOST_SIMULATE" and 200 or 60, 5

-- Returns a bus, which is closed after the test.
local function connect(fake, options)
  local bus = t.truthy(nats.connect(fake, options))
  t.finally(function() bus:close() end)
  return bus
end

-- Starts a worker. Returns a function that ends the worker as SIGKILL would: without a further message.
local function start(fake, handle)
  local bus = connect(fake, { reconnect = false, retry = true, timeout = 60 })
  local client = fake._clients[#fake._clients]
  local work = t.truthy(bus:stream "work")
  t.truthy(work:consumer("w", { ack_wait = 5, max_deliver = 1000, concurrency = math.random(3), keeps_alive = false,
    batch = math.random(10) }, function(m) handle(m, bus) end))
  return function()
    bus._is_killed = true
    client.stream:abort()
  end
end

t.it("each job of a work queue has one effect, although workers are killed", { timeout = 120 }, function()
  local fake = nats.fake { latency = 0.001, jetstream = true }
  local bus = connect(fake)
  local work = t.truthy(bus:stream("work", { subjects = { "work.>" }, retention = "workqueue" }))
  t.truthy(work:consumer("w", { ack_wait = 5, max_deliver = 1000 })):invalidate()
  -- The effects, by id: a job that ran twice has two.
  local effects, applied, again, kills = {}, 0, 0, 0
  local function handle(m, worker)
    if m.delivered > 1 then again = again + 1 end
    rl.sleep(math.random() * 3)
    if worker._is_killed then return rl.sleep(1 << 30) end
    local id = m.headers["Nats-Msg-Id"]
    if not effects[id] then effects[id], applied = m.data, applied + 1 end
    rl.sleep(math.random() / 2)
    if worker._is_killed then return rl.sleep(1 << 30) end
  end
  local kill = {}
  for i = 1, WORKERS do kill[i] = start(fake, handle) end
  local feeding = rl.task(function()
    for i = 1, JOBS do
      t.truthy(work:publish("work.job", tostring(i), { id = "job " .. i }))
      rl.sleep(math.random() / 4)
    end
  end)
  local killing = rl.task { function()
    while true do
      rl.sleep(math.random() * 4)
      local index = math.random(WORKERS)
      kill[index]()
      kills = kills + 1
      rl.sleep(math.random())
      kill[index] = start(fake, handle)
    end
  end, keeps_alive = false }
  feeding:await()
  local tries = 0
  while work:info().messages > 0 and tries < 3000 do
    rl.sleep(1)
    tries = tries + 1
  end
  killing:cancel()
  t.equal({ work:info().messages, applied }, { 0, JOBS })
  for i = 1, JOBS do t.equal(effects["job " .. i], tostring(i)) end
  for i = 1, WORKERS do kill[i]() end
  bus:close()
  if os.getenv "RLHOST_SIMULATE" then
    print(("sum\tjobs\t%d\nsum\tkills\t%d\nsum\tdelivered again\t%d"):format(JOBS, kills, again))
  end
end)
