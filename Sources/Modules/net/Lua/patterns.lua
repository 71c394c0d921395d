-- runloop.net.patterns: stream:read_until with Lua's patterns. The module is loaded when a script first passes a
-- pattern.

local rl = require "runloop"
local raise = require "runloop.misuse".raise
local byte, find, format, sub = string.byte, string.find, string.format, string.sub
local ipairs = ipairs
local max, pack, unpack, type = math.max, table.pack, table.unpack, type

local ESCAPE <const>, OPEN <const>, CLOSE <const>, CARET <const> = 37, 40, 41, 94
local SET <const>, SET_END <const>, BALANCED <const>, FRONTIER <const> = 91, 93, 98, 102
local ZERO <const>, NINE <const> = 48, 57
local MOST_CAPTURES <const> = 32

-- Returns the place after a set, whose bracket is at `i`; nil if it does not end.
local function after_set(pattern, i)
  i = i + 1
  if byte(pattern, i) == CARET then i = i + 1 end
  repeat
    local c = byte(pattern, i)
    if not c then return nil end
    i = i + (c == ESCAPE and 2 or 1)
  until byte(pattern, i) == SET_END
  return i + 1
end

-- Returns the problem of a pattern. Lua itself finds some mistakes only when the text matches the part of the pattern
-- before the mistake.
local function mistake(pattern)
  local open, i, count = {}, byte(pattern) == CARET and 2 or 1, 0
  while i <= #pattern do
    local c, next = byte(pattern, i, i + 1)
    if c == OPEN then
      count = count + 1
      if count > MOST_CAPTURES then return "it has more than 32 captures" end
      open[#open + 1] = count
      i = i + 1
    elseif c == CLOSE then
      if #open == 0 then return "')' has no '('" end
      open[#open] = nil
      i = i + 1
    elseif c == SET then
      i = after_set(pattern, i)
      if not i then return "']' is missing" end
    elseif c ~= ESCAPE then
      i = i + 1
    elseif not next then
      return "it ends with '%'"
    elseif next == BALANCED then
      if i + 3 > #pattern then return "'%b' needs two characters" end
      i = i + 4
    elseif next == FRONTIER then
      i = byte(pattern, i + 2) == SET and after_set(pattern, i + 2)
      if not i then return "'%f' needs a set: [...]" end
    else
      if next >= ZERO and next <= NINE then
        local number, is_open = next - ZERO, false
        for _, capture in ipairs(open) do is_open = is_open or capture == number end
        if number == 0 or number > count or is_open then return format("'%%%d' has no capture before it", number) end
      end
      i = i + 2
    end
  end
  if #open > 0 then return "')' is missing" end
end

-- Patterns that were found valid: programs use few.
local known, known_count = {}, 0

local function check(pattern)
  if known[pattern] then return end
  local problem = mistake(pattern)
  if problem then raise("stream:read_until: the pattern %q is broken: %s", pattern, problem) end
  if known_count == 64 then known, known_count = {}, 0 end
  known[pattern], known_count = true, known_count + 1
end

-- Returns the first match that is not empty, as string.find does.
local function match(text, pattern)
  local found = pack(find(text, pattern))
  if byte(pattern) == CARET then return found[1] and found[2] >= found[1] and found end
  local start = 1
  while found[1] and found[2] < found[1] do
    start = max(start, found[1]) + 1
    if start > #text then return nil end
    found = pack(find(text, pattern, start))
  end
  return found[1] and found
end

-- Returns the match that is complete first, and the number of its pattern.
local function first_match(text, patterns)
  local best, which
  for i = 1, #patterns do
    local found = match(text, patterns[i])
    if found and (not best or found[2] < best[2]) then best, which = found, i end
  end
  return best, which
end

-- `hidden`: methods of streams that scripts do not see. Returns stream:read_until for patterns.
return function(hidden)
  local read_more, drop = hidden.read_more, hidden.drop

  return function(stream, patterns, limit, timeout)
    if type(patterns) == "string" then patterns = { patterns } end
    for i = 1, #patterns do check(patterns[i]) end
    local date, seen = timeout and rl.now() + timeout, 0
    while true do
      local text, message, code = read_more(stream, seen, date and max(0, date - rl.now()))
      if code then return nil, message, code end
      if message then return nil, message end
      if not text then return nil end
      seen = #text
      if seen > limit then text = sub(text, 1, limit) end
      local found, which = first_match(text, patterns)
      if found then
        drop(stream, found[2])
        local before = sub(text, 1, found[1] - 1)
        if found.n == 2 then return before, which, sub(text, found[1], found[2]) end
        return before, which, unpack(found, 3, found.n)
      end
      if seen > limit then return nil, format("the end is not within %d bytes", limit), "EMSGSIZE" end
    end
  end
end
