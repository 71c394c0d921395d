-- runloop.new.templates: the files of `rlhost new tool|service|web|test`. NAME stands for the project's name,
-- and IDENT for it as an identifier.

local templates = {}

local function readme(what, use)
  return ("# NAME\n\n%s\n\n```sh\n%s\nrlhost test          # runs tests/NAME_test.lua\n```\n"):format(what, use)
end

templates.tool = {
  ["NAME.lua"] = [[
#!/usr/bin/env rlhost
-- NAME: counts the words of files, or of standard input.

local arguments = require "runloop.arguments"
local net = require "runloop.net"

local options = arguments.parse {
  name = "NAME", description = "Counts words.", version = "1.0",
  { "-l --lines", help = "count lines instead" },
  { "files", many = true, optional = true, help = "standard input if absent" },
}

local function count(stream)
  local number = 0
  for line in stream:lines() do
    if options.lines then
      number = number + 1
    else
      for _ in line:gmatch "%S+" do number = number + 1 end
    end
  end
  return number
end

if not options.files or #options.files == 0 then
  print(count(net.input()))
end
for _, path in ipairs(options.files or {}) do
  local file, problem = io.open(path)
  if not file then
    io.stderr:write("NAME: ", problem, "\n")
    os.exit(1)
  end
  print(count(assert(net.open(file))), path)
end
]],
  ["tests/NAME_test.lua"] = [[
local t = require "runloop.test"
local process = require "runloop.process"

local DIRECTORY = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"

local function run(words)
  table.insert(words, 1, t.rlhost)
  table.insert(words, 2, DIRECTORY .. "../NAME.lua")
  return assert(process.run(words))
end

t.it("counts words and lines", { real_time = true }, function()
  t.equal(run { input = "one two\nthree\n" }.output, "3\n")
  t.equal(run { "--lines", input = "one two\nthree\n" }.output, "2\n")
end)

t.it("says which file is missing", { real_time = true }, function()
  local result = run { "/no/such/file" }
  t.equal(result.code, 1)
  t.truthy(result.errors:find("/no/such/file", 1, true))
end)
]],
  ["README.md"] = readme("Counts the words of files.", "rlhost NAME.lua README.md"),
}

templates.service = {
  ["NAME.lua"] = [[
-- NAME: a service that does its work every few seconds, and ends on SIGTERM.

local rl = require "runloop"
local log = require "runloop.log"
local process = require "runloop.process"

local interval = tonumber((...) or 10)
local rounds = 0

rl.every(interval, function()
  rounds = rounds + 1
  log.info("working", { round = rounds })
end)

process.on_signal("HUP", function()
  process.notify "reloading"
  log.info "settings are read again"
  process.notify "ready"
end)

rl.on_shutdown(function(reason) log.info("ending", { reason = reason, rounds = rounds }) end)

process.watchdog()
process.notify "ready"
log.info("ready", { interval = interval })
]],
  ["NAME.service"] = [[
[Unit]
Description=NAME

[Service]
# systemd before 253 does not know the second type, and takes the first.
Type=notify
Type=notify-reload
ExecStart=/usr/bin/env rlhost /opt/NAME/NAME.lua
WatchdogSec=10
Restart=on-failure
DynamicUser=yes

[Install]
WantedBy=multi-user.target
]],
  ["tests/NAME_test.lua"] = [[
local t = require "runloop.test"

local SCRIPT = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "../NAME.lua"

t.it("works, reads its settings again and ends on SIGTERM", { real_time = true }, function()
  local service <close> = t.spawn { t.rlhost, SCRIPT, "0.05" }
  service:wait_for("ready", { from = "errors" })
  service:wait_for("round=2", { from = "errors" })
  service:signal "HUP"
  service:wait_for("settings are read again", { from = "errors" })
  service:signal "TERM"
  service:wait_for("ending", { from = "errors" })
  t.equal(service:wait(), 128 + 15)
end)
]],
  ["README.md"] = readme("Does its work every ten seconds, as a service of systemd: NAME.service.",
    "rlhost NAME.lua 1    # every second"),
}

templates.web = {
  ["NAME.lua"] = [[
-- NAME: a web service. Its first argument is the address, 127.0.0.1:8080 if absent.

local http = require "runloop.http"
local metrics = require "runloop.metrics"

local app = http.routes()
local greetings = metrics.counter("IDENT_greetings_total", "Greetings.")

app:get("/", function() return "NAME is here\n" end)

app:get("/hello/:name", function(request)
  greetings:add()
  return http.json { hello = request.params.name }
end)

app:get("/metrics", metrics.handler())

-- The tests require this file for its routes.
if arg and arg[0] and arg[0]:find("NAME.lua", 1, true) then
  local server = assert(http.serve((...) or "127.0.0.1:8080", app))
  print("http://" .. server:address())
end

return app
]],
  ["tests/NAME_test.lua"] = [[
local t = require "runloop.test"

local DIRECTORY = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local app = dofile(DIRECTORY .. "../NAME.lua")

t.it("greets", function()
  local client = t.http(app)
  local response = assert(client:get "/hello/Ada")
  t.equal(response.status, 200)
  t.equal(response:json(), { hello = "Ada" })
end)

t.it("counts what it does", function()
  local client = t.http(app)
  client:get "/hello/Ada"
  t.truthy(client:get "/metrics".body:find "IDENT_greetings_total 1\n")
end)
]],
  ["README.md"] = readme("Answers JSON on /hello/:name, and numbers for Prometheus on /metrics.",
    "rlhost NAME.lua 127.0.0.1:8080"),
}

templates.test = {
  ["NAME.lua"] = [[
-- NAME: a module.

local rl = require "runloop"

local IDENT = {}

-- Calls a function until it answers a value, at most `times`, with a second between two calls.
function IDENT.retry(times, fn)
  for attempt = 1, times do
    local value = fn(attempt)
    if value ~= nil then return value end
    if attempt < times then rl.sleep(1) end
  end
  return nil, "no value"
end

return IDENT
]],
  ["tests/NAME_test.lua"] = [[
local t = require "runloop.test"
local rl = require "runloop"

local DIRECTORY = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local IDENT = dofile(DIRECTORY .. "../NAME.lua")

t.describe("retry", function()
  t.it("answers the first value", function()
    local began = rl.now()
    t.equal(IDENT.retry(5, function(attempt) return attempt == 3 and "yes" or nil end), "yes")
    -- Two seconds of the test's time, which take none.
    t.equal(math.floor(rl.now() - began + 0.5), 2)
  end)

  t.it("gives up", function()
    t.equal({ IDENT.retry(2, function() end) }, { nil, "no value" })
  end)
end)
]],
  ["README.md"] = readme("A module with its tests.", "rlhost test tests"),
}

return templates
