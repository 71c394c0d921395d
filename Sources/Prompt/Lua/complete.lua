-- Finds the candidates at the cursor. No code of the script runs; see expressions.lua.

local tokens, expressions, locals, reference = ...
local stdlib, list_directory, modes = select(5, ...)
local scan, KEYWORDS = tokens.scan, tokens.KEYWORDS
local each_field, substance = expressions.each_field, expressions.substance
local resolve, beginning = expressions.resolve, expressions.beginning
local step_of, entry_of = expressions.step_of, expressions.entry_of
local type, next, ipairs, tostring = type, next, ipairs, tostring
local find, match, sub = string.find, string.match, string.sub
local gsub, byte = string.gsub, string.byte
local sort, unpack, concat = table.sort, table.unpack, table.concat
local getinfo, getlocal = debug.getinfo, debug.getlocal
local globals, package = _G, package

-- Where the cursor is -------------------------------------------------------------------------------------------------

-- Returns the token index of the innermost bracket that is still open at the end.
local function open_bracket(found, last)
  local depth = 0
  for at = last, 1, -1 do
    depth = depth - step_of(found[at])
    if depth < 0 then return at end
  end
end

-- Returns the annotated call whose argument list contains the bracket, and the number of the argument that contains it;
-- nil if there is no such call.
local function call_of(found, bracket, last, scope)
  local before = bracket - 1
  local first = found[before] and beginning(found, before)
  if not first then return nil end
  local known, after = resolve(found, first, scope, before)
  if after <= before or not known or not known.entry and type(known.value) ~= "function" then return nil end
  local entry, name = entry_of(known)
  local position, depth = 1, 0
  for at = bracket + 1, last do
    depth = depth + step_of(found[at])
    if depth == 0 and found[at].kind == "operator" and found[at].text == "," then position = position + 1 end
  end
  return name, entry, position, known.value
end

-- Returns the fields of the table that begins with a bracket, if the class of the table is known from the call, the
-- field or the list that contains it.
local function fields_of_table(found, bracket, scope)
  local before = found[bracket - 1]
  local text = before and before.kind == "operator" and before.text
  local outer = open_bracket(found, bracket - 1)
  if text == "=" or outer and found[outer].text == "{" then
    if not outer or found[outer].text ~= "{" then return nil end
    local wanted = text == "=" and found[bracket - 2].kind == "name" and found[bracket - 2].text or "[integer]"
    for _, field in ipairs(fields_of_table(found, outer, scope) or {}) do
      if field.name == wanted then return reference.fields_of(field.type) end
    end
    return nil
  end
  local entry, position, _
  if text == "(" or text == "," then
    if not outer then return nil end
    _, entry, position = call_of(found, outer, bracket - 1, scope)
  else
    _, entry, position = call_of(found, bracket, bracket, scope)
  end
  return entry and reference.options_of(entry, position)
end

-- Returns the fields that the table argument at the end of the text may have, and those that it has already.
local function options_at(found, last, scope)
  local bracket = open_bracket(found, last)
  if not bracket or found[bracket].text ~= "{" then return nil end
  local fields = fields_of_table(found, bracket, scope)
  if not fields then return nil end
  local given, depth = {}, 0
  for at = bracket + 1, last do
    depth = depth + step_of(found[at])
    if depth == 0 and found[at].kind == "name" and found[at + 1] and found[at + 1].text == "=" then
      given[found[at].text] = true
    end
  end
  return fields, given
end

local IS_MODE = { mode = true, modes = true, reply_mode = true }
local TAKES_MODE = { ["loop:add"] = true, ["loop:remove"] = true, ["loop:contains"] = true, ["loop:run_mode"] = true,
  ["loop:add_common_mode"] = true, ["loop:next_fire_date"] = true }
local TAKES_FILE = { ["io.open"] = true, ["io.lines"] = true, ["io.input"] = true, ["io.output"] = true, dofile = true,
  loadfile = true, ["os.remove"] = true, ["os.rename"] = true }
-- The names of arguments and options that are paths.
local IS_PATH = {
  path = true, directory = true, from = true, to = true,
  certificate = true, key = true, ca = true, root = true,
}

-- Files and modules ---------------------------------------------------------------------------------------------------

local function starts_with(text, start) return sub(text, 1, #start) == start end

local function split_path(path)
  local folder, rest = match(path, "^(.*/)([^/]*)$")
  return folder or "", rest or path
end

local function complete_file(partial, add)
  local folder, start = split_path(partial)
  for _, name in ipairs(list_directory(folder == "" and "." or folder)) do
    if start ~= "" or byte(name) ~= 46 then add(folder .. name) end
  end
end

local function complete_module(partial, add)
  for _, known in ipairs { package.loaded, package.preload } do
    for name in next, known do
      if type(name) == "string" then add(name) end
    end
  end
  for _, name in ipairs(reference.modules) do
    -- Only tests can load this module.
    if name ~= "test" then add("runloop." .. name) end
  end
  local parents = match(partial, "^(.*%.)[^.]*$") or ""
  for _, path in ipairs { package.path, package.cpath } do
    for template in tostring(path):gmatch "[^;]+" do
      local before, after = match(template, "^(.-)%?(.*)$")
      if before then
        local folder = before .. gsub(parents, "%.", "/")
        for _, name in ipairs(list_directory(folder == "" and "." or folder)) do
          local module = sub(name, -1) == "/" and match(after, "^/") and sub(name, 1, -2)
            or sub(name, -#after) == after and sub(name, 1, -#after - 1)
          if module and find(module, "^[%w_-]+$") then add(parents .. module) end
        end
      end
    end
  end
end

-- Candidates ----------------------------------------------------------------------------------------------------------

-- Returns the candidates that begin with the typed part. If there are none, compares without regard to case.
local function choose(candidates, partial)
  local found, seen = {}, {}
  local function take(fits)
    for i = 1, #candidates do
      local text = candidates[i]
      if not seen[text] and fits(text) then
        seen[text] = true
        found[#found + 1] = text
      end
    end
  end
  take(function(text) return starts_with(text, partial) end)
  if #found == 0 then
    local small = partial:lower()
    take(function(text) return starts_with(text:lower(), small) end)
  end
  sort(found)
  return found
end

-- Completes a string token from its typed part, without the quote.
local function in_string(found, add, scope)
  local last = found[#found]
  local opening = match(last.text, "^%[=*%[") or sub(last.text, 1, 1)
  local partial = sub(last.text, #opening + 1)
  local at = #found - 1
  local before = found[at]
  local start = last.first + #opening - 1
  if not before then
    if find(partial, "/", 1, true) then complete_file(partial, add) end
    return start, partial
  end
  if before.text == "[" and at > 1 then
    local first = beginning(found, at - 1)
    if first then
      each_field(substance((resolve(found, first, scope, at - 1))), function(key)
        if type(key) == "string" and not find(key, "[%c\"'\\]") then add(key) end
      end)
      return start, partial
    end
  end
  local bracket = open_bracket(found, at)
  local field = before.text == "=" and found[at - 1] and found[at - 1].kind == "name" and found[at - 1].text
  local list = bracket and found[bracket].text == "{" and found[bracket - 1] and found[bracket - 1].text
  if not field and list == "=" then
    field = found[bracket - 2] and found[bracket - 2].text
    bracket = open_bracket(found, bracket - 1) or bracket
  end
  local fields = field and bracket and found[bracket].text == "{" and fields_of_table(found, bracket, scope)
  local name, entry, position
  if before.kind == "name" then
    local first = beginning(found, at)
    entry, name = entry_of(first and resolve(found, first, scope, at))
    position = 1
  elseif bracket and not field and (list == "(" or list == ",") then
    name, entry, position = call_of(found, open_bracket(found, bracket - 1) or bracket, bracket - 1, scope)
  elseif bracket then
    name, entry, position = call_of(found, bracket, at, scope)
  end
  local param = not field and entry and entry.params[position]
  -- The paths of routes are URL paths, not file paths.
  local is_path = param and IS_PATH[param.name] and not find(entry.title, "^routes:")
  if name == "require" or before.kind == "name" and before.text == "require" then
    complete_module(partial, add)
  elseif field and IS_MODE[field] or name and TAKES_MODE[name] then
    for _, mode in ipairs(modes()) do
      if mode ~= "common" or field == "modes" or name == "loop:add" or name == "loop:remove" then add(mode) end
    end
  elseif fields then
    for _, option in ipairs(fields) do
      if option.name == field then
        for _, text in ipairs(reference.literals(option.type)) do add(text) end
        if IS_PATH[field] then complete_file(partial, add) end
      end
    end
  elseif param and #reference.literals(param.type) > 0 then
    for _, text in ipairs(reference.literals(param.type)) do add(text) end
  elseif name and TAKES_FILE[name] or is_path or find(partial, "^[~.]*/") or find(partial, "/", 1, true) then
    complete_file(partial, add)
  end
  return start, partial
end

local function at_name(found, text, add, scope)
  local last = found[#found]
  local partial, at = "", #found
  if last and last.last == #text and (last.kind == "name" or last.kind == "keyword") then
    partial, at = last.text, at - 1
  end
  local start = #text - #partial
  local link = found[at]
  if last and last.kind == "number" and last.last == #text then return start, partial end
  local function add_name(key)
    if type(key) == "string" and find(key, "^[%a_][%w_]*$") and not KEYWORDS[key]
      and (byte(key) ~= 95 or byte(partial) == 95) then add(key) end
  end
  if link and link.kind == "operator" and (link.text == "." or link.text == ":") then
    local first = beginning(found, at - 1)
    if not first then return start, partial end
    local known = resolve(found, first, scope, at - 1)
    local is_method = link.text == ":"
    each_field(substance(known), function(key, field)
      if not is_method or type(field) == "function" then add_name(key) end
    end)
    return start, partial
  end
  if link and (link.text == "{" or link.text == ",") then
    local fields, given = options_at(found, at, scope)
    if fields then
      for _, field in ipairs(fields) do
        if not given[field.name] and find(field.name, "^%a") then add(field.name .. " = ") end
      end
      return start, partial
    end
  end
  for name in next, scope do add_name(name) end
  locals.each(add_name)
  each_field(globals, add_name)
  if partial ~= "" then for word in next, KEYWORDS do add(word) end end
  return start, partial
end

-- Completes the arguments of dot commands.
local function of_command(text, add)
  local command, blanks, argument = match(text, "^%s*%.(%l+)( +)(.*)$")
  if not command then return nil end
  local start = #text - #argument
  if command == "reload" then
    for name in next, package.loaded do if type(name) == "string" then add(name) end end
  elseif command == "load" or command == "save" then
    complete_file(argument, add)
  elseif command == "mode" then
    for _, mode in ipairs(modes()) do if mode ~= "common" then add(mode) end end
  elseif command == "help" then
    for _, entry in next, reference.functions do add((match(entry.title, "^[^(]+"))) end
    for name in next, stdlib.texts do add(name) end
    for name in next, reference.classes do add((gsub(name, "^runloop%.", ""))) end
  else
    -- The rest is an expression.
    return false, #blanks
  end
  return start, argument
end

-- Returns the names of a function's parameters.
local function parameters(name, entry, fn)
  local title = entry and entry.title or name and stdlib.texts[name] and stdlib.title(name)
  local list = {}
  if title then
    for text in (match(title, "%((.*)%)") or ""):gmatch "[^,]+" do list[#list + 1] = match(text, "^%s*(.-)%s*$") end
    return list
  end
  local info = getinfo(fn, "Su")
  if info.what == "C" then return list end
  for i = 1, info.nparams do list[i] = getlocal(fn, i) end
  if info.isvararg then list[#list + 1] = "..." end
  return list
end

local complete = {}

--- hint(text before the cursor): returns the remaining parameters of the call, if the text ends with its bracket or a
--- comma; nil if nothing is known.
function complete.hint(text)
  local found = scan(text)
  local last = found[#found]
  if not last or last.kind ~= "operator" or not find(last.text, "^[(,{]$") then return nil end
  local scope = expressions.locals_of(found)
  local bracket = open_bracket(found, #found)
  if not bracket then return nil end
  local rest = {}
  if found[bracket].text == "{" then
    local fields, given = options_at(found, #found, scope)
    for _, field in ipairs(fields or {}) do
      if not given[field.name] then rest[#rest + 1] = field.name .. (field.optional and "?" or "") end
    end
    return #rest > 0 and concat(rest, ", ") .. " }" or nil
  elseif found[bracket].text ~= "(" then
    return nil
  end
  local name, entry, position, fn = call_of(found, bracket, #found, scope)
  if not entry and type(fn) ~= "function" then return nil end
  local all = parameters(name, entry, fn)
  for i = position, #all do rest[#rest + 1] = all[i] end
  return (#rest > 0 or position == 1) and concat(rest, ", ") .. ")" or nil
end

--- candidates(text before the cursor): returns where the completed part starts, in bytes from 0, and the candidates.
function complete.candidates(text)
  local candidates = {}
  local function add(candidate) candidates[#candidates + 1] = candidate end
  local start, partial = of_command(text, add)
  if not start then
    local offset = start == false and #match(text, "^%s*%.%l+ +") or 0
    local rest = sub(text, offset + 1)
    local found = scan(rest)
    local last = found[#found]
    if last and last.kind == "comment" then return #text end
    local scope = expressions.locals_of(found)
    if last and last.kind == "string" and last.open then
      start, partial = in_string(found, add, scope)
    else
      start, partial = at_name(found, rest, add, scope)
    end
    start = start + offset
  end
  local chosen = choose(candidates, partial)
  return start, unpack(chosen, 1, #chosen < 1000 and #chosen or 1000)
end

return complete
