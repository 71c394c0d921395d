-- runloop.nats.check: checks the subjects, headers and names that scripts give. All text from a script that reaches a
-- server has passed these checks.

local misuse = require "runloop.misuse"

local type, next, rawlen, integer_of = type, next, rawlen, math.tointeger
local find, gmatch, concat = string.find, string.gmatch, table.concat
local raise, describe = misuse.raise, misuse.describe

local check = {}

-- The largest number of valid subjects in the cache. A full cache is emptied.
local KEPT = 1000
local known, count = {}, 0

-- Returns the problem of a subject; nil if it is valid.
local function fault(subject, is_filter)
  if subject == "" then return "is empty" end
  if #subject > 255 then return "has more than 255 bytes" end
  if find(subject, "[%c \127]") then return "has a blank or a control byte" end
  if find(subject, "^%.") or find(subject, "%.$") or find(subject, "..", 1, true) then return "has an empty word" end
  if not find(subject, "[*>]") then return nil end
  for word, rest in gmatch(subject .. ".", "([^.]*)%.()") do
    if word == "*" or word == ">" then
      if not is_filter then return "has a wildcard: these are for subscriptions" end
      if word == ">" and rest <= #subject then return "has '>' before its end" end
    end
  end
end

--- Raises unless this is a subject to which messages go.
function check.subject(subject, what, which)
  if known[subject] then return end
  if type(subject) ~= "string" then misuse.wrong(what, which or "argument #1", "a subject", subject) end
  local wrong = fault(subject, false)
  if wrong then raise("%s: the subject %s %s", what, describe(subject), wrong) end
  if count >= KEPT then known, count = {}, 0 end
  known[subject], count = true, count + 1
end

--- Raises unless this is a subject for a subscription, where wildcards may be.
function check.filter(subject, what, which)
  if type(subject) ~= "string" then misuse.wrong(what, which or "argument #1", "a subject", subject) end
  local wrong = fault(subject, true)
  if wrong then raise("%s: the subject %s %s", what, describe(subject), wrong) end
end

--- Raises unless this is a name of a stream, a consumer, a bucket or a lease.
function check.name(name, what, which)
  if type(name) ~= "string" or not find(name, "^[%w_-]+$") or #name > 100 then
    misuse.wrong(what, which or "argument #1", "a name of 1 to 100 letters, digits, '_' and '-'", name)
  end
end

-- Returns the problem of a key of a bucket; nil if it is valid.
local function key_fault(key, is_filter)
  if key == "" then return "is empty" end
  if #key > 200 then return "has more than 200 bytes" end
  local plain = is_filter and key:gsub("%f[^.\0]%*%f[.\0]", "x"):gsub("%f[^.\0]>$", "x") or key
  if find(plain, "[^%w/_=.-]") then return "has a byte other than letters, digits and - / _ = ." end
  if find(key, "^%.") or find(key, "%.$") or find(key, "..", 1, true) then return "has an empty word" end
end

--- Raises unless this is a key of a bucket; a filter may have the wildcards of subjects.
function check.key(key, what, which, is_filter)
  if type(key) ~= "string" then misuse.wrong(what, which or "argument #1", "a key", key) end
  local wrong = key_fault(key, is_filter)
  if wrong then raise("%s: the key %s %s", what, describe(key), wrong) end
end

--- Returns the data of a message, or raises an error. nil stands for empty data.
function check.data(data, what, number)
  if type(data) == "string" then return data end
  if data == nil then return "" end
  misuse.wrong(what, "argument #" .. (number or 2), "a string", data)
end

--- Returns the text of headers: `name: value` lines after a line with the version.
function check.headers(headers, what)
  local lines, n = { "NATS/1.0\r\n" }, 1
  local function add(name, value)
    if type(value) ~= "string" then
      raise("%s: the header '%s' must be a string or a list of strings, got %s", what, name, describe(value))
    end
    if find(value, "[\r\n]") then raise("%s: the header '%s' has a line break in its value", what, name) end
    n = n + 1
    lines[n] = name .. ": " .. value .. "\r\n"
  end
  for name, value in next, headers do
    if type(name) ~= "string" or name == "" or find(name, "[: \t\r\n]") then
      raise("%s: a header's name must be a word without ':', blanks and line breaks, got %s", what, describe(name))
    end
    if type(value) == "table" then
      local count = 0
      for _ in next, value do count = count + 1 end
      -- Fields beside the list would be lost silently.
      if count ~= rawlen(value) then
        raise("%s: the header '%s' must be a list without holes or other keys", what, name)
      end
      for i = 1, count do add(name, value[i]) end
    else
      add(name, value)
    end
  end
  lines[n + 1] = "\r\n"
  return concat(lines)
end

--- Reads the text of headers. Returns the headers, the status and its description; nil if the text has another form.
function check.read_headers(text)
  local status, rest = text:match "^NATS/1%.0([^\r\n]*)\r\n()"
  if not status then return nil end
  local headers = {}
  for name, value in gmatch(text:sub(rest), "([^:\r\n]+):[ \t]*([^\r\n]*)\r\n") do
    local before = headers[name]
    if before == nil then
      headers[name] = value
    elseif type(before) == "table" then
      before[#before + 1] = value
    else
      headers[name] = { before, value }
    end
  end
  local code, description = status:match "^%s*(%d%d%d)%s*(.-)%s*$"
  return headers, math.tointeger(code), description
end

local texts, text_count, plain = {}, 0, {}
-- Longer headers are not cached, but parsed each time.
local LONGEST = 200

--- Reads headers as `read_headers` does. The returned table is shared and must not be changed.
function check.known_headers(text)
  local known = texts[text]
  if not known then
    known = { check.read_headers(text) }
    if known[1] and #text <= LONGEST then
      if text_count >= KEPT then texts, text_count, plain = {}, 0, {} end
      texts[text], text_count = known, text_count + 1
    end
  end
  return known[1], known[2], known[3]
end

--- Does the same for headers that have neither a status nor the number of a recorder; returns nil for others.
function check.plain_headers(text)
  local headers = plain[text]
  if headers or find(text, "Rl-Flow: ", 11, true) then return headers end
  local status
  headers, status = check.known_headers(text)
  if not headers or status then return nil end
  if texts[text] then plain[text] = headers end
  return headers
end

--- Raises unless a number is in its range. Where an integer is expected, a float with an integral value is converted to
--- an integer.
function check.range(options, what, field, low, high, is_integer)
  local value = options[field]
  if value == nil then return end
  local integer = is_integer and type(value) == "number" and integer_of(value)
  if integer then options[field] = integer end
  if type(value) ~= "number" or value ~= value or value < low or value > high or is_integer and not integer then
    raise("%s: field '%s' must be %s from %g to %g, got %s", what, field, is_integer and "an integer" or "a number",
      low, high, describe(value))
  end
end

return check
