-- runloop.nats.durable: stored messages of ports and pools: their streams, callers that send a message until it is
-- stored, and the stream of messages that could not be handled.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local api = require "runloop.nats.api"
local check = require "runloop.nats.check"
local exchange = require "runloop.nats.exchange"
local ports = require "runloop.nats.ports"

local setmetatable, type, pairs, ipairs = setmetatable, type, pairs, ipairs
local format, concat, tostring = string.format, table.concat, tostring
local min, now = math.min, rl.now

local durable = {}

-- Seconds for which messages and dead letters are kept.
local WEEK = 604800
-- The server does not limit deliveries, since the holder counts them.
local ENDLESS = 1 << 30
-- In seconds. FIRST and MOST: the first and the longest time without an answer until a message is sent again. SOON: the
-- pause after a refusal "not now". GONE: the pause until a missing stream is made again.
local FIRST, MOST, SOON, GONE = 1, 10, 0.2, 2

local SETTINGS = { replicas = "positive", max_age = "seconds", max_deliver = "positive", ack_wait = "seconds" }

--- Checks the option `durable`. Returns the option's settings as a table.
function durable.settings(value, what)
  if type(value) ~= "table" then return {} end
  misuse.fields(value, SETTINGS, what .. ": field 'durable'")
  check.range(value, what .. ": field 'durable'", "replicas", 1, 5, true)
  check.range(value, what .. ": field 'durable'", "max_age", 0.1, 100 * 366 * 86400)
  check.range(value, what .. ": field 'durable'", "ack_wait", 0.1, 86400)
  return value
end

--- Returns the name of a stream: "RL_PORT_a_b". Buses with another prefix have other streams.
function durable.stream_name(bus, kind, name)
  return ((bus._prefix:upper() .. "_" .. kind .. (name and "_" .. name or "")):gsub("[^%w_-]", "_"))
end
local stream_name = durable.stream_name

-- Whether a stream takes a subject. The streams for "a.b" and "a_b" have the same name.
local function takes(stream, subject)
  for _, one in ipairs(stream._subjects) do if one == subject then return true end end
  return false
end

--- Makes or finds the stream of a port or pool. Without settings, an existing stream is used as it is. Waits. Returns
--- the stream; or nil, the reason, its code and the refusal.
function durable.open(bus, kind, name, subject, settings)
  local full = stream_name(bus, kind, name)
  if next(settings) == nil then
    local stream, text, code, refusal = bus:stream(full)
    if stream and not takes(stream, subject) then
      return nil, format("EEXIST: stream %s exists with other settings: subjects is %s, not %s", full,
        concat(stream._subjects, " "), subject), "EEXIST"
    end
    if stream or code ~= "ENOENT" then return stream, text, code, refusal end
  end
  return bus:stream(full, { subjects = { subject }, retention = "workqueue", replicas = settings.replicas,
    max_age = settings.max_age or WEEK })
end

-- The problem and the answer of each message that could not be moved to the dead letters. When such a message is
-- delivered again, its dead letter has this problem, and not the number of deliveries.
local problems, problem_count = {}, 0

--- Stores a message that no holder could handle. Waits. `kind`: "port" or "pool"; `answer`: the answer of a pool to the
--- caller. Returns true and the answer of the first try; or nil, the reason and its code.
function durable.bury(bus, kind, name, message, problem, answer)
  local key = format("%s %d %s", message.stream, message.seq, message.time)
  if not problems[key] then
    if problem_count >= 1000 then problems, problem_count = {}, 0 end
    problems[key], problem_count = { problem, answer }, problem_count + 1
  end
  problem, answer = table.unpack(problems[key])
  local subject = ports.subject(bus, "dead." .. kind, name)
  local stream, text, code = bus:stream(stream_name(bus, "DEAD"), { subjects = { bus._prefix .. ".dead.>" },
    max_age = WEEK })
  if not stream then return nil, text, code end
  local headers = exchange.headers_of(message)
  headers["Rl-Error"] = problem:gsub("%c+", " "):sub(1, 1000)
  local stored
  stored, text, code = stream:publish(subject, message.data, { headers = headers })
  if not stored then return nil, text, code end
  if problems[key] then problems[key], problem_count = nil, problem_count - 1 end
  exchange.warn("%s %q: a message goes to %s after %d deliveries: %s", kind == "port" and "message port" or kind, name,
    subject, message.delivered, headers["Rl-Error"])
  return true, answer
end

-- The calling side ----------------------------------------------------------------------------------------------------

local function keep(caller, call, head, data)
  call.is_kept, call.head, call.data, call.pause = true, head, data, FIRST
  caller.bus._parts[caller] = true
end

-- Sends a message once more. The stream recognises the message by its id, and stores it once.
local function repeat_one(caller, call, time)
  local bus = caller.bus
  if bus._link then
    bus:_forget_request(call)
    bus:_begin(call, call.head, call.data)
    call.pause = min(call.pause * 2, MOST)
  end
  call.look_at = time + call.pause
  exchange.look_at(bus, call.look_at)
end

-- Sends all messages that may not be stored again on a new connection, in order.
local function again(caller)
  local calls, time = {}, now()
  for _, call in pairs(caller.bus._waiting) do if call.caller == caller then calls[#calls + 1] = call end end
  table.sort(calls, exchange.is_before)
  for _, call in ipairs(calls) do
    call.pause = FIRST
    repeat_one(caller, call, time)
  end
  caller:pump()
end

-- Makes the stream again, if it does not exist any more.
local function restore(caller)
  if caller.is_restoring then return end
  caller.is_restoring = true
  rl.task { function()
    local _ <close> = setmetatable({}, { __close = function() caller.is_restoring = false end })
    durable.open(caller.bus, caller.kind, caller.name, caller.subject, caller.settings)
  end, name = format("stream of the %s %q", caller.kind:lower(), caller.name), keeps_alive = false }
end

-- Interprets an answer. Returns true if the message is sent again, and the reason if it cannot be stored.
local function resolve(caller, call, message, code)
  local bus, time = caller.bus, now()
  if message then
    local answer, text = api.acknowledgement(caller.bus, message, caller.about)
    if answer then return false end
    if text then return "transport error: " .. text end
  elseif code == "ENOENT" then
    call.missing = call.missing or time
    if time - call.missing >= GONE then restore(caller) end
  elseif code ~= "ECONNRESET" then
    return false
  end
  bus:_expect(call)
  call.link, call.look_at = message and bus._link or nil, time + (code == "ECONNRESET" and FIRST or SOON)
  exchange.look_at(bus, call.look_at)
  return true
end

--- Makes the calling side of a stored port. Waits. Returns the calling side; or nil, the reason, its code and the
--- refusal.
function durable.caller(bus, what, name, wanted)
  local settings, subject = durable.settings(wanted, what), ports.subject(bus, "durable", name)
  local stream, text, code, refusal = durable.open(bus, "PORT", name, subject, settings)
  if not stream then return nil, text, code, refusal end
  local caller = exchange.caller(bus, subject, ports.subject(bus, "who", name))
  caller.kind, caller.name, caller.settings, caller.about = "PORT", name, settings, "stream " .. stream:name()
  caller.keep, caller.repeat_one, caller.resolve, caller._connected = keep, repeat_one, resolve, again
  function caller.new_head(id)
    return format("NATS/1.0\r\nRl-Id: %d\r\nRl-Kind: send\r\nNats-Msg-Id: %s\r\nNats-Expected-Stream: %s\r\n\r\n", id,
      api.unique(bus), stream:name())
  end
  return caller
end

-- The holding side ----------------------------------------------------------------------------------------------------

local Holder = {}
Holder.__index = Holder

-- Moves a message to the stream of dead letters, and removes it from its own stream.
local function put_away(self, message, problem)
  message._is_kept = true
  rl.task { function()
    if durable.bury(self.bus, "port", self.name, message, problem) then message:term() else message:nak(MOST) end
  end, name = format("dead letter of the port %q", self.name) }
end

-- The end of a call of the callback: after an error in the last delivery, the message becomes a dead letter.
local Work = { __close = function(work, problem)
  local self, message = work.holder, work.message
  local text = problem ~= nil and exchange.text_of(problem) or nil
  if self.service then self.service:count(now() - work.began, text) end
  if problem == nil or rl.is_cancelled(problem) or message.delivered < self.most then return end
  put_away(self, message, text)
end }

--- A message is acknowledged when the callback has returned; a malformed one becomes a dead letter.
function Holder:answer(message, kind, data)
  if kind == "failure" then put_away(self, message, data) end
end

function Holder:stop()
  if self.is_over then return end
  self.is_over = true
  self.asked:invalidate()
  self.consumer:invalidate()
end

--- Makes the holding side of a stored port, as exchange.holder does. Waits.
function durable.holder(bus, what, options, handle, wanted, name)
  local settings = durable.settings(wanted, what)
  local stream, text, code = durable.open(bus, "PORT", name, options.subject, settings)
  if not stream then return nil, text, code end
  local self = setmetatable({ bus = bus, name = name, most = settings.max_deliver or 5, is_over = false }, Holder)
  self.asked = exchange.answer_questions(bus, what, options.who, {})
  local is_done
  local _ <close> = setmetatable({}, { __close = function() if not is_done then self.asked:invalidate() end end })
  self.consumer, text, code = stream:consumer("port", { ack_wait = settings.ack_wait or 10, max_deliver = ENDLESS,
    concurrency = exchange.MOST_MESSAGES, batch = exchange.MOST_MESSAGES, time_limit = 1 << 40, modes = {},
    order = options.order, keeps_alive = options.keeps_alive }, function(message)
      if message.delivered > self.most then
        return put_away(self, message, format("the holder's process has ended during each of %d deliveries", self.most))
      end
      local _ <close> = setmetatable({ holder = self, message = message, began = now() }, Work)
      return handle(message)
    end)
  if not self.consumer then return nil, text, code end
  is_done, self.one = true, self.consumer._one
  return self
end

return durable
