-- A service for the users of this machine, on a Unix socket. It sends each client the number of the client's user,
-- which the kernel guarantees. Only the owner of the service may stop it.
--
--   rlhost service.lua PATH        and then: socat - UNIX-CONNECT:PATH

local net = require "runloop.net"
local own = io.open("/proc/self/status"):read("a"):match "Uid:%s*(%d+)"
local server

server = assert(net.serve({ path = arg[1] }, { mode = 438 }, function(client)     -- 438 is 0666: everybody may connect
  local who = assert(client:credentials())
  client:write("you are process ", who.pid, " of user ", who.uid, "\n")
  for command in client:lines { max = 100, timeout = 60 } do
    if command == "stop" and tostring(who.uid) == own then
      client:write "stopping\n"
      return server:close()
    end
    client:write("unknown command: ", command, "\n")
  end
end))

print("listening on " .. server:address())
io.stdout:flush()
