-- runloop.nats.exchange: calls over a bus. Each call ends with an answer, or with the certainty that no worker has it
-- any more. Message ports and pools use it.
--
-- The calling side:
--   caller = exchange.caller(bus, subject, who)    `who`: the subject for asking holders whether they have a call
--   call = caller:begin(head, data, ended, id)     sends the call at once if there is room; then `call.reply` is set.
--                                                  Otherwise the call waits in the caller's queue, and `call.sent`,
--                                                  if set, is called when it is sent.
--                                                  `call.id` and `call.future` are for the user's data. If the user
--                                                  sets `call.renew`, the queue sends its result in place of the data
--   ended(call, message, reason, is_last)          once: an answer, whose `data` and `headers` it may read; or nil and
--                                                  "invalid" (nobody got it), "became invalid" (it may be handled) or
--                                                  "transport error: …". `is_last`: there is no holder, or the
--                                                  connection was lost
--   caller.nobody                                  if set: called with the caller after an end with `is_last`, and
--                                                  true if calls that were sent earlier may still be answered
--   caller:drop(call)                              no task waits for its result any more: does not send the call, or
--                                                  drops its answer
--   caller:finish(reason)                          ends all calls
-- If a call has had no answer for a second, the caller asks whether a holder still has it, then again every two
-- seconds. Calls that end sooner need no question, no task and no condition.
--
-- The holding side:
--   holder = exchange.holder(bus, what, { subject =, queue =, who =, name =, modes =, order =, keeps_alive = }, handle)
--   handle(message)                                runs as a task for each message, in their order; it may wait
--   holder:answer(message, kind, data)             answers once: "reply", "done" or "failure". After an error of
--                                                  `handle`, the caller gets it as a failure
--   holder:stop()                                  takes no more. Messages that wait here go to another holder
--   holder.one                                     the subscription, for `loop:add`
--   holder.held                                    the messages that have no answer yet, by their subjects for answers
--   holder.renew                                   if set: called with a message that is passed on to another
--                                                  holder. Returns its data, or nil: no holder gets it
--   holder.service                                 if set: the object of runloop.nats.service that counts the calls
-- A holder has 256 messages at most, with 64 MB of data. A message beyond that gets the failure "busy".

local system = ...
local rl = require "runloop"
local json = require "runloop.json"
local api = require "runloop.nats.api"
local Bus = require "runloop.nats.bus"
local plain_headers = require "runloop.nats.check".plain_headers
local subscription = require "runloop.nats.subscription"
local seen = require "runloop.nats.seen"
local flow = require "runloop.nats.flow"

local setmetatable, pairs, ipairs, type = setmetatable, pairs, ipairs, type
local pcall, tostring = pcall, tostring
local format, find, match = string.format, string.find, string.match
local tonumber, tointeger, min = tonumber, math.tointeger, math.min
local huge, now, unsent = math.huge, rl.now, system.open().unsent
local push, waits, running = subscription.Subscription._push, seen.waits, coroutine.running

-- WINDOW: the open calls of a caller, UNSENT: the unsent bytes of a connection, beyond which further calls wait.
local WINDOW, UNSENT = 256, 1 << 20
-- In seconds. FIRST: the time without an answer until the first question. AGAIN: the time between two questions. LAST:
-- the time to wait after the last question.
local FIRST, AGAIN, LAST = 1, 2, 1.5
-- The number of unanswered questions after which no worker is assumed to have a call.
local QUESTIONS = 3
-- Seconds: an event that is due within this time counts as due now. A shorter wait might not move a virtual clock.
local SOON = 1e-6
-- BACK: the seconds after a reconnect in which returning holders may still be missing. PAUSE: the seconds between two
-- checks for them.
local BACK, PAUSE = 2, 0.1
-- A time that never comes, in seconds.
local NEVER = 1e9
-- The largest numbers of messages and bytes that a holder has at the same time.
local MOST_MESSAGES, MOST_BYTES = 256, 64 << 20

local exchange = { MOST_MESSAGES = MOST_MESSAGES }

-- Heads ---------------------------------------------------------------------------------------------------------------

local heads, head_count = {}, 0

--- Returns the headers of a message of this kind, as text. `id`: an integer of 32 bits.
function exchange.head(kind, id)
  local of_kind = heads[kind]
  local head = of_kind and of_kind[id]
  if head then return head end
  if head_count >= 1000 then heads, head_count = {}, 0 end
  head = format("NATS/1.0\r\nRl-Id: %d\r\nRl-Kind: %s\r\n\r\n", id, kind)
  heads[kind] = heads[kind] or {}
  heads[kind][id], head_count = head, head_count + 1
  return head
end

-- The ids of headers that several messages share.
local ids = setmetatable({}, { __mode = "k" })

--- Returns the id of a message; or nil and the problem. A message without an id has 0.
function exchange.id_of(message)
  local headers = message.headers
  local text = headers and headers["Rl-Id"]
  if text == nil then return 0 end
  if ids[headers] then return ids[headers] end
  local id = type(text) == "string" and match(text, "^%-?%d+$") and tointeger(tonumber(text))
  if id and id >= -0x80000000 and id <= 0x7fffffff then
    ids[headers] = id
    return id
  end
  return nil, "Rl-Id is not an integer of 32 bits"
end

--- Returns the headers of a message in a form that may be published again: other programs may use names that this
--- client refuses.
function exchange.headers_of(message)
  local headers = {}
  for name, value in pairs(message.headers or {}) do
    if not find(name, "[: \t]") then headers[name] = value end
  end
  return headers
end

--- Returns an error value as text. Its own `__tostring` may fail.
function exchange.text_of(err)
  local fine, text = pcall(tostring, err)
  return fine and text or "an error that cannot be shown"
end

function exchange.warn(text, ...) io.stderr:write("rlhost: warning: ", format(text, ...), "\n") end

--- Warns once about a bus that everybody may use.
function exchange.warn_of_open(bus, what)
  local link = bus._link
  local address = link and link.address
  if not address or bus._is_open_warned or address.fake or link.info.auth_required then return end
  if match(address.host, "^127%.") or address.host == "localhost" or address.host == "::1" then return end
  bus._is_open_warned = true
  exchange.warn("%s: the server %s requires no log-in: anyone who can connect may send to it", what, address.text)
end

-- The calling side ----------------------------------------------------------------------------------------------------

local Call = {}
Call.__index = Call
-- The number of questions without an answer; and the number of the call's span, while everything is recorded into a
-- file.
Call.misses, Call.span = 0, false
local Caller = {}
Caller.__index = Caller
-- A question to all holders: who has this call?
local Question = {}
Question.__index = Question

--- Makes sure that the bus checks its calls at a certain time.
function exchange.look_at(bus, time)
  if time >= bus._look_at then return end
  bus._look_at = time
  bus._look:set_fire_date(time)
end
local look_at = exchange.look_at

-- Asks all holders which of them has a call. Returns false while there is no connection.
local function ask(bus, call, round)
  local link = bus._link
  if not link then return false end
  local question = call.question
  if not question then
    local number = bus._last_request + 1
    bus._last_request = number
    question = setmetatable({ subject = call.caller.who, reply = number, call = call }, Question)
    call.question = question
  end
  bus:_forget_request(question)
  call.round = round
  bus:_begin(question, nil, bus._inbox .. call.reply)
  return true
end

-- Called for a call that has had no answer for a while.
local function care(bus, call, time, round)
  if call.is_kept then return call.caller:repeat_one(call, time) end
  if call.round and call.round <= bus._heard_round then call.misses = call.misses + 1 end
  if call.misses >= QUESTIONS then
    bus:_forget_request(call)
    return call:complete(nil, "no process has it", "ECONNRESET", true)
  end
  local is_asked = ask(bus, call, round)
  call.look_at = time + (call.misses == QUESTIONS - 1 and LAST or AGAIN)
  look_at(bus, call.look_at)
  return is_asked
end

-- Asks for all calls that have waited for long. The PONG after the questions shows that the server has received them: a
-- question that never reached the server does not count as unanswered.
local function look_after(bus)
  local time, due, next_time = now(), {}, huge
  bus._look_at = huge
  for _, call in pairs(bus._waiting) do
    local at = call.look_at
    if at and at <= time + SOON then due[#due + 1] = call elseif at then next_time = min(next_time, at) end
  end
  bus._look:set_fire_date(time + NEVER)
  if next_time < huge then look_at(bus, next_time) end
  local round = bus._round + 1
  bus._round = round
  local is_asked = false
  for _, call in ipairs(due) do
    if bus._waiting[call.reply] == call then is_asked = care(bus, call, time, round) or is_asked end
  end
  if not is_asked or not bus._link then return end
  bus:_ping(bus._link, { complete = function(_, is_heard)
    if is_heard then bus._heard_round = round end
  end })
end

-- Prepares a bus for its first call. The timer is in the modes in which the connection is read.
local function prepare(bus)
  bus._look_at, bus._round, bus._heard_round, bus._held_calls = huge, 0, 0, 0
  bus._look = rl.timer { interval = NEVER, modes = "common", keeps_alive = false, name = "calls without an answer",
    callback = function() look_after(bus) end }
  for mode in pairs(bus._joined) do rl.current():add(bus._look, mode) end
  bus._holder = rl.source { perform = function() end, name = "messages without an answer" }
end

--- Keeps the loop alive until `caller.release` was called as often as this function.
function exchange.retain(bus)
  bus._held_calls = bus._held_calls + 1
  if bus._held_calls == 1 then rl.current():add(bus._holder, "common") end
end

function exchange.release(bus)
  bus._held_calls = bus._held_calls - 1
  if bus._held_calls == 0 then rl.current():remove(bus._holder, "common") end
end

function Question:complete(message, _, code)
  local call = self.call
  if message then
    call.misses = 0
  elseif code == "ENOENT" and call.caller.bus._waiting[call.reply] == call then
    call.caller.bus:_forget_request(call)
    call:complete(nil, "nobody is there", "ECONNRESET")
  end
end

-- Sends a call.
local function send(caller, call, head, data)
  local bus, subject = caller.bus, caller.subject
  local number = bus._last_request + 1
  bus._last_request, call.reply = number, number
  local lines = flow.lines(bus, subject)
  if lines then
    head = flow.join(lines, head, #data, bus._max_payload)
    -- Set the field only in this case: a ninth field makes the call's table grow, which takes 1,100 instructions.
    call.span = flow.begins(subject)
  end
  caller.count = caller.count + 1
  if caller.keep then caller:keep(call, head, data) end
  if bus._link then bus:_begin(call, head, data) else bus:_expect(call) end
  local at = now() + FIRST
  call.look_at = at
  if at < bus._look_at then look_at(bus, at) end
  if call.sent then call:sent() end
end

-- Sends waiting calls when the connection has sent its output.
local function wait_for_room(caller)
  if caller.is_draining then return end
  caller.is_draining = true
  rl.task { function()
    local _ <close> = setmetatable({}, { __close = function() caller.is_draining = false end })
    local link = caller.bus._link
    if link then caller.bus:_make_room(link) end
    caller.is_draining = false
    caller:pump()
  end, name = "room on the connection to NATS", keeps_alive = false }
end

-- After a lost connection, waits until there is a holder again: the holders come back one after the other.
local function wait_for_holder(caller)
  local bus, back_at = caller.bus, caller.bus._back_at
  if caller.keep or now() >= back_at + BACK then
    caller.back_at = back_at
    return true
  end
  if caller.is_asking then return false end
  caller.is_asking, bus._parts[caller] = true, true
  rl.task { function()
    local _ <close> = setmetatable({}, { __close = function() caller.is_asking = false end })
    while bus._link and bus._back_at == back_at and now() < back_at + BACK do
      local _, _, code = bus:_request("caller", caller.who, "", { timeout = BACK })
      if code ~= "ENOENT" then break end
      rl.sleep(PAUSE)
    end
    caller.back_at, caller.is_asking = back_at, false
    caller:pump()
  end, name = "look for holders after a reconnect", keeps_alive = false }
  return false
end

local function has_room(caller)
  local link = caller.bus._link
  if caller.count >= WINDOW then return false end
  if not link then return caller.keep ~= nil end
  if caller.back_at ~= caller.bus._back_at and not wait_for_holder(caller) then return false end
  if unsent(link.wire) < UNSENT then return true end
  wait_for_room(caller)
  return false
end

--- Sends calls that wait, as far as there is room.
function Caller:pump()
  while self.first <= self.last do
    local call = self.queue[self.first]
    if call and not has_room(self) then return end
    self.queue[self.first], self.first = nil, self.first + 1
    if call then
      local head, data = call.head, call.data
      call.head, call.data = nil, nil
      if call.renew then data = call.renew() end
      send(self, call, head, data)
    end
  end
  if not self.keep or self.count == 0 then self.bus._parts[self] = nil end
end

--- There is a new connection.
function Caller:_connected() self:pump() end

--- The connection is about to be closed. The bus ends the calls that were sent.
function Caller:_closing() self:finish("became invalid", true) end

function Caller.nobody() end

--- Begins a call. The caller has checked the size of the data.
function Caller:begin(head, data, ended, id)
  -- The table has eight fields from the beginning, so it never grows.
  local call = setmetatable({ caller = self, subject = self.subject, ended = ended, id = id, reply = false,
    look_at = false, link = false, future = false }, Call)
  local link = self.bus._link
  local is_free = link and self.count < WINDOW and unsent(link.wire) < UNSENT and self.back_at == self.bus._back_at
  if self.first > self.last and (is_free or has_room(self)) then
    send(self, call, head, data)
  else
    self.last = self.last + 1
    self.queue[self.last], call.place, call.head, call.data = call, self.last, head, data
    self.bus._parts[self] = true
  end
  return call
end

--- Drops a call: its function is not called any more. A call that was sent stays open until its answer comes or it
--- fails.
function Caller:drop(call)
  call.ended = nil
  if call.span then call.span = flow.ends(call.span, 0, true) end
  if call.reply or self.queue[call.place] ~= call then return end
  self.queue[call.place] = false
end

--- Whether a call was sent before another one.
function exchange.is_before(call, other)
  return call.reply < other.reply
end

--- Ends the calls that wait and, unless `is_bus_closed`, those that were sent.
function Caller:finish(reason, is_bus_closed)
  local calls = {}
  if not is_bus_closed then
    for _, call in pairs(self.bus._waiting) do if call.caller == self then calls[#calls + 1] = call end end
    table.sort(calls, exchange.is_before)
    for _, call in ipairs(calls) do self.bus:_forget_request(call) end
    self.count = 0
  end
  for index = self.first, self.last do calls[#calls + 1] = self.queue[index] or nil end
  self.queue, self.first, self.last = {}, 1, 0
  self.bus._parts[self] = nil
  for _, call in ipairs(calls) do call:finish(nil, reason, true) end
end

--- Takes an answer with the usual headers, given as the text of the headers and the data. Returns false if the headers
--- are not the usual ones.
function Call:take(text, data)
  local headers = plain_headers(text)
  if not headers then return false end
  local bus = self.caller.bus
  bus._waiting[self.reply], bus._requests = nil, bus._requests - 1
  self:complete { data = data, headers = headers }
  return true
end

function Call:finish(message, reason, is_last)
  if self.question then self.caller.bus:_forget_request(self.question) end
  if self.span then
    local headers = message and message.headers
    self.span = flow.ends(self.span, 0, not message or headers ~= nil and headers["Rl-Kind"] == "failure")
  end
  local ended = self.ended
  self.ended = nil
  if ended then ended(self, message, reason, is_last) end
end

-- Ends the wait for the call's result.
Call.__close = function(self)
  waits[running()] = nil
  self.caller:drop(self)
end

--- The bus has received an answer, or the report that there is no receiver. `is_alone`: only this call has failed, and
--- other calls may find a holder.
function Call:complete(message, text, code, is_alone)
  local caller = self.caller
  local fate = caller.resolve and caller:resolve(self, message, code)
  if fate == true then return end
  caller.count = caller.count - 1
  if fate then
    self:finish(nil, fate)
  elseif message then
    self:finish(message)
  elseif code == "ENOENT" or code == "ECONNRESET" or code == "ENOTCONN" then
    self:finish(nil, code == "ENOENT" and "invalid" or "became invalid", not is_alone)
    if not is_alone then caller:nobody(code == "ENOENT") end
  else
    self:finish(nil, "transport error: " .. text)
  end
  if caller.first <= caller.last or caller.keep then caller:pump() end
end

--- Makes the calling side of a subject.
function exchange.caller(bus, subject, who)
  if not bus._look then prepare(bus) end
  return setmetatable({ bus = bus, subject = subject, who = who, count = 0, queue = {}, first = 1, last = 0,
    is_draining = false, back_at = false }, Caller)
end

-- The holding side ----------------------------------------------------------------------------------------------------

local Holder = {}
Holder.__index = Holder

--- Answers the questions of callers: "1" if the message in question is in `held`; if no message is named, the identity
--- of this process. Returns the subscription.
function exchange.answer_questions(bus, what, who, held)
  local asked = subscription.new(bus, what, who, { name = "questions to holders" })
  asked._push = function(_, question)
    if not question.reply then return end
    if question.data == "" then
      local host, pid = api.here()
      bus:_publish_with(question.reply, nil, json.encode { host = host, pid = pid })
    elseif held[question.data] then
      bus:_publish_with(question.reply, nil, "1")
    end
  end
  return bus:_register(asked)
end

local function release(self, message)
  local key = message.reply or message
  if self.held[key] ~= message then return false end
  self.held[key], self.count, self.bytes = nil, self.count - 1, self.bytes - #message.data
  if self.is_over and self.count == 0 then self.asked:invalidate() end
  return true
end

-- Answers without checking which messages are held.
local function respond(self, message, kind, data)
  local reply = message.reply
  if not reply then return true end
  local head = exchange.head(kind, exchange.id_of(message) or 0)
  return self.bus:_publish_with(reply, nil, data, head, message)
end

--- Answers a message. Only the first answer counts.
function Holder:answer(message, kind, data)
  if not release(self, message) then return end
  local done, text, code = respond(self, message, kind, data)
  if not done and code == "EMSGSIZE" then respond(self, message, "failure", "the answer is too long: " .. text) end
end

-- The end of a call of the holder's function: answers the message, with the error if the call has failed.
local Work = { __close = function(work, problem)
  local self, text = work.holder, problem ~= nil and exchange.text_of(problem) or nil
  if self.service then self.service:count(now() - work.began, text) end
  if problem == nil then return self:answer(work.message, "done", "") end
  text = rl.is_cancelled(problem) and "its callback was cancelled" or "its callback raised an error: " .. text
  self:answer(work.message, "failure", text:sub(1, 1000))
end }

local function take(self, message)
  local key, size = message.reply or message, #message.data
  if self.count >= MOST_MESSAGES or self.bytes + size > MOST_BYTES then
    return respond(self, message, "failure", "busy")
  end
  if self.held[key] then return end
  self.held[key], self.count, self.bytes = message, self.count + 1, self.bytes + size
  push(self.one, message)
end

--- Takes no more messages. Messages that wait here are published again, for others. Messages that are being handled are
--- answered later.
function Holder:stop()
  if self.is_over then return end
  self.is_over = true
  local waiting = self.one:_clear()
  self.one:invalidate()
  for _, message in ipairs(waiting) do
    release(self, message)
    local data = message.data
    if self.renew then data = self.renew(message) end
    if data and self.bus._status ~= "closed" then
      self.bus:_publish("holder", message.subject, data, { reply = message.reply,
        headers = exchange.headers_of(message) })
    end
  end
  if self.count == 0 then self.asked:invalidate() end
end

--- Makes the holding side of a subject. Returns the holder; or nil, the reason and its code, if the server refuses it
--- or the bus ends meanwhile. Waits until the server has confirmed the subscription; the first messages may come before
--- the confirmation. With `is_timed`, each message gets the field `_came`, the time of its arrival.
function exchange.holder(bus, what, options, handle)
  local self = setmetatable({ bus = bus, held = {}, count = 0, bytes = 0, is_over = false }, Holder)
  local one = subscription.new(bus, what, options.subject, { queue = options.queue, concurrency = MOST_MESSAGES,
    name = options.name, modes = options.modes or {}, order = options.order, keeps_alive = options.keeps_alive },
    function(message)
      local _ <close> = setmetatable({ holder = self, message = message, began = now() }, Work)
      return handle(message)
    end)
  local is_timed = options.is_timed
  one._push = function(_, message)
    if is_timed then message._came = now() end
    take(self, message)
  end
  bus._shares[bus._last_sid + 1] = true
  self.one, self.asked = bus:_register(one), exchange.answer_questions(bus, what, options.who, self.held)
  local is_done
  local _ <close> = setmetatable({}, { __close = function() if not is_done then self:stop() end end })
  if bus._link then bus:flush() end
  if bus._status == "closed" or bus._status == "draining" then return bus:_why_over() end
  local refused = one._refused or self.asked._refused
  if refused then return nil, refused, "EACCES" end
  is_done = true
  return self
end

return exchange
