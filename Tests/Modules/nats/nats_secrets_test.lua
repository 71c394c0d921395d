-- runloop.nats with real servers that require TLS, or a signature.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"
local nats = require "runloop.nats"
local crypto = require "runloop.crypto"
local encoding = require "runloop.encoding"
local json = require "runloop.json"

-- A key that was made for this test alone.
local SEED = "SUAORNZ4MNINMNDXEZYKS4XGJI5VZPC2IHE2TCR735WFUF34DJDYXDGXZU"
local PUBLIC = "UDONWVHL47HZX5TZGWTEVY4PU52THOCEC3LXFL2L4UIACXH7NVEDPFHO"

local function folder()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

t.it("connect signs with an nkey", { real_time = true }, function()
  local path = folder() .. "/user.nk"
  fs.write(path, SEED .. "\n")
  local server = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
    'listen: "127.0.0.1:{port}"\nauthorization: { users: [ { nkey: ' .. PUBLIC .. " } ] }\n" } }
  local bus <close> = t.truthy(nats.connect(server:address(), { nkey = path }))
  t.equal(bus:flush(5), true)
  t.equal(select(3, nats.connect(server:address())), "EAUTH")
  t.equal({ nats.connect(server:address(), { nkey = path .. ".missing" }) }, { nil,
    "ENOENT: the seed file: no such file or directory (" .. path .. ".missing)", "ENOENT" })
  fs.write(path, SEED:sub(1, -2) .. "A\n")
  local _, text, code = nats.connect(server:address(), { nkey = path })
  t.equal(code, "EAUTH")
  t.falsy(text:find("SU", 1, true))
end)

-- Credentials ---------------------------------------------------------------------------------------------------------

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

local function base32(bytes)
  local bits, count, out = 0, 0, {}
  for i = 1, #bytes do
    bits, count = (bits << 8 | bytes:byte(i)) & 0xFFFFF, count + 8
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

local function with_checksum(bytes)
  local crc = 0
  for i = 1, #bytes do
    crc = crc ~ bytes:byte(i) << 8
    for _ = 1, 8 do crc = (crc & 0x8000 ~= 0 and crc << 1 ~ 0x1021 or crc << 1) & 0xFFFF end
  end
  return base32(bytes .. ("<I2"):pack(crc))
end

-- Makes a key of an operator (14), an account (0) or a user (20).
local function make_key(kind)
  local secret = crypto.random(32)
  local public = with_checksum(string.char(kind << 3) .. t.truthy(crypto.ed25519_public(secret)))
  local prefix = string.char(18 << 3 | kind >> 2, (kind << 3 & 31) << 3)
  return { secret = secret, public = public, seed = with_checksum(prefix .. secret) }
end

local function base64url(bytes) return (encoding.encode(bytes, "base64url"):gsub("=", "")) end

-- Returns a token in which one key signs claims about another.
local function token(by, of, kind, fields)
  fields.type, fields.version = kind, 2
  local body = { jti = base32(crypto.random(20)), iat = os.time(), iss = by.public, sub = of.public, name = kind,
    nats = fields }
  local text = base64url(json.encode { typ = "JWT", alg = "ed25519-nkey" }) .. "." .. base64url(json.encode(body))
  return text .. "." .. base64url(t.truthy(crypto.ed25519_sign(by.secret, text)))
end

t.it("connect logs in with a credentials file", { real_time = true }, function()
  local operator, account, user = make_key(14), make_key(0), make_key(20)
  local server = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
    ('listen: "127.0.0.1:{port}"\noperator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }\n'):format(
      token(operator, operator, "operator", {}), account.public,
      token(operator, account, "account", { limits = { subs = -1, conn = -1, leaf = -1, imports = -1, exports = -1,
        data = -1, payload = -1, wildcards = true } })) } }
  local path = folder() .. "/user.creds"
  local function write(key)
    local text = "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"
      .. "-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n"
    local jwt = token(account, user, "user", { subs = -1, data = -1, payload = -1 })
    t.truthy(fs.write(path, text:format(jwt, key.seed)))
    t.truthy(process.run { "chmod", "600", path })
  end
  write(user)
  local bus <close> = t.truthy(nats.connect(server:address(), { credentials = path }))
  t.equal(select(3, bus:request "nobody"), "ENOENT")
  t.equal(select(3, nats.connect(server:address())), "EAUTH")
  -- The file is read again for each connection; it now has the seed of another user, which the server refuses.
  write(make_key(20))
  t.equal(select(3, nats.connect(server:address(), { credentials = path })), "EAUTH")
end)

t.it("connect verifies the certificate of a server that requires TLS", { real_time = true }, function()
  local path = folder()
  local made = process.run { "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
    "-nodes", "-keyout", path .. "/key.pem", "-out", path .. "/cert.pem", "-days", "30", "-subj", "/CN=localhost",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1" }
  if not made then t.skip "openssl is not installed (apt install openssl)" end
  local server = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
    ('listen: "127.0.0.1:{port}"\ntls { cert_file: %q, key_file: %q }\n'):format(path .. "/cert.pem",
      path .. "/key.pem") } }
  local trust = { ca = path .. "/cert.pem" }
  t.equal(select(3, nats.connect(server:address())), "TLS_CERTIFICATE")
  for _, where in ipairs { "tls://localhost:" .. server:port(), server:address() } do
    local bus <close> = t.truthy(nats.connect(where, { tls = trust, password = "ignored" }))
    t.equal(bus:server().tls, true)
    t.equal(select(3, bus:request "nobody"), "ENOENT")
  end
end)
