-- The server of the network's benchmarks, on luv, with callbacks: server_luv.lua WORKLOAD PORT

local uv = require "luv"
local workload, port = arg[1], tonumber(arg[2])
local room = {}

local handlers = {
  echo = function(c) c:read_start(function(_, d) if d then c:write(d) else c:close() end end) end,
  lines = function(c)
    local rest = ""
    c:read_start(function(_, d)
      if not d then return c:close() end
      rest = rest .. d
      local first = 1
      while true do
        local at = rest:find("\n", first, true)
        if not at then break end
        c:write { rest:sub(first, at - 1), "\n" }
        first = at + 1
      end
      rest = rest:sub(first)
    end)
  end,
  sink = function(c)
    local count = 0
    c:read_start(function(_, d)
      if d then count = count + #d else c:write(count .. "\n", function() c:close() end) end
    end)
  end,
  answer = function(c)
    c:read_start(function(_, d)
      if d then c:write("hello\n", function() c:close() end) elseif not c:is_closing() then c:close() end
    end)
  end,
  idle = function(c) c:read_start(function(_, d) if not d then c:close() end end) end,
  chat = function(c)
    room[c] = true
    local rest = ""
    c:read_start(function(_, d)
      if not d then room[c] = nil return c:close() end
      rest = rest .. d
      for line in rest:gmatch "([^\n]*)\n" do
        for other in pairs(room) do if other ~= c then other:write { line, "\n" } end end
      end
      rest = rest:match "[^\n]*$"
    end)
  end,
}
handlers.idle_data = handlers.idle

local server = uv.new_tcp()
server:bind("127.0.0.1", port)
server:listen(4096, function()
  local client = uv.new_tcp()
  server:accept(client)
  client:nodelay(true)
  handlers[workload](client)
end)
uv.run()
