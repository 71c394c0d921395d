-- Servers and clients with little memory, whose peers send much.

local http, net, process = require "runloop.http", require "runloop.net", require "runloop.process"
local t = require "runloop.test"

t.it("a body that exceeds the server's memory ends its connection only", { real_time = true, timeout = 60 }, function()
  local program <close> = t.spawn { t.rlhost, "--memory=8M", "-e", [[
    local http = require "runloop.http"
    local server = assert(http.serve({ host = "127.0.0.1", port = 0 }, function(request)
      return "length " .. #(request:body() or "")
    end))
    print(server:address())
  ]] }
  local where = program:wait_for "127.0.0.1:%d+"
  local chunk = "10000\r\n" .. ("x"):rep(65536) .. "\r\n"
  for _ = 1, 24 do
    local stream <close> = assert(net.connect(where))
    stream:write "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ = 1, 150 do
      stream:write(chunk)
      if not stream:flush(10) then break end
    end
    stream:write "0\r\n\r\n"
    stream:read_line { timeout = 10 }
  end
  t.equal(http.post("http://" .. where .. "/", { body = "text" }).body, "length 4")
  t.truthy(program:is_running())
end)

t.it("a message that exceeds the memory ends its WebSocket only", { real_time = true, timeout = 60 }, function()
  local server <close> = assert(http.serve("127.0.0.1:0", function(request)
    local socket = request:websocket()
    socket:send(("x"):rep(10 << 20))
    socket:receive(10)
  end))
  local answer = process.run { t.rlhost, "--memory=8M", "-", input = ([[
    local http = require "runloop.http"
    for _ = 1, 6 do
      local socket = assert(http.websocket("ws://%s/", { max_message = 1 << 25 }))
      print(select(3, socket:receive(10)))
    end
  ]]):format(server:address()) }
  t.equal({ answer.code, answer.output, answer.errors }, { 0, ("ENOMEM\n"):rep(6), "" })
end)
