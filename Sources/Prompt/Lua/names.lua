-- Finds the names of functions and objects of the library, its modules and Lua. The chunk is called with the internals,
-- the texts about Lua's own library, and a function that returns the reference.

local internals, stdlib, get_reference = ...
local type, next, pcall = type, next, pcall
local ipairs, rawget, rawequal = ipairs, rawget, rawequal
local find, gsub = string.find, string.gsub
local getmetatable = debug.getmetatable
local globals, package, io = _G, package, io

local KINDS = { "loop", "timer", "source", "fd_port", "observer", "request", "task", "thread", "port", "message_port",
  "remote_port", "condition" }
-- Kinds of objects in modules, with their classes in the reference.
local MODULE_KINDS = {
  stream = "runloop.net.Stream",
  listener = "runloop.net.Listener",
  datagram = "runloop.net.Datagram",
  signal = "runloop.process.Signal",
}
local LIBRARIES = { "string", "table", "math", "os", "io", "debug", "coroutine", "utf8", "package" }

local names = {}

-- Returns the methods of a kind of objects. The kind's name may also be given without its `_`. Returns nil if there is
-- no such kind.
function names.methods(kind)
  if kind == "file" then
    local methods = getmetatable(io.stdout)
    return type(methods) == "table" and rawget(methods, "__index") or nil
  end
  local known = MODULE_KINDS[kind] and kind
  for i = 1, #KINDS do
    if gsub(KINDS[i], "_", "") == gsub(kind, "_", "") then known = KINDS[i] end
  end
  if not known then return nil end
  local found, methods = pcall(internals.methods, known)
  return found and methods or nil
end

-- Returns the classes whose objects are Lua tables. The keys are metatables; a value has the class's name and its
-- methods.
local function written_classes()
  local objects = internals.loaded["runloop.objects"]
  return type(objects) == "table" and objects.classes or {}
end

-- Returns the class of an object of one of our modules, as in the reference: "runloop.net.Stream".
function names.class(value)
  if type(value) == "userdata" then return MODULE_KINDS[internals.kind(value)] end
  local metatable = type(value) == "table" and getmetatable(value)
  local class = metatable and written_classes()[metatable]
  return class and class.name
end

-- Returns "net" for the module `runloop.net`; nil if the value is not a module.
function names.module(value)
  if type(value) ~= "table" then return nil end
  for _, name in ipairs(get_reference().modules) do
    if rawequal(package.loaded["runloop." .. name], value) then return name end
  end
end

-- Returns the name of the field of a table that has this value.
local function in_table(holder, value)
  if type(holder) ~= "table" then return nil end
  for key, field in next, holder do
    -- Skip the variables with the last results, such as `_` and `_1`.
    if rawequal(field, value) and type(key) == "string" and not find(key, "^_") then return key end
  end
end

-- Returns the name of a function in one of several tables, each given as { prefix of the names, table }.
local function among(tables, value)
  for _, entry in ipairs(tables) do
    local key = in_table(entry[2], value)
    if key then return entry[1] .. key end
  end
end

-- Like the function above, for the tables of several kinds or libraries; `table_of` returns the table for a name.
local function among_all(list, table_of, separator, value)
  for _, name in ipairs(list) do
    local key = in_table(table_of(name), value)
    if key then return name .. separator .. key end
  end
end

-- Returns the name of a function of a module, or of its objects: "net.connect", "net.stream:read".
local function name_in_modules(value)
  local reference, methods = get_reference(), {}
  for kind, class in next, MODULE_KINDS do
    methods[#methods + 1] = { reference.plain(class) .. ":", names.methods(kind) }
  end
  for _, class in next, written_classes() do
    methods[#methods + 1] = { reference.plain(class.name) .. ":", class.methods }
  end
  return among_all(reference.modules, function(name) return package.loaded["runloop." .. name] end, ".", value)
    or among(methods, value)
end

-- Returns the name of a function of the library or of Lua: "rl.sleep", "task:await", "string.rep".
local function name_of_function(value)
  local rl = package.loaded.runloop
  local name = type(rl) == "table"
    and among({ { "rl.", rl }, { "notifications:", rl.notifications }, { "trace.", rl.trace } }, value)
  name = name or among_all(KINDS, names.methods, ":", value)
    or among_all(LIBRARIES, function(library) return package.loaded[library] end, ".", value)
    or among_all({ "file" }, names.methods, ":", value)
  if name then return name end
  for global in next, stdlib.texts do
    if rawequal(rawget(globals, global), value) then return global end
  end
  return name_in_modules(value)
end

-- Returns the name of a function, or the kind of one of our objects; nil for other values.
function names.of(value)
  if type(value) == "function" then return name_of_function(value) end
  return internals.kind(value)
end

names.in_table = in_table

return names
