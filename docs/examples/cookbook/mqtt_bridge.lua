-- mqtt_bridge.lua BROKER FILTER [WHERE]: makes the topics of an MQTT broker reachable by HTTP.
--   GET /events          the messages, as they come: server-sent events, for EventSource in a browser
--   GET /topics/a/b      the last message of the topic a/b
--   POST /topics/a/b     publishes the body
local rl, net, http, log = require "runloop", require "runloop.net", require "runloop.http", require "runloop.log"

local broker, filter, where = arg[1], arg[2], arg[3] or "127.0.0.1:8080"
if not filter then io.stderr:write "usage: rlhost mqtt_bridge.lua BROKER FILTER [WHERE]\n" os.exit(64) end

local KEEP_ALIVE = 30
local last, listeners = {}, {} -- messages by topic; the events of clients
local connection

-- A packet of MQTT 3.1.1: its type and flags, the length of the rest in pieces of seven bits, the rest.
local function packet(kind, rest)
  local length, bytes = #rest, ""
  repeat
    bytes = bytes .. string.char(length % 128 + (length > 127 and 128 or 0))
    length = length // 128
  until length == 0
  return string.char(kind) .. bytes .. rest
end

local function read_packet(stream)
  local kind = assert(stream:read_exactly(1)):byte()
  local length, shift = 0, 0
  repeat
    local byte = assert(stream:read_exactly(1)):byte()
    length, shift = length | (byte & 127) << shift, shift + 7
  until byte < 128
  return kind, length > 0 and assert(stream:read_exactly(length)) or ""
end

local function handle(kind, rest)
  if kind & 0xf0 == 0x30 then -- PUBLISH; without an identifier, since this client subscribes with QoS 0
    local topic, position = string.unpack(">s2", rest)
    last[topic] = rest:sub(position)
    for events in pairs(listeners) do events:queue { event = topic, data = last[topic] } end
  elseif kind == 0x20 then -- CONNACK
    if rest:byte(2) ~= 0 then error("the broker refuses the connection: code " .. rest:byte(2), 0) end
    connection:write(packet(0x82, string.pack(">I2s2B", 1, filter, 0))) -- SUBSCRIBE
  elseif kind == 0x90 then -- SUBACK
    log.info("connected", { broker = broker, filter = filter })
  end
end

local function talk(backoff)
  local stream <close> = assert(net.connect(broker, { timeout = 10 }))
  connection = stream
  stream:set_timeout(KEEP_ALIVE * 2) -- the broker answers each ping
  stream:write(packet(0x10, string.pack(">s2BBI2s2", "MQTT", 4, 2, KEEP_ALIVE, ""))) -- CONNECT
  local ping <close> = rl.every(KEEP_ALIVE, function() stream:write(packet(0xc0, "")) end)
  while true do
    handle(read_packet(stream))
    backoff:reset()
  end
end

local app = http.routes()
app:get("/events", function(request)
  local events = request:events()
  listeners[events] = true
  local leave <close> = setmetatable({}, { __close = function() listeners[events] = nil end })
  events:wait_closed()
end)
app:get("/topics/*topic", function(request) return last[request.params.topic] or 404 end)
app:post("/topics/*topic", function(request)
  if not (connection and connection:is_open()) then return 503 end
  connection:write(packet(0x30, string.pack(">s2", request.params.topic) .. request:body()))
  return 202
end)
log.info("http://" .. assert(http.serve(where, app)):address())

local backoff = rl.backoff { first = 0.1, most = 30 }
while true do
  local _, problem = pcall(talk, backoff)
  if rl.is_cancelled(problem) then return end
  log.warning(problem)
  backoff:wait()
end
