-- The server of the network's benchmarks, on cqueues, a coroutine for each connection: server_cqueues.lua WORKLOAD PORT

local cqueues, socket = require "cqueues", require "cqueues.socket"
local workload, port = arg[1], tonumber(arg[2])

local handlers = {
  echo = function(c)
    c:setmode("bn", "bn")
    while true do
      local bytes = c:read(-65536)
      if not bytes then break end
      c:write(bytes)
    end
  end,
  lines = function(c)
    c:setmode("tn", "bn")
    for line in c:lines "*l" do c:write(line .. "\n") end
  end,
  sink = function(c)
    c:setmode("bn", "bn")
    local count = 0
    while true do
      local bytes = c:read(-65536)
      if not bytes then break end
      count = count + #bytes
    end
    c:write(count .. "\n")
  end,
  answer = function(c)
    c:setmode("bn", "bn")
    c:read(-65536)
    c:write "hello\n"
  end,
  idle = function(c) c:read "*l" end,
}

local queue = cqueues.new()
local server = socket.listen { host = "127.0.0.1", port = port, backlog = 4096, nodelay = true }
queue:wrap(function()
  for client in server:clients() do
    queue:wrap(function()
      client:onerror(function(_, _, code) return code end)
      handlers[workload](client)
      client:close()
    end)
  end
end)
assert(queue:loop())
