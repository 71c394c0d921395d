-- runloop.postgres.cursors: rows inside a transaction, in lots: other statements may run between two of them.

local shape = require "runloop.data.shape"

local select, format, unpack = select, string.format, table.unpack

local LOT = 256
local cursors = 0

-- Loaded with the library, at the first `open`.
local connections

-- Declares a cursor. Returns the cursor's name; nil alone if the statement cannot have a cursor; nil and a message if
-- the server refuses it.
local function declare(self, what, request)
  local word = request.text:match "^[%s(]*(%a+)"
  word = word and word:lower()
  if word ~= "select" and word ~= "values" and word ~= "with" and word ~= "table" then return nil end
  local lease, is_inside = self._lease, self._lease.connection.box:transaction() == "inside"
  cursors = cursors + 1
  local name = "rlc" .. cursors
  local is_tried = is_inside and word == "with"
  if is_tried then connections.control(lease, "savepoint rlc") end
  local declared = { kind = "execute", count = request.count, unpack(request, 1, request.count) }
  declared.text = format("declare %s no scroll cursor%s for %s", name, is_inside and "" or " with hold", request.text)
  local done, message = connections.perform(self, lease, what, declared)
  if is_tried then connections.control(lease, done and "release savepoint rlc" or "rollback to savepoint rlc") end
  if done then return name end
  if is_tried or not is_inside then return nil end
  return nil, message
end

-- Fetches the next lot.
local function fetch(self, what, state)
  local request = state.request
  local rows, message = connections.perform(self, self._lease, what, {
    kind = "query", text = format("fetch %d from %s", LOT, state.cursor), count = 0, lists = request.lists,
    nulls = request.nulls, max = request.max, is_lot = true,
  })
  if not rows then return nil, nil, message end
  if #rows == LOT then return state, rows end
  connections.control(self._lease, "close " .. state.cursor)
  return nil, rows
end

-- `parts.over(session)` returns how the session has ended; `parts.lock(lease)` lets one task at a time use the
-- connection.
return function(parts)
  local over, lock = parts.over, parts.lock
  return {
    open_rows = function(self, what, request)
      local how = over(self)
      if how then return nil, nil, select(2, shape.over(how)) end
      connections = connections or require "runloop.postgres.connections"
      local _ <close> = lock(self._lease)
      local cursor, message = declare(self, what, request)
      if cursor then return fetch(self, what, { cursor = cursor, request = request }) end
      if message then return nil, nil, message end
      request.kind = "query"
      local rows, problem = connections.perform(self, self._lease, what, request)
      return nil, rows, problem
    end,
    next_rows = function(self, what, state)
      local how = over(self)
      if how then return nil, nil, select(2, shape.over(how)) end
      local _ <close> = lock(self._lease)
      return fetch(self, what, state)
    end,
    close_rows = function(self, state)
      if over(self) then return end
      shape.background(function()
        local _ <close> = lock(self._lease)
        if not over(self) then connections.control(self._lease, "close " .. state.cursor) end
      end)
    end,
  }
end
