-- Receives webhooks, and accepts only those that are signed with the shared secret (HMAC-SHA256, as GitHub does).
--
--   SECRET=s rlhost webhook.lua [PORT]

local crypto = require "runloop.crypto"
local http = require "runloop.http"
local json = require "runloop.json"

local secret = os.getenv "SECRET" or error("SECRET is not set", 0)
local app = http.routes()

app:post("/hook", function(request)
  local body, problem = request:body { max = 1 << 20 }
  if not body then return http.bad_request(problem) end
  local signature = "sha256=" .. assert(crypto.hmac("sha256", secret, body, "hex"))
  if not crypto.equal(signature, request.headers["x-hub-signature-256"] or "") then
    return http.unauthorized "the signature is not right"
  end
  local event
  event, problem = json.decode(body)
  if not event then return http.bad_request(problem) end
  print(request.headers["x-github-event"] or "event", json.encode(event))
  return 204
end)

print("http://" .. assert(http.serve(tonumber(arg[1]) or 8080, app)):address() .. "/hook")
io.stdout:setvbuf "line"
