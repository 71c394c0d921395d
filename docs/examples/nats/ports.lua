-- A message port on one machine, and programs on others that use it. The server is at ADDRESS.
--
--   rlhost ports.lua hold NAME [ADDRESS]
--   rlhost ports.lua ask NAME ID TEXT [ADDRESS]       prints the answer
--   rlhost ports.lua where NAME [ADDRESS]             prints the host and the process that hold the port
--
-- port_holder.py, in Python, holds such a port, too.

local rl, nats = require "runloop", require "runloop.nats"

local command, name = arg[1], arg[2]
local bus = assert(nats.connect(arg[command == "ask" and 5 or 3] or "nats://localhost:4222"))

-- The functions of the port, by the id of a message.
local services = {
  [1] = function(text) return text:upper() end,
  [2] = function(text)
    rl.sleep(tonumber(text))
    return "slept " .. text
  end,
  [3] = function(text) error(text, 0) end,
  [5] = function(text) return text:rep(3) end,
}

if command == "hold" then
  rl.on_error(function(err) print("error", err) end)
  assert(rl.message_port { name = name, via = bus, modes = "common", callback = function(_, id, data)
    print("got " .. id, data:sub(1, 100))
    io.flush()
    return services[id] and services[id](data)
  end })
  print "ready"
  io.flush()
elseif command == "ask" then
  local remote = assert(rl.remote_port(name, { via = bus }))
  print(remote:request(math.tointeger(arg[3]), arg[4]))
else
  print(assert(rl.remote_port(name, { via = bus })):host())
end
