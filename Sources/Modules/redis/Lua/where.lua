-- runloop.redis.where: the place of a database: an address, or a text such as "redis://user:password@host:6379/0".

local misuse = require "runloop.misuse"
local raise = misuse.raise
local type, match, tonumber, format = type, string.match, tonumber, string.format
local integer_of = math.tointeger

local function unescape(text)
  return text and (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local function from_url(text)
  local scheme, rest = match(text, "^(%a+)://(.*)$")
  if scheme ~= "redis" and scheme ~= "rediss" then
    raise('redis.open: argument #1 must be "redis://host:6379/0", "rediss://…", "unix:/path" or an address, '
      .. 'got "%s://…"', scheme)
  end
  local login, address = match(rest, "^(.*)@(.-)$")
  address = address or rest
  local place, database = match(address, "^([^/]*)/?(%d*)$")
  if not place or database ~= "" and not integer_of(tonumber(database)) then
    raise('redis.open: argument #1 must end with a host and the number of a database, as "redis://host:6379/0" does')
  end
  local user, password = match(login or "", "^([^:]*):?(.*)$")
  if not match(place, ":%d+$") then place = (place == "" and "localhost" or place) .. ":6379" end
  return {
    where = place, tls = scheme == "rediss" or nil, database = tonumber(database),
    user = user ~= "" and unescape(user) or nil, password = password ~= "" and unescape(password) or nil,
  }
end

local function is_text(value) return type(value) == "string" and value ~= "" and not value:find "\0" end

-- Raises an error if no stream can be made to this place: the stream is made in another task.
local function check(place)
  local path, host, port = place.path, place.host, place.port
  if path ~= nil and not is_text(path) then misuse.wrong("redis.open", "the path of argument #1", "a path", path) end
  if path ~= nil then return place end
  if host ~= nil and not is_text(host) then misuse.wrong("redis.open", "the host of argument #1", "a name", host) end
  local number = type(port) == "number" and integer_of(port)
  if not number or number < 0 or number > 65535 then
    misuse.wrong("redis.open", "the port of argument #1", "a port from 0 to 65535", port)
  end
  return place
end

-- Returns an address as fields of a stream.
local function place_of(where)
  if type(where) == "table" then return where._accept and where or check(where) end
  if type(where) == "number" then return check({ host = "localhost", port = where }) end
  local path = match(where, "^unix:(.+)$")
  if path then return check({ path = path }) end
  local host, port = match(where, "^%[?([^%]]*)%]?:(%d+)$")
  if not host then
    -- The part before the '@' may be a password.
    raise('redis.open: argument #1 must have a port, as "localhost:6379" has, got %s',
      misuse.describe((where:gsub("^.*@", ""))))
  end
  return check({ host = host ~= "" and host or "localhost", port = tonumber(port) })
end

--- Returns the settings of a connection, and the name of the database for messages, without a password.
return function(where, options)
  local settings
  if type(where) == "string" and match(where, "^%a+://") then
    settings = from_url(where)
  elseif type(where) == "string" or type(where) == "number" or type(where) == "table" then
    settings = { where = where }
  else
    misuse.wrong("redis.open", "argument #1", 'where it is, as "redis://localhost:6379"', where)
  end
  for _, field in ipairs { "user", "password", "database", "tls" } do
    if options[field] ~= nil then settings[field] = options[field] end
  end
  settings.where = place_of(settings.where)
  local place = settings.where
  local name = place.path or place.host and format("%s:%s", place.host, place.port) or "fake"
  return settings, format("%s/%d", name, settings.database or 0)
end
