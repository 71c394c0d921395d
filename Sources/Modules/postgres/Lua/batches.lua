-- runloop.postgres.batches: statements in one round trip, as one transaction.
--
-- Two columns of one name, or too many bytes, are errors that only the client finds, when the answers arrive. A batch
-- that may cause such an error waits for all answers before it ends the transaction, which takes a second round trip. A
-- statement whose columns are known to have different names does not need that.

local shape = require "runloop.data.shape"
local failures = require "runloop.postgres.failures"
local texts = require "runloop.postgres.texts"

local ipairs, huge = ipairs, math.maxinteger

-- The largest number of statement texts in `_checked`.
local MOST_CHECKED = 1000

return function(parts)
  local flush, receive, fresh, problem = parts.flush, parts.receive, parts.fresh, parts.problem

  -- Notes that a batch may contain a text, and that its columns have different names.
  local function note_checked(db, text)
    if db._checked[text] then return end
    if db._checked_count >= MOST_CHECKED then db._checked, db._checked_count = {}, 0 end
    db._checked[text], db._checked_count = true, db._checked_count + 1
  end

  -- Returns whether a batch must wait for its answers before its transaction ends; or nil and the refusal.
  local function check(self, what, requests)
    local db, is_careful = self._db or self, false
    for index, one in ipairs(requests) do
      local good, message, code, details = parts.check_request(what, one, false, index)
      if good and not db._checked[one.text] then
        local word = texts.refused_alone(one.text)
        if word then good, message, code, details = failures.not_in("batch", word) end
        if not word and texts.may_have_columns(one.text) then
          is_careful = is_careful or not parts.options_of(self, one)
        else
          note_checked(db, one.text)
        end
      end
      if not good then
        if details then details.index = index end
        return nil, message, code, details
      end
      if one.max then is_careful = true end
    end
    return is_careful
  end

  local function send(connection, requests, is_careful)
    local box = connection.box
    if not box:pipeline(true) then return false end
    connection.is_pipeline, connection.is_unsynced = true, true
    for _, one in ipairs(requests) do
      if not box:send(one.text, one, one.count) then return false end
      if not flush(connection) then return false end
    end
    if is_careful then return box:ask() and flush(connection) end
    connection.is_unsynced = false
    return box:sync() and flush(connection)
  end

  -- Reads answers up to that of statement number `last`, or to the end. Returns the state of the last answer. `into`
  -- gets the results and, in `bad`, the number of the statement that failed, its answer and its state.
  local function read(self, connection, requests, into, last)
    local state
    repeat
      local index = into.count + 1
      local request, answer = requests[index], fresh()
      local lists, nulls, most = parts.options_of(self, request or { kind = "batch" })
      state = receive(connection, answer, lists, nulls, most, huge)
      if not into.bad
        and (answer.failure or answer.twice or answer.is_empty or state ~= "done" and state ~= "synced") then
        into.bad = { index = index, answer = answer, state = state }
      end
      if request then into.results[index] = #answer.names > 0 and answer.rows or answer.count or 0 end
      into.count = index
    until state ~= "done" or index == last
    return state
  end

  -- Reads all answers, and ends the transaction.
  local function finish(self, connection, requests, into, is_careful)
    if is_careful then
      local state = read(self, connection, requests, into, #requests)
      -- No Sync was sent yet, so an error of a statement ends the answers: there is nothing more to read.
      if state ~= "done" then return end
      connection.is_unsynced = false
      if not connection.box:sync() or not flush(connection) then
        into.bad = into.bad or { index = 1, answer = fresh(), state = "lost" }
        return
      end
    end
    if read(self, connection, requests, into) == "synced" then
      receive(connection, fresh(), true, false, huge, 0)
      connection.is_pipeline = not connection.box:pipeline(false)
    end
  end

  -- Returns the refusal of a batch.
  local function refuse(what, lease, requests, bad, is_careful)
    local index, answer = bad.index, bad.answer
    local failed = requests[index] or requests[1]
    if not answer.is_too_large then lease.is_busy = false end
    local nothing, message, code, details = problem(shape.entry(what, index), lease, failed, answer, bad.state)
    if answer.is_too_large and not is_careful then message = message .. "; it may have happened" end
    details = details or {}
    details.index = index
    return nothing, message, code, details
  end

  --- Sends statements in one round trip: all of them take effect, or none.
  return function(self, lease, what, request)
    local connection, requests = lease.connection, request.requests
    local is_careful, message, code, details = check(self, what, requests)
    if is_careful == nil then return nil, message, code, details end
    parts.wait_until_drained(lease)
    if connection.is_lost then return parts.lose(connection, "the batch") end
    lease.is_busy = true
    local _ <close> = parts.guard_of(lease)
    if not send(connection, requests, is_careful) then
      lease.is_busy = false
      return parts.lose(connection, "the batch")
    end
    local into = { results = {}, count = 0 }
    finish(self, connection, requests, into, is_careful)
    if into.bad then return refuse(what, lease, requests, into.bad, is_careful) end
    lease.is_busy = false
    for _, one in ipairs(requests) do
      if not parts.options_of(self, one) then note_checked(self._db or self, one.text) end
    end
    return into.results
  end
end
