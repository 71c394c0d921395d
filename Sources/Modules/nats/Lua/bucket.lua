-- runloop.nats.bucket: buckets have keys with values and revisions. A bucket is a stream of JetStream, in the form that
-- all clients of NATS use (ADR-8).

local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local encoding = require "runloop.encoding"
local check = require "runloop.nats.check"
local api = require "runloop.nats.api"
local stream = require "runloop.nats.stream"

local setmetatable, type, ipairs = setmetatable, type, ipairs
local format, match, tostring = string.format, string.match, tostring
local math_tointeger, min = math.tointeger, math.min
local receiver = misuse.receiver

local Bucket = objects.class("runloop.nats.Bucket", { __name = "bucket", __stays = true })

local SETTINGS = { history = "positive", ttl = "seconds", replicas = "positive", max_bytes = "positive",
  storage = "string" }
local STORAGES = { file = true, memory = true }
local MOST_HISTORY = 64
-- Seconds: the window in which a repetition is recognized.
local DUPLICATES = 120
-- Seconds for which the leader is asked when no replica has answered.
local DIRECT = 2
-- The operations, by the value of the header that a removal has.
local OPERATIONS = { DEL = "remove", PURGE = "purge" }

-- Making --------------------------------------------------------------------------------------------------------------

local function config_of(bus, name, settings)
  local ttl = settings.ttl
  return {
    name = "KV_" .. name, subjects = { "$KV." .. name .. ".>" }, retention = "limits",
    storage = settings.storage or "file", num_replicas = settings.replicas or stream.replicas(bus),
    max_msgs_per_subject = settings.history or 1, max_age = ttl and api.nanoseconds(ttl) or 0,
    max_bytes = settings.max_bytes or -1, max_msgs = -1, max_consumers = -1, max_msg_size = -1, discard = "new",
    duplicate_window = api.nanoseconds(min(ttl or DUPLICATES, DUPLICATES)), allow_rollup_hdrs = true,
    deny_delete = true, allow_direct = true,
  }
end

local function check_settings(settings, what)
  misuse.fields(settings, SETTINGS, what)
  check.range(settings, what, "history", 1, MOST_HISTORY, true)
  check.range(settings, what, "ttl", 0.1, api.CENTURY)
  check.range(settings, what, "replicas", 1, 5, true)
  stream.check_word(settings, what, "storage", STORAGES)
end

local bucket = { class = Bucket }

--- Makes or finds a bucket, with checked arguments. Waits. Returns the bucket; or nil, the reason, its code and the
--- refusal.
function bucket.find(bus, what, name, settings)
  local about = "bucket " .. name
  local info, text, code, refusal
  if settings then
    info, text, code, refusal = stream.make(bus, what, about, config_of(bus, name, settings))
  else
    info, text, code, refusal = stream.find(bus, what, about, "KV_" .. name)
  end
  if not info then return nil, text, code, refusal end
  local store = stream.new(bus, info)
  store._about = about
  return setmetatable({ _bus = bus, _name = name, _stream = store, _prefix = "$KV." .. name .. ".", _about = about,
    _is_direct = info.config.allow_direct == true, _made_at = objects.made_at() }, Bucket)
end

function bucket.open(bus, name, settings)
  check.name(name, "bus:bucket")
  misuse.optional(settings, "table", "bus:bucket", 2)
  if settings then check_settings(settings, "bus:bucket") end
  if bus._status == "closed" then return bus:_why_over() end
  return bucket.find(bus, "bus:bucket", name, settings)
end

-- Reading -------------------------------------------------------------------------------------------------------------

local function operation_of(headers)
  return headers and OPERATIONS[headers["KV-Operation"]] or "put"
end
bucket.operation_of = operation_of

-- Asks the leader. Returns the entry; nil if there is none; or nil, the reason, its code and the refusal.
local function ask_leader(self, what, question, subject, limit)
  local answer, text, code, refusal = api.call(self._bus, what, "STREAM.MSG.GET." .. self._stream._name, question,
    self._about, limit)
  if not answer then
    if refusal and refusal.err_code == 10037 then return nil end
    return nil, text, code, refusal
  end
  local message = answer.message
  if type(message) ~= "table" or message.subject ~= subject then return nil end
  local headers = message.hdrs and check.read_headers(encoding.decode(message.hdrs, "base64") or "")
  return { value = message.data and encoding.decode(message.data, "base64") or "", revision = message.seq,
    operation = operation_of(headers), time = api.time_of(message.time) }
end

-- Asks any replica, which may not have the leader's latest entries. As `ask_leader`.
local function ask_any(self, what, subject)
  local question = "$JS.API.DIRECT.GET." .. self._stream._name .. "." .. subject
  local message, text, code = self._bus:_request(what, question, "", {})
  if not message then return nil, text, code end
  if message._status == 404 then return nil end
  local headers = message.headers
  local revision = headers and math_tointeger(tonumber(headers["Nats-Sequence"]))
  if not revision then return nil, "EPROTO: " .. self._about .. ": an answer without a revision", "EPROTO" end
  return { value = message.data, revision = revision, operation = operation_of(headers),
    time = api.time_of(headers["Nats-Time-Stamp"]) }
end

--- Returns the entry of a key, even if the entry says that the key was removed. Waits.
function Bucket:_entry(what, key, revision, is_stale)
  local subject = self._prefix .. key
  -- Old clients make streams without direct access. For such a stream, servers do not answer a direct request, as if
  -- the stream did not exist.
  local is_any = is_stale and self._is_direct
  if is_any then
    local entry, text, code = ask_any(self, what, subject)
    if code ~= "ENOENT" and text ~= "timed out" then return entry, text, code end
  end
  return ask_leader(self, what, revision and { seq = revision } or { last_by_subj = subject }, subject,
    is_any and DIRECT or nil)
end

local GET = { revision = "positive", stale = "boolean" }

function Bucket:get(key, options)
  receiver(self, Bucket, "bucket:get")
  check.key(key, "bucket:get")
  options = misuse.options(options, GET, "bucket:get", 2)
  if options.revision and options.stale then misuse.raise "bucket:get: give either 'revision' or 'stale'" end
  local entry, text, code, refusal = self:_entry("bucket:get", key, options.revision, options.stale)
  if entry and entry.operation == "put" then return entry.value, entry.revision end
  if text then return nil, text, code, refusal end
  return nil
end

-- Writing -------------------------------------------------------------------------------------------------------------

--- Writes an entry. Waits. `expected`: the revision that the key must have. Returns the new revision; or nil, the
--- reason, its code and the refusal.
function Bucket:_write(what, key, value, headers, expected, timeout)
  headers = headers or {}
  headers["Nats-Msg-Id"] = api.unique(self._bus)
  if expected then headers["Nats-Expected-Last-Subject-Sequence"] = tostring(expected) end
  local answer, text, code, refusal = stream.store(self._stream, what, self._prefix .. key, value, headers,
    timeout or min(10, self._stream._duplicates / 2))
  if answer then return answer.seq end
  local last = code == "EAGAIN" and match(text, "(%d+)$")
  if last then text = format("EAGAIN: the key %s is at revision %s, not %d", key, last, expected) end
  return nil, text, code, refusal
end

-- Writes a key, which must not exist or must have been removed.
local function create(self, what, key, value)
  local expected = 0
  for _ = 1, 10 do
    local revision, text, code, refusal = self:_write(what, key, value, nil, expected)
    if revision or code ~= "EAGAIN" then return revision, text, code, refusal end
    local entry, problem, why, how = self:_entry(what, key)
    if problem then return nil, problem, why, how end
    if entry and entry.operation == "put" then
      return nil, format("EEXIST: the key %s exists, at revision %d", key, entry.revision), "EEXIST", refusal
    end
    -- The key was removed; the next try expects the revision of its removal.
    expected = entry and entry.revision or 0
  end
  return nil, format("EAGAIN: others keep changing the key %s", key), "EAGAIN"
end

local PUT = { revision = "count" }

function Bucket:put(key, value, options)
  receiver(self, Bucket, "bucket:put")
  check.key(key, "bucket:put")
  value = check.data(value, "bucket:put")
  options = misuse.options(options, PUT, "bucket:put", 3)
  if options.revision == 0 then return create(self, "bucket:put", key, value) end
  return self:_write("bucket:put", key, value, nil, options.revision)
end

local REMOVE = { revision = "positive", purge = "boolean" }

function Bucket:remove(key, options)
  receiver(self, Bucket, "bucket:remove")
  check.key(key, "bucket:remove")
  options = misuse.options(options, REMOVE, "bucket:remove", 2)
  local headers = { ["KV-Operation"] = options.purge and "PURGE" or "DEL",
    ["Nats-Rollup"] = options.purge and "sub" or nil }
  return self:_write("bucket:remove", key, "", headers, options.revision)
end

-- Several entries -----------------------------------------------------------------------------------------------------

function Bucket:watch(filter, options, fn)
  return require "runloop.nats.watch".open(receiver(self, Bucket, "bucket:watch"), filter, options, fn)
end

function Bucket:keys(filter)
  receiver(self, Bucket, "bucket:keys")
  if filter ~= nil then check.key(filter, "bucket:keys", nil, true) end
  local keys = {}
  local entries, text, code, refusal = require "runloop.nats.watch".all(self, "bucket:keys", filter or ">",
    { headers_only = true, deliver_policy = "last_per_subject" })
  if not entries then return nil, text, code, refusal end
  for _, entry in ipairs(entries) do
    if entry.operation == "put" then keys[#keys + 1] = entry.key end
  end
  table.sort(keys)
  return keys
end

function Bucket:history(key)
  receiver(self, Bucket, "bucket:history")
  check.key(key, "bucket:history")
  return require "runloop.nats.watch".all(self, "bucket:history", key, { deliver_policy = "all" })
end

function Bucket:name() return receiver(self, Bucket, "bucket:name")._name end

function Bucket:__tostring() return format("bucket %s (%s)", self._name, self._made_at) end

return bucket
