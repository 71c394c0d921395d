-- The modules that access the machine agree with their annotations, both ways.

local t = require "runloop.test"
local require_part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/part.lua")

local MODULES = {
  "process", "fs", "arguments", "log", "metrics", "terminal", "schedule", "encoding", "crypto", "url", "zlib",
}

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

-- The names of all modules, from the table of options.
local function modules()
  local names = {}
  for line in io.lines(os.getenv "DOCUMENTS" .. "/../../Sources/Program/C/shell/options") do
    for name in (line:match "^modules  %.  (.*)$" or ""):gmatch "%S+" do names[#names + 1] = name end
  end
  return names
end

-- For each class name: the annotated methods of the class's objects.
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

-- For each class name: the annotated methods, and the tables that contain them.
local function all_classes()
  local classes = {}
  for _, name in ipairs(modules()) do
    -- The objects of `rl` and of the test runner have tests of their own.
    local is_other = name == "runloop" or name == "runloop.test" or name == "runloop.trace"
    if not is_other and pcall(require, name) then
      annotated_methods(os.getenv "DOCUMENTS" .. "/" .. name:gsub("%.", "-") .. ".lua", classes)
    end
  end
  for _, part in ipairs { "client", "server", "routes", "client.wire", "handshake", "multipart" } do
    require_part("runloop.http." .. part)
  end
  require_part "runloop.redis.fake"
  for _, part in ipairs { "consumer", "watch", "lease", "message_port", "remote_port", "worker", "pool" } do
    require_part("runloop.nats." .. part)
  end
  require_part "runloop.postgres.fake"
  require_part "runloop.postgres.channels"
  local known = {}
  for _, class in pairs(require_part "runloop.objects".classes) do
    known[class.name] = known[class.name] or {}
    table.insert(known[class.name], class.methods)
  end
  -- If the objects of a class are made in Swift, the registry has its metatable.
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

t.it("a method that is called with a dot, or of another object, raises an error at the script's line", function()
  local rl = require "runloop"
  -- Kinds of objects are registered when they are first used.
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
          local expected = "^%S*annotations_test%.lua:%d+: [%w_ ]+:" .. name .. ": .*colon"
          if method and (fine or not message:find(expected)) then
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

-- Methods that only other parts of runloop.http call.
local INTERNAL = { ["runloop.http.Client:websocket"] = true, ["runloop.http.Incoming:discard"] = true,
  ["runloop.http.WebSocket:ended"] = true, ["runloop.http.WebSocket:go_away"] = true,
  ["runloop.http.WebSocket:read_on"] = true }

t.it("every module has a file of annotations with its functions, and no others", function()
  local files = 0
  for _, module in ipairs(modules()) do
    files = files + 1
    local annotated, existing, owner = {}, {}, nil
    for text in io.lines(os.getenv "DOCUMENTS" .. "/" .. module:gsub("%.", "-") .. ".lua") do
      if not owner and text:find "^%-%-%-@meta" then t.equal(text, "---@meta " .. module) end
      owner = owner or text:match "^local ([%w_]+) = {}"
      local holder, name = text:match "^function ([%w_]+)%.([%w_]+)%("
      if holder and holder == owner and not name:find "^_" then annotated[name] = true end
    end
    for name, value in pairs(require(module)) do
      if type(value) == "function" and type(name) == "string" and not name:find "^_" then existing[name] = true end
    end
    -- The module has the functions of `rl.trace`, whose annotations are in runloop.lua.
    if module == "runloop.trace" then
      for name in pairs(require "runloop".trace) do annotated[name] = true end
    end
    t.equal(annotated, existing, module)
  end
  t.truthy(files >= 12)
end)

t.it("every method of the objects of the modules is annotated", function()
  local classes, known = all_classes()
  annotated_methods(os.getenv "DOCUMENTS" .. "/runloop.lua", classes)
  local missing = {}
  for class, holders in pairs(known) do
    local names = {}
    for _, name in ipairs(classes[class] or {}) do names[name] = true end
    for _, methods in ipairs(holders) do
      for name, value in pairs(methods) do
        local full = class .. ":" .. name
        local is_public = type(value) == "function" and not name:find "^_" and not INTERNAL[full]
        if is_public and not names[name] then missing[#missing + 1] = full end
      end
    end
  end
  table.sort(missing)
  t.equal(missing, {})
end)
