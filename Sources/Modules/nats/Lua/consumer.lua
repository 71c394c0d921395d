-- runloop.nats.consumer: consumers of JetStream, which deliver each message of a stream until it is acknowledged.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local check = require "runloop.nats.check"
local api = require "runloop.nats.api"
local stream = require "runloop.nats.stream"
local subscription = require "runloop.nats.subscription"
local Pull = require "runloop.nats.pull"

local setmetatable, type, next, pairs = setmetatable, type, next, pairs
local format, match, tonumber = string.format, string.match, tonumber
local math_type, concat = math.type, table.concat
local receiver, raise = misuse.receiver, misuse.raise
local push, take = subscription.Subscription._push, subscription.Subscription._take

local Message = objects.class("runloop.nats.StoredMessage", { __name = "message", __stays = true })
-- See runloop.nats.flow.
Message._flow = false
local Consumer = objects.class("runloop.nats.Consumer", { __name = "consumer", __stays = true })

-- Seconds for which the server keeps an unnamed consumer without any request.
local INACTIVE = 30
-- How many unacknowledged messages a server may hand out: more than all its clients request.
local UNANSWERED = 65536

-- Messages ------------------------------------------------------------------------------------------------------------

--- Parses the subject for acknowledgements of a message, and sets the message's fields. Returns the message's number at
--- its consumer, and the number of messages that follow; nil if the subject has another form.
local function read_place(message, reply)
  local rest = match(reply, "^%$JS%.ACK%.(.+)$")
  if not rest then return nil end
  local name, counts = match(rest, "^([^.]+)%.[^.]+%.([%d.]+)$")
  -- Newer servers add the domain and the account's hash in front, and a word at the end.
  if not name then name, counts = match(rest, "^[^.]+%.[^.]+%.([^.]+)%.[^.]+%.([%d.]+)") end
  local delivered, seq, number, more = match(counts or "", "^(%d+)%.(%d+)%.(%d+)%.(.+)$")
  local time, pending = match(more or "", "^(%d+)%.(%d+)")
  if not time then return nil end
  message.stream, message.delivered, message.seq = name, tonumber(delivered), tonumber(seq)
  message.time = tonumber(time) / 1000000000
  return tonumber(number), tonumber(pending)
end

-- Answers a message with a word of the protocol.
local function answer(self, what, word, is_last, timeout)
  if self._answer then raise("%s: the message was answered already, by %s", what, self._answer) end
  local bus = self._bus
  if is_last then
    self._answer = match(what, "[^:]+$")
    self._consumer:_answered(self)
  end
  if not timeout then return bus:_publish(what, self._ack, word) end
  local done, text, code = bus:_request(what, self._ack, word, { timeout = timeout })
  if done then return true end
  return nil, text, code
end

function Message:ack(timeout)
  receiver(self, Message, "message:ack")
  misuse.optional(timeout, "seconds", "message:ack", 1)
  return answer(self, "message:ack", "+ACK", true, timeout)
end

function Message:nak(delay)
  receiver(self, Message, "message:nak")
  misuse.optional(delay, "seconds", "message:nak", 1)
  if delay and delay > api.CENTURY then
    misuse.wrong("message:nak", "argument #1", format("a number of seconds, at most %d", api.CENTURY), delay)
  end
  local word = delay and delay > 0 and format('-NAK {"delay":%d}', api.nanoseconds(delay)) or "-NAK"
  return answer(self, "message:nak", word, true)
end

function Message:working()
  receiver(self, Message, "message:working")
  self._consumer:_extend(self)
  return answer(self, "message:working", "+WPI", false)
end

function Message:term(reason)
  receiver(self, Message, "message:term")
  misuse.optional(reason, "string", "message:term", 1)
  if reason and reason:find "[\r\n]" then raise "message:term: the reason has a line break" end
  -- Older servers accept no reason.
  local link = self._bus._link
  local knows = reason and link and api.version(link) >= 2010004
  return answer(self, "message:term", knows and "+TERM " .. reason or "+TERM", true)
end

-- Options -------------------------------------------------------------------------------------------------------------

local OPTIONS = {
  filter = "string", deliver = { "string", "count", "table" }, ack_wait = "seconds", max_deliver = "positive",
  max_waiting = "positive", batch = "positive", concurrency = "positive", time_limit = "seconds", modes = "any",
  order = "any", keeps_alive = "boolean",
}
-- The last second of the year 9999: the server's form of a time has no room for later ones.
local LATEST = 253402300799
local SINCE = { since = { "number", required = true } }
local DELIVER = { all = "all", new = "new", last = "last" }

local function check_options(options, what)
  options = misuse.options(options, OPTIONS, what, 2)
  if options.filter then check.filter(options.filter, what, "field 'filter'") end
  local deliver = options.deliver
  if type(deliver) == "string" then
    stream.check_word(options, what, "deliver", DELIVER)
  elseif type(deliver) == "table" then
    misuse.fields(deliver, SINCE, what .. ": field 'deliver'")
    check.range(deliver, what .. ": field 'deliver'", "since", 0, LATEST)
  elseif deliver == 0 then
    misuse.wrong(what, "field 'deliver'", "the number of a message, 1 or more", deliver)
  end
  check.range(options, what, "ack_wait", 0.1, 86400)
  check.range(options, what, "time_limit", 0.001, 1 << 40)
  check.range(options, what, "batch", 1, 10000, true)
  subscription.modes_of(options.modes, nil, what)
  if options.order ~= nil and math_type(options.order) ~= "integer" then
    misuse.wrong(what, "field 'order'", "an integer", options.order)
  end
  return options
end

-- Sets, in the configuration of a consumer, the message from which it begins to deliver.
local function set_deliver(config, deliver)
  if deliver == nil then
    config.deliver_policy = "all"
  elseif type(deliver) == "string" then
    config.deliver_policy = DELIVER[deliver]
  elseif type(deliver) == "table" then
    config.deliver_policy, config.opt_start_time = "by_start_time", api.date(deliver.since)
  else
    config.deliver_policy, config.opt_start_seq = "by_start_sequence", deliver
  end
end

local function config_of(name, options)
  local config = { ack_policy = "explicit", ack_wait = api.nanoseconds(options.ack_wait or 30),
    max_deliver = options.max_deliver or 5, max_waiting = options.max_waiting or 256, filter_subject = options.filter,
    replay_policy = "instant", max_ack_pending = UNANSWERED, durable_name = name }
  set_deliver(config, options.deliver)
  return config
end

local function shown_seconds(value) return format("%g", api.seconds(value)) end
local function shown(value) return value == nil and "none" or tostring(value) end
-- The server's names of settings, our names of the options, and functions that show their values.
local COMPARED = {
  { "filter_subject", "filter", shown }, { "deliver_policy", "deliver", shown }, { "opt_start_seq", "deliver", shown },
  { "ack_wait", "ack_wait", shown_seconds }, { "max_deliver", "max_deliver", shown },
  { "max_waiting", "max_waiting", shown },
}

-- Returns the difference between an existing consumer and the given options, as text; nil if there is none.
local function difference(there, wanted, options)
  local found = {}
  if there.deliver_subject then found[1] = "it is a push consumer" end
  for _, row in ipairs(COMPARED) do
    local old, new = row[3](there[row[1]]), row[3](wanted[row[1]])
    if options[row[2]] ~= nil and old ~= new then
      found[#found + 1] = format("%s is %s, not %s", row[2], old, new)
    end
  end
  return found[1] and concat(found, "; ")
end

-- Making --------------------------------------------------------------------------------------------------------------

-- Finds or makes a consumer with a name. Waits. Returns the consumer's configuration; or nil, the reason and its code.
local function find(owner, what, name, options)
  local bus, about = owner._bus, format("consumer %s of stream %s", name, owner._name)
  local info = "CONSUMER.INFO." .. owner._name .. "." .. name
  local found, text, code, refusal = api.call(bus, what, info, nil, about)
  if not found and code ~= "ENOENT" then return nil, text, code, refusal end
  local wanted = config_of(name, options or {})
  if not found then
    if not options or refusal and refusal.err_code == 10059 then
      return nil, format("ENOENT: there is no %s", refusal and refusal.err_code == 10059 and owner._about or about),
        "ENOENT", refusal
    end
    found, text, code, refusal = api.call(bus, what, "CONSUMER.DURABLE.CREATE." .. owner._name .. "." .. name,
      { stream_name = owner._name, config = wanted, action = "create" }, about)
    -- If another program has made the consumer first, take that one.
    if not found and code == "EEXIST" then found = api.call(bus, what, info, nil, about) end
    if not found then return nil, text, code, refusal end
  end
  local differs = difference(found.config, wanted, options or {})
  if differs then return nil, format("EEXIST: the %s exists with other settings: %s", about, differs), "EEXIST" end
  return found.config
end

-- Makes a consumer that is removed with its object. Waits. Returns the consumer's configuration; or nil, the reason and
-- its code.
local function make_own(self)
  local owner, name = self._stream, self._name
  local config = config_of(nil, self._options)
  config.name, config.inactive_threshold = name, api.nanoseconds(INACTIVE)
  -- The new consumer continues after the last handled message.
  local from = self._last_seq
  for message in pairs(self._open) do if from and message.seq <= from then from = message.seq - 1 end end
  if from then set_deliver(config, from + 1) end
  local filter = config.filter_subject and "." .. config.filter_subject or ""
  local answered, text, code, refusal = api.call(self._bus, "stream:consumer",
    "CONSUMER.CREATE." .. owner._name .. "." .. name .. filter, { stream_name = owner._name, config = config },
    format("consumer of stream %s", owner._name))
  if answered then return answered.config end
  return nil, text, code, refusal
end

-- Messages in hand ----------------------------------------------------------------------------------------------------

--- Returns the number of messages that were received and not answered.
function Consumer:_held() return self._count end

--- Takes a message of the server.
function Consumer:_message(message)
  local ack = message.reply
  if not ack or not read_place(message, ack) then return end
  setmetatable(message, Message)
  message._ack, message._consumer, message.reply = ack, self, nil
  self._open[message], self._count = rl.now() + self._ack_wait, self._count + 1
  if not self._last_seq or message.seq > self._last_seq then self._last_seq = message.seq end
  push(self._one, message)
end

--- Notes that a message is finished.
function Consumer:_answered(message)
  if not self._open[message] then return end
  self._open[message], self._count = nil, self._count - 1
  self._pull:fill()
end

--- Notes that the script works on a message.
function Consumer:_extend(message)
  if self._open[message] then self._open[message] = rl.now() + self._ack_wait end
end

-- Reports to the server which messages are still handled: those in calls of the function, and the queued ones. This
-- does not include messages that a script has received and not answered: the server delivers them again.
local function work_on(self)
  local time = rl.now()
  for message, limit in pairs(self._open) do
    if message._is_taken and not self._fn then
      if time > limit then
        self._open[message], self._count = nil, self._count - 1
      end
    else
      self._bus:_publish("message:working", message._ack, "+WPI")
    end
  end
  self._pull:fill()
end

-- Called when a call of the function ends: acknowledges its message, or returns it to the server.
local Call = { __close = function(call, problem)
  local message, self = call.message, call.consumer
  self._handled = self._handled + 1
  if message._answer or message._is_kept then return end
  if problem == nil then
    answer(message, "message:ack", "+ACK", true)
  else
    answer(message, "message:nak", format('-NAK {"delay":%d}', api.nanoseconds(message.delivered)), true)
  end
end }

local function call(self, message)
  message._is_taken = true
  local _ <close> = setmetatable({ message = message, consumer = self }, Call)
  local done = rl.timeout(self._time_limit, self._fn, message, self)
  if not done then
    error(format("the call for a message of %s was cancelled after %g s (time_limit)", message.subject,
      self._time_limit), 0)
  end
end

-- Returns the queued messages to the server. The subscription must have ended, or the server would send them here
-- again.
local function give_back(self)
  for _, message in ipairs(self._one:_clear()) do
    if not message._answer then
      message._answer = "close"
      self._bus:_publish("message:nak", message._ack, "-NAK")
      self._open[message], self._count = nil, self._count - 1
    end
  end
end

-- Ends the consumer here: requests no more messages, and returns the queued ones.
local function finish(self, text, code)
  if self._is_over then return end
  self._is_over = true
  self._pull:stop()
  if self._working then self._working:invalidate() end
  self._bus._parts[self] = nil
  self._one._why = text and { text = text, code = code } or { text = "ENOTCONN: the consumer is closed",
    code = "ENOTCONN" }
  self._bus:_unsubscribe(self._one)
  if self._bus._status ~= "closed" then give_back(self) end
  self._one:_end(true)
end

--- The server no longer has the consumer.
function Consumer:_gone(text, code)
  if self._is_own and not self._is_renewing then
    self._is_renewing = true
    rl.task { function()
      local _ <close> = setmetatable({}, { __close = function() self._is_renewing = false end })
      self._name = api.unique(self._bus)
      local config, problem, why = make_own(self)
      if self._is_over then return end
      if config then return self._pull:start(self._stream._name, self._name) end
      self._is_own = why ~= "ENOENT"
      self:_gone(problem, why)
    end, name = "making a consumer of NATS again", keeps_alive = false }
    return
  end
  self._bus:_tell("refused", { message = text, code = code, subject = self._stream._name .. "." .. self._name })
  finish(self, text, code)
end

--- There is a new connection.
function Consumer:_connected() self._pull:resume() end

--- The connection is about to be closed.
function Consumer:_closing()
  self._pull:stop()
  if self._working then self._working:invalidate() end
  self._bus:_unsubscribe(self._one, true)
  give_back(self)
end

-- Calls of scripts ----------------------------------------------------------------------------------------------------

function Consumer:receive(timeout)
  receiver(self, Consumer, "consumer:receive")
  misuse.optional(timeout, "seconds", "consumer:receive", 1)
  if self._fn then raise "consumer:receive: its messages go to its function" end
  if self._pull.is_over and not self._is_over then self._pull:start(self._stream._name, self._name) end
  local message, text, code = take(self._one, timeout)
  if not message then return nil, text, code end
  message._is_taken = true
  self:_extend(message)
  self._handled = self._handled + 1
  return message
end

function Consumer:messages()
  receiver(self, Consumer, "consumer:messages")
  return function() return (self:receive()) end
end

function Consumer:stats()
  receiver(self, Consumer, "consumer:stats")
  local stats = self._one:stats()
  return { received = stats.received, handled = self._handled, pending = stats.pending,
    unanswered = self._count }
end

function Consumer:invalidate()
  receiver(self, Consumer, "consumer:invalidate")
  if self._is_over then return end
  finish(self)
  -- Running calls still acknowledge their messages to the consumer, so it is not removed here; the server removes it
  -- later.
  if self._is_own and (not self._fn or self._count == 0) then
    self._bus:_publish("consumer:invalidate", "$JS.API.CONSUMER.DELETE." .. self._stream._name .. "." .. self._name, "")
  end
end
Consumer.__close = function(self) return self:invalidate() end

function Consumer:remove()
  receiver(self, Consumer, "consumer:remove")
  finish(self)
  local done, text, code, refusal = api.call(self._bus, "consumer:remove",
    "CONSUMER.DELETE." .. self._stream._name .. "." .. self._name, nil, format("consumer %s", self._name))
  if not done then return nil, text, code, refusal end
  return true
end

function Consumer:is_valid() return not receiver(self, Consumer, "consumer:is_valid")._is_over end
function Consumer:name() return receiver(self, Consumer, "consumer:name")._name end

function Consumer:__tostring()
  return format("consumer %s of stream %s (%s)", self._name, self._stream._name, self._made_at)
end

local consumer = { class = Consumer, Message = Message, read_place = read_place }

-- Makes the object for a consumer, and begins to ask for messages.
local function new(owner, name, options, fn)
  local bus = owner._bus
  local self = setmetatable({ _bus = bus, _stream = owner, _name = name or api.unique(bus), _fn = fn,
    _is_own = name == nil, _options = options or {}, _open = {}, _count = 0, _handled = 0, _is_over = false,
    _is_renewing = false, _made_at = objects.made_at(), _time_limit = options and options.time_limit or 600 }, Consumer)
  local config, text, code, refusal
  if name then
    config, text, code, refusal = find(owner, "stream:consumer", name, options)
  else
    config, text, code, refusal = make_own(self)
  end
  if not config then return nil, text, code, refusal end
  options = options or {}
  self._ack_wait = api.seconds(config.ack_wait)
  local inbox
  self._one, inbox = Pull.subscribe(bus, "stream:consumer", { concurrency = options.concurrency, modes = options.modes,
    order = options.order, keeps_alive = options.keeps_alive, name = format("consumer %s of stream %s", self._name,
      owner._name) }, fn and function(message) return call(self, message) end)
  self._pull = Pull.new(bus, self, self._one, inbox, math.max(options.batch or 200, options.concurrency or 1))
  bus:_register(self._one)
  bus._parts[self] = true
  self._working = rl.timer { interval = self._ack_wait / 3, modes = "common", keeps_alive = false,
    name = "work on messages of NATS", callback = function() work_on(self) end }
  if fn then self._pull:start(owner._name, self._name) end
  return self
end

function consumer.open(owner, name, options, fn)
  receiver(owner, stream.class, "stream:consumer")
  if name ~= nil then check.name(name, "stream:consumer") end
  if fn == nil and misuse.is_callable(options) then options, fn = nil, options end
  if fn ~= nil and not misuse.is_callable(fn) then misuse.wrong("stream:consumer", "argument #3", "a function", fn) end
  if options ~= nil then options = check_options(options, "stream:consumer") end
  if owner._bus._status ~= "connected" and owner._bus._status ~= "reconnecting" then return owner._bus:_why_over() end
  local copy
  if options then
    copy = {}
    for field, value in next, options do copy[field] = value end
  end
  return new(owner, name, copy, fn)
end

return consumer
