-- runloop.postgres.quick: calls without options, for which quick.c makes the methods. The functions here end the calls
-- that need more than the functions in C do.

local rl = require "runloop"
local shape = require "runloop.data.shape"
local failures = require "runloop.postgres.failures"

local next, rawget = next, rawget
-- The clock differs from the real one only in tests.
local has_clock, is_virtual = rawget(rl, "clock") ~= nil, shape.is_virtual

-- `native`: the functions in C. `parts`: those of runloop.postgres.connections. `quick`: those of this file.
local native, parts, quick = nil, nil, {}

local BEGUN = "the statement has begun a transaction: use begin(), or connection()"

--- Checks the connection of a call that has returned, and returns the call's results.
function quick.finish(self, lease, first, second, third, fourth)
  local connection = lease.connection
  if not connection.is_lost and not lease.draining then
    if connection.box:is_idle() then return first, second, third, fourth end
    connection.is_lost = true
    -- If the connection is no longer open, the server has closed it after it had sent this whole answer.
    if connection.box:stands() then
      if first ~= nil then return failures.own("EINVAL", BEGUN, "25001") end
      return first, second, third, fourth
    end
  end
  if connection.is_lost then shape.lost(self) end
  return first, second, third, fourth
end
local finish = quick.finish

-- Makes the lease of a quick call. From then on the call is a usual one. Returns the lease, and the number of the
-- call's record.
local function lease_of(connection)
  local lease = connection.owner[1]._places:lease_of(connection)
  lease.is_busy = true
  return lease, connection.box:release()
end

function shape.unnoted_call(task)
  for connection in next, parts.alive do
    local kind, text = connection.box:call_of(task)
    if kind then return kind, text, connection.owner[1] end
  end
end

--- Makes what the quick calls of a database share.
function quick.pool(self)
  local most = self._max // 1 | 0
  local pool = native.pool(self._places.idle, self._lists, self._nulls, most, self._fresh)
  if self._timeout or not self._prepare then pool:stop() end
  self._places.quick = pool
  return pool
end

--- Returns a method of databases that performs a call without options on an idle connection that has prepared its
--- statement. If there is no such connection, the method calls `slow`, which has the same parameters.
function quick.method(what, kind, slow)
  -- Goes on after a part of a large statement was sent ("unsent"), or ends a call with another state of its answer.
  local function take_over(self, connection, state, answer, text, ...)
    local lease, number = lease_of(connection)
    local _ <close> = lease
    local request = shape.request(what, kind, text, ...)
    shape.note_request(self, request, kind, text, true)
    request.number = number
    local _ <close> = shape.NOTED
    if state == "unsent" then
      state = parts.flush(connection)
        and parts.receive(connection, answer, parts.options_of(self, request)) or "lost"
    end
    if parts.is_stale(request, answer.failure, state) then
      answer, state = parts.ask_as_text(self, lease, what, request, answer.failure)
    end
    lease.is_busy = false
    if state == "done" and not (answer.failure or answer.twice or answer.is_empty) then
      return shape.end_request(request, kind, finish(self, lease, parts.results_of(kind, answer)))
    end
    return shape.end_request(request, kind, finish(self, lease, parts.problem(what, lease, request, answer, state)))
  end
  local method = native.quick(kind, slow, take_over, shape.begins, shape.ends, shape.label)
  if not has_clock then return method end
  return function(self, ...)
    if is_virtual() then return slow(self, ...) end
    return method(self, ...)
  end
end

return function(functions, others)
  native, parts = functions, others
  local function end_claimed(connection) parts.return_it(connection.owner[1]._places:lease_of(connection)) end
  native.on(end_claimed, function(connection)
    local lease, number = lease_of(connection)
    if number then shape.ends(number, 0, 0, nil, true) end
    parts.give(lease)
  end)
  return quick
end
