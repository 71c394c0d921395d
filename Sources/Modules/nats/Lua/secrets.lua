-- runloop.nats.secrets: proofs of a client's identity for the log-in: passwords, tokens, signatures of nkeys,
-- credentials files. Files are read again for each connection, since other programs may replace them.

local fs = require "runloop.fs"

local encoding, crypto
local format, byte, char = string.format, string.byte, string.char

local secrets = {}

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

local function from_base32(text)
  local bits, count, out = 0, 0, {}
  for letter in text:gmatch "." do
    local value = ALPHABET:find(letter, 1, true)
    if not value then return nil end
    bits, count = (bits << 5 | value - 1) & 0xFFFFF, count + 5
    if count >= 8 then
      count = count - 8
      out[#out + 1] = char(bits >> count & 255)
    end
  end
  return table.concat(out)
end

local function to_base32(bytes)
  local bits, count, out = 0, 0, {}
  for i = 1, #bytes do
    bits, count = (bits << 8 | byte(bytes, i)) & 0xFFFFF, count + 8
    while count >= 5 do
      count = count - 5
      local place = (bits >> count & 31) + 1
      out[#out + 1] = ALPHABET:sub(place, place)
    end
  end
  if count > 0 then
    local place = (bits << 5 - count & 31) + 1
    out[#out + 1] = ALPHABET:sub(place, place)
  end
  return table.concat(out)
end

-- CRC-16 with the polynomial 0x1021, as in XMODEM.
local function checksum(bytes)
  local crc = 0
  for i = 1, #bytes do
    crc = crc ~ byte(bytes, i) << 8
    for _ = 1, 8 do crc = (crc & 0x8000 ~= 0 and crc << 1 ~ 0x1021 or crc << 1) & 0xFFFF end
  end
  return crc
end

-- Returns the 32 bytes of a user's seed: "SU…".
local function seed_of(text)
  local raw = from_base32(text)
  if not raw or #raw ~= 36 then return nil end
  if checksum(raw:sub(1, 34)) ~= ("<I2"):unpack(raw, 35) then return nil end
  local first, second = byte(raw, 1, 2)
  if first & 0xF8 ~= 18 << 3 or (first & 7) << 5 | second >> 3 ~= 20 << 3 then return nil end
  return raw:sub(3, 34)
end

local function public_of(seed)
  crypto = crypto or require "runloop.crypto"
  local public, message, code = crypto.ed25519_public(seed)
  if not public then return nil, message, code end
  local body = char(20 << 3) .. public
  return to_base32(body .. ("<I2"):pack(checksum(body)))
end

local warned = {}

local function read(path, what)
  local text, message, code = fs.read(path, 1 << 20)
  if not text then return nil, format("%s: the %s: %s", code, what, (message:gsub("^%u+: ", ""))), code end
  local facts = fs.stat(path)
  if facts and facts.mode & 4 ~= 0 and not warned[path] then
    warned[path] = true
    io.stderr:write(format("rlhost: warning: nats: other users may read the %s %s (chmod o= %s)\n", what, path, path))
  end
  return text
end

local function sign(seed, nonce, path)
  encoding, crypto = encoding or require "runloop.encoding", crypto or require "runloop.crypto"
  if not nonce then return nil, format("EAUTH: %s signs a challenge, but the server has sent none", path), "EAUTH" end
  local signature, message, code = crypto.ed25519_sign(seed, nonce)
  if not signature then return nil, message, code end
  return (encoding.encode(signature, "base64url"):gsub("=", ""))
end

--- Returns the kind of secret that would be sent in plain text: "password", "token", "credentials"; nil if none.
function secrets.in_clear(options, address)
  if options.password or address.password then return "password" end
  if options.token or address.token then return "token" end
  if options.credentials then return "credentials" end
end

--- Puts the proofs that the server requires into the fields of CONNECT. Returns true; or nil, the reason and its code.
function secrets.fill(fields, options, address, nonce)
  fields.user = address.user or options.user
  fields.pass = address.password or options.password
  fields.auth_token = address.token or options.token
  local path = options.credentials or options.nkey
  if not path then return true end
  local text, message, code = read(path, options.credentials and "credentials file" or "seed file")
  if not text then return nil, message, code end
  local seed = seed_of(text:match "%f[%w]SU[A-Z2-7]+" or "")
  if not seed then return nil, format("EAUTH: %s contains no user seed", path), "EAUTH" end
  if options.credentials then
    fields.jwt = text:match "BEGIN NATS USER JWT%-+%s+(%S+)%s"
    if not fields.jwt then return nil, format("EAUTH: %s contains no user JWT", path), "EAUTH" end
  else
    fields.nkey, message, code = public_of(seed)
    if not fields.nkey then return nil, message, code end
  end
  fields.sig, message, code = sign(seed, nonce, path)
  if not fields.sig then return nil, message, code end
  return true
end

return secrets
