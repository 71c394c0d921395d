-- A leader among programs: run `rlhost leader.lua NAME [ADDRESS]` in several terminals. End the leader, or stop it with
-- Control-Z: another program soon becomes the leader. When the stopped one continues, it first reports that it has lost
-- the lease.

local rl, nats = require "runloop", require "runloop.nats"

local name = arg[1] or "somebody"
local bus = assert(nats.connect(arg[2] or "nats://localhost:4222", { name = name }))

local function lead(epoch)
  while true do
    print(name, "leads", "epoch " .. epoch)
    rl.sleep(1)
  end
end

while bus:is_open() do
  print(name, "waits")
  local lease <close> = assert(bus:lease("leader", { ttl = 2 }))
  print(name, select(2, lease:run(lead, lease:epoch())))
end
