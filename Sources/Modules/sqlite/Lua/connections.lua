-- runloop.sqlite.connections: one connection and its thread: requests, replies, and the end of a statement whose task
-- was cancelled.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"

local setmetatable, ipairs = setmetatable, ipairs
local raise = misuse.raise

-- The flags of requests: see private.h.
local LISTS, IN_LOTS, COUNTS = 4, 8, 16
local connections = {
  READS_ONLY = 1, CONTROLS = 2,
  OPEN = { read_only = 1, create = 2, memory = 4, full = 8, reader = 16 },
}
local codec = native.codec(shape.Bytes)
connections.codec = codec

-- How the reply of each kind of request is read.
local MODES = { query = "query", row = "one", value = "value", execute = "execute", rows = "query", batch = "batch" }

-- Seconds for which the end of a cancelled statement is waited for before its connection is closed.
local PATIENCE = 2

local Connection = {}
Connection.__index = Connection

function Connection:close() self.thread:close() end
function Connection:run(request, what) return self.thread:run(request, what) end

-- Ends the statement of a task that was cancelled while it waited.
local Guard = { __close = function(self) if self.lease.is_busy then self.lease.connection.thread:cancel() end end }

-- Sends a request and waits for its reply.
local function exchange(lease, request, what)
  local guard = lease.guard
  if not guard then
    guard = setmetatable({ lease = lease }, Guard)
    lease.guard = guard
  end
  lease.is_busy = true
  local _ <close> = guard
  local reply, message, code = lease.connection.thread:run(request, what)
  lease.is_busy = false
  return reply, message, code
end

--- Gives a lease back, after a last request if there is one. If the task was cancelled, waits in the background until
--- its statement has ended.
function connections.give(lease, last)
  if not lease.is_busy and not last then return lease:give() end
  local connection, places = lease.connection, lease.places
  if lease.is_busy then places.cancelled = places.cancelled + 1 end
  shape.background(function()
    if last then connection:run(last, "db:close") end
    -- The answer to an empty request says that all requests before it are done.
    local is_done = rl.timeout(PATIENCE, connection.run, connection, codec.lot(0), "db:close")
    if is_done then lease:give() else lease:drop() end
  end)
end

local Hold = { __close = function(self) if not self.lease.is_kept then connections.give(self.lease) end end }

--- Returns an object for <close>, which gives a lease back unless it is kept.
function connections.hold(lease) return setmetatable({ lease = lease }, Hold) end

-- Returns what a reply says; false if a reader has refused to write. Raises what is wrong with the call.
local function read(self, what, request, reply, mode)
  local lists, nulls = request.lists, request.nulls
  if lists == nil then lists = self._lists end
  if nulls == nil then nulls = self._nulls end
  local first, second, third, details = codec.reply(reply, mode, lists, nulls)
  if first ~= false then return first, second, third, details end
  if second == "parameters" and request.requests then
    raise("%s: an entry has a wrong number of parameters: its statement has %d", what, third)
  end
  if second == "parameters" then shape.wrong_count(what, third, request.count) end
  if second == "column" then shape.two_columns(what, third) end
  if second == "named" then raise("%s: the parameter %s has a name: use $1, $2 or ?", what, third) end
  return false
end

-- Returns the bytes of a request.
local function encode(self, what, request, flags)
  local kind, lists = request.kind, request.lists
  if kind == "script" then return codec.script(request.text) end
  if kind == "batch" and request.requests then
    local list = {}
    for index, one in ipairs(request.requests) do list[index] = encode(self, what, one, flags) end
    return codec.batch(list)
  end
  if lists == nil then lists = self._lists end
  if lists then flags = flags | LISTS end
  if kind == "execute" then flags = flags | COUNTS elseif kind == "rows" then flags = flags | IN_LOTS end
  local most_rows = (kind == "row" or kind == "value") and 1 or 0
  local bytes, bad = codec.run(flags, request.max or self._max, most_rows, request.text, request, 1, request.count)
  if not bytes then shape.wrong_parameter(what, bad, request[bad]) end
  return bytes
end

--- Returns the bytes of a request that controls a transaction.
function connections.control(text) return codec.run(connections.CONTROLS | COUNTS, 1, 0, text, {}, 1, 0) end

-- Returns a failure; if the sandbox is the reason why a file cannot be opened, one that names the option.
local function explained(path, done, message, code, details)
  local cannot = not done and details and details.code == "SQLITE_CANTOPEN"
  if cannot then path = message:match "unable to open database: (/[^%z]*) %(SQLITE_CANTOPEN%)$" or path end
  local refused = cannot and path and (internals.refusal("read", path) or internals.refusal("write", path))
  if refused then return nil, ("EACCES: %s (%s)"):format(refused, path), "EACCES", details end
  return done, message, code, details
end

--- Carries out a request on a lease's connection, and returns what it gives.
function connections.perform(self, lease, what, request, flags)
  local reply, message, code = exchange(lease, encode(self, what, request, flags), what)
  if not reply then return nil, message, code end
  local kind = request.kind
  if kind ~= "script" then
    local first, second, third, details = read(self, what, request, reply, MODES[kind])
    if kind == "query" and first then return first, second end
    return explained(nil, first, second, third, details)
  end
  local done, problem, name, details = codec.reply(reply, "execute")
  if not done then return explained(nil, nil, problem, name, details) end
  return true
end

--- Returns the next rows of a cursor, the names of their columns, and the cursor if there are more.
function connections.next_lot(self, lease, what, state)
  local request = codec.lot(state.cursor, state.request.max or self._max)
  local reply, message, code = exchange(lease, request, what)
  if not reply then return nil, message, code end
  return read(self, what, state.request, reply, "query")
end

--- Closes a connection, and waits until its files are closed.
function connections.finish(connection)
  local _ <close> = setmetatable({}, { __close = function() connection:close() end })
  connection:run(codec.close(), "db:close")
end

--- Opens a connection of a database, and runs the statements of its `setup`.
function connections.open(self, flags)
  local thread, problem, code = native.connection()
  if not thread then return nil, problem, code end
  local connection
  local _ <close> = setmetatable({}, { __close = function() if not connection then thread:close() end end })
  local function ask(request)
    local reply, message, kind = thread:run(request, "sqlite.open")
    if not reply then return nil, message, kind end
    local first, second, third, details = codec.reply(reply, "execute")
    if first == false then raise("sqlite.open: setup: wrong parameters of a statement") end
    return first, second, third, details
  end
  local milliseconds = math.min(self._wait, 1e9) * 1000 // 1 | 0
  local done, message, kind, details = ask(codec.open(flags, milliseconds, self._path))
  for _, request in ipairs(done and self._setup or {}) do
    done, message, kind, details = ask(encode(self, "sqlite.open", request, connections.CONTROLS | COUNTS))
    if not done then break end
  end
  if not done then return explained(self._path, nil, message, kind, details) end
  connection = setmetatable({ thread = thread }, Connection)
  return connection
end

return connections
