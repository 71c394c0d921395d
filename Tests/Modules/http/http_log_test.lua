-- The access log has one line for each request: the request, the answer, and the duration.

local rl = require "runloop"
local http = require "runloop.http"
local net = require "runloop.net"
local t = require "runloop.test"

local function handler(request)
  if request.path == "/slow" then rl.sleep(60) end
  if request.path == "/stream" then
    local response = request:respond {}
    response:write "part"
    rl.sleep(60)
  elseif request.path == "/sent" then
    local response = request:respond { status = 201 }
    response:finish "whole"
    rl.sleep(60)
  end
  return "ok"
end

-- Sends bytes, waits, and returns the entries of the log, after the client has gone.
local function entries_for(bytes, seconds)
  local entries, lines = {}, {}
  local options = { request_timeout = 5, header_timeout = 5, max_body = 10 }
  options.access_log = function(entry) entries[#entries + 1] = entry end
  local server = assert(http.serve("memory", options, handler))
  local written = { request_timeout = 5, header_timeout = 5, max_body = 10 }
  written.access_log = { write = function(_, line) lines[#lines + 1] = line end }
  local other = assert(http.serve("memory", written, handler))
  for _, one in ipairs { server, other } do
    local near, far = net.memory()
    one:accept(far)
    near:write(bytes)
    rl.sleep(seconds)
    near:abort()
    rl.sleep(1)
    one:stop(0)
  end
  t.equal(#lines, #entries)
  return entries, lines
end

local CASES = {
  { "an answer", "GET /a?b=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0.5, 200, 0, "GET /a?b=1 HTTP/1.1" },
  { "a time-out", "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", 10, 503, 5, "GET /slow HTTP/1.1" },
  { "a time-out during the answer", "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", 10, 200, 5, "GET /stream HTTP/1.1" },
  { "a body that is too long", "POST /p?q HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", 0.5, 413, 0,
    "POST /p?q HTTP/1.1" },
  { "a path that leaves its root", "GET /../x HTTP/1.1\r\nHost: x\r\n\r\n", 0.5, 400, 0, "GET /../x HTTP/1.1" },
  { "a bad line", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 0.5, 400, 0, "GET /a b HTTP/1.1" },
  { "a bad field", "GET /a HTTP/1.1\r\nHost : x\r\n\r\n", 0.5, 400, 0, "GET /a HTTP/1.1" },
  { "a method alone", "FROB\r\n\r\n", 0.5, 400, 0, "FROB" },
  { "nothing that can be read", "\r\n \r\n\r\n", 0.5, 400, 0, "-" },
  { "half a head", "GET /half HTTP/1.1\r\nHo", 10, 408, 5, "GET /half HTTP/1.1" },
  { "a client that leaves", "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", 2, 499, 2, "GET /slow HTTP/1.1" },
  { "a client that leaves during the answer", "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", 2, 200, 2,
    "GET /stream HTTP/1.1" },
  { "a client that leaves after the answer", "GET /sent HTTP/1.1\r\nHost: x\r\n\r\n", 2, 201, 2, "GET /sent HTTP/1.1" },
}

for _, case in ipairs(CASES) do
  t.it("the log has one line for " .. case[1], function()
    local entries, lines = entries_for(case[2], case[3])
    local status, took, line = case[4], case[5], case[6]
    t.equal(#entries, 1)
    t.equal(entries[1].status, status)
    t.truthy(entries[1].seconds >= took and entries[1].seconds < took + 0.1, entries[1].seconds)
    t.truthy(lines[1]:find(('"%s" %d '):format(line, status), 1, true), lines[1])
  end)
end

t.it("the log has no line for a client that sends nothing", function() t.equal(#entries_for("", 1), 0) end)

t.it("the log has one line for each request of a connection", function()
  local entries = entries_for(("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"):rep(3) .. "BAD\r\n\r\n", 1)
  local statuses = {}
  for i, entry in ipairs(entries) do statuses[i] = entry.status end
  t.equal(statuses, { 200, 200, 200, 400 })
end)

t.it("the log names no place of a route, but the error about a wrong answer does", function()
  local told
  rl.on_error(function(err) told = err end)
  local routes = http.routes()
  routes:get("/exact", function() end)
  local line = debug.getinfo(1, "l").currentline - 1
  routes:get("/with/:id", function() return 5.5 end)
  local server = assert(http.serve("memory", {}, routes))
  for path, route in pairs { ["/exact"] = '"/exact"', ["/with/7"] = '"/with/:id"' } do
    local near, far = net.memory()
    server:accept(far)
    near:write("GET " .. path .. " HTTP/1.1\r\nHost: x\r\n\r\n")
    rl.sleep(0.1)
    near:abort()
    t.truthy(tostring(told):find("request:respond (route " .. route .. " made at ", 1, true), told)
    t.truthy(tostring(told):find(":" .. (route == '"/exact"' and line or line + 2) .. ")", 1, true), told)
  end
  for path, answer in pairs {
    ["/status"] = { status = 1 }, ["/field"] = { bdy = "" }, ["/body"] = { body = true },
    ["/headers"] = { headers = 5 }, ["/name"] = { headers = { ["a b"] = "" } },
    ["/value"] = { headers = { a = true } }, ["/json"] = { json = print },
    ["/length"] = { headers = { ["content-length"] = "x" }, body = "x" },
  } do
    routes:get(path, function() return answer end)
    local near, far = net.memory()
    server:accept(far)
    near:write("GET " .. path .. " HTTP/1.1\r\nHost: x\r\n\r\n")
    rl.sleep(0.1)
    near:abort()
    t.truthy(not tostring(told):find("[rlhost]", 1, true), told)
    t.truthy(tostring(told):find(' (route "' .. path .. '" made at ', 1, true), told)
  end
  server:stop(0)
  rl.on_error(nil)
end)

t.it("the log counts the bytes of a WebSocket's last frames, and of an answer that refuses one", function()
  local entries = {}
  local options = { access_log = function(entry) entries[#entries + 1] = { entry.status, entry.bytes } end }
  local server = assert(http.serve("memory", options, function(request)
    local socket = request:websocket()
    if not socket then return end
    for text in socket:messages() do socket:send(text) end
  end))
  local MASK <const> = "\0\0\0\0"
  local function ask(version, frames)
    local near, far = net.memory()
    server:accept(far)
    near:write("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: ", version, "\r\n\r\n", frames)
    rl.sleep(1)
    local _, body = near:read_until "\r\n\r\n", near:read_all()
    near:close()
    rl.sleep(1)
    return #body
  end
  t.equal(ask(13, "\x88\x85" .. MASK .. "\x03\xe8bye"), 7)
  t.equal(ask(13, "\x88\x81" .. MASK .. "x"), 29)
  t.equal(ask(12, ""), 31)
  server:stop(0)
  t.equal(entries, { { 101, 7 }, { 101, 29 }, { 426, 31 } })
end)
