-- The condition of a failed assert: the values of its parts, as far as they can be found without calling anything
-- again.

local type, pairs, setmetatable, load = type, pairs, setmetatable, load
local find, match, sub = string.find, string.match, string.sub
local create, resume, sethook = coroutine.create, coroutine.resume, debug.sethook
local KEYWORDS = require "runloop.keywords"

local condition = {}

-- Tokens --------------------------------------------------------------------------------------------------------------

local COMPARISONS = { ["=="] = true, ["~="] = true, ["<"] = true, [">"] = true, ["<="] = true, [">="] = true }
local OPENING = { ["("] = ")", ["["] = "]", ["{"] = "}" }
local CLOSING = { [")"] = true, ["]"] = true, ["}"] = true }
local LONG = { "...", "==", "~=", "<=", ">=", "..", "//", "<<", ">>", "::" }

-- Returns the kind of the token at a place, and its last byte; nil if there is no token.
local function token_at(text, at)
  local first = sub(text, at, at)
  local level = match(text, "^%[(=*)%[", at)
  if level then
    local _, last = find(text, "]" .. level .. "]", at, true)
    return last and "string", last
  elseif first == '"' or first == "'" then
    local last = at + 1
    while sub(text, last, last) ~= first do
      if last > #text or sub(text, last, last) == "\n" then return nil end
      last = last + (sub(text, last, last) == "\\" and 2 or 1)
    end
    return "string", last
  elseif find(first, "[%a_]") then
    local _, last = find(text, "^[%w_]+", at)
    return KEYWORDS[sub(text, at, last)] and "keyword" or "name", last
  elseif find(text, "^%.?%d", at) then
    local _, last = find(text, "^0[xX][%x%.]*[pP]?[+-]?%x*", at)
    if not last then _, last = find(text, "^[%d%.]+[eE]?[+-]?%d*", at) end
    -- A sign that does not follow an exponent is an operator.
    if not find(sub(text, at, last), "[eEpP][+-]") then _, last = find(text, "^[%w%.]+", at) end
    return "number", last
  end
  for i = 1, #LONG do
    if sub(text, at, at + #LONG[i] - 1) == LONG[i] then return "operator", at + #LONG[i] - 1 end
  end
  return "operator", at
end

-- Returns the tokens of a text from a place on, as far as they can be read. `depth` is the number of brackets around a
-- token.
local function tokens_of(text, at)
  local tokens, depth = {}, 0
  while true do
    at = find(text, "%S", at)
    if not at then return tokens end
    if sub(text, at, at + 1) == "--" then
      local level = match(text, "^%-%-%[(=*)%[", at)
      local _, last = find(text, level and "]" .. level .. "]" or "\n", at, true)
      if not last then return tokens end
      at = last + 1
    else
      local kind, last = token_at(text, at)
      if not kind then return tokens end
      local word = sub(text, at, last)
      if kind == "operator" and CLOSING[word] then depth = depth - 1 end
      tokens[#tokens + 1] = { kind = kind, text = word, from = at, to = last, depth = depth }
      if kind == "operator" and OPENING[word] then depth = depth + 1 end
      at = last + 1
    end
  end
end

-- Parts ---------------------------------------------------------------------------------------------------------------

-- Returns whether a part can be evaluated again without effects: it has a name, and neither calls a function nor makes
-- a value.
local function is_plain(tokens, first, last)
  local has_name = false
  for i = first, last do
    local token, before = tokens[i], tokens[i - 1]
    if token.kind == "name" then has_name = true end
    local word = token.text
    if word == "function" or word == "{" or word == "..." or word == ":" or word == ";" or word == "=" then
      return false
    end
    local ends_value = i > first and (before.kind == "name" or before.kind == "string" or before.text == ")"
      or before.text == "]")
    if ends_value and (word == "(" or token.kind == "string") then return false end
  end
  return has_name
end

-- Returns the first token of a part for which `is_wanted` is true; tokens inside further brackets do not count.
local function find_token(tokens, first, last, is_wanted)
  for i = first, last do
    if tokens[i].depth == tokens[first].depth and is_wanted(tokens[i]) then return i end
  end
end

local function is_or(token) return token.text == "or" and token.kind == "keyword" end
local function is_and(token) return token.text == "and" and token.kind == "keyword" end
local function is_comparison(token) return token.kind == "operator" and COMPARISONS[token.text] end

-- Returns whether a part is one pair of parentheses.
local function is_enclosed(tokens, first, last)
  if tokens[first].text ~= "(" or tokens[last].text ~= ")" then return false end
  for i = first + 1, last - 1 do if tokens[i].depth <= tokens[first].depth then return false end end
  return true
end

-- Calls `each` with the first and the last token of every part that has a value of its own: parts of `or` and `and`,
-- and the sides of comparisons.
local function visit(tokens, first, last, each)
  if first > last then return end
  local at = find_token(tokens, first, last, is_or) or find_token(tokens, first, last, is_and)
  if at then
    visit(tokens, first, at - 1, each)
    return visit(tokens, at + 1, last, each)
  end
  at = find_token(tokens, first, last, is_comparison)
  if at and find_token(tokens, at + 1, last, is_comparison) then return end
  if at then
    each(first, at - 1)
    each(at + 1, last)
  elseif tokens[first].text == "not" then
    visit(tokens, first + 1, last, each)
  elseif is_enclosed(tokens, first, last) then
    visit(tokens, first + 1, last - 1, each)
  else
    each(first, last)
  end
end

-- Values --------------------------------------------------------------------------------------------------------------

local function refuse() error("a metamethod", 0) end

-- Returns the value of an expression. The expression is evaluated in its own coroutine, whose hook refuses all calls
-- but the first, so that no metamethod is called.
local function value_of(text, environment)
  local chunk = load("return " .. text, "=assert", "t", environment)
  if not chunk then return false end
  local thread, calls = create(chunk), 0
  sethook(thread, function()
    calls = calls + 1
    if calls > 1 then refuse() end
  end, "c")
  return resume(thread)
end

-- Returns the globals, read without calling metamethods of their table, and the local variables.
local function environment_of(names)
  local globals, values = names._ENV and names._ENV[1] or _G, {}
  if type(globals) == "table" then for name, value in next, globals do values[name] = value end end
  for name, box in pairs(names) do values[name] = box[1] end
  return values
end

-- Returns the tokens of the condition of the assert at a place: its first argument. Returns nil if the condition's end
-- is not in the text.
local function condition_at(text, at)
  local tokens = tokens_of(text, at)
  if not tokens[2] or tokens[2].text ~= "(" then return nil end
  for i = 3, #tokens do
    local token = tokens[i]
    if token.depth <= 0 or token.depth == 1 and token.text == "," then
      return tokens, 3, i - 1
    end
  end
end

--- Returns lines like "x is 1" for the condition of the assert in a Lua text. `names` holds the local variables, each
--- in a box.
function condition.values(text, names)
  local at = find(text, "%f[%w_]assert%s*%(")
  -- If a line has several asserts, it is unknown which one failed.
  local line_end = find(text, "\n", 1, true) or #text
  local other = at and find(text, "%f[%w_]assert%s*%(", at + 1)
  if not at or other and other < line_end then return {} end
  local tokens, first, last = condition_at(text, at)
  if not tokens then return {} end
  local environment, shown, seen = environment_of(names), {}, {}
  local show = require "runloop.test.values".show
  visit(tokens, first, last, function(from, to)
    if from > to or not is_plain(tokens, from, to) then return end
    local part = sub(text, tokens[from].from, tokens[to].to)
    local fine, value = value_of(part, environment)
    if fine and not seen[part] then shown[#shown + 1] = part .. " is " .. show(value) end
    seen[part] = true
  end)
  return shown
end

return condition
