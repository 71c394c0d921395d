-- runloop.postgres.fake.messages: the protocol of PostgreSQL as its server speaks it: messages in bytes, and values as
-- texts.

local json = require "runloop.json"
local shape = require "runloop.data.shape"

local type, tostring, ipairs, pairs = type, tostring, ipairs, pairs
local getmetatable, math_type, huge = getmetatable, math.type, math.huge
local pack, unpack, format, concat = string.pack, string.unpack, string.format, table.concat

local messages = {}

-- The types of values, by their numbers in PostgreSQL.
local BOOL <const>, BYTEA <const>, INT8 <const> = 16, 17, 20
local TEXT <const>, FLOAT8 <const>, JSONB <const> = 25, 701, 3802

--- Returns a message.
function messages.message(kind, body) return kind .. pack(">I4", #body + 4) .. body end
local message = messages.message

function messages.ready(state) return message("Z", state) end
function messages.complete(tag) return message("C", tag .. "\0") end
function messages.parameter(name, value) return message("S", name .. "\0" .. value .. "\0") end
messages.PARSED, messages.BOUND, messages.CLOSED = message("1", ""), message("2", ""), message("3", "")
messages.NO_DATA, messages.EMPTY = message("n", ""), message("I", "")

function messages.notification(channel, text)
  return message("A", pack(">I4", 1) .. channel .. "\0" .. text .. "\0")
end

--- Returns a refusal.
function messages.refusal(text, state, severity)
  severity = severity or "ERROR"
  return message("E", format("S%s\0V%s\0C%s\0M%s\0\0", severity, severity, state or "XX000", text))
end

-- Values --------------------------------------------------------------------------------------------------------------

local function type_of(value)
  local kind = math_type(value) or type(value)
  if kind == "integer" then return INT8 elseif kind == "float" then return FLOAT8 end
  if kind == "boolean" then return BOOL end
  if kind == "table" then return getmetatable(value) == shape.Bytes and BYTEA or JSONB end
  return TEXT
end

local function text_of(value, kind)
  if kind == BYTEA then
    return "\\x" .. value[1]:gsub(".", function(byte) return format("%02x", byte:byte()) end)
  end
  if type(value) == "table" then return (json.encode(value)) end
  if type(value) == "boolean" then return value and "t" or "f" end
  if math_type(value) ~= "float" then return tostring(value) end
  if value ~= value then return "NaN" end
  if value == huge or value == -huge then return value > 0 and "Infinity" or "-Infinity" end
  return format("%.17g", value)
end

local function is_null(value) return value == nil or value == json.null end

-- Returns the names of all fields of some rows, in order.
local function names_of(rows)
  local found, names = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row) do
      if not found[name] then found[name], names[#names + 1] = true, tostring(name) end
    end
  end
  table.sort(names)
  return names
end

-- Returns the type of a column: the type of its values, or text if their types differ.
local function column_type(rows, name, index)
  local found
  for _, row in ipairs(rows) do
    local value = row[name]
    if value == nil then value = row[index] end
    if not is_null(value) then
      local kind = type_of(value)
      if found and kind ~= found then
        local are_numbers = kind + found == INT8 + FLOAT8
        kind = are_numbers and FLOAT8 or TEXT
      end
      found = kind
    end
  end
  return found or TEXT
end

--- Describes rows: the message of their columns, and one for each row.
function messages.rows(rows)
  local names, kinds = rows.columns or names_of(rows), {}
  local parts = { pack(">I2", #names) }
  for index, name in ipairs(names) do
    kinds[index] = column_type(rows, name, index)
    parts[#parts + 1] = name .. "\0" .. pack(">I4 I2 I4 i2 i4 I2", 0, 0, kinds[index], -1, -1, 0)
  end
  local lines = {}
  for number, row in ipairs(rows) do
    local fields = { pack(">I2", #names) }
    for index, name in ipairs(names) do
      local value = row[name]
      if value == nil then value = row[index] end
      fields[index + 1] = is_null(value) and pack(">i4", -1) or pack(">s4", text_of(value, kinds[index]))
    end
    lines[number] = message("D", concat(fields))
  end
  return message("T", concat(parts)), lines
end

-- Reading -------------------------------------------------------------------------------------------------------------

--- Reads Parse: the statement's name and its text.
function messages.parse(body)
  local name, text = unpack("zz", body)
  return name, text
end

--- Reads Bind: the portal, the statement, and the parameters with their number in `n`.
function messages.bind(body)
  local portal, statement, count, at = unpack(">zz I2", body)
  at = at + 2 * count
  local parameters = {}
  parameters.n, at = unpack(">I2", body, at)
  for index = 1, parameters.n do
    local length
    length, at = unpack(">i4", body, at)
    if length >= 0 then
      parameters[index] = body:sub(at, at + length - 1)
      at = at + length
    end
  end
  return portal, statement, parameters
end

--- Reads the words of the first message: "user" and so on.
function messages.words(body)
  local words, at = {}, 1
  while at < #body do
    local name, value
    name, value, at = unpack("zz", body, at)
    words[name] = value
  end
  return words
end

--- Returns the statements of a text, without blanks and comments between them.
function messages.statements(text)
  local list, from, at = {}, 1, 1
  local function add(last)
    local one = text:sub(from, last):match "^%s*(.-)%s*$"
    if one ~= "" then list[#list + 1] = one end
  end
  while at <= #text do
    local char = text:sub(at, at)
    local tag = char == "$" and text:match("^%$[%a_]*%$", at)
    if char == "'" or char == '"' then
      at = text:find(char, at + 1, true) or #text
    elseif tag then
      at = select(2, text:find(tag, at + #tag, true)) or #text
    elseif text:find("^%-%-", at) then
      at = text:find("\n", at, true) or #text
    elseif char == ";" then
      add(at - 1)
      from = at + 1
    end
    at = at + 1
  end
  add(#text)
  return list
end

return messages
