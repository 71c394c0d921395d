-- Reads annotations: calls with their arguments and results, and the fields of option tables. The chunk is called with
-- the texts of the annotated files; it returns { functions, classes, aliases, modules … }.

local find, match, sub = string.find, string.match, string.sub
local gsub, gmatch = string.gsub, string.gmatch
local ipairs, next, sort = ipairs, next, table.sort

-- Keys such as "rl.sleep", "timer:fire", "net.connect", "net.stream:read"; values { title, text (lines), params,
-- returns }. Params are { name, type, text }.
local functions = {}
-- Keys such as "runloop.TimerOptions"; values { fields, text (lines), parents (a type) }. Fields are { name, type,
-- text, optional }.
local classes = {}
-- The modules besides runloop itself, such as "net".
local modules = {}
-- Keys such as "runloop.Result"; the value is the type that it stands for, with alternatives separated by |.
local aliases = {}

local BRACKETS = { ["("] = 1, ["{"] = 1, ["<"] = 1, ["["] = 1, [")"] = -1, ["}"] = -1, [">"] = -1, ["]"] = -1 }

-- Returns the type at the beginning of a text, and the rest. Blanks inside of brackets, and after : and |, belong to
-- the type.
local function split_type(text)
  local depth, at = 0, 1
  while at <= #text do
    local c = sub(text, at, at)
    if c == '"' then at = find(text, '"', at + 1, true) or #text end
    depth = depth + (BRACKETS[c] or 0)
    if c == " " and depth == 0 and not find(text, "^[:|,]", at - 1) then break end
    at = at + 1
  end
  return sub(text, 1, at - 1), gsub(sub(text, at + 1), "^%s*#?%s*", "")
end

-- Returns a class's name in lower case, without `runloop.` and `_`.
local function plain(name) return (gsub(gsub(name:lower(), "^runloop%.", ""), "_", "")) end

local function read_field(line)
  local name, rest = match(line, "^@field (%S+) (.*)$")
  local kind, text = split_type(rest)
  local optional = sub(name, -1) == "?"
  return { name = optional and sub(name, 1, -2) or name, type = kind, text = text, optional = optional }
end

-- Returns the name of objects of a class in code: `fd_port` for `runloop.FDPort`.
local function called(class)
  return (gsub(gsub(match(class, "([^.]+)$"), "^FD", "Fd"), "(%l)(%u)", "%1_%2"):lower())
end

-- Returns the key and title of a function written as `owner.name` or `owner:name`. `class` is the annotated class of
-- the owner.
local function name_of(module, class, owner, rest)
  if not class or class == "runloop" then return owner .. rest, owner .. rest end
  if class == module then return class .. rest, owner .. rest end
  return class .. rest, called(class) .. rest
end

local function read_function(lines, key, title)
  local entry = { title = title, text = lines, params = {}, returns = {} }
  for _, line in ipairs(lines) do
    local parameter, rest = match(line, "^@param (%S+) (.*)$")
    local result = match(line, "^@return (.*)$")
    if parameter then
      local kind, meaning = split_type(rest)
      entry.params[#entry.params + 1] = { name = gsub(parameter, "%?$", ""), type = kind, text = meaning }
    end
    if result then entry.returns[#entry.returns + 1] = (split_type(result)) end
  end
  functions[plain(key)] = entry
  return entry
end

local function read(text)
  local lines, class, alias = {}, nil, nil
  local class_name, module, owners = nil, nil, {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local comment = match(line, "^%-%-%-(.*)$")
    if comment and find(comment, "^@meta ") then
      module, owners = match(comment, "^@meta (%S+)"), {}
      modules[#modules + 1] = match(module, "^runloop%.(.*)$")
    elseif comment then
      if find(comment, "^@class ") then
        local parents
        class_name, parents = match(comment, "^@class ([%w_.]+):?%s*(.*)$")
        class = { fields = {}, text = lines, parents = parents }
        classes[class_name] = class
      elseif class and find(comment, "^@field ") then
        class.fields[#class.fields + 1] = read_field(comment)
      elseif find(comment, "^@alias ") then
        local name, kind = match(comment, "^@alias ([%w_.]+)%s*(.*)$")
        alias = name
        aliases[name] = kind
      elseif alias and find(comment, "^|") then
        local kind = split_type(gsub(comment, "^|%s*", ""))
        aliases[alias] = aliases[alias] .. (aliases[alias] ~= "" and "|" or "") .. kind
      else
        lines[#lines + 1] = comment
      end
    else
      local variable = class and match(line, "^local ([%w_]+) = {}")
      if variable then owners[variable] = class_name end
      local owner, rest, arguments = match(line, "^function ([%w_]+)([.:][%w_.:]+)(%b())")
      if owner then
        local key, title = name_of(module, owners[owner], owner, rest)
        local entry = read_function(lines, key, title .. arguments)
        -- `t.equal`: scripts usually call this module `t`.
        if owners[owner] == module then functions[plain(owner .. rest)] = entry end
      end
      lines, class, alias = {}, nil, nil
    end
  end
  sort(modules)
end

read((...))

local reference = { functions = functions, classes = classes, aliases = aliases, modules = modules, plain = plain }

-- Returns the classes in a type, such as `runloop.Loop?`, with aliases resolved.
function reference.classes_in(kind, found)
  found = found or {}
  for name in gmatch(kind or "", "[%a_][%w_.]*") do
    if classes[name] then found[#found + 1] = name end
    if aliases[name] and #found < 20 then reference.classes_in(aliases[name], found) end
  end
  return found
end

-- Returns the quoted texts that a type allows.
function reference.literals(kind, found)
  found = found or {}
  for text in gmatch(kind or "", '"([^"]*)"') do found[#found + 1] = text end
  for name in gmatch(gsub(kind or "", '"[^"]*"', ""), "[%a_][%w_.]*") do
    if aliases[name] and #found < 100 then reference.literals(aliases[name], found) end
  end
  return found
end

-- Removes the nested parts of a type: those of functions, lists and maps.
local function outside(kind) return (gsub(gsub(gsub(kind, "fun%b()[^|]*", ""), "table%b<>", ""), "[%w_.]+%[%]", "")) end

-- Returns the class of a value of a type, if it is an object.
function reference.class_of(kind) return reference.classes_in((gsub(outside(kind or ""), "%b{}", "")))[1] end

-- Visits the fields of a type written as a table: `{ rows: integer?, columns?: integer }`.
local function written_fields(kind, add)
  for inside in gmatch(kind, "%b{}") do
    local text = sub(inside, 2, -2)
    while true do
      local name, mark, rest = match(text, "^[%s,]*([%a_][%w_]*)(%??):%s*(.*)$")
      if not name then break end
      local depth, at = 0, 1
      while at <= #rest and (depth > 0 or sub(rest, at, at) ~= ",") do
        depth = depth + (BRACKETS[sub(rest, at, at)] or 0)
        at = at + 1
      end
      local own = gsub(sub(rest, 1, at - 1), "%s+$", "")
      add { name = name, type = gsub(own, "%?$", ""), text = "", optional = mark == "?" or sub(own, -1) == "?" }
      text = sub(rest, at)
    end
  end
end

-- Returns the fields of the tables that a type allows. They include inherited fields, and fields that the type itself
-- lists. The second result is the type's first class.
function reference.fields_of(kind)
  local fields, seen, first = {}, {}, nil
  local function add(field)
    if not seen[field.name] then fields[#fields + 1] = field end
    seen[field.name] = true
  end
  local function add_class(name, depth)
    for _, field in ipairs(classes[name].fields) do add(field) end
    if depth > 5 then return end
    for _, parent in ipairs(reference.classes_in(classes[name].parents)) do add_class(parent, depth + 1) end
  end
  kind = outside(kind or "")
  for _, name in ipairs(reference.classes_in(kind)) do
    first = first or name
    add_class(name, 0)
  end
  written_fields(kind, add)
  return fields, first
end

-- Returns the fields of the option table at an argument's position, and their class. If that argument is not an option
-- table, takes the first argument that is one.
function reference.options_of(entry, position)
  for pass = position and 0 or 1, #entry.params do
    local param = entry.params[pass == 0 and position or pass]
    if param then
      local fields, class = reference.fields_of(param.type)
      if #fields > 0 then return fields, class end
    end
  end
end

-- Calls visit(name, entry) for the methods of a class, and visit(name, nil, type) for its fields.
function reference.each_member(class, visit)
  local start = plain(class)
  for key, entry in next, functions do
    local name = sub(key, 1, #start) == start and match(key, "^[.:]([^.:]+)$", #start + 1)
    if name then visit(match(entry.title, "([%w_]+)%b()$"), entry) end
  end
  for _, field in ipairs(reference.fields_of(class)) do visit(field.name, nil, field.type) end
end

-- Returns the class for a name. The name may be the end of the class's name: `stream` and `Stream` mean
-- `runloop.net.Stream`.
function reference.class_named(name)
  local key, found = plain(name), nil
  for class in next, classes do
    local own = plain(class)
    if own == key then return class end
    -- Prefers a class of `runloop` itself to classes of modules. Of several classes of modules, takes the first by
    -- name.
    if sub(own, -#key - 1) == "." .. key and (not found or class < found) then found = class end
  end
  return found
end

return reference
