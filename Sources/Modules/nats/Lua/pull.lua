-- runloop.nats.pull: keeps a request for messages open at a consumer of JetStream. Heartbeats show that the server
-- still knows the request; it is sent again when two heartbeats are missing, and after each reconnect.

local rl = require "runloop"
local json = require "runloop.json"
local api = require "runloop.nats.api"
local subscription = require "runloop.nats.subscription"

local setmetatable, tonumber, max = setmetatable, tonumber, math.max
local find, now = string.find, rl.now

local Pull = {}
Pull.__index = Pull

-- Seconds: the life of a request, the time between two heartbeats, and the time without an answer after which the
-- request is sent again.
local EXPIRES, HEARTBEAT, PATIENCE = 30, 5, 10
-- Seconds until a request that the server has ended is sent again.
local PAUSE = 0.2

--- Makes a pull. `owner` has `_held()`, the number of messages in hand; `_message(message)`, which takes one; and
--- `_gone(text, code)`, called when the consumer is no longer there. `one`: the subscription of the answers, with the
--- subject `inbox`, ".*" at its end. `most`: the largest number of received and requested messages.
function Pull.new(bus, owner, one, inbox, most)
  local self = setmetatable({ bus = bus, owner = owner, one = one, inbox = inbox, most = most, asked = 0, number = 0,
    heard = 0, is_looking = false, is_over = true }, Pull)
  one._push = function(_, message) self:take(message) end
  return self
end

-- Asks again after a pause.
local function soon(self)
  self.asked = 0
  if self.pause then return end
  self.pause = rl.timer { delay = PAUSE, modes = "common", keeps_alive = false, name = "pause of JetStream",
    callback = function()
      self.pause = nil
      self:again()
    end }
end

-- Checks, in a task, whether the server still has the consumer. If it has, sends a request for messages, unless one is
-- open.
local function look(self, is_open)
  if self.is_looking or self.is_over then return end
  self.is_looking = true
  rl.task { function()
    local _ <close> = setmetatable({}, { __close = function() self.is_looking = false end })
    local stream, consumer, missing = self.stream, self.consumer, nil
    while true do
      local answer, text, code = api.call(self.bus, "consumer", "CONSUMER.INFO." .. stream .. "." .. consumer, nil,
        "consumer " .. consumer .. " of stream " .. stream)
      if self.is_over or self.consumer ~= consumer then return end
      if answer or code ~= "ENOENT" then return is_open or soon(self) end
      missing = missing or now()
      if api.is_gone(self.bus, missing) then return self.owner:_gone(text, code) end
      rl.sleep(PAUSE)
    end
  end, name = "looking for a consumer of NATS", keeps_alive = false }
end

--- Begins to ask for the messages of a consumer. On a closed bus it does nothing, since nobody would stop the requests
--- any more.
function Pull:start(stream, consumer)
  if self.bus._status == "closed" then return end
  self.stream, self.consumer, self.is_over = stream, consumer, false
  self.subject = "$JS.API.CONSUMER.MSG.NEXT." .. stream .. "." .. consumer
  self.watcher = self.watcher or rl.timer { interval = HEARTBEAT, modes = "common", keeps_alive = false,
    name = "heartbeat of JetStream", callback = function()
      if self.asked > 0 and self.bus._link and now() - self.heard >= PATIENCE then self:resume() end
    end }
  self:again()
end

--- Asks no more.
function Pull:stop()
  self.is_over, self.asked = true, 0
  if self.watcher then self.watcher:invalidate() end
  self.watcher = nil
end

--- Forgets the open request, and sends a new one.
function Pull:again()
  self.number, self.asked = self.number + 1, 0
  self:fill()
end

--- Sends a new request as `again` does, and asks whether the consumer is still there: a server does not answer a
--- request to a consumer that it has lost.
function Pull:resume()
  self:again()
  look(self, true)
end

--- Requests as many messages as there is room for.
function Pull:fill()
  local bus = self.bus
  if self.is_over or self.one._is_ended or not bus._link or self.pause then return end
  local room = self.most - self.asked - self.owner:_held()
  if room < 1 or self.asked > 0 and room < self.most // 2 then return end
  if self.asked == 0 then self.heard = now() end
  self.asked = self.asked + room
  bus:_publish("consumer", self.subject, json.encode { batch = room, expires = api.nanoseconds(EXPIRES),
    idle_heartbeat = api.nanoseconds(HEARTBEAT) }, { reply = self.inbox .. "." .. self.number })
end

-- Handles a status message.
local function tell(self, message)
  local status, text = message._status, message._description or ""
  if message.subject ~= self.inbox .. "." .. self.number then return end
  if status == 100 then return end
  local left = tonumber(message.headers and message.headers["Nats-Pending-Messages"])
  if status == 408 or find(text, "^Batch Completed") then
    self.asked = left and max(0, self.asked - left) or 0
    self:fill()
  elseif status == 404 then
    soon(self)
  elseif find(text, "^Leadership") or find(text, "^Server Shutdown") or find(text, "^Exceeded") then
    soon(self)
  else
    self.asked = 0
    look(self)
  end
end

--- Takes a message of the server, or a status.
function Pull:take(message)
  self.heard = now()
  -- Messages of the stream have a subject for their acknowledgements, and the headers that a client has written.
  if message._status and not message.reply then return tell(self, message) end
  self.asked = max(0, self.asked - 1)
  self.owner:_message(message)
end

--- Makes the subscription for the answers to a pull, and the word that marks its requests. `options` and `fn` are those
--- of `bus:subscribe`.
function Pull.subscribe(bus, what, options, fn)
  local inbox = bus._options.inbox or "_INBOX"
  inbox = inbox .. "." .. api.unique(bus)
  options.max_pending = 1 << 40
  options.max_bytes = 1 << 60
  return subscription.new(bus, what, inbox .. ".*", options, fn), inbox
end

return Pull
