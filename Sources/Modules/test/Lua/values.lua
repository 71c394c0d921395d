-- Comparing values, and showing their differences.

local values = {}
local type, next, pairs = type, next, pairs
local rawequal, rawget = rawequal, rawget
local format, sort = string.format, table.sort
local math_type, getmetatable = math.type, getmetatable

-- Showing ------------------------------------------------------------------------------------------------------------

local inspector = require "runloop.inspect"
local quote, KEYWORDS = inspector.quote, require "runloop.keywords"

function values.sorted_keys(table)
  local keys = {}
  for key in next, table do keys[#keys + 1] = key end
  sort(keys, inspector.comes_before)
  return keys
end
local sorted_keys = values.sorted_keys

local function is_name(key) return type(key) == "string" and key:match "^[%a_][%w_]*$" and not KEYWORDS[key] end

-- Shows a value on one line, with `depth` levels of tables and at most `most` fields of each.
local function show(value, depth, most)
  return inspector.inspect(value, { is_line = true, depth = depth, most = most })
end

--- Returns a value as text on one line.
function values.show(value) return show(value, 4, 40) end

local function brief(value)
  local text = show(value, 3, 12)
  if #text <= 160 then return text end
  if type(value) == "table" then return show(value, 1, 6) end
  return text:sub(1, 120) .. format('…" (%d bytes)', #value)
end

-- Comparing ----------------------------------------------------------------------------------------------------------

local equal

local function has_eq(value)
  local meta = getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__eq") ~= nil
end

local function table_equal(a, b, seen)
  if seen[a] == b then return true end  -- an outer level already compares these two: only the other fields can differ
  seen[a] = b
  for key, value in next, a do
    local other = rawget(b, key)
    if other == nil or not equal(value, other, seen) then return false end
  end
  for key in next, b do
    if rawget(a, key) == nil then return false end
  end
  return true
end

function equal(a, b, seen)
  if rawequal(a, b) then return true end
  if type(a) ~= type(b) then return false end
  if type(a) == "number" then return a == b or a ~= a and b ~= b end
  if type(a) ~= "table" then return a == b end
  if has_eq(a) or has_eq(b) then return a == b end
  return table_equal(a, b, seen)
end

--- Returns whether two values are equal; tables are compared by their contents.
function values.equal(a, b) return equal(a, b, {}) end

-- Differences ---------------------------------------------------------------------------------------------------------

-- Finds the longest common subsequence of two arrays, and calls `keep(i, j)`, `drop(i)` and `add(j)` in order. The time
-- is proportional to the product of the lengths, without the equal elements at both ends. Returns nil if that product
-- is too large.
local function align(a, b, n, m, same, keep, drop, add)
  local first = 0
  while first < n and first < m and same(a[first + 1], b[first + 1]) do first = first + 1 end
  local last = 0
  while last < n - first and last < m - first and same(a[n - last], b[m - last]) do last = last + 1 end
  local rows, columns = n - first - last, m - first - last
  if rows * columns > 250000 then return nil end
  local lengths = {}
  for i = rows, 0, -1 do
    lengths[i] = {}
    for j = columns, 0, -1 do
      if i == rows or j == columns then
        lengths[i][j] = 0
      elseif same(a[first + i + 1], b[first + j + 1]) then
        lengths[i][j] = lengths[i + 1][j + 1] + 1
      else
        local down, right = lengths[i + 1][j], lengths[i][j + 1]
        lengths[i][j] = down > right and down or right
      end
    end
  end
  for i = 1, first do keep(i, i) end
  local i, j = 0, 0
  while i < rows or j < columns do
    if i < rows and j < columns and same(a[first + i + 1], b[first + j + 1]) then
      i, j = i + 1, j + 1
      keep(first + i, first + j)
    elseif i < rows and (j == columns or lengths[i + 1][j] >= lengths[i][j + 1]) then
      i = i + 1
      drop(first + i)
    else
      j = j + 1
      add(first + j)
    end
  end
  for k = last - 1, 0, -1 do keep(n - k, m - k) end
  return true
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return lines
end

-- Returns the differing lines with three lines around each. Lines that only the expected text has begin with -; lines
-- that only the actual text has begin with +.
local function text_difference(actual, expected)
  if actual:sub(-1) == "\n" and expected:sub(-1) == "\n" then
    actual, expected = actual:sub(1, -2), expected:sub(1, -2)
  end
  local a, b = lines_of(expected), lines_of(actual)
  local all = {}
  local function same(x, y) return x == y end
  local aligned = align(a, b, #a, #b, same,
    function(i) all[#all + 1] = "  " .. a[i] end,
    function(i) all[#all + 1] = "- " .. a[i] end,
    function(j) all[#all + 1] = "+ " .. b[j] end)
  if not aligned then return nil end
  local near, out, gap = {}, {}, false
  for i = 1, #all do
    if all[i]:sub(1, 1) ~= " " then
      for j = i - 3, i + 3 do near[j] = true end
    end
  end
  for i = 1, #all do
    if near[i] then
      out[#out + 1] = (all[i]:gsub("[\r\27%z]", { ["\r"] = "\\r", ["\27"] = "\\27", ["\0"] = "\\0" }))
      gap = false
    elseif not gap then
      out[#out + 1] = "  …"
      gap = true
    end
  end
  return out
end

local MOST = 12

local function step(path, key)
  if is_name(key) then return path .. "." .. key end
  return path .. "[" .. show(key, 1, 4) .. "]"
end

local function array_length(t)
  local n = 0
  while rawget(t, n + 1) ~= nil do n = n + 1 end
  return n
end

local collect

local function say(list, path, text) list[#list + 1] = (path == "" and "it" or path) .. ": " .. text end

-- Compares arrays of different lengths by inserted and missing elements, so that a change does not make all later
-- elements differ.
local function collect_array(list, path, a, b, n, m, seen)
  local dropped, added, out = nil, nil, {}
  local aligned = align(b, a, m, n, function(x, y) return equal(x, y, {}) end,
    function() dropped, added = nil, nil end,
    function(i) out[#out + 1] = { "missing", i } end,
    function(j) out[#out + 1] = { "extra", j } end)
  if not aligned or #out > n + m - 1 then return false end
  for _, change in pairs(out) do
    if change[1] == "missing" then
      say(list, step(path, change[2]), "missing: expected " .. brief(b[change[2]]))
    else
      say(list, step(path, change[2]), "not expected: got " .. brief(a[change[2]]))
    end
  end
  return true
end

function collect(list, path, a, b, seen)
  -- Tables are compared in one walk: a comparison at each level would repeat that of all levels below it.
  local are_leaves = type(a) ~= "table" or type(b) ~= "table" or has_eq(a) or has_eq(b)
  if rawequal(a, b) or are_leaves and equal(a, b, {}) then return end
  if are_leaves then
    if type(a) == "number" and type(b) == "number" and brief(a) == brief(b) then
      return say(list, path, format("expected %.17g, got %.17g", b, a))
    end
    return say(list, path, "expected " .. brief(b) .. ", got " .. brief(a))
  end
  if seen[a] == b then return end
  seen[a] = b
  local n, m = array_length(a), array_length(b)
  local done = n ~= m and n + m < 2000 and collect_array(list, path, a, b, n, m, seen)
  local both = {}
  for key in next, a do both[key] = true end
  for key in next, b do both[key] = true end
  for _, key in pairs(sorted_keys(both)) do
    local in_array = math_type(key) == "integer" and key >= 1 and key <= (n > m and n or m)
    if not (done and in_array) then
      local mine, other = rawget(a, key), rawget(b, key)
      if mine == nil then
        say(list, step(path, key), "missing: expected " .. brief(other))
      elseif other == nil then
        say(list, step(path, key), "not expected: got " .. brief(mine))
      else
        collect(list, step(path, key), mine, other, seen)
      end
    end
  end
end

-- Shows where long strings on one line begin to differ, and the text around that place.
local function long_difference(actual, expected)
  local first, most = 1, #actual < #expected and #actual or #expected
  while first <= most and actual:byte(first) == expected:byte(first) do first = first + 1 end
  local function part(text)
    local from = first > 40 and first - 30 or 1
    local shown = quote(text:sub(from, from + 79))
    return (from > 1 and "…" or "") .. shown .. (#text > from + 79 and "…" or "") .. format(" (%d bytes)", #text)
  end
  return format("the strings differ from byte %d on", first),
    { "expected " .. part(expected), "got      " .. part(actual) }
end

--- Returns the difference of two unequal values: a headline, and an array of details or nil.
function values.difference(actual, expected)
  if type(actual) == "table" and type(expected) == "table" and not has_eq(actual) and not has_eq(expected) then
    local list = {}
    collect(list, "", actual, expected, {})
    if #list > MOST then
      local more = #list - MOST
      for i = #list, MOST + 1, -1 do list[i] = nil end
      list[MOST + 1] = format("… and %d more differences", more)
    end
    return "the tables differ", list
  end
  if type(actual) == "string" and type(expected) == "string" and (actual:find "\n" or expected:find "\n") then
    local lines = text_difference(actual, expected)
    if lines then return "the texts differ (- expected, + got)", lines end
  end
  local list = {}
  collect(list, "", actual, expected, {})
  local text = (list[1] or ""):gsub("^it: ", "")
  if type(actual) ~= type(expected) and type(actual) ~= "table" and type(expected) ~= "table" then
    text = format("expected %s, got %s", brief(expected), brief(actual))
    if brief(actual):gsub('"', "") == brief(expected):gsub('"', "") then
      text = text .. format(" (a %s)", type(actual))
    end
  end
  if type(actual) == "string" and type(expected) == "string" and (#actual > 100 or #expected > 100) then
    return long_difference(actual, expected)
  end
  if #text <= 90 then return text, nil end
  return "the values differ", { "expected " .. brief(expected), "got      " .. brief(actual) }
end

return values
