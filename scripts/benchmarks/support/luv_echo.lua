-- TCP echo by luv: server and clients in one process. Prints the seconds of processor time for each echo. Arguments:
-- "bridge" for runloop.luv, otherwise luv runs its loop itself; connections; echoes.
local is_bridged, connections, total = arg[1] == "bridge", tonumber(arg[2]), tonumber(arg[3])
if is_bridged then require "runloop.luv" end
local uv = require "luv"

local done, began, clients = 0, nil, {}
local server = uv.new_tcp()
server:bind("127.0.0.1", 0)
server:listen(128, function()
  local peer = uv.new_tcp()
  server:accept(peer)
  peer:read_start(function(_, bytes)
    if bytes then peer:write(bytes) else peer:close() end
  end)
end)

local function finish()
  print(("%.9f"):format((os.clock() - began) / total))
  for _, client in ipairs(clients) do client:close() end
  server:close()
end

for i = 1, connections do
  local client = uv.new_tcp()
  clients[i] = client
  client:connect("127.0.0.1", server:getsockname().port, function()
    client:read_start(function(_, bytes)
      if not bytes or done == total then return end
      done = done + 1
      if done == total then return finish() end
      client:write(bytes)
    end)
    began = began or os.clock()
    client:write "twenty bytes of text"
  end)
end
if not is_bridged then uv.run() end
