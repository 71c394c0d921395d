-- runloop.nats.bus: a client of NATS servers: sends messages, passes answers to the waiting requests, and recovers from
-- lost connections.

local system, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local check = require "runloop.nats.check"
local subscription = require "runloop.nats.subscription"
local seen = require "runloop.nats.seen"
local flow = require "runloop.nats.flow"
local frame = require "runloop.nats.frame"

local setmetatable, type = setmetatable, type
local next, ipairs, pairs, pcall = next, ipairs, pairs, pcall
local format, concat, now = string.format, table.concat, rl.now
local receiver = misuse.receiver
local waits, running = seen.waits, coroutine.running
local native, future_of_request = system.open(), internals.open_bare_futures()

local Bus = objects.class("runloop.nats.Bus", { __name = "bus", __stays = true })

-- Above this number of unsent bytes, publishing waits.
local UNSENT = 1 << 20
local MOST_REQUESTS = 65536
-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6
-- Seconds between two checks that the server has received the published messages.
local CONFIRM = 0.1

local function refusal(code, text, ...) return nil, code .. ": " .. format(text, ...), code end

-- Events --------------------------------------------------------------------------------------------------------------

local function warn(self, event, details)
  local subject = details.subject or ""
  local key = event .. " " .. subject
  if self._warned[key] then return end
  self._warned[key] = true
  local text = event == "slow" and format("the subscription of %s is slow: messages are dropped", subject)
    or event == "closed" and format("messages that waited for a connection and were not sent: %d (%d bytes; %s)",
      details.messages, details.bytes, details.reason)
    or details.message
  io.stderr:write(format("rlhost: warning: nats: %s\n", text))
end

--- Calls the script's function for events, as a task that does not keep the loop running.
function Bus:_tell(event, details)
  if self._on_event then
    rl.task { self._on_event, self, event, details, name = "events of NATS", keeps_alive = false }
  elseif event == "slow" or event == "refused" or event == "closed" and details.messages > 0 then
    warn(self, event, details)
  end
end

-- Modes ---------------------------------------------------------------------------------------------------------------

local function add(item, mode) if item then pcall(rl.current().add, rl.current(), item, mode) end end
local function remove(item, mode) if item then pcall(rl.current().remove, rl.current(), item, mode) end end

local function add_link(self, mode)
  local link = self._link
  if not link then return end
  add(link.stream, mode)
  add(link.far, mode)
end

--- Reads the connection in one more mode, until `_leave` was called as often as `_join`. The connection is in the
--- common modes anyway.
function Bus:_join(mode)
  local count = self._joined[mode] or 0
  self._joined[mode] = count + 1
  if count == 0 then
    if not self._link or not self._link.is_resting then add_link(self, mode) end
    add(self._look, mode)
  end
end

function Bus:_leave(mode)
  local count = self._joined[mode]
  if not count then return end
  self._joined[mode] = count > 1 and count - 1 or nil
  local link = self._link
  if count > 1 or self._status == "closed" or rl.current():contains(self._pinging, mode) then return end
  remove(self._look, mode)
  if not link then return end
  remove(link.stream, mode)
  remove(link.far, mode)
end

local Borrowed = { __close = function(self) self.bus:_leave(self.mode) end }

--- Reads the connection in the mode that runs, until the returned value is closed.
function Bus:_borrow()
  local mode = self._loop:mode()
  if not mode or mode == "default" then return nil end
  self:_join(mode)
  return setmetatable({ bus = self, mode = mode }, Borrowed)
end

-- Sending -------------------------------------------------------------------------------------------------------------

function Bus:_why_over()
  return refusal("ENOTCONN", "the connection to NATS is closed%s", self._reason and " (" .. self._reason .. ")" or "")
end

-- Checks from time to time that the server has received the published messages.
function Bus:_confirm_soon()
  if self._confirming then return end
  native.set_confirming(self._link.wire, true)
  self._confirming = rl.timer { delay = CONFIRM, modes = "common", keeps_alive = false, name = "confirmation of NATS",
    callback = function()
      self._confirming = nil
      local link = self._link
      if link then native.set_confirming(link.wire, false) end
      if not link or link:sent() == link.confirmed then return end
      self:_ping(link)
      self:_confirm_soon()
    end }
end

--- Sends a PING. The server's PONG confirms everything that was sent before the PING. `future` is completed then.
function Bus:_ping(link, future)
  link.last_ping = link.last_ping + 1
  local sent, bytes = link:sent()
  link.pings[link.last_ping] = { future = future, sent = sent, bytes = bytes, at = now() }
  link:send "PING\r\n"
end

function Bus:_pong(link)
  local ping = link.pings[link.first_ping]
  link.silent = 0
  if not ping then return end
  link.pings[link.first_ping], link.first_ping = nil, link.first_ping + 1
  link.confirmed, link.confirmed_bytes, link.round_trip = ping.sent, ping.bytes, now() - ping.at
  local kept = self._kept
  while kept and self._kept_first <= ping.sent do
    local text = kept[self._kept_first]
    if text then self._kept_bytes = self._kept_bytes - #text end
    kept[self._kept_first], self._kept_first = nil, self._kept_first + 1
  end
  if ping.future then ping.future:complete(true) end
end

-- Keeps a text until the server has confirmed it; if the texts have too many bytes, the oldest are dropped.
local function keep(self, link, text)
  local kept = self._kept
  kept[link:sent()], self._kept_bytes = text, self._kept_bytes + #text
  while self._kept_bytes > self._max_offline do
    local oldest = kept[self._kept_first]
    if oldest then self._kept_bytes = self._kept_bytes - #oldest end
    kept[self._kept_first], self._kept_first = nil, self._kept_first + 1
  end
end

-- Counts a message that the server is asked to confirm. `text`: its bytes, if they are kept.
local function count_sent(self, link, text, size)
  native.sent(link.wire, size)
  if self._kept then keep(self, link, text) end
  if not self._confirming then self:_confirm_soon() end
end

-- Keeps a message while there is no connection.
local function keep_offline(self, text, size, request)
  if self._max_offline == 0 then return refusal("ENOTCONN", "there is no connection to NATS now") end
  if self._offline_bytes + #text > self._max_offline then
    return refusal("ENOBUFS", "%d bytes wait for a connection to NATS; max_offline is %d", self._offline_bytes,
      self._max_offline)
  end
  local entry = { text = text, size = size, request = request }
  self._offline[#self._offline + 1], self._offline_bytes = entry, self._offline_bytes + #text
  if request then request.entry = entry end
  return true
end

--- Waits until less than UNSENT bytes are left to send.
function Bus:_make_room(link)
  while not link.is_over and link:unsent() > UNSENT do
    local _ <close> = self:_borrow()
    link.stream:write ""
    link:send ""
  end
end

local function head_of(options, what)
  local headers = options and options.headers
  return headers and next(headers) ~= nil and check.headers(headers, what)
end

--- Publishes a message whose arguments were checked. `question`: the message that
--- this one answers.
function Bus:_publish(what, subject, data, options, question)
  return self:_publish_with(subject, options and options.reply, data, head_of(options, what), question)
end

--- Publishes with checked headers, as text.
function Bus:_publish_with(subject, reply, data, head, question)
  local lines = question and question._flow and flow.lines(self, question.subject, nil, true)
  local fine, message, code = frame.check(self, head, data, lines)
  if not fine then return nil, message, code end
  head = message
  local link = self._link
  if link and link:unsent() > UNSENT then
    self:_make_room(link)
    link = self._link
  end
  if link then
    count_sent(self, link, link:put(subject, reply, head, data, self._kept), #data)
    return true
  end
  if self._status == "closed" then return self:_why_over() end
  return keep_offline(self, frame.text(self, subject, reply, head, data), #data)
end

-- Requests ------------------------------------------------------------------------------------------------------------

-- Fields of a waiting request: `future`; `reply`, the number at the end of its subject for answers; for a gather also
-- the received messages. Closing the request forgets it.
local Request = {}
Request.__index = Request
function Request:_awaited()
  return self.bus._waiting[self.reply] == self and format("request %q", self.subject) or nil
end
Request.__close = function(self)
  waits[running()] = nil
  self.bus:_forget_request(self)
  -- An unanswered request was cancelled, or its time is over.
  if self.record then self.record = flow.ends(self.record, 0, not self.came) end
end

function Request:complete(...) self.future:complete(...) end

--- Forgets a request; later answers to it are dropped. A request that still waits for a connection is not sent.
function Bus:_forget_request(request)
  if self._waiting[request.reply] == request then
    self._waiting[request.reply], self._requests = nil, self._requests - 1
    if self._link then self._link:settle() end
  end
  local entry = request.entry
  if entry and entry.text then
    self._offline_bytes, entry.text = self._offline_bytes - #entry.text, false
  end
end

--- Sends a request, which has `subject`, `reply` and `complete`. The method `complete` is called once: with the answer,
--- or with nil, the reason and its code. Returns true; or nil, the reason and its code, if there is no connection and
--- no room.
function Bus:_begin(request, head, data)
  local link = self._link
  if link then
    request.link = link
    link:put(request.subject, request.reply, head, data)
  else
    local text = frame.text(self, request.subject, request.reply, head, data)
    local kept, message, code = keep_offline(self, text, #data, request)
    if not kept then return nil, message, code end
  end
  self._waiting[request.reply], self._requests = request, self._requests + 1
  return true
end

--- Waits for the answer of a request that is sent later.
function Bus:_expect(request)
  self._waiting[request.reply], self._requests = request, self._requests + 1
end

-- Sends a request. Returns the request; or nil, the reason and its code.
local function ask(self, what, subject, data, options)
  if self._status == "closed" then return self:_why_over() end
  if self._deaf then return nil, self._deaf, "EACCES" end
  if self._requests >= MOST_REQUESTS then
    return refusal("ENOBUFS", "%d requests already wait for an answer", MOST_REQUESTS)
  end
  local number, request = self._last_request + 1, nil
  local head, record = head_of(options, what), flow.begins(subject)
  local lines = record and flow.lines(self, subject, head and options.headers)
  local begun, message, code = frame.check(self, head, data, lines)
  if begun then
    head = message
    self._last_request = number
    -- The table has eight fields from the beginning, so it never grows: growing takes 1,100 instructions.
    request = setmetatable({ bus = self, reply = number, subject = subject, future = future_of_request(), link = false,
      record = record or false, came = false, entry = false }, Request)
    begun, message, code = self:_begin(request, head, data)
  end
  if not begun then
    flow.ends(record, 0, true)
    return nil, message, code
  end
  return request
end

--- Sends a request whose arguments were checked; `options` are those of `bus:request`, or have `await(request)`. Waits.
function Bus:_request(what, subject, data, options)
  local request <close>, message, code = ask(self, what, subject, data, options)
  if not request then return nil, message, code end
  local _ <close> = self:_borrow()
  waits[running()] = request
  if options.await then return options.await(request) end
  return request.future:await(options.timeout or 2)
end

local REQUEST = { timeout = "seconds", headers = "table" }

function Bus:request(subject, data, options)
  receiver(self, Bus, "bus:request")
  check.subject(subject, "bus:request")
  data = check.data(data, "bus:request")
  options = misuse.options(options, REQUEST, "bus:request", 3)
  return self:_request("bus:request", subject, data, options)
end

local GATHER = { timeout = "seconds", headers = "table", most = "positive" }

function Bus:gather(subject, data, options)
  receiver(self, Bus, "bus:gather")
  check.subject(subject, "bus:gather")
  data = check.data(data, "bus:gather")
  options = misuse.options(options, GATHER, "bus:gather", 3)
  local request, message = ask(self, "bus:gather", subject, data, options)
  if not request then error(message, 0) end
  request.came, request.first, request.last = {}, 1, 0
  local deadline, left = now() + (options.timeout or 0.3), options.most or math.huge
  local function step()
    while left > 0 do
      local came = request.came[request.first]
      if came then
        request.came[request.first], request.first, left = nil, request.first + 1, left - 1
        return came
      end
      local rest = deadline - now()
      if rest <= SOON or request.is_over then break end
      local _ <close> = self:_borrow()
      local _ <close> = seen.waiting
      waits[running()] = request
      local _, problem = request.future:await(rest)
      if problem == "timed out" then break end
      if not request.is_over then request.future = rl.future() end
    end
    Request.__close(request)
    if not request.is_over then return nil end
    -- Zero answers are fine if nobody listens. With another code, the caller has got fewer answers than there are.
    local _, problem, code = request.future:await(0)
    if code and code ~= "ENOENT" then error(problem, 0) end
  end
  return step, nil, nil, request
end

--- Ends a request with an answer, or with nil, the reason and its code.
function Bus:_finish(request, ...)
  if not request.came then
    self._waiting[request.reply], self._requests = nil, self._requests - 1
  else
    request.is_over = true
  end
  if request.record then request.record = flow.ends(request.record, 0, (...) == nil) end
  request:complete(...)
end

--- Takes an answer to the request with this number. The number may also belong to the message that `await_passage` of
--- nats.lua sends from a new connection to the old one, `link`. When that message arrives, all earlier ones have
--- arrived.
function Bus:_answer(message, number, link)
  local request = self._waiting[number]
  if not request then
    local passage = self._passages and self._passages[number]
    if not passage then self._late = self._late + 1 elseif passage.link == link then passage.future:complete() end
  elseif message._status == 503 and #message.data == 0 then
    self:_finish(request, refusal("ENOENT", "nobody answers on %s", request.subject))
  elseif request.came then
    if message._flow then flow.arrives(message, request.subject) end
    request.last = request.last + 1
    request.came[request.last] = message
    request.future:complete(true)
  else
    if message._flow then flow.arrives(message, request.subject) end
    self:_finish(request, message)
  end
end

-- Receiving -----------------------------------------------------------------------------------------------------------

function Bus:_relieve() if #self._crowded > 0 then self._crowded = subscription.relieve(self._crowded) end end

--- Takes a message of the server for the subscription with this number. Further messages go straight into the
--- subscription's queue if they can.
function Bus:_take(sid, message)
  local one = self._subscriptions[sid]
  if not one then return end
  local left = one._left
  if left then
    one._left = left - 1
    if left == 1 then self:_forget(one) end
  else
    self._queues[sid] = one:_plain_queue() or nil
  end
  one:_push(message)
  if left == 1 then one:_end() end
end

local function subscribe_text(one)
  one._refused = false
  local text = "SUB " .. one._subject .. " " .. (one._group and one._group .. " " or "") .. one._sid .. "\r\n"
  if one._left then text = text .. "UNSUB " .. one._sid .. " " .. one._left .. "\r\n" end
  return text
end

function Bus:subscribe(subject, options, fn)
  receiver(self, Bus, "bus:subscribe")
  if fn == nil and misuse.is_callable(options) then options, fn = nil, options end
  if fn ~= nil and not misuse.is_callable(fn) then misuse.wrong("bus:subscribe", "argument #3", "a function", fn) end
  if self._status == "closed" or self._status == "draining" then return self:_why_over() end
  return self:_register(subscription.new(self, "bus:subscribe", subject, options, fn))
end

--- Makes a subscription known to the server, now and after each reconnect. Returns it.
function Bus:_register(one)
  self._last_sid = self._last_sid + 1
  one._sid = self._last_sid
  self._subscriptions[one._sid], self._subscription_count = one, self._subscription_count + 1
  if self._link then self._link:send(subscribe_text(one)) end
  return one
end

--- Forgets a subscription; its further messages are dropped.
function Bus:_forget(one)
  if self._subscriptions[one._sid] ~= one then return end
  self._subscriptions[one._sid], self._subscription_count = nil, self._subscription_count - 1
  self._shares[one._sid], self._queues[one._sid] = nil, nil
  if self._link then self._link:settle() end
end

--- Asks the server to send no more messages. With `is_draining`, messages that are already on their way are still
--- delivered.
function Bus:_unsubscribe(one, is_draining)
  if self._subscriptions[one._sid] ~= one then return end
  if self._link then self._link:send("UNSUB " .. one._sid .. "\r\n") end
  if not is_draining then self:_forget(one) end
end

-- The connection ------------------------------------------------------------------------------------------------------

--- Reads an INFO of the server, which lists the other servers, and may announce that this server is about to end.
function Bus:_told(link, info)
  self:_learn_servers(link, info)
  self._max_payload = link.max_payload
  if info.ldm == true and link == self._link and not link.is_leaving then
    link.is_leaving = true
    self:_tell("lame duck", { server = link.address.text })
    self:_move(link)
  end
end

-- Ends the requests that were sent on a connection; without an argument, all requests, even those that wait for a
-- connection.
local function end_requests(self, link, message, code)
  local ended = {}
  for _, request in pairs(self._waiting) do
    if not link or request.link == link then ended[#ended + 1] = request end
  end
  for _, request in ipairs(ended) do
    if self._waiting[request.reply] == request then self:_finish(request, nil, message, code) end
  end
end

local function end_pings(link, message, code)
  for index = link.first_ping, link.last_ping do
    local future = link.pings[index].future
    if future then future:complete(nil, message, code) end
  end
  link.pings, link.first_ping, link.last_ping = {}, 1, 0
  for _, passage in pairs(link.owner._passages or {}) do passage.future:complete() end
end

--- The connection was lost.
function Bus:_lost(link, reason, code)
  reason = link.last_error or reason
  local text = format("ECONNRESET: the connection to %s was lost (%s)", link.address.text, reason)
  end_requests(self, link, text, "ECONNRESET")
  end_pings(link, text, "ECONNRESET")
  if link ~= self._link then return end
  self._link, self._lost_at = nil, now()
  native.use(self, nil)
  if self._status == "closed" then return end
  local sent, sent_bytes = link:sent()
  local messages, bytes = sent - link.confirmed, sent_bytes - link.confirmed_bytes
  if self._kept then
    local first = self._kept_first
    for index = first, sent do self._again[#self._again + 1] = self._kept[index] end
    self._kept, self._kept_first = {}, 1
  end
  if self._status == "connected" then self._status = "reconnecting" end
  self:_tell("disconnected", { reason = reason, code = code or "ECONNRESET", server = link.address.text,
    messages = messages, bytes = bytes })
  if self._reconnect == false then return self:_shut(reason) end
  self:_reconnect_soon()
end

local function send_offline(self, link)
  local offline = self._offline
  self._offline, self._offline_bytes = {}, 0
  for _, entry in ipairs(offline) do
    if entry.text then
      if not entry.request then
        link:send(entry.text)
        native.count(link.wire, entry.size)
        count_sent(self, link, entry.text, entry.size)
      else
        entry.request.link = link
        link:send(entry.text)
      end
      entry.text = false
    end
  end
end

--- Uses a new connection: sends subscriptions first, then unconfirmed messages, then waiting ones. Returns how many
--- messages go out again.
function Bus:_use(link)
  self._link, self._max_payload, self._deaf = link, link.max_payload, false
  native.use(self, link.wire)
  link:look_at_use()
  self._had_tls = self._had_tls or link.tls
  add_link(self, "common")
  for mode in next, self._joined do add_link(self, mode) end
  local texts = { "SUB " .. self._inbox .. "* 1\r\n" }
  for _, one in pairs(self._subscriptions) do texts[#texts + 1] = subscribe_text(one) end
  link:send(concat(texts))
  local again = self._again
  self._again, self._kept_bytes = {}, 0
  for _, text in ipairs(again) do
    link:send(text)
    native.count(link.wire, #text)
    count_sent(self, link, text, #text)
  end
  send_offline(self, link)
  for part in pairs(self._parts) do if part._connected then part:_connected() end end
  self:_told(link, link.info)
  rl.task { link.read, link, name = "connection to NATS at " .. link.address.text, keeps_alive = false }
  return #again
end

-- The end -------------------------------------------------------------------------------------------------------------

--- Ends everything: all waiting calls return ENOTCONN. Messages that were written are still sent.
function Bus:_shut(reason)
  if self._status == "closed" then return end
  local parts = self._parts
  self._parts = {}
  for part in pairs(parts) do if part._closing then part:_closing() end end
  self._status, self._reason = "closed", reason
  local link = self._link
  self._link = nil
  native.use(self, nil)
  if link then link:close() end
  local _, text = self:_why_over()
  end_requests(self, nil, text, "ENOTCONN")
  if link then end_pings(link, text, "ENOTCONN") end
  local list = {}
  for _, one in pairs(self._subscriptions) do list[#list + 1] = one end
  self._subscriptions, self._subscription_count = {}, 0
  for sid in pairs(self._queues) do self._queues[sid] = nil end
  for _, one in ipairs(list) do one:_end(true) end
  local messages, bytes = frame.unsent(self)
  self._offline, self._offline_bytes, self._again = {}, 0, {}
  for _, name in ipairs { "_confirming", "_pinging", "_look", "_holder" } do
    if self[name] then self[name]:invalidate() end
  end
  if self._connected then self._connected:complete() end
  self:_unguard()
  local task = self._reconnecting
  self._reconnecting = nil
  if task then task:cancel() end
  self:_tell("closed", { reason = reason, messages = messages, bytes = bytes })
end

function Bus:close() receiver(self, Bus, "bus:close"):_shut "closed by the script" end
Bus.__close = Bus.close

return Bus
