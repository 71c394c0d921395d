-- runloop.data.shape: the common parts of databases: options of a call, parameters, rows, and the calls.

local system, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"

local type, select, pairs, setmetatable = type, select, pairs, setmetatable
local rawget, rawlen, getmetatable = rawget, rawlen, getmetatable
local error, utf8 = error, utf8
local format, math_type, running = string.format, math.type, coroutine.running
local raise, describe = misuse.raise, misuse.describe

local shape = {}

-- Calls under way -----------------------------------------------------------------------------------------------------

local label, begins, ends, mark = system.label, system.begins, system.ends, system.mark

-- A database has notes of its calls in its table `_notes`, by kind and text. A note is a table with the kind, the text,
-- the database, and the label in recordings. If a database has more notes than this number, it drops all of them.
local NOTES_KEPT = 1000

-- Returns a text such as `query "select 1" of postgres "orders"`.
local function title(kind, text, db)
  return format(text == "" and '%s%s of %s "%s"' or '%s "%s" of %s "%s"', kind, shape.short(text), db._is, db._name)
end

local function make_note(owner, kind, text)
  local notes = owner._notes
  if (notes.count or 0) >= NOTES_KEPT then
    notes = {}
    owner._notes = notes
  end
  local of_kind, it = notes[kind] or {}, { kind = kind, shown = text, owner = owner, label = false }
  notes[kind], of_kind[text], notes.count = of_kind, it, (notes.count or 0) + 1
  return it
end

-- Returns the note of a call.
local function note_of(owner, kind, text)
  local of_kind = owner._notes[kind]
  return of_kind and of_kind[text] or make_note(owner, kind, text)
end

-- Returns the label of a call in recordings.
local function label_of(it)
  if not it.label then it.label = label(title(it.kind, it.shown, it.owner)) end
  return it.label
end

-- For each coroutine that waits for a database: the note of its call, and the number of the call's record. If the note
-- has the field `since`, the time at which the call has begun, the number is in the note instead.
local calls, numbers = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })

-- Begins the record of a call. Returns the record's number; nil if nothing is recorded.
local function begin_record(it)
  local number = begins(it.label)
  if number ~= false then return number end
  return begins(label_of(it))
end

--- A value for <close>: ends the note that `shape.note` has begun. If the call's record has not ended by then, the call
--- has failed.
shape.NOTED = setmetatable({}, { __close = function()
  local task = running()
  local number = numbers[task] or calls[task].number
  calls[task] = nil
  if not number then return end
  numbers[task] = nil
  ends(number, 0, 0, nil, true)
end })
local NOTED = shape.NOTED

-- Does the same for a call whose record goes on.
local SHOWN = setmetatable({}, { __close = function() calls[running()] = nil end })

--- Notes, for rl.why() and the recorder, the statement for which the calling task is going to wait; "" if there is only
--- a kind. Returns the number of the record, for `shape.ended`; nil if nothing is recorded.
function shape.note(self, kind, text)
  local it, task = note_of(self._db or self, kind, text), running()
  calls[task] = it
  local number = begin_record(it)
  if number then numbers[task] = number end
  return number
end

--- The functions that begin and end a record.
shape.begins, shape.ends = begins, ends

--- Does the same as `shape.note`, but keeps the note in a request, and counts the time from now. `is_recorded`: whether
--- the connection records the call.
function shape.note_request(self, request, kind, text, is_recorded)
  local owner, number = self._db or self, nil
  if not is_recorded then number = begin_record(note_of(owner, kind, text)) end
  request.shown, request.kind, request.owner, request.since = text, kind, owner, rl.now()
  request.number, request.waited = number, 0
  calls[running()] = request
end
local note = shape.note_request

--- Returns the label of a call in recordings, for a database that records its calls by itself.
function shape.label(self, kind, text) return label_of(note_of(self._db or self, kind, text)) end

--- Notes that a request waited for a connection until now.
function shape.got_connection(request) request.waited = rl.now() - request.since end

-- How the recorder counts the rows of a result. COUNT: the result is the number. LIST: the length of a list. ONE: 1 for
-- any value. ANSWER: the length of a list, 1 for another value.
local COUNT, LIST, ONE, ANSWER = 0, 1, 2, 3
local COUNTS = { query = LIST, row = ONE, value = ONE, call = ANSWER, answers = LIST }

--- Ends the record of a call that was noted, and returns the results without the nils at their end. A call that has
--- failed returns nil and the reason. `waited`: the seconds for which it waited for a connection. The kinds "call" and
--- "answers" are for answers of Redis.
function shape.ended(number, kind, waited, first, second, third, fourth)
  if number then
    numbers[running()] = nil
    ends(number, COUNTS[kind] or COUNT, waited, first, first == nil and second ~= nil)
  end
  return shape.trim(first, second, third, fourth)
end

--- Does the same for a request.
function shape.end_request(request, kind, first, second, third, fourth)
  local number = request.number
  if number then
    request.number = false
    local rows = first
    if kind == "batch" and first then
      rows = 0
      for _, one in pairs(first) do rows = rows + (type(one) == "table" and rawlen(one) or one) end
    end
    ends(number, COUNTS[kind] or COUNT, request.waited, rows, first == nil and second ~= nil)
  end
  return shape.trim(first, second, third, fourth)
end
local ended = shape.end_request

--- Counts a connection that was lost, and records it.
function shape.lost(db)
  db._lost = db._lost + 1
  if mark() == nil then return end
  mark(label(format('connection of %s "%s" was lost', db._is, db._name)))
end

-- Another module may have set such a function before; call that function for the waits of its module.
local other_call = internals.call_of

--- A driver whose calls may wait without a note sets this function. It returns the kind and the text of the call in
--- which a coroutine waits, and the database; nothing if there is none.
function shape.unnoted_call() end

--- Returns a text about the database call that a coroutine waits for, without the values of parameters; nil if there is
--- none. `seconds`: how long the coroutine has waited.
function internals.call_of(task, seconds)
  local call = calls[task]
  if not call then
    local kind, text, db = shape.unnoted_call(task)
    if kind then return shape.show_call(kind, text, db, seconds) end
    return other_call and other_call(task, seconds)
  end
  return shape.show_call(call.kind, call.shown, call.owner, call.since and rl.now() - call.since or seconds)
end

--- Returns the description of a call.
function shape.show_call(kind, text, db, seconds) return format("%s (for %.1f s)", title(kind, text, db), seconds) end

-- Requests ------------------------------------------------------------------------------------------------------------

local CALL = { timeout = "seconds", nulls = "boolean", lists = "boolean", max = "positive" }
local BATCH = { timeout = "seconds" }

--- The limit for the bytes of a call's rows.
shape.MAX = 64 << 20

-- A request is a table: `kind`, `text`, the parameters at 1 to `count`, and the options of the call.

-- Reads the table form: the text, then the parameters, with options as named fields. The largest index is the number of
-- parameters, so that a parameter may be nil.
local function from_table(what, kind, given)
  local request, most, named = { kind = kind }, 1, {}
  for key, value in pairs(given) do
    if math_type(key) == "integer" and key >= 1 then
      if key > most then most = key end
      if key > 1 then request[key - 1] = value end
    else
      named[key] = value
    end
  end
  misuse.fields(named, CALL, what)
  request.text, request.count = given[1], most - 1
  for name, value in pairs(named) do request[name] = value end
  return request
end

--- Makes the request of a call such as `db:query(sql, …)` or `db:query { sql, …, timeout = 2 }`.
function shape.request(what, kind, text, ...)
  local request
  if type(text) == "table" then
    if select("#", ...) > 0 then raise("%s: nothing may follow a table: put the parameters into it", what) end
    request = from_table(what, kind, text)
  else
    -- The table has room from the beginning for the fields that `shape.note_request` sets. A table that ends with `...`
    -- allocates its memory twice.
    local count, first, second = select("#", ...), ...
    request = {
      kind = kind, count = count, text = text, shown = text, owner = false, since = 0, number = false, waited = 0,
      first, second,
    }
    for i = 3, count do request[i] = (select(i, ...)) end
  end
  if type(request.text) ~= "string" then
    raise("%s: argument #1 must be a text, or a table that begins with one, got %s", what, describe(request.text))
  end
  return request
end

--- Makes the requests of `db:batch { { sql, … }, …, timeout = 2 }`. Returns the requests, and the time limit.
function shape.requests(what, list)
  misuse.argument(list, "table", what, 1)
  local requests, named = {}, nil
  for key, value in pairs(list) do
    if math_type(key) ~= "integer" then
      named = named or {}
      named[key] = value
    end
  end
  if named then misuse.fields(named, BATCH, what) end
  for index = 1, rawlen(list) do
    local one = list[index]
    if type(one) == "string" then one = { one } end
    if type(one) ~= "table" or type(one[1]) ~= "string" then
      raise("%s: entry %d must be a list that begins with a text, got %s", what, index, describe(one))
    end
    requests[index] = from_table(what, "batch", one)
    if one.timeout then raise("%s: entry %d has a timeout: a batch has one for all its statements", what, index) end
  end
  if #requests == 0 then raise("%s: argument #1 must have an entry, got an empty list", what) end
  return requests, named and named.timeout
end

-- Parameters ----------------------------------------------------------------------------------------------------------

--- The class of binary parameters; their bytes are at 1.
shape.Bytes = { __name = "bytes" }

--- Returns a function `module.bytes`, which marks a string as binary.
function shape.bytes_function(what)
  return function(text)
    misuse.argument(text, "string", what, 1)
    return setmetatable({ text }, shape.Bytes)
  end
end

--- Returns a function `module.json`, which makes the JSON text of a value.
function shape.json_function(what)
  return function(value)
    local text, message = require "runloop.json".encode(value)
    if not text then raise("%s: %s", what, message) end
    return text
  end
end

--- Raises an error for a parameter that no database can store.
function shape.wrong_parameter(what, index, value)
  local remedy = type(value) == "table" and ": json() makes a text of a table"
    or value ~= value and ": NaN cannot be stored" or ""
  raise("%s: parameter %d must be a string, a number, a boolean or nil, got %s%s", what, index, describe(value), remedy)
end

--- Raises an error for a wrong number of parameters.
function shape.wrong_count(what, wanted, got)
  raise("%s: the statement has %d parameter%s, got %d", what, wanted, wanted == 1 and "" or "s", got)
end

--- Returns the name of a call with the number of a batch's entry.
function shape.entry(what, index) return format("%s: entry %d", what, index) end

--- Raises for two columns of one name.
function shape.two_columns(what, name)
  raise("%s: two columns are called '%s': name them with 'as', or ask for lists = true", what, name)
end

-- Sessions ------------------------------------------------------------------------------------------------------------

-- The iterator of `rows`. `steps.open_rows(self, what, request)` and `steps.next_rows(self, what, state)` return the
-- state and the next rows. Without a state, these rows are the last ones. On failure, both functions return nil, nil,
-- and the reason.
local function iterate(self, what, request, steps)
  local state, lot, place = nil, nil, 0
  local is_last, limit = false, request.timeout or self._timeout
  local count, has_begun = 0, false
  -- The limit is for each wait alone, since the body of the loop also takes time.
  local function wait(fn, argument)
    if not limit then return fn(self, what, argument) end
    request.task = running()
    local is_done, first, second, third = rl.timeout(limit, fn, self, what, argument)
    if is_done then return first, second, third end
    return nil, nil, first
  end
  local function stop(message)
    is_last = true
    if state then steps.close_rows(self, state) end
    state = nil
    ended(request, "rows", not message and count or nil, message)
  end
  local function step()
    while not lot or lot[place + 1] == nil do
      if is_last then return stop() end
      local before, message = state, nil
      if has_begun then
        calls[running()], request.since = request, rl.now()
      else
        has_begun = true
        note(self, request, "rows", request.text)
      end
      local _ <close> = SHOWN
      -- The call cleans up by itself if it fails.
      state = nil
      if before then
        state, lot, message = wait(steps.next_rows, before)
      else
        state, lot, message = wait(steps.open_rows, request)
      end
      is_last, place = not state, 0
      if not lot then
        stop(message)
        error(message, 0)
      end
      count = count + #lot
    end
    place = place + 1
    return lot[place]
  end
  return step, nil, nil, setmetatable({}, { __close = function() stop() end })
end

--- Returns results without the nils at their end: a call without a result returns nil alone.
function shape.trim(first, second, third, fourth)
  if fourth ~= nil then return first, second, third, fourth end
  if third ~= nil then return first, second, third end
  if second ~= nil then return first, second end
  return first
end

local trim = shape.trim

-- Returns the results of a call with a time limit.
local function in_time(is_done, first, second, third, fourth)
  if is_done then return trim(first, second, third, fourth) end
  return nil, first
end

--- Returns what a function returns, or nil and "timed out" if it has not returned after some seconds. nil: no limit.
function shape.within(seconds, fn, ...)
  if seconds then return in_time(rl.timeout(seconds, fn, ...)) end
  return fn(...)
end
local within = shape.within

--- Gives a class the calls that ask the database. `noun` is "db", "tx" or "connection" in messages. `calls` has
--- `perform(self, what, request)`, which waits and returns the results, and the functions of `iterate`. A request with
--- a time limit runs in a task of its own, which is cancelled when the time is over. If there is
--- `quick(self, what, kind, text, …)`, it serves calls without options, and has to call `note` itself. If `is_recorded`
--- is true, calls other than `rows` are recorded by their connections.
function shape.session(class, noun, calls)
  local perform, quick, is_recorded = calls.perform, calls.quick, calls.is_recorded
  local function run(self, what, request)
    local kind, text = request.kind, request.text or request.requests[1].text
    note(self, request, kind, text, is_recorded)
    local _ <close> = NOTED
    local limit = request.timeout or self._timeout
    if not limit then return ended(request, kind, perform(self, what, request)) end
    request.task = running()
    return ended(request, kind, within(limit, perform, self, what, request))
  end
  for _, kind in pairs { "query", "row", "value", "execute" } do
    local what = noun .. ":" .. kind
    class[kind] = function(self, text, ...)
      if getmetatable(self) ~= class then misuse.receiver(self, class, what) end
      if quick and type(text) == "string" and not self._timeout then return trim(quick(self, what, kind, text, ...)) end
      return run(self, what, shape.request(what, kind, text, ...))
    end
  end
  local rows, batch, script = noun .. ":rows", noun .. ":batch", noun .. ":script"
  function class:rows(text, ...)
    misuse.receiver(self, class, rows)
    return iterate(self, rows, shape.request(rows, "rows", text, ...), calls)
  end
  function class:batch(list)
    misuse.receiver(self, class, batch)
    local requests, timeout = shape.requests(batch, list)
    return run(self, batch, { kind = "batch", requests = requests, count = 0, timeout = timeout })
  end
  function class:script(text)
    misuse.receiver(self, class, script)
    misuse.argument(text, "string", script, 1)
    return run(self, script, { kind = "script", text = text, count = 0 })
  end
end

-- The open databases. The test runner reports the databases that a test leaves open.
local open = setmetatable({}, { __mode = "k" })
internals.databases = open

--- Notes that a database is open. Returns it.
function shape.opened(db)
  open[db] = true
  return db
end

--- Adds the methods that all databases have: `close`, `is_open`, `name` and `tostring`. `close(self, timeout)` waits;
--- `close_later(self)`, or a background task that closes, serves `<close>` and collection.
function shape.database(class, kind, close, close_later)
  class._is = kind
  close_later = close_later or function(self)
    if not self._is_closed then shape.background(close, self) end
  end
  function class:close(timeout)
    misuse.receiver(self, class, "db:close")
    misuse.optional(timeout, "seconds", "db:close", 1)
    open[self] = nil
    return close(self, timeout)
  end
  function class:is_open() return not misuse.receiver(self, class, "db:is_open")._is_closed end
  function class:name() return misuse.receiver(self, class, "db:name")._name end
  function class:__tostring()
    return format("%s database %q (%s, %s)", kind, self._name, self._is_closed and "closed" or "open", self._made_at)
  end
  local function leave(self)
    open[self] = nil
    close_later(self)
  end
  class.__close, class.__gc = leave, leave
end

--- Returns the refusal of a transaction that is over: `how` is a text such as "committed at app.lua:12".
function shape.over(how)
  if how == "closed" then return nil, "ENOTCONN: the connection is closed", "ENOTCONN" end
  return nil, format("ENOTCONN: the transaction is over (%s)", how), "ENOTCONN"
end

--- Returns whether time is virtual. The clock of a test does not jump while a loop waits for data of a real server. So
--- in virtual time, no code may wait for data on a connection that is not in use.
function shape.is_virtual()
  local clock = rawget(rl, "clock")
  return clock ~= nil and clock._is_virtual()
end

--- Runs a function in the background: no task waits for it, and it does not keep the loop running.
function shape.background(...)
  local task = { ... }
  task.keeps_alive = false
  return rl.task(task)
end

--- Returns the first 80 characters of a statement, on one line.
function shape.short(text)
  text = text:gsub("%s+", " ")
  return #text > 80 and text:sub(1, (utf8.offset(text, 0, 80) or 80) - 1) .. "…" or text
end

return shape
