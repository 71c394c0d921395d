-- Receives webhooks, and accepts only those that are signed with the shared secret (HMAC-SHA256, as GitHub does).
--
--   SECRET=s rlhost webhook.lua [PORT]

local http = require "runloop.http"
local json = require "runloop.json"

-- SHA-256 of FIPS 180-4. Its constants are bits of the roots of the first primes.
local K, H0 = {}, {}
do
  local function bits(x) return math.floor((x - math.floor(x)) * 2 ^ 32) end
  local n, candidate = 0, 2
  while n < 64 do
    local is_prime = true
    for d = 2, math.floor(candidate ^ 0.5) do is_prime = is_prime and candidate % d ~= 0 end
    if is_prime then
      n = n + 1
      K[n] = bits(candidate ^ (1 / 3))
      if n <= 8 then H0[n] = bits(candidate ^ 0.5) end
    end
    candidate = candidate + 1
  end
end

local function turn(x, n) return (x >> n | x << (32 - n)) & 0xFFFFFFFF end

local function sha256(text)
  local length = #text
  text = text .. "\128" .. ("\0"):rep((55 - length) % 64) .. string.pack(">I8", length * 8)
  local h = { table.unpack(H0) }
  for at = 1, #text, 64 do
    local w = { string.unpack((">I4"):rep(16), text, at) }
    for i = 17, 64 do
      local x, y = w[i - 15], w[i - 2]
      local third, fourth = turn(x, 7) ~ turn(x, 18) ~ x >> 3, turn(y, 17) ~ turn(y, 19) ~ y >> 10
      w[i] = (w[i - 16] + third + w[i - 7] + fourth) & 0xFFFFFFFF
    end
    local a, b, c, d = table.unpack(h)
    local e, f, g, k = table.unpack(h, 5)
    for i = 1, 64 do
      local first = k + (turn(e, 6) ~ turn(e, 11) ~ turn(e, 25)) + (e & f ~ ~e & g) + K[i] + w[i]
      local second = (turn(a, 2) ~ turn(a, 13) ~ turn(a, 22)) + (a & b ~ a & c ~ b & c)
      a, b, c, d, e, f, g, k = (first + second) & 0xFFFFFFFF, a, b, c, (d + first) & 0xFFFFFFFF, e, f, g
    end
    for i, x in ipairs { a, b, c, d, e, f, g, k } do h[i] = (h[i] + x) & 0xFFFFFFFF end
  end
  return string.pack((">I4"):rep(8), table.unpack(h))
end

local function hmac(key, text)
  key = (#key > 64 and sha256(key) or key)
  key = key .. ("\0"):rep(64 - #key)
  local function with(byte) return (key:gsub(".", function(c) return string.char(c:byte() ~ byte) end)) end
  return (sha256(with(0x5C) .. sha256(with(0x36) .. text)):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- Its time does not depend on the place where the texts differ.
local function is_same(a, b)
  local difference = #a ~ #b
  for i = 1, #a do difference = difference | a:byte(i) ~ (b:byte(i) or 0) end
  return difference == 0
end

local secret = os.getenv "SECRET" or error("SECRET is not set", 0)
local app = http.routes()

app:post("/hook", function(request)
  local body, problem = request:body { max = 1 << 20 }
  if not body then return http.bad_request(problem) end
  if not is_same("sha256=" .. hmac(secret, body), request.headers["x-hub-signature-256"] or "") then
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
