-- runloop.nats.subscription: received messages, and subscriptions with their queues.

local system = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local check = require "runloop.nats.check"
local seen = require "runloop.nats.seen"
local flow = require "runloop.nats.flow"

local setmetatable, type, next, ipairs = setmetatable, type, next, ipairs
local native = system.open()
local push, next_of, handle, pending = native.push, native.take, native.handle, native.pending
local listen, clear, unheld = native.listen, native.clear, system.unheld
local format, find, max = string.format, string.find, math.max
local receiver, running = misuse.receiver, coroutine.running
local waits, waiting = seen.waits, seen.waiting

local Message = objects.class("runloop.nats.Message", { __name = "message", __stays = true })
local Subscription = objects.class("runloop.nats.Subscription",
  { __name = "subscription", __stays = true, __item = function(self) return self:_own_source() end })

-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6
-- The number of messages that a task handles before the loop serves other items.
local AT_ONCE = 256
-- Bits in the result of `push`. FULL: the message is the first one that was dropped. WOKEN: the subscription is to be
-- notified. CROWDED: a thousand messages wait, so some are handled before the connection is read again.
local FULL, WOKEN, CROWDED = 1, 2, 4

-- The mark of a sender's recorder, see runloop.nats.flow.
Message._flow = false

-- The initial values of a subscription's fields: a subscription stores only those that differ.
for name, value in next, {
  _running = 0, _concurrency = 1, _max_pending = 65536, _max_bytes = 64 << 20, _keeps_alive = true, _is_woken = false,
  _is_ended = false, _is_over = false, _group = false, _left = false, _arrived = false, _drained = false,
  _fn = false, _source = false, _shared = false, _why = false, _queue = false, _name = false, _refused = false,
} do Subscription[name] = value end

local RESPOND = { headers = "table" }

function Message:respond(data, options)
  receiver(self, Message, "message:respond")
  misuse.options(options, RESPOND, "message:respond", 2)
  local reply = self.reply
  -- Messages without a reply have no bus.
  if not reply or not self._bus then
    misuse.raise "message:respond: the sender expects no answer: the message has no reply subject"
  end
  -- A script may have changed this field. A subject that a server has sent satisfies the other rules.
  if type(reply) ~= "string" or find(reply, "[%c \127*>]") then
    check.subject(reply, "message:respond", "field 'reply'")
  end
  return self._bus:_publish("message:respond", reply, check.data(data, "message:respond", 1), options, self)
end

local OPTIONS = {
  queue = "string", concurrency = "positive", max_pending = "positive", max_bytes = "positive", max = "positive",
  modes = "any", order = "any", name = "string", keeps_alive = "boolean",
}

local function name_of(self) return self._name or format("subscription of %q", self._subject) end

-- The end of a task that handles messages. After an error or a cancellation, the next messages get another task.
local Handling = { __close = function(handling)
  local self = handling.one
  self._running = self._running - 1
  flow.forget()
  self:_wake()
end }

-- Handles a message with headers, which may have a trace.
local function handle_marked(message, self)
  flow.handles(message)
  self._fn(message, self)
  flow.forget()
end

local function work(self)
  self._running = self._running + 1
  local _ <close> = setmetatable({ one = self }, Handling)
  handle(self._queue, self._fn, self, handle_marked, AT_ONCE)
end

--- Handles queued messages, as many as `concurrency` allows.
function Subscription:_pump()
  self._is_woken = false
  local queue = self._queue
  if not queue then return end
  listen(queue)
  for _ = 1, self._concurrency - self._running do
    if pending(queue) == 0 then break end
    unheld(rl.task { work, self, name = name_of(self), keeps_alive = self._keeps_alive })
  end
end

-- Makes the loop handle queued messages, or end the subscription after the last one.
function Subscription:_wake()
  local queue = self._queue
  if not queue or pending(queue) == 0 then
    if queue then listen(queue) end
    if self._running == 0 and self._is_ended then self:_finish() end
    return
  end
  local source, shared = self._source, self._shared
  if self._is_woken or self._running >= self._concurrency or not source and not shared then return end
  self._is_woken = true
  if shared then
    shared.woken[#shared.woken + 1] = self
    source = shared.source
  end
  source:signal()
  source:wake_loops()
end

-- Leaves the loop. Tasks that wait for messages get no further ones.
function Subscription:_finish()
  self._is_over = true
  if self._source then self._source:invalidate() end
  if self._shared then self._shared:leave() end
  self._shared = false
  local arrived, drained = self._arrived, self._drained
  self._arrived = false
  if arrived then arrived:complete() end
  if drained then drained:complete(true) end
end

-- Called after a message was pushed. `what`: bits.
local function pushed(self, what)
  if what & FULL ~= 0 then
    local _, _, dropped = native.stats(self._queue)
    return self._bus:_tell("slow", { subscription = self, subject = self._subject, dropped = dropped })
  end
  local is_served = self._source or self._shared
  if what & CROWDED ~= 0 and is_served then
    local crowded = self._bus._crowded
    crowded[#crowded + 1] = self
  end
  if what & WOKEN == 0 then return end
  if is_served then return self:_wake() end
  local arrived = self._arrived
  self._arrived = false
  if arrived then arrived:complete() end
end

-- Returns the queue, which is made for the first message.
local function queue_of(self)
  local queue = self._queue
  if not queue then
    queue = native.queue(self, self._max_pending, self._max_bytes)
    self._queue = queue
  end
  return queue
end

--- Takes a message of the server.
function Subscription:_push(message)
  local what = push(queue_of(self), message)
  if what ~= 0 then pushed(self, what) end
end

--- Returns the queue if further messages only have to be pushed into the queue.
function Subscription:_plain_queue() return self._push == Subscription._push and not self._left and queue_of(self) end

--- Returns the number of messages that wait.
function Subscription:_pending()
  local queue = self._queue
  return queue and pending(queue) or 0
end

--- Removes the messages that wait, and returns a list of them.
function Subscription:_clear() return self._queue and clear(self._queue) or {} end

--- The server refuses the subscription on this connection. `receive` returns the reason; the next connection may allow
--- the subscription.
function Subscription:_refuse(reason)
  self._refused = reason
  local arrived = self._arrived
  self._arrived = false
  if arrived then arrived:complete() end
end

--- Ends the subscription without a message to the server: the bus is closed, or the last message has arrived.
function Subscription:_end(is_at_once)
  if self._is_ended and not is_at_once then return end
  self._is_ended = true
  if is_at_once then self:_clear() end
  if is_at_once or self:_pending() == 0 and self._running == 0 then self:_finish() end
  local arrived = self._arrived
  self._arrived = false
  if arrived then arrived:complete() end
end

--- Returns the next message; nil, the reason and its code at the end. Waits.
function Subscription:_take(timeout)
  local deadline, queue = timeout and rl.now() + timeout, queue_of(self)
  local message = next_of(queue)
  while not message do
    if self._is_ended then
      local why = self._why
      if why then return nil, why.text, why.code end
      if self._bus._status == "closed" then return self._bus:_why_over() end
      return nil, format("ENOTCONN: the %s has ended", name_of(self)), "ENOTCONN"
    end
    if self._refused then return nil, self._refused, "EACCES" end
    local left = deadline and deadline - rl.now()
    if left and left <= SOON then return nil, "timed out" end
    self._arrived = self._arrived or rl.future()
    listen(queue)
    local _ <close> = self._bus:_borrow()
    local _ <close> = waiting
    waits[running()] = self
    self._arrived:await(left)
    message = next_of(queue)
  end
  if message._flow then flow.arrives(message, message.subject) end
  if pending(queue) == 0 then
    if self._is_ended then self:_finish() end
  elseif self._arrived then
    self._arrived:complete()
    self._arrived = false
  end
  return message
end

function Subscription:receive(timeout)
  receiver(self, Subscription, "subscription:receive")
  misuse.optional(timeout, "seconds", "subscription:receive", 1)
  if self._fn then misuse.raise("subscription:receive: its messages go to its function") end
  return self:_take(timeout)
end

function Subscription:messages()
  receiver(self, Subscription, "subscription:messages")
  return function()
    return (self:receive())
  end
end

function Subscription:invalidate()
  receiver(self, Subscription, "subscription:invalidate")
  if self._is_over then return end
  self._bus:_unsubscribe(self)
  self:_end(true)
end
Subscription.__close = function(self) return self:invalidate() end

-- Waits for the messages under way. A task that is cancelled here ends the subscription, too.
local function drain(self, deadline)
  local _ <close> = setmetatable({}, { __close = function()
    self._bus:_forget(self)
    self:_end()
  end })
  return self._bus:flush(max(0, deadline - rl.now()))
end

function Subscription:drain(timeout)
  receiver(self, Subscription, "subscription:drain")
  misuse.optional(timeout, "seconds", "subscription:drain", 1)
  local deadline = rl.now() + (timeout or 10)
  if not self._is_ended then
    self._bus:_unsubscribe(self, true)
    local done, message, code = drain(self, deadline)
    if not done then return nil, message, code end
  end
  if self._is_over or not self._fn then return true end
  self._drained = self._drained or rl.future()
  local done, message = self._drained:await(max(0, deadline - rl.now()))
  if not done then return nil, message or "timed out" end
  return true
end

function Subscription:is_valid()
  return not receiver(self, Subscription, "subscription:is_valid")._is_over
end

function Subscription:stats()
  receiver(self, Subscription, "subscription:stats")
  local queue = queue_of(self)
  local received, handled, dropped = native.stats(queue)
  local count, bytes = pending(queue)
  return { received = received, handled = handled, dropped = dropped, pending = count, pending_bytes = bytes }
end

function Subscription:name() return name_of(receiver(self, Subscription, "subscription:name")) end

function Subscription:order()
  receiver(self, Subscription, "subscription:order")
  local source = self._source or self._shared and self._shared.source
  return source and source:order() or 0
end

--- Returns the name for rl.why if a task waits for a message.
function Subscription:_awaited() return self._arrived and name_of(self) or nil end

--- Returns the kind, the name and further information for loop:inspect.
function Subscription:_seen()
  return "subscription", self._name or self._subject, (self._group and format('queue "%s", ', self._group) or "")
    .. self:_pending() .. " pending"
end

function Subscription:__tostring() return format("subscription of %q (%s)", self._subject, self._made_at) end

local function modes_of(modes, default, what)
  if type(modes) == "table" and next(modes) == nil then return {} end
  if modes ~= nil and type(modes) ~= "table" and type(modes) ~= "string" then
    misuse.wrong(what, "field 'modes'", "a mode or a list of modes", modes)
  end
  return objects.modes(modes == nil and default or modes, what)
end

-- The options that become fields; those that are absent cost no memory.
local FIELDS = { queue = "_group", concurrency = "_concurrency", max_pending = "_max_pending", max_bytes = "_max_bytes",
  max = "_left", name = "_name", keeps_alive = "_keeps_alive" }

-- Sources -------------------------------------------------------------------------------------------------------------

-- For each source: its subscription, or the object of several subscriptions that share the source. The table lets all
-- sources use the same three functions.
local owners = setmetatable({}, { __mode = "k" })

local function perform(source) owners[source]:_pump() end
local function schedule(source, _, mode) owners[source]._bus:_join(mode) end
-- At the end of a thread, the table may be empty already.
local function cancel(source, _, mode)
  local one = owners[source]
  if one then one._bus:_leave(mode) end
end

local function make_source(owner, name, order, keeps_alive)
  local source = rl.source { name = name, order = order, perform = perform, keeps_alive = keeps_alive,
    schedule = schedule, cancel = cancel }
  owners[source], seen.items[source] = owner, owner
  return source
end

-- A source in the common modes that serves several subscriptions of a bus: a source for each would take 800 bytes. A
-- subscription that a script adds to a mode, or removes from one, gets its own.
local Shared = { is_shared = true }
Shared.__index = Shared

local function share(bus, order, keeps_alive)
  local key = (keeps_alive and "stays " or "idle ") .. order
  local shared = bus._shared[key]
  if not shared then
    shared = setmetatable({ _bus = bus, key = key, woken = {}, count = 0 }, Shared)
    shared.source = make_source(shared, "subscriptions of NATS", order, keeps_alive)
    bus._shared[key] = shared
    rl.current():add(shared.source, "common")
  end
  shared.count = shared.count + 1
  return shared
end

function Shared:leave()
  self.count = self.count - 1
  if self.count > 0 then return end
  self._bus._shared[self.key] = nil
  self.source:invalidate()
end

function Shared:_pump()
  local woken = self.woken
  self.woken = {}
  for _, one in ipairs(woken) do if one._shared == self then one:_pump() end end
end

--- Returns what loop:inspect shows of the subscription with this number; nothing after the last one.
function Shared:_seen(number)
  if number == 1 then
    self.shown = {}
    for _, one in next, self._bus._subscriptions do
      if one._shared == self then self.shown[#self.shown + 1] = one end
    end
    table.sort(self.shown, function(a, b) return a._sid < b._sid end)
  end
  local one = self.shown[number]
  if not one then
    self.shown = nil
    return
  end
  local kind, name, detail = one:_seen()
  return kind, name, detail, one, (one._made_at:gsub("^made at ", ""))
end

--- Returns the source for the loop; nil if no function handles the messages.
function Subscription:_own_source()
  if not self._fn or self._source then return self._source or nil end
  local shared = self._shared
  local source = make_source(self, name_of(self), self:order(), self._keeps_alive)
  self._source, self._shared = source, false
  if self._is_over then source:invalidate() end
  if not shared then return source end
  rl.current():add(source, "common")
  shared:leave()
  if self._is_woken then source:signal() end
  return source
end

local subscription = { Message = Message, Subscription = Subscription, modes_of = modes_of, pushed = pushed }

--- Makes a subscription of a bus; it is not known to a server yet.
function subscription.new(bus, what, subject, options, fn)
  check.filter(subject, what)
  options = misuse.options(options, OPTIONS, what, 2)
  if options.queue then check.subject(options.queue, what, "field 'queue'") end
  if options.order ~= nil and math.type(options.order) ~= "integer" then
    misuse.wrong(what, "field 'order'", "an integer", options.order)
  end
  -- Six fields make a table of eight; with more, each subscription takes 200 bytes more.
  local self = setmetatable({ _bus = bus, _subject = subject, _fn = fn, _made_at = objects.made_at(), _sid = 0,
    _shared = false }, Subscription)
  for option, field in next, FIELDS do
    if options[option] ~= nil then self[field] = options[option] end
  end
  local modes = modes_of(options.modes, bus._modes, what)
  if not fn then return self end
  local order = options.order or bus._order
  if #modes == 1 and modes[1] == "common" then
    self._shared = share(bus, order, self._keeps_alive)
  else
    self._source = make_source(self, name_of(self), order, self._keeps_alive)
    if #modes > 0 then rl.current():add(self._source, modes) end
  end
  return self
end

--- Lets subscriptions with long queues handle some messages now: while more bytes arrive, the loop would not serve
--- them. Returns an empty list.
function subscription.relieve(crowded)
  local loop = rl.current()
  local mode = loop:mode() or "default"
  for _, one in ipairs(crowded) do
    local source = one._source or one._shared and one._shared.source
    if source and source:is_valid() and loop:contains(source, mode) then
      local before
      repeat
        before = one:_pending()
        one:_pump()
      until one:_pending() == before or one:_pending() == 0
    end
  end
  return {}
end

return subscription
