-- runloop.nats.remote_port: the sender's side of message ports over a bus: rl.remote_port with `via`.

local rl = require "runloop"
local json = require "runloop.json"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shown = require "runloop.text".shown
local exchange = require "runloop.nats.exchange"
local seen = require "runloop.nats.seen"
local ports = require "runloop.nats.ports"

local setmetatable, type, ipairs, math_type = setmetatable, type, ipairs, math.type
local format, now = string.format, rl.now
local raise, receiver, wrong = misuse.raise, misuse.receiver, misuse.wrong
local head_of, retain, release = exchange.head, exchange.retain, exchange.release
local waits, running = seen.waits, coroutine.running

local Remote = objects.class("runloop.nats.RemotePort", { __name = "remote_port", __stays = true })

-- The fields have a first value in the class: reading an absent field would take a thousand instructions.
for _, name in ipairs { "_is_concluded", "_is_expected", "_flushes", "_failure", "_reason", "_new_head" } do
  Remote[name] = false
end

-- Seconds, as for local ports: a longer time-out means no limit, and with a shorter one the call does not wait.
local LONGEST, SHORTEST = 864000, 0.001
-- In seconds. HEARD: how long an answer counts as proof of a holder. FIRST: how long the first message waits for the
-- server's report that there is no holder. LOOK: the time between two checks for a holder.
local HEARD, FIRST, LOOK = 1, 0.1, 0.1
-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6

-- The end -------------------------------------------------------------------------------------------------------------

-- Reports the unacknowledged messages when all calls of a port that has ended are over.
local function conclude(self)
  if not self._is_over or self._is_concluded or self._caller.count > 0 then return end
  self._is_concluded = true
  if self._unacknowledged > 0 and not self._is_expected then
    exchange.warn("remote port %q: %s; %d messages are not known to have been handled", self._name, self._reason,
      self._unacknowledged)
  end
  local flushes = self._flushes
  self._flushes = false
  if flushes then flushes:complete(nil, self._reason) end
end

-- Ends the port for good. Messages that were sent and not answered stay unacknowledged. With `waits_on` they may still
-- be answered: a holder that is about to end answers the messages that it has received.
local function finish(self, reason, is_expected, waits_on)
  if self._is_concluded then return end
  self._is_over, self._reason, self._is_expected = true, reason, is_expected
  self._caller:finish(reason, waits_on)
  conclude(self)
end

local function nobody(caller, waits_on) finish(caller.port, "became invalid", false, waits_on) end

local function is_over(self)
  if not self._is_concluded and self._bus._status == "closed" then finish(self, "became invalid") end
  return self._is_over
end

-- Asks in the background whether there is a holder: an idle port cannot notice it otherwise.
local function look(self)
  local bus, time = self._bus, now()
  if self._caller.count > 0 or time < self._looked_at + LOOK or not bus._link then return end
  self._looked_at = time
  rl.task { function()
    local _, _, code = bus:_request("remote_port:is_valid", self._caller.who, "", { timeout = HEARD })
    if code == "ENOENT" then finish(self, "became invalid") end
  end, name = format("look for the port %q", self._name), keeps_alive = false }
end

-- Answers -------------------------------------------------------------------------------------------------------------

-- Returns the reason of a failure; nil if the message is another answer.
local function failure_of(message)
  local kind = message.headers and message.headers["Rl-Kind"]
  return kind == "failure" and "transport error: " .. shown(message.data:sub(1, 1000)) or nil
end

local function settle(self)
  local flushes = self._flushes
  if self._unacknowledged > 0 or not flushes then return end
  local failure = self._failure
  self._flushes, self._failure = false, false
  if failure then flushes:complete(nil, failure) else flushes:complete(true) end
end

-- Called when a message of `send` has ended, with an answer or a reason.
local function send_ended(call, message, reason, is_last)
  local self = call.caller.port
  release(self._bus)
  if call.room and not call.reply then call.room:complete(nil, reason) end
  if message then
    self._heard = now()
    reason = failure_of(message)
  elseif is_last and call.reply and not (call.is_first and reason == "invalid") then
    -- The port ends: the message stays unacknowledged.
    return conclude(self)
  elseif is_last then
    call.reason, reason = reason, nil
  end
  self._unacknowledged = self._unacknowledged - 1
  if reason then
    exchange.warn("remote port %q: message %d could not be handled: %s", self._name, call.id,
      (reason:gsub("^transport error: ", "")))
    self._failure = self._failure or reason
  end
  settle(self)
  conclude(self)
end

local function request_ended(call, message, reason)
  local self = call.caller.port
  if message then
    self._heard = now()
    reason = failure_of(message)
  end
  call.is_over = true
  if reason then call.future:complete(nil, reason) else call.future:complete(message.data) end
  if call.room then call.room:complete(true) end
  if call.wake then call.wake:signal() end
  conclude(self)
end

-- Sending -------------------------------------------------------------------------------------------------------------

local function check_message(what, id, data)
  if math_type(id) ~= "integer" or id < -0x80000000 or id > 0x7fffffff then
    wrong(what, "argument #1", "an integer from -2147483648 to 2147483647", id)
  end
  if type(data) ~= "string" then wrong(what, "argument #2", "a string", data) end
end

-- Returns the headers of a message; or nil and the problem of its size.
local function head_for(self, kind, id, data)
  local bus, head = self._bus, self._new_head and self._new_head(id) or head_of(kind, id)
  local size, link = #head + #data, bus._link
  local most = link and link.max_payload or bus._max_payload
  if size <= most then return head end
  return nil, format("transport error: the message has %d bytes with its headers; the server takes %d", size, most)
end

local function limit(seconds) return seconds and seconds <= LONGEST and seconds or nil end

local function was_sent(call) call.room:complete(true) end

-- Waits until a call was sent or has ended. Returns true; or nil and the reason.
local function await_room(self, call, seconds)
  seconds = limit(seconds)
  if seconds and seconds < SHORTEST then return nil, "send timed out" end
  call.room, call.sent = rl.future(), was_sent
  local _ <close> = self._bus:_borrow()
  waits[running()] = self
  local done, reason = call.room:await(seconds)
  if done then return true end
  return nil, reason == "timed out" and "send timed out" or reason
end

-- The calls for which the loop runs in a mode, the innermost last.
local runs = {}

-- Runs the loop in a mode until a call has ended.
local function run_until(self, call, options)
  local bus, loop, mode, began = self._bus, rl.current(), options.reply_mode, now()
  local send_limit, reply_limit = limit(options.send_timeout), limit(options.reply_timeout)
  if not call.reply and send_limit and send_limit < SHORTEST then return nil, "send timed out" end
  bus:_join(mode)
  runs[#runs + 1] = call
  call.wake = rl.source { perform = function() end, name = format("answer of the port %q", self._name), modes = mode }
  local _ <close> = setmetatable({}, { __close = function()
    call.wake:invalidate()
    bus:_leave(mode)
    runs[#runs] = nil
    -- This run may have received the answer for which an outer run waits.
    local outer = runs[#runs]
    if outer and outer.is_over and outer.wake:is_valid() then outer.wake:signal() end
  end })
  local sent_at
  while not call.is_over do
    if call.reply then sent_at = sent_at or now() end
    local deadline = sent_at and reply_limit and sent_at + reply_limit
    if not sent_at then deadline = send_limit and began + send_limit end
    local rest = deadline and deadline - now()
    if rest and rest <= SOON then rest = 0 end
    local result = loop:run { mode = mode, timeout = rest, return_after_source = true }
    if call.is_over then break end
    if rest == 0 then return nil, sent_at and "reply timed out" or "send timed out" end
    if result == "finished" then return nil, "became invalid" end
  end
  return call.future:await()
end

local REQUEST = { send_timeout = "seconds", reply_timeout = "seconds", reply_mode = "string" }

function Remote:request(id, data, options)
  receiver(self, Remote, "remote_port:request")
  check_message("remote_port:request", id, data)
  options = misuse.options(options, REQUEST, "remote_port:request", 3)
  if options.reply_mode == "common" then
    wrong("remote_port:request", "field 'reply_mode'", "the name of one mode, not of all common ones", "common")
  end
  if self._is_durable then raise "remote_port:request: a durable port sends no answers; use send" end
  if is_over(self) then return nil, "invalid" end
  local head, fault = head_for(self, "request", id, data)
  if not head then return nil, fault end
  local call <close> = self._caller:begin(head, data, request_ended)
  call.future = rl.future()
  if options.reply_mode then return run_until(self, call, options) end
  if not call.reply then
    local done, reason = await_room(self, call, options.send_timeout)
    if not done then return nil, reason end
  end
  local _ <close> = self._bus:_borrow()
  local seconds = limit(options.reply_timeout)
  waits[running()] = self
  local answer, reason = call.future:await(seconds and seconds < SHORTEST and 0 or seconds)
  if answer then return answer end
  return nil, reason == "timed out" and "reply timed out" or reason
end

-- Waits until the server has passed the first message on, or has reported that there is no holder.
local function await_first(self, call)
  local bus, future = self._bus, rl.future()
  call.is_first = true
  bus:_ping(bus._link, future)
  local _ <close> = setmetatable({}, { __close = function() call.is_first = nil end })
  local _ <close> = bus:_borrow()
  future:await(FIRST)
  if call.reason then return nil, call.reason end
  return true
end

local SEND = { timeout = "seconds" }

function Remote:send(id, data, options)
  receiver(self, Remote, "remote_port:send")
  check_message("remote_port:send", id, data)
  options = misuse.options(options, SEND, "remote_port:send", 3)
  if is_over(self) then return nil, "invalid" end
  local head, fault = head_for(self, "send", id, data)
  if not head then return nil, fault end
  self._unacknowledged = self._unacknowledged + 1
  retain(self._bus)
  local call = self._caller:begin(head, data, send_ended, id)
  if call.reply then
    local timeout = options.timeout
    if self._is_durable or timeout and timeout < SHORTEST or now() < self._heard + HEARD then return true end
    return await_first(self, call)
  end
  local _ <close> = setmetatable({}, { __close = function()
    waits[running()] = nil
    if call.reply or not call.ended then return end
    self._caller:drop(call)
    release(self._bus)
    self._unacknowledged = self._unacknowledged - 1
    settle(self)
  end })
  return await_room(self, call, options.timeout)
end

function Remote:flush(timeout)
  receiver(self, Remote, "remote_port:flush")
  misuse.optional(timeout, "seconds", "remote_port:flush", 1)
  if is_over(self) then return nil, "invalid" end
  local future = self._flushes or rl.future()
  self._flushes = future
  settle(self)
  local _ <close> = self._bus:_borrow()
  local _ <close> = seen.waiting
  waits[running()] = self
  local done, reason = future:await(limit(timeout))
  if done then return true end
  return nil, reason == "timed out" and "reply timed out" or reason
end

-- Looking -------------------------------------------------------------------------------------------------------------

function Remote:unacknowledged() return receiver(self, Remote, "remote_port:unacknowledged")._unacknowledged end
function Remote:name() return receiver(self, Remote, "remote_port:name")._name end

function Remote:is_valid()
  receiver(self, Remote, "remote_port:is_valid")
  if is_over(self) then return false end
  if not self._is_durable then look(self) end
  return not self._is_over
end

-- Asks a holder where it runs. Returns the holder's host and its process id; or nil, the reason and its code.
local function where(self, what)
  local bus = self._bus
  if is_over(self) then return nil, "invalid" end
  local message, text, code = bus:_request(what, self._caller.who, "", { timeout = 2 })
  if code == "ENOENT" and not self._is_durable then
    finish(self, "became invalid")
    return nil, "invalid"
  end
  if not message then return nil, text, code end
  local place = json.decode(message.data)
  if type(place) ~= "table" or type(place.host) ~= "string" or math_type(place.pid) ~= "integer" then
    return nil, "EPROTO: the process that holds the port does not report its place", "EPROTO"
  end
  return place.host, place.pid
end

function Remote:host() return where(receiver(self, Remote, "remote_port:host"), "remote_port:host") end

function Remote:process()
  local host, pid, code = where(receiver(self, Remote, "remote_port:process"), "remote_port:process")
  if host then return pid end
  return nil, pid, code
end

function Remote:invalidate() finish(receiver(self, Remote, "remote_port:invalidate"), "became invalid", true) end
Remote.__close = function(self) return self:invalidate() end

--- Returns the text of rl.why for a task that waits for an answer, or for room.
function Remote:_awaited() return format("remote_port %q", self._name) end

function Remote:__tostring()
  local count = self._unacknowledged
  return format("remote_port %q (%s%s, %s)", self._name, self._is_over and "invalid" or "via NATS",
    count > 0 and format(", %d unacknowledged", count) or "", self._made_at)
end

-- Making --------------------------------------------------------------------------------------------------------------

local OPTIONS = { via = "any", durable = { "boolean", "table" } }

--- rl.remote_port(name, { via =, durable = }). Waits if the port is durable.
local function remote_port(name, options)
  misuse.argument(name, "string", "rl.remote_port", 1)
  misuse.options(options, OPTIONS, "rl.remote_port", 2)
  local bus, durable = ports.bus_of(options.via, "rl.remote_port"), options.durable or nil
  local problem = ports.name_fault(name)
  if problem then return nil, "EINVAL: " .. problem, "EINVAL" end
  if bus._status == "closed" then return bus:_why_over() end
  local known = bus._remote_ports or setmetatable({}, { __mode = "v" })
  bus._remote_ports = known
  local key = durable and "durable " .. name or name
  if known[key] and not known[key]._is_over then return known[key] end
  exchange.warn_of_open(bus, "remote port " .. name)
  local self = setmetatable({ _bus = bus, _name = name, _unacknowledged = 0, _is_over = false, _heard = -HEARD,
    _looked_at = -LOOK, _is_durable = durable ~= nil, _made_at = objects.made_at() }, Remote)
  local text, code, refusal
  if durable then
    self._caller, text, code, refusal = require "runloop.nats.durable".caller(bus, "rl.remote_port", name, durable)
    if not self._caller then return nil, text, code, refusal end
    self._new_head = self._caller.new_head
  else
    self._caller = exchange.caller(bus, ports.subject(bus, "port", name), ports.subject(bus, "who", name))
  end
  self._caller.port, self._caller.nobody = self, nobody
  known[key] = self
  return self
end

return remote_port
