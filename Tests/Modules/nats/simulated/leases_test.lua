-- Simulated: leases whose holders and takers are cut off, on machines whose clocks run up to 20 % apart. There are
-- never two holders.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

local NAMES, CONTENDERS, TTL = 10, 3, 2
local PARTITIONS = os.getenv "RLHOST_SIMULATE" and 2000 or 100

local holders, most, taken = {}, 0, 0

-- Takes a lease again and again, and holds it for a while.
local function contend(bus, name)
  local epoch = 0
  while bus:is_open() do
    local lease = bus:lease(name, { ttl = TTL })
    if lease then
      t.truthy(lease:epoch() > epoch)
      epoch, taken = lease:epoch(), taken + 1
      lease:run(function()
        local _ <close> = setmetatable({}, { __close = function() holders[name] = holders[name] - 1 end })
        holders[name] = (holders[name] or 0) + 1
        most = math.max(most, holders[name])
        rl.sleep(math.random() * 20)
      end)
      if math.random() < 0.5 then lease:invalidate() end
    end
  end
end

t.it("each lease has at most one holder while processes are cut off and clocks differ", { timeout = 120 }, function()
  local fake, buses = nats.fake { latency = 0.002, jetstream = true }, {}
  for i = 1, NAMES * CONTENDERS do
    local bus = t.truthy(nats.connect(fake))
    -- The slowest clock and the fastest one differ by a fifth.
    bus._pace = 1 + 0.2 * (i % 2 == 0 and math.random() or math.random(0, 1))
    buses[i] = bus
    rl.task { contend, bus, "lease" .. i % NAMES, keeps_alive = false }
  end
  for _ = 1, PARTITIONS do
    rl.sleep(math.random() / 4)
    local client = fake._clients[math.random(math.max(1, #fake._clients))]
    if client and math.random() < 0.9 then
      fake:_cut(client, math.random() * 3 * TTL)
    elseif client then
      client.stream:abort()
    end
  end
  t.equal(most, 1)
  t.truthy(taken > PARTITIONS / 20, taken)
  for _, bus in ipairs(buses) do bus:close() end
  if os.getenv "RLHOST_SIMULATE" then
    print(("sum\tpartitions\t%d\nsum\tleases taken\t%d\nmax\tholders at one time\t%d"):format(PARTITIONS, taken, most))
  end
end)
