-- runloop.redis.fake.replies: writes the answers of the fake, and parses the words of its commands.

local error, type, tonumber, setmetatable = error, type, tonumber, setmetatable
local format, find, lower, concat = string.format, string.find, string.lower, table.concat
local math_type, huge = math.type, math.huge

local replies = { OK = "+OK\r\n", QUEUED = "+QUEUED\r\n", EMPTY = "*0\r\n" }

-- Refusals ------------------------------------------------------------------------------------------------------------

--- The class of errors with which a command is refused: the answer is at 1.
replies.Refusal = { __name = "refusal of a fake" }

--- Ends a command with an error.
function replies.fail(text, ...)
  error(setmetatable({ "-" .. (select("#", ...) > 0 and format(text, ...) or text) .. "\r\n" }, replies.Refusal))
end
local fail = replies.fail

function replies.wrong_type() fail "WRONGTYPE Operation against a key holding the wrong kind of value" end
function replies.syntax() fail "ERR syntax error" end

-- Answers -------------------------------------------------------------------------------------------------------------

function replies.integer(number) return ":" .. number .. "\r\n" end

local function bulk(text) return "$" .. #text .. "\r\n" .. text .. "\r\n" end
replies.bulk = bulk

local function null(client) return client.protocol == 3 and "_\r\n" or "$-1\r\n" end
replies.null = null

--- Returns a null in place of a list.
function replies.null_list(client) return client.protocol == 3 and "_\r\n" or "*-1\r\n" end

--- Returns a text, or a null for nil.
function replies.text(client, value) return value and bulk(value) or null(client) end

--- Returns a list of answers.
function replies.list(pieces) return "*" .. #pieces .. "\r\n" .. concat(pieces) end

local function bulks(mark, texts)
  local pieces = { mark .. #texts .. "\r\n" }
  for index, text in ipairs(texts) do pieces[index + 1] = bulk(text) end
  return concat(pieces)
end

--- Returns a list of texts.
function replies.texts(texts) return bulks("*", texts) end

--- Returns a set of texts.
function replies.set(client, texts) return bulks(client.protocol == 3 and "~" or "*", texts) end

--- Returns a map. `pieces` has the answers for its keys and values, each key before its value.
function replies.map(client, pieces)
  local head = client.protocol == 3 and "%" .. #pieces // 2 or "*" .. #pieces
  return head .. "\r\n" .. concat(pieces)
end

--- Returns a push: a message that does not answer a command.
function replies.push(client, pieces)
  return (client.protocol == 3 and ">" or "*") .. #pieces .. "\r\n" .. concat(pieces)
end

-- Numbers -------------------------------------------------------------------------------------------------------------

--- Returns a number as Redis writes it: the shortest text that reads back the same.
function replies.number_text(number)
  if number == huge then return "inf" elseif number == -huge then return "-inf" end
  if number % 1 == 0 and number > -1e17 and number < 1e17 then return format("%d", number) end
  local text
  for digits = 15, 17 do
    text = format("%." .. digits .. "g", number)
    if tonumber(text) == number then break end
  end
  return text
end
local number_text = replies.number_text

--- Returns a number without an exponent.
function replies.plain_number(number)
  local text = number_text(number)
  if not find(text, "e", 1, true) then return text end
  return (format("%.17f", number):gsub("%.?0+$", ""))
end

--- Returns a score.
function replies.double(client, number)
  local text = number_text(number)
  return client.protocol == 3 and "," .. text .. "\r\n" or bulk(text)
end

--- Reads an integer of 64 bits; refuses everything else.
function replies.read_integer(text, problem)
  local number = (text == "0" or find(text, "^%-?[1-9]%d*$")) and tonumber(text)
  if math_type(number) ~= "integer" then fail(problem or "ERR value is not an integer or out of range") end
  return number
end

--- Reads an integer that is not negative.
function replies.read_count(text)
  local number = replies.read_integer(text, "ERR value is out of range, must be positive")
  if number < 0 then fail "ERR value is out of range, must be positive" end
  return number
end

--- Reads a float, infinities as well.
function replies.read_float(text, problem)
  local sign, word = lower(text):match "^([+-]?)(%a+)$"
  if word == "inf" or word == "infinity" then return sign == "-" and -huge or huge end
  local number = find(text, "^[+-]?[%d.][%w.+-]*$") and tonumber((text:gsub("^%+", "")))
  if not number then fail(problem or "ERR value is not a valid float") end
  return number + 0.0
end

--- Reads the seconds for which a command blocks.
function replies.read_timeout(text)
  local seconds = replies.read_float(text, "ERR timeout is not a float or out of range")
  if seconds < 0 then fail "ERR timeout is negative" end
  if seconds > 1e15 then fail "ERR timeout is out of range" end
  return seconds
end

-- Patterns ------------------------------------------------------------------------------------------------------------

-- Returns Lua's pattern for the class after '[', and where it ends.
local function class_of(glob, at)
  local parts, is_negated = {}, glob:sub(at, at) == "^"
  if is_negated then at = at + 1 end
  while at <= #glob and glob:sub(at, at) ~= "]" do
    local first = glob:sub(at, at)
    if first == "\\" and at < #glob then
      at = at + 1
      first = glob:sub(at, at)
    end
    local last = glob:match("^%-([^%]])", at + 1)
    if last then
      if first > last then first, last = last, first end
      for byte = first:byte(), last:byte() do parts[#parts + 1] = (string.char(byte):gsub("%W", "%%%0")) end
      at = at + 2
    else
      parts[#parts + 1] = (first:gsub("%W", "%%%0"))
    end
    at = at + 1
  end
  local set = concat(parts)
  if set == "" then return is_negated and "." or "[^%z\1-\255]", at end
  return "[" .. (is_negated and "^" or "") .. set .. "]", at
end

--- Returns Lua's pattern for a pattern of Redis, with '*', '?', '[…]' and '\'.
function replies.pattern(glob)
  local parts, at = { "^" }, 1
  while at <= #glob do
    local char, part = glob:sub(at, at), nil
    if char == "*" then
      part = ".*"
    elseif char == "?" then
      part = "."
    elseif char == "[" then
      part, at = class_of(glob, at + 1)
    else
      if char == "\\" and at < #glob then
        at = at + 1
        char = glob:sub(at, at)
      end
      part = char:gsub("%W", "%%%0")
    end
    parts[#parts + 1] = part
    at = at + 1
  end
  parts[#parts + 1] = "$"
  return concat(parts)
end

--- Converts an index of a list to an index from 0. A negative index counts from the end.
function replies.from_end(index, length) return index < 0 and index + length or index end

return replies
