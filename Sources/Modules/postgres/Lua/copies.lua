-- runloop.postgres.copies: COPY whose source or sink is a stream or a function. A copy is as fast as the slower side.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local shape = require "runloop.data.shape"
local failures = require "runloop.postgres.failures"
local null = require "runloop.json".null

local type, tostring, pairs, pcall = type, tostring, pairs, pcall
local getmetatable, error, math_type, huge = getmetatable, error, math.type, math.huge
local format, concat = string.format, table.concat
local own, raise, describe = failures.own, misuse.raise, misuse.describe

-- The largest number of bytes that a sink gets at once.
local LOT = 65536
local ESCAPES = { ["\\"] = "\\\\", ["\t"] = "\\t", ["\n"] = "\\n", ["\r"] = "\\r" }

-- Rows ----------------------------------------------------------------------------------------------------------------

local function column_text(what, value, column)
  local kind = type(value)
  if value == nil or value == null then return "\\N" end
  if kind == "boolean" then return value and "t" or "f" end
  if math_type(value) == "integer" then return tostring(value) end
  if kind == "number" then
    if value ~= value then return "NaN" end
    if value == huge or value == -huge then return value > 0 and "Infinity" or "-Infinity" end
    return format("%.17g", value)
  end
  if kind == "string" and not value:find("\0", 1, true) then return (value:gsub("[\\\t\n\r]", ESCAPES)) end
  if kind == "table" and getmetatable(value) == shape.Bytes then
    return "\\\\x" .. value[1]:gsub(".", function(byte) return format("%02x", byte:byte()) end)
  end
  if kind == "string" then raise("%s: column %d has a zero byte: bytes() makes it binary", what, column) end
  raise("%s: column %d must be a string, a number, a boolean or nil, got %s", what, column, describe(value))
end

-- Returns a row in the text format of COPY.
local function row_text(what, row, columns)
  for key in pairs(row) do
    if math_type(key) ~= "integer" or key < 1 or key > columns then
      raise("%s: a row must be a list of %d values, got one with the key %s", what, columns, describe(key))
    end
  end
  local parts = {}
  for column = 1, columns do parts[column] = column_text(what, row[column], column) end
  return concat(parts, "\t") .. "\n"
end

-- Sources and sinks ---------------------------------------------------------------------------------------------------

-- Returns a function that returns the pieces of a source.
local function source_of(what, from)
  if misuse.is_callable(from) then return from end
  if not objects.method(from, "read") then
    raise("%s: argument #2 must be a stream to read, or a function, got %s", what, describe(from))
  end
  return function() return from:read() end
end

-- Returns a function that takes pieces; it returns nil, a message and a code if it fails.
local function sink_of(what, to)
  if misuse.is_callable(to) then
    return function(piece)
      to(piece)
      return true
    end
  end
  if not objects.method(to, "write") then
    raise("%s: argument #2 must be a stream to write, or a function, got %s", what, describe(to))
  end
  return function(piece) return to:write(piece) end
end

-- Copying -------------------------------------------------------------------------------------------------------------

-- `parts` are functions of connections.lua.
return function(parts)
  local flush, receive, fresh = parts.flush, parts.receive, parts.fresh

  -- Sends all pieces of a source. Returns whether the connection is open; raises the errors of the source.
  local function feed(what, connection, next_piece, columns)
    local box = connection.box
    while true do
      local piece, message, code = next_piece()
      if piece == nil then return true, message, code end
      if type(piece) == "table" then piece = row_text(what, piece, columns) end
      if type(piece) ~= "string" then
        raise("%s: the source must return strings, rows as lists, or nil at the end, got %s", what, describe(piece))
      end
      local is_taken = box:put_copy(piece)
      while is_taken == false and flush(connection) do is_taken = box:put_copy(piece) end
      if not is_taken or not flush(connection) then return false end
    end
  end

  -- Sends what a source gives. Returns the state of the answer; or the source's problem: nil, message and code.
  local function put(what, connection, source, answer)
    local done, stands, message, code = pcall(feed, what, connection, source, answer.takes)
    local reason = not done and "the source has failed" or message and "the source has ended early" or nil
    if done and not stands then return "lost" end
    local is_taken = connection.box:end_copy(reason)
    while is_taken == false and flush(connection) do is_taken = connection.box:end_copy(reason) end
    if not is_taken or not flush(connection) then return "lost" end
    local state = receive(connection, answer, true, false, math.maxinteger, 0)
    if not done then return state, function() error(stands, 0) end end
    if message then return state, function() return nil, message, code end end
    return state
  end

  -- Passes received data on. Returns the state of the answer; or a sink's problem.
  local function get(connection, sink, answer)
    local box = connection.box
    while true do
      local list, size, piece = {}, 0, nil
      repeat
        piece = box:get_copy()
        if piece then list[#list + 1], size = piece, size + #piece end
      until not piece or size >= LOT
      if size > 0 then
        local done, message, code = sink(concat(list))
        if not done then return "stopped", function() return nil, message, code end end
      end
      if piece == nil then return (receive(connection, answer, true, false, math.maxinteger, 0)) end
      if piece == false then rl.wait_readable(connection.fd) end
    end
  end

  --- Carries out `copy`. Returns the number of rows.
  return function(lease, what, request)
    if not request.text:lower():find "^%s*copy%f[^%w_]" or request.text:find("\0", 1, true) then
      return own("EINVAL", "the statement is not a copy", "42601")
    end
    local connection = lease.connection
    parts.wait_until_drained(lease)
    if connection.is_lost then return parts.lose(connection, "the copy") end
    local answer, state, finish = fresh(), nil, nil
    lease.is_busy = true
    local _ <close> = parts.guard_of(lease)
    if not connection.box:send(request.text, {}, 0) or not flush(connection) then
      state = "lost"
    else
      state = receive(connection, answer, true, false, math.maxinteger, 0)
    end
    if state == "copy" then
      if answer.takes then
        state, finish = put(what, connection, source_of(what, request.way), answer)
      else
        state, finish = get(connection, sink_of(what, request.way), answer)
      end
    elseif state == "done" and not answer.failure then
      lease.is_busy = false
      return own("EINVAL", "the copy needs 'from stdin' or 'to stdout'", "42601")
    end
    -- A connection is closed if its data are still arriving.
    lease.is_busy = state == "stopped"
    if finish then return finish() end
    if answer.failure then return parts.refuse(connection, answer.failure, "the copy") end
    if state == "lost" then return parts.lose(connection, "the copy") end
    return answer.count or 0
  end
end
