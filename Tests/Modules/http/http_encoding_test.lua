-- runloop.http: compressed answers, complete and truncated ones.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
local native = part "runloop.http.native"

local function gzip(text) return native.deflate(true, true, 15)(text, true) end
local function deflate(text) return native.deflate(true, false, 15)(text, true) end

-- Puts zlib's head and tail around the raw stream.
local function zlib(text)
  local a, b = 1, 0
  for i = 1, #text do
    a = (a + text:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return "\x78\x9c" .. deflate(text) .. (">I4"):pack(b << 16 | a)
end

local TEXT = {}
for i = 1, 5000 do TEXT[i] = ("%d %d\n"):format(i, i * i % 977) end
TEXT = table.concat(TEXT)

-- `asked`: the fields that the server has received. The server answers with the given body.
local asked
local function served(fields, body, request)
  local listener <close> = net.serve("127.0.0.1:0", function(stream)
    asked = stream:read_until "\r\n\r\n"
    stream:write(("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n"):format(fields, #body))
    for place = 1, #body, 7001 do stream:write(body:sub(place, place + 7000)) end
    stream:read { timeout = 1 }
  end)
  request = request or {}
  request.url = "http://" .. listener:address()
  local fn = request.fn or http.fetch
  request.fn = nil
  return fn(request)
end

local function body_of(...)
  local answer, problem, code = served(...)
  return answer and answer.body or problem, code
end

local function field(name) return "Content-Encoding: " .. name .. "\r\n" end

t.describe("a compressed answer", function()
  t.it("is decoded", function()
    for name, encode in pairs { gzip = gzip, ["x-gzip"] = gzip, GZIP = gzip, deflate = zlib,
      [" identity, deflate "] = deflate } do
      for _, text in ipairs { TEXT, "", "x" } do t.equal(body_of(field(name), encode(text)), text, name) end
    end
    t.truthy(asked:lower():find("\r\naccept-encoding: gzip, deflate", 1, true))
    t.equal(body_of("", TEXT), TEXT)
    t.equal(body_of(field "gzip, deflate", zlib(gzip(TEXT))), TEXT)
    t.equal(body_of(field "gzip" .. "X: y\r\n" .. field "gzip", gzip(gzip(TEXT))), TEXT)
    -- Several members, and padding after the end, which some servers send.
    t.equal(body_of(field "gzip", gzip(TEXT) .. gzip "" .. gzip "more" .. "\0\0\0"), TEXT .. "more")
    t.equal(body_of(field "gzip", ""), "")
    t.equal(served(field "gzip", "", { method = "HEAD" }).status, 200)
  end)

  t.it("is returned undecoded if the request asks for it", function()
    local bytes = gzip(TEXT)
    t.equal(body_of(field "gzip", bytes, { decompress = false }), bytes)
    t.falsy(asked:lower():find("accept-encoding", 1, true))
    t.equal(body_of(field "gzip", bytes, { headers = { ["accept-encoding"] = "gzip;q=0.5" } }), TEXT)
    t.equal(body_of(field "gzip", bytes, { headers = { ["accept-encoding"] = false } }), TEXT)
    t.falsy(asked:lower():find("accept-encoding", 1, true))
    -- libcurl decodes other encodings.
    t.equal(body_of(field "br", "\x0b\x02\x80hello\x03", { headers = { ["accept-encoding"] = "br, gzip" } }), "hello")
    t.equal(body_of(field "gzip", bytes, { headers = { ["accept-encoding"] = "br, gzip" } }), TEXT)
  end)

  t.it("that ends too early is an error", function()
    for name, encode in pairs { gzip = gzip, deflate = zlib,
      ["gzip, deflate"] = function(text) return zlib(gzip(text)) end } do
      local bytes = encode(TEXT)
      for _, missing in ipairs { 1, 4, 20, #bytes // 2, #bytes - 1 } do
        local problem, code = body_of(field(name), bytes:sub(1, -missing - 1))
        local text = "^EOF: the body ended in the middle of its encoded data %(http://127.0.0.1:%d+%)$"
        t.truthy(problem:find(text), problem)
        t.equal(code, "EOF")
      end
    end
  end)

  t.it("that is not compressed is an error", function()
    local bytes = gzip(TEXT)
    for _, bad in ipairs { "hello", "\x1f\x8b\8\0", bytes:sub(1, 5000) .. "nonsense" .. bytes:sub(5009),
      bytes:sub(1, -9) .. "\0\0\0\0\0\0\0\0" } do
      local problem, code = body_of(field "gzip", bad)
      t.truthy(code == "EBADMSG"
        and problem:find "^EBADMSG: the body is not encoded as its Content%-Encoding says %(http"
        or #bad < 5 and code == "EOF", problem)
    end
    t.truthy(body_of(field "foo, gzip", "hello")
      :find("^EBADMSG: the body's encoding 'foo, gzip' is neither gzip nor deflate: "
        .. "'decompress = false' returns it as it is %(http"))
    t.equal(body_of(field "foo", ""), "")
  end)

  t.it("is limited by its decoded size", function()
    local bomb = gzip(("x"):rep(1 << 20))
    t.truthy(#bomb < 5000)
    t.equal(#body_of(field "gzip", bomb, { max_body = 1 << 20 }), 1 << 20)
    t.equal(select(2, body_of(field "gzip", bomb, { max_body = (1 << 20) - 1 })), "EMSGSIZE")
    t.equal(select(2, body_of(field "gzip", gzip(bomb):rep(3), { max_body = 100 })), "EMSGSIZE")
    t.equal(select(2, body_of(field "gzip, gzip", gzip(gzip(("x"):rep(1 << 26))))), "EMSGSIZE")
  end)

  t.it("is decoded as it is read, and not before", function()
    local SIZE <const> = 1 << 22
    for _, missing in ipairs { 0, 3 } do
      local answer <close> = served(field "gzip", gzip(("y"):rep(SIZE)):sub(1, -missing - 1),
        { fn = http.open, high_water = 100000 })
      rl.sleep(0.1)
      t.equal(#answer:read(), 100000)
      local count, is_good, problem = 100000, nil, nil
      is_good, problem = pcall(function() for bytes in answer:chunks() do count = count + #bytes end end)
      if missing == 0 then
        t.equal({ is_good, count }, { true, SIZE })
      else
        t.truthy(not is_good and problem:find "^EOF: the body ended in the middle" and count <= SIZE, problem)
      end
    end
  end)
end)
