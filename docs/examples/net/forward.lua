-- Forwards connections from one address to another, as in: forward.lua 8080 localhost:80, or 5432
-- unix:/run/postgresql/.s.PGSQL.5432
--
--   rlhost forward.lua WHERE WHERE

local rl, net = require "runloop", require "runloop.net"
local from, to = assert(arg[1], "from where?"), assert(arg[2], "to where?")

local function copy(source, target)
  if net.copy(source, target) then target:finish() else target:abort() end
end

local listener = assert(net.serve(from, function(client)
  local server <close>, problem = net.connect(to)
  if not server then return io.stderr:write(problem, "\n") end
  local back = rl.task(copy, server, client)
  copy(client, server)
  back:await()
end))

print("forwarding " .. listener:address() .. " to " .. to)
io.stdout:flush()
