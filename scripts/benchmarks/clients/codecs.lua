-- Rows of `scripts/bench clients`: digests, base64, URLs and gzip, beside openssl, luaossl, lua-socket, Node and gzip.
-- A row whose peer is not installed is left out.

local crypto, encoding = require "runloop.crypto", require "runloop.encoding"
local url, zlib = require "runloop.url", require "runloop.zlib"
local json = require "runloop.json"

local SCALE <const> = tonumber(arg[1]) or 1

-- Returns the time of a call: the shortest of seven tries.
local function best(count, fn)
  local least = math.huge
  count = math.max(1, math.floor(count * SCALE))
  for _ = 1, 7 do
    collectgarbage()
    local before = os.clock()
    for i = 1, count do fn(i) end
    least = math.min(least, (os.clock() - before) / count)
  end
  return least
end

local function row(label, ours, theirs, goal)
  if ours and theirs then print(("%s\t%.9f\t%.9f\t%g"):format(label, ours, theirs, goal)) end
end

local function output_of(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function optional(name)
  local is_there, module = pcall(require, name)
  return is_there and module or nil
end

local MEGABYTE <const> = ("0123456789abcdef"):rep(65536)
local SHORT <const> = ("x"):rep(64)

-- openssl prints kilobytes (of 1,000) a second.
local speed = output_of "openssl speed -seconds 1 -bytes 1048576 -evp sha256":match "sha256%s+([%d.]+)k"
row("SHA-256 of 1 MB, openssl speed", best(60, function() return crypto.hash("sha256", MEGABYTE) end),
  speed and 1048576 / (tonumber(speed) * 1000), 1.05)

local digest, hmac, mime = optional "openssl.digest", optional "openssl.hmac", optional "mime"
row("SHA-256 of 64 bytes, luaossl", best(100000, function() return crypto.hash("sha256", SHORT) end),
  digest and best(100000, function() return digest.new("sha256"):final(SHORT) end), 1.5)
row("HMAC of 64 bytes, luaossl", best(100000, function() return crypto.hmac("sha256", "key", SHORT) end),
  hmac and best(100000, function() return hmac.new("key", "sha256"):final(SHORT) end), 1.5)
row("base64 of 1 MB, mime.b64", best(20, function() return encoding.encode(MEGABYTE, "base64") end),
  mime and best(20, function() return mime.b64(MEGABYTE) end), 0.5)
local text <const> = encoding.encode(MEGABYTE, "base64")
row("base64 of 1 MB read, mime.unb64", best(20, function() return encoding.decode(text, "base64") end),
  mime and best(20, function() return mime.unb64(text) end), 0.5)

local URLS <const> = {
  "https://user:pw@www.example.com:8080/a/b/../c?x=1&y=2#frag", "http://example.com/", "http://192.168.1.1/x",
  "https://github.com/foo/bar/issues?q=is%3Aopen", "https://[2001:db8::1]/path/to/something.html",
}
-- The text of each URL is read, as in a real program.
local SCRIPT <const> = [[
const urls = JSON.parse(process.argv[1]), count = 100000
let least = Infinity, length = 0
for (let round = 0; round < 9; round++) {
  const before = process.hrtime.bigint()
  for (let i = 0; i < count; i++) length += new URL(urls[i % 5]).href.length
  least = Math.min(least, Number(process.hrtime.bigint() - before) / count)
}
console.log(least / 1e9)
]]
local node = tonumber((output_of(("node -e '%s' '%s'"):format(SCRIPT, json.encode(URLS)))))
row("a URL parsed, Node's new URL", best(100000, function(i) return url.parse(URLS[i % 5 + 1]) end), node, 2.0)

local items = {}
for i = 1, 9000 do
  items[i] = { id = i, name = "item " .. i * 7919 % 1000, price = i % 97 / 4, tags = { "a", "b" .. i % 9 } }
end
local document = json.encode(items):sub(1, 1 << 20)
local path = os.tmpname()
local file = assert(io.open(path, "w"))
file:write(document)
file:close()
local COMMAND <const> = [[
bash -c 'TIMEFORMAT="%%U %%S"; time for i in {1..20}; do gzip -1 -c %s > /dev/null; done' 2>&1]]
local pipe = io.popen(COMMAND:format(path))
local user, system = pipe:read "a":match "([%d.]+) ([%d.]+)"
pipe:close()
os.remove(path)
row("gzip -1 of 1 MB of JSON, gzip -1", best(20, function() return zlib.compress(document, { level = 1 }) end),
  user and (user + system) / 20, 1.05)
