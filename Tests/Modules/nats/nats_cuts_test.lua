-- runloop.nats when connections are cut at a random byte, or stall: each call is answered once or refused once, and no
-- waiter stays. `scripts/soak cuts` runs many rounds.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

local ROUNDS = tonumber(os.getenv "RLHOST_ROUNDS") or 10
local KNOWN = { ECONNRESET = true, ENOENT = true, ["timed out"] = true }
-- The number of calls that ended in each of these ways.
local outcomes = { answered = 0, refused = 0 }

-- Calls a function, which ends once: with a value, or with a reason that is known.
local function once(call)
  local value, text, code = call()
  local how = value and "answered" or "refused"
  outcomes[how] = outcomes[how] + 1
  if not value then t.truthy(KNOWN[code or text], text) end
  return value
end

-- Cuts or stalls the connections of a fake, now or after some bytes.
local function harm(fake)
  if math.random() < 0.2 then fake:stall(math.random() * 2) end
  if math.random() < 0.1 then fake:stop() rl.after(math.random(), function() fake:start() end) end
  fake:drop(math.random(0, 3000))
end

local function connect(fake)
  return t.truthy(nats.connect(fake, { reconnect = { first = 0.01, most = 0.1 }, retry = true, ping = 1 }))
end

-- Makes `count` calls at random moments of a short time, and waits for all.
local function spread(count, call)
  local tasks = {}
  for i = 1, count do
    tasks[i] = rl.task(function()
      rl.sleep(math.random() / 50)
      return call(i)
    end)
  end
  for i = 1, count do tasks[i]:await() end
end

-- Checks that no task and no request waits at the end.
local function settle(fake, ...)
  fake._drop_after = nil
  -- A worker's function that still runs answers later.
  rl.sleep(1)
  for _, bus in ipairs { ... } do
    t.equal(bus:stats().requests, 0)
    t.equal(bus:flush(60), true)
    t.equal({ bus:unconfirmed() }, { 0, 0 })
    bus:close()
  end
end

t.it("each request gets one answer or one refusal over random cuts", { timeout = 10 + ROUNDS }, function()
  for _ = 1, ROUNDS do
    local fake = nats.fake { latency = 0.0001 }
    local bus, other = connect(fake), connect(fake)
    local handled = {}
    other:subscribe("echo", { keeps_alive = false, concurrency = 8 }, function(m)
      handled[m.data] = (handled[m.data] or 0) + 1
      rl.sleep(math.random() / 1000)
      m:respond(m.data)
    end)
    other:flush()
    harm(fake)
    spread(60, function(i)
      local m = once(function() return bus:request("echo", tostring(i), { timeout = 1 }) end)
      if m then t.equal(m.data, tostring(i)) end
    end)
    for _, times in pairs(handled) do t.equal(times, 1) end
    settle(fake, bus, other)
  end
end)

t.it("each message is stored once over random cuts, or reported as perhaps lost", { timeout = 10 + ROUNDS }, function()
  for _ = 1, ROUNDS do
    local fake = nats.fake { latency = 0.0001, jetstream = true }
    local bus = connect(fake)
    local stream = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
    local bucket = t.truthy(bus:bucket("b", {}))
    local stored = {}
    harm(fake)
    spread(20, function(i)
      local done = once(function() return stream:publish("s.a", tostring(i), { timeout = 30 }) end)
      if done then stored[i] = done.seq end
      once(function() return bucket:put("k" .. i, "x") end)
    end)
    local numbers, there = {}, fake._store.streams.s.messages
    for i, seq in pairs(stored) do
      t.equal(numbers[seq], nil)
      numbers[seq] = i
      t.equal(there[seq].data, tostring(i))
    end
    local seen = {}
    for _, message in pairs(there) do
      t.equal(seen[message.data], nil)
      seen[message.data] = true
    end
    settle(fake, bus)
  end
  if os.getenv "RLHOST_ROUNDS" then
    print(("sum\trounds\t%d\nsum\tcalls answered\t%d\nsum\tcalls refused\t%d"):format(2 * ROUNDS, outcomes.answered,
      outcomes.refused))
  end
end)
