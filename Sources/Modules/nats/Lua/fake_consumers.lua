-- runloop.nats.fake_consumers: the pull consumers of a fake's streams: which client gets a message, and when it is sent
-- again.

local rl = require "runloop"
local json = require "runloop.json"
local api = require "runloop.nats.api"

local pairs, ipairs = pairs, ipairs
local match, format = string.match, string.format
local min, max, huge = math.min, math.max, math.huge

local consumers = {}

local SECOND = 1000000000
-- Seconds: a message that is due sooner than this counts as due now, since timers count in nanoseconds.
local SOON = 1e-6

-- Fields of a consumer: `next`, the number of the next message in the stream to try; `listed`, numbers of messages that
-- are delivered before that; `open`, the unacknowledged messages, each with the time of its next delivery; `counts`,
-- how often each message was delivered; `asked`, the requests for messages that are not yet fulfilled.

local function wants(consumer, subject) return not consumer.pattern or match(subject, consumer.pattern) ~= nil end

-- Returns the numbers of the last message of each subject, in order.
local function lasts(stream, consumer)
  local list = {}
  for subject, numbers in pairs(stream.by_subject) do
    if wants(consumer, subject) then list[#list + 1] = numbers[#numbers] end
  end
  table.sort(list)
  return list
end

-- Sets the message at which a consumer begins.
local function begin(consumer, stream, config)
  local policy = config.deliver_policy
  consumer.next = stream.first
  if policy == "new" then
    consumer.next = stream.last + 1
  elseif policy == "last_per_subject" then
    consumer.listed, consumer.next = lasts(stream, consumer), stream.last + 1
  elseif policy == "last" then
    local last = 0
    for _, seq in ipairs(lasts(stream, consumer)) do last = max(last, seq) end
    consumer.listed, consumer.next = last > 0 and { last } or {}, stream.last + 1
  elseif policy == "by_start_sequence" then
    consumer.next = min(max(stream.first, config.opt_start_seq), stream.last + 1)
  elseif policy == "by_start_time" then
    local from = api.time_of(config.opt_start_time)
    while consumer.next <= stream.last do
      local message = stream.messages[consumer.next]
      if message and message.time >= from then break end
      consumer.next = consumer.next + 1
    end
  end
  consumer.pending = #consumer.listed
  for seq = consumer.next, stream.last do
    local message = stream.messages[seq]
    if message and wants(consumer, message.subject) then consumer.pending = consumer.pending + 1 end
  end
end

--- Makes a consumer of a stream. `pattern`: matches the subjects of the messages that the consumer delivers.
function consumers.new(_, stream, config, pattern)
  local consumer = { stream = stream, config = config, pattern = pattern, listed = {}, open = {}, counts = {},
    asked = {}, number = 0, seen = rl.now(), created = api.date(rl.time()) }
  begin(consumer, stream, config)
  return consumer
end

function consumers.describe(consumer)
  local unanswered = 0
  for _ in pairs(consumer.open) do unanswered = unanswered + 1 end
  return { stream_name = consumer.stream.config.name, name = consumer.config.name, config = consumer.config,
    created = consumer.created, num_pending = consumer.pending, num_ack_pending = unanswered,
    num_waiting = #consumer.asked }
end

--- Whether the server would have removed the consumer because it was not used for some time.
function consumers.is_idle(consumer)
  local limit = consumer.config.inactive_threshold
  return limit ~= nil and limit > 0 and #consumer.asked == 0 and rl.now() - consumer.seen > limit / SECOND
end

-- Changes of the stream -----------------------------------------------------------------------------------------------

--- A message was stored.
function consumers.added(consumer, _, subject)
  if wants(consumer, subject) then consumer.pending = consumer.pending + 1 end
end

--- A message was removed from the stream.
function consumers.removed(consumer, seq, subject)
  consumer.open[seq], consumer.counts[seq] = nil, nil
  if not wants(consumer, subject) then return end
  if seq >= consumer.next then consumer.pending = consumer.pending - 1 end
  for index, other in ipairs(consumer.listed) do
    if other == seq then
      table.remove(consumer.listed, index)
      consumer.pending = consumer.pending - 1
      break
    end
  end
end

-- Handing out ---------------------------------------------------------------------------------------------------------

local function status(store, reply, text, fields)
  store.fake:_deliver(reply, { subject = reply, head = "NATS/1.0 " .. text .. "\r\n" .. (fields or "") .. "\r\n",
    data = "" })
end

local function left_text(request)
  return format("Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: 0\r\n", request.batch)
end

local function finish(consumer, request)
  if request.timer then request.timer:invalidate() end
  for index, other in ipairs(consumer.asked) do
    if other == request then
      table.remove(consumer.asked, index)
      break
    end
  end
  consumer.seen = rl.now()
end

-- Returns the number of the next message that was not delivered; nil if there is none.
local function take_new(consumer)
  local stream = consumer.stream
  local listed = table.remove(consumer.listed, 1)
  if listed then
    consumer.pending = consumer.pending - 1
    return listed
  end
  while consumer.next <= stream.last do
    local seq = consumer.next
    consumer.next = seq + 1
    local message = stream.messages[seq]
    if message and wants(consumer, message.subject) then
      consumer.pending = consumer.pending - 1
      return seq
    end
  end
end

-- Returns the number of a message that is due again; or nil, and the time at which the next message is due.
local function take_due(consumer)
  local now, first, at = rl.now(), nil, huge
  for seq, limit in pairs(consumer.open) do
    local most = consumer.config.max_deliver or -1
    if most > 0 and (consumer.counts[seq] or 0) >= most then
      if limit <= now + SOON then consumer.open[seq] = nil end
    elseif limit < at or limit == at and seq < first then
      first, at = seq, limit
    end
  end
  if at <= now + SOON then return first end
  return nil, at
end

local function hand_out(store, consumer, request, seq)
  local message, config = consumer.stream.messages[seq], consumer.config
  local count = (consumer.counts[seq] or 0) + 1
  consumer.number = consumer.number + 1
  if config.ack_policy ~= "none" then
    consumer.counts[seq], consumer.open[seq] = count, rl.now() + config.ack_wait / SECOND
  end
  request.batch = request.batch - 1
  if request.batch == 0 then finish(consumer, request) end
  local data, head = message.data, message.head
  if config.headers_only then
    head = (head or "NATS/1.0\r\n\r\n"):sub(1, -3) .. "Nats-Msg-Size: " .. #data .. "\r\n\r\n"
    data = ""
  end
  store.fake:_deliver(request.reply, { subject = message.subject, data = data, head = head,
    reply = format("$JS.ACK.%s.%s.%d.%d.%d.%d.%d", consumer.stream.config.name, config.name, count, seq,
      consumer.number, math.tointeger(message.time * SECOND // 1), consumer.pending) })
end

-- Delivers again when the next message is due.
local function wake_at(store, consumer, at)
  if consumer.alarm then consumer.alarm:invalidate() end
  consumer.alarm = at < huge and rl.timer { delay = max(0, at - rl.now()), modes = "common", keeps_alive = false,
    name = "fake of JetStream", callback = function()
      consumer.alarm = nil
      consumers.serve(store, consumer)
    end } or nil
end

--- Delivers the available messages to the open requests.
function consumers.serve(store, consumer)
  local at
  while true do
    local request = consumer.asked[1]
    while request and not store.fake:_listens(request.reply) do
      finish(consumer, request)
      request = consumer.asked[1]
    end
    if not request then break end
    local seq
    seq, at = take_due(consumer)
    seq = seq or take_new(consumer)
    if not seq then break end
    hand_out(store, consumer, request, seq)
  end
  local _, due = take_due(consumer)
  wake_at(store, consumer, consumer.asked[1] and (due or at) or huge)
end

-- Sends heartbeats until a request has expired.
local function keep(store, consumer, request, heartbeat)
  local step = min(heartbeat, max(0.001, request.ends - rl.now()))
  request.timer = rl.timer { delay = step, modes = "common", keeps_alive = false, name = "fake of JetStream",
    callback = function()
      if not store.fake:_listens(request.reply) then return finish(consumer, request) end
      if rl.now() >= request.ends - SOON then
        finish(consumer, request)
        return status(store, request.reply, "408 Request Timeout", left_text(request))
      end
      status(store, request.reply, "100 Idle Heartbeat")
      keep(store, consumer, request, heartbeat)
    end }
end

--- Handles a request for messages.
function consumers.ask(store, consumer, reply, question)
  local config = consumer.config
  if (config.max_waiting or 0) > 0 and #consumer.asked >= config.max_waiting then
    return status(store, reply, "409 Exceeded MaxWaiting")
  end
  local request = { reply = reply, batch = question.batch or 1,
    ends = question.expires and rl.now() + question.expires / SECOND or huge }
  consumer.asked[#consumer.asked + 1] = request
  consumer.seen = rl.now()
  consumers.serve(store, consumer)
  if request.batch == 0 then return end
  if question.no_wait then
    finish(consumer, request)
    return status(store, reply, "404 No Messages")
  end
  if request.ends < huge then
    keep(store, consumer, request, question.idle_heartbeat and question.idle_heartbeat / SECOND or huge)
  end
end

--- Handles the answer to a message.
function consumers.answered(store, consumer, seq, word)
  if not consumer.open[seq] then return end
  consumer.seen = rl.now()
  if word == "+WPI" then
    consumer.open[seq] = rl.now() + consumer.config.ack_wait / SECOND
  elseif match(word, "^%-NAK") then
    local text = match(word, "^%-NAK%s+(.+)$")
    local options = text and json.decode(text)
    consumer.open[seq] = rl.now() + (options and options.delay or 0) / SECOND
  else
    consumer.open[seq], consumer.counts[seq] = nil, nil
    consumers.done(consumer, seq)
  end
  consumers.serve(store, consumer)
end

-- Whether a consumer of a stream, other than this one, has to deliver a message.
local function is_wanted(stream, message, consumer)
  local seq = message.seq
  for _, other in pairs(stream.consumers) do
    if other ~= consumer and wants(other, message.subject) and (other.open[seq] or other.next <= seq) then
      return true
    end
  end
  return false
end

--- Called when a consumer has finished a message: work queues and streams of interest remove it.
function consumers.done(consumer, seq)
  local stream = consumer.stream
  local message = stream.messages[seq]
  if not message or stream.config.retention == "limits" then return end
  if not is_wanted(stream, message, consumer) then stream.forget(seq) end
end

--- Called when a consumer was removed: streams of interest remove the messages that only it has wanted.
function consumers.gone(stream)
  if stream.config.retention ~= "interest" then return end
  for seq = stream.first, stream.last do
    local message = stream.messages[seq]
    if message and not is_wanted(stream, message) then stream.forget(seq) end
  end
end

--- Whether a consumer of a stream wants messages with this subject.
function consumers.any_wants(stream, subject)
  for _, consumer in pairs(stream.consumers) do if wants(consumer, subject) then return true end end
  return false
end

--- Called when a client has left: forgets its requests.
function consumers.left(store, consumer)
  for _, request in ipairs { table.unpack(consumer.asked) } do
    if not store.fake:_listens(request.reply) then finish(consumer, request) end
  end
  if consumer.alarm and not consumer.asked[1] then
    consumer.alarm:invalidate()
    consumer.alarm = nil
  end
end

--- Ends the requests of a consumer, with a status if one is given.
function consumers.stop(store, consumer, text)
  for _, request in ipairs { table.unpack(consumer.asked) } do
    finish(consumer, request)
    if text then status(store, request.reply, text) end
  end
  if consumer.alarm then consumer.alarm:invalidate() end
  consumer.alarm = nil
end

return consumers
