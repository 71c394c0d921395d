-- runloop.http: WebSockets. The cases are those of the Autobahn test suite, written again for these tests.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local function echo(options)
  local app = http.routes()
  app:websocket("/ws", options or {}, function(socket)
    for message, kind in socket:messages() do socket:send(message, kind) end
  end)
  return app
end

-- Returns a connection after its handshake, for frames made by hand.
local function raw(options, extension)
  local near, far = net.memory()
  http.serve("memory", echo(options)):accept(far)
  near:write("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    .. "Sec-WebSocket-Version: 13\r\n"
    .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" .. (extension or "") .. "\r\n")
  local head = near:read_until "\r\n\r\n"
  return near, head
end

-- Makes a masked frame; `first` is its first byte.
local function frame(first, payload, length_bytes)
  local mask, masked = "\1\2\3\4", {}
  for i = 1, #payload do masked[i] = string.char(payload:byte(i) ~ mask:byte((i - 1) % 4 + 1)) end
  local size = #payload
  local length = length_bytes == 8 and "\255" .. string.pack(">I8", size) or length_bytes == 2
    and "\254" .. string.pack(">I2", size)
    or size < 126 and string.char(128 | size) or size < 65536 and "\254" .. string.pack(">I2", size)
      or "\255" .. string.pack(">I8", size)
  return string.char(first) .. length .. mask .. table.concat(masked)
end

-- Reads the next frame of the server: its first byte and payload.
local function read_frame(near)
  local head = near:read_exactly(2)
  if not head then return nil end
  local first, size = head:byte(1, 2)
  if size == 126 then size = string.unpack(">I2",
    near:read_exactly(2)) elseif size == 127 then size = string.unpack(">I8", near:read_exactly(8)) end
  return first, size > 0 and near:read_exactly(size) or ""
end

-- Returns the close code that the server answers these frames with. Frames that come before the close frame are
-- skipped.
local function close_code(bytes, options)
  local near <close> = raw(options)
  near:write(bytes)
  while true do
    local first, payload = read_frame(near)
    if not first then return "ended" end
    if first == 0x88 then return #payload >= 2 and string.unpack(">I2", payload) or "none" end
  end
end

t.describe("the handshake", function()
  t.it("is answered as in the standard's example", function()
    local near, head = raw()
    t.truthy(head:find "^HTTP/1.1 101 Switching Protocols\r\n")
    t.truthy(head:lower():find("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=", 1, true))
    near:close()
  end)

  t.it("fails at a server without WebSockets", function()
    local client = t.http(echo())
    local plain = client:get "/ws"
    t.equal({ plain.status, plain.headers.upgrade }, { 426, "websocket" })
    local socket, problem, code = t.http(function() return "no" end):websocket "/ws"
    t.equal({ socket, problem, code }, { nil, "EPROTO: the server does not speak WebSocket here (200 OK)", "EPROTO" })
  end)

  t.it("accepts URLs of both schemes, as browsers do", function()
    local server <close> = http.serve(0, echo())
    for _, scheme in ipairs { "ws", "http" } do
      local socket <close> = assert(http.websocket(scheme .. "://" .. server:address() .. "/ws"))
      socket:send "a"
      t.equal((socket:receive()), "a")
      socket:close()
    end
    local failed, problem = pcall(http.websocket, "tcp://x")
    t.equal({ failed, problem:match "http.websocket: .*" }, { false,
      "http.websocket: argument #1 must be a URL that begins with ws://, wss://, http:// or https://, "
        .. 'got "tcp://x"' })
    failed, problem = pcall(http.websocket, "ws://x/", { unix = "" })
    t.equal({ failed, problem:match "http.websocket: .*" }, { false,
      "http.websocket: field 'unix' must be the path of a socket, or \"@name\", got \"\"" })
  end)

  t.it("that takes too long is ended", function()
    t.equal({ t.http(function() rl.sleep(60) end):websocket("/ws", { timeout = 5 }) }, { nil, "timed out" })
  end)

  t.it("agrees on the first protocol of the server that the client offers", function()
    local socket <close> = t.http(echo { protocols = { "b", "a" } }):websocket("/ws", { protocols = { "a", "b" } })
    t.equal(socket.protocol, "b")
  end)

  -- Returns the protocol that a client with these options accepts from a server that answers with these fields.
  local function chosen(fields, settings, connection)
    local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
    local native = part "runloop.http.native"
    local listener = net.serve("127.0.0.1:0", function(stream)
      local key = stream:read_until "\r\n\r\n":match "[kK]ey: ([^\r]+)"
      stream:write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n",
        connection or "Connection: Upgrade\r\n", "Sec-WebSocket-Accept: ",
        native.accept_key(key), "\r\n", fields, "\r\n")
      stream:read { timeout = 1 }
    end)
    local guard <close> = setmetatable({}, { __close = function() listener:stop(0) end })
    local socket, problem, code = http.websocket("ws://" .. listener:address(), settings)
    if not socket then return nil, problem, code end
    local open <close> = socket
    return open.protocol
  end

  t.it("accepts no protocol that it has not offered", { real_time = true, timeout = 30 }, function()
    local PROBLEM <const> = "EPROTO: the server has chosen a protocol that was not offered: "
    local chat = { protocols = { "chat", "superchat" } }
    local NOPE <const> = "Sec-WebSocket-Protocol: nope\r\n"
    t.equal({ chosen(NOPE, chat) }, { nil, PROBLEM .. "nope", "EPROTO" })
    t.equal({ chosen(NOPE) }, { nil, PROBLEM .. "nope", "EPROTO" })
    t.equal({ chosen("Sec-WebSocket-Protocol: Chat\r\n", chat) }, { nil, PROBLEM .. "Chat", "EPROTO" })
    t.equal({ chosen("Sec-WebSocket-Protocol: chat, superchat\r\n", chat) },
      { nil, PROBLEM .. "chat, superchat", "EPROTO" })
    t.equal({ chosen("Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: chat\r\n", chat) },
      { nil, PROBLEM .. "chat, chat", "EPROTO" })
    t.equal({ chosen("Sec-WebSocket-Protocol: superchat\r\n", chat) }, { "superchat" })
    t.equal({ chosen("", chat) }, {})
    -- A script may also offer protocols with the header field itself.
    t.equal({ chosen(NOPE, { headers = { ["Sec-WebSocket-Protocol"] = "yes, nope" } }) }, { "nope" })
  end)

  t.it("accepts no answer that agrees on less than was offered, or does not switch the connection", function()
    local DEFLATE <const> = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover"
    t.equal({ chosen(DEFLATE .. "; server_max_window_bits=9\r\n") }, {})
    local PROBLEM <const> = "EPROTO: the server has chosen an extension that was not offered"
    t.equal({ chosen(DEFLATE .. "; client_max_window_bits=9\r\n") }, { nil, PROBLEM, "EPROTO" })
    t.equal({ chosen("", nil, "Connection: close\r\n") },
      { nil, "EPROTO: the server does not speak WebSocket here (101 Switching Protocols)", "EPROTO" })
  end)

  t.it("agrees on no protocol that client and server spell differently", function()
    local socket <close> = t.http(echo { protocols = { "Chat" } }):websocket("/ws", { protocols = { "chat" } })
    t.equal(socket.protocol, nil)
  end)
end)

t.describe("messages", function()
  for _, compress in ipairs { true, false } do
    t.it("of every size are echoed" .. (compress and ", compressed" or ""), function()
      local socket = t.http(echo { compress = compress }):websocket("/ws", { compress = compress })
      for _, size in ipairs { 0, 1, 125, 126, 127, 128, 65535, 65536, 65537, 300000 } do
        local text = ("äb\n"):rep(size // 4) .. ("c"):rep(size % 4)
        socket:send(text)
        local answer, kind = socket:receive(5)
        t.truthy(answer == text and kind == "text", size)
        socket:send(("\0\255"):rep(size // 2), "binary")
        answer, kind = socket:receive(5)
        t.truthy(answer == ("\0\255"):rep(size // 2) and kind == "binary", size)
      end
      t.equal(socket:close(), true)
      t.equal(socket.close_code, 1000)
    end)
  end

  t.it("may arrive in fragments, with control frames between", function()
    local near <close> = raw()
    near:write(frame(0x01, "Hel"), frame(0x89, "are you there"), frame(0x00, ""), frame(0x80, "lo"))
    t.equal({ read_frame(near) }, { 0x8A, "are you there" })
    t.equal({ read_frame(near) }, { 0x81, "Hello" })
    for byte in frame(0x81, "one byte at a time"):gmatch "." do
      near:write(byte)
      rl.sleep(0.001)
    end
    t.equal({ read_frame(near) }, { 0x81, "one byte at a time" })
    near:write(frame(0x8A, "nobody asked"), frame(0x82, ""))
    t.equal({ read_frame(near) }, { 0x82, "" })
  end)

  t.it("are compressed as in other implementations", function()
    local near, head = raw({}, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n")
    t.truthy(head:lower():find("permessage-deflate; server_no_context_takeover; client_no_context_takeover", 1, true))
    -- The text "Hello" as in RFC 7692, 7.2.3.1: first in one frame, then in two.
    near:write(frame(0xC1, "\xf2\x48\xcd\xc9\xc9\x07\x00"))
    t.equal({ read_frame(near) }, { 0x81, "Hello" })
    near:write(frame(0x41, "\xf2\x48\xcd"), frame(0x80, "\xc9\xc9\x07\x00"))
    t.equal({ read_frame(near) }, { 0x81, "Hello" })
    near:write(frame(0xC1, "damaged"))
    local first, payload = read_frame(near)
    t.equal({ first, (string.unpack(">I2", payload)) }, { 0x88, 1007 })
    near:close()
  end)

  t.it("that exceed their limit are refused before they have arrived", function()
    t.equal(close_code("\x81\xff" .. string.pack(">I8", 1 << 40) .. "mask", { max_message = 1000 }), 1009)
    t.equal(close_code(frame(0x01, ("x"):rep(900)) .. frame(0x80, ("x"):rep(900)), { max_message = 1000 }), 1009)
    t.equal(close_code(frame(0x81, ("x"):rep(1001)), { max_message = 1000 }), 1009)
    -- In one piece or several, the error names the limit.
    for _, text in ipairs { ("x"):rep(1001), ("y"):rep(100000) } do
      local answer
      local client = t.http(function(request)
        local socket = request:websocket { max_message = 1000 }
        answer = table.pack(socket:receive())
      end)
      local socket = client:websocket "/"
      socket:send(text)
      t.equal(socket:receive(), nil)
      t.equal({ socket.close_code, socket.close_reason }, { 1009, "message longer than 1000 bytes" })
      t.equal(answer, { nil, "EMSGSIZE: message longer than 1000 bytes", "EMSGSIZE", n = 3 })
    end
  end)

  t.it("are not awaited by a socket that was dropped", { real_time = true }, function()
    local server <close> = http.serve(0, echo())
    for _ = 1, 5 do
      local socket = assert(http.websocket("ws://" .. server:address() .. "/ws"))
      socket:send "a"
      t.equal((socket:receive()), "a")
    end
    t.eventually(function()
      collectgarbage()
      return server:statistics().open == 0
    end)
    -- A socket in which a task waits is in use, and must not be collected.
    local task = rl.task(function() return http.websocket("ws://" .. server:address() .. "/ws"):receive(0.1) end)
    t.eventually(function() return server:statistics().open == 1 end)
    collectgarbage()
    collectgarbage()
    t.equal({ task:await() }, { nil, "timed out" })
  end)

  t.it("have one reader at a time", function()
    local socket = t.http(echo()):websocket "/ws"
    local task = rl.task(function()
      local message = socket:receive()
      return message
    end)
    rl.sleep(0)
    t.truthy(select(2, pcall(function() local _ = socket:receive(0.01) end))
      :find "socket:receive: one reader at a time: another task waits at .*http_websocket_test.lua:%d+$")
    socket:send "x"
    t.equal(task:await(), "x")
    local limited = rl.task(function() return socket:receive(0.01) end)
    t.equal({ limited:await() }, { nil, "timed out" })
    socket:send "y"
    t.equal((socket:receive()), "y")
    socket:close()
  end)

  t.it("wait for a slow reader, and are buffered up to a limit", function()
    local client = t.http(function(request)
      local socket = request:websocket { max_message = 1000 }
      rl.sleep(10)
      local count = 0
      while socket:receive(1) do count = count + 1 end
      socket:send(tostring(count))
      socket:close()
    end)
    local socket = client:websocket "/"
    local sent = 0
    rl.task(function()
      for _ = 1, 20 do
        socket:send(("x"):rep(900), "binary")
        sent = sent + 1
      end
    end)
    t.equal(socket:receive(60), "20")
    socket:close()
  end)
end)

t.describe("a violation of the protocol ends the connection with its close code:", function()
  local REFUSED = {
    { "text that is not UTF-8", 1007, frame(0x81, "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80") },
    { "text that is not UTF-8, in pieces", 1007, frame(0x01, "\xce") .. frame(0x00, "\xba") .. frame(0x80, "\xff") },
    { "text that ends within a character", 1007, frame(0x01, "a") .. frame(0x80, "\xe1\xbd") },
    { "bad text is noticed before its message ends", 1007, frame(0x01, "\xf4\x90") },
    { "reserved bit 1", 1002, frame(0xC1, "x") }, { "reserved bit 2", 1002, frame(0xA1, "x") },
      { "reserved bit 3", 1002, frame(0x91, "x") },
    { "reserved data frame", 1002, frame(0x83, "x") }, { "reserved control frame", 1002, frame(0x8B, "") },
    { "a ping in pieces", 1002, frame(0x09, "x") }, { "a long ping", 1002, frame(0x89, ("x"):rep(126)) },
    { "a continuation without a message", 1002, frame(0x80, "x") },
      { "a message within one", 1002, frame(0x01, "x") .. frame(0x81, "y") },
    { "no mask", 1002, "\x81\x01x" }, { "a length longer than need be", 1002, frame(0x81, "x", 2) },
    { "a length of eight bytes for little", 1002, frame(0x81, ("x"):rep(200), 8) },
      { "a negative length", 1002, "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffmask" },
    { "a close frame of one byte", 1002, frame(0x88, "x") }, { "a bad reason", 1007, frame(0x88, "\3\232\xff") },
  }
  for _, case in ipairs(REFUSED) do
    t.it(case[1] .. ": " .. case[2], function() t.equal(close_code(case[3]), case[2]) end)
  end

  t.it("a close code that is not allowed gets 1002, and others are echoed", function()
    for _, code in ipairs { 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999 } do
      t.equal(close_code(frame(0x88, string.pack(">I2", code))), code, code)
    end
    for _, code in ipairs { 0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535 } do
      t.equal(close_code(frame(0x88, string.pack(">I2", code))), 1002, code)
    end
    t.equal(close_code(frame(0x88, "")), "none")
  end)
end)

t.describe("the end", function()
  t.it("is nil, with code and reason", function()
    local client = t.http(function(request)
      local socket = request:websocket()
      socket:close(4001, "enough")
    end)
    local socket = client:websocket "/"
    t.equal({ socket:receive() }, {})
    t.equal({ socket.close_code, socket.close_reason }, { 4001, "enough" })
    t.equal(socket:send "x", nil)
    socket:close()
  end)

  t.it("without a close frame is an error", function()
    local told
    local near, far = net.memory()
    http.serve("memory", function(request)
      local socket = request:websocket()
      told = { socket:receive() }
    end):accept(far)
    near:write("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    near:read_until "\r\n\r\n"
    near:close()
    rl.sleep(1)
    t.equal(told == nil or told[3] == "ECONNRESET", true)
  end)

  t.it("is awaited for a few seconds, not for ever", function()
    local closed
    local near, far = net.memory()
    http.serve("memory", function(request)
      local socket = request:websocket()
      local date = rl.now()
      socket:close()
      closed = rl.now() - date
    end):accept(far)
    near:write("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    rl.sleep(20)
    t.truthy(closed and closed >= 4.9 and closed < 6, closed)
    near:close()
  end)
end)

t.describe("a close frame", function()
  t.it("is answered with its code and reason, at both ends", function()
    local server_side
    local client = t.http(function(request)
      server_side = request:websocket()
      while server_side:receive() do end
    end)
    local socket = client:websocket "/"
    socket:close(4001, "no more, ä")
    t.equal({ socket.close_code, socket.close_reason }, { 4001, "no more, ä" })
    t.equal({ server_side.close_code, server_side.close_reason }, { 4001, "no more, ä" })
    local closed
    client = t.http(function(request)
      local own = request:websocket()
      own:close(4002, "first")
      closed = { own.close_code, own.close_reason }
    end)
    socket = client:websocket "/"
    t.equal({ socket:receive() }, {})
    rl.sleep(0.1)
    t.equal({ socket.close_code, socket.close_reason, closed }, { 4002, "first", { 4002, "first" } })
  end)
end)

t.describe("the list of protocols", function()
  t.it("must have no gaps, whatever its length operator returns", function()
    local function check(protocols)
      t.equal(support.problem_of(http.websocket, "ws://127.0.0.1:1/", { protocols = protocols }),
        "http.websocket: field 'protocols' must be a list of names without gaps")
    end
    check(setmetatable({}, { __len = function() return 3 end }))
    check(setmetatable({ "a" }, { __len = function() error "none" end }))
    check(setmetatable({ "a" }, { __len = function() return "many" end }))
  end)
end)
