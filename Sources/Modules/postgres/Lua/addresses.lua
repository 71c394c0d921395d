-- runloop.postgres.addresses: the place of a database, as keywords of libpq, and the certificates that are trusted.

local binding = ...
local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"

local type, pairs, ipairs, tostring = type, pairs, ipairs, tostring
local getenv, open = os.getenv, io.open
local raise, describe = misuse.raise, misuse.describe

local addresses = {}

--- The functions in C.
addresses.native = binding.open(shape.Bytes, require "runloop.json".decode)
local native = addresses.native

local BUNDLES = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem" }

local function exists(path)
  local file = path and open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- Returns whether connections to a host stay on this machine.
local function is_near(host)
  return host == "" or host:find "^[/@]" or host == "localhost" or host:find "^127%." or host == "::1"
end

-- Requires a verified certificate, unless the caller has chosen otherwise, or the server is on this machine.
local function choose_trust(words)
  if words.sslmode or getenv "PGSSLMODE" then return end
  local hosts = words.hostaddr or words.host or getenv "PGHOSTADDR" or getenv "PGHOST" or ""
  if words.service or getenv "PGSERVICE" then hosts = words.host or "?" end
  for host in (hosts .. ","):gmatch "([^,]*)," do
    if not is_near(host) then words.sslmode = "verify-full" end
  end
  local own = (getenv "HOME" or "") .. "/.postgresql/root.crt"
  if not words.sslmode or words.sslrootcert or getenv "PGSSLROOTCERT" or exists(own) then return end
  for _, path in ipairs(BUNDLES) do
    if not words.sslrootcert and exists(path) then words.sslrootcert = path end
  end
end

-- Defaults for libpq, so that it notices a broken network.
local ALWAYS = {
  client_encoding = "UTF8", fallback_application_name = "rlhost", keepalives_idle = "15", keepalives_interval = "5",
  keepalives_count = "3", tcp_user_timeout = "30000",
}

local function from_table(given)
  local known, words = native.keywords(), {}
  for key, value in pairs(given) do
    if not known[key] then misuse.unknown_field("postgres.open", key, known) end
    if type(value) ~= "string" and type(value) ~= "number" then
      raise("postgres.open: field '%s' must be a string or a number, got %s", key, describe(value))
    end
    words[key] = tostring(value)
  end
  return words
end

--- Returns the keywords for `where`; nil if a text is malformed.
function addresses.keywords(where)
  local words
  if type(where) == "table" then
    words = from_table(where)
  elseif where:sub(1, 5) == "unix:" then
    words = { host = where:sub(6) }
  else
    words = native.parse(where)
  end
  if not words then return nil end
  for key, value in pairs(ALWAYS) do if not words[key] then words[key] = value end end
  choose_trust(words)
  return words
end

--- Returns the name of a database for messages: never a password.
function addresses.name(words)
  local host = words.host or words.hostaddr or words.service or getenv "PGHOST" or "local"
  return host .. (words.port and ":" .. words.port or "") .. "/" .. (words.dbname or words.user or "")
end

return addresses
