-- runloop.sqlite: SQLite databases. Each connection has a thread; the first one writes, the others read.

local native = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shape = require "runloop.data.shape"
local Places = require "runloop.data.places"
local connections = require "runloop.sqlite.connections"

local setmetatable, pairs, select = setmetatable, pairs, select
local format, running = string.format, coroutine.running
local raise, made_at = misuse.raise, objects.made_at
local codec, hold, give, perform_on = connections.codec, connections.hold, connections.give, connections.perform
local READS_ONLY, CONTROLS = connections.READS_ONLY, connections.CONTROLS

local sqlite = {
  bytes = shape.bytes_function "sqlite.bytes", json = shape.json_function "sqlite.json",
  null = require "runloop.json".null,
}

local Database = objects.class("runloop.sqlite.Database", { __name = "database", __stays = true })
local Transaction = objects.class("runloop.sqlite.Transaction", { __name = "transaction", __stays = true })
local Own = objects.class("runloop.sqlite.Connection", { __name = "connection", __stays = true })

-- Readers and the writer ----------------------------------------------------------------------------------------------

-- The transactions that tasks have begun, by coroutine.
local owners = setmetatable({}, { __mode = "k" })

local function closed(self) return nil, format("ENOTCONN: the database is closed (%s)", self._name), "ENOTCONN" end

local function take(self, places, wait)
  if self._is_closed then return closed(self) end
  self._calls = self._calls + 1
  return places:take(wait or self._wait, misuse.place())
end

local function check_owner(self, what, task)
  local own = owners[task or running()]
  if own and own._db == self and not own._how then
    raise("%s: this task has the transaction begun at %s: use that", what, own._site or "?")
  end
end

-- The number of texts of which it is known that they write. Beyond it all are forgotten, and learnt again.
local WRITES_KEPT = 1000

local function note_writes(self, text)
  if self._writes_count >= WRITES_KEPT then self._writes, self._writes_count = {}, 0 end
  if not self._writes[text] then self._writes[text], self._writes_count = true, self._writes_count + 1 end
end

-- Takes a connection, calls fn(self, lease, what, request, flags), and gives it back. A reader refuses a text that
-- writes; the writer carries it out then.
local function with_lease(self, what, request, fn)
  local kind = request.kind
  local may_read = kind == "query" or kind == "row" or kind == "value" or kind == "rows"
  if self._readers and (not self._writer or may_read and not self._writes[request.text]) then
    local lease, message, code, details = take(self, self._readers)
    if not lease then return nil, message, code, details end
    local _ <close> = hold(lease)
    local first, second, third, fourth = fn(self, lease, what, request, self._writer and READS_ONLY or 0)
    if first ~= false then return first, second, third, fourth end
    note_writes(self, request.text)
  end
  check_owner(self, what, request.task)
  local lease, message, code, details = take(self, self._writer)
  if not lease then return nil, message, code, details end
  local _ <close> = hold(lease)
  return fn(self, lease, what, request, 0)
end

local function perform(self, what, request) return with_lease(self, what, request, perform_on) end

-- Rows come in lots; between them the statement is open on its connection, which the lease keeps.
local function first_lot(self, lease, what, request, flags)
  local rows, names, cursor, details = perform_on(self, lease, what, request, flags)
  if rows == false then return false end
  if not rows then return nil, names, cursor, details end
  lease.is_kept = cursor ~= nil
  return { lease = lease, cursor = cursor, request = request }, rows
end

local function open_rows(self, what, request)
  local state, rows = with_lease(self, what, request, first_lot)
  if not state then return nil, nil, rows end
  return state.cursor and state or nil, rows
end

local function close_rows(_, state)
  local lease, request = state.lease, codec.lot(state.cursor)
  lease.is_kept = false
  if state.is_inside then return shape.background(lease.connection.run, lease.connection, request, "db:rows") end
  give(lease, request)
end

local function next_rows(self, what, state)
  local lease, is_done = state.lease, false
  local _ <close> = setmetatable({}, { __close = function() if not is_done then close_rows(self, state) end end })
  local rows, names, cursor = connections.next_lot(self, lease, what, state)
  if not rows then return nil, nil, names, cursor end
  is_done = true
  if cursor then return state, rows end
  lease.is_kept = false
  if not state.is_inside then lease:give() end
  return nil, rows
end

shape.session(Database, "db", { perform = perform, open_rows = open_rows, next_rows = next_rows,
  close_rows = close_rows })

-- Transactions --------------------------------------------------------------------------------------------------------

local BEGIN = { read_only = "boolean", timeout = "seconds" }

local function control(self, lease, what, text)
  return perform_on(self, lease, what, { kind = "execute", text = text, count = 0 }, CONTROLS)
end

-- Makes the object of a transaction. `depth` is above 0 for a savepoint.
local function transaction(db, lease, depth, reads)
  local tx = setmetatable({
    _db = db, _lease = lease, _max = db._max, _lists = db._lists, _nulls = db._nulls, _timeout = db._timeout,
    _site = misuse.place(), _depth = depth, _task = running(),
  }, Transaction)
  if depth == 0 and not reads then owners[tx._task] = tx end
  return tx
end

local function finish(self, how)
  local site = misuse.place()
  self._how = site and how .. " at " .. site or how
  if owners[self._task] == self then owners[self._task] = nil end
end

-- Ends a transaction in the background: nobody gets its connection before.
local function abandon(self)
  if self._how then return end
  finish(self, "rolled back")
  local lease, depth = self._lease, self._depth
  if depth == 0 then return give(lease, connections.control "rollback") end
  shape.background(function()
    control(self, lease, "tx:rollback", format("rollback to rl%d", depth))
    control(self, lease, "tx:rollback", format("release rl%d", depth))
  end)
end

function Database:begin(options)
  misuse.receiver(self, Database, "db:begin")
  options = misuse.options(options, BEGIN, "db:begin", 1)
  local reads = self._readers and (options.read_only or not self._writer)
  if not reads then check_owner(self, "db:begin") end
  local lease, message, code, details = take(self, reads and self._readers or self._writer, options.timeout)
  if not lease then return nil, message, code, details end
  local tx, done
  local _ <close> = setmetatable({}, { __close = function()
    if not tx then give(lease, connections.control "rollback") end
  end })
  done, message, code, details = control(self, lease, "db:begin", reads and "begin" or "begin immediate")
  if done and reads then
    -- The first query of a transaction decides what it sees.
    local first = { kind = "value", text = "select count(*) from sqlite_schema", count = 0 }
    done, message, code, details = perform_on(self, lease, "db:begin", first, 0)
  end
  if not done then return nil, message, code, details end
  tx = transaction(self, lease, 0, reads)
  return tx
end

local function on_own(self, what, request)
  if self._how then return shape.over(self._how) end
  return perform_on(self, self._lease, what, request, self._flags or 0)
end

local session = {
  perform = on_own, next_rows = next_rows, close_rows = close_rows,
  open_rows = function(self, what, request)
    local rows, names, cursor = on_own(self, what, request)
    if not rows then return nil, nil, names end
    return cursor and { lease = self._lease, cursor = cursor, request = request, is_inside = true } or nil, rows
  end,
}
shape.session(Transaction, "tx", session)

local function end_with(self, what, text, how)
  if self._how then return shape.over(self._how) end
  local depth = self._depth
  local done, message, code, details
  if depth > 0 and text == "rollback" then
    done, message, code, details = control(self, self._lease, what, format("rollback to rl%d", depth))
    if not done then return nil, message, code, details end
  end
  done, message, code, details = control(self, self._lease, what, depth > 0 and format("release rl%d", depth) or text)
  if not done then return nil, message, code, details end
  finish(self, how)
  if depth == 0 then give(self._lease) end
  return true
end

function Transaction:commit()
  misuse.receiver(self, Transaction, "tx:commit")
  return end_with(self, "tx:commit", "commit", "committed")
end

function Transaction:rollback()
  misuse.receiver(self, Transaction, "tx:rollback")
  return end_with(self, "tx:rollback", "rollback", "rolled back")
end

local function savepoint(self, what, depth)
  if self._how then return shape.over(self._how) end
  local done, message, code, details = control(self, self._lease, what, format("savepoint rl%d", depth))
  if not done then return nil, message, code, details end
  return transaction(self._db, self._lease, depth)
end

function Transaction:begin()
  return savepoint(misuse.receiver(self, Transaction, "tx:begin"), "tx:begin", self._depth + 1)
end

Transaction.__close, Transaction.__gc = abandon, abandon
function Transaction:__tostring()
  return format("transaction (%s, begun at %s)", self._how or "open", self._site or "?")
end

-- Connections of one's own --------------------------------------------------------------------------------------------

function Database:connection()
  misuse.receiver(self, Database, "db:connection")
  check_owner(self, "db:connection")
  local lease, message, code, details = take(self, self._writer or self._readers)
  if not lease then return nil, message, code, details end
  return setmetatable({
    _db = self, _lease = lease, _max = self._max, _lists = self._lists, _nulls = self._nulls,
    _timeout = self._timeout, _flags = CONTROLS, _site = misuse.place(),
  }, Own)
end
shape.session(Own, "connection", session)

function Own:begin()
  return savepoint(misuse.receiver(self, Own, "connection:begin"), "connection:begin", 1)
end

-- The connection is closed instead of given back, so that the next task gets a new one.
local function close_own(self)
  if self._how then return end
  self._how = "closed"
  if self._lease.is_busy then self._lease.connection.thread:cancel() end
  self._lease:drop()
end

function Own:close() close_own(misuse.receiver(self, Own, "connection:close")) end
Own.__close, Own.__gc = close_own, close_own
function Own:__tostring()
  return format("connection (%s, %s, taken at %s)", self._db._name, self._how or "open", self._site or "?")
end

-- The database itself -------------------------------------------------------------------------------------------------

local function each_place(self)
  local all = {}
  for _, places in pairs { self._writer or false, self._readers or false } do
    if places then all[#all + 1] = places end
  end
  return pairs(all)
end

local function is_idle(self)
  for _, places in each_place(self) do if not places:is_idle() then return false end end
  return true
end

local function close(self, timeout)
  if self._is_closed then return true end
  self._is_closed = true
  local reason, idle = select(2, closed(self)), {}
  for _, places in each_place(self) do
    places:close(reason, function(connection) idle[#idle + 1] = connection end)
  end
  local limit = rl.now() + (timeout or 5)
  -- A connection that is given back now is closed by its lease.
  while not is_idle(self) and rl.now() < limit do rl.sleep(0.005) end
  for _, places in each_place(self) do
    for lease in pairs(places.taken) do lease.connection.thread:cancel() end
  end
  for _, connection in pairs(idle) do connections.finish(connection) end
  return true
end

shape.database(Database, "sqlite", close)

function Database:stats()
  misuse.receiver(self, Database, "db:stats")
  local total = { connections = 0, idle = 0, in_use = 0, waiting = 0, calls = self._calls, lost = 0, cancelled = 0 }
  for _, places in each_place(self) do
    local count, idle, waiting = places:numbers()
    total.connections, total.idle = total.connections + count, total.idle + idle
    total.cancelled = total.cancelled + places.cancelled
    total.in_use, total.waiting = total.in_use + count - idle, total.waiting + waiting
  end
  return total
end

-- Opening -------------------------------------------------------------------------------------------------------------

local OPTIONS = {
  read_only = "boolean", create = "boolean", wait = "seconds", synchronous = "string", size = "positive",
  setup = "table", name = "string", timeout = "seconds", nulls = "boolean", lists = "boolean", max = "positive",
}

-- Makes the places of the writer and of the readers.
local function make_places(self, options, is_memory)
  local size = is_memory and 1 or options.size or 4
  local OPEN = connections.OPEN
  local flags = (options.create == false and 0 or OPEN.create) | (is_memory and OPEN.memory or 0)
    | (options.synchronous == "full" and OPEN.full or 0)
  if options.read_only then
    self._readers = Places.new { size = size, open = function() return connections.open(self, OPEN.read_only) end }
    return
  end
  self._writer = Places.new { size = 1, open = function() return connections.open(self, flags) end }
  if size == 1 then return end
  self._readers = Places.new { size = size - 1, open = function() return connections.open(self, OPEN.reader) end }
end

--- Opens a database. Waits.
function sqlite.open(path, options)
  misuse.argument(path, "string", "sqlite.open", 1)
  options = misuse.options(options, OPTIONS, "sqlite.open", 2)
  local synchronous = options.synchronous
  if synchronous and synchronous ~= "normal" and synchronous ~= "full" then
    raise('sqlite.open: field \'synchronous\' must be "normal" or "full", got %s', misuse.describe(synchronous))
  end
  local problem = native.load()
  if problem then return nil, "ENOENT: " .. problem, "ENOENT" end
  local self = setmetatable({
    _path = path, _name = options.name or path, _wait = options.wait or 5, _timeout = options.timeout,
    _nulls = options.nulls, _lists = options.lists, _max = options.max or shape.MAX, _made_at = made_at(),
    _calls = 0, _writes = {}, _writes_count = 0,
    _setup = options.setup and shape.requests("sqlite.open", options.setup),
  }, Database)
  make_places(self, options, path == ":memory:" or path == "")
  local lease, message, code, details = (self._writer or self._readers):take(self._wait)
  if not lease then
    self._is_closed = true
    return nil, message, code, details
  end
  lease:give()
  return self
end

return sqlite
