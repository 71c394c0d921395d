-- runloop.postgres.quick: calls without options, in fewer steps.

local rl = require "runloop"
local shape = require "runloop.data.shape"
local failures = require "runloop.postgres.failures"

local now, running, getmetatable, huge = rl.now, coroutine.running, getmetatable, math.maxinteger
local note, forget, ended, calls = shape.note_quickly, shape.forget, shape.ended, shape.calls
-- Only in a test is the clock not the real one.
local has_clock, is_virtual = rawget(rl, "clock") ~= nil, shape.is_virtual

-- The functions of runloop.postgres.connections, and those here.
local parts, quick = nil, {}

local BEGUN = "the statement has begun a transaction: use begin(), or connection()"

--- Looks at the connection of a call that has returned, and returns the call's results.
function quick.finish(self, lease, first, second, third, fourth)
  local connection = lease.connection
  if not connection.is_lost and not lease.draining then
    if connection.box:is_idle() then
      lease.is_spare = true
      return first, second, third, fourth
    end
    connection.is_lost = true
    -- If the connection no longer stands, the server has closed it after this whole answer.
    if connection.box:stands() then
      if first ~= nil then return failures.own("EINVAL", BEGUN, "25001") end
      return first, second, third, fourth
    end
  end
  if connection.is_lost then shape.lost(self) end
  return first, second, third, fourth
end
local finish = quick.finish

-- Gives a connection back, and makes a call in the usual way instead.
local function make_slowly(self, lease, slow, text, ...)
  forget(lease.site, lease.number)
  lease.is_busy, lease.number, lease.is_kept = false, nil, true
  self._calls = self._calls - 1
  parts.return_it(lease)
  return slow(self, text, ...)
end

-- Returns the results of a quick call in the rare cases: the answer is not whole, has a problem, or has begun a
-- transaction.
local function look_at(self, lease, what, kind, answer, state, slow, text, ...)
  if parts.is_stale(answer.failure, state) then
    parts.note_stale(self, lease.connection, text, answer.failure.code)
    return make_slowly(self, lease, slow, text, ...)
  end
  local number = lease.number
  local function over(...)
    lease.number, calls[lease.site] = nil, nil
    return ended(number, kind, 0, finish(self, lease, ...))
  end
  if state == "done" and not (answer.failure or answer.twice or answer.is_empty) then
    return over(parts.results_of(lease.connection, kind, answer))
  end
  return over(parts.problem(what, lease, shape.request(what, kind, text, ...), answer, state))
end

--- Returns a method of `class` that performs a call without options on an idle connection that has prepared its
--- statement. If there is no such connection, the method calls `slow`, which has the same parameters.
function quick.method(class, what, kind, slow)
  local keep, is_plain, is_query = parts.keeps[kind] or huge, kind == "value" or kind == "execute", kind == "query"
  local results_of, receive, fresh, flush = parts.results_of, parts.receive, parts.fresh, parts.flush
  return function(self, text, ...)
    local places = getmetatable(self) == class and self._places
    local idle = places and places.idle
    local connection = idle and idle[#idle]
    local lease = connection and connection.spare
    local statement, start = lease and connection.prepared[text], now()
    local watch = connection and connection.watch
    if not statement or not watch or self._timeout or not self._prepare or start - connection.since >= self._fresh
      or has_clock and is_virtual() then
      return slow(self, text, ...)
    end
    local task = running()
    idle[#idle], connection.spare, places.taken[connection] = nil, false, lease
    lease.places, lease.since, lease.site, lease.is_kept = places, start, task, false
    lease.number, lease.is_busy = false, true
    local _ <close> = lease
    self._calls, connection.uses, statement.used = self._calls + 1, connection.uses + 1, connection.uses
    local left = connection.box:execute(statement.name, ...)
    -- `execute` refuses one of the values, or takes fewer values than these.
    if not left then return make_slowly(self, lease, slow, text, ...) end
    local number = note(self, kind, text, task)
    lease.number = number or false
    local lists, nulls, most = self._lists or is_plain, self._nulls, self._max // 1 | 0
    local answer, state, is_whole = is_plain and (connection.answer or {}) or fresh(), "lost", nil
    connection.answer = false
    if left == 0 or flush(connection, left) then
      -- After a whole `execute` the answer cannot be there yet.
      if left == 0 then watch:wait(false) end
      state, is_whole = connection.box:poll(answer, lists, nulls, most, keep)
      if state ~= "done" then
        state, is_whole = receive(connection, answer, lists, nulls, most, keep, nil, state)
      end
    end
    lease.is_busy = false
    if not is_whole then return look_at(self, lease, what, kind, answer, state, slow, text, ...) end
    local first, second = results_of(connection, kind, answer)
    -- Gives the connection back in fewer steps than <close> of the lease takes.
    local time = now()
    lease.is_kept, connection.since, calls[task] = true, time, nil
    places:take_back(lease)
    connection.spare, lease.places, lease.site, lease.number = lease, false, false, nil
    if not self._timer then lease.on_give(time, connection) end
    if number then return ended(number, kind, 0, first, second) end
    if is_query then return first, second end
    return first
  end
end

return function(functions)
  parts = functions
  return quick
end
