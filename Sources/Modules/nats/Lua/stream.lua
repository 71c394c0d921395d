-- runloop.nats.stream: makes or finds streams of JetStream, publishes to them, and reads them. A message that is
-- published to a stream is on its replicas when the call returns.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local check = require "runloop.nats.check"
local api = require "runloop.nats.api"

local setmetatable, type, next, ipairs = setmetatable, type, next, ipairs
local format, concat, tostring, match = string.format, table.concat, tostring, string.match
local receiver, raise = misuse.receiver, misuse.raise
local sort = table.sort

local Stream = objects.class("runloop.nats.Stream", { __name = "stream", __stays = true })

local stream = { class = Stream }

-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6
-- The largest number of replicas.
local MOST_REPLICAS = 5

-- Settings ------------------------------------------------------------------------------------------------------------

local SETTINGS = {
  subjects = "table", replicas = "positive", retention = "string", storage = "string", max_age = "seconds",
  max_bytes = "positive", max_messages = "positive", duplicates = "seconds",
}
local RETENTIONS = { limits = true, workqueue = true, interest = true }
local STORAGES = { file = true, memory = true }

--- Raises unless a field is one of the words of a table.
function stream.check_word(options, what, field, words)
  local value = options[field]
  if value ~= nil and not words[value] then
    local list = {}
    for word in next, words do list[#list + 1] = format("%q", word) end
    sort(list)
    misuse.wrong(what, format("field '%s'", field), concat(list, " or "), value)
  end
end

local function check_settings(settings, what)
  misuse.fields(settings, SETTINGS, what)
  for index, subject in ipairs(settings.subjects or {}) do
    check.filter(subject, what, format("field 'subjects[%d]'", index))
  end
  if settings.subjects and #settings.subjects == 0 then raise("%s: field 'subjects' names no subject", what) end
  stream.check_word(settings, what, "retention", RETENTIONS)
  stream.check_word(settings, what, "storage", STORAGES)
  check.range(settings, what, "replicas", 1, MOST_REPLICAS, true)
  check.range(settings, what, "max_age", 0.1, api.CENTURY)
  check.range(settings, what, "duplicates", 0.1, api.CENTURY)
end

--- Returns the default number of replicas: three in a cluster.
function stream.replicas(bus)
  local link = bus._link
  return link and link.info.cluster and 3 or 1
end

-- Returns the configuration of JetStream for settings.
local function config_of(bus, name, settings)
  local retention = settings.retention or "limits"
  local age = settings.max_age
  local duplicates = settings.duplicates or age and math.min(age, 120) or 120
  return {
    name = name, subjects = settings.subjects or { name }, retention = retention, storage = settings.storage or "file",
    num_replicas = settings.replicas or stream.replicas(bus), max_age = age and api.nanoseconds(age) or 0,
    max_bytes = settings.max_bytes or -1, max_msgs = settings.max_messages or -1,
    duplicate_window = api.nanoseconds(duplicates), discard = retention == "limits" and "old" or "new",
    max_consumers = -1, max_msg_size = -1, max_msgs_per_subject = -1,
  }
end

-- JetStream's fields with the names of our options, and functions that show their values.
local function seconds(value) return format("%g", api.seconds(value)) end
local function limit(value) return value == nil and "none" or value < 0 and "none" or tostring(value) end
local function list(value)
  local copy = { table.unpack(value or {}) }
  sort(copy)
  return concat(copy, " ")
end
local COMPARED = {
  { "subjects", "subjects", list }, { "retention", "retention", tostring }, { "storage", "storage", tostring },
  { "num_replicas", "replicas", tostring }, { "max_age", "max_age", seconds }, { "max_bytes", "max_bytes", limit },
  { "max_msgs", "max_messages", limit }, { "duplicate_window", "duplicates", seconds },
  { "discard", "discard", tostring }, { "max_msgs_per_subject", "history", limit },
}

-- Returns how two configurations differ, as text; nil if they are equal.
local function difference(there, wanted)
  local found = {}
  for _, row in ipairs(COMPARED) do
    local field, name, show = row[1], row[2], row[3]
    local old, new = show(there[field]), show(wanted[field])
    if old ~= new then found[#found + 1] = format("%s is %s, not %s", name, old, new) end
  end
  return found[1] and concat(found, "; ")
end

--- Makes a stream with this configuration, or uses an existing equal one. Waits. `about`: the thing in messages.
--- Returns the server's description of the stream; or nil, the reason, its code and the refusal.
function stream.make(bus, what, about, config)
  local answer, text, code, refusal = api.call(bus, what, "STREAM.INFO." .. config.name, nil, about)
  if not answer and code == "ENOENT" then
    answer, text, code, refusal = api.call(bus, what, "STREAM.CREATE." .. config.name, config, about)
    if not answer and refusal and refusal.err_code == 10058 then
      answer = api.call(bus, what, "STREAM.INFO." .. config.name, nil, about)
    end
  end
  if not answer then return nil, text, code, refusal end
  local differs = difference(answer.config, config)
  if differs then return nil, format("EEXIST: %s exists with other settings: %s", about, differs), "EEXIST" end
  return answer
end

--- Looks for a stream, for `limit` seconds at most. Waits. Returns the server's description of the stream; or nil, the
--- reason and its code.
function stream.find(bus, what, about, name, limit)
  local answer, text, code, refusal = api.call(bus, what, "STREAM.INFO." .. name, nil, about, limit)
  if answer then return answer end
  if code == "ENOENT" then return nil, "ENOENT: there is no " .. about, code, refusal end
  return nil, text, code, refusal
end

--- Makes the object for an existing stream.
function stream.new(bus, info)
  local config = info.config
  return setmetatable({ _bus = bus, _name = config.name, _about = "stream " .. config.name, _created = info.created,
    _subjects = config.subjects or {}, _duplicates = api.seconds(config.duplicate_window),
    _made_at = objects.made_at() }, Stream)
end

function stream.open(bus, name, settings)
  check.name(name, "bus:stream")
  misuse.optional(settings, "table", "bus:stream", 2)
  if settings then check_settings(settings, "bus:stream") end
  if bus._status == "closed" then return bus:_why_over() end
  local about = "stream " .. name
  local info, text, code, refusal
  if settings then
    info, text, code, refusal = stream.make(bus, "bus:stream", about, config_of(bus, name, settings))
  else
    info, text, code, refusal = stream.find(bus, "bus:stream", about, name)
  end
  if not info then return nil, text, code, refusal end
  return stream.new(bus, info)
end

-- Publishing ----------------------------------------------------------------------------------------------------------

local PUBLISH = { id = "string", headers = "table", timeout = "seconds", after = "count" }

-- Whether one of a stream's subjects takes a subject.
local function takes(config, subject)
  for _, filter in ipairs(config.subjects or {}) do
    local pattern = "^" .. filter:gsub("[%-+?^$()%%%[%].]", "%%%0"):gsub("%*", "[^.]+"):gsub(">", ".+") .. "$"
    if match(subject, pattern) then return true end
  end
  return false
end

--- Stores a message: sends it until it is acknowledged. Waits. `data`: bytes, or a function that returns them for each
--- try. `headers` has the id of the message. Returns the acknowledgement, and how often the message was sent; or nil,
--- the reason, its code and the refusal.
function stream.store(self, what, subject, data, headers, timeout)
  local bus, deadline, missing = self._bus, rl.now() + timeout, nil
  local function give_up(code)
    -- Nobody answers: the stream has no leader now, does not exist any more, or takes other subjects.
    if code ~= "ENOENT" or self._is_found then return nil end
    local left = deadline - rl.now()
    if left <= SOON then return nil end
    local info, text, why, refusal = stream.find(bus, what, self._about, self._name, left)
    if not info and why == "ENOENT" then
      missing = missing or rl.now()
      return api.is_gone(bus, missing) and function() return nil, text, why, refusal end or nil
    end
    if not info then return nil end
    if not takes(info.config, subject) then
      return function()
        return nil, format("ENOENT: the %s does not take the subject %s (it takes %s)", self._about, subject,
          list(info.config.subjects)), "ENOENT"
      end
    end
    self._is_found = true
  end
  self._is_found = false
  while true do
    local left = deadline - rl.now()
    local message, tries, code, last = api.repeated(bus, what, subject, data, headers, left, give_up)
    if not message then return nil, tries, code, code and last end
    local answer, text, why, refusal = api.acknowledgement(bus, message, self._about)
    if answer or text then return answer, answer and tries or text, why, refusal end
    if rl.now() >= deadline - SOON then return nil, "timed out" end
    rl.sleep(math.min(0.1, math.max(0, deadline - rl.now())))
  end
end

--- Raises an error if a message could be stored twice because its repetition comes too late.
function stream.check_timeout(self, what, timeout)
  if timeout > self._duplicates / 2 then
    raise("%s: field 'timeout' is %g, more than half of the %g seconds in which the %s finds duplicates", what,
      timeout, self._duplicates, self._about)
  end
end

local function own_headers(self, options)
  local headers = {}
  for name, value in next, options.headers or {} do headers[name] = value end
  headers["Nats-Msg-Id"] = options.id or api.unique(self._bus)
  headers["Nats-Expected-Stream"] = self._name
  if options.after then headers["Nats-Expected-Last-Sequence"] = tostring(options.after) end
  return headers
end

function Stream:publish(subject, data, options)
  receiver(self, Stream, "stream:publish")
  check.subject(subject, "stream:publish")
  data = check.data(data, "stream:publish")
  options = misuse.options(options, PUBLISH, "stream:publish", 3)
  if options.id == "" then raise "stream:publish: field 'id' is empty" end
  -- The default time-out becomes shorter if the stream forgets duplicates sooner.
  local timeout = options.timeout or math.min(10, self._duplicates / 2)
  stream.check_timeout(self, "stream:publish", timeout)
  local answer, text, code, refusal = stream.store(self, "stream:publish", subject, data, own_headers(self, options),
    timeout)
  if answer then return { stream = answer.stream, seq = answer.seq, duplicate = answer.duplicate == true and
    options.id ~= nil } end
  local last = code == "EAGAIN" and match(text, "(%d+)$")
  if last then
    text = format("EAGAIN: the last message of the %s is %s, not %d", self._about, last, options.after)
  end
  return nil, text, code, refusal
end

-- Looking and changing ------------------------------------------------------------------------------------------------

function Stream:info()
  receiver(self, Stream, "stream:info")
  local answer, text, code, refusal = api.call(self._bus, "stream:info", "STREAM.INFO." .. self._name, nil, self._about)
  if not answer then return nil, text, code, refusal end
  local state = answer.state or {}
  return { messages = state.messages, bytes = state.bytes, first = state.first_seq, last = state.last_seq,
    replicas = answer.config.num_replicas, leader = answer.cluster and answer.cluster.leader or nil,
    consumers = state.consumer_count }
end

function Stream:update(settings)
  receiver(self, Stream, "stream:update")
  misuse.argument(settings, "table", "stream:update", 1)
  check_settings(settings, "stream:update")
  local info, text, code, refusal = stream.find(self._bus, "stream:update", self._about, self._name)
  if not info then return nil, text, code, refusal end
  local config = info.config
  -- A single server, such as 2.9.10, accepts any number of replicas here, and keeps one.
  if (settings.replicas or 1) > 1 and not info.cluster then
    return nil, format("ENOTSUP: %s: %d replicas need a cluster of servers", self._about, settings.replicas), "ENOTSUP"
  end
  local merged = config_of(self._bus, self._name, settings)
  local given = { subjects = settings.subjects, retention = settings.retention, storage = settings.storage,
    num_replicas = settings.replicas, max_age = settings.max_age and merged.max_age, max_bytes = settings.max_bytes,
    max_msgs = settings.max_messages, duplicate_window = settings.duplicates and merged.duplicate_window }
  for field, value in next, given do config[field] = value end
  -- The server refuses a stream that remembers ids for longer than it keeps messages.
  if given.max_age and not given.duplicate_window then
    config.duplicate_window = math.min(config.duplicate_window, given.max_age)
  end
  local answer
  answer, text, code, refusal = api.call(self._bus, "stream:update", "STREAM.UPDATE." .. self._name, config,
    self._about)
  if not answer then return nil, text, code, refusal end
  self._duplicates = api.seconds(answer.config.duplicate_window)
  return true
end

function Stream:purge(subject)
  receiver(self, Stream, "stream:purge")
  if subject ~= nil then check.filter(subject, "stream:purge") end
  local answer, text, code, refusal = api.call(self._bus, "stream:purge", "STREAM.PURGE." .. self._name,
    subject and { filter = subject } or nil, self._about)
  if not answer then return nil, text, code, refusal end
  return answer.purged
end

function Stream:remove()
  receiver(self, Stream, "stream:remove")
  local answer, text, code, refusal = api.call(self._bus, "stream:remove", "STREAM.DELETE." .. self._name, nil,
    self._about)
  if not answer then return nil, text, code, refusal end
  return true
end

function Stream:consumer(name, options, fn)
  return require "runloop.nats.consumer".open(receiver(self, Stream, "stream:consumer"), name, options, fn)
end

function Stream:name() return receiver(self, Stream, "stream:name")._name end

function Stream:__tostring() return format("stream %s (%s)", self._name, self._made_at) end

return stream
