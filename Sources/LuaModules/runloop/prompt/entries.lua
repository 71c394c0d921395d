-- What the prompt knows about Lua: compiling entries so that their locals stay, completion, help. Called with the inspector,
-- a function that lists a directory, the reference text and the internals; returns the functions that the prompt calls. With
-- the name of a chunk as a fifth argument it is the prompt of a guest: it leaves the globals alone.

local inspect, list_directory, reference, internals, guest = ...
local CHUNK = guest and "=" .. guest or "=stdin"
local load, type, select, rawget, rawset, next, pcall, error = load, type, select, rawget, rawset, next, pcall, error
local tostring, ipairs, setmetatable = tostring, ipairs, setmetatable
local find, match, sub, gsub, byte, format = string.find, string.match, string.sub, string.gsub, string.byte, string.format
local concat, sort, unpack = table.concat, table.sort, table.unpack
local getupvalue, setupvalue, upvaluejoin = debug.getupvalue, debug.setupvalue, debug.upvaluejoin
local getmetatable = debug.getmetatable
local globals, package = _G, package

local repl = {}

-- Tokens -------------------------------------------------------------------------------------------------------------

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do KEYWORDS[word] = true end

local OPERATORS = { "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>" }

-- The tokens of a text, finished or not: { kind, text, first, last, open }. Comments are left out; an open one at the end
-- is a token of kind "comment", so that nothing is completed in it.
local function scan(text)
  local tokens, at, size = {}, 1, #text
  local function add(kind, last, open)
    tokens[#tokens + 1] = { kind = kind, text = sub(text, at, last), first = at, last = last, open = open }
    at = last + 1
  end
  -- A long bracket that begins at `from`; its last byte, and whether the end is missing. nil: there is none.
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
        last = last + (c == 92 and 2 or 1)
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

-- Locals that stay ---------------------------------------------------------------------------------------------------

-- An entry's top-level locals live on as upvalues: behind each `local` statement a call is inserted whose argument, a function
-- that mentions the new variables, has them as upvalues. A later entry that mentions them is compiled inside a function with
-- locals of these names, and its upvalues are joined to the kept ones. So closures, assignments and shadowing are what they
-- would be if all entries stood in one block.

local variables = {}  -- by name: { fn, index, constant }
local to_close = {}   -- values of <close> variables: they are closed when the session ends
local kept = {}       -- what the entry that is being compiled declares, by number

local KEEP = "_rlhost_keep"

local published = {}  -- by name: the variable

-- A name that the prompt gives a value: a global, or, for a guest, a local of its own unless there is such a global.
local function publish(name, value)
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
      -- A constant that the compiler has put in place of the variable.
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
local ENDING = { [")"] = true, ["]"] = true, ["}"] = true, ["end"] = true, ["nil"] = true, ["true"] = true, ["false"] = true,
  ["..."] = true, ["::"] = true, [";"] = true, ["break"] = true }
local STARTS = { ["local"] = true, ["if"] = true, ["for"] = true, ["while"] = true, ["repeat"] = true, ["goto"] = true,
  ["break"] = true, ["return"] = true }
local OPENS = { ["function"] = true, ["do"] = true, ["repeat"] = true, ["if"] = true }
local CLOSES = { ["end"] = true, ["until"] = true }
local BRACKETS = { ["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1 }

-- The text with calls that keep the top-level locals, and whether there are any.
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
    -- At the end a comment may stand before.
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
      if token.kind == "keyword" and (STARTS[word] or word == "do" and not in_header or word == "function" and after_end)
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

local function bind(source, tokens, body)
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
  local head = "local " .. KEEP .. (#names > 0 and ", " or "") .. concat(declarations, ", ") .. " = ... return function(...) "
  local maker, message = load(head .. body .. "\nend", CHUNK, "t")
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

-- A function that runs an entry; or nil and what is wrong with it.
function repl.compile(text)
  local expression, statement = forms(text)
  local source = expression
  local fn, message = load(expression, CHUNK, "t")
  if not fn and statement then
    source = statement
    fn, message = load(statement, CHUNK, "t")
  end
  if not fn then return nil, message end
  local tokens = scan(source)
  local body, keeps = with_keeping(source, tokens)
  local mentions = variables._ENV ~= nil
  for i = 1, #tokens do mentions = mentions or tokens[i].kind == "name" and variables[tokens[i].text] ~= nil end
  if not keeps and not mentions then return fn end
  local bound, why = bind(source, tokens, body)
  if bound then return bound end
  if find(why, "attempt to assign to const variable", 1, true) then return nil, why end
  -- A goto that the inserted calls are in the way of, or too many variables: then without keeping anything.
  return bind(source, tokens, source) or fn
end

-- A short string cannot go on in the next line.
local function wants_more(message)
  return sub(message, -5) == "<eof>" and not find(message, "unfinished string", 1, true)
end

-- Whether an entry is wrong only because it is not finished.
function repl.is_incomplete(text)
  local expression, statement = forms(text)
  local fn, message = load(expression, CHUNK, "t")
  if fn then return false end
  if not statement then return wants_more(message) end
  local other, other_message = load(statement, CHUNK, "t")
  if other then return false end
  return wants_more(message) or wants_more(other_message)
end

-- Closes what <close> variables hold, last one first. Returns messages of those that failed.
function repl.close()
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

-- Results ------------------------------------------------------------------------------------------------------------

local last_count = 0

-- (width, color, results…): the text to show, or nothing; sets _ and _1, _2 ….
function repl.show(width, color, ...)
  local count = select("#", ...)
  if count == 0 then return end
  publish("_", (...))
  for i = 1, count > last_count and count or last_count do publish("_" .. i, (select(i, ...))) end
  last_count = count
  local texts, is_long = {}, false
  for i = 1, count do
    texts[i] = inspect((select(i, ...)), { width = width, color = color })
    is_long = is_long or find(texts[i], "\n", 1, true)
  end
  return concat(texts, is_long and "\n" or "\t")
end

function repl.show_deep(width, color, ...)
  local texts = {}
  for i = 1, select("#", ...) do
    texts[i] = inspect((select(i, ...)), { width = width, color = color, depth = 12, quoted = true })
  end
  return concat(texts, "\n")
end

-- Completion ---------------------------------------------------------------------------------------------------------

local function starts_with(text, start) return sub(text, 1, #start) == start end

-- Calls visit(key, value) for the fields of a value, those that it has by way of __index tables included.
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

local function field_of(value, name)
  local found
  each_field(value, function(key, field) if key == name and found == nil then found = field end end)
  return found
end

local function variable_value(name)
  local variable = variables[name]
  if variable then
    local _, value = getupvalue(variable[1], variable[2])
    return value
  end
  return rawget(globals, name)
end

local function split_path(path)
  local folder, rest = match(path, "^(.*/)([^/]*)$")
  return folder or "", rest or path
end

local function complete_file(partial, add)
  local folder, start = split_path(partial)
  for _, name in ipairs(list_directory(folder == "" and "." or folder)) do
    if starts_with(name, start) and (start ~= "" or byte(name) ~= 46) then add(folder .. name) end
  end
end

local function complete_module(partial, add)
  local known = getmetatable("") and package.loaded
  for _, names in ipairs { known, package.preload } do
    for name in next, names do
      if type(name) == "string" and starts_with(name, partial) then add(name) end
    end
  end
  local parents, start = match(partial, "^(.*%.)([^.]*)$")
  parents, start = parents or "", start or partial
  for _, path in ipairs { package.path, package.cpath } do
    for template in tostring(path):gmatch "[^;]+" do
      local before, after = match(template, "^(.-)%?(.*)$")
      if before then
        local folder = before .. gsub(parents, "%.", "/")
        for _, name in ipairs(list_directory(folder == "" and "." or folder)) do
          local module = sub(name, -1) == "/" and match(after, "^/") and sub(name, 1, -2)
            or sub(name, -#after) == after and sub(name, 1, -#after - 1)
          if module and starts_with(module, start) and find(module, "^[%w_-]+$") then add(parents .. module) end
        end
      end
    end
  end
end

-- (text before the cursor): where the completed part starts, in bytes from 0, and the candidates.
function repl.complete(text)
  local tokens = scan(text)
  local last = tokens[#tokens]
  local candidates, seen = {}, {}
  local function add(candidate)
    if seen[candidate] then return end
    seen[candidate] = true
    candidates[#candidates + 1] = candidate
  end
  if last and last.kind == "comment" then return 0 end
  if last and last.kind == "string" and last.open then
    local opening = match(last.text, "^%[=*%[") or sub(last.text, 1, 1)
    local partial = sub(last.text, #opening + 1)
    local before = tokens[#tokens - 1]
    if before and before.text == "(" then before = tokens[#tokens - 2] end
    if before and before.text == "require" then complete_module(partial, add) else complete_file(partial, add) end
    sort(candidates)
    return last.first + #opening - 1, unpack(candidates, 1, 1000)
  end
  -- A name, perhaps empty, behind a chain of names.
  local partial, at = "", #tokens
  if last and last.last == #text and (last.kind == "name" or last.kind == "keyword") then
    partial, at = last.text, at - 1
  end
  local start = #text - #partial
  local link = tokens[at]
  local function wanted(key)
    return type(key) == "string" and starts_with(key, partial) and find(key, "^[%a_][%w_]*$") and not KEYWORDS[key]
      and (byte(key) ~= 95 or byte(partial) == 95)
  end
  if link and (link.text == "." or link.text == ":") and link.kind == "operator" then
    local chain = {}
    local is_method = link.text == ":"
    while link and link.text == (#chain == 0 and link.text or ".") and link.kind == "operator" do
      local name = tokens[at - 1]
      if not name or name.kind ~= "name" and not (name.kind == "string" and #chain == 0) then return start end
      table.insert(chain, 1, name)
      at = at - 2
      link = tokens[at]
      if link and (link.text == ":" or link.text == ")" or link.text == "]") then return start end
    end
    local value
    if chain[1].kind == "string" then value = "" else value = variable_value(chain[1].text) end
    for i = 2, #chain do value = field_of(value, chain[i].text) end
    each_field(value, function(key, field)
      if wanted(key) and (not is_method or type(field) == "function") then add(key) end
    end)
  else
    for name in next, variables do
      if wanted(name) then add(name) end
    end
    each_field(globals, function(key) if wanted(key) then add(key) end end)
    for word in next, KEYWORDS do
      if partial ~= "" and starts_with(word, partial) then add(word) end
    end
  end
  sort(candidates)
  return start, unpack(candidates, 1, 1000)
end

-- Help ---------------------------------------------------------------------------------------------------------------

local entries  -- by "rl.sleep", "task:await"; each { title, lines }

local function plain(word) return (gsub(word:lower(), "_", "")) end

local function read_reference()
  entries = {}
  local lines = {}
  for line in (reference .. "\n"):gmatch "(.-)\n" do
    local comment = match(line, "^%-%-%-(.*)$")
    if comment then
      lines[#lines + 1] = comment
    else
      local name, arguments = match(line, "^function ([%w_.:]+)(%b())")
      if name then
        local owner, rest = match(name, "^(.-)([.:].*)$")
        if owner and owner ~= "rl" then name = owner:lower() .. rest end
        entries[plain(name)] = { title = name .. arguments, lines = lines }
      end
      lines = {}
    end
  end
end

local function render(entry)
  local out, in_example = { entry.title, "" }, false
  for _, line in ipairs(entry.lines) do
    local name, rest = match(line, "^@param (%S+) (.*)$")
    local result = match(line, "^@return (.*)$")
    if match(line, "^```") then
      in_example = not in_example
    elseif in_example then
      out[#out + 1] = "    " .. line
    elseif name then
      out[#out + 1] = "  " .. name .. ": " .. rest
    elseif result then
      out[#out + 1] = "  returns " .. result
    elseif not match(line, "^@") then
      out[#out + 1] = line
    end
  end
  return (gsub(concat(out, "\n"), "\n+$", ""))
end

local KINDS = { "loop", "timer", "source", "fd_port", "observer", "request", "task", "thread", "port", "message_port",
  "remote_port" }

-- The name of a function of ours, or of the kind of an object.
local function name_of(value)
  if type(value) == "function" then
    local rl = package.loaded.runloop
    if type(rl) == "table" then
      for key, field in next, rl do
        if field == value then return "rl." .. tostring(key) end
        if key == "notifications" and type(field) == "table" then
          for name, method in next, field do
            if method == value then return "notifications:" .. tostring(name) end
          end
        end
      end
    end
    for _, kind in ipairs(KINDS) do
      local found, methods = pcall(internals.methods, kind)
      if found then
        for name, method in next, methods do
          if method == value then return kind .. ":" .. name end
        end
      end
    end
    return nil
  end
  return internals.kind(value)
end

-- The reference text for a name, a function or an object; or nil, and what there is instead.
function repl.help(what)
  if not entries then read_reference() end
  local name = type(what) == "string" and what or name_of(what)
  if what == package.loaded.runloop and what ~= nil then name = "rl" end
  if not name then
    return nil, "help: nothing is known about this " .. type(what) .. "; help(rl.sleep) or help \"rl.sleep\" would show text"
  end
  local key = plain(name)
  local entry = entries[key] or entries["rl." .. key] or entries[(gsub(key, "^%w+([.:])", "rl%1"))]
    or entries[(gsub(key, "%.", ":"))]
  if entry and find(key, "[.:]") then return render(entry) end
  local found = {}
  for other, candidate in next, entries do
    if starts_with(other, key .. ":") or starts_with(other, key .. ".") or match(other, "[.:](.*)$") == key then
      found[#found + 1] = candidate.title
    end
  end
  sort(found)
  if entry then return render(entry) .. (#found > 0 and "\n\n" .. concat(found, "\n") or "") end
  if #found == 1 then
    for _, candidate in next, entries do if candidate.title == found[1] then return render(candidate) end end
  end
  if #found > 0 then return concat(found, "\n") end
  return nil, "help: there is no '" .. name .. "' in the reference"
end

local GENERAL = [[
Type an expression to see its value, or statements to run them. Lines may wait: rl.sleep(1).
  help(rl.sleep)   what a call does; help "timer" what timers can do
  .help            what else the prompt can do
  _, _1, _2 …      the last results]]

local help = setmetatable({}, {
  __call = function(_, ...)
    if select("#", ...) == 0 then return print(GENERAL) end
    local text, message = repl.help((...))
    print(text or message)
  end,
  __tostring = function() return GENERAL end,
})

-- Makes `help`, and for a guest `rl`, known, unless the script has one.
function repl.install()
  if rawget(globals, "help") == nil then publish("help", help) end
  if guest then publish("rl", package.loaded.runloop) end
end

return repl
