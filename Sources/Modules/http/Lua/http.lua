-- runloop.http: the module. The first use of a function loads the client or the server, neither of which needs the
-- other.

local http = {}

-- Defines functions that load their part at the first call: `load` returns it.
local function later(load, names)
  local part
  for _, name in ipairs(names) do
    http[name] = function(...)
      part = part or load()
      return part[name](...)
    end
  end
end

later(function() return require "runloop.http.client" end, { "get", "post", "fetch", "open", "client" })
later(function() return require "runloop.http.client.wire" end, { "websocket" })
later(function() return require "runloop.http.routes" end, { "routes" })
later(function() return require("runloop.http.server.response").makers end,
  { "json", "html", "redirect", "not_found", "bad_request", "unauthorized", "forbidden", "no_content" })

local function serve(...)
  require "runloop.http.handshake"
  http.serve = require("runloop.http.server").serve
  return http.serve(...)
end
function http.serve(...) return serve(...) end

local FILE = { headers = "table", type = "string", root = "string" }

function http.file(path, settings)
  local misuse = require "runloop.misuse"
  misuse.argument(path, "string", "http.file", 1)
  settings = misuse.options(settings, FILE, "http.file", 2)
  return { file = path, root = settings.root, headers = settings.headers, type = settings.type }
end

for _, name in ipairs { "escape", "unescape" } do
  http[name] = function(text)
    require("runloop.misuse").argument(text, "string", "http." .. name, 1)
    return require("runloop.http.native")[name](text)
  end
end

return http
