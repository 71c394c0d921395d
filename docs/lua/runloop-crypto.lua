---@meta runloop.crypto

-- Every call of the module `runloop.crypto`: digests, HMAC, keys from passwords, random bytes, signatures. The system's
-- libcrypto does the work; the first call that needs it opens it. Without it such a call gives nil, `"ENOENT:
-- libcrypto.so.3 is not installed (apt install libssl3)"`, `"ENOENT"`. Every thread may use the module; a hasher
-- belongs to the thread that made it.

---@class runloop.crypto
local crypto = {}

---Returns the digest of a text: "sha256", "sha1", "sha512", "md5", "sha3-256", "blake2b512", and all other digests of
---libcrypto, in upper or lower case. An unknown name raises an error with the nearest one.
---@param name string
---@param data string
---@param as? runloop.encoding.Form bytes if absent
---@return string? digest
---@return string? problem
---@return string? code
function crypto.hash(name, data, as) end

---Returns the HMAC of a text (RFC 2104). Compare it with `crypto.equal`.
---@param name string as for `crypto.hash`
---@param key string
---@param data string
---@param as? runloop.encoding.Form bytes if absent
---@return string? digest
---@return string? problem
---@return string? code
function crypto.hmac(name, key, data, as) end

---@class runloop.crypto.HasherOptions
---@field key? string makes an HMAC with this key

---Begins the digest of a text that arrives in pieces.
---@param name string as for `crypto.hash`
---@param options? runloop.crypto.HasherOptions
---@return runloop.crypto.Hasher? hasher
---@return string? problem
---@return string? code
function crypto.hasher(name, options) end

---A digest in pieces.
---@class runloop.crypto.Hasher
local Hasher = {}

---Adds texts, and returns the hasher. It raises an error after `digest`.
---@param ... string
---@return runloop.crypto.Hasher
function Hasher:update(...) end

---Returns the digest of all texts so far. Further calls return the same.
---@param as? runloop.encoding.Form bytes if absent
---@return string digest
function Hasher:digest(as) end

---Returns a key that is made from a password by PBKDF2 (RFC 8018). Waits: a separate thread calculates; the time grows
---with `rounds`. 600,000 rounds of "sha256" take about a third of a second.
---@param name string the digest
---@param password string
---@param salt string
---@param rounds integer 1 or more
---@param length integer of the key, in bytes: 1 to 1048576
---@return string? key
---@return string? problem
---@return string? code
function crypto.pbkdf2(name, password, salt, rounds, length) end

---Returns random bytes from the kernel: `crypto.random(32, "base64url")` is a token. In a test that does not have
---`real_time`, the test's seed determines them.
---@param n integer 0 to 1048576
---@param as? runloop.encoding.Form bytes if absent
---@return string
function crypto.random(n, as) end

---Returns whether two texts are equal, in a time that depends only on the length of `a`: so an attacker cannot measure
---how many bytes of a secret are right.
---@param a string
---@param b string
---@return boolean
function crypto.equal(a, b) end

---Returns the public key for a secret one (RFC 8032).
---@param seed string 32 secret bytes
---@return string? public 32 bytes
---@return string? problem
---@return string? code
function crypto.ed25519_public(seed) end

---Signs a text.
---@param seed string 32 secret bytes
---@param data string
---@return string? signature 64 bytes
---@return string? problem
---@return string? code
function crypto.ed25519_sign(seed, data) end

---Returns whether a signature is valid. A signature of any length other than 64 bytes is invalid.
---@param public string 32 bytes
---@param data string
---@param signature string
---@return boolean? is_right
---@return string? problem
---@return string? code
function crypto.ed25519_verify(public, data, signature) end

return crypto
