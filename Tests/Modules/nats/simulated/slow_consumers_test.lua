-- Simulated: subscriptions that are too slow. Memory has a bound, and all that is dropped is counted.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

local MESSAGES = os.getenv "RLHOST_SIMULATE" and 20000 or 3000

t.it("slow subscriptions keep no more messages than their limits", { timeout = 120 }, function()
  local fake, slow = nats.fake { latency = 0.001 }, 0
  local bus, sender = t.truthy(nats.connect(fake, { on_event = function(_, event)
    if event == "slow" then slow = slow + 1 end
  end })), t.truthy(nats.connect(fake))
  local subscriptions, room = {}, 0
  for i = 1, 10 do
    local options = { max_pending = math.random(200), max_bytes = math.random(1 << 18), keeps_alive = false,
      concurrency = math.random(3) }
    room = room + options.max_bytes
    local one = bus:subscribe("s", options, function() rl.sleep(math.random() / 10) end)
    subscriptions[i] = { one = one, options = options }
  end
  bus:flush()
  collectgarbage()
  local before, largest = collectgarbage "count", 0
  for number = 1, MESSAGES do
    sender:publish("s", ("x"):rep(math.random(0, 4096)))
    if number % 50 == 0 then
      rl.sleep(math.random() / 100)
      for _, each in ipairs(subscriptions) do
        local stats = each.one:stats()
        t.truthy(stats.pending <= each.options.max_pending and stats.pending_bytes <= each.options.max_bytes)
      end
    end
    if number % 1000 == 0 then
      sender:flush()
      bus:flush()
      -- The fake's list of lines is not the bus's memory.
      fake._received = {}
      collectgarbage()
      largest = math.max(largest, collectgarbage "count" - before)
    end
  end
  -- 300 bytes for each message besides its data, and 1 MB for the data on its way.
  t.truthy(largest * 1024 < room + 10 * 200 * 300 + (1 << 20), largest)
  sender:flush()
  bus:flush()
  local dropped = 0
  for _, each in ipairs(subscriptions) do
    local stats = each.one:stats()
    t.equal(stats.received + stats.dropped, MESSAGES)
    dropped = dropped + stats.dropped
  end
  t.truthy(dropped > 0 and slow > 0)
  bus:close()
  sender:close()
  if os.getenv "RLHOST_SIMULATE" then
    print(("sum\tmessages dropped\t%d\nmax\tkB more memory\t%.0f\nmax\tkB that the limits allow\t%.0f"):format(dropped,
      largest, room / 1024))
  end
end)
