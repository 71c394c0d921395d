-- runloop.nats: a client of NATS servers. This part has the options of a connection, and chooses the server: at the
-- beginning, after a loss, and when the present server is about to leave.

local system, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local check = require "runloop.nats.check"
local Link = require "runloop.nats.link"
local Bus = require "runloop.nats.bus"
local fake = require "runloop.nats.fake"
local seen = require "runloop.nats.seen"
local subscription = require "runloop.nats.subscription"

local type, ipairs, pairs = type, ipairs, pairs
local setmetatable, getmetatable, pcall, tostring = setmetatable, getmetatable, pcall, tostring
local format, concat, now = string.format, table.concat, rl.now
local raise, describe, receiver = misuse.raise, misuse.describe, misuse.receiver

local nats = { fake = fake.new }

local OPTIONS = {
  name = "string", timeout = "seconds", retry = "boolean", user = "string", password = "string", token = "string",
  credentials = "string", nkey = "string", tls = { "boolean", "table" }, insecure = "boolean",
  reconnect = { "boolean", "table" }, ping = "number", max_offline = "count", republish = "boolean", inbox = "string",
  prefix = "string", expose = "table", modes = "any", order = "any", on_event = "function",
}
-- The parts of a process that the option `expose` may show to others.
local EXPOSED = { stats = true, trace = true }
-- The largest number of servers that a bus knows: servers report further ones.
local MOST_SERVERS = 1000
-- The number of refused log-ins before the next one waits long.
local LOGINS = 2
-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6
-- Seconds for which an old connection stays for the answers to its requests.
local LEAVING = 5

-- Servers -------------------------------------------------------------------------------------------------------------

local function add_address(list, text, what)
  -- A text that has only a port means this machine, as a number does.
  local address = Link.address(text:find "^%d+$" and "127.0.0.1:" .. text or text)
  if not address then
    raise('%s: a server must be "nats://host:4222", "tls://host:4222", "host:4222" or a port, got %s', what,
      describe((text:gsub("//.*@", "//…@"))))
  end
  list[#list + 1] = address
end

local function addresses_of(servers, what)
  local list = {}
  local function add(one)
    if type(one) == "string" then
      for text in one:gmatch "[^,%s]+" do add_address(list, text, what) end
    elseif math.type(one) == "integer" and one >= 1 and one <= 65535 then
      add_address(list, "127.0.0.1:" .. one, what)
    elseif getmetatable(one) == fake.class then
      list[#list + 1] = { fake = one, host = "fake", port = 0, text = "fake" }
    else
      misuse.wrong(what, "argument #1", "an address, a port, a fake or a list of these", one)
    end
  end
  if type(servers) == "table" and getmetatable(servers) == nil then
    for _, one in ipairs(servers) do add(one) end
  else
    add(servers)
  end
  if #list == 0 then raise("%s: argument #1 names no server", what) end
  return list
end

--- Adds the other servers of a cluster, which a server has reported.
function Bus:_learn_servers(link, info)
  local urls, from = info.connect_urls, link.address
  if type(urls) ~= "table" or from.fake then return end
  local list, seen = {}, {}
  for _, address in ipairs(self._servers) do
    if not address.is_told then list[#list + 1], seen[address.text] = address, true end
  end
  for _, url in ipairs(urls) do
    local address = type(url) == "string" and #list < MOST_SERVERS and Link.address(url)
    if address and not seen[address.text] then
      seen[address.text] = true
      list[#list + 1] = { host = address.host, port = address.port, text = address.text, tls = from.tls, is_told = true,
        server_name = from.server_name or from.host, user = from.user, password = from.password, token = from.token }
    end
  end
  self._servers = list
end

-- Tries the servers once, in random order, except one. Returns a link; or nil, the reasons, and the last one's code.
local function open_any(self, deadline, except)
  local list, reasons, last = {}, {}, nil
  for _, address in ipairs(self._servers) do
    if not except or address ~= except and (address.fake or address.text ~= except.text) then
      list[#list + 1] = address
    end
  end
  for index = #list, 2, -1 do
    local other = system.chance() * index // 1 + 1
    list[index], list[other] = list[other], list[index]
  end
  for index, address in ipairs(list) do
    local rest = deadline - now()
    if rest <= 0 then break end
    local link, message, code = Link.open(self, address, self._options, now() + rest / (#list - index + 1),
      self._had_tls)
    if link then return link end
    reasons[#reasons + 1] = #list > 1 and format("%s: %s", address.text, message) or message
    last = code or last
  end
  if #reasons == 0 then return nil, "timed out" end
  if #list > 1 and last then return nil, last .. ": no server: " .. concat(reasons, "; "), last end
  return nil, reasons[1], last
end

local function is_secret_refused(code) return code == "EAUTH" end

local function come_back(self, link)
  local seconds = now() - self._lost_at
  self._reconnecting, self._reconnects, self._back_at = nil, self._reconnects + 1, now()
  if self._status == "reconnecting" then self._status = "connected" end
  local republished = self:_use(link)
  local connected = self._connected
  self._connected = nil
  if connected then connected:complete() end
  self:_tell("reconnected", { server = link.address.text, seconds = seconds, republished = republished })
end

-- Returns the waits between tries. One random factor for each loss scales all its waits. If each wait were random by
-- itself, their sums would be similar, and a thousand clients would come back within a few tenths of a second.
local function backoff_of(options)
  local own = { first = 0.05, most = 10, jitter = 0.5, factor = options.factor, tries = options.tries }
  for _, field in ipairs { "first", "most", "jitter" } do own[field] = options[field] or own[field] end
  local pace = 1 - own.jitter * system.chance()
  own.first, own.most, own.jitter = own.first * pace, own.most * pace, 0
  return rl.backoff(own)
end

local function reconnect(self)
  local options = self._reconnect
  local backoff = backoff_of(type(options) == "table" and options or {})
  local most, refused = type(options) == "table" and options.most or 10, 0
  while self._status ~= "closed" do
    if refused >= LOGINS then
      rl.sleep(most)
    else
      local try, problem = backoff:wait()
      if not try then
        self._reconnecting = nil
        return self:_shut(problem)
      end
    end
    local link, message, code = open_any(self, now() + self._timeout)
    if link and self._status == "closed" then return link:close() end
    if link then return come_back(self, link) end
    if is_secret_refused(code) then
      refused = refused + 1
      self:_tell("refused", { message = message, code = code })
    end
  end
end

--- Connects again in the background.
function Bus:_reconnect_soon()
  if self._reconnecting then return end
  self._reconnecting = rl.task { reconnect, self, name = "connecting to NATS again", keeps_alive = false }
end

-- Waits until the old server of a cluster knows the subscriptions at the new server, and has delivered all messages
-- that it got from the new server before. To find out, the new connection sends a message to the old one; that message
-- arrives there after all messages that the old server has got before.
local function await_passage(self, old, link)
  if self._subscription_count == 0 or not link.info.cluster or link.info.cluster ~= old.info.cluster then return end
  if old.is_over or link.is_over then return end
  local number = self._last_request + 1
  self._last_request = number
  local passage = { subject = self._inbox .. number, link = old, future = rl.future() }
  self._passages = self._passages or {}
  self._passages[number] = passage
  link:put(passage.subject, nil, nil, "")
  passage.future:await(LEAVING)
  self._passages[number] = nil
end

-- Moves to another server while the old connection still receives the answers to its requests.
local function move(self, old)
  local link = open_any(self, now() + self._timeout, old.address)
  if not link then return end
  if self._status == "closed" or self._link ~= old then return link:close() end
  for index = self._kept and self._kept_first or 1, self._kept and old:sent() or 0 do
    self._again[#self._again + 1] = self._kept[index]
  end
  if self._kept then self._kept, self._kept_first = {}, 1 end
  self:_use(link)
  local future = rl.future()
  self:_ping(link, future)
  future:await(LEAVING)
  await_passage(self, old, link)
  for sid in pairs(self._subscriptions) do old:send("UNSUB " .. sid .. "\r\n") end
  local deadline = now() + LEAVING
  local function owes()
    for _, request in pairs(self._waiting) do if request.link == old then return true end end
  end
  self:_ping(old)
  repeat rl.sleep(0.02) until now() > deadline or old.is_over or not owes() and old.first_ping > old.last_ping
  old:close()
  local sent, bytes = old:sent()
  local messages = sent - old.confirmed
  if messages > 0 and not self._kept then
    self:_tell("disconnected", { reason = "the server ended before it had confirmed all messages", code = "ECONNRESET",
      server = old.address.text, messages = messages, bytes = bytes - old.confirmed_bytes })
  end
end

--- Leaves a server that is about to end, if there is another one.
function Bus:_move(link)
  if #self._servers > 1 then
    rl.task { move, self, link, name = "moving to another server of NATS", keeps_alive = false }
  end
end

-- Refusals ------------------------------------------------------------------------------------------------------------

-- The server refuses a subject: ends the requests to it, or the waits for its messages.
local function refuse(self, subject, reason, code, is_subscription)
  local refused = {}
  if not is_subscription then
    for _, request in pairs(self._waiting) do
      if request.subject == subject then refused[#refused + 1] = request end
    end
  elseif subject == self._inbox .. "*" then
    -- Without this subscription, no request can get an answer on this connection.
    self._deaf = reason
    for _, request in pairs(self._waiting) do refused[#refused + 1] = request end
  end
  for _, request in ipairs(refused) do self:_finish(request, nil, reason, code) end
  for _, one in pairs(is_subscription and self._subscriptions or {}) do
    if one._subject == subject then one:_refuse(reason) end
  end
end

--- Handles -ERR of the server. The server then ends the connection, unless the error is about a limit or a permission.
function Bus:_error(link, text)
  local subject = text:match '^Permissions Violation for [^"]*"([^"]*)"'
  for _, passage in pairs(subject and self._passages or {}) do
    if passage.subject == subject then return passage.future:complete() end
  end
  if subject then
    local reason, code = format("EACCES: the server refuses %s: %s", subject, text), "EACCES"
    local is_subscription = text:find "^Permissions Violation for Subscription" ~= nil
    refuse(self, subject, reason, code, is_subscription)
    -- Discovery has nine such subjects for each service: one event is enough.
    if is_subscription and subject:find "^%$SRV%." then
      if self._is_hidden then return end
      self._is_hidden, subject = true, "$SRV.>"
      reason = "EACCES: the server refuses subscriptions to $SRV.>: others cannot discover this process"
    end
    return self:_tell("refused", { message = reason, code = code, subject = subject })
  end
  local lower = text:lower()
  if lower:find "^maximum subscriptions" or lower:find "^invalid.* subject" then
    return self:_tell("refused", { message = "EPROTO: the server says: " .. text, code = "EPROTO" })
  end
  link.last_error = text
  if lower:find("auth", 1, true) then
    self:_tell("refused", { message = "EAUTH: " .. text, code = "EAUTH" })
  end
end

-- Publishing ----------------------------------------------------------------------------------------------------------

local PUBLISH = { reply = "string", headers = "table" }

local function publish(self, subject, data, options)
  receiver(self, Bus, "bus:publish")
  check.subject(subject, "bus:publish")
  if type(data) ~= "string" then data = check.data(data, "bus:publish") end
  if options then
    misuse.options(options, PUBLISH, "bus:publish", 3)
    if options.reply then check.subject(options.reply, "bus:publish", "field 'reply'") end
  end
  return self:_publish("bus:publish", subject, data, options)
end

-- Sends a small message without options natively, over a connection that has room, and calls `publish` for others.
Bus.publish = system.open().publish(publish)
objects.originals[Bus.publish] = publish

-- Looking inside ------------------------------------------------------------------------------------------------------

--- Returns the kind, the name and further information for loop:inspect.
function Bus:_seen()
  return "nats", self._options.name, format("%s, %s", seen.place(self), self._status)
end

function Bus:__tostring() return format("bus (%s, %s)", self._status, self._made_at) end

function Bus:is_open() return receiver(self, Bus, "bus:is_open")._status ~= "closed" end
function Bus:status() return receiver(self, Bus, "bus:status")._status end

function Bus:server()
  local link = receiver(self, Bus, "bus:server")._link
  if not link then return nil end
  local info = link.info
  return { address = link.address.text, name = info.server_name, version = info.version, cluster = info.cluster,
    max_payload = link.max_payload, jetstream = info.jetstream == true, tls = link.tls, round_trip = link.round_trip }
end

function Bus:stats()
  receiver(self, Bus, "bus:stats")
  local messages_in, bytes_in, messages_out, bytes_out = system.open().read_totals(self._totals)
  return { messages_in = messages_in, messages_out = messages_out, bytes_in = bytes_in, bytes_out = bytes_out,
    reconnects = self._reconnects, late_answers = self._late,
    subscriptions = self._subscription_count, requests = self._requests, offline_bytes = self._offline_bytes }
end

function Bus:unconfirmed()
  local link = receiver(self, Bus, "bus:unconfirmed")._link
  local messages, bytes = 0, 0
  if link then
    messages, bytes = link:sent()
    messages, bytes = messages - link.confirmed, bytes - link.confirmed_bytes
  end
  for _, entry in ipairs(self._offline) do
    if entry.text and not entry.request then messages, bytes = messages + 1, bytes + entry.size end
  end
  return messages, bytes
end

function Bus:flush(timeout)
  receiver(self, Bus, "bus:flush")
  misuse.optional(timeout, "seconds", "bus:flush", 1)
  local deadline = now() + (timeout or 10)
  while not self._link do
    if self._status == "closed" then return self:_why_over() end
    local left = deadline - now()
    if left <= SOON then return nil, "timed out" end
    self._connected = self._connected or rl.future()
    self._connected:await(left)
  end
  local future = rl.future()
  self:_ping(self._link, future)
  local _ <close> = self:_borrow()
  return future:await(math.max(0, deadline - now()))
end

function Bus:drain(timeout)
  receiver(self, Bus, "bus:drain")
  misuse.optional(timeout, "seconds", "bus:drain", 1)
  if self._status == "closed" then return self:_why_over() end
  local deadline = now() + (timeout or 10)
  self._status = "draining"
  -- A task that is cancelled here closes the bus, too.
  local _ <close> = setmetatable({}, { __close = function() self:_shut "drained" end })
  local list, done, message, code = {}, true, nil, nil
  for _, one in pairs(self._subscriptions) do list[#list + 1] = one end
  for _, one in ipairs(list) do
    local fine, problem, why = one:drain(math.max(0, deadline - now()))
    if not fine then done, message, code = nil, problem, why end
  end
  local fine, problem, why = self:flush(math.max(0, deadline - now()))
  if not fine then done, message, code = nil, problem, why end
  if not done then return nil, message, code end
  return true
end

-- The calls for stored messages: their parts are loaded at the first use.
function Bus:stream(name, settings)
  return require "runloop.nats.stream".open(receiver(self, Bus, "bus:stream"), name, settings)
end

function Bus:bucket(name, settings)
  return require "runloop.nats.bucket".open(receiver(self, Bus, "bus:bucket"), name, settings)
end

function Bus:lease(name, options)
  return require "runloop.nats.lease".take(receiver(self, Bus, "bus:lease"), name, options)
end

-- Connecting ----------------------------------------------------------------------------------------------------------

local function keep_asking(self)
  self._pinging = rl.timer { interval = self._ping_every, modes = "common", keeps_alive = false, name = "pings of NATS",
    callback = function()
      local link = self._link
      if not link then return end
      if link.silent >= 2 then return link:lose("two pings were not answered", "ETIMEDOUT") end
      link.silent = link.silent + 1
      self:_ping(link)
    end }
  seen.items[self._pinging] = self
end

-- The open buses, and the task that closes them when the program ends, so that published messages go out.
local guarded, guard = {}, nil

local function watch()
  local _ <close> = setmetatable({}, { __close = function()
    local list = {}
    for bus in next, guarded do list[#list + 1] = bus end
    guarded, guard = {}, nil
    -- In a test the buses stay open, so that the runner finds them as leaks.
    if rl.clock then return end
    for _, bus in ipairs(list) do bus:_shut "the program ends" end
  end })
  rl.channel():receive()
end

function Bus:_guard()
  guarded[self] = true
  guard = guard or rl.task { watch, name = "end of NATS", keeps_alive = false }
end

--- Called when the bus is closed.
function Bus:_unguard()
  guarded[self] = nil
  local task = guard
  if task and next(guarded) == nil then
    guard = nil
    task:cancel()
  end
end

local function check_options(what, options)
  options = misuse.options(options, OPTIONS, what, 2)
  check.range(options, what, "ping", 0.01, 86400)
  check.range(options, what, "timeout", 0.001, 86400)
  for _, field in ipairs { "inbox", "prefix" } do
    if options[field] then check.subject(options[field], what, "field '" .. field .. "'") end
  end
  if options.order ~= nil and math.type(options.order) ~= "integer" then
    misuse.wrong(what, "field 'order'", "an integer", options.order)
  end
  for _, field in ipairs { "name", "user", "password", "token" } do
    -- These values are sent to the server as JSON.
    if options[field] and not utf8.len(options[field]) then raise("%s: field '%s' is not UTF-8", what, field) end
  end
  if options.credentials and options.nkey then raise("%s: give either 'credentials' or 'nkey'", what) end
  if type(options.reconnect) == "table" then
    local fine, problem = pcall(rl.backoff, options.reconnect)
    if not fine then raise("%s: field 'reconnect': %s", what, (tostring(problem):gsub("^.*rl%.backoff: ", ""))) end
  end
  for index, word in pairs(options.expose or {}) do
    if math.type(index) ~= "integer" or not EXPOSED[word] then
      misuse.wrong(what, "field 'expose'", 'a list of "stats" and "trace"', index == 1 and word or options.expose)
    end
  end
  return options
end

local LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

local function unique()
  local bytes, letters = require "runloop.crypto".random(22), {}
  for index = 1, 22 do
    local place = bytes:byte(index) % 62 + 1
    letters[index] = LETTERS:sub(place, place)
  end
  return concat(letters)
end

local function script_name()
  local path = arg and arg[0]
  return type(path) == "string" and path:match "[^/]+$" or "rlhost"
end

local function is_exposed(options, wanted)
  for _, word in ipairs(options.expose or {}) do if word == wanted then return true end end
  return false
end

-- The initial values of a bus's fields: a bus stores only those that differ.
for name, value in next, {
  _timeout = 10, _ping_every = 10, _max_offline = 8 << 20, _reconnect = true, _on_event = false, _order = 0,
  _prefix = "rl", _requests = 0, _last_request = 0, _last_number = 0, _subscription_count = 0, _last_sid = 1,
  _offline_bytes = 0, _kept = false, _kept_first = 1, _kept_bytes = 0, _max_payload = 1 << 20, _reconnects = 0,
  _late = 0, _had_tls = false, _link = false, _confirming = false, _reconnecting = false, _connected = false,
  _back_at = false, _look = false, _reason = false, _deaf = false, _passages = false,
} do Bus[name] = value end

-- The options that become fields.
local FIELDS = { timeout = "_timeout", ping = "_ping_every", max_offline = "_max_offline", reconnect = "_reconnect",
  on_event = "_on_event", order = "_order", prefix = "_prefix" }

local function new(what, servers, options)
  local list = addresses_of(servers, what)
  options = check_options(what, options)
  local own = {}
  for name, value in pairs(options) do own[name] = value end
  own.name = own.name or script_name()
  local self = setmetatable({
    _servers = list, _options = own, _inbox = (options.inbox or "_INBOX") .. "." .. unique() .. ".",
    _modes = subscription.modes_of(options.modes, nil, what), _status = "reconnecting", _waiting = {}, _parts = {},
    _joined = {}, _crowded = {}, _warned = {}, _subscriptions = {}, _offline = {}, _again = {}, _shares = {},
    _queues = {}, _shared = {}, _totals = system.open().totals(),
    _loop = rl.current(), _made_at = objects.made_at(), _exposes_trace = is_exposed(options, "trace"),
  }, Bus)
  for option, field in next, FIELDS do
    if options[option] ~= nil then self[field] = options[option] end
  end
  if options.republish then self._kept = {} end
  return self
end

function nats.connect(servers, options)
  local self = new("nats.connect", servers, options)
  if type(self._options.tls) == "table" then
    local fine, message, code = internals.check_tls(self._options.tls, "nats.connect")
    if not fine then return nil, message, code end
  end
  local deadline, backoff, refusal, last = now() + self._timeout, nil, nil, nil
  keep_asking(self)
  local is_done
  local _ <close> = setmetatable({}, { __close = function() if not is_done then self._pinging:invalidate() end end })
  while true do
    local link, message, code = open_any(self, deadline)
    if link then
      self._status = "connected"
      self:_use(link)
      break
    end
    if not self._options.retry then return nil, message, code end
    if code then refusal, last = message, code end
    backoff = backoff or rl.backoff { first = 0.05, most = 1 }
    if deadline - now() <= SOON then
      -- The time limit has ended the last try, so an earlier try has the reason.
      if not last then return nil, message, code end
      return nil, format("%s (tried again for %g s)", refusal, self._timeout), last
    end
    rl.timeout(deadline - now(), backoff.wait, backoff)
  end
  is_done = true
  self:_guard()
  local words = self._options.expose
  if words and #words > 0 then require "runloop.nats.service".expose(self, words) end
  if self._exposes_trace then require "runloop.nats.traces".expose(self) end
  return self
end

function nats.discover(bus, options)
  if getmetatable(bus) ~= Bus then misuse.wrong("nats.discover", "argument #1", "a bus", bus) end
  return require "runloop.nats.service".discover(bus, options)
end

return nats
