-- runloop.net.tls: what of TLS is a sequence of waits. Loaded with the first stream that needs it.

local native = ...
local misuse = require "runloop.misuse"
local raise, describe = misuse.raise, misuse.describe
local error, type, next, pcall = error, type, next, pcall
local format = string.format

-- `hidden`: methods of streams that are not the script's.
return function(hidden)
  local tls = {}

  -- Handshakes are a listener's connections' own affair: one that stalls holds up no other.
  local HANDSHAKE_TIMEOUT <const> = 10

  -- Settings for an options table; nil, message, code where certificates are not as they should be.
  function tls.settings(options, is_server, name)
    if options == true then options = {} end
    if type(options) ~= "table" then raise("%s: field 'tls' must be true or a table of options, got %s", name, describe(options)) end
    local is_good, settings, message, code = pcall(native.tls, options, is_server)
    if is_good then return settings, message, code end
    if type(settings) ~= "string" then error(settings, 0) end
    local prefix = name == "stream:start_tls" and name or name .. ": field 'tls'"
    raise("%s: %s", prefix, (settings:gsub("^.-net%.tls: ", "")))
  end

  -- Of `sni`: settings for one name, with those of the listener where it says nothing.
  local function settings_for(options, chosen)
    local merged = {}
    for field, value in next, options do merged[field] = value end
    for field, value in next, chosen do merged[field] = value end
    merged.sni = nil
    if chosen.certificate and chosen.key == nil then merged.key = nil end
    return native.tls(merged, true)
  end

  -- From the first byte of TLS to the last of the handshake.
  function tls.handshake(stream, settings, options, name, timeout)
    local done, message, code = hidden.begin_tls(stream, settings, name)
    local limit = timeout and { timeout = timeout }
    while done do
      done, message, code = hidden.handshake(stream, limit)
      if done then return true end
      if message then break end
      local chosen = options.sni(hidden.requested_name(stream))
      local other
      if chosen ~= nil then
        if type(chosen) ~= "table" then error("stream:start_tls: 'sni' must return a table of options or nil, got " .. describe(chosen), 0) end
        other, message, code = settings_for(options, chosen)
        if not other then break end
      elseif not options.certificate then
        message, code = "TLS: no certificate for the name " .. format("%q", hidden.requested_name(stream)), "TLS"
        break
      end
      done = hidden.continue_tls(stream, other)
    end
    return nil, message, code
  end

  function tls.start(self, options)
    local server = options.server
    if server == nil then server = hidden.was_accepted(self) end
    if type(server) ~= "boolean" then raise("stream:start_tls: field 'server' must be a boolean, got %s", describe(server)) end
    local settings, message, code = tls.settings(options, server, "stream:start_tls")
    if not settings then return nil, message, code end
    return tls.handshake(self, settings, options, not server and options.server_name or nil, options.timeout)
  end

  -- The host of a place, for certificates.
  function tls.host_of(where)
    local host = where:match "^%[(.*)%]:%d+$" or where:match "^(.*):%d+$"
    if where:find "^unix:" then return nil end
    return host or "localhost"
  end

  -- A listener's function that is called when the handshake is over.
  function tls.before(settings, options, fn)
    return function(stream, listener)
      if tls.handshake(stream, settings, options, nil, options.timeout or HANDSHAKE_TIMEOUT) then return fn(stream, listener) end
      -- The peer may read what is wrong.
      stream:close()
    end
  end

  -- The same where input goes to the listener's functions.
  function tls.before_delivery(settings, options, on_error)
    return function(stream, listener)
      local done, message, code = tls.handshake(stream, settings, options, nil, options.timeout or HANDSHAKE_TIMEOUT)
      if done then return hidden.deliver(stream, listener) end
      if on_error then on_error(stream, message, code) end
      stream:close()
    end
  end

  -- A connection for whoever waits in `accept`.
  function tls.accepted(stream, settings, options, timeout)
    local done, message, code = tls.handshake(stream, settings, options, nil, timeout or options.timeout or HANDSHAKE_TIMEOUT)
    if done then return stream end
    stream:close()
    return nil, message, code
  end

  return tls
end
