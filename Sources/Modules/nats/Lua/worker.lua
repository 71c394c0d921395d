-- runloop.nats.worker: rl.worker: functions of this process that programs on other machines call by name.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local api = require "runloop.nats.api"
local check = require "runloop.nats.check"
local exchange = require "runloop.nats.exchange"
local flow = require "runloop.nats.flow"
local jobs = require "runloop.nats.jobs"
local seen = require "runloop.nats.seen"
local service = require "runloop.nats.service"
local subscription = require "runloop.nats.subscription"

local setmetatable, getmetatable, type, next = setmetatable, getmetatable, type, next
local pairs, ipairs, pcall, xpcall = pairs, ipairs, pcall, xpcall
local format, gsub, tostring, error = string.format, string.gsub, tostring, error
local now = rl.now
local receiver, wrong = misuse.receiver, misuse.wrong

local Worker = objects.class("runloop.nats.Worker", { __name = "worker", __stays = true, __item = "_source" })

-- Seconds for which a job may outlast its time limit: a living caller has cancelled it by then.
local GRACE = 0.25
-- Sending a result to a caller whose connection is lost: AGAIN, the first pause in seconds, which doubles each time;
-- TRIES, the number of tries. LATER: the seconds after which a job is delivered again if it could not be moved to the
-- dead letters.
local AGAIN, TRIES, LATER = 0.5, 6, 10

-- Jobs ----------------------------------------------------------------------------------------------------------------

local function names_of(self)
  local names = {}
  for name in pairs(self._functions) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Returns an error as one line of text.
local function line_of(err)
  return (gsub(type(err) == "table" and rl.inspect(err) or tostring(err), "%s*\n%s*", " "))
end

-- Returns a failure in the forms that the caller gets: as text and as a table.
local function failure(fields)
  fields.host, fields.pid = api.here()
  local text = jobs.encode(fields)
  if text then return text, fields end
  -- The fields contain a function, a cycle, or bytes that are not UTF-8.
  fields.error, fields.traceback = rl.inspect(fields.error), fields.traceback and rl.inspect(fields.traceback)
  return jobs.encode(fields), fields
end

-- Returns the part of a stack that belongs to the script, as text; nil if there is none.
local function own_stack(text)
  local lines = {}
  for line in (tostring(text):match "\nstack traceback:\n(.*)$" or ""):gmatch "[^\n]+" do
    if line:find("[C]: in function 'xpcall'", 1, true) then break end
    if not line:find "^%s*%[rlhost%]" then lines[#lines + 1] = line end
  end
  return lines[1] and table.concat(lines, "\n")
end

-- Whether an error is a table of fields, which can go to the caller.
local function is_plain(err)
  local meta = getmetatable(err)
  return type(err) == "table" and not (type(meta) == "table" and meta.__tostring)
end

-- Calls the function. Returns the answer as text, and also as a table if it reports a failure.
local function call(self, name, values)
  local trace
  local results = table.pack(xpcall(self._functions[name], function(err)
    trace = rl.is_cancelled(err) or rl.traceback(err)
    return err
  end, values()))
  local err = results[2]
  if not results[1] and rl.is_cancelled(err) then error(err, 0) end
  if not results[1] then
    return failure { failure = "error", error = is_plain(err) and err or tostring(err),
      traceback = own_stack(trace) }
  end
  local text, number, problem = jobs.encode({}, table.unpack(results, 2, results.n))
  if text then return text end
  return failure { failure = "result", error = format("result #%d cannot go to the caller: %s", number, problem) }
end

-- Ends the timer that cancels jobs if no job is left.
local function settle(self)
  if self._is_over and self._running == 0 then self._cancels:invalidate() end
end

-- Unless the time of a job is over, performs it as a task, which its caller may cancel. Returns the answer as text, and
-- also as a table if it reports a failure; or nil if the job was cancelled.
local function perform(self, id, data, waited)
  local job = jobs.decode(data)
  local values = job and type(job.name) == "string" and type(job.timeout) == "number" and jobs.values(job)
  if not values then return failure { failure = "wrong", error = "the message has the wrong form for a job" } end
  if not self._functions[job.name] then
    return failure { failure = "unknown", error = "unknown function " .. job.name, names = names_of(self) }
  end
  local ends = now() + job.timeout - waited
  local held <close> = self._places:lock(math.max(ends - now(), 0))
  if self._cancelled[id] then return nil end
  local began = now()
  if not held or began >= ends then
    return failure { failure = "late", error = "its time limit passed before it began" }
  end
  local trace = flow.trace()
  local task = rl.task { function()
    local _ <close> = flow.within(trace)
    local done, text, fields = rl.timeout(ends - now() + GRACE, call, self, job.name, values)
    if done then return text, fields end
    return failure { failure = "late", error = "its time is over" }
  end, name = format("%s of pool %s", job.name, self._name) }
  self._tasks[id], self._running = task, self._running + 1
  -- If this task ends or is cancelled, the job's task is removed and cancelled, too.
  local _ <close> = setmetatable({}, { __close = function()
    self._tasks[id], self._running = nil, self._running - 1
    task:cancel()
    settle(self)
  end })
  local fine, text, fields = pcall(task.await, task)
  if not fine and not self._cancelled[id] then error(text, 0) end
  self._service:count(now() - began, fields and line_of(fields.error) or not fine and "cancelled" or nil)
  if fine then return text, fields end
end

-- Returns whether a job was cancelled, and forgets the cancellation.
local function take_cancelled(self, id)
  local is_cancelled = self._cancelled[id] or false
  self._cancelled[id] = nil
  return is_cancelled
end

local function handle(self, message)
  local id = message.reply
  if not id then return self._holder:answer(message, "done", "") end
  local text = not self._cancelled[id] and perform(self, id, message.data, now() - message._came)
  if take_cancelled(self, id) or not text then return self._holder:answer(message, "failure", "it was cancelled") end
  self._holder:answer(message, "reply", text)
end

-- Returns the data with which a waiting job goes to another worker: the job, and the time that is left for it. Returns
-- nil if no time is left, or without a connection, since the job would then begin late.
local function renew(message)
  local job = message._bus._link and jobs.decode(message.data)
  local left = job and type(job.timeout) == "number" and job.timeout - (now() - message._came)
  return left and left > 0 and jobs.renewed(message.data, left) or nil
end

-- A caller has cancelled a job, or there may be stored jobs now.
local function cancelled(self, id)
  if id == jobs.LOOK then return self:_look() end
  local task = self._tasks[id]
  if not task and not self._holder.held[id] and not self._stored[id] then return end
  self._cancelled[id] = true
  if task then task:cancel() end
end

-- Stored jobs ---------------------------------------------------------------------------------------------------------

-- Sends the result of a stored job to its caller, which confirms it. A caller whose connection is lost may come back
-- for a while.
local function bring(self, reply, text)
  local bus = self._bus
  local function try()
    local got, problem, code = bus:_request("worker", reply, text, { timeout = 1 })
    if code == "EMSGSIZE" then text = failure { failure = "result", error = "the result is too long: " .. problem } end
    return got
  end
  if not reply or not pcall(check.subject, reply, "worker") or try() then return end
  rl.task { function()
    local backoff = rl.backoff { first = AGAIN, factor = 2, most = 16, jitter = 0, tries = TRIES }
    while backoff:wait() do if try() then return end end
  end, name = format("result for a caller of pool %s", self._name), keeps_alive = false }
end

-- Moves a job that no worker could do to the dead letters. The message stays in its own stream until the dead letters
-- have it.
local function bury(self, message, reply, text, fields)
  local durable = require "runloop.nats.durable"
  local is_done, answer = durable.bury(self._bus, "pool", self._name, message, line_of(fields.error), text)
  if not is_done then return message:nak(LATER) end
  bring(self, reply, answer)
  message:term()
end

local function handle_stored(self, message)
  local headers, job = message.headers or {}, jobs.decode(message.data)
  local id, reply = headers["Rl-Job"], headers["Rl-Reply"]
  if type(id) ~= "string" or type(reply) ~= "string" then id, reply = message, nil end
  local most = job and math.type(job.most) == "integer" and job.most or jobs.MOST_DELIVERIES
  if message.delivered > most then
    return bury(self, message, reply, failure { failure = "gone",
      error = format("the worker has ended during each of %d deliveries", most) })
  end
  self._stored[id] = true
  local _ <close> = setmetatable({}, { __close = function() self._stored[id] = nil end })
  -- The age is the difference between the clock of this machine and the time at which the server has stored the job.
  local text, fields = perform(self, id, message.data, math.max(0, rl.time() - message.time))
  if take_cancelled(self, id) or not text then return message:term() end
  if not fields then return bring(self, reply, text) end
  -- Another worker may know the function, and an error may not recur; other failures would recur everywhere.
  local may_succeed = fields.failure == "error" or fields.failure == "unknown"
  if not may_succeed or message.delivered >= most then return bury(self, message, reply, text, fields) end
  message:nak(message.delivered)
end

--- Looks for the stream of the pool, and takes stored jobs if it exists.
function Worker:_look()
  if self._consumer and self._consumer:is_valid() or self._is_looking or self._is_over then return end
  self._is_looking = true
  rl.task { function()
    local _ <close> = setmetatable({}, { __close = function() self._is_looking = false end })
    local bus, durable = self._bus, require "runloop.nats.durable"
    local full = durable.stream_name(bus, "POOL", self._name)
    if not api.call(bus, "rl.worker", "CONSUMER.INFO." .. full .. "." .. jobs.CONSUMER, nil, full) then return end
    local stream = bus:stream(full)
    local found = stream and stream:consumer(jobs.CONSUMER, { concurrency = self._concurrency, modes = {},
      batch = self._concurrency, time_limit = 1 << 40 }, function(message) return handle_stored(self, message) end)
    if not found then return end
    if self._is_over then return found:invalidate() end
    self._consumer = found
    for mode in pairs(self._modes) do rl.current():add(found._one._source, mode) end
  end, name = format("stored jobs of pool %s", self._name), keeps_alive = false }
end

--- Called on a new connection, whose server may have the stream of jobs.
function Worker:_connected() self:_look() end

-- The end -------------------------------------------------------------------------------------------------------------

-- Takes no more jobs.
local function stop(self)
  if self._is_over then return end
  self._is_over = true
  self._bus._parts[self] = nil
  self._service:withdraw()
  self._holder:stop()
  if self._consumer then self._consumer:invalidate() end
  settle(self)
end

--- The connection is about to be closed.
function Worker:_closing() stop(self) end

-- Called before the program ends: takes no more jobs, and waits for the end of the running ones.
local function end_with_program(bus)
  if bus._has_ending or rl.this_thread() then return end
  bus._has_ending = true
  local of = setmetatable({ bus = bus }, { __mode = "v" })
  rl.on_shutdown(function()
    local workers = {}
    for part in pairs(of.bus and of.bus._parts or {}) do
      if getmetatable(part) == Worker then workers[#workers + 1] = part end
    end
    for _, one in ipairs(workers) do stop(one) end
    for _, one in ipairs(workers) do while one._running > 0 do rl.sleep(0.02) end end
  end)
end

function Worker:invalidate() stop(receiver(self, Worker, "worker:invalidate")) end
Worker.__close = function(self) return self:invalidate() end

function Worker:is_valid() return not receiver(self, Worker, "worker:is_valid")._is_over end
function Worker:name() return receiver(self, Worker, "worker:name")._name end
function Worker:order() return receiver(self, Worker, "worker:order")._order end

function Worker:_seen() return "worker", self._name, format("%d running", self._running) end

function Worker:__tostring()
  return format("worker of pool %q (%s, %d running, %s)", self._name, self._is_over and "invalid" or "via NATS",
    self._running, self._made_at)
end

-- Making --------------------------------------------------------------------------------------------------------------

local OPTIONS = { via = "any", name = { "string", required = true }, functions = { "table", required = true },
  concurrency = "positive", modes = "any", order = "any", keeps_alive = "boolean" }
local WHAT = "rl.worker"

local function check_options(options)
  misuse.options(options, OPTIONS, WHAT, 1)
  jobs.check(options, WHAT)
  local order = options.order
  if order ~= nil and math.type(order) ~= "integer" then wrong(WHAT, "field 'order'", "an integer", order) end
  local copy = {}
  for name, fn in pairs(options.functions) do
    if type(name) ~= "string" or name == "" then
      wrong(WHAT, "a name in field 'functions'", "a string of 1 byte or more", name)
    end
    if not misuse.is_callable(fn) then wrong(WHAT, format("field 'functions.%s'", name), "a function", fn) end
    copy[name] = fn
  end
  if next(copy) == nil then misuse.raise("%s: field 'functions' has no function", WHAT) end
  return copy, subscription.modes_of(options.modes, "common", WHAT)
end

--- rl.worker. Waits until the server has confirmed the worker's subscriptions. Returns the worker; or nil, the reason
--- and its code.
return function(options)
  local functions, modes = check_options(options)
  local bus, name, concurrency = options.via, options.name, options.concurrency or 1
  if bus._status == "closed" or bus._status == "draining" then return bus:_why_over() end
  exchange.warn_of_open(bus, "worker of pool " .. name)
  local self = setmetatable({ _bus = bus, _name = name, _functions = functions, _concurrency = concurrency,
    _places = rl.mutex(concurrency), _tasks = {}, _cancelled = {}, _stored = {}, _running = 0, _is_over = false,
    _modes = {}, _order = options.order or 0, _made_at = objects.made_at() }, Worker)
  local subject, text, code = jobs.subject(bus, name, "run"), nil, nil
  self._holder, text, code = exchange.holder(bus, WHAT, { subject = subject, queue = "rl", modes = {},
    who = jobs.subject(bus, name, "who"), name = format("worker of pool %s", name), order = options.order,
    keeps_alive = options.keeps_alive, is_timed = true }, function(message) return handle(self, message) end)
  if not self._holder then return nil, text, code end
  self._holder.renew = renew
  local one = self._holder.one
  one._concurrency, self._source, seen.items[one._source] = concurrency, one._source, self
  self._cancels = bus:subscribe(jobs.subject(bus, name, "cancel"), { keeps_alive = false, modes = "common",
    name = "cancelled jobs" }, function(message) return cancelled(self, message.data) end)
  self._service = service.offer(bus, { name = name, endpoint = "run", subject = subject, queue = "rl",
    description = "a worker: " .. table.concat(names_of(self), ", "),
    data = function() return { running = self._running } end })
  bus._parts[self] = true
  for _, mode in ipairs(modes) do
    self._modes[mode] = true
    rl.current():add(self._source, mode)
  end
  end_with_program(bus)
  self:_look()
  return self
end
