-- runloop.http: the module. Client and server are loaded when they are first used: neither needs what the other does.

local http = {}

local function client() return require "runloop.http.client" end
local made
local function makers()
  made = made or require("runloop.http.answering").makers
  return made
end

-- Client ------------------------------------------------------------------------------------------------------------------------

function http.get(...) return client().get(...) end
function http.post(...) return client().post(...) end
function http.fetch(...) return client().fetch(...) end
function http.open(...) return client().open(...) end
function http.client(...) return client().client(...) end
function http.websocket(...) return require("runloop.http.wire").websocket(...) end

-- Server ------------------------------------------------------------------------------------------------------------------------

local function serve(...)
  require "runloop.http.handshake"
  http.serve = require("runloop.http.server").serve
  return http.serve(...)
end
function http.serve(...) return serve(...) end
function http.routes() return require("runloop.http.routes").routes() end
function http.json(...) return makers().json(...) end
function http.html(...) return makers().html(...) end
function http.redirect(...) return makers().redirect(...) end
function http.not_found(...) return makers().not_found(...) end
function http.bad_request(...) return makers().bad_request(...) end
function http.unauthorized(...) return makers().unauthorized(...) end
function http.forbidden(...) return makers().forbidden(...) end
function http.no_content() return makers().no_content() end

local FILE = { headers = "table", type = "string", root = "string" }

function http.file(path, settings)
  local misuse = require "runloop.misuse"
  misuse.argument(path, "string", "http.file", 1)
  if settings ~= nil then
    misuse.argument(settings, "table", "http.file", 2)
    misuse.fields(settings, FILE, "http.file")
  end
  return require("runloop.http.files").answer(path, settings and settings.root, settings)
end

-- Texts -------------------------------------------------------------------------------------------------------------------------

function http.escape(text)
  require("runloop.misuse").argument(text, "string", "http.escape", 1)
  return require("runloop.http.native").escape(text)
end

function http.unescape(text)
  require("runloop.misuse").argument(text, "string", "http.unescape", 1)
  return require("runloop.http.native").unescape(text)
end

return http
