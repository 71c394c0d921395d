-- Shows values as text: called with nothing, returns the function that does it. Reads tables raw, so that looking at a value
-- runs none of its code; the exception is __tostring, whose errors are shown in place of the value.

local type, tostring, pcall, next, rawlen, rawget = type, tostring, pcall, next, rawlen, rawget
local getmetatable = debug.getmetatable
local format, gsub, rep, match, find = string.format, string.gsub, string.rep, string.match, string.find
local concat, sort = table.concat, table.sort
local math_type, huge = math.type, math.huge

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do KEYWORDS[word] = true end

-- At most so many entries of one table, so many in all, and so many keys that are sorted.
local OF_ONE, IN_ALL, SORTED = 100, 1000, 20000

local PALETTE = { string = "32", number = "36", boolean = "33", ["nil"] = "33", key = "", other = "35", mark = "2" }

local ESCAPES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"', ["\a"] = "\\a",
  ["\b"] = "\\b", ["\f"] = "\\f", ["\v"] = "\\v", ["\27"] = "\\27" }

local function quote(text)
  text = gsub(text, '[%c\\"]', function(c) return ESCAPES[c] end)
  text = gsub(text, "(%c)(%d?)", function(c, digit)
    return format(digit == "" and "\\%d%s" or "\\%03d%s", c:byte(), digit)
  end)
  -- Bytes that are no text would garble the terminal.
  if not utf8.len(text) then text = gsub(text, "[\128-\255]", function(c) return format("\\x%02x", c:byte()) end) end
  return '"' .. text .. '"'
end

local function number_text(value)
  if value == huge then return "math.huge" elseif value == -huge then return "-math.huge" end
  if value ~= value then return "nan" end
  return tostring(value)
end

local ORDER = { number = 1, string = 2, boolean = 3 }

local function comes_before(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then
    local first, second = ORDER[kind] or 4, ORDER[other] or 4
    if first ~= second then return first < second end
    return kind < other
  end
  if kind == "number" or kind == "string" then return a < b end
  if kind == "boolean" then return a and not b end
  return format("%p", a) < format("%p", b)
end

local function describe(value)
  local ok, text = pcall(tostring, value)
  if ok then return text end
  return format("<%s %p: error in __tostring: %s>", type(value), value, type(text) == "string" and text or type(text))
end

-- inspect(value, options): `depth` of tables (3), `width` of a line (80), `color`, `quoted` (strings at the top, too).
return function(value, options)
  local depth_limit, width, color = options.depth or 3, options.width or 80, options.color
  local budget = IN_ALL
  local path = {}

  local function paint(kind, text)
    local code = color and PALETTE[kind]
    if not code or code == "" then return text end
    return "\27[" .. code .. "m" .. text .. "\27[m"
  end

  local function scalar(item)
    local kind = type(item)
    if kind == "string" then return paint("string", quote(item)) end
    if kind == "number" then return paint("number", number_text(item)) end
    if kind == "boolean" or kind == "nil" then return paint(kind, tostring(item)) end
    return paint("other", describe(item))
  end

  local show

  local function key_text(key, depth)
    if type(key) == "string" and find(key, "^[%a_][%w_]*$") and not KEYWORDS[key] then return paint("key", key) end
    if type(key) == "table" then return "[" .. paint("other", describe(key)) .. "]" end
    return "[" .. scalar(key) .. "]"
  end

  local function entries_of(item, depth)
    local entries = {}
    local length = rawlen(item)
    local left = 0
    local function add(text) entries[#entries + 1] = text end
    local shown = 0
    local function has_room()
      if shown >= OF_ONE or budget <= 0 then return false end
      shown = shown + 1
      budget = budget - 1
      return true
    end
    for i = 1, length do
      if not has_room() then
        left = length - i + 1
        break
      end
      add(show(rawget(item, i), depth + 1))
    end
    local keys, more = {}, 0
    for key in next, item do
      if not (math_type(key) == "integer" and key >= 1 and key <= length) then
        if #keys < SORTED then keys[#keys + 1] = key else more = more + 1 end
      end
    end
    sort(keys, comes_before)
    for i = 1, #keys do
      if not has_room() then
        left = left + #keys - i + 1
        break
      end
      add(key_text(keys[i], depth) .. " = " .. show(rawget(item, keys[i]), depth + 1))
    end
    left = left + more
    if left > 0 then add(paint("mark", "… " .. left .. " more")) end
    return entries
  end

  local function columns(text)
    if color then text = gsub(text, "\27%[[%d;]*m", "") end
    return utf8.len(text) or #text
  end

  function show(item, depth)
    if type(item) ~= "table" then return scalar(item) end
    local metatable = getmetatable(item)
    if type(metatable) == "table" and rawget(metatable, "__tostring") ~= nil then return paint("other", describe(item)) end
    if path[item] then return paint("mark", "<cycle>") end
    if next(item) == nil then return "{}" end
    if depth >= depth_limit then return paint("mark", "{…}") end
    path[item] = true
    local entries = entries_of(item, depth)
    path[item] = nil
    local line = "{ " .. concat(entries, ", ") .. " }"
    local name = type(metatable) == "table" and rawget(metatable, "__name")
    if type(name) == "string" then line, name = name .. " " .. line, name .. " " else name = "" end
    if not find(line, "\n", 1, true) and columns(line) + depth * 2 <= width then return line end
    local indent = rep("  ", depth + 1)
    return name .. "{\n" .. indent .. concat(entries, ",\n" .. indent) .. "\n" .. rep("  ", depth) .. "}"
  end

  if type(value) == "string" and not options.quoted then return value end
  return show(value, 0)
end
