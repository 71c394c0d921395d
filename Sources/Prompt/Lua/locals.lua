-- Compiles entries so that their locals stay. The chunk is called with the tokens, and with true for the prompt of a
-- guest, which does not change the globals.

local tokens, guest = ...
local scan = tokens.scan
local load, type, select = load, type, select
local rawget, rawset, next = rawget, rawset, next
local pcall, error, tostring = pcall, error, tostring
local find, match, sub, format = string.find, string.match, string.sub, string.format
local concat, unpack = table.concat, table.unpack
local getupvalue, setupvalue, upvaluejoin = debug.getupvalue, debug.setupvalue, debug.upvaluejoin
local getmetatable = debug.getmetatable
local globals = _G

local locals = {}

-- An entry's top-level locals are kept as upvalues. After each `local` statement, a call is inserted. Its argument is a
-- function that mentions the new variables, and so has them as upvalues. If a later entry mentions these variables, it
-- is compiled inside a function with locals of the same names, and its upvalues are joined to the kept ones. So
-- closures, assignments and shadowing work as if all entries were in one block.

local variables = {}  -- { fn, index, constant } by name.
local to_close = {}   -- The values of <close> variables, which are closed when the session ends.
local kept = {}       -- The variables that the current entry declares, by number.

local KEEP = "_rlhost_keep"

-- This text is inserted before an entry. With a to-be-closed variable, even if it is nil, `return f()` is not a tail
-- call, so tracebacks still show the entry.
local STAY = "local _rlhost_entry <close> = nil "

local function load_staying(head, body, chunk)
  local fn = load(head .. STAY .. body, chunk, "t")
  -- If the function already has the largest number of variables, compile it without the prefix.
  if fn then return fn end
  return load(head .. body, chunk, "t")
end

local published = {}  -- The variables by name.

-- Sets a variable of the prompt, such as `_`: as a global, or for a guest as a kept local, unless a global has the
-- name.
function locals.publish(name, value)
  if not guest then return rawset(globals, name, value) end
  local variable = variables[name]
  if variable and variable == published[name] then return setupvalue(variable[1], variable[2], value) end
  if variable or rawget(globals, name) ~= nil then return end
  published[name] = { function() return value end, 1 }
  variables[name] = published[name]
end

local function keep(number, fn)
  local declared = kept[number]
  local places, count = {}, 1
  while true do
    local name = getupvalue(fn, count)
    if not name then break end
    places[name] = count
    count = count + 1
  end
  for i = 1, #declared do
    local variable = declared[i]
    local at, value = places[variable.name], nil
    if at then
      value = select(2, getupvalue(fn, at))
    else
      -- The variable is a constant that the compiler has replaced by its value.
      value = select(i, fn())
    end
    if variable.closes and value then
      local metatable = getmetatable(value)
      if not (type(metatable) == "table" and rawget(metatable, "__close")) then
        error(format("variable '%s' got a non-closable value", variable.name), 2)
      end
      to_close[#to_close + 1] = value
    end
    if at then
      variables[variable.name] = { fn, at, variable.constant }
    else
      variables[variable.name] = { function() return value end, 1, true }
    end
  end
end

local ENDS_EXPRESSION = { name = true, number = true, string = true }
local ENDING = {
  [")"] = true, ["]"] = true, ["}"] = true, ["end"] = true, ["nil"] = true, ["true"] = true, ["false"] = true,
  ["..."] = true, ["::"] = true, [";"] = true, ["break"] = true,
}
local STARTS = { ["local"] = true, ["if"] = true, ["for"] = true, ["while"] = true, ["repeat"] = true, ["goto"] = true,
  ["break"] = true, ["return"] = true }
local OPENS = { ["function"] = true, ["do"] = true, ["repeat"] = true, ["if"] = true }
local CLOSES = { ["end"] = true, ["until"] = true }
local BRACKETS = { ["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1 }

-- Returns the text with inserted calls that keep the top-level locals, and whether there are any such locals.
local function with_keeping(text, tokens)
  kept = {}
  local pieces, written = {}, 1
  local depth, brackets, in_header = 0, 0, false
  local declared = {}
  local function copy_to(position)
    pieces[#pieces + 1] = sub(text, written, position - 1)
    written = position
  end
  local function flush(position)
    if #declared == 0 then return end
    copy_to(position)
    local names = {}
    for i = 1, #declared do names[i] = declared[i].name end
    kept[#kept + 1] = declared
    -- The end of the text may be inside a comment, so a line break comes first.
    pieces[#pieces + 1] = format("%s;%s(%d,function() return %s end);", position > #text and "\n" or " ", KEEP, #kept,
      concat(names, ","))
    declared = {}
  end
  local i, previous = 1, nil
  while tokens[i] do
    local token = tokens[i]
    local word = token.text
    if depth == 0 and brackets == 0 and previous then
      local after_end = ENDS_EXPRESSION[previous.kind] or ENDING[previous.text]
      if token.kind == "keyword"
        and (STARTS[word] or word == "do" and not in_header or word == "function" and after_end)
        or after_end and (token.kind == "name" or word == ";" or word == "::") then
        flush(token.first)
      end
    end
    if token.kind == "keyword" then
      if depth == 0 and brackets == 0 and (word == "for" or word == "while") then in_header = true end
      if word == "do" then in_header = in_header and depth > 0 end
      if depth == 0 and brackets == 0 and word == "local" then
        local following = tokens[i + 1]
        if following and following.text == "function" then
          if tokens[i + 2] then declared[#declared + 1] = { name = tokens[i + 2].text } end
        else
          repeat
            local name, less, attribute = tokens[i + 1], tokens[i + 2], tokens[i + 3]
            if not name or name.kind ~= "name" then break end
            local variable = { name = name.text }
            declared[#declared + 1] = variable
            i = i + 1
            if less and less.text == "<" and attribute and tokens[i + 3] then
              variable.constant = true
              if attribute.text == "close" then
                variable.closes = true
                copy_to(attribute.first)
                pieces[#pieces + 1] = "const"
                written = attribute.last + 1
              end
              i = i + 3
            end
            local comma = tokens[i + 1]
            if comma and comma.text == "," then i = i + 1 else comma = nil end
          until not comma
          token = tokens[i]
        end
      elseif OPENS[word] then depth = depth + 1
      elseif CLOSES[word] then depth = depth - 1
      end
    elseif token.kind == "operator" then
      brackets = brackets + (BRACKETS[word] or 0)
    end
    previous = token
    i = i + 1
  end
  flush(#text + 1)
  copy_to(#text + 1)
  return concat(pieces), #kept > 0
end

-- The number of names that fit safely: Lua allows 200 local variables in a function.
local MOST_NAMES = 190

local function bind(source, tokens, body, chunk)
  local names, declarations, seen = {}, {}, {}
  local function use(name)
    if seen[name] or not variables[name] then return end
    seen[name] = true
    names[#names + 1] = name
    declarations[#declarations + 1] = name .. (variables[name][3] and " <const>" or "")
  end
  use "_ENV"
  for i = 1, #tokens do
    if tokens[i].kind == "name" then use(tokens[i].text) end
  end
  if #names > MOST_NAMES then
    return nil, format("%s: the entry uses %d locals of earlier entries; Lua allows %d: put them in a table",
      sub(chunk, 2), #names, MOST_NAMES)
  end
  local head = "local " .. KEEP .. (#names > 0 and ", " or "") .. concat(declarations, ", ")
    .. " = ... return function(...) "
  local maker, message = load_staying(head, body .. "\nend", chunk)
  if not maker then return nil, message end
  local fn = maker(keep)
  for i = 1, 255 do
    local name = getupvalue(fn, i)
    if not name then break end
    local variable = seen[name] and variables[name]
    if variable then
      upvaluejoin(fn, i, variable[1], variable[2])
    end
  end
  return fn
end

local function forms(text)
  local rest = match(text, "^%s*=(.*)$")
  if rest then return "return " .. rest, nil end
  return "return " .. text, text
end

-- A short string continues in the next line only after a backslash, or after \z and blanks.
local function wants_more(message, text)
  if sub(message, -5) ~= "<eof>" then return false end
  if not find(message, "unfinished string", 1, true) then return true end
  local found = scan(text)
  local last = found[#found]
  if not last or last.kind ~= "string" or not last.open then return false end
  local backslashes = match(last.text, "(\\+)$")
  return backslashes and #backslashes % 2 == 1 or find(last.text, "\\z%s*$") ~= nil
end

-- Compiles an entry as an expression, or else as statements. Returns the entry's function and its source; or nil, the
-- error, and whether the entry is merely unfinished.
local function read(text, chunk)
  local expression, statement = forms(text)
  local fn, message = load_staying("", expression, chunk)
  if fn then return fn, expression end
  local is_incomplete = wants_more(message, text)
  if statement then
    fn, message = load_staying("", statement, chunk)
    if fn then return fn, statement end
  end
  return nil, message, is_incomplete or wants_more(message, text)
end

-- Returns whether an entry is wrong only because it is unfinished.
function locals.is_incomplete(text) return select(3, read(text, "=stdin")) == true end

-- Returns an entry in the form that a file needs: an expression becomes a call of print.
function locals.statement(text)
  local expression, statement = forms(text)
  local values = match(statement or expression, "^%s*return%f[^%w_](.*)$")
  if not values and load(statement, "=stdin", "t") then return text end
  values = match(values or text, "^%s*(.-)[%s;]*$")
  return values == "" and "-- return" or "print(" .. values .. (find(values, "--", 1, true) and "\n" or "") .. ")"
end

-- Returns a function that runs an entry as a chunk of the given name; or nil and the error.
function locals.compile(text, chunk)
  local fn, source = read(text, chunk)
  if not fn then return nil, source end
  local tokens = scan(source)
  local body, keeps = with_keeping(source, tokens)
  local mentions = variables._ENV ~= nil
  for i = 1, #tokens do mentions = mentions or tokens[i].kind == "name" and variables[tokens[i].text] ~= nil end
  if not keeps and not mentions then return fn end
  local bound, why = bind(source, tokens, body, chunk)
  if bound then return bound end
  if find(why, "attempt to assign to const variable", 1, true) or find(why, "locals of earlier entries", 1, true) then
    return nil, why
  end
  -- If the inserted calls make a `goto` invalid, compile the entry without keeping locals.
  return bind(source, tokens, source, chunk) or fn
end

-- Returns the value of a kept local, or of a global, read raw.
function locals.value(name)
  local variable = variables[name]
  if variable then
    local _, value = getupvalue(variable[1], variable[2])
    return value
  end
  return rawget(globals, name)
end

-- Calls visit(name) for the kept locals.
function locals.each(visit)
  for name in next, variables do visit(name) end
end

-- Closes the values of <close> variables, the last one first. Returns the messages of failures.
function locals.close()
  local messages = {}
  for i = #to_close, 1, -1 do
    local value = to_close[i]
    to_close[i] = nil
    local metatable = getmetatable(value)
    local method = type(metatable) == "table" and rawget(metatable, "__close")
    if method then
      local ok, message = pcall(method, value, nil)
      if not ok then messages[#messages + 1] = tostring(message) end
    end
  end
  return unpack(messages)
end

return locals
