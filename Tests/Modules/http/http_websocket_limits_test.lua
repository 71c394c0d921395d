-- runloop.http: how much a WebSocket buffers of a peer that sends without end, and how waiting tasks end.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
local native = part "runloop.http.native"
local handshake = part "runloop.http.handshake"

local HANDSHAKE = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
  .. "Sec-WebSocket-Version: 13\r\n"
  .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

-- Makes either end of a WebSocket, and passes it to `use`. Returns the stream for its frames, and the mask bit of a
-- frame.
local ENDS = {
  server = function(use)
    local near, far = net.memory()
    http.serve("memory", function(request) use(request:websocket { max_message = 100000 }) end):accept(far)
    near:write(HANDSHAKE)
    near:read_until "\r\n\r\n"
    return near, "\x80\0\0\0\0"
  end,
  client = function(use)
    local near, far = net.memory()
    rl.task(function() use(handshake.connect(far, "/", "x", { max_message = 100000 })) end)
    local key = near:read_until "\r\n\r\n":match "[kK]ey: ([^\r]+)"
    near:write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
      .. native.accept_key(key) .. "\r\n\r\n")
    return near, "\0"
  end,
}

for name, open in pairs(ENDS) do
  t.describe("a peer of a " .. name .. " that sends without end", function()
    t.it("is slowed down if it sends empty messages", function()
      local COUNT <const> = 200000
      local count, socket, goes_on = 0, nil, rl.condition()
      local near, rest = open(function(opened)
        socket = opened
        goes_on:wait()
        while count < COUNT do
          t.equal(socket:receive(), "")
          count = count + 1
        end
        opened:close()
      end)
      near:queue((("\x81" .. rest):rep(COUNT)))
      rl.sleep(10)
      local core = rawget(socket, "core") or socket
      local kept = core.last - core.first
      t.truthy(near:queue() > 0 and kept < 40000, ("%d bytes wait, and %d messages"):format(near:queue(), kept))
      goes_on:broadcast()
      -- No message is lost.
      for _ = 1, 1000 do if count < COUNT then rl.sleep(0.1) end end
      t.equal(count, COUNT)
      near:abort()
    end)

    t.it("leaves no memory behind with empty fragments", function()
      local COUNT <const> = 300000
      local told
      local near, rest = open(function(socket)
        told = socket:receive()
        socket:close()
      end)
      near:write("\1" .. rest)
      local fragments = ("\0" .. rest):rep(COUNT // 10)
      collectgarbage()
      local before = collectgarbage "count"
      for _ = 1, 10 do assert(near:write(fragments)) end
      near:flush(100)
      rl.sleep(1)
      collectgarbage()
      local grown = collectgarbage "count" - before
      t.truthy(grown < 1000, grown .. " kB")
      near:write("\x80" .. rest)
      rl.sleep(1)
      t.equal(told, "")
      near:abort()
    end)
  end)
end

t.describe("a task that waits in a WebSocket of a server", function()
  local function told(handler, leave)
    local results
    local near, far = net.memory()
    http.serve("memory", function(request)
      handler(function()
        local socket = request:websocket()
        rl.task(function() results = table.pack(socket:receive()) end)
      end)
    end):accept(far)
    near:write(HANDSHAKE)
    near:read_until "\r\n\r\n"
    leave(near)
    rl.sleep(1)
    near:abort()
    return results
  end

  t.it("gets the end if the handler returns at once", function()
    t.equal(told(function(open) open() end, function() end), { n = 1 })
  end)

  t.it("gets the end if the client leaves without a close frame", function()
    t.equal(told(function(open)
      rl.sleep(0.1)
      open()
      rl.sleep(100)
    end, function(near) near:abort() end)[3], "ECONNRESET")
  end)
end)
