-- runloop.http: scripts that misuse the userdata of a server's connection, and clients and servers that end connections
-- at bad moments.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local process = require "runloop.process"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raw, status_of = support.raw, support.status_of

local METHODS <const> = { "next_request", "take", "rest", "claim", "standing", "head", "last", "finish", "give_up",
  "leave", "upgrade", "has_stood", "set_deadline", "close", "state", "numbers" }
local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

-- A script that calls all functions with arbitrary arguments. The script's argument is the state of the connection.
local MISUSE <const> = [[
local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
local state, methods = ..., { "%s" }
rl.on_error(function() end)
local request
local server = http.serve("memory", function(incoming)
  request = incoming
  rl.sleep(1000)
end)
local near, far = net.memory()
server:accept(far)
near:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"
while not request do rl.sleep(0) end
local connection = request.connection
if state == "gone" then
  near:abort()
  while server:statistics().open > 0 do rl.sleep(0) end
elseif state == "collected" then
  local collect = debug.getmetatable(connection).__gc
  collect(connection)
  collect(connection)
  assert(not pcall(collect, io.stdout))
elseif state == "without values" then
  for place = 1, 3 do debug.setuservalue(connection, place == 2 and 5 or nil, place) end
end
for _ = 1, 3 do
  for _, name in ipairs(methods) do
    for _, arguments in ipairs { {}, { request }, { {} }, { request, -1, {}, {} }, { request, 200, {}, "x", "y" },
      { 0 / 0 }, { math.mininteger, math.maxinteger, math.huge }, { request, 99, { ["a\n"] = "b" }, 1, 1, 1 } } do
      local task = rl.task(pcall, connection[name], connection, table.unpack(arguments))
      rl.sleep(0)
      task:cancel()
    end
  end
  collectgarbage()
end
if state == "ended" then
  -- A finalizer that runs when the state is closed, before or after the finalizer of the connection.
  for _ = 1, 2 do
    KEPT = setmetatable({ KEPT }, { __gc = function()
      for _, name in ipairs(methods) do pcall(connection[name], connection, request, 5) end
    end })
  end
  request = nil
end
print "survived"
os.exit(0, true)
]]

local function connect(server)
  local near, far = net.memory()
  server:accept(far)
  return near
end

-- Returns the connection of a request that is being answered, its client's end, and its server.
local function connection_of(bytes)
  local found
  local server = http.serve("memory", function(request)
    found = request
    rl.sleep(1000)
  end)
  local near = connect(server)
  near:write(bytes or GET)
  t.eventually(function() return found end)
  return found.connection, near, server, found
end

t.describe("the userdata of a connection", function()
  t.it("has methods that reject other objects", function()
    local connection, near, server = connection_of()
    local other, far = connection_of()
    for _, name in ipairs(METHODS) do
      local method = connection[name]
      t.equal(type(method), "function", name)
      -- A connection of another server has another metatable.
      for _, wrong in ipairs { false, 5, "x", {}, print, near, io.stdout, other } do
        support.raises("http.connection expected", method, wrong)
      end
      support.raises("http.connection expected", method)
    end
    t.equal({ connection.nothing, rawequal(connection.stream, nil) }, { nil, false })
    support.raises("", function() connection.stream = 5 end)
    near:abort()
    far:abort()
    server:stop(0)
  end)

  t.it("survives wrong arguments, and calls in every state", { real_time = true, timeout = 60 }, function()
    for _, state in ipairs { "open", "gone", "collected", "without values", "ended" } do
      local result = process.run { t.rlhost, "-e", MISUSE:format(table.concat(METHODS, '", "')), state, timeout = 30 }
      t.equal({ result.code, result.signal, result.output, result.errors }, { 0, nil, "survived\n", "" }, state)
    end
  end)

  t.it("is not accepted if another object only has its metatable", function()
    local connection, near, server = connection_of()
    local impostor = net.pair()
    local metatable = debug.getmetatable(impostor)
    debug.setmetatable(impostor, debug.getmetatable(connection))
    support.raises("http.connection expected", connection.take, impostor, {}, 5)
    debug.setmetatable(impostor, metatable)
    impostor:close()
    near:abort()
    server:stop(0)
  end)

  t.it("does not let a request read the body of the next one", function()
    local kept, late
    local server = http.serve("memory", function(request)
      if request.path == "/first" then
        kept = request
        return "first"
      end
      late = table.pack(kept:read(100))
      return request:body()
    end)
    local near = connect(server)
    near:write("POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
      "POST /second HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\ndef")
    t.truthy(near:read_all():find "def$")
    t.equal({ late.n > 0 and late[1] or nil, kept.method }, { nil, "POST" })
    support.raises("answered already", kept.respond, kept)
    near:close()
  end)
end)

t.describe("a connection", function()
  t.it("continues with bytes that came before an upgrade was answered", function()
    local app, got = http.routes(), {}
    app:websocket("/", function(socket)
      for text in socket:messages() do got[#got + 1] = text end
    end)
    local near = connect(http.serve("memory", app))
    near:write("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
      "\x81\x82\0\0\0\0hi\x81\x83\0\0\0\0you\x88\x80\0\0\0\0")
    t.equal(status_of(near:read_all()), 101)
    t.equal(got, { "hi", "you" })
    near:close()
  end)

  t.it("takes trailers, and the requests behind them, in any pieces", function()
    local server = http.serve("memory", function(request) return request:body() or "nothing" end)
    local bytes = ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. "3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n"):rep(3)
      .. "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for _, size in ipairs { 1, 2, 3, 7, 64, 1000 } do
      local near = connect(server)
      for place = 1, #bytes, size do
        near:write(bytes:sub(place, place + size - 1))
        near:flush()
        rl.sleep(0)
      end
      local bodies = {}
      for body in near:read_all():gmatch "\r\n\r\n(%w*)" do bodies[#bodies + 1] = body:gsub("HTTP$", "") end
      t.equal(table.concat(bodies, " "), "abc0123456789 abc0123456789 abc0123456789 ", size)
      near:close()
    end
  end)

  t.it("is closed, and the task ends, if a request never reads its long body", function()
    local server = http.serve("memory", function() rl.sleep(1) return "enough" end)
    local near = connect(server)
    local writer = rl.task(function()
      near:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
      for _ = 1, 40 do if not near:write(("x"):rep(100000)) then return end end
    end)
    t.equal(status_of(near:read_all { timeout = 60 } or ""), 200)
    near:abort()
    writer:cancel()
    t.eventually(function() return server:statistics().open == 0 end)
  end)

  t.it("that waits for more of a body ends when the request's time is over", function()
    local server = http.serve("memory", { request_timeout = 5 }, function() rl.sleep(1000) end)
    local near = connect(server)
    local writer = rl.task(function()
      near:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
      for _ = 1, 40 do if not near:write(("x"):rep(100000)) then return end end
    end)
    t.equal(status_of(near:read_until("\r\n\r\n", { timeout = 60 }) or ""), 503)
    near:abort()
    writer:cancel()
    t.eventually(function() return server:statistics().open == 0 end)
  end)

  t.it("ends with its server, and when a handler closes it", function()
    local server
    server = http.serve("memory", function(request)
      if request.path == "/close" then request.connection:close() end
      if request.path == "/stream" then request.stream:abort() end
      if request.path == "/server" then server:close() end
      if request.path == "/stop" then rl.task(function() server:stop(0.1) end) rl.sleep(1000) end
      return "answer"
    end)
    for _, path in ipairs { "/close", "/stream" } do
      raw(server, ("GET %s HTTP/1.1\r\nHost: x\r\n\r\n"):format(path):rep(2), 1)
    end
    t.truthy(raw(server, "GET /server HTTP/1.1\r\nHost: x\r\n\r\n" .. GET, 1):find("Connection: close", 1, true))
    t.equal(raw(server, "GET /stop HTTP/1.1\r\nHost: x\r\n\r\n" .. GET, 1), "")
    t.eventually(function() return server:statistics().open == 0 end)
    t.equal(server:statistics().active, 0)
  end)

  t.it("sends 100 Continue when the handler reads the body, and not if it refuses the request", function()
    local server = http.serve("memory", function(request)
      if request.path == "/no" then return { status = 403, body = "no" } end
      return request:body()
    end)
    local ask = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    local near = connect(server)
    near:write(ask:format "/yes")
    t.equal(near:read_until "\r\n\r\n", "HTTP/1.1 100 Continue")
    near:write "abc"
    t.truthy(near:read_until "abc":find("200 OK", 1, true))
    near:write(ask:format "/no")
    local answer = near:read_all()
    t.truthy(answer:find "^HTTP/1.1 403 " and answer:find("Connection: close", 1, true), answer)
    near:close()
  end)
end)
