-- runloop.nats.link: one connection to a server, from its first byte to its last: log-in, and the frames of the
-- protocol. The bus interprets them.

local system, internals = ...
local rl = require "runloop"
local net = require "runloop.net"
local json = require "runloop.json"
local check = require "runloop.nats.check"
local secrets = require "runloop.nats.secrets"
local flow = require "runloop.nats.flow"
local frame = require "runloop.nats.frame"
local subscription = require "runloop.nats.subscription"

local native, Message = system.open(), subscription.Message
local setmetatable, type, tonumber, ipairs = setmetatable, type, tonumber, ipairs
local find, sub, match, format = string.find, string.sub, string.match, string.format
local now, put, sent, unsent = rl.now, native.put, native.sent, native.unsent
local read_headers, known_headers = check.read_headers, check.known_headers
local fits = require "runloop.misuse".fits_memory

local Link = {}
Link.__index = Link

-- The longest line. A longer line, or an unknown one, ends the connection.
local LONGEST = 65536
-- The largest message size: a server may not announce a larger one.
local MOST = 64 << 20
-- Seconds for which a closed connection still sends.
local LINGER = 2
-- The fields of INFO that are kept. INFO also has long fields that are not needed.
local FACTS = { "auth_required", "cluster", "connect_urls", "headers", "jetstream", "ldm", "nonce", "server_name",
  "tls_available", "tls_required", "version" }

-- Addresses -----------------------------------------------------------------------------------------------------------

--- Reads an address: "nats://user:password@host:4222", "tls://host", "host:4222". Returns nil if the text is not an
--- address.
function Link.address(text)
  local scheme, rest = match(text, "^(%a+)://(.*)$")
  if scheme and scheme ~= "nats" and scheme ~= "tls" then return nil end
  rest = match(rest or text, "^(.-)/*$")
  local secret, place = match(rest, "^(.*)@([^@]*)$")
  place = place or rest
  local host, port = match(place, "^(%[[%x:.%%]+%]):?(%d*)$")
  if not host then host, port = match(place, "^([^%s:@/%[%]]+):?(%d*)$") end
  local number = port == "" and 4222 or port and math.tointeger(tonumber(port))
  if not host or not number or number < 1 or number > 65535 then return nil end
  local address = { host = host:gsub("^%[(.*)%]$", "%1"), port = number, text = host .. ":" .. number,
    tls = scheme == "tls" }
  if secret then
    local user, password = match(secret, "^([^:]*):(.*)$")
    local function plain(word)
      return word and word:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
    end
    address.user, address.password = plain(user), plain(password)
    if not user then address.token = plain(secret) end
    for _, one in next, { address.user, address.password, address.token } do
      if not utf8.len(one) then return nil end
    end
  end
  return address
end

-- Whether an address belongs to this machine. A name such as "127.example.org" does not count, since it may lead
-- elsewhere.
local function is_loopback(address)
  local host = address.host
  return address.fake or host == "localhost" or find(host, "^127%.%d+%.%d+%.%d+$") ~= nil or host == "::1"
end

-- Frames --------------------------------------------------------------------------------------------------------------

-- Ends the connection because of what the server has sent.
local function refuse(self, line)
  local shown = sub(line, 1, 40):gsub("[^\32-\126]", "?")
  return self:lose("protocol error: " .. shown, "EPROTO")
end

-- Handles a line that is not the head of a message.
local function control(self, line)
  local verb = match(line, "^[+%-]?%a+")
  verb = verb and verb:upper()
  if verb == "PING" then
    self:send "PONG\r\n"
  elseif verb == "PONG" then
    self.owner:_pong(self)
  elseif verb == "INFO" then
    local info = json.decode(match(line, "^%a+%s+(.*)$") or "")
    if type(info) ~= "table" then return refuse(self, line) end
    self:learn(info)
    self.owner:_told(self, info)
  elseif verb == "-ERR" then
    self.owner:_error(self, match(line, "'(.*)'") or line)
  elseif verb ~= "+OK" then
    refuse(self, line)
  end
end

-- Takes a message with headers. `subject`: the subject; for an answer, the number of its request instead.
local function take_headed(self, sid, subject, reply, text, data)
  local owner, number = self.owner, nil
  if sid == 1 then
    number = subject
    local call = owner._waiting[number]
    if call and call.take and call:take(text, data) then return end
    subject = owner._inbox .. number
  end
  local has_mark, mark, trace = find(text, "Rl-Flow: ", 11, true), nil, nil
  if has_mark then text, mark, trace = flow.take(text) end
  local headers, status, description
  if text then
    local has_known = owner._shares[sid] and (mark or not has_mark)
    -- Servers do not read headers. Any client can publish others, and must not end the connections of all subscribers.
    headers, status, description = (has_known and known_headers or read_headers)(text)
    if headers and has_mark and not mark then headers, mark, trace = flow.sift(headers) end
  end
  local message = setmetatable({ subject = subject, data = data, reply = reply, headers = headers, _bus = owner,
    _status = status, _description = description }, Message)
  if mark then message._flow, message._trace = mark, trace end
  if number then return owner:_answer(message, number) end
  return owner:_take(sid, message)
end

local feed = native.feed(Message,
  function(self, message, number) return self.owner:_answer(message, number, self) end, take_headed,
  function(self, sid, message) return self.owner:_take(sid, message) end, control, refuse, subscription.pushed)

-- Resting -------------------------------------------------------------------------------------------------------------

-- Whether the connection leads to a real server, time is virtual, and no message is expected.
local function may_rest(self)
  local owner = self.owner
  return self.may_rest and not self.is_resting and self == owner._link and owner._requests == 0
    and owner._subscription_count == 0 and self:sent() == self.confirmed and self.first_ping > self.last_ping
    and not self.is_leaving
end

-- Leaves the loop: the clock of a test does not jump while a loop waits for a server. The next bytes that are sent
-- bring the connection back.
local function rest(self)
  self.is_resting, self.woken = true, rl.future()
  self:look_at_use()
  local loop, stream = rl.current(), self.stream
  loop:remove(stream, "common")
  for mode in next, self.owner._joined do loop:remove(stream, mode) end
  self.woken:await()
end

--- Pings the server if no message is expected any more: after the answer, the reader checks whether it may rest.
function Link:settle() if may_rest(self) then self.owner:_ping(self) end end

local function wake(self)
  local loop, stream, woken = rl.current(), self.stream, self.woken
  self.is_resting, self.woken = nil, nil
  self:look_at_use()
  loop:add(stream, "common")
  for mode in next, self.owner._joined do loop:add(stream, mode) end
  woken:complete()
end

-- Reading -------------------------------------------------------------------------------------------------------------

-- Reads one piece, or notes the end of the connection.
local function read_piece(self)
  local bytes, message, code = self.stream:read(262144)
  if not bytes then return self:lose(message or "the server has closed the connection", code or "ECONNRESET") end
  feed(self.wire, bytes)
  self.owner:_relieve()
end

--- Reads until the connection ends. A message may begin in one piece and end in another. A message that exceeds the
--- memory's limit ends the connection, and not the program.
function Link:read()
  while not self.is_over do
    if may_rest(self) then rest(self) end
    if not fits(read_piece, self) then self:lose("ENOMEM: no memory for a message", "ENOMEM") end
  end
end

-- Sending -------------------------------------------------------------------------------------------------------------

--- Sends bytes with the other writes of this turn. Returns the number of unsent bytes.
function Link:send(bytes)
  if self.is_resting then wake(self) end
  return not self.is_over and unsent(self.wire, self.stream:queue(bytes) or 0) or 0
end

--- Sends a message whose parts were checked. `reply`: a subject, or the number of a request. Returns the message's
--- bytes if `needs_text`, or if the native writer cannot send it.
function Link:put(subject, reply, head, data, needs_text)
  if not needs_text and not self.is_resting and put(self.wire, subject, reply, head, data) then return nil end
  local text = frame.text(self.owner, subject, reply, head, data)
  self:send(text)
  native.count(self.wire, #data)
  return text
end

--- Returns the number of published messages, and of their bytes.
function Link:sent() return sent(self.wire) end

--- Returns the number of unsent bytes.
function Link:unsent() return unsent(self.wire) end

--- Sets whether bus:publish may write into the stream.
function Link:look_at_use()
  local owner = self.owner
  native.set_ready(self.wire, self == owner._link and not self.is_resting and not owner._kept)
end

--- Ends the connection because of a failure, which is reported to the owner once.
function Link:lose(reason, code)
  if self.is_over then return false end
  self.is_over, self.reason, self.code = true, reason, code
  native.finish(self.wire)
  self.stream:abort()
  self.owner:_lost(self, reason, code)
  return false
end

--- Ends the connection; bytes that were written are still sent, for a while.
function Link:close()
  if self.is_over then return end
  self.is_over = true
  native.finish(self.wire)
  internals.close_within(self.stream, LINGER)
end

-- Opening -------------------------------------------------------------------------------------------------------------

function Link:learn(info)
  if type(info.max_payload) == "number" and info.max_payload > 0 then
    self.max_payload = math.min(info.max_payload, MOST)
    native.set_payload(self.wire, self.max_payload)
  end
  for _, name in ipairs(FACTS) do
    if info[name] ~= nil then self.info[name] = info[name] end
  end
end

local function failed(self, message, code)
  self.is_over = true
  self.stream:abort()
  return nil, message, code
end

local function rest_of(deadline) return math.max(0.001, deadline - now()) end

local function read_line(self, deadline)
  local line, message, code = self.stream:read_line { timeout = rest_of(deadline), max = LONGEST }
  if line then return line end
  if message == "timed out" then return failed(self, message) end
  if code == "EMSGSIZE" then return failed(self, "EPROTO: protocol error: " .. message, "EPROTO") end
  return failed(self, message or "ECONNRESET: the server has closed the connection", code or "ECONNRESET")
end

-- Reads INFO, which is the server's first line.
local function greet(self, deadline)
  local line, message, code = read_line(self, deadline)
  if not line then return nil, message, code end
  local text = match(line, "^INFO%s+(.*)$")
  local info = text and json.decode(text)
  if type(info) ~= "table" then
    local shown = sub(line, 1, 40):gsub("[^\32-\126]", "?")
    return failed(self, "EPROTO: protocol error: " .. shown, "EPROTO")
  end
  self:learn(info)
  return true
end

-- Begins TLS if the script or the server requires it, or if an earlier connection used it.
local function secure(self, options, deadline, had_tls)
  local info, address = self.info, self.address
  local wanted = address.tls or options.tls or had_tls
  if not wanted and not info.tls_required and not info.tls_available then return true end
  if not info.tls_required and not info.tls_available then
    return failed(self, format("TLS: %s offers no TLS", address.text), "TLS")
  end
  local settings = {}
  for name, value in next, type(options.tls) == "table" and options.tls or {} do settings[name] = value end
  settings.server_name = settings.server_name or address.server_name or address.host
  settings.timeout = rest_of(deadline)
  local done, message, code = self.stream:start_tls(settings)
  if not done then return failed(self, message, code) end
  self.tls = true
  return true
end

-- Logs in, and waits for the first PONG: if the server refuses the log-in, it reports that before the PONG.
local function log_in(self, options, deadline)
  local info, address = self.info, self.address
  local secret = secrets.in_clear(options, address)
  if secret and not self.tls and not is_loopback(address) and not options.insecure then
    return failed(self, format("EACCES: the %s would go unencrypted to %s; use tls:// or insecure = true", secret,
      address.text), "EACCES")
  end
  local fields = { verbose = false, pedantic = false, lang = "lua", version = "1", protocol = 1, echo = true,
    headers = true, no_responders = true, name = options.name, tls_required = self.tls or false }
  local filled, message, code = secrets.fill(fields, options, address, info.nonce)
  if not filled then return failed(self, message, code) end
  if info.headers ~= true then fields.headers, fields.no_responders = nil, nil end
  local began = now()
  self.stream:queue("CONNECT " .. json.encode(fields) .. "\r\nPING\r\n")
  while true do
    local line
    line, message, code = read_line(self, deadline)
    if not line then return nil, message, code end
    if find(line, "^PONG") then break end
    local problem = match(line, "^%-ERR%s+'?(.-)'?%s*$")
    if problem then
      local is_login = find(problem:lower(), "auth", 1, true)
      code = is_login and "EAUTH" or "EPROTO"
      return failed(self, format("%s: %s says: %s", code, address.text, problem), code)
    end
    local text = match(line, "^INFO%s+(.*)$")
    local news = text and json.decode(text)
    if type(news) == "table" then self:learn(news) elseif find(line, "^PING") then self:send "PONG\r\n" end
  end
  self.round_trip = now() - began
  return true
end

-- The virtual clock of a test; nil outside of tests.
local clock = rl.clock

--- Connects and logs in. Waits. `options`: those of nats.connect. Returns the link; or nil, the reason and its code.
function Link.open(owner, address, options, deadline, had_tls)
  local stream, message, code, far
  if address.fake then
    stream, far, code = address.fake:_accept()
    if not stream then return nil, far, code end
  else
    stream, message, code = net.connect({ host = address.host, port = address.port }, {
      timeout = rest_of(deadline), keeps_alive = false, high_water = 1 << 20, max_queue = 1 << 40,
      name = "connection to NATS at " .. address.text })
    if not stream then return nil, message, code end
  end
  stream:set_keeps_alive(false)
  local self = setmetatable({
    owner = owner, stream = stream, far = far, address = address, info = {}, max_payload = 1 << 20,
    is_over = false, tls = false, pings = {}, first_ping = 1, last_ping = 0, silent = 0, confirmed = 0,
    confirmed_bytes = 0, round_trip = 0,
  }, Link)
  internals.outlet(stream)
  self.wire = native.wire(self, stream, owner._totals, owner._queues, owner._inbox)
  native.set_payload(self.wire, self.max_payload)
  local is_done
  local _ <close> = setmetatable({}, { __close = function() if not is_done then failed(self) end end })
  local fine
  fine, message, code = greet(self, deadline)
  if fine then fine, message, code = secure(self, options, deadline, had_tls) end
  if fine then fine, message, code = log_in(self, options, deadline) end
  if not fine then return nil, message, code end
  is_done = true
  self.may_rest = not address.fake and clock ~= nil and clock._is_virtual()
  return self
end

return Link
