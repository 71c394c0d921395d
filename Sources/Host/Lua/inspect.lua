-- Shows values as text, for the prompt and for the test library. The module reads tables raw, so that showing a value
-- runs none of its code; the exception is __tostring, whose errors are shown in place of the value.

-- The prompt passes the keywords of Lua and runloop.text, since it must not use the script's `require`.
local KEYWORDS, text = ...
if not text or not text.shown then KEYWORDS, text = require "runloop.keywords", require "runloop.text" end
local length_of = text.length_of
local type, tostring, pcall = type, tostring, pcall
local next, rawlen, rawget = next, rawlen, rawget
local getmetatable, getinfo, getlocal, getupvalue = debug.getmetatable, debug.getinfo, debug.getlocal, debug.getupvalue
local format, gsub, rep = string.format, string.gsub, string.rep
local find, byte, sub = string.find, string.byte, string.sub
local concat, sort = table.concat, table.sort
local math_type, huge, floor = math.type, math.huge, math.floor
local status = coroutine.status

-- The largest numbers: of entries shown of one table, of entries shown of all tables, and of keys to sort.
local OF_ONE, IN_ALL, SORTED = 100, 1000, 20000
-- Arrays with more elements than this are shown in columns if they do not fit in one line.
local IN_A_ROW = 6

local PALETTE = { string = "32", number = "36", boolean = "33", ["nil"] = "33", key = "", other = "35", mark = "2" }

-- Text that is safe for a terminal -----------------------------------------------------------------------------------

local ESCAPES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"', ["\a"] = "\\a",
  ["\b"] = "\\b", ["\f"] = "\\f", ["\v"] = "\\v", ["\27"] = "\\27" }

local function quote(bytes)
  bytes = gsub(bytes, '[%c\\"]', function(c) return ESCAPES[c] end)
  bytes = gsub(bytes, "(%c)(%d?)", function(c, digit)
    return format(digit == "" and "\\%d%s" or "\\%03d%s", byte(c), digit)
  end)
  return '"' .. text.shown(bytes) .. '"'
end

-- Escapes a text that comes from the script: its line breaks stay, and other control characters become visible.
local function harmless(bytes) return text.shown(bytes, true) end

local function number_text(value)
  if value == huge then return "math.huge" elseif value == -huge then return "-math.huge" end
  if value ~= value then return "nan" end
  return tostring(value)
end

-- Returns a number with enough digits to identify it: two different numbers must not look equal in a failed comparison.
local function exact_text(value)
  if math_type(value) == "integer" or value ~= value or value == huge or value == -huge then
    return number_text(value)
  end
  if value % 1 == 0 and value < 1e15 and value > -1e15 then return format("%.1f", value) end
  local short = format("%.14g", value)
  return short + 0 == value and short or format("%.17g", value)
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
  if ok then return harmless(text) end
  local reason = type(text) == "string" and harmless(text) or type(text)
  return format("<%s %p: error in __tostring: %s>", type(value), value, reason)
end

-- Returns `(a, b, ...)` and `app.lua:12`; nil for both if the function is written in C.
local function signature(fn)
  local info = getinfo(fn, "Su")
  if info.what == "C" then return nil, nil end
  local names = {}
  for i = 1, info.nparams do names[i] = getlocal(fn, i) or "?" end
  if info.isvararg then names[#names + 1] = "..." end
  local place = info.source ~= "=[rlhost]" and info.short_src .. ":" .. info.linedefined or nil
  return "(" .. concat(names, ", ") .. ")", place
end

-- Returns a text such as `function area(width, height) shapes.lua:3`. `title` is the name of a function of Lua or of
-- the host, with its arguments.
local function function_text(fn, title, name)
  local arguments, place = signature(fn)
  if title then
    local shown = find(title, "(", 1, true) and "" or arguments or "(...)"
    return format("function %s%s %s", title, shown, place or "built in")
  end
  name = name and " " .. name or ""
  return format("function%s%s %s", name, arguments or format(" %p", fn), place or "built in")
end

local function thread_text(thread)
  local state = status(thread)
  local info
  for level = 0, 5 do
    info = getinfo(thread, level, "Sl")
    if not info or info.currentline > 0 then break end
  end
  return format("thread %p %s", thread, state) .. (info and format(" at %s:%d", info.short_src, info.currentline) or "")
end

-- inspect(value, options): `depth` of tables (3), `width` of a line (80), `most` entries of one table (100) and of all
-- tables (`in_all`, 1000), `is_line` (all on one line, with all digits of numbers), `color`, `deep` (metatables,
-- upvalues, fields of objects), `reset`
-- (the text that ends a colour), `title_of(fn)`, `name_of(fn)` and `fields_of(object)`.
local function inspect(value, options)
  local depth_limit, width, color, deep = options.depth or 3, options.width or 80, options.color, options.deep
  local most, is_line = options.most or OF_ONE, options.is_line
  local edge = is_line and "" or " "
  local title_of, name_of, fields_of = options.title_of, options.name_of, options.fields_of
  local reset = options.reset or "\27[m"
  local budget = options.in_all or IN_ALL
  local path = {}

  local function paint(kind, text)
    local code = color and PALETTE[kind]
    if not code or code == "" then return text end
    return "\27[" .. code .. "m" .. text .. reset
  end

  local function scalar(item, is_named)
    local kind = type(item)
    if kind == "string" then return paint("string", quote(item)) end
    if kind == "number" then return paint("number", (is_line and exact_text or number_text)(item)) end
    if kind == "boolean" or kind == "nil" then return paint(kind, tostring(item)) end
    if kind == "function" then
      local name = not is_named and name_of and name_of(item)
      return paint("other", function_text(item, title_of and title_of(item), name))
    end
    if kind == "thread" then return paint("other", thread_text(item)) end
    local text = describe(item)
    return paint("other", is_line and gsub(text, "\n", "\\n") or text)
  end

  local show

  local function key_text(key)
    if type(key) == "string" and find(key, "^[%a_][%w_]*$") and not KEYWORDS[key] then return paint("key", key) end
    if type(key) == "table" then return "[" .. paint("other", describe(key)) .. "]" end
    return "[" .. scalar(key) .. "]"
  end

  local function columns(text)
    if color then text = gsub(text, "\27%[[%d;]*m", "") end
    return length_of(text) or #text
  end

  -- Returns the entries as text, the number of them that are elements of the array, and the number of entries left out.
  local function entries_of(item, depth)
    local entries = {}
    local length = rawlen(item)
    local left = 0
    local function add(text) entries[#entries + 1] = text end
    local shown = 0
    local function has_room()
      if shown >= most or budget <= 0 then return false end
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
    local elements = #entries
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
      add(key_text(keys[i]) .. " = " .. show(rawget(item, keys[i]), depth + 1, true))
    end
    return entries, elements, left + more
  end

  -- Joins the first `count` entries to lines with columns, with as many entries in a line as fit.
  local function in_columns(item, entries, count, room)
    local widest = 0
    for i = 1, count do
      if find(entries[i], "\n", 1, true) then return entries end
      local own = columns(entries[i])
      if own > widest then widest = own end
    end
    local per_row = room < huge and floor((room + 1) / (widest + 2)) or count
    if per_row < 2 then return entries end
    local rows, at = {}, 1
    while at <= count do
      local row = {}
      for i = at, at + per_row - 1 < count and at + per_row - 1 or count do
        local blanks = rep(" ", widest - columns(entries[i]))
        local is_number = type(rawget(item, i)) == "number"
        row[#row + 1] = is_number and blanks .. entries[i] or entries[i] .. (i < count and "," or "") .. blanks
        if is_number and i < count then row[#row] = row[#row] .. "," end
      end
      rows[#rows + 1] = gsub(gsub(concat(row, " "), " +$", ""), ",$", "")
      at = at + per_row
    end
    for i = count + 1, #entries do rows[#rows + 1] = entries[i] end
    return rows
  end

  -- Returns the parts of a value that are not fields, such as its metatable, as { name, value } pairs.
  local function hidden_parts(item)
    local parts = {}
    if type(item) == "function" then
      for i = 1, 255 do
        local name, held = getupvalue(item, i)
        if not name then break end
        if name ~= "_ENV" then parts[#parts + 1] = { name ~= "" and name or "(upvalue " .. i .. ")", held } end
      end
    elseif type(item) == "userdata" and fields_of then
      parts = fields_of(item) or parts
    end
    local metatable = getmetatable(item)
    if type(metatable) == "table" and type(item) ~= "string" and (type(item) ~= "userdata" or #parts == 0) then
      parts[#parts + 1] = { "<metatable>", metatable }
    end
    return parts
  end

  local function add_parts(entries, item, depth)
    local parts = hidden_parts(item)
    for i = 1, #parts do
      if budget <= 0 then break end
      budget = budget - 1
      entries[#entries + 1] = paint("mark", parts[i][1]) .. " = " .. show(parts[i][2], depth + 1, true)
    end
  end

  local function enclose(entries, rows, name, depth)
    local line = name .. "{" .. edge .. concat(entries, ", ") .. edge .. "}"
    if is_line or not find(line, "\n", 1, true) and columns(line) + depth * 2 <= width then return line end
    local indent = rep("  ", depth + 1)
    return name .. "{\n" .. indent .. concat(rows, ",\n" .. indent) .. "\n" .. rep("  ", depth) .. "}"
  end

  function show(item, depth, is_named)
    local kind = type(item)
    if kind ~= "table" then
      local text = scalar(item, is_named)
      if not deep or kind ~= "function" and kind ~= "userdata" then return text end
      if path[item] or depth >= depth_limit then return text end
      local entries = {}
      path[item] = true
      add_parts(entries, item, depth)
      path[item] = nil
      if #entries == 0 then return text end
      return enclose(entries, entries, text .. " ", depth)
    end
    local metatable = getmetatable(item)
    local is_described = type(metatable) == "table" and rawget(metatable, "__tostring") ~= nil
    if is_described and not deep then return scalar(item) end
    if path[item] then return paint("mark", "<cycle>") end
    local name = type(metatable) == "table" and rawget(metatable, "__name")
    name = type(name) == "string" and harmless(name) .. " " or ""
    if next(item) == nil and not (deep and metatable) then return name .. "{}" end
    if depth >= depth_limit then return name .. paint("mark", "{…}") end
    path[item] = true
    local entries, elements, left = entries_of(item, depth)
    if deep then add_parts(entries, item, depth) end
    path[item] = nil
    local rows = entries
    if elements > IN_A_ROW and not is_line then rows = in_columns(item, entries, elements, width - depth * 2 - 2) end
    if left > 0 then
      local more = paint("mark", "… " .. left .. " more")
      if rows ~= entries then rows[#rows + 1] = more end
      entries[#entries + 1] = more
    end
    if is_described then name = paint("other", describe(item)) .. " " end
    return enclose(entries, rows, name, depth)
  end

  return show(value, 0)
end

-- The largest number of bytes that a message shows of an error value.
local OF_ERROR = 200

-- Returns an error value as a message shows it.
local function error_text(value)
  local shown = inspect(value, { depth = 2, width = math.huge })
  if #shown <= OF_ERROR then return shown end
  local last = OF_ERROR - #"…"
  -- Does not cut inside a character.
  while last > OF_ERROR - 8 and find(shown, "^[\128-\191]", last + 1) do last = last - 1 end
  return sub(shown, 1, last) .. "…"
end

return { inspect = inspect, error_text = error_text, describe = describe, harmless = harmless, signature = signature,
  length_of = length_of, function_text = function_text, quote = quote, comes_before = comes_before }
