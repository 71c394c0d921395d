-- Divides Lua text into tokens; the text may be unfinished. The chunk is called with the keywords of Lua.

local KEYWORDS = ...

local find, match, sub, byte = string.find, string.match, string.sub, string.byte

local OPERATORS = { "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>" }

-- Returns the tokens of a text: { kind, text, first, last, open }. Comments are left out. An open comment at the end is
-- a token of kind "comment", so that nothing is completed in it.
local function scan(text)
  local tokens, at, size = {}, 1, #text
  local function add(kind, last, open)
    tokens[#tokens + 1] = { kind = kind, text = sub(text, at, last), first = at, last = last, open = open }
    at = last + 1
  end
  -- Returns the last byte of the long bracket that begins at `from`, and whether its end is missing. Returns nil if no
  -- long bracket begins there.
  local function long_bracket(from)
    local level = match(text, "^%[(=*)%[", from)
    if not level then return nil end
    local _, last = find(text, "]" .. level .. "]", from + #level + 2, true)
    return last or size, not last
  end
  while true do
    at = find(text, "[^ \t\r\n\v\f]", at)
    if not at then return tokens end
    local first = byte(text, at)
    if find(text, "^%-%-", at) then
      local last, open = long_bracket(at + 2)
      if not last then
        local line_end = find(text, "\n", at, true)
        last, open = (line_end or size + 1) - 1, not line_end
      end
      if open then add("comment", last, true) else at = last + 1 end
    elseif find(text, "^[%a_]", at) then
      local _, last = find(text, "^[%w_]*", at)
      add(KEYWORDS[sub(text, at, last)] and "keyword" or "name", last)
    elseif find(text, "^%.?%d", at) then
      local _, last = find(text, "^%.?%d[%w_.]*", at)
      while find(text, "^[eEpP][+-]", last) do _, last = find(text, "^[+-][%w_.]*", last + 1) end
      add("number", last)
    elseif first == 34 or first == 39 then
      local last = at + 1
      while last <= size do
        local c = byte(text, last)
        if c == first or c == 10 then break end
        if c == 92 and byte(text, last + 1) == 122 then
          last = find(text, "%S", last + 2) or size + 1  -- \z: line breaks among the blanks do not count.
        else
          last = last + (c == 92 and 2 or 1)
        end
      end
      add("string", last > size and size or last, last > size)
    elseif find(text, "^%[=*%[", at) then
      local last, open = long_bracket(at)
      add("string", last, open)
    else
      local last = at
      for i = 1, #OPERATORS do
        if sub(text, at, at + #OPERATORS[i] - 1) == OPERATORS[i] then
          last = at + #OPERATORS[i] - 1
          break
        end
      end
      add("operator", last)
    end
  end
end

return { scan = scan, KEYWORDS = KEYWORDS }
