-- Checks that docs/lua/runloop-http.lua and the module agree.

local t = require "runloop.test"
local http = require "runloop.http"

local root = debug.getinfo(1, "S").source:match "^@(.*)Tests/"

local function annotated(prefix)
  local file <close> = assert(io.open(root .. "docs/lua/runloop-http.lua"))
  local names = {}
  for name in file:read("a"):gmatch("\nfunction " .. prefix .. "([%a_]+)%(") do names[name] = true end
  return names
end

-- Private methods.
local OWN = { discard = true, next_bytes = true, go_away = true, read_on = true, ended = true }

local function functions(table)
  local names = {}
  for name, value in pairs(table) do
    if type(value) == "function" and not name:find "^__" and not OWN[name] then names[name] = true end
  end
  return names
end

t.describe("docs/lua/runloop-http.lua", function()
  t.it("annotates every function", function() t.equal(annotated "http%.", functions(http)) end)

  t.it("annotates every method", function()
    local client <close> = http.client()
    t.equal(annotated "Client:", functions(getmetatable(client)))
    t.equal(annotated "Server:", functions(getmetatable(http.serve("memory", print))))
    t.equal(annotated "Routes:", functions(getmetatable(http.routes())))
    local request, response, events, socket
    local own = t.http(function(incoming)
      if incoming.path == "/ws" then
        socket = incoming:websocket()
        return
      end
      request, response = incoming, incoming:respond()
      events = response:events()
    end)
    local answer <close> = own:open { "/" }
    t.equal(annotated "Incoming:", functions(getmetatable(request)))
    t.equal(annotated "Response:", functions(getmetatable(response)))
    t.equal(annotated "Events:", functions(getmetatable(events)))
    t.equal(annotated "OpenAnswer:", functions(getmetatable(answer)))
    own:websocket("/ws"):close()
    t.equal(annotated "WebSocket:", functions(getmetatable(socket)))
  end)
end)
