-- runloop.sqlite.connections: jobs for the threads of a database, and the results of their replies.

local native, internals = ...
local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"

local select, unpack, ipairs, setmetatable = select, table.unpack, ipairs, setmetatable
local type = type
local raise, format, label = misuse.raise, string.format, shape.label

-- The flags of jobs: see private.h.
local LISTS, IN_LOTS, COUNTS, NULLS = 4, 8, 16, 128
local connections = {
  READS_ONLY = 1, CONTROLS = 2, TAKES = 32, IN_TRANSACTION = 64,
  OPEN = { read_only = 1, create = 2, memory = 4, full = 8, reader = 16 },
}
local codec = native.codec(shape.Bytes)
local make_run, read_reply = codec.run, codec.reply
local TAKES = connections.TAKES

-- For each kind of call: how the reply is read, the flags, and the number of rows, where 0 means all rows.
local MODES = { query = "query", row = "one", value = "value", execute = "execute", rows = "rows", take = "take" }
local FLAGS = { query = 0, row = 0, value = LISTS, execute = COUNTS, rows = IN_LOTS, take = COUNTS | TAKES }
local ROWS = { query = 0, row = 1, value = 1, execute = 0, rows = 0, take = 0 }

-- The numbers that stand for the names of waits, by name.
local names = setmetatable({}, { __index = function(self, what)
  self[what] = native.name(what)
  return self[what]
end })

-- Returns a failure; if the sandbox is the reason why a file cannot be opened, one that names the option.
local function explained(path, message, code, details)
  if details and details.code == "SQLITE_CANTOPEN" then
    local named = message:match "unable to open database: ([^%z]+) %(SQLITE_CANTOPEN%)$"
    -- SQL may name a file by a URI.
    path = named and (named:match "^file:([^?#]*)" or named) or path
    local refused = path and (internals.refusal("read", path) or internals.refusal("write", path))
    if refused then return nil, format("EACCES: %s (%s)", refused, path), "EACCES", details end
  end
  return nil, message, code, details
end

local function closed(db) return nil, format("ENOTCONN: the database is closed (%s)", db._name), "ENOTCONN" end
connections.closed = closed

-- For each pool: the taken connections by number, each with the time and the place at which it was taken.
local leases = setmetatable({}, { __mode = "k" })

-- The pools that are not closed. When a database is collected, its finalizer closes the pools, so they must not be
-- collected in the same cycle.
local open = {}

local function late(db, pool, wait)
  local rl = require "runloop"
  local count, in_use = pool:numbers()
  local task, longest = pool:longest()
  local site = task and misuse.place(task)
  for _, lease in pairs(leases[pool]) do
    local seconds = rl.now() - lease.since
    if not longest or seconds > longest then longest, site = seconds, lease.site end
  end
  local used = longest and format(", the longest for %.3g s by %s", longest, site or "?") or ""
  return nil, format("EAGAIN: no connection was free for %g s (%d of %d in use%s)", wait, in_use, count, used), "EAGAIN"
end

-- Raises an error, or returns a refusal, for a mistake in a call.
local function mistake(db, pool, what, word, about, index, count, wait)
  if word == "late" then return late(db, pool, wait) end
  if word == "closed" then return closed(db) end
  if type(count) == "table" and index then what, count = shape.entry(what, index), count[index].count end
  if word == "parameters" then shape.wrong_count(what, about, count) end
  if word == "column" then shape.two_columns(what, about) end
  if word == "named" then raise("%s: the parameter %s has a name: use $1, $2 or ?", what, about) end
  return false
end

-- Runs a job, and returns the contents of its reply. `count`: the number of the job's parameters; for a batch, its
-- requests. `label`: the call's label in recordings; nil for none.
local function run(db, pool, connection, what, job, mode, lists, nulls, count, wait, label)
  local done, message, code = pool:run(names[what], job, connection, wait, label)
  if not done then return nil, message, code end
  local first, second, third, fourth = read_reply(done, mode, lists, nulls)
  if first then
    if mode == "take" then connections.note_taken(pool, first) end
    return first, second, third, fourth
  end
  if first == false then return mistake(db, pool, what, second, third, fourth, count, wait) end
  if fourth then return explained(nil, second, third, fourth) end
  return first, second, third
end

--- The options of statements that run inside another call, such as that of `begin`: they have no records of their own.
connections.INSIDE = {}
local INSIDE = connections.INSIDE

--- Runs a statement, and returns the results of its call; false if the statement writes but is not allowed to.
--- `options` has lists, nulls and max. `connection`: 0 for one that is free.
function connections.ask(db, pool, connection, what, kind, flags, options, wait, text, ...)
  local lists, nulls = options.lists, options.nulls
  if lists == nil then lists = db._lists end
  if nulls == nil then nulls = db._nulls end
  flags = flags | FLAGS[kind]
  if lists then flags = flags | LISTS end
  local job, bad = make_run(flags, options.max or db._max, ROWS[kind], text, ...)
  if bad then shape.wrong_parameter(what, bad, (select(bad, ...))) end
  return run(db, pool, connection, what, job, MODES[kind], lists, nulls, select("#", ...), wait,
    options ~= INSIDE and kind ~= "rows" and label(db, kind, text) or nil)
end

--- Does the same as `ask`, for a call without options, in one function: passing the parameters on costs as much as
--- making the job.
function connections.quick(db, pool, connection, what, kind, flags, wait, text, ...)
  local lists, nulls = db._lists, db._nulls
  if lists then flags = flags | LISTS end
  local job, bad = make_run(flags | FLAGS[kind], db._max, ROWS[kind], text, ...)
  if bad then shape.wrong_parameter(what, bad, (select(bad, ...))) end
  local done, message, code = pool:run(names[what], job, connection, wait, label(db, kind, text))
  if not done then return nil, message, code end
  local first, second, third, fourth = read_reply(done, MODES[kind], lists, nulls)
  if first then return first, second, third, fourth end
  if first == false then return mistake(db, pool, what, second, third, fourth, select("#", ...), wait) end
  if fourth then return explained(nil, second, third, fourth) end
  return first, second, third
end

-- Returns the job of a batch.
local function batch_of(db, what, requests, flags)
  local list = {}
  for _, one in ipairs(requests) do
    local at, own = #list, flags
    if one.lists or one.lists == nil and db._lists then own = own | LISTS end
    if one.nulls or one.nulls == nil and db._nulls then own = own | NULLS end
    list[at + 1], list[at + 2], list[at + 3] = one, one.text, one.count
    list[at + 4], list[at + 5] = one.max or db._max, own
  end
  local job, index, bad = codec.batch(list, flags)
  if index then shape.wrong_parameter(shape.entry(what, index), bad, requests[index][bad]) end
  return job
end

--- Runs a request: a table of shape.
function connections.perform(db, pool, connection, what, request, flags, wait)
  local kind = request.kind
  if kind == "script" then
    local done, message, code, details =
      run(db, pool, connection, what, codec.script(request.text, flags), "execute", nil, nil, 0, wait,
        label(db, kind, request.text))
    if not done then return nil, message, code, details end
    return true
  end
  if request.requests then
    local job = batch_of(db, what, request.requests, flags)
    return run(db, pool, connection, what, job, "batch", nil, nil, request.requests, wait,
      label(db, kind, request.requests[1].text))
  end
  return connections.ask(db, pool, connection, what, kind, flags, request, wait, request.text,
    unpack(request, 1, request.count))
end

--- Returns the next rows of a cursor, the names of their columns, and the cursor if there are more.
function connections.next_lot(db, pool, connection, what, state)
  local request = state.request
  local lists, nulls = request.lists, request.nulls
  if lists == nil then lists = db._lists end
  if nulls == nil then nulls = db._nulls end
  return run(db, pool, connection, what, codec.lot(state.cursor, request.max or db._max), "rows", lists, nulls, 0,
    db._wait)
end

--- Closes a cursor, without waiting.
function connections.drop_lot(pool, connection, cursor) pool:send(codec.lot(cursor), connection) end

--- Runs a statement of a transaction in the background.
function connections.send(pool, connection, text)
  pool:send(make_run(connections.CONTROLS | COUNTS, 1, 0, text), connection)
end

--- Notes who has taken a connection.
function connections.note_taken(pool, connection)
  leases[pool][connection] = { since = require "runloop".now(), site = misuse.place() }
end

--- Gives a connection back; the pool rolls back its transaction.
function connections.give(pool, connection)
  leases[pool][connection] = nil
  pool:give(connection)
end

--- Closes a connection instead of giving it back.
function connections.drop(pool, connection)
  leases[pool][connection] = nil
  pool:drop(connection)
end

--- Makes a pool of connections. Each connection first runs the statements of `setup`.
function connections.pool(db, size, flags, max_waiting)
  local milliseconds = math.min(db._wait, 1e9) * 1000 // 1 | 0
  local setup = db._setup and batch_of(db, "sqlite.open", db._setup, connections.CONTROLS | COUNTS)
  local pool = native.pool(size, codec.opening(flags, milliseconds, db._path, setup or nil), max_waiting)
  leases[pool], open[pool] = {}, true
  return pool
end

--- Opens the first connection of a pool. Returns true, or nil and the reason.
function connections.open(db, pool)
  local done = pool:run(names["sqlite.open"], codec.lot(0))
  local first, second, third, fourth = read_reply(done, "execute")
  if first == false then return mistake(db, pool, "sqlite.open: setup", second, third, fourth, db._setup) end
  if not first then return explained(db._path, second, third, fourth) end
  return true
end

--- Forgets a pool whose first connection could not be opened.
function connections.forget(pool) open[pool] = nil end

--- Closes a pool, and waits until its files are closed, except for connections that are taken.
function connections.close(pool)
  open[pool] = nil
  pool:close(codec.lot(0))
end

return connections
