-- runloop.redis: Redis databases. One connection carries the commands of all tasks. Blocking commands, transactions and
-- reserved connections use other connections.

local _, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shape = require "runloop.data.shape"
local Places = require "runloop.data.places"
local Line = require "runloop.redis.line"
local calls = require "runloop.redis.calls"
local subscriptions = require "runloop.redis.subscriptions"
local where_of = require "runloop.redis.where"

local setmetatable, getmetatable, type = setmetatable, getmetatable, type
local pairs, ipairs, format, unpack = pairs, ipairs, string.format, table.unpack
local pcall, error = pcall, error
local min, max, huge, now = math.min, math.max, math.huge, rl.now
local made_at, trim = objects.made_at, shape.trim

local redis = { null = require "runloop.json".null }

--- Makes a Redis server in this process, for tests.
function redis.fake(options) return require "runloop.redis.fake"(options) end

local Database = objects.class("runloop.redis.Database", { __name = "database", __stays = true })
local Transaction = objects.class("runloop.redis.Transaction", { __name = "transaction", __stays = true })
local Own = objects.class("runloop.redis.Connection", { __name = "connection", __stays = true })

local function closed(self) return nil, format("ENOTCONN: the database is closed (%s)", self._name), "ENOTCONN" end

-- Connecting ----------------------------------------------------------------------------------------------------------

-- A connection was lost. Idle connections may be lost as well: each is checked before its next use.
local function lost(self, line)
  shape.lost(self)
  self._places:forget(line)
  for _, idle in ipairs(self._places.idle) do idle.is_suspect = true end
  local shared = self._line
  if shared and shared ~= line and not shared.problem and shared:is_idle() then
    self._line, self._suspect = false, shared
  end
end

-- Opens a connection. After a failure, calls get the same refusal until the next attempt is due.
local function connect(self)
  if self._is_closed then return closed(self) end
  local refusal = self._refusal
  if refusal and now() < self._next_try then return nil, unpack(refusal, 1, 3) end
  local line, message, code, details = Line.open(self._options)
  if not line then
    self._pause = min((self._pause or 0.025) * 2, 1)
    self._refusal, self._next_try = { message, code, details }, now() + self._pause
    return nil, message, code, details
  end
  self._refusal, self._pause = nil, nil
  -- The stream of an idle connection belongs to the loop: it must not keep the database from being collected.
  local weak = setmetatable({ self }, { __mode = "v" })
  line.on_lost = function() if weak[1] then lost(weak[1], line) end end
  return line
end

-- Seconds within which a connection that may be lost must answer.
local ANSWERS = 2

-- Checks the connection that all tasks share if it may be lost. Returns the connection if it still works.
local function still_working(self)
  local line = self._suspect
  if not line then return nil end
  self._suspect = false
  if line:call(min(ANSWERS, self._timeout), "PING") then return line end
  line:close()
end

local function open_shared(self)
  local line = still_working(self)
  if line then return line end
  return connect(self)
end

-- Waits for the end of an attempt to connect, and returns its results; raises its error.
local function result_of(attempt)
  local line, message, code, details = attempt.future:await()
  if attempt.problem ~= nil then error(attempt.problem, 0) end
  return line, message, code, details
end

-- Begins an attempt to connect in the background. The attempt ends also if memory is short.
local function attempt_of(self)
  local line, message, code, details
  local attempt = { future = rl.future() }
  local guard = setmetatable({}, { __close = function()
    self._pending, self._line = nil, line or false
    if line and self._is_closed then line:close() end
    attempt.future:complete(line, message, code, details)
  end })
  self._pending = attempt
  local is_begun, problem = pcall(shape.background, function()
    local _ <close> = guard
    local is_done
    is_done, line, message, code, details = pcall(open_shared, self)
    if not is_done then line, attempt.problem = nil, line end
    if rl.is_cancelled(attempt.problem) then error(attempt.problem, 0) end
  end)
  if is_begun then return attempt end
  self._pending = nil
  error(problem, 0)
end

-- Returns the connection that all tasks share. One attempt to connect serves all calls that wait for the connection.
local function line_of(self)
  if self._is_closed then return closed(self) end
  local line = self._line
  if line and not line.problem then return line end
  return result_of(self._pending or attempt_of(self))
end

-- Closes connections that have been idle for long. Runs as long as there are idle connections. The task must not keep
-- the database from being collected.
local function sweep(weak, idle)
  while true do
    rl.sleep(idle)
    local self = weak[1]
    if not self then return end
    local left = self._places:reap(now() - idle)
    if not left then
      self._sweeper = false
      return
    end
  end
end

local function note_idle(self, line)
  line.idle_since = now()
  if self._sweeper or self._idle == huge then return end
  self._sweeper = shape.background(sweep, setmetatable({ self }, { __mode = "v" }), self._idle)
end

-- Returns the connection of a lease at the end of a block. If an answer is still on its way, because its task was
-- cancelled or has given up, closes the connection instead.
local Hold = { __close = function(hold)
  local lease = hold.lease
  if hold.is_kept then return end
  local line = lease.connection
  if line.problem or not line:is_idle() then
    if not line.problem then hold.database._cancelled = hold.database._cancelled + 1 end
    lease:drop()
  else
    note_idle(hold.database, line)
    lease:give()
  end
end }

local function hold(self, lease) return setmetatable({ lease = lease, database = self }, Hold) end

-- Returns a lease of a connection from the pool. A connection that may be lost must first answer a PING. Returns nil
-- and the reason if the pool gives none.
local function take(self, wait)
  while true do
    if self._is_closed then return closed(self) end
    local lease, message, code, details = self._places:take(wait or self._wait, misuse.place())
    if not lease then return nil, message, code, details end
    local line = lease.connection
    if line.is_at_rest then line:look() end
    if not line.problem and not line.is_suspect then return lease end
    do
      local held <close> = hold(self, lease)
      if not line.problem and line:call(min(ANSWERS, self._timeout), "PING") then
        line.is_suspect, held.is_kept = nil, true
        return lease
      end
    end
  end
end

-- Calls ---------------------------------------------------------------------------------------------------------------

-- `waits`: a table for the seconds for which the call waited for a connection; nil if nothing is recorded.
local function ask_other(self, bytes, seconds, waits)
  local since = now()
  local lease, message, code, details = take(self)
  if waits then waits.waited = now() - since end
  if not lease then return nil, message, code, details end
  local _ <close> = hold(self, lease)
  local future
  future, message, code = lease.connection:ask(bytes)
  if not future then return nil, message, code end
  return future:await(seconds > 0 and seconds + self._timeout or nil)
end

-- Counts a call that has ended. If a call's answer has come, but was not counted here, the call was cancelled.
local function ended(self, count, value, message, code, details)
  self._ended = self._ended + count
  return value, message, code, details
end

-- Sends on the connection that all tasks share. If that connection is lost before the first byte was sent, the bytes go
-- to the next connection.
local function send_shared(self, method, bytes, count)
  local result, message, code, details
  for _ = 1, 2 do
    local line = self._line
    if line and line.is_at_rest then line:look() end
    if not line or line.problem then
      line, message, code, details = line_of(self)
      if not line then return nil, message, code, details end
    end
    result, message, code = line[method](line, bytes, count)
    if result then return result end
  end
  return nil, message, code
end

local function ask(self, bytes, seconds, waits)
  self._calls = self._calls + 1
  if seconds then return ask_other(self, bytes, seconds, waits) end
  local future, message, code, details = send_shared(self, "ask", bytes)
  if not future then return nil, message, code, details end
  self._asked = self._asked + 1
  return ended(self, 1, future:await(self._timeout))
end

local function send(self, bytes, count)
  self._calls = self._calls + 1
  local future, message, code, details = send_shared(self, "send_all", bytes, count)
  if not future then return nil, message, code, details end
  self._asked = self._asked + count
  return ended(self, count, future:await(self._timeout))
end

calls.give(Database, "db", ask, send)

-- Transactions --------------------------------------------------------------------------------------------------------

local BEGIN = { watch = { "table", "string" }, timeout = "seconds" }

local function finish(self, how)
  local site = misuse.place()
  self._how = site and how .. " at " .. site or how
  local line = self._lease.connection
  -- No task waits for the answer to UNWATCH; the connection answers later commands after it.
  if self._watches and line:is_idle() and line:ask(calls.bytes "UNWATCH") then
    note_idle(self._db, line)
    self._lease:give()
    return
  end
  local _ <close> = hold(self._db, self._lease)
end

-- Begins a transaction on a lease. Drops the lease if that fails.
local function begin(self, lease, options)
  local keys = type(options.watch) == "string" and { options.watch } or options.watch
  local tx
  local _ <close> = setmetatable({}, { __close = function() if not tx then lease:drop() end end })
  if keys and #keys > 0 then
    local future, message, code, details = lease.connection:ask(calls.command("db:begin", { "WATCH", unpack(keys) },
      #keys + 1))
    if not future then return nil, message, code end
    future, message, code, details = future:await(self._timeout)
    if not future then return nil, message, code, details end
  end
  tx = setmetatable({ _db = self, _lease = lease, _queue = {}, _site = misuse.place(), _watches = keys ~= nil },
    Transaction)
  return tx
end

function Database:begin(options)
  misuse.receiver(self, Database, "db:begin")
  options = misuse.options(options, BEGIN, "db:begin", 1)
  local noted = {}
  shape.note_request(self, noted, "begin", "")
  local _ <close> = shape.NOTED
  local lease, message, code, details = take(self, options.timeout)
  shape.got_connection(noted)
  if not lease then return shape.end_request(noted, "begin", nil, message, code, details) end
  return shape.end_request(noted, "begin", begin(self, lease, options))
end

-- Returns how a transaction or a connection has ended; nil if it is open.
local function gone(self)
  if not self._how and self._lease.connection.problem then finish(self, "the connection was lost") end
  return self._how
end

local function ask_tx(self, bytes, seconds)
  local how = gone(self)
  if how then return shape.over(how) end
  local future, message, code = self._lease.connection:ask(bytes)
  if not future then return nil, message, code end
  return future:await(seconds == 0 and huge or (seconds or 0) + self._db._timeout)
end

local function send_tx(self, bytes, count)
  local how = gone(self)
  if how then return shape.over(how) end
  local future, message, code = self._lease.connection:send_all(bytes, count)
  if not future then return nil, message, code end
  return future:await(self._db._timeout)
end

calls.give(Transaction, "tx", ask_tx, send_tx)

function Transaction:queue(...)
  misuse.receiver(self, Transaction, "tx:queue")
  local bytes = calls.kept("tx:queue", ...)
  local how = gone(self)
  if how then return shape.over(how) end
  self._queue[#self._queue + 1] = bytes
  return true
end

-- Returns the answer of EXEC; or nil, and why the commands were not run.
local function executed(futures, seconds)
  local limit, problem, code, details = now() + seconds, nil, nil, nil
  for i = 1, #futures do
    local value, message, kind, more = futures[i]:await(max(0, limit - now()))
    if i == #futures and value then return value end
    if i == #futures and not message then return nil, "EAGAIN: a watched key has changed", "EAGAIN" end
    if kind == "ECONNRESET" then return nil, message .. " during EXEC", kind end
    if message == "timed out" then return nil, message end
    if message and not problem then problem, code, details = message, kind, more end
  end
  return nil, problem, code, details
end

local function commit(self)
  local how = gone(self)
  if how then return shape.over(how) end
  local queue = self._queue
  local bytes = calls.bytes "MULTI" .. table.concat(queue) .. calls.bytes "EXEC"
  local futures, message, code, details = self._lease.connection:send(bytes, #queue + 2)
  if not futures then
    finish(self, "lost")
    return nil, message, code
  end
  local list
  list, message, code, details = executed(futures, self._db._timeout)
  self._watches = false
  finish(self, list and "committed" or "not committed")
  if not list then return nil, message, code, details end
  local answers, problems = {}, nil
  for i = 1, #queue do
    if getmetatable(list[i]) == Line.Problem then
      problems = problems or {}
      local text, name, more = Line.meaning(list[i][1])
      problems[i] = { message = text, code = name, details = more }
    elseif list[i] ~= redis.null then
      answers[i] = list[i]
    end
  end
  return answers, problems
end

function Transaction:commit()
  misuse.receiver(self, Transaction, "tx:commit")
  local noted = shape.note(self, "commit", "")
  local _ <close> = shape.NOTED
  return shape.ended(noted, "answers", 0, commit(self))
end

function Transaction:rollback()
  misuse.receiver(self, Transaction, "tx:rollback")
  local how = gone(self)
  if how then return shape.over(how) end
  finish(self, "rolled back")
  return true
end

local function abandon(self) if not self._how then finish(self, "rolled back") end end
Transaction.__close, Transaction.__gc = abandon, abandon
function Transaction:__tostring()
  return format("transaction (%s, begun at %s)", self._how or "open", self._site or "?")
end

-- Connections of one's own --------------------------------------------------------------------------------------------

function Database:connection()
  misuse.receiver(self, Database, "db:connection")
  local lease, message, code, details = take(self)
  if not lease then return trim(nil, message, code, details) end
  return setmetatable({ _db = self, _lease = lease, _site = misuse.place() }, Own)
end

local function over() return nil, "ENOTCONN: the connection is closed", "ENOTCONN" end
local function ask_own(self, bytes, seconds)
  if gone(self) then return over() end
  return ask_tx(self, bytes, seconds)
end
local function send_own(self, bytes, count)
  if gone(self) then return over() end
  return send_tx(self, bytes, count)
end
calls.give(Own, "connection", ask_own, send_own, true)

function Own:begin(options)
  misuse.receiver(self, Own, "connection:begin")
  options = misuse.options(options, BEGIN, "connection:begin", 1)
  if gone(self) then return over() end
  local line = self._lease.connection
  -- The end of the transaction leaves the connection reserved: the lease's `give` does nothing.
  local lease = { connection = line, give = function() end, drop = function() line:close() end }
  return trim(begin(self._db, lease, options))
end

local function close_own(self)
  if self._how then return end
  self._how = "closed"
  self._lease:drop()
end
function Own:close() close_own(misuse.receiver(self, Own, "connection:close")) end
Own.__close, Own.__gc = close_own, close_own
function Own:__tostring()
  return format("connection (%s, %s, taken at %s)", self._db._name, self._how or "open", self._site or "?")
end

--- Subscribes to channels: `db:subscribe(channel or list, [options,] [fn])`. Waits.
function Database:subscribe(channel, options, fn)
  misuse.receiver(self, Database, "db:subscribe")
  if self._is_closed then return closed(self) end
  return subscriptions.subscribe(self, channel, options, fn)
end

-- The database itself -------------------------------------------------------------------------------------------------

local function is_idle(self)
  return self._places:is_idle() and (not self._line or self._line.problem or self._line:is_idle())
end

local function close(self, timeout)
  if self._is_closed then return true end
  self._is_closed = true
  subscriptions.close(self)
  if self._sweeper then self._sweeper:cancel() end
  local limit = now() + (timeout or 5)
  self._places:close((select(2, closed(self))))
  while not is_idle(self) and now() < limit do rl.sleep(0.005) end
  if self._line then self._line:close() end
  if self._suspect then self._suspect:close() end
  for _, lease in pairs(self._places.taken) do lease.connection:close() end
  return true
end

local function close_later(self)
  if self._is_closed then return end
  if is_idle(self) then close(self, 0) else shape.background(close, self) end
end
shape.database(Database, "redis", close, close_later)

function Database:stats()
  misuse.receiver(self, Database, "db:stats")
  local count, idle, waiting = self._places:numbers()
  local line = self._line or self._suspect
  local pending = 0
  if line and not line.problem then
    pending = line.last - line.first + 1
    count = count + 1
    if pending == 0 then idle = idle + 1 end
  end
  if self._hub and self._hub.link then count = count + 1 end
  return {
    connections = count, idle = idle, in_use = count - idle, waiting = waiting, calls = self._calls,
    lost = self._lost, cancelled = self._cancelled + max(0, self._asked - self._ended - pending),
  }
end

-- Opening -------------------------------------------------------------------------------------------------------------

local OPTIONS = {
  timeout = "seconds", connect_timeout = "seconds", size = "positive", idle = "seconds", wait = "seconds",
  user = "string", password = "string", database = "count", tls = { "table", "boolean" }, max = "positive",
  setup = "table", name = "string", max_waiting = "positive",
}

--- Opens a database. Returns when its first connection works. Waits.
function redis.open(where, options)
  options = misuse.options(options, OPTIONS, "redis.open", 2)
  local settings, shown = where_of(where, options)
  if type(options.tls) == "table" then
    -- Check this now: an error in the task that makes the connection would not reach this call.
    local fine, message, code = internals.check_tls(options.tls, "redis.open")
    if not fine then return nil, message, code end
  end
  settings.connect_timeout, settings.max = options.connect_timeout or 5, options.max or shape.MAX
  settings.setup, settings.client_name = options.setup, options.name
  for index, words in ipairs(settings.setup or {}) do
    local here = "redis.open: setup: entry " .. index
    if type(words) ~= "table" then misuse.raise("%s must be a list of words, got %s", here, misuse.describe(words)) end
    calls.command(here, words, #words)
  end
  local self = setmetatable({
    _options = settings, _name = options.name or shown, _timeout = options.timeout or 5, _wait = options.wait or 30,
    _idle = options.idle or 300, _made_at = made_at(), _calls = 0, _lost = 0, _asked = 0, _ended = 0, _cancelled = 0,
    -- These fields are false instead of absent: reading an absent field calls the function that finds misspelt methods.
    _db = false, _is_closed = false, _line = false, _suspect = false, _sweeper = false, _notes = {},
  }, Database)
  self._places = Places.new {
    size = options.size or 10, max_waiting = options.max_waiting, open = function() return connect(self) end,
  }
  local line, message, code, details = line_of(self)
  if line then return shape.opened(self) end
  self._is_closed = true
  return trim(nil, message, code, details)
end

return redis
