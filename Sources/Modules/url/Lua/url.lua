-- runloop.url: URLs as browsers read them (WHATWG's standard), and queries. The parser is written in C.

local native = ...
local misuse = require "runloop.misuse"
local type, tostring, ipairs = type, tostring, ipairs
local getmetatable, concat = getmetatable, table.concat

local FIELDS <const> = {
  scheme = true, user = true, password = true, host = true, port = true, path = true, query = true, fragment = true,
}

local URL = { __name = "url" }

-- An absent field is nil, so a misspelt name would cause no error.
function URL.__newindex(self, field, value)
  if not FIELDS[field] then misuse.unknown_field("url", field, FIELDS) end
  rawset(self, field, value)
end

local library = native.open(misuse, URL)
URL.__tostring = library.text_of

local url = { parse = library.parse }

local function is_url(value) return getmetatable(value) == URL end

function url.join(base, reference)
  return library.join(is_url(base) and tostring(base) or base, is_url(reference) and tostring(reference) or reference)
end

for _, name in ipairs { "escape", "unescape" } do
  url[name] = function(text)
    misuse.argument(text, "string", "url." .. name, 1)
    return library[name](text)
  end
end

-- Queries -------------------------------------------------------------------------------------------------------------

local WORDS <const> = { string = true, number = true, boolean = true }

local function add(parts, name, value)
  if not WORDS[type(value)] then
    misuse.wrong("url.query", ("field '%s'"):format(name), "a string, a number, a boolean or a list of them", value)
  end
  parts[#parts + 1] = library.escape(name, true) .. "=" .. library.escape(tostring(value), true)
end

-- Raises an error for fields beside a list, which would be lost silently.
local function check_list(name, list)
  local count = 0
  for _ in pairs(list) do count = count + 1 end
  if count == #list then return end
  misuse.raise("url.query: field '%s' must be a list without holes or other keys", name)
end

local function query_of(values)
  local names, parts = {}, {}
  for name in pairs(values) do
    if not WORDS[type(name)] then misuse.raise("url.query: %s cannot be a name", misuse.describe(name)) end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local value, text = values[name], tostring(name)
    if type(value) == "table" then check_list(text, value) else value = { value } end
    for _, one in ipairs(value) do add(parts, text, one) end
  end
  return concat(parts, "&")
end

-- Several tables give one query, in their order.
function url.query(...)
  local parts = {}
  for i = 1, math.max(1, select("#", ...)) do
    local values = select(i, ...)
    misuse.argument(values, "table", "url.query", i)
    local text = query_of(values)
    if text ~= "" then parts[#parts + 1] = text end
  end
  return concat(parts, "&")
end

function url.parse_query(text)
  misuse.argument(text, "string", "url.parse_query", 1)
  local values, lists = {}, {}
  for part in text:gmatch "[^&]+" do
    local name, value = part:match "^([^=]*)=?(.*)$"
    name, value = library.unescape(name, true), library.unescape(value, true)
    if values[name] == nil then
      values[name], lists[name] = value, { value }
    else
      lists[name][#lists[name] + 1] = value
    end
  end
  return values, lists
end

return url
