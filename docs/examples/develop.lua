-- A development server: builds when a file is saved, serves the result, and makes the browser show it.
--
--   rlhost develop.lua SOURCES COMMAND SITE [PORT]     for example: rlhost develop.lua src make out
--
-- Pages that include <script src="/reload.js"></script> are loaded again after each successful build.

local rl = require "runloop"
local fs = require "runloop.fs"
local http = require "runloop.http"
local process = require "runloop.process"

local sources, command, site, port = arg[1], arg[2], arg[3], tonumber(arg[4] or 8080)
if not site then error("usage: rlhost develop.lua SOURCES COMMAND SITE [PORT]", 0) end

local builds = 0

local function build(changes)
  for _, change in ipairs(changes) do print(change.kind, change.path) end
  local began = rl.now()
  local result = process.shell(command, { errors = "output", timeout = 300 })
  if not result or result.code ~= 0 then
    print("the build has failed:\n" .. (result and result.output or ""))
    return
  end
  builds = builds + 1
  print(("build %d took %.1f s"):format(builds, rl.now() - began))
  rl.notifications:post("built", builds)
end

local app = http.routes()

app:get("/reload", function(request)
  local events = request:respond():events()
  local observer <close> = rl.notifications:observe("built", function(_, number) events:send { data = number } end)
  events:wait_closed()
end)

app:get("/reload.js", function()
  return { headers = { ["content-type"] = "text/javascript" },
    body = 'new EventSource("/reload").onmessage = () => location.reload()\n' }
end)

app:files("/*", site)

build {}
-- Builds never overlap: changes during a build cause one more call afterwards.
assert(fs.watch(sources, { recursive = true, ignore = { ".git" }, latency = 0.1 }, build))
local server = assert(http.serve(port, app))
print("http://" .. server:address() .. "/")
