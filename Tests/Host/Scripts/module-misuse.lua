-- Calls everything in runloop.net, runloop.http and runloop.json with random values. Prints each outcome that breaks
-- the rules: one that is neither results, nor nil with a message and a code, nor an error that begins with the
-- function's name. Usage: module-misuse.lua SEED ROUNDS DIRECTORY-OF-ANNOTATIONS

local rl, net, http, json = require "runloop", require "runloop.net", require "runloop.http", require "runloop.json"
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
local seed, rounds, annotations = tonumber(arg[1]), tonumber(arg[2]), arg[3]
math.randomseed(seed)
rl.on_error(function(message)
  -- Errors about a response that announces a length but sends nothing are expected.
  message = tostring(message)
  if not message:find "shorter than its Content%-Length" and not message:find "its Content%-Length says" then
    print("uncaught", message)
  end
end)

local FIELDS = { "host", "port", "path", "timeout", "max", "tls", "name", "order", "on_data", "on_connection",
  "on_error", "on_end", "mode",
  "backlog", "max_connections", "bind", "owns", "family", "verify", "certificate", "key", "sni", "protocols", "latency",
  "bandwidth",
  "chunk", "url", "method", "headers", "body", "json", "form", "follow", "status", "event", "data", "id", "retry",
  "keep_alive", "indent",
  "idle", "interval", "count", "peer", "modes", "cookies", "compress", "max_message", "nonsense", 1, "query", "unix",
  "proxy",
  "version", "max_body", "decompress" }

local VALUES = {
  function() return nil end, function() return true end, function() return false end, function() return 0 end,
  function() return -1 end,
  function() return 1.5 end, function() return 0 / 0 end, function() return math.huge end,
  function() return math.mininteger end,
  function() return math.maxinteger end, function() return 1e308 end, function() return 3 end, function() return "" end,
  function() return "x\0y" end, function() return ("\xff"):rep(5) end, function() return "127.0.0.1:1" end,
  function() return "unix:@no-such-thing" end, function() return "http://127.0.0.1:1/" end,
  function() return function() end end,
  function() return coroutine.create(print) end, function() return (net.pair()) end, rl.current,
  function() return { [1] = 1, [3] = 2 } end,
  function() return setmetatable({}, { __tostring = function() return 5 end, __name = 7 }) end,
}

local function value(depth)
  local number = math.random(#VALUES + 4)
  if number <= #VALUES then return VALUES[number]() end
  local options = {}
  for _ = 1, depth < 3 and math.random(0, 4) or 0 do options[FIELDS[math.random(#FIELDS)]] = value(depth + 1) end
  return options
end

local function judge(name, is_good, first, second, third)
  if not is_good then
    if type(first) ~= "string" then return end
    local text = first:gsub("^[^ ]*module%-misuse%.lua:%d+: ", "")
    -- An iterator or a handler gets errors of the network without a function's name.
    if text:find "^E%u+: " or text:find "^line %d+, column" then return end
    if text:sub(1, #name + 1) ~= name .. ":" then print("an error without the name", name, first) end
  elseif first == nil and second ~= nil then
    if type(second) ~= "string" then print("a reason that is not text", name, tostring(second)) end
    if second ~= "timed out" and type(third) ~= "string" then
      print("a reason without a code", name, second, tostring(third))
    end
  end
end

local function attack(name, fn, ...)
  local arguments = table.pack(...)
  for _ = 1, math.random(0, 4) do
    arguments.n = arguments.n + 1
    arguments[arguments.n] = value(0)
  end
  local task = rl.task(function()
    -- A function of this script makes the call, so the error's position must be in this script.
    local results = table.pack(pcall(function()
      local results = table.pack(fn(table.unpack(arguments, 1, arguments.n)))
      return table.unpack(results, 1, results.n)
    end))
    judge(name, table.unpack(results, 1, 4))
    for i = 2, results.n do
      if type(results[i]) == "userdata" or type(results[i]) == "table" then pcall(function() results[i]:close() end) end
    end
  end)
  -- The waits have lasted long enough.
  rl.sleep(0.001)
  task:cancel()
end

-- Objects whose peers send something, and then do nothing more.
local kept = {}
local function fed(a, b)
  b:write "hello\nworld"
  kept[#kept + 1] = b
  return a
end
local OBJECTS = {
  stream = { function() return fed(net.pair()) end, function() return fed(net.memory()) end,
    function()
      local stream = net.pair()
      stream:close()
      return stream
    end,
    function() return net.stream { host = "127.0.0.1", port = 1 } end },
  listener = { function() return net.listener { host = "127.0.0.1", port = 0 } end,
    function() return net.serve("127.0.0.1:0", print) end },
  datagram = { function() return net.datagram { port = 0 } end },
}

-- A request in the form that its handler gets. The handler waits until the test ends.
local BODY = "--edge\r\nContent-Disposition: form-data; name=a\r\n\r\none\r\n--edge--\r\n"
local POST = "POST /items/a%2Fb?x=1 HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=edge\r\n"
  .. "Content-Length: " .. #BODY
  .. "\r\n\r\n" .. BODY
local UPGRADE = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
  .. "Sec-WebSocket-Version: 13\r\n"
  .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
local function request_of(bytes)
  local given
  local near, far = net.memory()
  http.serve("memory", function(request)
    given = request
    rl.sleep(0.05)
    return not request.response and "late" or nil
  end):accept(far)
  near:write(bytes or POST)
  kept[#kept + 1] = near
  while not given do rl.sleep(0.0001) end
  return given
end

local function answering(request)
  if request.path == "/ws" then
    local socket = request:websocket()
    for message in socket:messages() do socket:send(message) end
    return
  end
  return "one\ntwo\n\ndata: x\n\n"
end
local function own() return part("runloop.http.client.wire").client(answering) end

OBJECTS.request = { request_of, function() return request_of(UPGRADE) end }
OBJECTS.response = { function() return request_of():respond() end,
  function() return request_of():respond { headers = { ["content-length"] = 5 } } end }
OBJECTS.events = { function() return request_of():respond():events() end }
OBJECTS.part = { function() return request_of():parts()() end }
OBJECTS.socket = { function() return request_of(UPGRADE):websocket { close_timeout = 0.01 } end,
  function() return own():websocket "/ws" end,
  function()
    local socket = own():websocket "/ws"
    socket:close()
    return socket
  end }
OBJECTS.answer = { function() return own():open { "/" } end }
OBJECTS.whole_answer = { function() return own():get "/" end }
OBJECTS.client = { function() return http.client() end, own }
OBJECTS.server = { function() return http.serve("memory", answering) end }
OBJECTS.routes = { function() return http.routes():get("/items/:id", answering) end }

local KINDS = { Incoming = "request", OpenAnswer = "answer", Answer = "whole_answer", WebSocket = "socket" }
local LEFT_OUT = { input = true, output = true, errors = true }
local calls = {}
for module, functions in pairs { ["net."] = net, ["http."] = http, ["json."] = json } do
  for name, fn in pairs(functions) do
    if type(fn) == "function" and not LEFT_OUT[name] then calls[#calls + 1] = { module .. name, fn } end
  end
end
for _, page in ipairs { "net", "http" } do
  local file <close> = assert(io.open(annotations .. "/runloop-" .. page .. ".lua"))
  for class, method in file:read "a":gmatch "\nfunction (%u%a+):([%w_]+)" do
    local kind = KINDS[class] or class:lower()
    for number = 1, #OBJECTS[kind] do
      calls[#calls + 1] = { kind:gsub("whole_", "") .. ":" .. method, method, kind, number }
    end
  end
end
table.sort(calls, function(a, b) return a[1] .. (a[4] or 0) < b[1] .. (b[4] or 0) end)

for round = 1, rounds do
  local call = calls[math.random(#calls)]
  if call[3] then
    local object = OBJECTS[call[3]][call[4]]()
    local method = object[call[2]]
    -- A test's client lacks some methods of other clients.
    if method then attack(call[1], method, math.random(8) == 1 and value(0) or object) end
    if type(object) == "userdata" or object.close then pcall(object.close, object) end
  else
    attack(call[1], call[2])
  end
  if round % 50 == 0 then
    kept = {}
    collectgarbage()
  end
end
print "done"
os.exit(0)
