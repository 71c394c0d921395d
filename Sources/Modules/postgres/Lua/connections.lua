-- runloop.postgres.connections: one connection: sends statements, reads answers, and ends a statement whose task was
-- cancelled.

local binding = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"
local failures = require "runloop.postgres.failures"
local native = require "runloop.postgres.addresses".native

local setmetatable, ipairs, pairs, next = setmetatable, ipairs, pairs, next
local wait_readable, wait_writable = rl.wait_readable, rl.wait_writable
local raise, format, huge, now = misuse.raise, string.format, math.maxinteger, rl.now
local refusal, lost, own, wrong_count = failures.refusal, failures.lost, failures.own, failures.wrong_count
local texts = require "runloop.postgres.texts"

local connections = {}

-- Seconds to wait for the end of a cancelled statement before its connection is closed.
local PATIENCE = 2
-- How often, and for how many seconds, an unwanted answer is read before its statement is cancelled.
local GENTLE_READS, GENTLE_SECONDS = 3, 0.02
local KEPT = 100
local MOST_PARAMETERS = 65535

local Connection = {}
Connection.__index = Connection

-- The connections that are not closed. A database that is collected closes its connections, so that their parts must
-- not be collected with it.
local alive = {}

function Connection:close()
  if self.is_closed then return end
  self.is_closed, alive[self] = true, nil
  if self.port then self.port:invalidate() end
  if self.watch then self.watch:invalidate() end
  self.box:close()
end

-- Called by the connection pool (runloop.data.places). Returns the coroutine that waits in a quick call on this
-- connection, and marks the call as having a lease. Returns nil if there is no quick call.
function Connection:claim() return self.box:claim() end

--- Returns when the connection was last used.
function Connection:last_use() return math.max(self.since, self.box:used()) end

-- Receiving -----------------------------------------------------------------------------------------------------------

local function fresh() return { rows = {}, names = {} } end

-- Waits until a connection has input. `state`: the state of the answer, see `cpostgres_poll` in private.h.
local function wait(connection, state)
  local watch = connection.watch
  if watch then watch:wait(state == "unread") else wait_readable(connection.fd) end
end

-- Sends the bytes in libpq's queue; `left`: the result of an earlier `flush`. Returns false if the connection is lost.
local function flush(connection, left)
  local box = connection.box
  left = left or box:flush()
  while left == 1 do
    -- The server may wait for us to read: `flush` also reads available input.
    wait_writable(connection.fd, 0.02)
    left = box:flush()
  end
  return left == 0
end

-- Waits for the state of an answer: see `cpostgres_poll` in private.h. If `each` is set, `most` is for each row; if
-- `each` is true, some rows are enough. `state`: the result of the last `poll`, or "more" if the answer cannot be there
-- yet.
local function receive(connection, answer, lists, nulls, most, keep, each, state)
  local box = connection.box
  if not state then state = box:poll(answer, lists, nulls, most, keep, each) end
  while (state == "more" or state == "unread") and not (each == true and #answer.rows > 0) do
    wait(connection, state)
    state = box:poll(answer, lists, nulls, most, keep, each)
  end
  return state
end

-- Reads and drops the rest of an answer. With `is_gentle`, gives up and returns nil if the rest is large or takes long.
-- Returns whether the connection can be used again.
local function forget(connection, is_gentle)
  local box, reads = connection.box, 0
  if connection.is_unsynced then
    -- A batch that has not ended is rolled back by an error.
    connection.is_unsynced = false
    if not box:send("this batch is rolled back", {}, 0) or not box:sync() then return false end
  end
  if not flush(connection) then return false end
  while true do
    -- libpq reads some ten kilobytes at a time.
    if is_gentle and reads > GENTLE_READS then return nil end
    local state = box:poll(fresh(), true, false, huge, 0)
    if state == "copy" or state == "lost" then return false end
    if state == "more" or state == "unread" then
      reads = reads + 1
      if not wait_readable(connection.fd, is_gentle and GENTLE_SECONDS or nil) then return nil end
    end
    if state == "synced" then connection.is_pipeline = not box:pipeline(false) end
    if state == "done" and not connection.is_pipeline then return box:stands() end
  end
end

-- The largest number of cancel requests that a database sends at once. libpq 15 waits until the server accepts one. If
-- the server is paused, that may take long, so cancel requests must not use all threads.
local MOST_CANCELS = 2

-- Asks the server to end the running statement. The request continues even if its task no longer waits.
local function cancel(lease)
  local places, connection, done = lease.places, lease.connection, rl.future()
  places.cancels = places.cancels or rl.mutex(MOST_CANCELS)
  shape.background(function()
    local _ <close> = places.cancels:lock()
    if not connection.is_closed then binding.cancel(connection.box) end
    done:complete(true)
  end)
  done:await()
end

-- Ends the running statement of a connection, and reads its answer, within the remaining time. Returns whether the
-- connection can be used again.
local function settle(lease, is_gentle)
  local connection = lease.connection
  local done, is_good = rl.timeout(PATIENCE, function()
    if is_gentle then
      local gentle = forget(connection, true)
      if gentle ~= nil then return gentle end
    end
    cancel(lease)
    if not forget(connection) then return false end
    -- If a pooler is in between, the request to cancel may arrive after the answer: an empty query absorbs it.
    connection.box:simple ""
    return forget(connection)
  end)
  return done and is_good
end

-- Leases --------------------------------------------------------------------------------------------------------------

-- Cleans up, in the background, the state that a task has left on a connection. The next use of the lease waits until
-- this is done.
local function drain(lease, is_gentle)
  if lease.draining then return end
  local done = rl.future()
  lease.draining = done
  lease.is_busy = false
  lease.places.cancelled = lease.places.cancelled + 1
  shape.background(function()
    local _ <close> = setmetatable({}, { __close = function()
      lease.draining = false
      done:complete(true)
    end })
    if not settle(lease, is_gentle) then lease.connection.is_lost = true end
  end)
end
connections.drain = drain

local Guard = { __close = function(self) if self.lease.is_busy then drain(self.lease) end end }

-- Returns an object for <close>, which ends the statement of a task that was cancelled while it waited.
local function guard_of(lease)
  local connection = lease.connection
  local guard = connection.guard
  if not guard then
    guard = setmetatable({}, Guard)
    connection.guard = guard
  end
  guard.lease = lease
  return guard
end

local function wait_until_drained(lease)
  while lease.draining do lease.draining:await() end
end

-- Sets the watch of a connection, or false. The functions in C read the numbered fields.
local function set_watch(connection, watch)
  connection.watch, connection[3], connection[4] = watch, watch, watch and watch.wait
end

-- Gives the connection back, or closes it if no other task may use it.
local function return_it(lease)
  local connection, places = lease.connection, lease.places
  if connection.is_lost or connection.is_own or not connection.box:is_idle() then return lease:drop() end
  if connection.watch and shape.is_virtual() then
    connection.watch:invalidate()
    set_watch(connection, false)
  end
  local time, owner = now(), connection.owner[1]
  connection.since = time
  places:take_back(lease)
  if owner then owner._on_give(time, connection) end
end

--- Gives a lease back, after a last statement if there is one; in the background if it has to wait for the statement.
function connections.give(lease, last)
  if lease.is_busy then drain(lease) end
  if not lease.draining and not last then return return_it(lease) end
  shape.background(function()
    local _ <close> = setmetatable({}, { __close = function() return_it(lease) end })
    wait_until_drained(lease)
    if last and not lease.connection.is_lost then
      local is_in_time = rl.timeout(PATIENCE, connections.control, lease, last)
      if not is_in_time then lease.connection.is_lost = true end
      wait_until_drained(lease)
    end
  end)
end

-- Statements ----------------------------------------------------------------------------------------------------------

local function is_lost_by(failure) return failure.lost or failure.severity == "FATAL" or failure.severity == "PANIC" end

-- Returns the refusal for an answer's failure.
local function refuse(connection, failure, during, index)
  if not is_lost_by(failure) then return refusal(failure, index) end
  connection.is_lost = true
  if failure.lost then return lost(failure.lost, during) end
  local code = failures.code(failure.code or "")
  if code ~= "ECONNRESET" then return refusal(failure, index) end
  local _, message = lost(format("%s (%s)", failure.message, failure.code), during)
  return nil, message, code, { code = failure.code, severity = failure.severity, index = index }
end

local function lose(connection, during)
  connection.is_lost = true
  return lost(connection.box:message(), during)
end

-- Sends a simple query and waits for its end. Returns the query's answer, or nil and the refusal.
local function simply(lease, text, during)
  local connection = lease.connection
  wait_until_drained(lease)
  if connection.is_lost then return lose(connection, during) end
  local answer = fresh()
  lease.is_busy = true
  local _ <close> = guard_of(lease)
  local state = connection.box:simple(text) and flush(connection)
    and receive(connection, answer, true, false, huge, 1) or "lost"
  lease.is_busy = false
  if state == "copy" then
    connection.is_lost = true
    return own("EINVAL", "the text begins a copy: it must not contain copy", "0A000")
  end
  if answer.failure then return refuse(connection, answer.failure, during) end
  if state == "lost" then return lose(connection, during) end
  return answer
end

connections.simply = simply

--- Runs a statement that controls a transaction. Returns the statement's answer, or nil and the refusal.
function connections.control(lease, text) return simply(lease, text, text:match "^%a+":upper()) end

--- Runs the statements of a text.
function connections.script(lease, request)
  local text = request.text
  if text:find("\0", 1, true) then return own("EINVAL", "the script has a zero byte", "42601") end
  local word = texts.refused(text, lease.connection.box:parameter "standard_conforming_strings" == "off")
  if word then return failures.not_in("script", word) end
  local answer, message, code, details = simply(lease, text, "the script")
  if not answer then return nil, message, code, details end
  return true
end

-- Names of prepared statements differ between processes, as poolers share connections.
local prefix = format("rl_%x_", math.random(0, huge) ~ (rl.now() * 1e6 // 1 | 0))
local names = 0

-- Forgets the least recently used prepared statement.
local function evict(connection)
  local oldest
  for _, one in next, connection.prepared do if not oldest or one[2] < oldest[2] then oldest = one end end
  connection.prepared[oldest.text] = nil
  connection.prepared_count = connection.prepared_count - 1
  connection.box:simple("deallocate " .. oldest[1])
  return flush(connection) and receive(connection, fresh(), true, false, huge, 0) == "done"
end

-- Whether the text of a statement has occurred before. The list of texts is emptied at 1000 texts.
local function is_known(self, text)
  if self._texts[text] then return true end
  if self._texts_count >= 1000 then self._texts, self._texts_count = {}, 0 end
  self._texts[text], self._texts_count = true, self._texts_count + 1
  return false
end

local function has_bytes(request)
  for i = 1, request.count do
    if getmetatable(request[i]) == shape.Bytes then return true end
  end
  return false
end

-- Returns the name of the prepared statement for a text; nil to send the text itself. A text is prepared from its
-- second use on. If the server refuses: nil, and the answer with the refusal.
local function statement_for(self, connection, request)
  local db, text = self._db or self, request.text
  if not db._prepare or db._is_pooled and not connection.box:is_idle() then return nil end
  local one = connection.prepared[text]
  if not one then
    if not is_known(db, text) or has_bytes(request) then return nil end
    if connection.prepared_count >= KEPT and not evict(connection) then return nil, { state = "lost" } end
    names = names + 1
    -- The name and the last use, which the functions in C read, too.
    one = { prefix .. names, 0, text = text }
    local answer = fresh()
    local state = connection.box:prepare(one[1], text) and flush(connection)
      and receive(connection, answer, true, false, huge, 0) or "lost"
    if answer.failure or state ~= "done" then return nil, answer, state end
    connection.prepared[text] = one
    connection.prepared_count = connection.prepared_count + 1
  end
  one[2] = connection.box:use()
  return one[1]
end

-- Refusals that show that the server's prepared statements differ from ours.
local STALE = { ["26000"] = true, ["42P05"] = true, ["08P01"] = true, ["0A000"] = true }

local function is_stale(request, failure, state)
  return failure and STALE[failure.code] and state == "done" and not is_lost_by(failure)
    and not wrong_count(failure, request.count)
end

local function note_stale(self, connection, text, state)
  local db = self._db or self
  if connection.prepared[text] then
    connection.prepared[text], connection.prepared_count = nil, connection.prepared_count - 1
  end
  if state == "0A000" then return end
  db._stale = db._stale + 1
  if db._stale == 3 then
    db._prepare = false
    db[1]:stop()
    warn(format("postgres %s: a pooler loses prepared statements; from now on they are sent as text", db._name))
  end
end

-- The number of rows that some kinds of calls keep; all other kinds keep every row.
local KEEPS = { row = 1, value = 1, execute = 0 }

local function options_of(self, request)
  local lists, nulls = request.lists, request.nulls
  if lists == nil then lists = self._lists end
  if nulls == nil then nulls = self._nulls end
  local kind = request.kind
  return lists or kind == "value" or kind == "execute", nulls, (request.max or self._max) // 1 | 0, KEEPS[kind] or huge
end

local function wrong_parameter(what, request, bad)
  local value = request[bad]
  if type(value) == "string" then raise("%s: parameter %d has a zero byte: bytes() makes it binary", what, bad) end
  shape.wrong_parameter(what, bad, value)
end

-- Raises an error, or returns a refusal, for a request that cannot be sent. `is_known`: the text was sent before, and
-- the parameters are checked when they are sent. `index`: the request's number in a batch.
local function check_request(what, request, is_known, index)
  if request.count > MOST_PARAMETERS then
    local text = format("a statement has at most %d parameters, not %d", MOST_PARAMETERS, request.count)
    return own("EINVAL", text, "54023")
  end
  if is_known then return true end
  local bad = request.count > 0 and native.check(request, request.count)
  if bad then wrong_parameter(index and shape.entry(what, index) or what, request, bad) end
  if request.text:find("\0", 1, true) then return own("EINVAL", "the text has a zero byte", "42601") end
  return true
end

-- Raises an error if the server reports a wrong number of parameters.
local function check_count(what, request, failure)
  local wanted, got = wrong_count(failure, request.count)
  if wanted then shape.wrong_count(what, wanted, got) end
end

-- Returns the table for an answer. A table for one value or a count has no rows.
local function answer_for(kind) return kind ~= "value" and kind ~= "execute" and fresh() or {} end

-- Returns the results that an answer without a problem has for a kind of call.
local function results_of(kind, answer)
  if kind == "query" then return answer.rows, answer.names end
  if kind == "execute" then return answer.count or 0 end
  if answer.rows then return answer.rows[1] end
  return answer.value
end

-- Sends a statement once. Returns the empty table for its answer, the state for `receive`, and whether it has a name.
local function ask(self, lease, what, request, is_plain)
  local connection, answer = lease.connection, nil
  local box, name, state = connection.box, nil, nil
  if not is_plain then
    name, answer, state = statement_for(self, connection, request)
    if answer then return answer, answer.state or state, true end
  end
  answer = answer_for(request.kind)
  local is_sent, bad = box:send(request.text, request, request.count, name)
  if bad then
    lease.is_busy = false
    wrong_parameter(what, request, bad)
  end
  if not is_sent then return answer, "lost" end
  local left = box:start()
  if left == 0 then return answer, "more", name ~= nil end
  if not flush(connection, left) then return answer, "lost" end
  return answer, nil, name ~= nil
end

-- Returns the problem of an answer; nothing if there is none.
local function problem(what, lease, request, answer, state)
  local connection = lease.connection
  if answer.twice then
    if state == "stopped" then drain(lease) end
    shape.two_columns(what, answer.twice)
  end
  if answer.is_too_large then
    drain(lease)
    local what_else = request.kind == "rows" and "use a greater max" or "use rows(), or a greater max"
    return own("EMSGSIZE", format("the answer has more bytes than max: %s", what_else))
  end
  if state == "copy" then
    connection.is_lost = true
    return own("EINVAL", "a copy needs a source or a sink, which a query has not", "0A000")
  end
  if answer.failure then
    check_count(what, request, answer.failure)
    return refuse(connection, answer.failure, shape.short(request.text))
  end
  if state == "lost" then return lose(connection, shape.short(request.text)) end
  if answer.is_empty then return own("EINVAL", "the text has no statement", "42601") end
end

-- Sends a stale statement once more, as text. Returns its answer, and the state.
local function ask_as_text(self, lease, what, request, stale, each)
  local connection = lease.connection
  note_stale(self, connection, request.text, stale.code)
  local answer, state = ask(self, lease, what, request, true)
  if state and state ~= "more" then return answer, state end
  local lists, nulls, most, keep = options_of(self, request)
  return answer, receive(connection, answer, lists, nulls, most, keep, each, state)
end

-- Sends a statement, and waits for its answer, or for the first rows of it: see `receive`. A statement that the server
-- has forgotten or never knew is then sent once as text.
local function exchange(self, lease, what, request, each)
  local connection, box = lease.connection, lease.connection.box
  if lease.draining then wait_until_drained(lease) end
  if connection.is_lost then return nil, lose(connection, shape.short(request.text)) end
  -- Only transactions have a field `_lease`.
  local own_lease = self._lease
  local was_idle = not own_lease or box:is_idle()
  local lists, nulls, most, keep = options_of(self, request)
  lease.is_busy = true
  local _ <close> = own_lease and guard_of(lease)
  local answer, state, is_named = ask(self, lease, what, request)
  if not state or state == "more" then
    state = receive(connection, answer, lists, nulls, most, keep, each, state)
  end
  if is_named and was_idle and is_stale(request, answer.failure, state) then
    answer, state = ask_as_text(self, lease, what, request, answer.failure, each)
  end
  lease.is_busy = false
  return answer, state
end

local parts = {
  flush = flush, receive = receive, fresh = fresh, guard_of = guard_of, wait_until_drained = wait_until_drained,
  refuse = refuse, lose = lose, check_request = check_request, options_of = options_of, problem = problem,
  ask_as_text = ask_as_text, is_stale = is_stale, return_it = return_it, results_of = results_of, alive = alive,
  give = connections.give,
}
local copy = require "runloop.postgres.copies"(parts)
connections.batch = require "runloop.postgres.batches"(parts)

local CONTROLS = "a transaction is ended by commit() or rollback(), and begin() makes a savepoint"

--- Performs a request on a lease's connection, and returns its results.
function connections.perform(self, lease, what, request)
  local kind = request.kind
  if kind == "script" then return connections.script(lease, request) end
  if request.requests then return connections.batch(self, lease, what, request) end
  if kind == "copy" then return copy(lease, what, request) end
  local text = request.text
  local is_known = lease.connection.prepared[text]
  if not is_known and self._depth and texts.is_control(text) then return own("EINVAL", CONTROLS, "25000") end
  local good, message, code, details = check_request(what, request, is_known)
  if not good then return nil, message, code, details end
  local answer, state, third, fourth = exchange(self, lease, what, request, request.is_lot and "lot")
  if not answer then return nil, third, fourth end
  if state ~= "done" or answer.failure or answer.twice or answer.is_empty then
    return problem(what, lease, request, answer, state)
  end
  return results_of(kind, answer)
end

local quick = require "runloop.postgres.quick"(native, parts)
connections.finish, connections.quick, connections.pool = quick.finish, quick.method, quick.pool

-- Rows as they come ---------------------------------------------------------------------------------------------------

-- Converts the received rows to the form that `iterate` of shape expects.
local function lot_of(what, lease, request, answer, state)
  local rows = answer.rows
  answer.rows = {}
  if state == "more" or state == "unread" then
    lease.is_open = true
    return { lease = lease, request = request, answer = answer, input = state }, rows
  end
  lease.is_open = nil
  if state == "done" and not (answer.failure or answer.twice or answer.is_empty) then return nil, rows end
  return nil, nil, select(2, problem(what, lease, request, answer, state))
end

--- Sends a statement whose rows are returned as they arrive. Returns a state and rows; or nil, nil and a message.
function connections.open_rows(self, lease, what, request)
  local good, message = check_request(what, request)
  if not good then return nil, nil, message end
  local answer, state, third = exchange(self, lease, what, request, true)
  if not answer then return nil, nil, third end
  return lot_of(what, lease, request, answer, state)
end

--- Returns the next rows, as `open_rows`.
function connections.next_rows(self, what, open)
  local lease, request, answer = open.lease, open.request, open.answer
  local lists, nulls, most, keep = options_of(self, request)
  lease.is_busy = true
  local _ <close> = guard_of(lease)
  local state = receive(lease.connection, answer, lists, nulls, most, keep, true, open.input)
  lease.is_busy = false
  return lot_of(what, lease, request, answer, state)
end

-- Connecting ----------------------------------------------------------------------------------------------------------

-- Sets the connection up for this module, and runs `setup`.
local function set_up(self, lease)
  local box = lease.connection.box
  if not (box:parameter "DateStyle" or "ISO"):find "^ISO" then
    local done, message, code, details = connections.control(lease, "set datestyle = 'ISO'")
    if not done then return nil, message, code, details end
  end
  if self._is_pooled == nil then
    local answer, message, code, details = connections.control(lease, "select pg_backend_pid()")
    if not answer then return nil, message, code, details end
    self._is_pooled = answer.rows[1][1] ~= box:process()
  end
  if not self._setup then return true end
  return connections.batch(self, lease, "postgres.open", { requests = self._setup })
end

-- Connects and sets up, without a time limit.
local function make(self, words)
  local keys, values = {}, {}
  for key, value in pairs(words) do keys[#keys + 1], values[#values + 1] = key, value end
  local box = native.make(keys, values, self._connect_timeout)
  local connection
  local _ <close> = setmetatable({}, { __close = function() if not connection then box:close() end end })
  local _, message, code = binding.connect(box)
  if code then return nil, message, code end
  local failed = box:failure()
  if failed then return failures.unconnected(failed) end
  local made = setmetatable({
    -- The functions in C read the numbered fields: see `set_watch`.
    box, {}, false, false, box = box, fd = box:descriptor(), prepared = {}, prepared_count = 0, since = now(),
    owner = self._weak, pool = self[1],
    -- Absent fields are looked up in the class.
    is_lost = false, is_own = false, is_pipeline = false, is_unsynced = false, is_closed = false, port = false,
    watch = false, guard = false,
    expires = rl.now() + 3600 * (0.9 + 0.2 * math.random()),
  }, Connection)
  made[2] = made.prepared
  box:belongs(made)
  local look_at = self._look_at
  if not shape.is_virtual() and not self._fake then
    set_watch(made, binding.watch(made.fd, function()
      if alive[made] and not made.is_own then look_at(made) end
    end))
  end
  local lease = { connection = made, places = { cancelled = 0 } }
  local done, problem_text, problem_code, details = set_up(self, lease)
  if not done then return nil, problem_text, problem_code, details end
  connection, alive[made] = made, true
  return made
end

--- Opens a connection of a database, within its `connect_timeout`.
function connections.open(self, words)
  local function in_time(is_done, ...)
    if is_done then return ... end
    return nil, "timed out"
  end
  return in_time(rl.timeout(self._connect_timeout, make, self, words))
end

return connections
