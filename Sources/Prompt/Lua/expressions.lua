-- Infers the types and values of expressions in a text, for completion. Tables are read raw, and no code of the script
-- runs: the result of a call is known from its annotations, or not at all.

local locals, reference, stdlib, names = ...
local type, next, ipairs = type, next, ipairs
local rawget, tonumber = rawget, tonumber
local find, match, sub = string.find, string.match, string.sub
local getmetatable = debug.getmetatable
local plain = reference.plain

-- The knowledge about an expression is a table or nil: { value = v } if its value is known; { class = "runloop.Loop" }
-- if it is an object of a class in the reference; { entry = e } if it is a function in the reference.

-- Calls visit(key, value) for the fields of a value, including those inherited through __index tables.
local function each_field(value, visit)
  local seen, depth = {}, 0
  while value ~= nil and depth < 20 do
    if type(value) == "table" then
      if seen[value] then return end
      seen[value] = true
      local count = 0
      for key, field in next, value do
        visit(key, field)
        count = count + 1
        if count > 20000 then break end
      end
    end
    local metatable = getmetatable(value)
    local index = type(metatable) == "table" and rawget(metatable, "__index")
    if type(index) ~= "table" then return end
    value = index
    depth = depth + 1
  end
end

local function method() end

-- Returns the methods and fields as a table, or the value itself.
local function substance(known)
  if not known then return nil end
  if not known.class then return known.value end
  if known.class == "file" then return names.methods "file" end
  local members = {}
  reference.each_member(known.class, function(name, entry) members[name] = entry and method or true end)
  return members
end

-- Returns the knowledge about a value of an annotated type.
local function of_type(kind)
  if not kind then return nil end
  if find(kind, "^string%??$") then return { value = "" } end
  if kind == "file" then return { class = "file" } end
  local class = reference.class_of(kind)
  return class and { class = class }
end

local function field_of(known, key)
  if known.class and known.class ~= "file" then
    local found
    reference.each_member(known.class, function(name, entry, kind)
      if name == key then found = entry and { entry = entry } or of_type(kind) end
    end)
    return found
  end
  local value, found = substance(known), nil
  each_field(value, function(other, field) if found == nil and other == key then found = field end end)
  if found == nil then return nil end
  return { value = found }
end

-- Returns the entry of a function in the reference, and its name.
local function entry_of(known)
  if not known then return nil end
  if known.entry then return known.entry, match(known.entry.title, "^[^(]+") end
  local name = type(known.value) == "function" and names.of(known.value)
  return name and reference.functions[plain(name)], name or nil
end

-- Returns the knowledge about a call's result, from its annotations.
local function result_of(known)
  local entry, name = entry_of(known)
  return of_type(entry and entry.returns[1] or name and stdlib.returns[name])
end

local STEPS = { ["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1 }

-- Returns the change of depth at a token: 1 for an opening bracket, -1 for a closing one, 0 for other tokens.
local function step_of(token) return token.kind == "operator" and STEPS[token.text] or 0 end

-- Returns the token index of the matching bracket, in a direction.
local function partner(found, at, step)
  local depth = 0
  while found[at] do
    depth = depth + step * step_of(found[at])
    if depth == 0 then return at end
    at = at + step
  end
end

local function string_value(token)
  if token.open then return nil end
  local inside = match(token.text, "^%[=*%[\n?(.*)%]=*%]$")
  if inside then return inside end
  inside = sub(token.text, 2, -2)
  return not find(inside, "\\", 1, true) and inside or nil
end

local resolve

-- Resolves a primary expression: a name, a string, or an expression in parentheses. Returns the knowledge about it, and
-- the index of the next token.
local function primary(found, at, scope)
  local token = found[at]
  if not token then return nil, at end
  if token.kind == "string" then return { value = string_value(token) or "" }, at + 1 end
  if token.text == "(" then
    local last = partner(found, at, 1)
    if not last then return nil, at + 1 end
    local known, after = resolve(found, at + 1, scope)
    return after == last and known or nil, last + 1
  end
  if token.kind ~= "name" then return nil, at + 1 end
  local own = scope and scope[token.text]
  if own then return own.known, at + 1 end
  local value = locals.value(token.text)
  return value ~= nil and { value = value } or nil, at + 1
end

-- Resolves an expression of names, fields, constant keys and calls. It begins at the token index `at`, and ends at
-- `last_place` if that is given.
function resolve(found, at, scope, last_place)
  local known
  known, at = primary(found, at, scope)
  while true do
    if last_place and at > last_place then return known, at end
    local token, following = found[at], found[at + 1]
    local text = token and token.kind == "operator" and token.text
    if (text == "." or text == ":") and following and (following.kind == "name" or following.kind == "keyword") then
      known, at = known and field_of(known, following.text), at + 2
    elseif text == "[" then
      local last = partner(found, at, 1)
      if not last then return known, at end
      local key
      if last == at + 2 then
        key = following.kind == "number" and tonumber(following.text)
          or following.kind == "string" and string_value(following)
      end
      known, at = key and known and field_of(known, key) or nil, last + 1
    elseif text == "(" or text == "{" or token and token.kind == "string" then
      local last = token.kind == "string" and at or partner(found, at, 1)
      if not last then return known, at end
      known, at = result_of(known), last + 1
    else
      return known, at
    end
  end
end

-- Returns the beginning of the expression that ends at a place; nil if there is none.
local function beginning(found, at)
  while at >= 1 do
    local token = found[at]
    if step_of(token) < 0 then
      at = partner(found, at, -1)
      if not at then return nil end
      -- The tokens before a bracket belong to the expression, unless the bracket is a parenthesis around it.
      local before = found[at - 1]
      local follows = before and (before.kind == "name" or before.kind == "string" or step_of(before) < 0)
      if not follows then return token.text == ")" and at or nil end
      at = at - 1
    elseif token.kind == "name" or token.kind == "string" or token.kind == "keyword" then
      local before = found[at - 1]
      if token.kind == "string" and before and (before.kind == "name" or before.text == ")" or before.text == "]") then
        at = at - 1
      elseif token.kind ~= "string" and before and (before.text == "." or before.text == ":")
        and before.kind == "operator" then
        at = at - 2
      else
        return token.kind ~= "keyword" and at or nil
      end
    else
      return nil
    end
  end
end

-- The words that open blocks. Locals of blocks that are still open at the cursor are known.
local OPENS = { ["function"] = true, ["do"] = true, ["then"] = true, ["repeat"] = true }
local CLOSES = { ["end"] = true, ["until"] = true, ["elseif"] = true, ["else"] = true }

local function locals_of(found)
  local scopes = { {} }
  local at = 1
  local function names_at(place)
    local list = {}
    while found[place] and found[place].kind == "name" do
      list[#list + 1] = found[place].text
      place = place + 1
      if found[place] and found[place].text == "<" then place = place + 3 end
      if not found[place] or found[place].text ~= "," then break end
      place = place + 1
    end
    return list, place
  end
  local function flat()
    local all = {}
    for i = 1, #scopes do for name, value in next, scopes[i] do all[name] = value end end
    return all
  end
  local pending = {}
  while found[at] do
    local token = found[at]
    local word = token.kind == "keyword" and token.text
    local scope = scopes[#scopes]
    if CLOSES[word] and #scopes > 1 then scopes[#scopes] = nil end
    if word == "local" and found[at + 1] and found[at + 1].text == "function" then
      if found[at + 2] then scope[found[at + 2].text] = {} end
    elseif word == "local" then
      local list, after = names_at(at + 1)
      local known
      -- A local name is visible only after the end of its statement.
      if found[after] and found[after].text == "=" then
        if not found[after + 1] then break end
        known = resolve(found, after + 1, flat())
      end
      for i = 1, #list do scope[list[i]] = { known = i == 1 and known or nil } end
      at = after - 1
    elseif word == "for" then
      pending = names_at(at + 1)
    end
    if word == "function" then
      local open = at + 1
      while found[open] and found[open].text ~= "(" do open = open + 1 end
      scopes[#scopes + 1] = {}
      for _, name in ipairs((names_at(open + 1))) do scopes[#scopes][name] = {} end
    elseif OPENS[word] or word == "else" then
      scopes[#scopes + 1] = {}
      for _, name in ipairs(pending) do scopes[#scopes][name] = {} end
      pending = {}
    end
    at = at + 1
  end
  return flat()
end

return {
  each_field = each_field,
  entry_of = entry_of,
  substance = substance,
  resolve = resolve,
  beginning = beginning,
  locals_of = locals_of,
  step_of = step_of,
}
