-- runloop.nats.message_port: the receiver's side of message ports over a bus: rl.message_port with `via`.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local exchange = require "runloop.nats.exchange"
local ports = require "runloop.nats.ports"
local subscription = require "runloop.nats.subscription"

local setmetatable, type, ipairs, math_type = setmetatable, type, ipairs, math.type
local format, tostring, error = string.format, tostring, error
local receiver, wrong = misuse.receiver, misuse.wrong

local Port = objects.class("runloop.nats.MessagePort",
  { __name = "message_port", __stays = true, __item = "_source" })

-- Seconds: the lease of a port with one holder.
local LEASE = 5

-- The callback --------------------------------------------------------------------------------------------------------

-- Answers a message with a failure, since its callback has returned a wrong value.
local function refuse(self, message, answer)
  local text = format("the callback of a message port must return a string or nil, not %s", misuse.describe(answer))
  if not message.delivered then self._holder:answer(message, "failure", text) end
  error(text, 0)
end

-- Calls the callback for a message, and answers it.
local function handle(self, message)
  local id, problem = exchange.id_of(message)
  local kind = message.headers and message.headers["Rl-Kind"] or "request"
  if not id or kind ~= "request" and kind ~= "send" then
    return self._holder:answer(message, "failure", problem or "Rl-Kind is neither request nor send")
  end
  local answer = self._callback(self, id, message.data, message.delivered)
  if answer ~= nil and type(answer) ~= "string" then refuse(self, message, answer) end
  if kind == "request" then
    self._holder:answer(message, "reply", answer or "")
  else
    self._holder:answer(message, "done", "")
  end
end

-- The end -------------------------------------------------------------------------------------------------------------

local function finish(self, reason)
  if self._is_over then return end
  self._is_over = true
  self._bus._parts[self] = nil
  local holder = self._holder
  if holder then holder:stop() end
  if holder and holder.service then holder.service:withdraw() end
  if self._lease then self._lease:invalidate() end
  if reason then exchange.warn("message port %q: %s", self._name, reason) end
  if self._on_invalidate then
    rl.task { self._on_invalidate, self, name = format("end of message port %q", self._name) }
  end
end

--- The connection is about to be closed.
function Port:_closing() finish(self) end

-- Calls of scripts ----------------------------------------------------------------------------------------------------

function Port:invalidate() finish(receiver(self, Port, "message_port:invalidate")) end
Port.__close = function(self) return self:invalidate() end

function Port:is_valid() return not receiver(self, Port, "message_port:is_valid")._is_over end
function Port:name() return receiver(self, Port, "message_port:name")._name end
function Port:order() return receiver(self, Port, "message_port:order")._order end

function Port:set_name()
  receiver(self, Port, "message_port:set_name")
  misuse.raise "message_port:set_name: a port over a bus keeps its name; make another port"
end

function Port:__tostring()
  return format("message_port %q (%s, %s)", self._name, self._is_over and "invalid" or "via NATS", self._made_at)
end

-- Making --------------------------------------------------------------------------------------------------------------

local OPTIONS = { callback = { "any", required = true }, name = { "string", required = true }, via = "any",
  order = "any", on_invalidate = "any", modes = "any", keeps_alive = "boolean", holders = "string",
  durable = { "boolean", "table" } }
local WHAT = "rl.message_port"

local function check_options(options)
  misuse.fields(options, OPTIONS, WHAT)
  for _, field in ipairs { "callback", "on_invalidate" } do
    if options[field] ~= nil and type(options[field]) ~= "function" then
      wrong(WHAT, format("field '%s'", field), "a function", options[field])
    end
  end
  local order, holders = options.order, options.holders
  if order ~= nil and math_type(order) ~= "integer" then wrong(WHAT, "field 'order'", "an integer", order) end
  if holders and holders ~= "one" and holders ~= "many" then
    wrong(WHAT, "field 'holders'", "\"one\" or \"many\"", holders)
  end
  subscription.modes_of(options.modes, nil, WHAT)
end

-- Takes the lease of a port with one holder. Returns the port; or nil, the reason and its code.
local function take_lease(self)
  local bus, name = self._bus, self._name
  -- A living holder renews its lease within this time, and a killed one has lost it afterwards.
  local lease, text, code, holder = require "runloop.nats.lease".take(bus, "port." .. name, { ttl = LEASE,
    timeout = LEASE + 1, on_lost = function(lost) finish(self, format("the lease was lost: %s", lost._reason)) end },
    true)
  if lease then return lease end
  if code ~= "EBUSY" then return nil, text, code end
  return nil, format("EADDRINUSE: process %s on %s has the name %q", tostring(holder.pid), tostring(holder.host),
    name), "EADDRINUSE"
end

-- Returns how many calls are under way or wait here.
local function running(self)
  local holder = self._holder
  return holder.consumer and holder.consumer:stats().unanswered or holder.count
end

-- Returns the kind, the name and further information for loop:inspect.
local function seen_as(self)
  return "message_port", self._name, format("via NATS, %d under way", running(self))
end

--- rl.message_port{ via =, … }. Waits until the server has confirmed the port's subscriptions.
return function(options)
  check_options(options)
  local bus, name = ports.bus_of(options.via, WHAT), options.name
  local problem = ports.name_fault(name)
  if problem then return nil, "EINVAL: " .. problem, "EINVAL" end
  if bus._status == "closed" or bus._status == "draining" then return bus:_why_over() end
  exchange.warn_of_open(bus, "message port " .. name)
  local self = setmetatable({ _bus = bus, _name = name, _callback = options.callback, _is_over = false,
    _on_invalidate = options.on_invalidate, _order = options.order or 0, _made_at = objects.made_at() }, Port)
  local text, code
  if options.holders == "one" then
    self._lease, text, code = take_lease(self)
    if not self._lease then return nil, text, code end
  end
  local is_done
  local _ <close> = setmetatable({}, { __close = function()
    if not is_done and self._lease then self._lease:invalidate() end
  end })
  local subject = ports.subject(bus, options.durable and "durable" or "port", name)
  local settings = { subject = subject, queue = not options.durable and "rl" or nil,
    who = ports.subject(bus, "who", name),
    name = format("message port %q", name), modes = {}, order = options.order, keeps_alive = options.keeps_alive }
  local make = options.durable and require "runloop.nats.durable".holder or exchange.holder
  self._holder, text, code = make(bus, WHAT, settings, function(message) return handle(self, message) end,
    options.durable, name)
  if not self._holder then return nil, text, code end
  is_done = true
  self._source = self._holder.one._source
  self._holder.one._seen = function() return seen_as(self) end
  self._holder.service = require "runloop.nats.service".offer(bus, { name = name, endpoint = "port",
    subject = settings.subject, queue = settings.queue, description = "a message port",
    data = function() return { running = running(self) } end })
  bus._parts[self] = true
  if options.modes ~= nil then
    for _, mode in ipairs(objects.modes(options.modes, WHAT)) do rl.current():add(self._source, mode) end
  end
  return self
end
