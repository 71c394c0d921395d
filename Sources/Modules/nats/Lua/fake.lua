-- runloop.nats.fake: a NATS server in this process, for tests: subjects, queue groups, headers and log-in. It speaks
-- the protocol over streams of net.memory, so the client is tested with all its frames.

local rl = require "runloop"
local net = require "runloop.net"
local json = require "runloop.json"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local setmetatable, pairs, ipairs = setmetatable, pairs, ipairs
local type, tonumber = type, tonumber
local match, gmatch, format = string.match, string.gmatch, string.format
local sub, concat, random, max = string.sub, table.concat, math.random, math.max
local receiver = misuse.receiver

local Fake = objects.class("runloop.nats.Fake", { __name = "fake", __stays = true })

local OPTIONS = { latency = "seconds", bandwidth = "number", password = "string", max_payload = "positive",
  jetstream = "boolean" }
local LONGEST = 4096
-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6

-- Subjects ------------------------------------------------------------------------------------------------------------

local function words_of(subject)
  local words = {}
  for word in gmatch(subject, "[^.]+") do words[#words + 1] = word end
  return words
end

local function matches(filter, words)
  for index, word in ipairs(filter) do
    if word == ">" then return words[index] ~= nil end
    if words[index] == nil or word ~= "*" and word ~= words[index] then return false end
  end
  return #filter == #words
end

-- Returns the subscriptions for a subject: single ones, and lists of those that share a queue.
local function route(self, subject)
  local known = self._routes[subject]
  if known then return known end
  local words, groups = words_of(subject), {}
  known = { alone = {}, groups = {} }
  for _, one in ipairs(self._subscriptions) do
    if matches(one.words, words) then
      local group = one.group and groups[one.group]
      if group then
        group[#group + 1] = one
      elseif one.group then
        groups[one.group] = { one }
        known.groups[#known.groups + 1] = groups[one.group]
      else
        known.alone[#known.alone + 1] = one
      end
    end
  end
  if self._route_count >= 1000 then self._routes, self._route_count = {}, 0 end
  self._routes[subject], self._route_count = known, self._route_count + 1
  return known
end

local function forget_routes(self) self._routes, self._route_count = {}, 0 end

local function unsubscribe(self, one)
  for index, other in ipairs(self._subscriptions) do
    if other == one then
      table.remove(self._subscriptions, index)
      break
    end
  end
  one.client.subscriptions[one.sid] = nil
  forget_routes(self)
end

-- Sending -------------------------------------------------------------------------------------------------------------

local function cut_all(self)
  for _, client in ipairs { table.unpack(self._clients) } do client.stream:abort() end
end

-- Sends a client the messages that came while it was cut off.
local function send_late(client)
  if client.cut > rl.now() + SOON then
    client.alarm = rl.timer { delay = client.cut - rl.now(), modes = "common", keeps_alive = false,
      name = "fake of NATS", callback = function() send_late(client) end }
    return
  end
  local late = client.late
  client.late, client.alarm = nil, nil
  client.stream:queue(concat(late))
end

--- Cuts one client off for some seconds: data that both sides send meanwhile arrives afterwards.
function Fake:_cut(client, seconds)
  client.cut = rl.now() + seconds
  if client.late then return end
  client.late = {}
  send_late(client)
end

local function send(self, client, text)
  local late = client.late
  if late then
    late[#late + 1] = text
    return
  end
  local left = self._drop_after
  if left and #text >= left then
    self._drop_after = nil
    client.stream:queue(sub(text, 1, left))
    -- The bytes before the cut arrive.
    rl.after(self._latency, function() cut_all(self) end)
    return
  end
  if left then self._drop_after = left - #text end
  client.stream:queue(text)
end

local function deliver(self, one, message)
  local head = message.head and format("%d %d", #message.head, #message.head + #message.data) or #message.data
  send(self, one.client, concat { message.head and "HMSG " or "MSG ", message.subject, " ", one.sid, " ",
    message.reply and message.reply .. " " or "", head, "\r\n", message.head or "", message.data, "\r\n" })
  one.count = one.count + 1
  if one.most and one.count >= one.most then unsubscribe(self, one) end
end

-- Sends a message to all subscriptions of a subject. Returns whether there was a subscription.
local function distribute(self, subject, message)
  local found, is_taken = route(self, subject), false
  for _, one in ipairs(found.alone) do
    deliver(self, one, message)
    is_taken = true
  end
  for _, group in ipairs(found.groups) do
    deliver(self, group[random(#group)], message)
    is_taken = true
  end
  return is_taken
end

-- Publishes a message: the store gets it first.
local function publish(self, message)
  local is_stored = self._store and self._store:take(message)
  return distribute(self, message.subject, message) or is_stored
end

--- Sends a stored message to the subscriptions of a subject.
function Fake:_deliver(subject, message) return distribute(self, subject, message) end

--- Whether a subject has a subscription.
function Fake:_listens(subject)
  local found = route(self, subject)
  return #found.alone > 0 or #found.groups > 0
end

-- Commands ------------------------------------------------------------------------------------------------------------

local function fail(self, client, text)
  send(self, client, "-ERR '" .. text .. "'\r\n")
  client.stream:close()
  return false
end

local COMMANDS = {}

function COMMANDS.CONNECT(self, client, rest)
  local fields = json.decode(rest)
  if type(fields) ~= "table" then return fail(self, client, "Unknown Protocol Operation") end
  client.fields, client.is_open = fields, true
  if self._password and fields.pass ~= self._password then return fail(self, client, "Authorization Violation") end
  return true
end

function COMMANDS.PING(self, client)
  send(self, client, "PONG\r\n")
  return true
end

function COMMANDS.PONG() return true end

function COMMANDS.SUB(self, client, rest)
  local subject, group, sid = match(rest, "^(%S+)%s+(%S-)%s*(%S+)$")
  if not subject then return fail(self, client, "Unknown Protocol Operation") end
  local one = { client = client, words = words_of(subject), group = group ~= "" and group or nil, sid = sid,
    count = 0 }
  self._subscriptions[#self._subscriptions + 1] = one
  client.subscriptions[sid] = one
  forget_routes(self)
  return true
end

function COMMANDS.UNSUB(self, client, rest)
  local sid, most = match(rest, "^(%S+)%s*(%d*)$")
  local one = client.subscriptions[sid]
  if not one then return true end
  one.most = tonumber(most)
  if not one.most or one.count >= one.most then unsubscribe(self, one) end
  return true
end

local function take(self, client, message, size)
  if size > self._max_payload then return fail(self, client, "Maximum Payload Violation") end
  local data = client.stream:read_exactly(size, { skip = "\r\n" })
  if not data then return fail(self, client, "Unknown Protocol Operation") end
  local head = message.head_size
  message.head, message.data = head and sub(data, 1, head), head and sub(data, head + 1) or data
  local is_taken = publish(self, message)
  if is_taken or not message.reply or not client.fields.no_responders then return true end
  publish(self, { subject = message.reply, head = "NATS/1.0 503\r\n\r\n", data = "" })
  return true
end

function COMMANDS.PUB(self, client, rest)
  local subject, reply, size = match(rest, "^(%S+)%s+(%S-)%s*(%d+)$")
  if not subject then return fail(self, client, "Unknown Protocol Operation") end
  return take(self, client, { subject = subject, reply = reply ~= "" and reply or nil }, tonumber(size))
end

function COMMANDS.HPUB(self, client, rest)
  local subject, reply, head, size = match(rest, "^(%S+)%s+(%S-)%s*(%d+)%s+(%d+)$")
  if not subject or tonumber(head) > tonumber(size) then return fail(self, client, "Unknown Protocol Operation") end
  return take(self, client, { subject = subject, reply = reply ~= "" and reply or nil, head_size = tonumber(head) },
    tonumber(size))
end

-- Clients -------------------------------------------------------------------------------------------------------------

local function leave(self, client)
  for index, other in ipairs(self._clients) do
    if other == client then
      table.remove(self._clients, index)
      break
    end
  end
  for _, one in pairs(client.subscriptions) do unsubscribe(self, one) end
  if self._store then self._store:left() end
  if client.alarm then client.alarm:invalidate() end
  client.stream:close()
end

local function serve(self, client)
  local _ <close> = setmetatable({}, { __close = function() leave(self, client) end })
  local stream = client.stream
  while true do
    local line = stream:read_line { max = self._max_payload + LONGEST }
    if not line then return end
    while max(self._stalled, client.cut) > rl.now() + SOON do
      rl.sleep(max(self._stalled, client.cut) - rl.now())
    end
    local verb, rest = match(line, "^(%a+)%s*(.-)%s*$")
    local command = verb and COMMANDS[verb:upper()]
    self._received[#self._received + 1] = line
    if not command then return fail(self, client, "Unknown Protocol Operation") end
    if not client.is_open and command ~= COMMANDS.CONNECT then return fail(self, client, "Authorization Violation") end
    if not command(self, client, rest) then return end
  end
end

--- Accepts a client. Returns the client's stream and the fake's; or nil, the reason and its code.
function Fake:_accept()
  if self._is_stopped then return nil, "ECONNREFUSED: connection refused (fake)", "ECONNREFUSED" end
  local near, far = net.memory { latency = self._latency, bandwidth = self._bandwidth, high_water = 1 << 20 }
  near:set_keeps_alive(false)
  far:set_keeps_alive(false)
  local client = { stream = far, subscriptions = {}, fields = {}, is_open = false, cut = 0 }
  self._clients[#self._clients + 1] = client
  self._number = self._number + 1
  send(self, client, "INFO " .. json.encode({ server_id = "FAKE", server_name = "fake", version = "2.9.10", proto = 1,
    headers = true, jetstream = self._store ~= nil, max_payload = self._max_payload, client_id = self._number,
    auth_required = self._password ~= nil }) .. "\r\n")
  rl.task { serve, self, client, name = "fake of NATS", keeps_alive = false }
  return near, far
end

function Fake:connect()
  receiver(self, Fake, "fake:connect")
  local near, message, code = self:_accept()
  if not near then return nil, message, code end
  return near
end

function Fake:drop(after)
  receiver(self, Fake, "fake:drop")
  misuse.optional(after, "count", "fake:drop", 1)
  if after then self._drop_after = after else cut_all(self) end
end

function Fake:stall(seconds)
  receiver(self, Fake, "fake:stall")
  misuse.argument(seconds, "seconds", "fake:stall", 1)
  self._stalled = rl.now() + seconds
end

function Fake:stop()
  receiver(self, Fake, "fake:stop")._is_stopped = true
  cut_all(self)
  if self._store then self._store:stop() end
end

function Fake:start() receiver(self, Fake, "fake:start")._is_stopped = false end

function Fake:received()
  receiver(self, Fake, "fake:received")
  return { table.unpack(self._received) }
end

function Fake:__tostring() return format("fake of NATS (%d clients, %s)", #self._clients, self._made_at) end

local fake = { class = Fake }

function fake.new(options)
  options = misuse.options(options, OPTIONS, "nats.fake", 1)
  if options.bandwidth == 0 then
    misuse.raise "nats.fake: field 'bandwidth' must be a number of bytes per second, more than 0, got 0"
  end
  local self = setmetatable({
    _latency = options.latency or 0, _bandwidth = options.bandwidth, _password = options.password,
    _max_payload = options.max_payload or 1 << 20, _subscriptions = {}, _clients = {}, _routes = {}, _route_count = 0,
    _received = {}, _stalled = 0, _number = 0, _made_at = objects.made_at(),
  }, Fake)
  if options.jetstream then self._store = require "runloop.nats.fake_streams".new(self) end
  return self
end

return fake
