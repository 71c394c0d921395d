-- The annotations of the modules that reach the machine, and the modules, agree both ways.

local t = require "runloop.test"
local require_part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/part.lua")

local MODULES = { "process", "fs", "arguments", "log", "terminal", "schedule" }

for _, name in ipairs(MODULES) do
  t.it("docs/lua/runloop-" .. name .. ".lua has every function, and no other", function()
    local file <close> = assert(io.open(os.getenv "DOCUMENTS" .. "/runloop-" .. name .. ".lua"))
    local annotated, existing = {}, {}
    for line in file:lines() do
      local found = line:match("^function " .. name .. "%.([%w_]+)%(")
      if found then annotated[found] = true end
    end
    for key, value in pairs(require("runloop." .. name)) do
      if type(value) == "function" then existing[key] = true end
    end
    t.equal(annotated, existing)
  end)
end

-- By the name of a class: the annotated methods of its objects.
local function annotated_methods(path, classes)
  local class, owners = nil, {}
  for line in io.lines(path) do
    class = line:match "^%-%-%-@class ([%w_.]+)" or class
    local variable = line:match "^local ([%w_]+) = {}"
    if variable then owners[variable] = class end
    local owner, name = line:match "^function ([%w_]+):([%w_]+)%("
    if owner then
      classes[owners[owner]] = classes[owners[owner]] or {}
      table.insert(classes[owners[owner]], name)
    end
  end
end

-- By the name of a class: the annotated methods, and the tables that have them.
local function all_classes()
  local classes = {}
  for _, name in ipairs { "process", "fs", "arguments", "log", "terminal", "schedule", "net", "http", "json" } do
    annotated_methods(os.getenv "DOCUMENTS" .. "/runloop-" .. name .. ".lua", classes)
    require("runloop." .. name)
  end
  for _, part in ipairs { "client", "server", "routes", "client.wire", "handshake", "multipart" } do
    require_part("runloop.http." .. part)
  end
  local known = {}
  for _, class in pairs(require_part "runloop.objects".classes) do
    known[class.name] = known[class.name] or {}
    table.insert(known[class.name], class.methods)
  end
  -- Those whose objects are Swift's have their metatables in the registry.
  local kinds = { stream = "runloop.net.Stream", listener = "runloop.net.Listener", datagram = "runloop.net.Datagram",
    signal = "runloop.process.Signal" }
  for _, metatable in pairs(debug.getregistry()) do
    if type(metatable) == "table" and rawget(metatable, "__metatable") == false
      and kinds[rawget(metatable, "__name")] then
      known[kinds[metatable.__name]] = { metatable.__index }
    end
  end
  return classes, known
end

t.it("objects of modules have every annotated method, and the prompt's help knows their classes", function()
  local classes, known = all_classes()
  local missing = {}
  for class, methods in pairs(classes) do
    for _, name in ipairs(methods) do
      local found
      for _, holder in ipairs(known[class] or {}) do found = found or type(rawget(holder, name)) == "function" end
      if not found then missing[#missing + 1] = class .. ":" .. name end
    end
  end
  table.sort(missing)
  t.equal(missing, {})
end)

t.it("a method that is called with a dot, or of another object, says so at the script's line", function()
  local rl = require "runloop"
  -- Made known when they are first used.
  rl.pool()
  rl.channel()
  rl.group()
  rl.debounce(1, print)
  local classes, known = all_classes()
  annotated_methods(os.getenv "DOCUMENTS" .. "/runloop.lua", classes)
  local tried, odd = 0, {}
  for class, methods in pairs(classes) do
    for _, name in ipairs(methods) do
      for _, holder in ipairs(known[class] or {}) do
        for _, wrong in ipairs { false, {}, rl.condition() } do
          local method = rawget(holder, name)
          tried = tried + (method and 1 or 0)
          local fine, message = true, "it is accepted"
          if method then fine, message = pcall(function() local _ = method(wrong or nil) end) end
          message = tostring(message)
          if method and (fine or not message:find("^%S*annotations_test%.lua:%d+: [%w ]+:" .. name .. ": .*colon")) then
            odd[#odd + 1] = class .. ":" .. name .. ": " .. message
          end
        end
      end
    end
  end
  table.sort(odd)
  t.equal(odd, {})
  t.truthy(tried > 300, tried)
end)
