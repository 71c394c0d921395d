-- Compares docs/lua/runloop.lua with the tables of the program that runs this, both ways: every existing call is
-- annotated, and every annotated call exists. Prints a line for each difference; nothing if there is none.
--
--   rlhost reference.lua ROOT

local rl = require "runloop"
local root = assert(arg[1])

-- Calls that are annotated but not yet implemented. Calls that exist must be removed from this list.
local PENDING = {}

local function report(format, ...) print(format:format(...)) end

-- Calls that exist ---------------------------------------------------------------------------------------------------

local exists = {}

local function add_methods(kind, methods)
  exists[kind .. ":*"] = true
  for name in pairs(methods) do exists[kind .. ":" .. name] = true end
end

for name, value in pairs(rl) do
  exists["rl." .. name] = type(value)
  if name == "modes" then
    for mode in pairs(value) do exists["rl.modes." .. mode] = true end
  elseif type(value) == "table" and next(value) then
    add_methods(name, value)                       -- such as rl.notifications
  end
end

-- These kinds of objects are registered when they are first used.
rl.condition()
rl.future()
rl.mutex()
-- Every kind of userdata has its metatable in the registry; our kinds hide their metatables from scripts.
for _, metatable in pairs(debug.getregistry()) do
  if type(metatable) == "table" and rawget(metatable, "__name") and rawget(metatable, "__metatable") == false then
    add_methods(metatable.__name, metatable.__index)
  end
end

-- Other kinds are tables of Lua.
add_methods("channel", getmetatable(rl.channel()).__index)
add_methods("backoff", getmetatable(rl.backoff()).__index)
add_methods("pool", getmetatable(rl.pool()).__index)
add_methods("group", getmetatable(rl.group()).__index)
add_methods("calls", getmetatable(select(2, rl.debounce(1, print))).__index)
local observation = rl.notifications:observe("name", print)
add_methods("notification_observer", getmetatable(observation).__index)
observation:invalidate()
for name in pairs(exists) do
  if name:find ":__" then exists[name] = nil end
end

-- Calls that are annotated -------------------------------------------------------------------------------------------

-- FDPort is fd_port, NotificationObserver is notification_observer.
local function kind_of(class)
  return (class:gsub("^FD", "Fd"):gsub("(%l)(%u)", "%1_%2"):lower())
end

local annotated, fields = {}, {}
local class, documented, parameters, number = nil, false, {}, 0
for line in io.lines(root .. "/docs/lua/runloop.lua") do
  number = number + 1
  local owner, separator, name, arguments = line:match "^function (%w+)([.:])([%w_]+)%((.-)%) end$"
  local new_class = line:match "^%-%-%-@class ([%w_.]+)"
  local field = line:match "^%-%-%-@field ([%w_]+)"
  local parameter = line:match "^%-%-%-@param ([%w_.]+)"
  if new_class then
    class, documented = new_class:gsub("^runloop%.", ""), true
    if not class:find "^%u%w+Options$" then
      annotated[(class == "modes" and "rl." or "") .. kind_of(class) .. ":*"] = number
    end
  elseif field then
    if class == "modes" then annotated["rl.modes." .. field] = number end
    fields[class] = fields[class] or {}
    fields[class][field] = number
  elseif parameter then
    parameters[#parameters + 1] = parameter
  elseif line:find "^%-%-%-@return" or line:find "^%-%-%-[^@]" then
    documented = true
  elseif owner then
    -- The objects of some classes are tables of functions, which are called with a dot.
    annotated[owner == "rl" and separator == "." and owner .. "." .. name or kind_of(owner) .. ":" .. name] = number
    local given = table.concat(parameters, ", "):gsub("%?", "")
    if given ~= arguments then
      report("line %d: %s has the parameters (%s), annotated are (%s)", number, name, arguments, given)
    end
    if not documented and #parameters == 0 then report("line %d: %s has not a word of documentation", number, name) end
  elseif line:find "^function" then
    report("line %d: this is not understood: %s", number, line)
  else
    local value = line:match "^rl%.([%w_]+) = "
    if value then annotated["rl." .. value] = number end
  end
  if not line:find "^%-%-%-" then documented, parameters = false, {} end
end

-- A class that is not a kind of object describes a plain table, and has fields instead of methods.
for name in pairs(annotated) do
  if name:find ":%*$" then
    local kind, has_methods = name:match "^(.*):", false
    for other in pairs(annotated) do
      has_methods = has_methods or other ~= name and other:sub(1, #kind + 1) == kind .. ":"
    end
    if not has_methods then annotated[name] = nil end
  end
end

-- The comparison -----------------------------------------------------------------------------------------------------

local pending = {}
for _, name in ipairs(PENDING) do
  pending[name] = true
  if exists[name] then report("%s exists now: take it from the list PENDING in Tests/Program/reference.lua", name) end
  if not annotated[name] then report("%s is PENDING in Tests/Program/reference.lua, but not annotated", name) end
end

local names = {}
for name in pairs(exists) do names[#names + 1] = name end
for name in pairs(annotated) do
  if not exists[name] then names[#names + 1] = name end
end
table.sort(names)
for _, name in ipairs(names) do
  local is_pending = pending[name] or pending[name:gsub(":.*", ":*")]
  if not annotated[name] then
    report("%s exists, but is not annotated in docs/lua/runloop.lua", name)
  elseif not exists[name] and not is_pending then
    report("%s is annotated in line %d, but does not exist", name, annotated[name])
  end
end

-- Options ------------------------------------------------------------------------------------------------------------

-- Functions that take the options of a class. An unknown field raises an error that names it.
local port = rl.port()
local takers = {
  BackoffOptions = rl.backoff, RunOptions = rl.run, PerformOptions = rl.perform, TimerOptions = rl.timer,
  SourceOptions = rl.source,
  FDPortOptions = rl.fd_port, ObserverOptions = rl.observer, ThreadOptions = rl.thread, PortOptions = rl.port,
  SendOptions = function(options) return port:send(options) end,
  AtOptions = function(options) return rl.at(1e9, print, options) end,
  TraceOptions = function(options) return rl.trace.start("reference.html", options) end,
  TaskOptions = rl.task, InspectOptions = function(options) return rl.inspect(1, options) end,
  PoolOptions = rl.pool, ShutdownOptions = function(options) rl.on_shutdown(print, options) end,
  EnqueueOptions = function(options) return rl.notifications:enqueue("name", nil, options) end,
}
-- Calls that need a server.
local server = assert(rl.message_port { callback = print, name = "reference." .. os.time() .. "." .. math.random(1e9) })
rl.current():add(server)
local remote = assert(rl.remote_port(server:name()))
takers.SandboxOptions = rl.sandbox
takers.MessagePortOptions = rl.message_port
takers.RequestOptions = function(options) return remote:request(1, "", options) end
takers.RemoteSendOptions = function(options) return remote:send(1, "", options) end

-- Without these arguments a call fails before it checks the fields.
local needed = { FDPortOptions = { fd = 0 }, TaskOptions = { print } }
local function with(class, field, value)
  local options = {}
  for name, needed in pairs(needed[class] or {}) do options[name] = needed end
  options[field] = value
  return options
end

local impossible = coroutine.create(print)        -- a type that no field has
for name, of in pairs(fields) do
  if name:find "Options$" then
    local take = takers[name]
    if not take then report("nobody takes %s: say who in Tests/Program/reference.lua", name) end
    for field in pairs(take and of or {}) do
      local done, message = pcall(take, with(name, field, impossible))
      if not done and tostring(message):find "unknown field" then
        report("%s has the field '%s', which is refused: %s", name, field, message)
      end
    end
    if take then
      local done, message = pcall(take, with(name, "no_such_field", 1))
      if done or not tostring(message):find "unknown field" then
        report("%s: a field that nobody knows is not refused: %s", name, message)
      end
    end
  end
end
os.exit(true)
