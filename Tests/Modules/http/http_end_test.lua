-- runloop.http: requests that are open when the program ends.

local t = require "runloop.test"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }

local SCRIPT <const> = [[
local rl, http, net, process = require "runloop", require "runloop.http", require "runloop.net",
  require "runloop.process"
local server = assert(http.serve("127.0.0.1:0", function(request)
  if request.path == "/socket" then
    local socket = request:websocket()
    for _ in socket:messages() do end
  elseif request.path == "/events" then
    request:events():wait_closed()
  elseif request.path == "/error" then
    local waiting <close> = setmetatable({}, { __close = function() error "of its own" end })
    rl.sleep(100)
  elseif request.path == "/other" then
    local other = rl.task(rl.sleep, 100)
    rl.after(0.01, function() other:cancel() end)
    other:await()
  else
    rl.sleep(100)
  end
end))
local clients, socket = {}, nil
for i, target in ipairs { "/", "/events", path } do
  clients[i] = assert(net.connect(server:address()))
  clients[i]:write("GET " .. target .. " HTTP/1.1\r\nHost: x\r\n\r\n")
end
socket = assert(http.websocket("ws://" .. server:address() .. "/socket"))
rl.sleep(0.1)
if how == "exit" then os.exit(0, true)
elseif how == "shutdown" then rl.shutdown()
else process.start { "sh", "-c", "sleep 0.1; kill -" .. how .. " " .. process.id() } end
rl.sleep(20)
]]

t.describe("requests that are open when the program ends", function()
  local function ended(how, path)
    return process.run { t.rlhost, "-e", ("local how, path = %q, %q\n"):format(how, path or "/") .. SCRIPT,
      timeout = 30 }
  end

  for _, how in ipairs { "exit", "shutdown", "TERM", "INT" } do
    t.it("by " .. how .. " are not errors", REAL, function() t.equal(ended(how).errors, "") end)
  end

  t.it("report errors that they raise themselves", REAL, function()
    t.truthy(ended("exit", "/error").errors:find "of its own.*in request GET /error")
  end)

  t.it("report that another task for which they waited was cancelled", REAL, function()
    t.truthy(ended("exit", "/other").errors:find "cancelled.*in request GET /other")
  end)
end)
