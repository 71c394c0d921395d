-- runloop.sqlite: SQLite databases. Each connection has a thread; the first one writes, the others read.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shape = require "runloop.data.shape"
local connections = require "runloop.sqlite.connections"

local setmetatable, next = setmetatable, next
local format, running, unpack, select = string.format, coroutine.running, table.unpack, select
local raise, made_at = misuse.raise, objects.made_at
local ask, perform_on, closed, give = connections.ask, connections.perform, connections.closed, connections.give
local ask_quickly = connections.quick
local READS_ONLY, CONTROLS, INSIDE = connections.READS_ONLY, connections.CONTROLS, connections.INSIDE

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

local function check_owner(self, what, task)
  local own = owners[task or running()]
  if own and own._db == self and not own._how then
    raise("%s: this task has the transaction begun at %s: use that", what, own._site or "?")
  end
end

-- The largest number of texts in the cache of statements that write. Beyond this number, all entries are dropped, and
-- determined again.
local WRITES_KEPT = 1000

local function note_writes(self, text)
  if self._writes_count >= WRITES_KEPT then self._writes, self._writes_count = {}, 0 end
  if not self._writes[text] then self._writes[text], self._writes_count = true, self._writes_count + 1 end
end

local READS = { query = true, row = true, value = true, rows = true }
local NOTHING = {}

-- Carries out a call on a reader if it may be a query, else on the writer. If a reader refuses a text because it
-- writes, the writer carries it out.
local function call(self, what, kind, options, text, ...)
  if self._is_closed then return closed(self) end
  self._calls = self._calls + 1
  local readers, writer = self._readers, self._writer
  if readers and (not writer or READS[kind] and not self._writes[text]) then
    local flags = writer and READS_ONLY or 0
    local first, second, third, fourth = ask(self, readers, 0, what, kind, flags, options, self._wait, text, ...)
    if first ~= false then return first, second, third, fourth end
    note_writes(self, text)
  end
  check_owner(self, what, options.task)
  return ask(self, writer, 0, what, kind, 0, options, self._wait, text, ...)
end

-- As `call`, without options.
local function quick(self, what, kind, text, ...)
  if self._is_closed then return closed(self) end
  self._calls = self._calls + 1
  local readers, writer = self._readers, self._writer
  if readers and (not writer or READS[kind] and not self._writes[text]) then
    local flags = writer and READS_ONLY or 0
    local first, second, third, fourth = ask_quickly(self, readers, 0, what, kind, flags, self._wait, text, ...)
    if first ~= false then return first, second, third, fourth end
    note_writes(self, text)
  end
  check_owner(self, what)
  return ask_quickly(self, writer, 0, what, kind, 0, self._wait, text, ...)
end

local function perform(self, what, request)
  if request.text and request.kind ~= "script" then
    return call(self, what, request.kind, request, request.text, unpack(request, 1, request.count))
  end
  if self._is_closed then return closed(self) end
  self._calls = self._calls + 1
  if self._writer then check_owner(self, what, request.task) end
  return perform_on(self, self._writer or self._readers, 0, what, request, 0, self._wait)
end

-- Rows come in lots. Between two lots the statement stays open, and its connection stays taken.
local function open_rows(self, what, request)
  local rows, message, cursor, connection = perform(self, what, request)
  if not rows then return nil, nil, message end
  if not cursor then return nil, rows end
  local pool = self._writes[request.text] and self._writer or self._readers or self._writer
  if not self._is_memory then connections.note_taken(pool, connection) end
  return {
    pool = pool, connection = connection, cursor = cursor, request = request, is_inside = self._is_memory,
  }, rows
end

local function close_rows(_, state)
  if state.is_inside then return connections.drop_lot(state.pool, state.connection, state.cursor) end
  give(state.pool, state.connection)
end

local function next_rows(self, what, state)
  local is_done = false
  local _ <close> = setmetatable({}, { __close = function() if not is_done then close_rows(self, state) end end })
  local rows, message, cursor = connections.next_lot(self._db or self, state.pool, state.connection, what, state)
  if not rows then return nil, nil, message end
  if not cursor then return nil, rows end
  is_done = true
  return state, rows
end

shape.session(Database, "db", {
  is_recorded = true, perform = perform, open_rows = open_rows, next_rows = next_rows, close_rows = close_rows,
  quick = quick,
})

-- Transactions --------------------------------------------------------------------------------------------------------

local BEGIN = { read_only = "boolean", timeout = "seconds" }

-- Returns how a session, or an outer session, has ended; nil if all of them are open. If one of the sessions is ending,
-- waits for its end.
local function over(self)
  while self do
    if self._ending then self._ending:await() end
    if self._how then return self._how end
    self = self._outer
  end
end

-- Carries out a statement on the session's connection.
local function on_own(self, what, kind, options, ...)
  local how = (self._how or self._ending or self._outer) and over(self)
  if how then return shape.over(how) end
  return ask(self, self._pool, self._connection, what, kind, self._flags, options, nil, ...)
end

local function control(self, what, text)
  return ask(self, self._pool, self._connection, what, "execute", self._flags | CONTROLS, INSIDE, nil, text)
end

-- Makes the object of a session with a connection of its own.
local function session_of(db, class, pool, connection)
  return setmetatable({
    _db = db, _pool = pool, _connection = connection, _max = db._max, _lists = db._lists, _nulls = db._nulls,
    _timeout = db._timeout, _name = db._name, _path = db._path, _site = misuse.place(), _how = false, _flags = 0,
    _ending = false, _outer = false,
  }, class)
end

-- `depth` is above 0 for a savepoint, which is inside `outer`.
local function transaction(db, pool, connection, depth, outer)
  local tx = session_of(db, Transaction, pool, connection)
  tx._depth, tx._task, tx._outer, tx._flags = depth, running(), outer, connections.IN_TRANSACTION
  return tx
end

local function finish(self, how)
  local site = misuse.place()
  self._how = site and how .. " at " .. site or how
  if owners[self._task] == self then owners[self._task] = nil end
end

-- Gives back the connection of a transaction; an open transaction is rolled back.
local function leave(self)
  local pool, connection = self._pool, self._connection
  if self._is_query_only then
    connections.send(pool, connection, "rollback")
    connections.send(pool, connection, "pragma query_only = off")
  end
  give(pool, connection)
end

-- Ends a transaction in the background; no other task gets its connection before that.
local function abandon(self)
  if self._how then return end
  local outer = self._outer
  while outer do
    -- If an outer transaction is over, send no statement: it could hit the next transaction on the connection.
    if outer._how or outer._ending then return finish(self, "rolled back") end
    outer = outer._outer
  end
  finish(self, "rolled back")
  local depth = self._depth
  if depth == 0 then return leave(self) end
  connections.send(self._pool, self._connection, format("rollback to rl%d", depth))
  connections.send(self._pool, self._connection, format("release rl%d", depth))
end

-- Takes a connection of a pool by running a statement on it. Returns the connection's number.
local function take(self, pool, what, text, wait)
  if self._is_closed then return closed(self) end
  self._calls = self._calls + 1
  return ask(self, pool, 0, what, "take", CONTROLS, INSIDE, wait or self._wait, text)
end

-- Begins a transaction; `reads`: on a reader. Returns its object.
local function begin(self, pool, options, reads, noted)
  local is_only_read = reads or options.read_only
  local connection, message, code, details =
    take(self, pool, "db:begin", is_only_read and "begin" or "begin immediate", options.timeout)
  if not connection then return nil, message, code, details end
  shape.got_connection(noted)
  local tx = transaction(self, pool, connection, 0, false)
  if not is_only_read then return tx end
  tx._is_query_only = not reads
  local is_good
  local _ <close> = setmetatable({}, { __close = function() if not is_good then abandon(tx) end end })
  if not reads then
    is_good, message, code, details = control(tx, "db:begin", "pragma query_only = on")
    if not is_good then return nil, message, code, details end
  end
  -- The first query of a transaction determines its snapshot.
  is_good, message, code, details = on_own(tx, "db:begin", "value", INSIDE, "select count(*) from sqlite_schema")
  if not is_good then return nil, message, code, details end
  return tx
end

function Database:begin(options)
  misuse.receiver(self, Database, "db:begin")
  options = misuse.options(options, BEGIN, "db:begin", 1)
  local reads = self._readers and (options.read_only or not self._writer)
  if not reads then check_owner(self, "db:begin") end
  local pool, limit = reads and self._readers or self._writer, options.timeout or self._timeout
  -- If no connection is free in time, the call gets EAGAIN, just before the limit of `within`.
  local noted = {}
  shape.note_request(self, noted, "begin", "")
  local _ <close> = shape.NOTED
  local tx, message, code, details = shape.within(limit and limit + 0.001, begin, self, pool, options, reads, noted)
  shape.end_request(noted, "begin", tx or nil, message)
  if not tx then return shape.trim(nil, message, code, details) end
  if limit then
    -- With a time limit, a separate task has begun the transaction.
    tx._task, tx._site = running(), misuse.place()
    connections.note_taken(pool, tx._connection)
  end
  if not reads then owners[tx._task] = tx end
  return tx
end

local session = {
  is_recorded = true,
  perform = function(self, what, request)
    local how = over(self)
    if how then return shape.over(how) end
    return perform_on(self, self._pool, self._connection, what, request, self._flags)
  end,
  quick = function(self, what, kind, ...)
    local how = (self._how or self._ending or self._outer) and over(self)
    if how then return shape.over(how) end
    return ask_quickly(self, self._pool, self._connection, what, kind, self._flags, nil, ...)
  end,
  next_rows = function(self, what, state)
    local how = over(self)
    if not how then return next_rows(self, what, state) end
    close_rows(self, state)
    return nil, nil, select(2, shape.over(how))
  end,
  close_rows = close_rows,
  open_rows = function(self, what, request)
    local rows, message, cursor = on_own(self, what, "rows", request, request.text, unpack(request, 1, request.count))
    if not rows then return nil, nil, message end
    return cursor and {
      pool = self._pool, connection = self._connection, cursor = cursor, request = request, is_inside = true,
    } or nil, rows
  end,
}
shape.session(Transaction, "tx", session)

local function end_on(self, what, text)
  local depth = self._depth
  if depth > 0 and text == "rollback" then
    local done, message, code, details = control(self, what, format("rollback to rl%d", depth))
    if not done then return nil, message, code, details end
  end
  return control(self, what, depth > 0 and format("release rl%d", depth) or text)
end

local function end_with(self, what, text, how)
  local ended = over(self)
  if ended then return shape.over(ended) end
  -- While the transaction ends, statements of other tasks wait: otherwise they would run after its end.
  local ending = rl.future()
  self._ending = ending
  local _ <close> = setmetatable({}, { __close = function()
    self._ending = false
    ending:complete(true)
  end })
  local done, message, code, details = shape.within(self._timeout, end_on, self, what, text)
  -- If the connection is over, a failure has already rolled back the transaction.
  local is_over = not done and code == "ENOTCONN"
  if not done and not is_over then return shape.trim(nil, message, code, details) end
  finish(self, is_over and "rolled back" or how)
  if self._depth == 0 then leave(self) end
  if is_over and text == "commit" then return nil, message, code, details end
  return true
end

function Transaction:commit()
  misuse.receiver(self, Transaction, "tx:commit")
  local noted = shape.note(self, "commit", "")
  local _ <close> = shape.NOTED
  return shape.ended(noted, "commit", 0, end_with(self, "tx:commit", "commit", "committed"))
end

function Transaction:rollback()
  misuse.receiver(self, Transaction, "tx:rollback")
  local noted = shape.note(self, "rollback", "")
  local _ <close> = shape.NOTED
  return shape.ended(noted, "rollback", 0, end_with(self, "tx:rollback", "rollback", "rolled back"))
end

local function savepoint(self, what, options, depth)
  misuse.options(options, NOTHING, what, 1)
  local how = over(self)
  if how then return shape.over(how) end
  local done, message, code, details = control(self, what, format("savepoint rl%d", depth))
  if not done then return shape.trim(nil, message, code, details) end
  return transaction(self._db, self._pool, self._connection, depth, self)
end

function Transaction:begin(options)
  return savepoint(misuse.receiver(self, Transaction, "tx:begin"), "tx:begin", options, self._depth + 1)
end

Transaction.__close, Transaction.__gc = abandon, abandon
function Transaction:__tostring()
  return format("transaction (%s, begun at %s)", self._how or "open", self._site or "?")
end

-- Connections of one's own --------------------------------------------------------------------------------------------

function Database:connection()
  misuse.receiver(self, Database, "db:connection")
  check_owner(self, "db:connection")
  local pool = self._writer or self._readers
  local connection, message, code, details = take(self, pool, "db:connection", "select 1")
  if not connection then return shape.trim(nil, message, code, details) end
  local own = session_of(self, Own, pool, connection)
  own._flags = CONTROLS
  return own
end
shape.session(Own, "connection", session)

function Own:begin(options)
  return savepoint(misuse.receiver(self, Own, "connection:begin"), "connection:begin", options, 1)
end

-- The connection is closed and not given back, so that the next task gets a new one. A database in memory is the
-- exception: it would vanish with its connection.
local function close_own(self)
  if self._how then return end
  self._how = "closed"
  if self._db._is_memory then return give(self._pool, self._connection) end
  connections.drop(self._pool, self._connection)
end

function Own:close() close_own(misuse.receiver(self, Own, "connection:close")) end
Own.__close, Own.__gc = close_own, close_own
function Own:__tostring()
  return format("connection (%s, %s, taken at %s)", self._db._name, self._how or "open", self._site or "?")
end

-- The database itself -------------------------------------------------------------------------------------------------

-- The databases of this thread, for rl.why().
local databases = setmetatable({}, { __mode = "k" })

-- Returns the numbers of connections, of connections in use, of calls that wait, and of cancelled calls.
local function numbers(self)
  local count, in_use, waiting, cancelled = 0, 0, 0, 0
  for _, pool in next, self._pools do
    local a, b, c, d = pool:numbers()
    count, in_use, waiting, cancelled = count + a, in_use + b, waiting + c, cancelled + d
  end
  return count, in_use, waiting, cancelled
end

local function close(self, timeout)
  if self._is_closed then return true end
  self._is_closed, databases[self] = true, nil
  local limit = rl.now() + (timeout or 5)
  while select(2, numbers(self)) > 0 and rl.now() < limit do rl.sleep(0.005) end
  for _, pool in next, self._pools do pool:interrupt() end
  for _, pool in next, self._pools do connections.close(pool) end
  return true
end

shape.database(Database, "sqlite", close)

function Database:stats()
  misuse.receiver(self, Database, "db:stats")
  local count, in_use, waiting, cancelled = numbers(self)
  return {
    connections = count, idle = count - in_use, in_use = in_use, waiting = waiting, calls = self._calls, lost = 0,
    cancelled = cancelled,
  }
end

local other_call = internals.call_of

--- Returns the call of a database for which a coroutine waits, without values; nil if there is none.
function internals.call_of(task, seconds)
  for db in next, databases do
    -- A finalized database may still be there, without its pools.
    for _, pool in next, db._is_closed and NOTHING or db._pools do
      local found = pool:text(task)
      if found then return shape.show_call(found[1]:match "%a+$", found[2], db, found[3]) end
    end
  end
  return other_call and other_call(task, seconds)
end

-- Opening -------------------------------------------------------------------------------------------------------------

local OPTIONS = {
  read_only = "boolean", create = "boolean", wait = "seconds", synchronous = "string", size = "positive",
  setup = "table", name = "string", timeout = "seconds", nulls = "boolean", lists = "boolean", max = "positive",
  max_waiting = "positive",
}

-- Makes the pools of the writer and of the readers.
local function make_pools(self, options, is_memory)
  local size = is_memory and 1 or options.size or 4
  local OPEN = connections.OPEN
  local flags = (options.create == false and 0 or OPEN.create) | (is_memory and OPEN.memory or 0)
    | (options.synchronous == "full" and OPEN.full or 0)
  if options.read_only then
    self._readers = connections.pool(self, size, OPEN.read_only | (is_memory and OPEN.memory or 0), options.max_waiting)
  else
    self._writer = connections.pool(self, 1, flags, options.max_waiting)
    if size > 1 then self._readers = connections.pool(self, size - 1, OPEN.reader, options.max_waiting) end
  end
  self._pools = { self._writer or self._readers, self._writer and self._readers or nil }
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
    _path = path, _name = options.name or path, _wait = options.wait or 5, _timeout = options.timeout or false,
    _nulls = options.nulls or false, _lists = options.lists or false, _max = options.max or shape.MAX,
    _made_at = made_at(), _calls = 0, _writes = {}, _writes_count = 0,
    -- Reading an absent field is slow, since objects.class then looks for a misspelt name.
    _db = false, _is_closed = false, _writer = false, _readers = false, _notes = {},
    _is_memory = path == ":memory:" or path == "",
    _setup = options.setup and shape.requests("sqlite.open", options.setup),
  }, Database)
  make_pools(self, options, self._is_memory)
  local done, message, code, details = connections.open(self, self._pools[1])
  if not done then
    self._is_closed = true
    for _, pool in next, self._pools do connections.forget(pool) end
    return nil, message, code, details
  end
  databases[self] = true
  return shape.opened(self)
end

return sqlite
