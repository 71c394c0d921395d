-- runloop.crypto: the vectors of the standards, digests in pieces, random bytes, and wrong arguments.

local t = require "runloop.test"
local rl = require "runloop"
local crypto = require "runloop.crypto"
local encoding = require "runloop.encoding"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of

local function unhex(text) return assert(encoding.decode(text, "hex", { lenient = true })) end

local MILLION = ("a"):rep(1000000)

-- FIPS 180-4's examples, RFC 1321, FIPS 202, RFC 7693.
local DIGESTS = {
  { "sha1", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
  { "sha1", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
  { "sha1", MILLION, "34aa973cd4c4daa4f61eeb2bdbad27316534016f" },
  { "sha224", "abc", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7" },
  { "sha256", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
  { "sha256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
  { "sha256", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
  { "sha256", MILLION, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
  { "sha384", "abc", "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed"
    .. "8086072ba1e7cc2358baeca134c825a7" },
  { "sha512", "abc", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    .. "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f" },
  { "md5", "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
  { "sha3-256", "abc", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532" },
  { "blake2b512", "abc", "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
    .. "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923" },
}

t.it("hash and hasher return the digests of the standards", function()
  for _, vector in ipairs(DIGESTS) do
    local name, text, digest = table.unpack(vector)
    t.equal(crypto.hash(name, text, "hex"), digest)
    t.equal(crypto.hash(name:upper(), text), unhex(digest))
    local hasher = crypto.hasher(name)
    for at = 1, #text, 99991 do hasher:update(text:sub(at, at + 99990)) end
    t.equal(hasher:digest "hex", digest)
  end
end)

-- RFC 4231: key, data, the HMAC with SHA-256, and with SHA-512.
local KEYED = {
  { ("\x0b"):rep(20), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4"
      .. "be9d914eeb61f1702e696c203a126854" },
  { "Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fd"
      .. "caeab1a34d4a6b4b636e070a38bce737" },
  { ("\xaa"):rep(20), ("\xdd"):rep(50), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
    "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39bf3e848279a722c806b485a47e67c807"
      .. "b946a337bee8942674278859e13292fb" },
  { ("\xaa"):rep(131), "Test Using Larger Than Block-Size Key - Hash Key First",
    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e52"
      .. "95e64f73f63f0aec8b915a985d786598" },
}

t.it("hmac returns the HMACs of RFC 4231 and RFC 2202", function()
  for _, vector in ipairs(KEYED) do
    local key, data, short, long = table.unpack(vector)
    t.equal(crypto.hmac("sha256", key, data, "hex"), short)
    t.equal(crypto.hmac("SHA512", key, data, "hex"), long)
    t.equal(crypto.hasher("sha256", { key = key }):update(data):digest "hex", short)
    t.equal(crypto.hasher("sha512", { key = key }):update(data:sub(1, 3), data:sub(4)):digest "hex", long)
  end
  t.equal(crypto.hmac("md5", "Jefe", "what do ya want for nothing?", "hex"), "750c783e6ab0b503eaa86e310a5db738")
  t.equal(crypto.hmac("sha1", "Jefe", "what do ya want for nothing?", "hex"),
    "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")
  t.equal(crypto.hmac("sha1", ("\xaa"):rep(80), "Test Using Larger Than Block-Size Key - Hash Key First", "hex"),
    "aa4ae5e15272d00e95705637ce8a3b55ed402112")
end)

-- RFC 6070, and RFC 7914, chapter 11.
local DERIVED = {
  { "sha1", "password", "salt", 1, "0c60c80f961f0e71f3a9b524af6012062fe037a6" },
  { "sha1", "password", "salt", 2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957" },
  { "sha1", "password", "salt", 4096, "4b007901b765489abead49d926f721d065a429c1" },
  { "sha1", "passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096,
    "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038" },
  { "sha1", "pass\0word", "sa\0lt", 4096, "56fa6aa75548099dcc37d7f03425e0c3" },
  { "sha256", "passwd", "salt", 1, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
    .. "49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783" },
  { "sha256", "Password", "NaCl", 80000, "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56"
    .. "a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d" },
}


t.it("pbkdf2 derives the keys of RFC 6070 and RFC 7914, and lets other tasks run", function()
  for _, vector in ipairs(DERIVED) do
    local name, password, salt, rounds = table.unpack(vector)
    local key = vector[5]
    t.equal(encoding.encode(crypto.pbkdf2(name, password, salt, rounds, #key // 2), "hex"), key)
  end
  local went_on = false
  rl.task(function() went_on = true end)
  crypto.pbkdf2("sha256", "a", "b", 1000, 32)
  t.truthy(went_on)
  t.falsy(pcall(coroutine.wrap(function() crypto.pbkdf2("sha256", "a", "b", 1000, 32) end)))
end)

-- RFC 8032, 7.1: the secret key, the public key, the message, the signature.
local SIGNED = {
  { "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
      .. "d25bf5f0595bbe24655141438e7a100b" },
  { "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
      .. "387b2eaeb4302aeeb00d291612bb0c00" },
  { "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
    "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
      .. "4a7c15e9716ed28dc027beceea1ec40a" },
}

t.it("Ed25519 signs and verifies as in RFC 8032", function()
  for _, vector in ipairs(SIGNED) do
    local seed, public = unhex(vector[1]), unhex(vector[2])
    local message, signature = unhex(vector[3]), unhex(vector[4])
    t.equal(crypto.ed25519_public(seed), public)
    t.equal(crypto.ed25519_sign(seed, message), signature)
    t.equal(crypto.ed25519_verify(public, message, signature), true)
    t.equal(crypto.ed25519_verify(public, message .. "x", signature), false)
    t.equal(crypto.ed25519_verify(public, message, signature:sub(1, 63)), false)
    t.equal(crypto.ed25519_verify(public, message, signature .. "x"), false)
    t.equal(crypto.ed25519_verify(public, message, ("\0"):rep(64)), false)
    t.equal(crypto.ed25519_verify(("\xff"):rep(32), message, signature), false)
  end
end)

t.it("a hasher returns its digest repeatedly, and accepts no data after it", function()
  local hasher = crypto.hasher "sha256"
  t.equal(hasher:update("a", "", "bc"), hasher)
  local digest = hasher:digest()
  t.equal(hasher:digest(), digest)
  t.equal(hasher:digest "base64", encoding.encode(digest, "base64"))
  t.equal(problem_of(hasher.update, hasher, "x"),
    "hasher:update: the digest has been asked for already (make another hasher)")
  t.equal(problem_of(hasher.update, {}, "x"), "hasher:update: call it with a colon, on a hasher")
  t.equal(problem_of(crypto.hasher("md5").update, crypto.hasher "md5", "a", 5),
    "hasher:update: argument #2 must be a string, got 5")
  t.truthy(tostring(hasher):find "^hasher %(SHA2%-256%)")
end)

t.it("equal compares texts of any length", function()
  t.equal(crypto.equal("abc", "abc"), true)
  t.equal(crypto.equal("abc", "abd"), false)
  t.equal(crypto.equal("abc", "abcd"), false)
  t.equal(crypto.equal("", "a"), false)
  t.equal(crypto.equal("", ""), true)
  t.equal(problem_of(crypto.equal, "a"), "crypto.equal: argument #2 must be a string, got nothing")
end)

t.it("random returns the given number of bytes", function()
  t.equal(crypto.random(0), "")
  t.equal(#crypto.random(1 << 20), 1 << 20)
  t.truthy(crypto.random(32, "base64url"):find "^[%w_-]+$")
  t.equal(#crypto.random(32, "base64url"), 43)
  t.falsy(crypto.random(16) == crypto.random(16))
  t.equal(problem_of(crypto.random, -1),
    "crypto.random: argument #1 must be a number of bytes from 0 to 1048576, got -1")
  t.equal(problem_of(crypto.random, (1 << 20) + 1),
    "crypto.random: argument #1 must be a number of bytes from 0 to 1048576, got 1048577")
  t.equal(problem_of(crypto.random, 1.5),
    "crypto.random: argument #1 must be a number of bytes from 0 to 1048576, got 1.5")
end)

-- The first bytes of each test are those of its seed.
local first
t.it("random bytes of a test come from its seed", function() first = crypto.random(20, "hex") end)
t.it("random bytes are the same in the next test", function() t.equal(crypto.random(20, "hex"), first) end)
t.it("random bytes come from the kernel in real time", { real_time = true }, function()
  t.falsy(crypto.random(20, "hex") == first)
end)

t.it("wrong arguments raise errors with the nearest name", function()
  t.equal(problem_of(crypto.hash, "sha265", ""), "crypto.hash: unknown digest 'sha265' (did you mean 'sha256'?)")
  t.equal(problem_of(crypto.hash, "sha256", 5), "crypto.hash: argument #2 must be a string, got 5")
  t.equal(problem_of(crypto.hash, "sha256", "", "hax"), "crypto.hash: unknown form 'hax' (did you mean 'hex'?)")
  t.equal(problem_of(crypto.hmac, "shake128", "", ""),
    "crypto.hmac: argument #1 must be a digest with which HMAC is defined, got \"shake128\"")
  t.equal(problem_of(crypto.hasher, "sha256", { kay = "" }),
    "crypto.hasher: unknown field 'kay' (did you mean 'key'?)")
  t.equal(problem_of(crypto.pbkdf2, "sha256", "", "", 0, 1),
    "crypto.pbkdf2: argument #4 must be a number of rounds from 1 to 2147483647, got 0")
  t.equal(problem_of(crypto.pbkdf2, "sha256", "", "", 2147483648, 1),
    "crypto.pbkdf2: argument #4 must be a number of rounds from 1 to 2147483647, got 2147483648")
  t.equal(problem_of(crypto.pbkdf2, "sha256", "", "", "1", 1),
    "crypto.pbkdf2: argument #4 must be a number of rounds from 1 to 2147483647, got \"1\"")
  t.equal(problem_of(crypto.pbkdf2, "sha256", "", "", 1, 0),
    "crypto.pbkdf2: argument #5 must be a number of bytes from 1 to 1048576, got 0")
  t.equal(problem_of(crypto.ed25519_public, "short"), "crypto.ed25519_public: argument #1 must have 32 bytes, got 5")
  t.equal(problem_of(crypto.ed25519_sign, ("x"):rep(33), ""),
    "crypto.ed25519_sign: argument #1 must have 32 bytes, got 33")
  t.equal(problem_of(crypto.ed25519_verify, "", "", ""),
    "crypto.ed25519_verify: argument #1 must have 32 bytes, got 0")
end)

-- With RLHOST_SOAK=1 10,000 texts.
local COUNT <const> = os.getenv "RLHOST_SOAK" and 10000 or 60
local NAMES <const> = { "sha256", "sha1", "sha512", "md5", "sha3-256", "blake2b512", "sha224", "sha384", "sha3-512",
  "ripemd160" }

local function in_pieces(name, text, key)
  local hasher, at = crypto.hasher(name, key and { key = key }), 1
  while at <= #text do
    local count = math.random(1, math.max(1, #text // 3))
    hasher:update(text:sub(at, at + count - 1))
    at = at + count
  end
  return hasher:digest "hex"
end

local SOAK <const> = { real_time = true, timeout = 900 }

t.it("digests and HMACs equal those of openssl dgst for random texts, whole and in pieces", SOAK, function()
  local process = require "runloop.process"
  local directory, place <close> = support.directory()
  for first = 1, COUNT, 20 do
    local name, key = NAMES[first // 20 % #NAMES + 1], first % 40 > 20 and crypto.random(math.random(1, 200)) or nil
    local texts, command = {}, { "openssl", "dgst", "-r", "-" .. name }
    if key then
      for _, word in ipairs { "-mac", "HMAC", "-macopt", "hexkey:" .. encoding.encode(key, "hex") } do
        command[#command + 1] = word
      end
    end
    for i = 1, math.min(20, COUNT - first + 1) do
      texts[i] = crypto.random(math.random(0, 1) == 0 and math.random(0, 300) or math.random(0, 300000))
      local path = ("%s/%d"):format(directory, i)
      support.write(path, texts[i])
      command[#command + 1] = path
    end
    local result = assert(process.run(command))
    t.equal(result.code, 0, result.errors)
    local digests = {}
    for digest in result.output:gmatch "(%x+) %*" do digests[#digests + 1] = digest end
    t.equal(#digests, #texts)
    for i, text in ipairs(texts) do
      t.equal(key and crypto.hmac(name, key, text, "hex") or crypto.hash(name, text, "hex"), digests[i])
      t.equal(in_pieces(name, text, key), digests[i])
    end
  end
end)

t.it("floats that equal integers, such as 1e3, are accepted as integers", function()
  t.equal(crypto.pbkdf2("sha1", "password", "salt", 1e3, 20.0), crypto.pbkdf2("sha1", "password", "salt", 1000, 20))
  t.equal(#crypto.random(16.0, "hex"), 32)
  t.error(function() crypto.random(1.5) end,
    "crypto.random: argument #1 must be a number of bytes from 0 to 1048576, got 1.5")
end)
