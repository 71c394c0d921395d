-- Calls every function that debug functions find from the public modules, with wrong arguments. Each call has to return
-- or raise an error, and must not end the process. Usage: private-misuse.lua SEED, in an empty directory. CRAWL_LOG: a
-- file for the name of each called function.

local rl = require "runloop"
local net, http = require "runloop.net", require "runloop.http"
math.randomseed(tonumber(arg[1]))

-- Functions with these names are not called: with right arguments they end this program, its loop or other programs, or
-- change the machine.
local NOT = { "signal", "suspend", "abandon", "dismiss", "guard", "launch", "^close", "kill", "exit", "exec",
  "remove", "rename", "temporary", "link", "^start$", "directory", "lend", "take_back", "notify", "shutdown",
  "attach", "^stop", "^run$", "cook", "resize", "outcome", "has_group", "^blocking", "thread", "farewell", "dump",
  "is_ending", "splice", "inherited", "set_user", "^write$", "^write_file", "^reopen", "sandbox", "^end_" }
local function is_left_out(name)
  for _, pattern in ipairs(NOT) do if name:find(pattern) then return true end end
end
local LEFT_OUT = {}
for _, fn in ipairs { os.exit, os.execute, io.read, io.lines, os.remove, os.rename, os.tmpname, io.popen, io.close,
  io.output, io.input, io.open, io.tmpfile, io.write, debug.debug, debug.sethook, debug.setmetatable, debug.setupvalue,
  debug.upvaluejoin, debug.setlocal, debug.setuservalue, debug.setcstacklimit, dofile, loadfile, package.loadlib, print,
  warn, collectgarbage } do LEFT_OUT[fn] = true end
-- Methods of files would close or change files that this script itself uses.
for _, fn in pairs(getmetatable(io.stdout).__index) do LEFT_OUT[fn] = true end

local seen, functions, names, objects = {}, {}, {}, {}
local visit

local function visit_function(fn, name)
  functions[#functions + 1] = fn
  names[fn] = name
  for i = 1, 255 do
    local variable, value = debug.getupvalue(fn, i)
    if not variable then break end
    visit(value, variable == "(no name)" and name or variable)
  end
end

local function visit_table(holder)
  local list, keys = {}, {}
  for key, value in next, holder do list[#list + 1], keys[#keys + 1] = value, tostring(key) end
  for i, value in ipairs(list) do visit(value, keys[i]) end
end

function visit(value, name)
  local kind = type(value)
  -- A function with one dangerous name is excluded, however many other names it has.
  if kind == "function" and is_left_out(name) then LEFT_OUT[value] = true end
  if kind ~= "table" and kind ~= "function" and kind ~= "userdata" or seen[value] then return end
  seen[value] = true
  if kind == "function" then visit_function(value, name) end
  if kind == "table" and value ~= _G and value ~= package.loaded then visit_table(value) end
  visit(debug.getmetatable(value), "metatable")
  if kind ~= "userdata" then return end
  objects[#objects + 1] = value
  for i = 1, 12 do visit((debug.getuservalue(value, i)), "user value") end
end

-- The parts of these modules are loaded at the first calls.
pcall(http.get, "http://127.0.0.1:1/")
pcall(net.connect, "127.0.0.1:1", { timeout = 0.01 })
local near, far = net.memory()
local server = http.serve("127.0.0.1:0", function() return "x" end)
-- Functions of these libraries are not ours.
for _, name in ipairs { "luv", "cqueues", "cqueues.condition" } do
  local is_there, module = pcall(require, name)
  if is_there then visit(module, name) end
end
functions, names, objects = {}, {}, {}
for _, root in ipairs { near, far, server, http.client(), rl } do visit(root, "root") end
-- Each of these objects needs a library that may not be there.
visit(require "runloop.sqlite".open ":memory:", "database")
visit(require "runloop.zlib".compressor(), "stage")
visit(require "runloop.crypto".hasher "sha256", "hasher")
visit(require "runloop.metrics".counter("calls_total", "Calls."), "counter")
for _, name in ipairs { "arguments", "cqueues", "crypto", "encoding", "fs", "glib", "http", "json", "log", "luv",
  "metrics", "nats", "net", "postgres", "process", "redis", "schedule", "socket", "sqlite", "terminal", "trace", "url",
  "zlib" } do
  -- A bridge needs the library that it serves.
  local is_there, module = pcall(require, "runloop." .. name)
  if is_there then visit(module, name) end
end
-- This function ends the program after a wrong command line, and after --help.
LEFT_OUT[require "runloop.arguments".parse] = true
for i = #functions, 1, -1 do
  if LEFT_OUT[functions[i]] then table.remove(functions, i) end
end
assert(#functions > 1500, #functions)
-- Some functions end the program early, such as the one that ends a shutdown: with a random order, each run calls other
-- functions before that.
for i = #functions, 2, -1 do
  local other = math.random(i)
  functions[i], functions[other] = functions[other], functions[i]
end

local timer, source = rl.timer { callback = print, interval = 1 }, rl.source { perform = print }
for _, object in ipairs { far, io.stdout, timer, source } do objects[#objects + 1] = object end
local null = require "runloop.json".null
local MAKERS = {
  function() return nil end, function() return true end, function() return math.random(-3, 5) end,
  function() return 4096 end, function() return math.mininteger end, function() return 0 / 0 end,
  function() return "text" end, function() return ("x"):rep(300) end, function() return {} end,
  function() return function() end end, function() return objects[math.random(#objects)] end,
  function() return null end, function() return coroutine.create(function() end) end,
  function() return { 1, "2", callback = print, url = "x" } end,
}
local function any() return MAKERS[math.random(#MAKERS)]() end

local log = os.getenv "CRAWL_LOG" and io.open(os.getenv "CRAWL_LOG", "w")
if log then log:setvbuf "no" end
local write, exit, pcall = io.write, os.exit, pcall
local pack, unpack, random = table.pack, table.unpack, math.random
local start, run, timeout = rl.task, rl.run, rl.timeout

local function call(number, fn)
  local arguments = pack(any(), any(), any(), any(), any())
  local count = random(0, 5)
  if log then log:write(number, " ", names[fn], "\n") end
  local task = start(function() fn(unpack(arguments, 1, count)) end)
  timeout(0.0005, task.await, task)
  task:cancel()
end

rl.on_error(function() end)
start(function()
  for _ = 1, 3 do for number, fn in ipairs(functions) do pcall(call, number, fn) end end
end)
-- Some calls stop the loop.
for _ = 1, 20 do run { timeout = 5 } end
write "survived\n"
exit(0, false)
