-- The server of the network's benchmarks, on rlhost: server.lua WORKLOAD PORT

local rl, net = require "runloop", require "runloop.net"
local workload, port = arg[1], arg[2]
local room = {}

local handlers = {
  echo = function(stream)
    while true do
      local bytes = stream:read()
      if not bytes then return end
      stream:write(bytes)
    end
  end,
  lines = function(stream)
    for line in stream:lines() do stream:write(line, "\n") end
  end,
  sink = function(stream)
    local count = 0
    while true do
      local bytes = stream:read()
      if not bytes then break end
      count = count + #bytes
    end
    stream:write(count, "\n")
  end,
  answer = function(stream)
    stream:read()
    stream:write "hello\n"
  end,
  idle = function(stream) stream:read_line() end,
  chat = function(stream)
    room[stream] = true
    for line in stream:lines() do
      for other in pairs(room) do
        if other ~= stream then other:queue(line, "\n") end
      end
    end
    room[stream] = nil
  end,
}

if workload == "idle_data" then
  rl.current():add(assert(net.listener { host = "127.0.0.1", port = tonumber(port), on_data = function() end }), "common")
else
  assert(net.serve("127.0.0.1:" .. port, handlers[workload]))
end
