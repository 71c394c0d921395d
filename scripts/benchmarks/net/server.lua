-- The server of the network's benchmarks, on rlhost: server.lua WORKLOAD PORT

local rl, net = require "runloop", require "runloop.net"
local workload, port, directory = arg[1], arg[2], arg[3]
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

local function certificate() return { certificate = directory .. "/cert.pem", key = directory .. "/key.pem" } end

if workload == "http" then
  local http = require "runloop.http"
  local routes = http.routes()
  routes:get("/", function() return "hello world" end)
  routes:get("/json", function()
    return http.json { id = 7, name = "item 7", tags = { "a", "b", "c" }, price = 9.5 }
  end)
  assert(http.serve("127.0.0.1:" .. port, routes))
elseif workload == "websocket" then
  local routes = require "runloop.http".routes()
  routes:websocket("/", { compress = false }, function(socket)
    for message, kind in socket:messages() do socket:send(message, kind) end
  end)
  assert(require "runloop.http".serve("127.0.0.1:" .. port, routes))
elseif workload == "tls_answer" then
  assert(net.serve("127.0.0.1:" .. port, { tls = certificate() }, function(stream) stream:read() end))
elseif workload == "tls_source" then
  local block = ("x"):rep(65536)
  assert(net.serve("127.0.0.1:" .. port, { tls = certificate() }, function(stream)
    for _ = 1, 5000 do if not stream:write(block) then break end end
  end))
elseif workload == "idle_data" then
  rl.current():add(assert(net.listener { host = "127.0.0.1", port = tonumber(port), on_data = function() end }),
    "common")
else
  assert(net.serve("127.0.0.1:" .. port, handlers[workload]))
end
