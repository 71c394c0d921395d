-- runloop.postgres: PostgreSQL databases. Connections belong to the loop; libpq speaks on them.

local binding = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shape = require "runloop.data.shape"
local Places = require "runloop.data.places"

local setmetatable, getmetatable, pairs, ipairs = setmetatable, getmetatable, pairs, ipairs
local type, select = type, select
local format, huge, unpack = string.format, math.huge, table.unpack
local raise, made_at, running = misuse.raise, objects.made_at, coroutine.running

-- The library is loaded at the first `open`, and these parts with it.
local connections, addresses, failures, channels
local give, perform_on, control, finish_call

local postgres = {
  bytes = shape.bytes_function "postgres.bytes", json = shape.json_function "postgres.json",
  null = require "runloop.json".null,
}

local Database = objects.class("runloop.postgres.Database", { __name = "database", __stays = true })
local Transaction = objects.class("runloop.postgres.Transaction", { __name = "transaction", __stays = true })
local Own = objects.class("runloop.postgres.Connection", { __name = "connection", __stays = true })

require "runloop.postgres.values"(postgres)

local fakes

--- Makes a PostgreSQL server in this process, for tests.
function postgres.fake(fn, options)
  fakes = fakes or require "runloop.postgres.fake"
  return fakes.new(fn, options)
end

-- Idle connections ----------------------------------------------------------------------------------------------------

-- Seconds after which the loop watches an idle connection that has no watch of its own. If a call uses the connection
-- earlier, it checks whether the connection is still open.
local SOON = 0.02
-- Seconds until the first check of connections that may be idle for longer.
local LATER = 600
-- Seconds after its last use for which a connection is assumed to be open.
local FRESH = 0.002

-- Closes an idle connection.
local function discard(self, connection)
  self._places:forget(connection)
  connection:close()
end

-- Checks a connection that has input for which no task waits: an idle connection is removed as soon as the server
-- closes it.
local function look_at(weak, connection)
  local self = weak[1]
  if self and (self._places:lease_of(connection) or connection.box:is_alive()) then return end
  if not self then return connection:close() end
  shape.lost(self)
  discard(self, connection)
end

-- Watches an idle connection that has no watch of its own.
local function watch(weak, connection)
  connection.port = rl.fd_port {
    fd = connection.fd, modes = "common", keeps_alive = false, name = "idle connection of postgres",
    callback = function() if not connection.is_closed then look_at(weak, connection) end end,
  }
end

-- Closes the connections that are idle for too long, and watches the others. Returns the seconds until the next check.
local function look_after(weak)
  local self = weak[1]
  if not self or self._is_closed then return nil end
  local now, soonest = rl.now(), huge
  self._places:settle()
  for _, connection in ipairs { unpack(self._places.idle) } do
    local limit = math.min(connection:last_use() + self._idle, connection.expires)
    if now >= limit then
      discard(self, connection)
    else
      if not (connection.watch or connection.port) and (self._fake or not shape.is_virtual()) then
        watch(weak, connection)
      end
      if limit < soonest then soonest = limit end
    end
  end
  return soonest < huge and soonest - now or nil
end

local function schedule(self, seconds)
  local weak = self._weak
  self._timer_due = rl.now() + seconds
  if self._timer then self._timer:invalidate() end
  self._timer = rl.timer {
    delay = seconds, modes = "common", keeps_alive = false,
    callback = function(timer)
      timer:invalidate()
      local owner = weak[1]
      if owner then owner._timer = false end
      local next_look = look_after(weak)
      if next_look and owner and not owner._timer then schedule(owner, next_look + 0.001) end
    end,
  }
end

-- Leases --------------------------------------------------------------------------------------------------------------

local function closed(self) return nil, format("ENOTCONN: the database is closed (%s)", self._name), "ENOTCONN" end

-- Takes a connection that is still open.
local function take(self, wait)
  self._calls = self._calls + 1
  while true do
    if self._is_closed then return closed(self) end
    local lease, message, code, details = self._places:take(wait or self._wait, running())
    if not lease then return nil, message, code, details end
    local connection = lease.connection
    if connection.port then
      connection.port:invalidate()
      connection.port = false
    end
    if lease.since - connection:last_use() < self._fresh or connection.box:is_alive() then return lease end
    shape.lost(self)
    lease:drop()
  end
end

-- Makes a connection, unless the last attempts have failed: then their refusal comes at once, until the next attempt.
local function open_one(self)
  local refused = self._refused
  if refused and rl.now() < refused.until_ then return unpack(refused, 1, 4) end
  local connection, message, code, details = connections.open(self, self._words)
  if connection then
    self._refused, self._pause = nil, nil
    return connection
  end
  local pause = math.min((self._pause or 0.025) * 2, 1)
  self._pause = pause
  self._refused = { nil, message, code, details, until_ = rl.now() + pause * (1 - 0.5 * math.random()) }
  return nil, message, code, details
end

local function perform(self, what, request)
  local lease, message, code, details = take(self)
  if not lease then return nil, message, code, details end
  if request.number then request.waited = lease.since - request.since end
  local _ <close> = lease
  return finish_call(self, lease, perform_on(self, lease, what, request))
end

local function open_rows(self, what, request)
  local lease, reason = take(self)
  if not lease then return nil, nil, reason end
  if request.number then request.waited = lease.since - request.since end
  local _ <close> = lease
  local state, rows, message = connections.open_rows(self, lease, what, request)
  lease.is_kept = state ~= nil
  return state, rows, message
end

local function close_rows(_, state)
  local lease = state.lease
  lease.is_kept = false
  if lease.is_open then connections.drain(lease, true) end
  give(lease)
end

local function next_rows(self, what, state)
  local lease, is_kept = state.lease, false
  lease.is_kept = false
  local _ <close> = setmetatable({}, { __close = function() if not is_kept then give(lease) end end })
  local after, rows, message = connections.next_rows(self, what, state)
  is_kept = after ~= nil
  lease.is_kept = is_kept
  return after, rows, message
end

local calls = { perform = perform, open_rows = open_rows, next_rows = next_rows, close_rows = close_rows }
shape.session(Database, "db", calls)

--- Sends a notification to all listeners of a channel.
local function publish(self, what, perform_it, channel, text)
  channels.check(what, channel)
  misuse.argument(text, "string", what, 2)
  if text:find("\0", 1, true) then raise("%s: argument #2 has a zero byte", what) end
  if #text > 7999 then
    return nil, format("EMSGSIZE: a notification has at most 7999 bytes, not %d", #text), "EMSGSIZE"
  end
  local request = { kind = "execute", text = "select pg_notify($1, $2)", count = 2, channel, text }
  shape.note_request(self, request, "publish", request.text)
  local _ <close> = shape.NOTED
  local done, message, code, details = shape.within(self._timeout, perform_it, self, what, request)
  if not done then return shape.end_request(request, "publish", nil, message, code, details) end
  return shape.end_request(request, "publish", true)
end

function Database:publish(channel, text)
  return publish(misuse.receiver(self, Database, "db:publish"), "db:publish", perform, channel, text)
end

--- Subscribes to channels: `db:subscribe(channel or list, [options,] [fn])`. Waits.
function Database:subscribe(channel, options, fn)
  misuse.receiver(self, Database, "db:subscribe")
  if self._is_closed then return closed(self) end
  return channels.subscribe(self, channel, options, fn)
end

-- Copies between a table and a stream or a function.
local function copy(self, what, perform_it, text, way)
  misuse.argument(text, "string", what, 1)
  if type(way) ~= "userdata" and type(way) ~= "table" and type(way) ~= "function" then
    misuse.wrong(what, "argument #2", "a stream or a function", way)
  end
  local request = { kind = "copy", text = text, count = 0, way = way }
  shape.note_request(self, request, "copy", text)
  local _ <close> = shape.NOTED
  return shape.end_request(request, "copy", perform_it(self, what, request))
end

function Database:copy(text, way)
  return copy(misuse.receiver(self, Database, "db:copy"), "db:copy", perform, text, way)
end

-- Transactions --------------------------------------------------------------------------------------------------------

local NO_OPTIONS = {}
local BEGIN = { read_only = "boolean", isolation = "string", timeout = "seconds" }
local ISOLATIONS = {
  serializable = true, ["repeatable read"] = true, ["read committed"] = true, ["read uncommitted"] = true,
}

-- Makes the object of a transaction. `depth` is above 0 for a savepoint.
local function transaction(db, lease, depth, outer)
  lease.site = misuse.place()
  return setmetatable({
    _db = db, _lease = lease, _max = db._max, _lists = db._lists, _nulls = db._nulls, _timeout = db._timeout,
    _site = misuse.place(), _depth = depth, _outer = outer or false, _how = false,
  }, Transaction)
end

local function finish(self, how)
  local site = misuse.place()
  self._how = site and how .. " at " .. site or how
end

-- Counts the loss of a session's connection.
local function note_loss(self)
  local db, connection = self._db, self._lease.connection
  if connection.is_counted then return end
  connection.is_counted = true
  shape.lost(db)
end

-- Returns a text about the end of a session; nil if it has not ended.
local function over(self)
  local one = self
  while one do
    if one._how then return one._how end
    one = one._outer
  end
  if self._lease.connection.is_lost and not self._lease.draining then
    note_loss(self)
    finish(self, "the connection was lost")
    if not self._outer then give(self._lease) end
  end
  return self._how
end

-- Lets one task at a time use the connection.
local function lock(lease)
  if not lease.mutex then lease.mutex = rl.mutex() end
  return lease.mutex:lock()
end

-- Ends a transaction in the background; no other task gets its connection before that.
local function abandon(self)
  if self._how or over(self) and self._outer then return end
  if not self._how then finish(self, "rolled back") end
  local lease, depth = self._lease, self._depth
  if depth == 0 then
    if self._outer then return shape.background(control, lease, "rollback") end
    return give(lease, "rollback")
  end
  shape.background(function()
    local _ <close> = lock(lease)
    control(lease, format("rollback to savepoint rl%d; release savepoint rl%d", depth, depth))
  end)
end

local function begin_text(options, what)
  local isolation, text = options.isolation, "begin"
  if isolation then
    if not ISOLATIONS[isolation:lower()] then
      raise("%s: field 'isolation' must be a level such as \"serializable\", got %s", what, misuse.describe(isolation))
    end
    text = text .. " isolation level " .. isolation
  end
  return options.read_only and text .. " read only" or text
end

local function begin(self, text, wait, noted)
  local lease, message, code, details = take(self, wait)
  shape.got_connection(noted)
  if not lease then return nil, message, code, details end
  local tx, done
  local _ <close> = setmetatable({}, { __close = function() if not tx then give(lease, "rollback") end end })
  done, message, code, details = control(lease, text)
  if not done then return nil, message, code, details end
  tx = transaction(self, lease, 0)
  return tx
end

function Database:begin(options)
  misuse.receiver(self, Database, "db:begin")
  options = misuse.options(options, BEGIN, "db:begin", 1)
  local text, limit = begin_text(options, "db:begin"), options.timeout or self._timeout
  -- If no connection is free in time, the call gets EAGAIN, just before the limit of `within`.
  local noted = {}
  shape.note_request(self, noted, "begin", "")
  local _ <close> = shape.NOTED
  local tx, message, code, details = shape.within(limit and limit + 0.001, begin, self, text, options.timeout, noted)
  if not tx then return shape.end_request(noted, "begin", nil, message, code, details) end
  -- With a time limit, a separate task has begun the transaction.
  tx._site, tx._lease.site = misuse.place(), running()
  return shape.end_request(noted, "begin", tx)
end

local function on_own(self, what, request)
  local how = over(self)
  if how then return shape.over(how) end
  local _ <close> = lock(self._lease)
  return perform_on(self, self._lease, what, request)
end

local session = require "runloop.postgres.cursors" { over = over, lock = lock }
session.perform = on_own
shape.session(Transaction, "tx", session)

function Transaction:publish(channel, text)
  return publish(misuse.receiver(self, Transaction, "tx:publish"), "tx:publish", on_own, channel, text)
end

function Transaction:copy(text, way)
  return copy(misuse.receiver(self, Transaction, "tx:copy"), "tx:copy", on_own, text, way)
end

-- Returns the connection of a top-level transaction.
local function leave(self) if self._depth == 0 and not self._outer then give(self._lease) end end

local function end_with(self, text, how)
  local ended = over(self)
  if ended then return shape.over(ended) end
  local depth, lease = self._depth, self._lease
  local command = depth == 0 and text
    or format(text == "commit" and "release savepoint rl%d" or "rollback to savepoint rl%d; release savepoint rl%d",
      depth, depth)
  local held <close> = lock(lease)
  local answer, message, code, details = shape.within(self._timeout, control, lease, command)
  if not answer and lease.connection.is_lost then note_loss(self) end
  if not answer and depth > 0 and not lease.connection.is_lost then return nil, message, code, details end
  if not answer then
    finish(self, lease.connection.is_lost and "the connection was lost" or "rolled back")
    leave(self)
    return nil, message, code, details
  end
  if text == "commit" and depth == 0 and answer.status == "ROLLBACK" then
    finish(self, "rolled back")
    leave(self)
    return failures.own("EINVAL", "the transaction was rolled back, as a statement in it has failed", "25P02")
  end
  finish(self, how)
  leave(self)
  return true, held and nil
end

function Transaction:commit()
  misuse.receiver(self, Transaction, "tx:commit")
  local noted = shape.note(self, "commit", "")
  local _ <close> = shape.NOTED
  local done, message, code, details = end_with(self, "commit", "committed")
  return shape.ended(noted, "commit", 0, done and true, message, code, details)
end

function Transaction:rollback()
  misuse.receiver(self, Transaction, "tx:rollback")
  local noted = shape.note(self, "rollback", "")
  local _ <close> = shape.NOTED
  local done, message, code, details = end_with(self, "rollback", "rolled back")
  return shape.ended(noted, "rollback", 0, done and true, message, code, details)
end

function Transaction:begin(options)
  misuse.receiver(self, Transaction, "tx:begin")
  misuse.options(options, NO_OPTIONS, "tx:begin", 1)
  local how = over(self)
  if how then return shape.over(how) end
  local _ <close> = lock(self._lease)
  local depth = self._depth + 1
  local done, message, code, details = control(self._lease, format("savepoint rl%d", depth))
  if not done then return shape.trim(nil, message, code, details) end
  return transaction(self._db, self._lease, depth, self)
end

Transaction.__close, Transaction.__gc = abandon, abandon
function Transaction:__tostring()
  return format("transaction (%s, begun at %s)", self._how or "open", self._site or "?")
end

-- Connections of one's own --------------------------------------------------------------------------------------------

function Database:connection()
  misuse.receiver(self, Database, "db:connection")
  local lease, message, code, details = take(self)
  if not lease then return shape.trim(nil, message, code, details) end
  lease.connection.is_own, lease.site = true, misuse.place()
  return setmetatable({
    _db = self, _lease = lease, _max = self._max, _lists = self._lists, _nulls = self._nulls,
    _timeout = self._timeout, _site = misuse.place(), _how = false, _outer = false, _depth = false,
  }, Own)
end
shape.session(Own, "connection", session)

function Own:publish(channel, text)
  return publish(misuse.receiver(self, Own, "connection:publish"), "connection:publish", on_own, channel, text)
end

function Own:copy(text, way)
  return copy(misuse.receiver(self, Own, "connection:copy"), "connection:copy", on_own, text, way)
end

function Own:begin(options)
  misuse.receiver(self, Own, "connection:begin")
  options = misuse.options(options, BEGIN, "connection:begin", 1)
  local how = over(self)
  if how then return shape.over(how) end
  local text = begin_text(options, "connection:begin")
  local _ <close> = lock(self._lease)
  if not self._lease.connection.box:is_idle() then
    return failures.own("EINVAL", "the connection has a transaction: a savepoint is made by its begin()", "25001")
  end
  local done, message, code, details = shape.within(options.timeout or self._timeout, control, self._lease, text)
  if not done then return shape.trim(nil, message, code, details) end
  return transaction(self._db, self._lease, 0, self)
end

-- The connection is closed and not given back, so that the next task gets a new one.
local function close_own(self)
  if self._how then return end
  self._how = "closed"
  give(self._lease)
end

function Own:close() close_own(misuse.receiver(self, Own, "connection:close")) end
Own.__close, Own.__gc = close_own, close_own
function Own:__tostring()
  return format("connection (%s, %s, taken at %s)", self._db._name, self._how or "open", self._site or "?")
end

-- The database itself -------------------------------------------------------------------------------------------------

local function close(self, timeout)
  if self._is_closed then return true end
  self._is_closed = true
  self[1]:stop()
  channels.close(self)
  if self._timer then self._timer:invalidate() end
  local places = self._places
  local _, reason = closed(self)
  places:close(reason)
  local limit = rl.now() + (timeout or 5)
  -- A lease that is given back from now on closes its connection.
  while not places:is_idle() and rl.now() < limit do rl.sleep(0.005) end
  for _, lease in pairs(places.taken) do lease.connection.box:shut() end
  if self._fake then self._fake:_release() end
  return true
end

shape.database(Database, "postgres", close)

function Database:stats()
  misuse.receiver(self, Database, "db:stats")
  local count, idle, waiting = self._places:numbers()
  if self._hub and self._hub.link then count = count + 1 end
  return {
    connections = count, idle = idle, in_use = count - idle, waiting = waiting,
    calls = self._calls + self[1]:calls(),
    lost = self._lost, cancelled = self._places.cancelled,
  }
end

-- Opening -------------------------------------------------------------------------------------------------------------

local OPTIONS = {
  size = "positive", idle = "seconds", wait = "seconds", connect_timeout = "seconds", prepare = "boolean",
  timeout = "seconds", nulls = "boolean", lists = "boolean", max = "positive", setup = "table", name = "string",
  max_waiting = "positive",
}

local function load()
  local problem = binding.load()
  if problem then return problem end
  addresses = require "runloop.postgres.addresses"
  failures = require "runloop.postgres.failures"
  connections = require "runloop.postgres.connections"
  channels = require "runloop.postgres.channels"
  give, perform_on, control = connections.give, connections.perform, connections.control
  finish_call = connections.finish
  for _, kind in ipairs { "query", "row", "value", "execute" } do
    Database[kind] = connections.quick("db:" .. kind, kind, Database[kind])
  end
end

--- Opens a database. Waits.
function postgres.open(where, options)
  if type(where) ~= "table" then misuse.argument(where, "string", "postgres.open", 1) end
  options = misuse.options(options, OPTIONS, "postgres.open", 2)
  local problem = not connections and load()
  if problem then return nil, "ENOENT: " .. problem, "ENOENT" end
  local is_fake = fakes and getmetatable(where) == fakes.class
  local words = addresses.keywords(is_fake and where:_keywords() or where)
  if not words then
    return nil, "EINVAL: the place is neither a URL nor a text of keyword=value pairs", "EINVAL"
  end
  local self = setmetatable({
    _words = words, _name = options.name or is_fake and "fake" or addresses.name(words), _wait = options.wait or 30,
    _fresh = shape.is_virtual() and 0 or FRESH, _idle = options.idle or 300,
    _connect_timeout = options.connect_timeout or 10,
    _timeout = options.timeout or false, _prepare = options.prepare ~= false, _nulls = options.nulls or false,
    _lists = options.lists or false,
    -- These fields are false instead of absent: reading an absent field calls the function that finds misspelt methods.
    _db = false, _lease = false, _depth = false, _is_closed = false, _timer = false, _notes = {},
    _max = options.max or shape.MAX, _made_at = made_at(), _calls = 0, _lost = 0, _stale = 0, _texts = {},
    _texts_count = 0, _checked = {}, _checked_count = 0,
    _setup = options.setup and shape.requests("postgres.open", options.setup),
    _fake = is_fake and where or nil,
  }, Database)
  local weak = setmetatable({ self }, { __mode = "v" })
  self._weak = weak
  self._look_at = function(connection) return look_at(weak, connection) end
  self._on_give = function(time, connection)
    local owner = weak[1]
    if not owner or owner._is_closed then return end
    local seconds = connection and connection.watch and math.min(owner._idle, LATER) or SOON
    if not owner._timer or owner._timer_due > time + seconds then schedule(owner, seconds) end
  end
  self._places = Places.new {
    size = options.size or 10, max_waiting = options.max_waiting, open = function() return open_one(self) end,
    on_late = function() self._on_give(rl.now()) end,
    give = connections.give,
  }
  -- Quick calls find their object at 1.
  self[1] = connections.pool(self)
  local lease, message, code, details = take(self)
  if not lease then
    self._is_closed = true
    if is_fake then where:_release() end
    return shape.trim(nil, message, code, details)
  end
  self._calls = 0
  give(lease)
  return shape.opened(self)
end

return postgres
