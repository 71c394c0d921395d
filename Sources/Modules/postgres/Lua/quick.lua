-- runloop.postgres.quick: calls without options, in fewer steps.

local rl = require "runloop"
local shape = require "runloop.data.shape"
local failures = require "runloop.postgres.failures"

local now, running, huge = rl.now, coroutine.running, math.maxinteger
local note, ended, SLOW, NOTED = shape.note, shape.ended, shape.SLOW, shape.NOTED

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
    -- Otherwise the server has closed it, and the whole answer was the last that came.
    if connection.box:stands() then
      if first ~= nil then return failures.own("EINVAL", BEGUN, "25001") end
      return first, second, third, fourth
    end
  end
  if connection.is_lost then shape.lost(self) end
  return first, second, third, fourth
end
local finish = quick.finish

-- Returns the results of a quick call that has failed. Nothing was sent if there is no answer.
local function failed(self, lease, number, answer, state, what, kind, text, ...)
  local request = shape.request(what, kind, text, ...)
  if not answer then
    local good, message, code, details = parts.check_request(what, request)
    if not good then return ended(number, kind, 0, nil, message, code, details) end
    -- There are more parameters than `execute` takes.
    self._calls = self._calls - 1
    return SLOW
  end
  local failure = answer.failure
  if parts.is_stale(failure, state) then
    parts.note_stale(self, lease.connection, text, failure.code)
    self._calls = self._calls - 1
    return SLOW
  end
  return ended(number, kind, 0, finish(self, lease, parts.problem(what, lease, request, answer, state)))
end

--- Performs a call without options on an idle connection that has prepared its statement, in fewer steps than
--- `perform`. Returns shape.SLOW if there is none.
function quick.call(self, what, kind, text, ...)
  local places = self._places
  local connection = places.idle[#places.idle]
  local statement = connection and connection.spare and connection.prepared[text]
  if not statement or connection.port or not self._prepare or now() - connection.since >= self._fresh then
    return SLOW
  end
  local number = note(self, kind, text)
  local _ <close> = NOTED
  local lease <close> = places:take(0, running())
  self._calls = self._calls + 1
  lease.on_give, lease.is_busy = self._on_give, true
  connection.uses = connection.uses + 1
  statement.used = connection.uses
  local box = connection.box
  local left = box:execute(statement.name, ...)
  if not left then
    lease.is_busy = false
    return failed(self, lease, number, nil, nil, what, kind, text, ...)
  end
  local answer, state = parts.answer_for(connection, kind), "lost"
  if left == 0 or parts.flush(connection, left) then
    local lists = self._lists or kind == "value" or kind == "execute"
    -- After a whole `execute` the answer cannot be there yet.
    state = parts.receive(connection, answer, lists, self._nulls, self._max // 1 | 0, parts.keeps[kind] or huge, nil,
      left == 0 and "more" or nil)
  end
  lease.is_busy = false
  if state ~= "done" or answer.failure or answer.twice or answer.is_empty then
    return failed(self, lease, number, answer, state, what, kind, text, ...)
  end
  local first, second = parts.results_of(connection, kind, answer)
  if not box:is_idle() then return ended(number, kind, 0, finish(self, lease, first, second)) end
  -- Gives the connection back in fewer calls than <close> of the lease takes.
  lease.is_spare, lease.is_kept = true, true
  parts.return_it(lease)
  if number then return ended(number, kind, 0, first, second) end
  return first, second
end

return function(functions)
  parts = functions
  return quick
end
