-- A work queue. `rlhost queue.lua feed 20` stores 20 jobs; `rlhost queue.lua work`, in any number of terminals, handles
-- them. Kill a worker in the middle of a job: another one gets it within 10 seconds. Kill the server and start it
-- again: all programs go on. The last argument is the server's address.

local rl, nats = require "runloop", require "runloop.nats"

local command = arg[1]
local address = arg[command == "feed" and 3 or 2] or "nats://localhost:4222"
local bus = assert(nats.connect(address, { retry = true }))
local queue = assert(bus:stream("queue", { subjects = { "queue.>" }, retention = "workqueue" }))

if command == "feed" then
  for i = 1, math.tointeger(arg[2]) or 10 do
    local stored = assert(queue:publish("queue.job", "job " .. i))
    print("stored", stored.seq)
  end
elseif command == "work" then
  local settings = { ack_wait = 5, max_deliver = 20, batch = 1 }
  assert(queue:consumer("workers", settings, function(m)
    print("begin", m.data, "delivered " .. m.delivered)
    rl.sleep(1)
    print("done", m.data)
  end))
  print "ready"
else
  error("usage: rlhost queue.lua feed [COUNT [ADDRESS]] | work [ADDRESS]", 0)
end
