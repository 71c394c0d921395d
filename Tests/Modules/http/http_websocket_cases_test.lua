-- The cases of Autobahn's fuzzing client and server for WebSockets, restated: how either end handles frames made by
-- hand. Chapters 1 to 7, 9, and 12 and 13 with compressed messages. Each case is tried with a server and with a client
-- that send back what they receive, in virtual time. With RLHOST_SOAK=1 chapter 9 has messages of up to 16 MB, as the
-- original.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
local native = part "runloop.http.native"
local handshake = part "runloop.http.handshake"

local MAX = 16 << 20
local THOROUGH = os.getenv "RLHOST_SOAK" ~= nil

-- Frames --------------------------------------------------------------------------------------------------------------

local function masked(payload, mask)
  local key = string.unpack("<I4", mask)
  local whole = #payload // 4
  local words = {}
  for from = 1, whole, 64 do
    local count = math.min(64, whole - from + 1)
    local format = "<" .. ("I4"):rep(count)
    local values = { string.unpack(format, payload, 4 * from - 3) }
    for i = 1, count do values[i] = values[i] ~ key end
    words[#words + 1] = string.pack(format, table.unpack(values, 1, count))
  end
  for i = 4 * whole + 1, #payload do words[#words + 1] = string.char(payload:byte(i) ~ mask:byte((i - 1) % 4 + 1)) end
  return table.concat(words)
end

local CODES = { more = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 }

-- A case's frame: { "text", payload, more = true if its message goes on, rsv = 1 to 7, chop = bytes in each piece that
-- is sent }
local function frame_of(case, is_from_client)
  local code, payload = CODES[case[1]] or case[1], case[2] or ""
  local size, mask = #payload, is_from_client and 128 or 0
  local length = size < 126 and string.char(mask | size) or size < 65536
    and string.char(mask | 126) .. string.pack(">I2", size)
    or string.char(mask | 127) .. string.pack(">I8", size)
  local first = string.char((case.more and 0 or 128) | (case.rsv or 0) << 4 | code)
  if not is_from_client then return first .. length .. payload end
  local key = string.char(math.random(0, 255), math.random(0, 255), math.random(0, 255), math.random(0, 255))
  return first .. length .. key .. masked(payload, key)
end

-- A server and a client, which send back the messages that they receive. Each function returns a stream for frames made
-- by hand.
local ENDS = {}

function ENDS.server(extension)
  local app = http.routes()
  app:websocket("/", { max_message = MAX }, function(socket)
    for message, kind in socket:messages() do socket:send(message, kind) end
  end)
  local near, far = net.memory()
  http.serve("memory", app):accept(far)
  near:write("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      .. (extension and "Sec-WebSocket-Extensions: " .. extension .. "\r\n" or "") .. "\r\n")
  local head = assert(near:read_until "\r\n\r\n")
  return near, head:lower():find("permessage-deflate", 1, true) ~= nil
end

function ENDS.client(extension)
  local near, far = net.memory()
  rl.task(function()
    local socket = handshake.connect(far, "/", "x", { max_message = MAX, compress = extension ~= nil })
    for message, kind in socket:messages() do socket:send(message, kind) end
    socket:close()
  end)
  local head = assert(near:read_until "\r\n\r\n")
  local key = head:match "[kK]ey: ([^\r]+)"
  local answer = extension
    and "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n" or ""
  near:write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
    .. native.accept_key(key)
    .. "\r\n" .. answer .. "\r\n")
  return near, extension ~= nil
end

-- Reads the next frame; returns its first byte and its payload, or nil at the end.
local function read_frame(near, is_from_client)
  local head = near:read_exactly(2)
  if not head then return nil end
  local first, size = head:byte(1, 2)
  t.equal(size >= 128, is_from_client, "whether the frame is masked")
  size = size & 127
  if size == 126 then size = string.unpack(">I2",
    near:read_exactly(2)) elseif size == 127 then size = string.unpack(">I8", near:read_exactly(8)) end
  local mask = is_from_client and near:read_exactly(4)
  local payload = size > 0 and near:read_exactly(size) or ""
  return first, mask and masked(payload, mask) or payload
end

-- Returns the frames that are sent back: { "text", payload }, …, and at last { "close", code } or { "end" }.
local function exchange(which, case)
  local near = ENDS[which]()
  local is_from_client = which == "server"
  local writer = rl.task(function()
    for _, frame in ipairs(case) do
      local bytes = frame_of(frame, is_from_client)
      local chop = frame.chop or case.chop
      for from = 1, #bytes, chop or #bytes do
        if not near:write(bytes:sub(from, from + (chop or #bytes) - 1)) then return end
        if chop then rl.sleep(0.0001) end
      end
      if frame.wait then rl.sleep(frame.wait) end
    end
  end)
  local names = { [1] = "text", [2] = "binary", [8] = "close", [9] = "ping", [10] = "pong" }
  local seen = {}
  while true do
    local first, payload = read_frame(near, not is_from_client)
    if not first then
      seen[#seen + 1] = { "end" }
      break
    end
    local name = names[first & 15]
    t.truthy(first & 0xF0 == 0x80 and name, first)
    if name == "close" then
      seen[#seen + 1] = { "close", #payload >= 2 and string.unpack(">I2", payload) or 0 }
      break
    end
    seen[#seen + 1] = { name, payload }
    -- All expected frames have come; only the close frame may follow.
    if #seen == #case.back and not case.closes then near:write(frame_of({ "close", "\3\232" }, is_from_client)) end
  end
  writer:cancel()
  near:abort()
  return seen
end

-- `back`: the expected messages and pongs; `closes`: the expected close code. Messages in one piece with a protocol
-- error may be lost: Autobahn calls that non-strict, and accepts it.
local function check(which, case)
  case.back = case.back or {}
  if #case.back == 0 and not case.closes then case[#case + 1] = { "close", "\3\232" } end
  local seen = exchange(which, case)
  local last = table.remove(seen)
  t.equal(last, { "close", case.closes or 1000 })
  if case.closes and #seen == 0 then return end
  t.equal(#seen, #case.back)
  for i, message in ipairs(case.back) do
    t.truthy(seen[i][1] == message[1] and seen[i][2] == message[2],
      ("%s of %d bytes, got %s of %d"):format(message[1], #message[2], seen[i][1], #seen[i][2]))
  end
end

-- The cases -----------------------------------------------------------------------------------------------------------

local cases = {}
local function case(number, it)
  it.number = number
  cases[#cases + 1] = it
end
local function echo(number, kind, payload, chop)
  case(number, { { kind, payload }, chop = chop, back = { { kind, payload } } })
end

for i, size in ipairs { 0, 125, 126, 127, 128, 65535, 65536 } do
  echo("1.1." .. i, "text", ("*"):rep(size))
  echo("1.2." .. i, "binary", ("\xfe"):rep(size))
end
echo("1.1.8", "text", ("*"):rep(65536), 997)
echo("1.2.8", "binary", ("\xfe"):rep(65536), 997)

local function ping(number, payload, chop)
  case(number, { { "ping", payload }, chop = chop, back = { { "pong", payload } } })
end
ping("2.1", "")
ping("2.2", "Hello, world!")
ping("2.3", "\0\xff\xfe\xfd\xfc\xfb\0\xff")
ping("2.4", ("\xfe"):rep(125))
case("2.5", { { "ping", ("\xfe"):rep(126) }, closes = 1002 })
ping("2.6", ("\xfe"):rep(125), 1)
case("2.7", { { "pong", "" } })
case("2.8", { { "pong", "unsolicited" } })
case("2.9", { { "pong", "unsolicited" }, { "ping", "payload" }, back = { { "pong", "payload" } } })
for number, chop in pairs { ["2.10"] = false, ["2.11"] = 1 } do
  local it = { chop = chop or nil, back = {} }
  for i = 1, 10 do it[i], it.back[i] = { "ping", "payload-" .. i }, { "pong", "payload-" .. i } end
  case(number, it)
end

local HELLO = "Hello, world!"
case("3.1", { { "text", HELLO, rsv = 1 }, closes = 1002 })
for i, chop in ipairs { false, false, 1 } do
  -- Frames in one piece, in two, in single bytes.
  case("3." .. i + 1, { { "text", HELLO, wait = i == 2 and 0.1 or nil }, { "text", HELLO, rsv = i + 1 }, { "ping", "" },
    chop = chop or nil,
    back = { { "text", HELLO } }, closes = 1002 })
end
case("3.5", { { "binary", ("\xff"):rep(8), rsv = 5 }, closes = 1002 })
case("3.6", { { "ping", HELLO, rsv = 6 }, closes = 1002 })
case("3.7", { { "close", "\3\232", rsv = 7 }, closes = 1002 })

for i, code in ipairs { 3, 4, 5, 6, 7, 11, 12, 13, 14, 15 } do
  local number = i <= 5 and "4.1." .. i or "4.2." .. i - 5
  local payload = i % 5 == 1 and "" or "reserved opcode payload"
  if i % 5 <= 2 and i % 5 > 0 then
    case(number, { { code, payload }, closes = 1002 })
  else
    case(number, { { "text", HELLO, wait = i % 5 == 4 and 0.1 or nil }, { code, payload }, { "ping", "" },
      chop = i % 5 == 0 and 1 or nil,
      back = { { "text", HELLO } }, closes = 1002 })
  end
end

case("5.1", { { "ping", "a", more = true }, { "more", "b" }, closes = 1002 })
case("5.2", { { "pong", "a", more = true }, { "more", "b" }, closes = 1002 })
for i, chop in ipairs { false, 1, 2 } do
  local two = { { "text", "fragment1", more = true }, { "more", "fragment2" }, chop = chop or nil,
    back = { { "text", "fragment1fragment2" } } }
  case("5." .. i + 2, two)
  case("5." .. i + 5, { { "text", "fragment1", more = true }, { "ping", "ping payload" }, { "more", "fragment2" },
    chop = chop or nil,
    back = { { "pong", "ping payload" }, { "text", "fragment1fragment2" } } })
  case("5." .. i + 8, { { "more", "non-continuation payload", more = i == 2 }, { "text", HELLO },
    chop = i == 3 and 1 or nil, closes = 1002 })
  case("5." .. i + 11, { { "more", "non-continuation payload", more = true }, { "text", HELLO }, chop = chop or nil,
    closes = 1002 })
end
case("5.15", { { "text", "fragment1", more = true }, { "more", "fragment2" }, { "more", "fragment3", more = true },
  { "text", "fragment4" },
  back = { { "text", "fragment1fragment2" } }, closes = 1002 })
case("5.16", { { "more", "fragment1", more = true }, { "text", "fragment2", more = true }, { "more", "fragment3" },
  closes = 1002 })
case("5.17", { { "more", "fragment1" }, { "text", "fragment2", more = true }, { "more", "fragment3" }, closes = 1002 })
case("5.18", { { "text", "fragment1", more = true }, { "text", "fragment2" }, closes = 1002 })
for i = 0, 1 do
  case("5." .. 19 + i, { { "text", "fragment1", more = true }, { "more", "fragment2", more = true },
    { "ping", "1", wait = 1 },
    { "more", "fragment3", more = true, chop = i == 1 and 1 or nil }, { "more", "fragment4", more = true },
      { "ping", "2" }, { "more", "fragment5" },
    back = { { "pong", "1" }, { "pong", "2" }, { "text", "fragment1fragment2fragment3fragment4fragment5" } } })
end

local GREEK = "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"
case("6.1.1", { { "text", "" }, back = { { "text", "" } } })
case("6.1.2", { { "text", "", more = true }, { "more", "", more = true }, { "more", "" }, back = { { "text", "" } } })
case("6.1.3", { { "text", "", more = true }, { "more", "middle frame payload", more = true }, { "more", "" },
  back = { { "text", "middle frame payload" } } })
local VALID = "Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!"
case("6.2.1", { { "text", VALID }, back = { { "text", VALID } } })
case("6.2.2", { { "text", VALID:sub(1, 12), more = true }, { "more", VALID:sub(13) }, back = { { "text", VALID } } })
for number, text in pairs { ["6.2.3"] = VALID, ["6.2.4"] = GREEK } do
  local it = { back = { { "text", text } } }
  for i = 1, #text do it[i] = { i == 1 and "text" or "more", text:sub(i, i), more = i < #text } end
  case(number, it)
end
case("6.3.1", { { "text", GREEK .. "\xed\xa0\x80edited" }, closes = 1007 })
case("6.3.2", { { "text", GREEK, more = true }, { "more", "\xed\xa0\x80", more = true }, { "more", "edited" },
  closes = 1007 })
-- The endpoint must notice invalid text before the message is complete: after the frame, or within it.
case("6.4.1", { { "text", GREEK, more = true, wait = 1 }, { "more", "\xf4\x90\x80\x80", more = true }, closes = 1007 })
case("6.4.2", { { "text", GREEK .. "\xf4", more = true, wait = 1 }, { "more", "\x90", more = true }, closes = 1007 })
local GOOD = {
  "\xce\xba", GREEK, "\0", "\xc2\x80", "\xe0\xa0\x80", "\xf0\x90\x80\x80", "\x7f", "\xdf\xbf", "\xef\xbf\xbf",
    "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xee\x80\x80",
  "\xef\xbf\xbd", "\xef\xbf\xbe", "\xf0\x9f\xbf\xbe", "\xf0\x9f\xbf\xbf", "\xf3\xaf\xbf\xbf", "\xf4\x8f\xbf\xbe",
}
for i, text in ipairs(GOOD) do echo("6.5–6.9, 6.22, 6.23." .. i, "text", text) end
local BAD = {
  "\xce", "\xce\xba\xe1", "\xce\xba\xe1\xbd", "\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", "\xf7\xbf\xbf\xbf",
    "\xfb\xbf\xbf\xbf\xbf",
  "\xfd\xbf\xbf\xbf\xbf\xbf", "\xf4\x90\x80\x80", "\x80", "\xbf", "\x80\xbf", "\x80\xbf\x80", "\x80\xbf\x80\xbf",
    "\xc0 \xc1 \xc2 ", "\xe0 \xe1 \xe2 ", "\xf0 \xf1 ",
  "\xf8 \xf9 ", "\xfc ", "\xc0", "\xe0\x80", "\xf0\x80\x80", "\xf8\x80\x80\x80", "\xfc\x80\x80\x80\x80", "\xdf",
    "\xef\xbf", "\xf7\xbf\xbf", "\xfb\xbf\xbf\xbf",
  "\xfd\xbf\xbf\xbf\xbf", "\xc0\xe0\x80\xf0\x80\x80", "\xfe", "\xff", "\xfe\xfe\xff\xff", "\xc0\xaf", "\xe0\x80\xaf",
    "\xf0\x80\x80\xaf", "\xf8\x80\x80\x80\xaf",
  "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
    "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf",
  "\xed\xb0\x80", "\xed\xbe\x80", "\xed\xbf\xbf", "\xed\xa0\x80\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf",
}
for i, text in ipairs(BAD) do case("6.6–6.21." .. i, { { "text", text }, closes = 1007 }) end

local NORMAL = "\3\232"
case("7.1.1", { { "text", HELLO, wait = 0.1 }, { "close", NORMAL }, back = { { "text", HELLO } }, closes = 1000 })
case("7.1.2", { { "close", NORMAL }, { "close", NORMAL }, closes = 1000 })
case("7.1.3", { { "close", NORMAL }, { "ping", "" }, closes = 1000 })
case("7.1.4", { { "close", NORMAL }, { "text", HELLO }, closes = 1000 })
case("7.1.5", { { "text", "fragment1", more = true }, { "close", NORMAL }, { "more", "fragment2" }, closes = 1000 })
case("7.1.6", { { "text", ("BAsd7&jh23"):rep(26000), wait = 0.1 }, { "text", HELLO, wait = 0.1 }, { "close", NORMAL },
  { "ping", "" },
  back = { { "text", ("BAsd7&jh23"):rep(26000) }, { "text", HELLO } }, closes = 1000 })
case("7.3.1", { { "close", "" }, closes = 0 })
case("7.3.2", { { "close", "a" }, closes = 1002 })
case("7.3.3", { { "close", NORMAL }, closes = 1000 })
case("7.3.4", { { "close", NORMAL .. "Hello World!" }, closes = 1000 })
case("7.3.5", { { "close", NORMAL .. ("*"):rep(123) }, closes = 1000 })
case("7.3.6", { { "close", NORMAL .. ("*"):rep(124) }, closes = 1002 })
case("7.5.1", { { "close", NORMAL .. GREEK .. "\xed\xa0\x80edited" }, closes = 1007 })
for i, code in ipairs { 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999 } do
  case("7.7." .. i, { { "close", string.pack(">I2", code) }, closes = code })
end
for i, code in ipairs { 0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535 } do
  case("7.9 and 7.13." .. i, { { "close", string.pack(">I2", code) }, closes = 1002 })
end

local largest = THOROUGH and MAX or 1 << 20
for i = 0, 6 do
  local size = math.min(largest, ({ 65536, 262144, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 16 << 20 })[i + 1])
  if i == 0 or size > 65536 and (THOROUGH or i < 3) then
    echo("9.1." .. i + 1, "text", ("*"):rep(size))
    echo("9.2." .. i + 1, "binary", ("\xfe"):rep(size))
  end
end
for i, piece in ipairs { 64, 256, 1024, 4096, 16384, 65536, 262144 } do
  if THOROUGH or piece >= 1024 then
    for number, kind in pairs { ["9.3."] = "text", ["9.4."] = "binary" } do
      local size = THOROUGH and 4 << 20 or 1 << 18
      local it = { back = { { kind, ("x"):rep(size) } } }
      for k = 1, size // piece do it[k] = { k == 1 and kind or "more", ("x"):rep(piece), more = k < size // piece } end
      case(number .. i, it)
    end
  end
end
for i, chop in ipairs { 64, 128, 256, 512, 1024, 2048 } do
  echo("9.5." .. i, "text", ("*"):rep(THOROUGH and 1 << 20 or 65536), chop)
  echo("9.6." .. i, "binary", ("\xfe"):rep(THOROUGH and 1 << 20 or 65536), chop)
end
for i, size in ipairs { 0, 16, 64, 256, 1024, 4096 } do
  local it = { back = {} }
  for k = 1, THOROUGH and 1000 or 50 do it[k], it.back[k] = { "text", ("*"):rep(size) }, { "text", ("*"):rep(size) } end
  case("9.7 and 9.8." .. i, it)
end

for _, which in ipairs { "server", "client" } do
  t.describe("a " .. which, { timeout = 300 }, function()
    for _, it in ipairs(cases) do
      t.it("behaves as specified in case " .. it.number, function() check(which, it) end)
    end
  end)
end

-- Chapters 12 and 13: compressed messages of many sizes, and the parameters of permessage-deflate.

local function text_of(size)
  local words, length = {}, 0
  while length < size do
    local word = ("%x "):format(math.random(1 << 20))
    words[#words + 1], length = word, length + #word
  end
  return table.concat(words):sub(1, size)
end

t.describe("compressed messages", { timeout = 300 }, function()
  for _, which in ipairs { "server", "client" } do
    t.it("are echoed by a " .. which .. ", whole and in pieces", function()
      local near, is_agreed = ENDS[which] "permessage-deflate; client_max_window_bits"
      t.equal(is_agreed, true)
      local compress, inflate = native.deflate(true, false, 15), native.deflate(false, false, 15)
      for number, size in ipairs { 16, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072 } do
        for round = 1, THOROUGH and 100 or 5 do
          local text = text_of(size)
          -- Each message by itself: without context takeover.
          compress = native.deflate(true, false, 15)
          local bytes = compress(text, false):sub(1, -5)
          local kind = round % 2 == 0 and "text" or "binary"
          if number % 2 == 0 then
            local half = #bytes // 2
            near:write(frame_of({ kind, bytes:sub(1, half), rsv = 4, more = true }, which == "server"),
              frame_of({ "more", bytes:sub(half + 1) }, which == "server"))
          else
            near:write(frame_of({ kind, bytes, rsv = 4 }, which == "server"))
          end
          local first, payload = read_frame(near, which == "client")
          if first & 0x40 ~= 0 then
            inflate = native.deflate(false, false, 15)
            payload = inflate(payload .. "\0\0\255\255", false, 1 << 20)
          end
          t.equal({ first & 0x8F, payload == text }, { 0x80 | CODES[kind], true })
        end
      end
      near:abort()
    end)

    t.it("have the compression bit in their first frame only, at a " .. which, function()
      for _, frames in ipairs {
        { { "text", "a", more = true, rsv = 4 }, { "more", "b", rsv = 4 } }, { { "ping", "a", rsv = 4 } },
        { { "text", "a", rsv = 2 } }, { { "text", "a", rsv = 6 } }, { { "close", NORMAL, rsv = 4 } },
      } do
        local near = ENDS[which] "permessage-deflate"
        for _, frame in ipairs(frames) do near:write(frame_of(frame, which == "server")) end
        local first, payload = read_frame(near, which == "client")
        t.equal({ first, (string.unpack(">I2", payload)) }, { 0x88, 1002 })
        near:abort()
      end
    end)
  end

  t.it("are negotiated for each supported offer, and for no other", function()
    local OFFERS = {
      ["permessage-deflate"] = true, ["permessage-deflate; client_max_window_bits"] = true,
        ["permessage-deflate; client_max_window_bits=9"] = true,
      ["permessage-deflate; client_no_context_takeover; client_max_window_bits=15"] = true,
        ["permessage-deflate; server_no_context_takeover"] = true,
      ["permessage-deflate; server_max_window_bits=15"] = true,
        ["permessage-deflate; server_max_window_bits=9"] = false,
      ["permessage-deflate; server_max_window_bits=9, permessage-deflate"] = true,
        ["permessage-deflate; nonsense"] = false,
      ["permessage-deflate; client_max_window_bits=7"] = false,
        ["permessage-deflate; client_max_window_bits=16, permessage-deflate"] = true,
      ["permessage-deflate; client_no_context_takeover=1"] = false,
        ["permessage-deflate; server_nonsense"] = false,
      ["permessage-deflate; client_max_window_bits; client_max_window_bits=9"] = false,
        ['permessage-deflate ;client_max_window_bits="9" ; server_max_window_bits = 15'] = true,
      ["x-webkit-deflate-frame"] = false, ["permessage-bzip2, permessage-deflate"] = true,
    }
    for offer, is_right in pairs(OFFERS) do
      local near, is_agreed = ENDS.server(offer)
      t.equal(is_agreed, is_right, offer)
      near:abort()
    end
  end)
end)
