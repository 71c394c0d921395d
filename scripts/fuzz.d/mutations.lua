-- Feeds changed bytes to the parsers in Swift and Lua, as their peers do: rlhost mutations.lua SECONDS SEED [TARGET…].
-- Prints defects: errors inside a module, and servers that no longer serve. Other defects end the process.

local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
local schedule, nats, redis, fs = require "runloop.schedule", require "runloop.nats", require "runloop.redis",
  require "runloop.fs"
local random = math.random
local seconds, seed = tonumber(arg[1]) or 1, math.tointeger(arg[2]) or os.time()
math.randomseed(seed)

local BODY = '--b\r\ncontent-disposition: form-data; name="a"; filename="f"\r\n\r\ntext\r\n--b\r\n\r\nx\r\n--b--\r\n'
local SEEDS = {
  cron = { "*/5 * * * mon-fri", "30 2 29 2 *", "0 0 1-31/2 jan,feb *", "@hourly" },
  server = {
    "POST /parts HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: " .. #BODY
      .. "\r\n\r\n" .. BODY,
    "POST /form HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na=%4\r\n1\r\n1\r\n0\r\n\r\n",
    "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x83abcd\1\2\3\x88\x80abcd",
    "GET /events HTTP/1.0\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1,3-\r\nIf-None-Match: \"a\"\r\n\r\n",
  },
  nats = { 'INFO {"server_id":"x","max_payload":100,"headers":true}\r\nPONG\r\nMSG a 1 2\r\nhi\r\n+OK\r\n',
    'INFO {}\r\nPONG\r\nHMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n-ERR \'x\'\r\nPING\r\n' },
  redis = { "%1\r\n+server\r\n+redis\r\n+OK\r\n$5\r\nhello\r\n", "+OK\r\n*2\r\n:1\r\n_\r\n>2\r\n+a\r\n+b\r\n" },
  messages = { ("\0"):rep(32), "\1\0\0\0\0\0\0\0\2\0\0\0\5\0\0\0hello" },
}

local function mutated(text)
  for _ = 1, random(0, 4) do
    local at, way = random(#text + 1), random(6)
    if way == 1 then text = text:sub(1, at - 1) .. string.char(random(0, 255)) .. text:sub(at + 1)
    elseif way == 2 then text = text:sub(1, at - 1) .. text:sub(at + random(8))
    elseif way == 3 then text = text:sub(1, at) .. text:sub(random(#text + 1), random(#text + 1)) .. text:sub(at + 1)
    elseif way == 4 then text = text:sub(1, at)
    elseif way == 5 then text = text:gsub("%d+", function(n) return random(5) == 1 and random(1 << 40) or n end)
    else text = text:sub(1, at) .. ("\0\255\r\n9"):sub(random(5)):rep(random(40)) .. text:sub(at + 1)
    end
  end
  return text
end

local current, found
-- An error that a module raises by mistake.
local function note(message)
  message = tostring(message)
  if message:find "attempt to " or message:find "stack overflow" or message:find "bad argument" then
    found = found or message
  end
end
rl.on_error(function(err, info) note(err) note(info.traceback) end)
local function try(fn, ...)
  local fine, err = xpcall(fn, debug.traceback, ...)
  if not fine then note(err) end
end

local routes = http.routes()
routes:post("/parts", function(request) for part in request:parts() do part:body() end return "parts" end)
routes:post("/form", function(request) request:form() return 204 end)
routes:get("/socket", function(request)
  local socket = request:websocket()
  if socket then for text in socket:messages() do socket:send(text) end end
end)
routes:get("/events", function(request) request:events():send { data = "a\nb" } return "events" end)
routes:any("/*", function(request) return request:body() or "no" end)
local server = assert(http.serve("memory", routes))

local PORT = "fuzz." .. seed .. "." .. require "runloop.process".id()
local port, socket = nil, nil
local targets = {}
function targets.cron(text) try(schedule.next_time, text, 0) end
function targets.server(text)
  local a, b = net.memory { chunk = random(2) == 1 and random(20) or nil }
  server:accept(b)
  a:write(text)
  a:finish()
  a:read_all { timeout = 0.05 }
  a:abort()
end
-- Answers every client with the text.
local function speak(text, fn)
  local listener <close> = setmetatable({ one = assert(net.serve("127.0.0.1:0", function(stream)
    stream:write(text)
    stream:read_all { timeout = 0.05 }
  end)) }, { __close = function(self) self.one:stop(0) end })
  rl.timeout(0.05, function() try(fn, listener.one:address()) end)
end
function targets.nats(text)
  speak(text, function(address)
    local bus <close> = nats.connect(address, { timeout = 0.03, reconnect = false })
    if not bus then return end
    bus:subscribe("a", print)
    bus:flush(0.01)
  end)
end
function targets.redis(text)
  speak(text, function(address)
    local db <close> = redis.open("redis://" .. address, { timeout = 0.03 })
    if db then db:call("GET", "a") end
  end)
end
function targets.messages(text)
  if not port then
    port = assert(rl.message_port { name = PORT, callback = function(_, _, data) return data end, modes = "common" })
    for path in fs.walk(os.getenv "XDG_RUNTIME_DIR") do
      if path:find(PORT, 1, true) and fs.stat(path).kind == "socket" then socket = path end
    end
  end
  local stream = assert(net.connect("unix:" .. assert(socket, "the port has no socket")))
  stream:write(text)
  stream:finish()
  stream:read_all { timeout = 0.02 }
  stream:abort()
end

local names = table.move(arg, 3, #arg, 1, {})
if #names == 0 then
  for name in pairs(targets) do names[#names + 1] = name end
  table.sort(names)
end
local count, failed = 0, false
for _, name in ipairs(names) do
  local limit, runs = rl.now() + seconds, 0
  while rl.now() < limit do
    current = mutated(SEEDS[name][random(#SEEDS[name])])
    found, runs = nil, runs + 1
    targets[name](current)
    if found then
      failed = true
      print(("%s: %q\n%s"):format(name, current, found))
      break
    end
  end
  count = count + runs
  print(("%s: %d inputs, seed %d"):format(name, runs, seed))
end
os.exit(failed and 1 or 0)
