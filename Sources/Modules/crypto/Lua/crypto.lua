-- runloop.crypto: digests, HMAC, keys from passwords, random bytes and signatures, by the system's libcrypto.

local native, internals = ...
local misuse = require "runloop.misuse"
local library = native.open(misuse)
require("runloop.objects").classes[library.class] = { name = "runloop.crypto.Hasher", methods = library.class.__index }

local crypto = {
  hash = library.hash, hmac = library.hmac, equal = library.equal, ed25519_public = library.ed25519_public,
  ed25519_sign = library.ed25519_sign, ed25519_verify = library.ed25519_verify,
}

local OPTIONS <const> = { key = "string" }

function crypto.hasher(name, options)
  return library.hasher(name, misuse.options(options, OPTIONS, "crypto.hasher", 2).key)
end

function crypto.pbkdf2(name, password, salt, rounds, length)
  local is_good, problem, code = library.check_pbkdf2(name, password, salt, rounds, length)
  if not is_good then return nil, problem, code end
  return native.derive(name, password, salt, rounds, length)
end

-- In a test, the seed determines the bytes, unless the test runs in real time.
function crypto.random(n, as)
  local test = internals.loaded["runloop.test.core"]
  local is_real = test and test.current and test.current.real_time
  return library.random(n, as, not is_real and native.seeded(n) or nil)
end

return crypto
