-- runloop.nats.watch: changes of a bucket, in order, without gap or repetition. Each connection has its own consumer at
-- the server: the next one begins after the last received entry.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local check = require "runloop.nats.check"
local api = require "runloop.nats.api"
local consumer = require "runloop.nats.consumer"
local bucket = require "runloop.nats.bucket"
local subscription = require "runloop.nats.subscription"
local Pull = require "runloop.nats.pull"

local setmetatable = setmetatable
local format, sub, math_type = string.format, string.sub, math.type
local receiver, raise = misuse.receiver, misuse.raise
local push, take = subscription.Subscription._push, subscription.Subscription._take
local read_place = consumer.read_place

local Watch = objects.class("runloop.nats.Watch", { __name = "watch", __stays = true })

-- The number of entries in one request.
local BATCH = 256
-- Seconds for which the server keeps an unused consumer.
local INACTIVE = 60
-- Seconds for reading all entries.
local LIMIT = 10
-- Marks, in the queue, the end of the entries that existed at the beginning.
local CURRENT = {}

-- At the server -------------------------------------------------------------------------------------------------------

-- Makes a consumer at the server. Waits. Returns the consumer's description; or nil, the reason, its code and the
-- refusal.
local function make(self, settings)
  local of = self._bucket._stream
  local config = { name = api.unique(self._bus), ack_policy = "none", replay_policy = "instant", max_deliver = -1,
    filter_subject = self._bucket._prefix .. self._filter, inactive_threshold = api.nanoseconds(INACTIVE),
    mem_storage = true, num_replicas = 1, headers_only = settings.headers_only,
    deliver_policy = settings.deliver_policy, opt_start_seq = settings.opt_start_seq }
  return api.call(self._bus, self._what, "CONSUMER.CREATE." .. of._name .. "." .. config.name,
    { stream_name = of._name, config = config }, self._bucket._about)
end

-- Returns the start of the consumer; or nil, the reason and its code. If the stream was made again, the watch
-- begins again.
local function beginning(self)
  local settings, of, last = self._settings, self._bucket._stream, self._last
  local answer, text, code, refusal = api.call(self._bus, self._what, "STREAM.INFO." .. of._name, nil,
    self._bucket._about)
  if not answer then return nil, text, code, refusal end
  self._known = answer.state.last_seq
  -- While the answer was on its way, the previous consumer may have delivered later entries.
  if answer.created ~= of._created or self._known < last then self._last, of._created = 0, answer.created end
  -- Until all existing entries have come, the consumer starts with them again; later it starts after the last received
  -- entry.
  if self._last == 0 or not self._is_current then return settings end
  return { headers_only = settings.headers_only, deliver_policy = "by_start_sequence", opt_start_seq = self._last + 1 }
end

-- Reports that all existing entries have come.
local function become_current(self)
  if self._is_current then return end
  self._is_current = true
  if self._on_current then return self._on_current:complete(true) end
  if self._fn then push(self._one, { data = "", _mark = CURRENT }) end
end

-- Begins, or continues after the last received entry. Waits. Returns true if the watch has begun; or nil, the reason
-- and its code.
local function begin(self)
  local settings, text, code, refusal = beginning(self)
  if not settings then return nil, text, code, refusal end
  local answer
  answer, text, code, refusal = make(self, settings)
  if not answer then return nil, text, code, refusal end
  if self._is_over then return true end
  self._expected = 1
  self._pull:start(self._bucket._stream._name, answer.name)
  if (answer.num_pending or 0) == 0 then become_current(self) end
  return true
end

local function finish(self, text, code)
  if self._is_over then return end
  self._is_over = true
  local stream, name = self._pull.stream, self._pull.consumer
  self._pull:stop()
  self._bus._parts[self] = nil
  self._one._why = { text = text or "ENOTCONN: the watch is closed", code = code or "ENOTCONN" }
  if self._bus._status ~= "closed" then
    self._bus:_unsubscribe(self._one)
    if name and self._bus._link then
      self._bus:_publish("watch", "$JS.API.CONSUMER.DELETE." .. stream .. "." .. name, "")
    end
  end
  self._one:_end(true)
  if self._on_current then self._on_current:complete(nil, self._one._why.text, self._one._why.code) end
end

-- Begins again in the background until it succeeds.
local function again(self)
  self._pull:stop()
  if self._is_beginning or self._is_over then return end
  self._is_beginning = true
  rl.task { function()
    local _ <close> = setmetatable({}, { __close = function() self._is_beginning = false end })
    local backoff, missing = rl.backoff { first = 0.1, most = 2 }, nil
    while not self._is_over and self._bus._status ~= "closed" do
      self._is_stale = false
      local done, text, code = begin(self)
      if done and not self._is_stale then return end
      missing = code == "ENOENT" and (missing or rl.now()) or nil
      if missing and api.is_gone(self._bus, missing) then
        self._bus:_tell("refused", { message = text, code = code, subject = self._bucket._prefix .. self._filter })
        return finish(self, text, code)
      end
      if not done then backoff:wait() end
    end
  end, name = "watching a bucket of NATS again", keeps_alive = false }
end

-- Functions that the pull calls --------------------------------------------------------------------------------------

function Watch:_held() return self._one:_pending() end

--- Takes a message of the server.
function Watch:_message(message)
  local place = {}
  local number, pending = read_place(place, message.reply or "")
  if not number then return end
  -- If a number is missing, a message was lost, or the message comes from the previous consumer.
  if number ~= self._expected then return number > self._expected and again(self) or nil end
  self._expected = number + 1
  local operation = bucket.operation_of(message.headers)
  -- When a key is purged, servers of version 2.9 may skip messages that they have not delivered yet.
  if operation == "purge" and place.seq > self._known and place.seq > self._last + 1 then return again(self) end
  if place.seq > self._last then
    self._last = place.seq
    local entry = { key = sub(message.subject, #self._bucket._prefix + 1), value = message.data,
      revision = place.seq, time = place.time, operation = operation }
    if self._list then
      self._list[#self._list + 1] = entry
    elseif self._is_current or operation == "put" then
      entry.initial, entry.data = not self._is_current or nil, message.data
      push(self._one, entry)
    end
  end
  if pending == 0 then become_current(self) end
  self._pull:fill()
end

--- The consumer no longer exists, but the bucket may.
function Watch:_gone() again(self) end

function Watch:_connected()
  self._is_stale = true
  again(self)
end

function Watch:_closing() self._pull:stop() end

-- Making --------------------------------------------------------------------------------------------------------------

local OPTIONS = { modes = "any", order = "any", keeps_alive = "boolean" }

-- Returns the entry for scripts, without the fields that only this part needs.
local function shown(entry)
  entry.data = nil
  return entry
end

local function new(owner, what, filter, settings, options, fn)
  local bus = owner._bus
  local self = setmetatable({ _bus = bus, _bucket = owner, _filter = filter, _what = what, _settings = settings,
    _last = 0, _known = 0, _expected = 1, _is_current = false, _is_over = false, _is_beginning = false,
    _is_stale = false, _fn = fn, _made_at = objects.made_at() }, Watch)
  local inbox
  self._one, inbox = Pull.subscribe(bus, what, { modes = options.modes, order = options.order,
    keeps_alive = options.keeps_alive, name = format("watch of %s in bucket %s", filter, owner._name) },
    fn and function(entry)
      self._pull:fill()
      if entry._mark then return fn(nil, self) end
      return fn(shown(entry), self)
    end)
  self._pull = Pull.new(bus, self, self._one, inbox, BATCH)
  bus:_register(self._one)
  bus._parts[self] = true
  return self
end

-- Begins for the first time. Waits.
local function first(self)
  local is_done
  local _ <close> = setmetatable({}, { __close = function() if not is_done then finish(self) end end })
  self._is_beginning = true
  local done, text, code, refusal
  repeat
    self._is_stale = false
    done, text, code, refusal = begin(self)
  until not (done and self._is_stale)
  self._is_beginning, is_done = false, done
  if not done then return nil, text, code, refusal end
  return self
end

local watch = { class = Watch }

function watch.open(owner, filter, options, fn)
  receiver(owner, bucket.class, "bucket:watch")
  check.key(filter, "bucket:watch", nil, true)
  if fn == nil and misuse.is_callable(options) then options, fn = nil, options end
  if fn ~= nil and not misuse.is_callable(fn) then misuse.wrong("bucket:watch", "argument #3", "a function", fn) end
  options = misuse.options(options, OPTIONS, "bucket:watch", 2)
  if options.order ~= nil and math_type(options.order) ~= "integer" then
    misuse.wrong("bucket:watch", "field 'order'", "an integer", options.order)
  end
  local bus = owner._bus
  if bus._status == "closed" or bus._status == "draining" then return bus:_why_over() end
  return first(new(owner, "bucket:watch", filter, { deliver_policy = "last_per_subject" }, options, fn))
end

--- Returns a list of all entries that a filter selects. Waits.
function watch.all(owner, what, filter, settings)
  if owner._bus._status == "closed" then return owner._bus:_why_over() end
  local self = new(owner, what, filter, settings, {})
  self._on_current, self._list = rl.future(), {}
  local _ <close> = setmetatable({}, { __close = function() finish(self) end })
  local done, text, code, refusal = first(self)
  if not done then return nil, text, code, refusal end
  done, text, code = self._on_current:await(LIMIT)
  if not done then return nil, text, code end
  return self._list
end

function Watch:receive(timeout)
  receiver(self, Watch, "watch:receive")
  misuse.optional(timeout, "seconds", "watch:receive", 1)
  if self._fn then raise "watch:receive: its entries go to its function" end
  local entry, text, code = take(self._one, timeout)
  if not entry then return nil, text, code end
  self._pull:fill()
  return shown(entry)
end

function Watch:entries()
  receiver(self, Watch, "watch:entries")
  return function() return (self:receive()) end
end

function Watch:is_current() return receiver(self, Watch, "watch:is_current")._is_current end

function Watch:invalidate()
  receiver(self, Watch, "watch:invalidate")
  finish(self)
end
Watch.__close = function(self) return self:invalidate() end

function Watch:is_valid() return not receiver(self, Watch, "watch:is_valid")._is_over end

function Watch:__tostring()
  return format("watch of %s in bucket %s (%s)", self._filter, self._bucket._name, self._made_at)
end

return watch
