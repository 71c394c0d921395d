-- runloop.nats.pool: rl.pool with `via`: calls functions of the workers of a pool on a bus, by name.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local api = require "runloop.nats.api"
local exchange = require "runloop.nats.exchange"
local jobs = require "runloop.nats.jobs"
local seen = require "runloop.nats.seen"
local stream = require "runloop.nats.stream"

local setmetatable, type, tostring, error = setmetatable, type, tostring, error
local pairs, ipairs, running = pairs, ipairs, coroutine.running
local format, min, max, now = string.format, math.min, math.max, rl.now
local raise, receiver, wrong = misuse.raise, misuse.receiver, misuse.wrong

local Pool = objects.class("runloop.nats.Pool", { __name = "pool", __stays = true })

-- TIMEOUT: the seconds for a call, including its wait for a worker. WINDOW: the calls that are under way at a time.
local TIMEOUT, WINDOW = 60, 256
-- BACK: the seconds after a reconnect in which workers that return may still be missing. LOOK and MOST: the first and
-- the longest pause in seconds between two checks for them, or for a worker that is not busy.
local BACK, LOOK, MOST = 2, 0.1, 1

-- The ends of a call --------------------------------------------------------------------------------------------------

-- Raises the error of a worker's function again, with the place where it was raised.
local function raise_error(self, name, answer)
  local host, pid = tostring(answer.host), tostring(answer.pid)
  local trace = type(answer.traceback) == "string" and answer.traceback or nil
  if type(answer.error) == "table" then
    local err = answer.error
    err.host, err.pid, err.traceback = err.host or host, err.pid or answer.pid, err.traceback or trace
    error(err, 0)
  end
  error(format("%s\n\tin %s of pool %s, process %s on %s%s", tostring(answer.error), name, self._name, pid, host,
    trace and "\nstack traceback of the worker:\n" .. trace or ""), 0)
end

-- Returns the results of an answer, or raises its error.
local function results(self, what, name, text)
  local answer = jobs.decode(text)
  local failure = answer and answer.failure
  if failure == "unknown" then
    local known = {}
    for _, one in ipairs(type(answer.names) == "table" and answer.names or {}) do known[one] = true end
    raise("%s: the workers of pool %s have no function '%s'%s", what, self._name, name, misuse.hint(name, known))
  elseif failure == "late" then
    raise("%s: pool %s: timed out: %s", what, self._name, tostring(answer.error))
  elseif failure then
    raise_error(self, name, answer)
  end
  local values = answer and jobs.values(answer)
  if not values then raise("%s: pool %s: the answer has the wrong form", what, self._name) end
  return values()
end

-- Raises the reason for which a call has no answer.
local function raise_reason(self, what, name, reason, was_sent)
  local text
  if reason == "timed out" then
    text = format("%s did not end within %g s", name, self._timeout)
    if was_sent then text = text .. ", and was cancelled" end
  elseif self._is_closed then
    text = "the pool was closed"
  elseif reason == "invalid" then
    text = "nobody works there"
  elseif reason == "became invalid" and not was_sent then
    text = "the connection to NATS is closed"
  elseif reason == "became invalid" and not self._bus._link then
    text = format("the connection was lost: %s may have run", name)
  elseif reason == "became invalid" then
    text = format("the worker that had %s is gone: it may have been done", name)
  else
    text = (reason:gsub("^transport error: ", ""))
  end
  raise("%s: pool %s: %s", what, self._name, text)
end

-- Calls ---------------------------------------------------------------------------------------------------------------

-- A call that is under way: its `future`, and `drop`, which cancels the job when no task waits for it any more.
local Call = {}
Call.__index = Call

function Call:_awaited() return format("%s of pool %s", self.name, self.pool._name) end

-- The default, until the job is sent: there is nothing to cancel.
function Call.drop() end
function Call.was_sent() return false end

Call.__close = function(self)
  seen.waits[running()] = nil
  self.pool._calls[self] = nil
  if self.is_over then return end
  self.is_over = true
  self.drop()
end

local function cancel(self, id) self._bus:_publish("pool:run", jobs.subject(self._bus, self._name, "cancel"), id) end

local function ended(call, message, reason)
  local one = call.of
  one.is_over = true
  if not message then return one.future:complete(nil, reason) end
  local is_failure = message.headers and message.headers["Rl-Kind"] == "failure"
  if is_failure and message.data == "its callback was cancelled" then
    return one.future:complete(nil, "became invalid")
  end
  if is_failure then return one.future:complete(nil, "transport error: " .. message.data:sub(1, 1000)) end
  one.future:complete(message.data)
end

-- Sends a job to an available worker. `renew` returns the job's data with the remaining time, since the job may have
-- waited in the queue of calls until a worker was available after a reconnect.
local function send(one, renew)
  local self = one.pool
  local sent = self._caller:begin(exchange.head("request", 0), renew(), ended)
  sent.of, sent.renew = one, renew
  function one.drop()
    self._caller:drop(sent)
    if sent.reply then cancel(self, self._bus._inbox .. sent.reply) end
  end
  function one.was_sent() return sent.reply ~= false end
end

-- The answer to a stored job. The confirmation shows the worker that its result has arrived.
function Call:complete(message, reason)
  self.is_over = true
  if not message then return self.future:complete(nil, reason) end
  if message.reply then message:respond "" end
  self.future:complete(message.data)
end

-- Withdraws a stored job: removes it from the stream, and from a worker that has it.
local function take_back(self, id, stored)
  self._bus:_publish("pool:run", "$JS.API.STREAM.MSG.DELETE." .. self._stream:name(),
    format('{"seq":%d,"no_erase":true}', stored.seq))
  cancel(self, id)
end

-- Stores a job. `renew` returns the job with the time that is left. Waits. Returns true; or nil and the reason.
local function store(one, renew, deadline)
  local self, bus = one.pool, one.bus
  local id, stored, problem = api.unique(bus), nil, nil
  bus._last_request = bus._last_request + 1
  one.reply, one.subject = bus._last_request, self._stream:name()
  bus:_expect(one)
  local function publish(timeout)
    return stream.store(self._stream, "pool:run", jobs.subject(bus, self._name, "durable"), renew,
      { ["Nats-Msg-Id"] = id, ["Nats-Expected-Stream"] = self._stream:name(), ["Rl-Job"] = id,
        ["Rl-Reply"] = bus._inbox .. one.reply }, min(timeout, self._stream._duplicates / 2))
  end
  function one.was_sent() return true end
  function one.drop()
    bus:_forget_request(one)
    if stored then return take_back(self, id, stored) end
    -- If the job is stored already, publishing it again with the same id finds it.
    rl.task { function()
      stored = publish(TIMEOUT)
      if stored then take_back(self, id, stored) end
    end, name = "a job that its caller has given up", keeps_alive = false }
  end
  stored, problem = publish(max(deadline - now(), 0.001))
  if stored then return true end
  return nil, problem == "timed out" and problem or "transport error: the job was not stored: " .. problem
end

-- Whether no worker has taken a job, but one may take it later.
local function was_refused(self, reason)
  local back_at = self._bus._back_at
  return reason == "transport error: busy" or reason == "invalid" and back_at and now() <= back_at + BACK
end

-- Raises unless calls can be sent, now or later.
local function check_open(self, what)
  if self._is_closed then raise("%s: pool %s is closed", what, self._name) end
  if self._bus._status ~= "closed" then return end
  local _, text = self._bus:_why_over()
  raise("%s: pool %s: %s", what, self._name, text)
end

-- Calls a function by its name. Returns its results.
local function run(self, what, name, ...)
  check_open(self, what)
  local deadline = now() + self._timeout
  local place <close> = self._places:lock(self._timeout)
  if not place then return raise_reason(self, what, name, "timed out", false) end
  check_open(self, what)
  local text, number, problem = jobs.encode({ name = name, timeout = deadline - now(), most = self._most }, ...)
  if not text then raise("%s: argument #%d cannot go to another machine: %s", what, number + 1, problem) end
  local most = self._bus._link and self._bus._link.max_payload or self._bus._max_payload
  if #text + 512 > most then
    raise("%s: the arguments have %d bytes as JSON; the server takes %d in all", what, #text, most)
  end
  local function renew() return jobs.renewed(text, deadline - now()) end
  local one <close> = setmetatable({ pool = self, bus = self._bus, name = name, future = rl.future(),
    is_over = false }, Call)
  self._calls[one] = true
  local _ <close> = self._bus:_borrow()
  local answer, reason, pause = nil, nil, LOOK
  if self._stream then
    answer, reason = store(one, renew, deadline)
    if not answer then return raise_reason(self, what, name, reason, true) end
  end
  while true do
    if not self._stream then
      -- The remaining time counts from when the job is sent.
      while not self._bus._link and self._bus._status ~= "closed" and not one.is_over and now() < deadline do
        rl.sleep(LOOK)
      end
      -- The pool may have been closed meanwhile.
      if not one.is_over then send(one, renew) end
    end
    seen.waits[running()] = one
    answer, reason = one.future:await(max(0, deadline - now()))
    if answer or not was_refused(self, reason) or now() > deadline - LOOK then break end
    -- The end of the pool ends the pause, too.
    one.future = rl.future()
    one.future:await(min(pause * (0.5 + math.random()), deadline - now()))
    if self._is_closed then break end
    pause, one.is_over = min(pause * 2, MOST), false
  end
  if not answer then return raise_reason(self, what, name, reason, one.was_sent()) end
  return results(self, what, name, answer)
end

local function check_name(what, number, name)
  if type(name) ~= "string" then
    wrong(what, "argument #" .. number, "the name of a function of the workers", name)
  end
end

function Pool:run(name, ...)
  receiver(self, Pool, "pool:run")
  check_name("pool:run", 1, name)
  return run(self, "pool:run", name, ...)
end

function Pool:map(list, name, ...)
  receiver(self, Pool, "pool:map")
  if type(list) ~= "table" then wrong("pool:map", "argument #1", "a list", list) end
  check_name("pool:map", 2, name)
  local answers, next_one, count, more = {}, 0, #list, table.pack(...)
  local last = more.n + 1
  local group <close> = rl.group()
  for _ = 1, min(WINDOW, count) do
    group:task(function()
      while next_one < count do
        next_one = next_one + 1
        local index = next_one
        -- All tasks can share this table, because a call copies its values before it waits.
        more[last] = index
        answers[index] = (run(self, "pool:map", name, list[index], table.unpack(more, 1, last)))
      end
    end)
  end
  group:wait()
  return answers
end

function Pool:close()
  receiver(self, Pool, "pool:close")
  if self._is_closed then return end
  self._is_closed = true
  local calls = self._calls
  self._calls = {}
  for one in pairs(calls) do
    if not one.is_over then
      one.is_over = true
      one.drop()
    end
    one.future:complete(nil, "closed")
  end
end
Pool.__close = function(self) return self:close() end

function Pool:__tostring()
  local count = 0
  for _ in pairs(self._calls) do count = count + 1 end
  return format("pool %q (via NATS, %s%d under way, %s)", self._name, self._is_closed and "closed, " or "", count,
    self._made_at)
end

-- Making --------------------------------------------------------------------------------------------------------------

local OPTIONS = { via = "any", name = { "string", required = true }, timeout = "seconds",
  durable = { "boolean", "table" } }
local DURABLE = { replicas = "positive", ack_wait = "seconds", max_deliver = "positive" }
local WHAT = "rl.pool"

-- Makes or finds the stream and the consumer of the workers, and informs the workers. Waits. Returns the stream; or
-- nil, the reason, its code and the refusal.
local function open_stream(bus, name, settings)
  local durable = require "runloop.nats.durable"
  local stream, text, code, refusal = durable.open(bus, "POOL", name, jobs.subject(bus, name, "durable"),
    { replicas = settings.replicas })
  if not stream then return nil, text, code, refusal end
  -- Without settings, an existing stream is used as it is.
  local wanted, consumer = { ack_wait = settings.ack_wait or jobs.ACK_WAIT, max_deliver = jobs.ENDLESS }, nil
  consumer, text, code, refusal = stream:consumer(jobs.CONSUMER, settings.ack_wait and wanted or nil)
  if not consumer and code == "ENOENT" then
    consumer, text, code, refusal = stream:consumer(jobs.CONSUMER, wanted)
  end
  if not consumer then return nil, text, code, refusal end
  consumer:invalidate()
  bus:_publish(WHAT, jobs.subject(bus, name, "cancel"), jobs.LOOK)
  return stream
end

--- rl.pool with `via`. Waits if the pool is durable. Returns the pool; or nil, the reason, its code and the refusal.
return function(options)
  misuse.options(options, OPTIONS, WHAT, 1)
  jobs.check(options, WHAT)
  local bus, name, timeout, durable = options.via, options.name, options.timeout or TIMEOUT, options.durable
  if timeout == 0 or timeout > 1e8 then wrong(WHAT, "field 'timeout'", "a number of seconds, more than 0", timeout) end
  if durable == true then durable = {} end
  if durable then
    misuse.fields(durable, DURABLE, WHAT .. ": field 'durable'")
    require "runloop.nats.check".range(durable, WHAT .. ": field 'durable'", "ack_wait", 0.1, 86400)
    require "runloop.nats.check".range(durable, WHAT .. ": field 'durable'", "replicas", 1, 5, true)
  end
  if bus._status == "closed" or bus._status == "draining" then return bus:_why_over() end
  exchange.warn_of_open(bus, "pool " .. name)
  local self = setmetatable({ _bus = bus, _name = name, _timeout = timeout, _is_closed = false, _calls = {},
    _most = durable and (durable.max_deliver or jobs.MOST_DELIVERIES), _places = rl.mutex(WINDOW),
    _made_at = objects.made_at() }, Pool)
  if durable then
    local stream, text, code, refusal = open_stream(bus, name, durable)
    if not stream then return nil, text, code, refusal end
    self._stream = stream
  else
    self._caller = exchange.caller(bus, jobs.subject(bus, name, "run"), jobs.subject(bus, name, "who"))
  end
  return self
end
