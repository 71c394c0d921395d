-- Keeps 50 WebSockets busy, with one message under way on each: websocket_load.lua PORT COUNT

local rl, http = require "runloop", require "runloop.http"
local left, text = tonumber(arg[2]), ("x"):rep(64)
local group = rl.group()
for _ = 1, 50 do
  group:task(function()
    local socket = assert(http.websocket("ws://127.0.0.1:" .. arg[1] .. "/", { compress = false }))
    while left > 0 do
      left = left - 1
      socket:send(text)
      assert(socket:receive() == text)
    end
    socket:close()
  end)
end
group:wait()
