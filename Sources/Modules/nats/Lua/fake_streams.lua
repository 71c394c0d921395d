-- runloop.nats.fake_streams: the store of a fake: streams of JetStream with one replica, and their API.

local rl = require "runloop"
local json = require "runloop.json"
local encoding = require "runloop.encoding"
local check = require "runloop.nats.check"
local api = require "runloop.nats.api"
local consumers = require "runloop.nats.fake_consumers"

local setmetatable, pairs, ipairs = setmetatable, pairs, ipairs
local type, next, tonumber = type, next, tonumber
local match, gmatch, gsub, format = string.match, string.gmatch, string.gsub, string.format

-- Everything that a fake stores. `fake` has `_deliver(subject, message)`, which sends to the clients that listen there,
-- and `_listens(subject)`.
local Store = {}
Store.__index = Store

local SECOND = 1000000000

local function problem(code, number, description)
  return { error = { code = code, err_code = number, description = description } }
end
local NO_STREAM, NO_CONSUMER = problem(404, 10059, "stream not found"), problem(404, 10014, "consumer not found")
local NO_MESSAGE = problem(404, 10037, "no message found")

-- Returns a pattern of Lua for a subject with wildcards.
local function pattern_of(filter)
  return "^" .. gsub(gsub(gsub(filter, "[%-+?^$()%%%[%].]", "%%%0"), "%*", "[^.]+"), ">$", ".+") .. "$"
end

-- Streams -------------------------------------------------------------------------------------------------------------

-- A stream has `messages` by number; `by_subject`, lists of numbers; `first`, `last`, `count` and `bytes`.
local function new_stream(config)
  local patterns = {}
  for index, subject in ipairs(config.subjects) do patterns[index] = pattern_of(subject) end
  return { config = config, patterns = patterns, created = api.date(rl.time()), messages = {}, by_subject = {},
    first = 1, last = 0, count = 0, bytes = 0, ids = {}, consumers = {} }
end

local function takes(stream, subject)
  for _, pattern in ipairs(stream.patterns) do if match(subject, pattern) then return true end end
  return false
end

local function remove(stream, seq)
  local message = stream.messages[seq]
  if not message then return false end
  stream.messages[seq], stream.count, stream.bytes = nil, stream.count - 1, stream.bytes - message.size
  local list = stream.by_subject[message.subject]
  for index, other in ipairs(list) do
    if other == seq then
      table.remove(list, index)
      break
    end
  end
  if #list == 0 then stream.by_subject[message.subject] = nil end
  while stream.first <= stream.last and not stream.messages[stream.first] do stream.first = stream.first + 1 end
  for _, consumer in pairs(stream.consumers) do consumers.removed(consumer, seq, message.subject) end
  return true
end

-- Removes messages that are too old.
local function expire(stream)
  local age = stream.config.max_age or 0
  if age == 0 then return end
  local limit = rl.time() - age / SECOND
  while stream.count > 0 and stream.messages[stream.first].time <= limit do remove(stream, stream.first) end
end

-- Returns the number of the last message of a subject; 0 if there is none.
local function last_of(stream, subject)
  local list = stream.by_subject[subject]
  return list and list[#list] or 0
end

local function wrong_last(last) return problem(400, 10071, "wrong last sequence: " .. last) end

-- Returns the refusal of a message by a stream that is full; nil if there is room. If the subject of the message has
-- its maximum of messages already, the message does not need room: it replaces the oldest one.
local function is_full(stream, message)
  local config, list = stream.config, stream.by_subject[message.subject]
  local most = config.max_msgs_per_subject or -1
  local oldest = most > 0 and list and #list >= most and stream.messages[list[1]]
  if config.max_msgs > 0 and stream.count >= config.max_msgs and not oldest then
    return problem(503, 10077, "maximum messages exceeded")
  end
  local size = #message.data + (message.head and #message.head or 0)
  if config.max_bytes > 0 and stream.bytes + size >= config.max_bytes and not (oldest and oldest.size > size) then
    return problem(503, 10077, "maximum bytes exceeded")
  end
end

-- Whether a stream of interest drops a message, since no consumer wants it.
local function is_dropped(stream, subject)
  return stream.config.retention == "interest" and not consumers.any_wants(stream, subject)
end

-- Returns the answer to a message that must not be stored; nil if it may be stored.
local function refusal(stream, message, headers)
  local config, expected = stream.config, headers["Nats-Expected-Stream"]
  if expected and expected ~= config.name then return problem(400, 10060, "expected stream does not match") end
  local id = headers["Nats-Msg-Id"]
  local known = id and stream.ids[id]
  if known and rl.now() - known.at <= config.duplicate_window / SECOND then
    return { stream = config.name, seq = known.seq, duplicate = true }
  end
  expected = tonumber(headers["Nats-Expected-Last-Subject-Sequence"])
  local last = last_of(stream, message.subject)
  if expected and expected ~= last then return wrong_last(last) end
  expected = tonumber(headers["Nats-Expected-Last-Sequence"])
  if expected and expected ~= stream.last then return wrong_last(stream.last) end
  return config.discard == "new" and not is_dropped(stream, message.subject) and is_full(stream, message) or nil
end

-- Removes the oldest messages beyond the limits.
local function trim(stream, subject)
  local config = stream.config
  local list, most = stream.by_subject[subject], config.max_msgs_per_subject or -1
  while most > 0 and #list > most do remove(stream, list[1]) end
  while config.max_msgs > 0 and stream.count > config.max_msgs
    or config.max_bytes > 0 and stream.bytes > config.max_bytes and stream.count > 1 do
    remove(stream, stream.first)
  end
end

-- Returns the bytes that a message takes in the store of a server: its parts, their lengths, its number and its time.
local function size_of(stream, message)
  local size = #message.subject + #message.data + (message.head and #message.head or 0)
  if stream.config.storage == "memory" then return size + 16 end
  return size + (message.head and 34 or 30)
end

local function append(stream, message, headers)
  local seq, subject = stream.last + 1, message.subject
  stream.last = seq
  local id = headers["Nats-Msg-Id"]
  local drops = is_dropped(stream, subject)
  -- Like a server, notes the number 0 for the id of a message that no consumer wants.
  if id then stream.ids[id] = { seq = drops and 0 or seq, at = rl.now() } end
  if drops then
    if stream.count == 0 then stream.first = seq + 1 end
    return seq
  end
  local size = size_of(stream, message)
  stream.messages[seq] = { subject = subject, data = message.data, head = message.head, time = rl.time(), seq = seq,
    size = size }
  local list = stream.by_subject[subject] or {}
  stream.by_subject[subject], list[#list + 1] = list, seq
  stream.count, stream.bytes = stream.count + 1, stream.bytes + size
  trim(stream, subject)
  if headers["Nats-Rollup"] == "sub" then
    for _, old in ipairs { table.unpack(list) } do if old ~= seq then remove(stream, old) end end
  end
  for _, consumer in pairs(stream.consumers) do consumers.added(consumer, seq, subject) end
  return seq
end

-- Stores a message. Returns the acknowledgement.
local function store(stream, message)
  expire(stream)
  local headers = message.head and check.read_headers(message.head) or {}
  local refused = refusal(stream, message, headers)
  if refused then return refused end
  return { stream = stream.config.name, seq = append(stream, message, headers) }
end

local function info_of(stream)
  expire(stream)
  local count = 0
  for _ in pairs(stream.consumers) do count = count + 1 end
  return { config = stream.config, created = stream.created, state = { messages = stream.count, bytes = stream.bytes,
    first_seq = (stream.last > 0 or stream.is_purged) and stream.first or 0,
    last_seq = stream.last, consumer_count = count } }
end

-- The API -------------------------------------------------------------------------------------------------------------

local API = {}

local function same(one, other)
  for field, value in pairs(one) do
    if type(value) ~= "table" and other[field] ~= value then return false end
  end
  return table.concat(one.subjects, " ") == table.concat(other.subjects, " ")
end

-- Whether two subjects with wildcards have a subject in common.
local function overlap(one, other)
  local next_word = gmatch(other, "[^.]+")
  for word in gmatch(one, "[^.]+") do
    local another = next_word()
    if word == ">" or another == ">" then return another ~= nil end
    if another == nil or word ~= another and word ~= "*" and another ~= "*" then return false end
  end
  return next_word() == nil
end

-- Whether all subjects of the first pattern belong to the second one.
local function is_within(one, other)
  local next_word = gmatch(one, "[^.]+")
  for word in gmatch(other, "[^.]+") do
    local another = next_word()
    if another == nil or word == ">" then return another ~= nil end
    if another == ">" or word ~= another and word ~= "*" then return false end
  end
  return next_word() == nil
end

-- Whether a consumer's filter names a part of a stream's subjects, or covers one of them.
local function fits(filter, config)
  for _, subject in ipairs(config.subjects) do
    if is_within(filter, subject) or is_within(subject, filter) then return true end
  end
  return false
end

-- Returns the refusal of a stream's subjects if another stream has one of them.
local function overlaps(self, name, subjects)
  for other_name, stream in pairs(self.streams) do
    for _, subject in ipairs(subjects) do
      for _, other in ipairs(other_name ~= name and stream.config.subjects or {}) do
        if overlap(subject, other) then return problem(400, 10065, "subjects overlap with an existing stream") end
      end
    end
  end
end

-- Returns the refusal of a stream that forgets messages sooner than their ids.
local function has_short_age(config)
  if config.max_age > 0 and config.duplicate_window > config.max_age then
    return problem(500, 10052, "duplicates window can not be larger then max age")
  end
end

function API.STREAM_CREATE(self, name, _, config)
  local old = self.streams[name]
  if old and same(config, old.config) then return info_of(old) end
  if old then return problem(400, 10058, "stream name already in use with a different configuration") end
  if config.num_replicas > 1 then return problem(500, 10074, "replicas > 1 not supported in non-clustered mode") end
  local made = new_stream(config)
  made.forget = function(seq) remove(made, seq) end
  local refused = overlaps(self, name, config.subjects) or has_short_age(config)
  if refused then return refused end
  self.streams[name] = made
  return info_of(made)
end

function API.STREAM_UPDATE(self, name, _, config)
  local stream = self.streams[name]
  if not stream then return NO_STREAM end
  for field, words in next, { storage = "storage type", retention = "retention policy" } do
    if config[field] ~= stream.config[field] then
      return problem(500, 10052, "stream configuration update can not change " .. words)
    end
  end
  local refused = overlaps(self, name, config.subjects) or has_short_age(config)
  if refused then return refused end
  local fresh = new_stream(config)
  stream.config, stream.patterns = config, fresh.patterns
  for subject in pairs(stream.by_subject) do trim(stream, subject) end
  return info_of(stream)
end

function API.STREAM_INFO(self, name) return self.streams[name] and info_of(self.streams[name]) or NO_STREAM end

function API.STREAM_DELETE(self, name)
  local stream = self.streams[name]
  if not stream then return NO_STREAM end
  for _, consumer in pairs(stream.consumers) do consumers.stop(self, consumer, "409 Consumer Deleted") end
  self.streams[name] = nil
  return { success = true }
end

function API.STREAM_PURGE(self, name, _, question)
  local stream = self.streams[name]
  if not stream then return NO_STREAM end
  local count, pattern = 0, question.filter and pattern_of(question.filter)
  stream.is_purged = stream.is_purged or not pattern
  for seq = stream.first, stream.last do
    local message = stream.messages[seq]
    if message and (not pattern or match(message.subject, pattern)) and remove(stream, seq) then count = count + 1 end
  end
  return { success = true, purged = count }
end

-- Returns the message that a request names.
local function find(stream, question)
  expire(stream)
  return stream.messages[question.seq or last_of(stream, question.last_by_subj or "")]
end

function API.STREAM_MSG_GET(self, name, _, question)
  local stream = self.streams[name]
  local message = stream and find(stream, question)
  if not message then return stream and NO_MESSAGE or NO_STREAM end
  return { message = { subject = message.subject, seq = message.seq, time = api.date(message.time),
    data = encoding.encode(message.data, "base64"), hdrs = message.head and encoding.encode(message.head, "base64") } }
end

function API.STREAM_MSG_DELETE(self, name, _, question)
  local stream = self.streams[name]
  if not stream or not stream.messages[question.seq] then return stream and NO_MESSAGE or NO_STREAM end
  remove(stream, question.seq)
  return { success = true }
end

-- Answers with the message itself. Returns nil if no stream listens there.
local function direct_get(self, rest, request)
  local name, subject = match(rest, "^DIRECT%.GET%.([^.]+)%.?(.*)$")
  local stream = name and self.streams[name]
  if not stream or not stream.config.allow_direct then return nil end
  local message = find(stream, subject ~= "" and { last_by_subj = subject } or json.decode(request.data))
  if not message then
    self.fake:_deliver(request.reply, { subject = request.reply, head = "NATS/1.0 404 Message Not Found\r\n\r\n",
      data = "" })
    return true
  end
  local head = format("Nats-Stream: %s\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %s\r\n\r\n", name,
    message.subject, message.seq, api.date(message.time))
  self.fake:_deliver(request.reply, { subject = request.reply, data = message.data,
    head = (message.head or "NATS/1.0\r\n\r\n"):sub(1, -3) .. head })
  return true
end

-- Makes a consumer. Returns its description.
local function create(self, name, word, question)
  local stream = self.streams[name]
  if not stream then return NO_STREAM end
  expire(stream)
  local config = question.config
  config.name = config.durable_name or word
  local old = stream.consumers[config.name]
  if old then return consumers.describe(old) end
  local filter = config.filter_subject
  if filter and not fits(filter, stream.config) then
    return problem(400, 10093, "consumer filter subject is not a valid subset of the interest subjects")
  end
  if stream.config.retention == "workqueue" then
    for _, other in pairs(stream.consumers) do
      if not filter then
        return problem(400, 10099, "multiple non-filtered consumers not allowed on workqueue stream")
      elseif not other.config.filter_subject or overlap(filter, other.config.filter_subject) then
        return problem(400, 10100, "filtered consumer not unique on workqueue stream")
      end
    end
    if config.deliver_policy ~= "all" then
      return problem(400, 10101, "consumer must be deliver all on workqueue stream")
    end
  end
  local made = consumers.new(self, stream, config, filter and pattern_of(filter))
  stream.consumers[config.name] = made
  return consumers.describe(made)
end
API.CONSUMER_CREATE, API.CONSUMER_DURABLE_CREATE = create, create

-- Returns an existing consumer.
local function consumer_of(self, name, word)
  local stream = self.streams[name]
  local consumer = stream and stream.consumers[word]
  if consumer and consumers.is_idle(consumer) then
    stream.consumers[word], consumer = nil, nil
  end
  return consumer, stream
end

function API.CONSUMER_INFO(self, name, word)
  local consumer, stream = consumer_of(self, name, word)
  return consumer and consumers.describe(consumer) or stream and NO_CONSUMER or NO_STREAM
end

function API.CONSUMER_DELETE(self, name, word)
  local consumer, stream = consumer_of(self, name, word)
  if not consumer then return stream and NO_CONSUMER or NO_STREAM end
  stream.consumers[word] = nil
  consumers.stop(self, consumer, "409 Consumer Deleted")
  consumers.gone(stream)
  return { success = true }
end

-- Takes a request for messages. Returns nil if there is no such consumer.
local function next_messages(self, name, word, request)
  local consumer = consumer_of(self, name, word)
  if not consumer then return nil end
  local question = json.decode(request.data)
  consumers.ask(self, consumer, request.reply, type(question) == "table" and question or { batch = 1 })
  return true
end

-- Splits a request's subject into the verb, and the names of a stream and a consumer. A verb has two words or three,
-- and a stream may have the name "INFO", so the longest verb that exists is the right one.
local function verb_of(rest)
  for _, pattern in ipairs { "^(%u+%.%u+%.%u+)%.([^.]+)%.?([^.]*)", "^(%u+%.%u+)%.([^.]+)%.?([^.]*)" } do
    local verb, name, word = match(rest, pattern)
    verb = verb and gsub(verb, "%.", "_")
    if API[verb] or verb == "CONSUMER_MSG_NEXT" then return verb, name, word end
  end
end

-- Handles a request to the API. Returns whether the subject has a subscriber.
local function answer(self, rest, request)
  if match(rest, "^DIRECT%.GET%.") then return direct_get(self, rest, request) end
  if rest == "INFO" then return true end
  local verb, name, word = verb_of(rest)
  if not verb then return nil end
  if verb == "CONSUMER_MSG_NEXT" then return next_messages(self, name, word, request) end
  local call = API[verb]
  local question = request.data ~= "" and json.decode(request.data) or {}
  local value = call(self, name, word, question)
  if request.reply then
    self.fake:_deliver(request.reply, { subject = request.reply, data = json.encode(value) })
  end
  return true
end

-- The store -----------------------------------------------------------------------------------------------------------

--- Takes a message that a client has published. Returns whether the message belongs to a stream, or to the API. As on a
--- server, a request to the API has no answer if it is meaningless, or names a consumer that does not exist.
function Store:take(message)
  local rest = match(message.subject, "^%$JS%.API%.(.+)$")
  if rest then
    answer(self, rest, message)
    return true
  end
  rest = match(message.subject, "^%$JS%.ACK%.(.+)$")
  if rest then
    local name, word, seq = match(rest, "^([^.]+)%.([^.]+)%.%d+%.(%d+)%.")
    local consumer = name and consumer_of(self, name, word)
    if not consumer then return false end
    consumers.answered(self, consumer, tonumber(seq), message.data)
    if message.reply then self.fake:_deliver(message.reply, { subject = message.reply, data = "" }) end
    return true
  end
  for _, stream in pairs(self.streams) do
    if takes(stream, message.subject) then
      local stored = store(stream, message)
      if message.reply then
        self.fake:_deliver(message.reply, { subject = message.reply, data = json.encode(stored) })
      end
      for _, consumer in pairs(stream.consumers) do consumers.serve(self, consumer) end
      return true
    end
  end
  return false
end

--- A client has left.
function Store:left()
  for _, stream in pairs(self.streams) do
    for _, consumer in pairs(stream.consumers) do consumers.left(self, consumer) end
  end
end

--- Called when the server ends: streams in memory are lost.
function Store:stop()
  for name, stream in pairs(self.streams) do
    for word, consumer in pairs(stream.consumers) do
      consumers.stop(self, consumer)
      if consumer.config.mem_storage then stream.consumers[word] = nil end
    end
    if stream.config.storage == "memory" then self.streams[name] = nil end
  end
end

return { new = function(fake) return setmetatable({ fake = fake, streams = {} }, Store) end }
