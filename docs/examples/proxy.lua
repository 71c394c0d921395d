-- A reverse proxy: passes every request on to another server and the answer back, piece by piece.
--
--   rlhost proxy.lua PORT http://127.0.0.1:8080

local http = require "runloop.http"

local target = assert(arg[2], "usage: rlhost proxy.lua PORT URL"):gsub("/$", "")
local client = http.client { follow = 0, decompress = false }

-- Fields that concern one connection only are not passed on.
local OWN = {
  connection = true, ["keep-alive"] = true, ["transfer-encoding"] = true, upgrade = true, te = true,
  trailer = true, host = true, expect = true, ["proxy-connection"] = true,
}

local function others(headers)
  local copy = {}
  for name, value in pairs(headers) do if not OWN[name] then copy[name] = value end end
  return copy
end

local server = assert(http.serve(tonumber(arg[1]), function(request)
  local headers = others(request.headers)
  headers["x-forwarded-for"] = request.peer:gsub(":%d+$", "")
  local has_body = request.headers["content-length"] or request.headers["transfer-encoding"]
  local answer <close>, problem = client:open { target .. request.target, method = request.method, headers = headers,
    body = has_body and function() return request:read() end or nil }
  if not answer then return { status = 502, body = problem .. "\n" } end
  headers = others(answer.headers)
  headers["content-type"] = headers["content-type"] or false  -- false: no default is added
  local response <close> = request:respond { status = answer.status, headers = headers }
  for bytes in answer:chunks() do response:write(bytes) end
end))
print("http://" .. server:address() .. "/ -> " .. target)
