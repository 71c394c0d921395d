-- runloop.postgres.fake: a PostgreSQL server in this process, for tests. A function of the test gives its answers.
-- libpq needs a socket, so the fake listens on an abstract Unix socket and speaks the protocol.

local binding = ...
local rl = require "runloop"
local net = require "runloop.net"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local messages = require "runloop.postgres.fake.messages"
local statements = require "runloop.postgres.fake.statements"

local setmetatable, ipairs, format = setmetatable, ipairs, string.format
local unpack, remove, sub = table.unpack, table.remove, string.sub
local receiver, message = misuse.receiver, messages.message

local Fake = objects.class("runloop.postgres.Fake", { __name = "fake", __stays = true })

local OPTIONS = { latency = "seconds", bandwidth = "number", password = "string" }
-- The numbers with which a connection begins.
local VERSION, CANCEL, TLS, GSS = 196608, 80877102, 80877103, 80877104
local LONGEST = 1 << 30
-- Seconds: a remaining stall shorter than this counts as over, since the clock cannot measure it.
local INSTANT = 1e-6

-- Sending -------------------------------------------------------------------------------------------------------------

local function cut_all(self)
  for _, client in ipairs { unpack(self._clients) } do client.stream:abort() end
end

-- Sends bytes to a client; cuts all connections after the chosen number of bytes.
local function send(self, client, bytes)
  if self._bandwidth then rl.sleep(#bytes / self._bandwidth) end
  local left = self._drop_after
  if not left or #bytes < left then
    if left then self._drop_after = left - #bytes end
    return client.stream:write(bytes)
  end
  self._drop_after = nil
  client.stream:write(sub(bytes, 1, left))
  client.stream:flush()
  cut_all(self)
end

function Fake:_notify(channel, text)
  for _, client in ipairs(self._clients) do
    if client.channels[channel] then client.stream:queue(messages.notification(channel, text)) end
  end
end

-- Statements ----------------------------------------------------------------------------------------------------------

local function note(self, text, parameters)
  self._received[#self._received + 1] = { text, unpack(parameters, 1, parameters.n) }
end

local HANDLERS = {}

-- Query: several statements, which all take effect, or none.
function HANDLERS.Q(self, client, body)
  local list = messages.statements(body:sub(1, -2))
  if #list == 0 then send(self, client, messages.EMPTY) end
  for _, text in ipairs(list) do
    local parameters = { n = 0 }
    note(self, text, parameters)
    local result = statements.run(self, client, text, parameters)
    send(self, client, statements.answer(client, result))
    if result.problem then break end
  end
  send(self, client, messages.ready(client.state))
end

-- Refuses, and ignores all messages until Sync.
local function refuse(self, client, problem, state)
  client.is_skipping = true
  send(self, client, statements.answer(client, { problem = problem, state = state }))
end

function HANDLERS.P(self, client, body)
  local name, text = messages.parse(body)
  local list = messages.statements(text)
  if #list > 1 then
    return refuse(self, client, "cannot insert multiple commands into a prepared statement", "42601")
  end
  if name ~= "" and client.prepared[name] then
    return refuse(self, client, format('prepared statement "%s" already exists', name), "42P05")
  end
  client.prepared[name] = { name = name, text = list[1] or "", count = statements.count(text) }
  send(self, client, messages.PARSED)
end

function HANDLERS.B(self, client, body)
  local portal, name, parameters = messages.bind(body)
  local statement = client.prepared[name]
  if not statement then
    return refuse(self, client, format('prepared statement "%s" does not exist', name), "26000")
  end
  if parameters.n ~= statement.count then
    return refuse(self, client, format('bind message supplies %d parameters, but prepared statement "%s" requires %d',
      parameters.n, name, statement.count), "08P01")
  end
  client.portals[portal] = { text = statement.text, parameters = parameters }
  send(self, client, messages.BOUND)
end

-- Runs a portal's statement once. Returns the statement's result; nil if it was refused.
local function result_of(self, client, portal)
  if not portal.result then
    note(self, portal.text, portal.parameters)
    portal.result = statements.run(self, client, portal.text, portal.parameters)
    if portal.result.problem then
      refuse(self, client, portal.result.problem, portal.result.state)
      return nil
    end
  end
  return portal.result
end

function HANDLERS.D(self, client, body)
  local portal = body:sub(1, 1) == "P" and client.portals[body:match("^.([^%z]*)")]
  if not portal then return refuse(self, client, "the fake describes portals only", "0A000") end
  if portal.text == "" then return send(self, client, messages.NO_DATA) end
  local result = result_of(self, client, portal)
  if not result then return end
  portal.is_described = true
  send(self, client, result.rows and (messages.rows(result.rows)) or messages.NO_DATA)
end

function HANDLERS.E(self, client, body)
  local portal = client.portals[body:match "^[^%z]*"]
  if not portal then return refuse(self, client, "portal does not exist", "34000") end
  if portal.text == "" then return send(self, client, messages.EMPTY) end
  local result = result_of(self, client, portal)
  if result then send(self, client, statements.answer(client, result, portal.is_described)) end
end

function HANDLERS.C(self, client, body)
  local list = body:sub(1, 1) == "S" and client.prepared or client.portals
  list[body:match("^.([^%z]*)")] = nil
  send(self, client, messages.CLOSED)
end

function HANDLERS.S(self, client)
  client.is_skipping = nil
  send(self, client, messages.ready(client.state))
end

function HANDLERS.H() end

-- Clients -------------------------------------------------------------------------------------------------------------

-- Undoes note_resting(true) at the end of a stall.
local Rest = { __close = function() binding.note_resting(false) end }

-- Waits until a stall is over. `is_awaited`: a thread of libpq waits for the client, and would stop virtual time during
-- the stall if note_resting were not called.
local function rest(self, is_awaited)
  if self._stalled - rl.now() <= INSTANT then return end
  if is_awaited then binding.note_resting(true) end
  local _ <close> = is_awaited and setmetatable({}, Rest) or nil
  while self._stalled - rl.now() > INSTANT do rl.sleep(self._stalled - rl.now()) end
end

-- Reads a message; returns its kind and its body. `is_awaited`: see `rest`.
local function read(self, stream, has_kind, is_awaited)
  local head = stream:read_exactly(has_kind and 5 or 4)
  if not head then return nil end
  local length = (">I4"):unpack(head, has_kind and 2 or 1) - 4
  if length < 0 or length > LONGEST then return nil end
  local body = length == 0 and "" or stream:read_exactly(length)
  rest(self, is_awaited)
  return body and has_kind and sub(head, 1, 1) or "", body
end

local function cancel(self, body)
  local id, key = (">I4I4"):unpack(body, 5)
  for _, client in ipairs(self._clients) do
    if client.id == id and client.key == key and client.stop then client.stop() end
  end
end

-- Reads the beginning of a connection. Returns the parameters of the client; nil if the connection has to end.
local function greet(self, stream, is_awaited)
  while true do
    local _, body = read(self, stream, false, is_awaited)
    if not body or #body < 4 then return nil end
    local number = (">I4"):unpack(body)
    if number == CANCEL then return cancel(self, body) end
    if number == VERSION then return messages.words(sub(body, 5)) end
    if number ~= TLS and number ~= GSS then return nil end
    stream:write "N"
  end
end

local PARAMETERS = { { "server_version", "15.0" }, { "server_encoding", "UTF8" }, { "client_encoding", "UTF8" },
  { "DateStyle", "ISO, MDY" }, { "TimeZone", "UTC" }, { "integer_datetimes", "on" },
  { "standard_conforming_strings", "on" } }

local function log_in(self, client, words)
  if self._password then
    send(self, client, message("R", (">I4"):pack(3)))
    local kind, body = read(self, client.stream, true, client.is_awaited)
    if kind ~= "p" then return false end
    if body ~= self._password .. "\0" then
      send(self, client, messages.refusal(format('password authentication failed for user "%s"', words.user or ""),
        "28P01", "FATAL"))
      return false
    end
  end
  send(self, client, message("R", (">I4"):pack(0)))
  for _, pair in ipairs(PARAMETERS) do send(self, client, messages.parameter(unpack(pair))) end
  send(self, client, message("K", (">I4I4"):pack(client.id, client.key)) .. messages.ready "I")
  return true
end

local function leave(self, client)
  for index, other in ipairs(self._clients) do
    if other == client then
      remove(self._clients, index)
      break
    end
  end
  if client.stop then client.stop() end
  client.stream:close()
end

local function serve(self, stream, is_awaited)
  stream:set_keeps_alive(false)
  local words = greet(self, stream, is_awaited)
  if not words then return end
  self._number = self._number + 1
  local client = { fake = self, stream = stream, id = self._number, key = math.random(0, (1 << 31) - 1), state = "I",
    prepared = {}, portals = {}, cursors = {}, channels = {}, is_awaited = is_awaited }
  self._clients[#self._clients + 1] = client
  local _ <close> = setmetatable({}, { __close = function() leave(self, client) end })
  if not log_in(self, client, words) then return end
  while true do
    local kind, body = read(self, stream, true)
    if not kind or kind == "X" then return end
    if self._latency > 0 then rl.sleep(self._latency) end
    local handler = HANDLERS[kind]
    if not handler then return send(self, client, messages.refusal("unknown message", "08P01", "FATAL")) end
    if not client.is_skipping or kind == "S" then handler(self, client, body) end
  end
end

-- Begins to listen, unless the fake listens already, has stopped, or no database uses it.
local function listen(self)
  if self._listener or self._is_stopped or self._users == 0 then return end
  local weak = setmetatable({ self }, { __mode = "v" })
  self._listener = assert(net.serve("unix:" .. self._place .. "/.s.PGSQL.5432", { keeps_alive = false },
    function(stream)
      local owner = weak[1]
      if not owner then return end
      local arrival = remove(owner._arrivals, 1)
      if arrival then arrival:complete(true) end
      -- Threads of libpq make all connections but those of `fake:connect`.
      serve(owner, stream, not arrival)
    end))
end

local function unlisten(self)
  if self._listener then self._listener:invalidate() end
  self._listener = nil
end

--- Returns the connection keywords by which libpq finds the fake, and counts one more database that uses it.
function Fake:_keywords()
  self._users = self._users + 1
  listen(self)
  return { host = self._place, port = "5432", user = "fake", dbname = "fake", sslmode = "disable",
    gssencmode = "disable", password = self._password }
end

--- Called when a database is closed. After the last database is closed, no item of the fake stays in a loop.
function Fake:_release()
  self._users = self._users - 1
  if self._users > 0 then return end
  unlisten(self)
  cut_all(self)
end

function Fake:connect()
  receiver(self, Fake, "fake:connect")
  self._users = self._users + 1
  local _ <close> = setmetatable({}, { __close = function()
    self._users = self._users - 1
    if self._users == 0 then unlisten(self) end
  end })
  listen(self)
  local stream, problem, code = net.connect("unix:" .. self._place .. "/.s.PGSQL.5432")
  if not stream then return nil, problem, code end
  -- Closing the listener would cut connections that it has not accepted.
  local arrival = rl.future()
  self._arrivals[#self._arrivals + 1] = arrival
  arrival:await(10)
  return stream
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
  unlisten(self)
  cut_all(self)
end

function Fake:start()
  receiver(self, Fake, "fake:start")._is_stopped = false
  listen(self)
end

function Fake:received()
  local list = {}
  for index, one in ipairs(receiver(self, Fake, "fake:received")._received) do list[index] = { unpack(one) } end
  return list
end

function Fake:__tostring() return format("fake of PostgreSQL (%d clients, %s)", #self._clients, self._made_at) end
Fake.__gc = unlisten

local fakes = 0
local fake = { class = Fake }

--- Makes a fake: `fn(sql, parameters)` returns rows, a count, or nil, a message and a code of PostgreSQL.
function fake.new(fn, options)
  if not misuse.is_callable(fn) then misuse.argument(fn, "function", "postgres.fake", 1) end
  options = misuse.options(options, OPTIONS, "postgres.fake", 2)
  if options.bandwidth == 0 then
    misuse.raise "postgres.fake: field 'bandwidth' must be a number of bytes per second, more than 0, got 0"
  end
  fakes = fakes + 1
  return setmetatable({
    _fn = fn, _latency = options.latency or 0, _bandwidth = options.bandwidth, _password = options.password,
    -- Programs whose math.random has the same seed must not use the same address.
    _made_at = objects.made_at(), _place = format("@rlhost-%x-%x-%d", require "runloop.process".id(),
      math.random(0, (1 << 32) - 1), fakes),
    _clients = {}, _received = {}, _arrivals = {}, _stalled = 0, _number = 0,
    _users = 0,
  }, Fake)
end

return fake
