-- runloop.data.subscriptions: messages on channels. All subscriptions of a database share one connection, the link. The
-- first subscription opens the link, and the end of the last one closes it. A lost link is opened again, with all
-- subscriptions.
--
-- A driver has the functions for one kind of database. `open(db, deliver)` makes a link. The link calls `deliver(key,
-- text, channel)` and its own `on_lost()`, and has a `problem` when it is lost. `listen(db, link, keys)` returns true
-- when all keys are confirmed. The other functions are `forget(db, link, key)`, `serve(link, mode)`, `ping(db, link)`
-- and `close(link)`.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shape = require "runloop.data.shape"

local setmetatable, getmetatable, type = setmetatable, getmetatable, type
local pairs, ipairs, format, next = pairs, ipairs, string.format, next
local raise, describe, trim = misuse.raise, misuse.describe, shape.trim

local Hub = {}
Hub.__index = Hub

-- PAUSE: seconds between two pings of a silent server. LOT: the number of messages in one call of a source.
local PAUSE, LOT = 15, 100
-- A remaining time of fewer seconds than this is an error of rounding.
local INSTANT = 1e-6

-- The link ------------------------------------------------------------------------------------------------------------

-- Gives a message to all subscribers of a key.
local function deliver(self, key, text, channel)
  local list = self.channels[key]
  if not list then return end
  for subscription in pairs(list) do subscription:_take(text, channel) end
end

local function serve(self, link)
  for subscription in pairs(self.all) do
    for _, mode in ipairs(subscription._modes) do self.driver.serve(link, mode) end
  end
end

-- Pings the server from time to time, since a connection may be lost without a sign.
local function watch(self, link)
  while not link.problem do
    rl.sleep(PAUSE)
    if not link.problem then self.driver.ping(self.db, link) end
  end
end

-- Connects again while there are subscriptions.
local function repair(self)
  local lost_at, backoff = rl.now(), rl.backoff { first = 0.05, most = 5 }
  while next(self.all) and not self.is_closed do
    backoff:wait()
    if next(self.all) and self:open() then
      for subscription in pairs(self.all) do
        if subscription._on_gap then shape.background(subscription._on_gap, rl.now() - lost_at) end
      end
      break
    end
  end
  self.is_repaired = nil
end

-- Returns the link. If there is no link, opens one and subscribes to all channels again.
function Hub:open()
  local _ <close> = self.mutex:lock()
  if self.link and not self.link.problem then return self.link end
  local driver, db = self.driver, self.db
  local link, message, code, details = driver.open(db, function(...) deliver(self, ...) end)
  if not link then return nil, message, code, details end
  local is_done
  local _ <close> = setmetatable({}, { __close = function() if not is_done then driver.close(link) end end })
  serve(self, link)
  local keys, done = {}, nil
  for key in pairs(self.channels) do keys[#keys + 1] = key end
  done, message, code, details = driver.listen(db, link, keys)
  if not done then return nil, message, code, details end
  if link.problem then return nil, link.problem, link.code end
  is_done, self.link = true, link
  link.on_lost = function()
    shape.lost(db)
    if self.is_repaired or not next(self.all) then return end
    self.is_repaired = true
    shape.background(repair, self)
  end
  shape.background(watch, self, link)
  return link
end

local function hub_of(db, driver)
  local hub = db._hub
  if hub then return hub end
  hub = setmetatable({ db = db, driver = driver, channels = {}, all = {}, mutex = rl.mutex() }, Hub)
  db._hub = hub
  return hub
end

-- Registers a subscription. Returns true when the server has confirmed all its channels.
local function enter(self, subscription)
  self.all[subscription] = true
  local link, message, code, details = self:open()
  if not link then return nil, message, code, details end
  serve(self, link)
  local fresh = {}
  for _, key in ipairs(subscription._keys) do
    local list = self.channels[key]
    if not list then
      list = {}
      self.channels[key] = list
      fresh[#fresh + 1] = key
    end
    list[subscription] = true
  end
  return self.driver.listen(self.db, link, fresh)
end

-- Removes a subscription, and leaves the channels that no other subscription has.
local function leave(self, subscription)
  if not self.all[subscription] then return end
  self.all[subscription] = nil
  local link = self.link and not self.link.problem and self.link
  for _, key in ipairs(subscription._keys) do
    local list = self.channels[key]
    if list then
      list[subscription] = nil
      if not next(list) then
        self.channels[key] = nil
        if link and next(self.all) then self.driver.forget(self.db, link, key) end
      end
    end
  end
  if not next(self.all) and link then
    self.link = nil
    self.driver.close(link)
  end
end

-- Subscriptions -------------------------------------------------------------------------------------------------------

local methods = {}
-- The subscription classes of the modules. All of them have these methods.
local classes = {}

local function receiver(self, what)
  if classes[getmetatable(self)] then return self end
  return misuse.receiver(self, methods, what)
end

-- Takes a message that has come for the subscription.
function methods:_take(text, channel)
  if self._last - self._first + 1 >= self._most then
    self._dropped = self._dropped + 1
    if not self._has_warned then
      self._has_warned = true
      warn(format("%s: the subscription to %s drops messages: %d wait already", self._kind, self._title, self._most))
    end
    return
  end
  self._received, self._last = self._received + 1, self._last + 1
  self._queue[self._last] = { text, channel }
  if not self._fn then
    self._arrival:signal()
  elseif not self._is_busy and not self._source:is_signalled() then
    self._source:post(true)
  end
end

local function pop(self)
  local message = self._queue[self._first]
  if not message then return nil end
  self._queue[self._first], self._first = nil, self._first + 1
  return message
end

-- Calls the function with the queued messages. While the function waits, further messages stay in the queue.
local function perform(self, source)
  for _ in source:commands() do end
  if self._is_busy then return end
  self._is_busy = true
  local _ <close> = setmetatable({}, { __close = function()
    self._is_busy = nil
    if self._queue[self._first] and not self._is_over then source:post(true) end
  end })
  for _ = 1, LOT do
    local message = not self._is_over and pop(self)
    if not message then return end
    self._fn(message[1], message[2])
  end
end

local function invalidate(self)
  if self._is_over then return end
  self._is_over = true
  leave(self._hub, self)
  self._source:invalidate()
  self._queue, self._first, self._last = {}, 1, 0
  self._arrival:broadcast()
end

function methods:invalidate() invalidate(receiver(self, "subscription:invalidate")) end
methods.__close, methods.__name, methods.__stays = invalidate, "subscription", true

local function over(self)
  return nil, format("ENOTCONN: the subscription to %s is over", self._title), "ENOTCONN"
end

local function receive(self, timeout, what)
  if self._fn then raise("%s: the function of this subscription gets the messages", what) end
  local limit = timeout and rl.now() + timeout
  while true do
    local message = pop(self)
    if message then return message[1], message[2] end
    if self._is_over then return over(self) end
    local left = limit and limit - rl.now()
    if left and left <= INSTANT then return nil, "timed out" end
    self._arrival:wait(left)
  end
end

function methods:receive(timeout)
  receiver(self, "subscription:receive")
  misuse.optional(timeout, "seconds", "subscription:receive", 1)
  return receive(self, timeout, "subscription:receive")
end

function methods:messages()
  receiver(self, "subscription:messages")
  return function()
    local text, channel = receive(self, nil, "subscription:messages")
    if text then return text, channel end
  end
end

function methods:stats()
  receiver(self, "subscription:stats")
  return { received = self._received, dropped = self._dropped, pending = self._last - self._first + 1 }
end

function methods:__tostring()
  return format("subscription (%s, %s, %s)", self._title, self._is_over and "over" or "open", self._made_at)
end

-- Subscribing ---------------------------------------------------------------------------------------------------------

local function channels_of(channel)
  local list = type(channel) == "table" and channel or { channel }
  for _, name in ipairs(list) do
    if type(name) ~= "string" then raise("db:subscribe: argument #1 has a channel %s: use a text", describe(name)) end
  end
  if #list == 0 then raise "db:subscribe: argument #1 must be a channel or a list of them, got an empty list" end
  return list
end

local subscriptions = {}

--- The options of `subscribe`; a module may add its own.
subscriptions.OPTIONS = {
  modes = { "table", "string" }, order = "any", name = "string", keeps_alive = "boolean", max_pending = "positive",
  on_gap = "function",
}

--- Makes the class of a module's subscriptions, such as "runloop.redis.Subscription".
function subscriptions.class(name)
  local class = {}
  for key, value in pairs(methods) do class[key] = value end
  classes[objects.class(name, class)] = true
  return class
end

--- Checks the arguments of `db:subscribe(channel, [options,] [fn])`. Returns the channels, options and function.
function subscriptions.arguments(channel, options, fn, known)
  local list = channels_of(channel)
  if fn == nil and misuse.is_callable(options) then options, fn = nil, options end
  options = misuse.options(options, known, "db:subscribe", 2)
  if fn ~= nil and not misuse.is_callable(fn) then misuse.argument(fn, "function", "db:subscribe", 3) end
  return list, options, fn
end

--- Subscribes a database to keys of a driver; returns when the server has confirmed them.
function subscriptions.subscribe(class, db, driver, keys, title, options, fn)
  local self = setmetatable({
    _keys = keys, _title = options.name or title, _kind = driver.kind, _fn = fn,
    _modes = objects.modes(options.modes, "db:subscribe"), _most = options.max_pending or 65536,
    _on_gap = options.on_gap, _made_at = objects.made_at(), _queue = {}, _first = 1, _last = 0, _received = 0,
    _dropped = 0, _arrival = rl.condition(), _hub = hub_of(db, driver),
  }, class)
  self._source = rl.source {
    name = self._title, modes = self._modes, order = options.order, keeps_alive = options.keeps_alive,
    perform = function(source) if fn then perform(self, source) end end,
  }
  local is_open
  local _ <close> = setmetatable({}, { __close = function() if not is_open then invalidate(self) end end })
  local done, message, code, details = enter(self._hub, self)
  if not done then return trim(nil, message, code, details) end
  is_open = true
  return self
end

--- Ends all subscriptions of a database.
function subscriptions.close(db)
  local hub = db._hub
  if not hub then return end
  hub.is_closed = true
  for subscription in pairs(hub.all) do invalidate(subscription) end
end

return subscriptions
