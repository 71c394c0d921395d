-- An error about a name that does not exist has a hint: a name with the same meaning, or else one with similar letters,
-- or else a list of names. Reading such a name gives nil, as in any Lua.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local json = require "runloop.json"
local log = require "runloop.log"
local fs = require "runloop.fs"
local nats = require "runloop.nats"
local process = require "runloop.process"
local redis = require "runloop.redis"
local schedule = require "runloop.schedule"
local folder = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local part = dofile(folder .. "../Support/part.lua")
local meanings = part "runloop.meanings"

local MODULES = { rl = rl, net = net, http = http, json = json, log = log, fs = fs, process = process,
  schedule = schedule, os = os, io = io, trace = rl.trace }

local function message(fn, ...)
  local good, problem = pcall(fn, ...)
  t.falsy(good, "it raises no error")
  return (tostring(problem):gsub("^[^:]+:%d+: ", ""))
end

-- Objects of each kind that has rows in the table.
local function objects()
  local near, far = net.memory()
  local listener, client = assert(net.serve("127.0.0.1:0", print)), http.client()
  local program = process.start { "true" }
  local database, bus = assert(redis.open(redis.fake())), assert(nats.connect(nats.fake()))
  local subscription, transaction = bus:subscribe "x", assert(database:begin())
  bus:publish("x", "")
  return {
    notifications = rl.notifications, database = database, tx = transaction, bus = bus, subscription = subscription,
    message = subscription:receive(5),
    stream = near, timer = rl.timer { delay = 1, callback = print }, logger = log.with {}, listener = listener,
    program = program, ["http client"] = client,
  }, function()
    near:close()
    far:close()
    listener:close()
    client:close()
    transaction:rollback()
    database:close()
    bus:close()
    program:wait()
  end
end

local function has_method(object, name)
  local found, value = pcall(function() return object[name] end)
  return found and type(value) == "function"
end

-- Whether the names in a remedy exist: "net.copy()", "loop:add(timer)", "keeps_alive = false".
local function check_remedy(text, all)
  local found = false
  for holder, name in text:gmatch "(%a+)%.([%w_]+)" do
    if not all[holder] then
      t.truthy(MODULES[holder] and MODULES[holder][name], text)
      found = true
    end
  end
  for holder, name in text:gmatch "(%a+):([%w_]+)%(" do
    local object = holder == "loop" and rl.current() or all[holder] or all.stream
    t.truthy(has_method(object, name), text)
    found = true
  end
  if text == "arg" then found = arg ~= nil end
  if text:find "^keeps_alive = " then
    rl.timer { delay = 1, callback = print, keeps_alive = text == "keeps_alive = true" }
    found = true
  end
  if not found then
    for name in text:gmatch "([%w_]+)%(%)" do
      t.truthy(has_method(all.stream, name), text)
      found = true
    end
  end
  t.truthy(found, "nothing in '" .. text .. "' can be looked up")
end

local function plural(owner) return owner .. (owner:find "s$" and "es" or "s") end

local function is_text(word) return not word:find "^[%w_]+$" end

t.it("every row about modules names an existing module", function()
  for name, module in pairs(meanings.modules) do
    t.truthy(require(module), name)
  end
end)

t.it("every row about a function names an existing function of the module", function()
  local all, close = objects()
  for owner, rows in pairs(meanings.names) do
    local module = owner == "runloop" and rl or owner:find "^runloop%." and require(owner)
    for name, row in pairs(module and rows or {}) do
      t.equal(rawget(module, name), nil, owner .. "." .. name .. " exists")
      local text = message(load("local module = ... return module." .. name .. "(1)", "=script"), module)
      local remedy = type(row) == "table" and row[1] or row
      t.equal(text, owner .. " has no " .. name .. " (did you mean " .. remedy .. "?)")
      if is_text(remedy) or remedy == "arg" then check_remedy(remedy, all)
      else t.equal(type(module[remedy]), "function", owner .. "." .. remedy) end
    end
  end
  close()
end)

t.it("every row about a method names an existing method", function()
  local all, close = objects()
  for owner, rows in pairs(meanings.names) do
    local object = all[owner]
    if not owner:find "^runloop" then t.truthy(object, owner) end
    for name, row in pairs(object and rows or {}) do
      local text = message(load("local object = ... return object:" .. name .. "(1)", "=script"), object)
      local remedy = type(row) == "table" and row[1] or row
      if is_text(remedy) then
        t.equal(text, plural(owner) .. " have no " .. name .. "() (did you mean " .. remedy .. "?)")
        check_remedy(remedy, all)
      else
        t.equal(text, plural(owner) .. " have " .. remedy .. "(), not " .. name .. "()")
        t.truthy(has_method(object, remedy), owner .. ":" .. remedy)
      end
    end
  end
  close()
end)

t.it("every row about a field names an existing field or function", function()
  local CALLS = {
    anywhere = { function(field) process.run { "true", [field] = 1 } end,
      function(field) http.fetch { [field] = 1 } end,
      function(field) rl.timer { [field] = 1 } end, function(field) rl.source { [field] = 1 } end,
      function(field) net.listener { [field] = 1 } end, function(field) rl.perform { print, [field] = 1 } end,
      function(field) log.open { [field] = 1 } end, function(field) net.connect("x:1", { [field] = 1 }) end,
      function(field) rl.message_port { [field] = 1 } end },
    process = { function(field) process.run { "true", [field] = 1 } end,
      function(field) process.start { "true", [field] = 1 } end },
    http = { function(field) http.get("http://x/", { [field] = 1 }) end },
  }
  for owner, rows in pairs(meanings.fields) do
    for field, row in pairs(rows) do
      local led = false
      local texts = {}
      for _, call in ipairs(CALLS[owner]) do
        local good, text = pcall(call, field)
        texts[#texts + 1] = tostring(text)
        for _, word in ipairs(type(row) == "table" and row or { row }) do
          local first, second = word:match "^([%w_]+) and ([%w_]+)$"
          local unit, name = word:match "^(%a+): ([%w_]+)$"
          local expected = first and ("'%s' and '%s'"):format(first, second) or unit and ("%s: '%s'"):format(unit, name)
            or word
          led = led or not good and text:find("unknown field '" .. field .. "' (", 1, true)
            and text:find(expected, 1, true) and not text:find("there are", 1, true)
        end
      end
      local is_missing = type(row) == "string" and row:find "^process%." and not process[row:match "%.(.*)"]
      t.truthy(led or is_missing, owner .. ": " .. field .. ": " .. table.concat(texts, "\n"))
    end
  end
end)

t.it("reading a name that does not exist gives nil", function()
  t.equal(json.parse, nil)
  t.equal(rawget(json, "parse"), nil)
  local parse = json.parse
  t.falsy(parse)
  if json.parse then t.fail "json.parse" end
  local found = json.parse and json.parse "1"
  t.falsy(found)
  local list = { json.parse, key = json.parse, json["parse"] }
  t.equal(next(list), nil)
  t.equal((function() return json.parse end)(), nil)
  t.equal(select("#", json.parse, rl.setTimeout), 2)
  t.falsy(pcall(json.parse, "1"))
  local name = "par" .. "se"
  t.equal(json[name], nil)
  t.truthy(json.parse == nil and not json.parse)
  for key in pairs(json) do t.truthy(key ~= "parse") end
  local timer = rl.timer { delay = 1, callback = print }
  t.equal(timer.unref, nil)
  t.equal(timer.unref and timer:unref(), nil)
  local near, far = net.memory()
  t.equal(near.send, nil)
  near:close() far:close()
end)

t.it("each form of a call gets the hint for a missing function", function()
  local expected = "runloop.json has no parse (did you mean decode?)"
  t.equal(message(function() json.parse("1") end), expected)
  t.equal(message(function() json.parse "1" end), expected)
  t.equal(message(function() return json.parse({ json.null, function() return 1 end }, rl.now() > 0 and 1 or 2) end),
    expected)
  t.equal(message(function() local x = 1 + json.parse(2) return x end), expected)
  t.equal(message(function() json:parse() end), expected)
  t.equal(message(function() print(json.decode "1", json.parse(1)) end), expected)
  local name = "parse"
  t.equal(message(function() json[name](1) end), expected)
  t.equal(message(function() for _ in json.parse(1) do break end end), expected)
end)

t.it("a hint prefers a name of the same meaning to one of similar spelling, and both to a list of names", function()
  t.equal(message(function() json.decod "1" end), "runloop.json has no decod (did you mean decode?)")
  t.equal(message(function() json.frobnicate "1" end),
    "runloop.json has no frobnicate (there are: array, decode, encode, lines, object)")
  local text = message(function() rl.frobnicate() end)
  t.truthy(text:find "^runloop has no frobnicate %(there are: after, all_of, .* and %d+ more%)$", text)
  local near, far = net.memory()
  t.equal(message(function() near:readLine() end), "streams have read_line(), not readLine()")
  local all = message(function() near:frobnicate() end)
  t.truthy(all:find "^streams have abort%(%), .* and %d+ more, not frobnicate%(%)$")
  near:close() far:close()
end)

t.it("a short name is not suggested merely because it is short", function()
  local nearest = part "runloop.misuse".nearest
  for word, other in pairs { fetch = "batch", each = "batch", event = "every", time = "name", nest = "next_one" } do
    t.equal(nearest(word, { [other] = true, something = true }), nil, word)
  end
  for word, other in pairs { wirte = "write", tsk = "task", decod = "decode", unsubscibe = "unsubscribe" } do
    t.equal(nearest(word, { [other] = true, something = true }), other)
  end
end)

t.it("a hint completes the beginning of a name, unless two names begin with it", function()
  t.equal(message(process.run, { "true", dir = "/" }), "process.run: unknown field 'dir' (did you mean 'directory'?)")
  t.equal(message(function() json.dec "1" end), "runloop.json has no dec (did you mean decode?)")
  t.truthy(message(function() rl.ti() end):find "there are: ")
  t.truthy(message(function() rl.remot() end):find "remote_port")
  t.truthy(message(function() rl.wait_r() end):find "wait_readable")
  t.falsy(message(function() rl.wait_() end):find "wait_readable")
end)

t.it("the hint for a word that several kinds of databases use names this database's own method", function()
  local path = os.tmpname()
  local found = require "runloop.sqlite".open(path)
  os.remove(path)
  if not found then return t.skip "needs libsqlite3-0" end
  t.equal(message(function() found:exec "x" end), "databases have execute(), not exec()")
  t.equal(message(function() found:get "x" end), "databases have row(), not get()")
  found:close()
  local database <close> = assert(redis.open(redis.fake()))
  t.equal(message(function() database:get "x" end), "databases have call(), not get()")
end)

t.it("a hint names the kind of object in the plural", function()
  local bus <close> = assert(nats.connect(nats.fake()))
  t.truthy(message(function() bus:frobnicate() end):find "^buses have ")
  t.truthy(message(function() http.routes():frobnicate() end):find "^http routes have ")
end)

t.it("objects that are written in Lua give hints, too", function()
  local program = process.start { "true" }
  t.equal(message(function() program:kill() end), "programs have signal(), not kill()")
  program:wait()
  local client = http.client()
  t.equal(message(function() client:request() end), "http clients have fetch(), not request()")
  client:close()
  t.equal(message(function() log.with {} :warn "x" end), "loggers have warning(), not warn()")
end)

t.it("a hint does not suggest a similar word of another meaning", function()
  local timer = rl.timer { delay = 1, callback = print }
  local text = message(function() timer:unref() end)
  t.equal(text, "timers have no unref() (did you mean keeps_alive = false?)")
  t.falsy(text:find "invalidate")
end)

t.it("the error for a wrong form of a call names the right form", function()
  t.truthy(message(http.get, { url = "http://x/" }):find "http%.get: .*http%.fetch")
  t.truthy(message(net.connect, "localhost", 80):find('"localhost:80"', 1, true))
  t.equal(message(net.resolve, "localhost", 80), "net.resolve: argument #2 must be an options table, got 80")
  t.truthy(message(rl.run, "modal"):find('{ mode = "modal" }', 1, true))
  local near, far = net.memory()
  for _, format in ipairs { "l", "*l", "L", "n" } do t.truthy(message(near.read, near, format):find "read_line%(%)") end
  t.truthy(message(near.read, near, "*a"):find "read_all%(%)")
  near:close() far:close()
  local text = message(rl.thread, function() end, rl.channel())
  t.truthy(text:find "^rl%.thread: cannot send argument #2: channel" and text:find "rl%.port", text)
end)

t.it("an unknown field comes before a missing one, and has its hint in every module", function()
  for what, call in pairs {
    ["fs.watcher: unknown field 'rceursive' (did you mean 'recursive'?)"] = function()
      fs.watcher { rceursive = true }
    end,
    ["json.encode: unknown field 'idnent' (did you mean 'indent'?)"] = function() json.encode({}, { idnent = 2 }) end,
    ["json.encode: unknown field 'x' (there are: indent, sort)"] = function() json.encode({}, { x = 2 }) end,
    ["process.run: unknown field 'on_output' (did you mean process.start?)"] = function()
      process.run { "true", on_output = print }
    end,
    ["process.start: unknown field 'timeout' (did you mean process.run?)"] = function()
      process.start { "true", timeout = 1 }
    end,
    ["log.open: field 'name' must be a string, got 5"] = function() log.open { name = 5 } end,
    ["log.open: field 'fields' must be a table, got \"x\""] = function() log.open { fields = "x" } end,
    ["log.open: field 'time' must be a boolean, got 1"] = function() log.open { time = 1 } end,
  } do
    t.equal(message(call), what)
  end
end)

t.it("http.post takes its options as the second argument, if they have a body", function()
  local client = t.http(function(request)
    return { json = { type = request.headers["content-type"], body = request:body() } }
  end)
  t.equal(client:post("/", { json = { a = 1 } }):json(), { type = "application/json", body = '{"a":1}' })
  t.equal(client:post("/", { form = { a = 1 } }):json().body, "a=1")
  t.equal(client:post("/", { body = "x", headers = { ["content-type"] = "text/x" } }):json(), { type = "text/x",
    body = "x" })
  t.equal(client:post("/", "y"):json().body, "y")
end)

t.it("rl.trace is the module runloop.trace, with its hints", function()
  t.equal(message(function() rl.trace.begin() end),
    "runloop.trace has no begin (there are: dump, mark, span, start, stop)")
  t.truthy(rawequal(rl.trace, require "runloop.trace"))
end)
