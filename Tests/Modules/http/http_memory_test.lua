-- A server with little memory, whose clients send much.

local http, net = require "runloop.http", require "runloop.net"
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
