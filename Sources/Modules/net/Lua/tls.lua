-- runloop.net.tls: what of TLS is a sequence of waits. Loaded with the first stream that needs it.

local native = ...
local misuse = require "runloop.misuse"
local raise, describe = misuse.raise, misuse.describe
local error, type, next, pcall, setmetatable = error, type, next, pcall, setmetatable
local format = string.format

-- `hidden`: methods of streams that are not the script's.
return function(hidden)
  local tls = {}

  -- Handshakes are a listener's connections' own affair: one that stalls holds up no other.
  local HANDSHAKE_TIMEOUT <const> = 10

  -- Settings for an options table, which `what` says the place of; nil, message, code where certificates are not as they should be.
  function tls.settings(options, is_server, name, what)
    if options == true then options = {} end
    if type(options) ~= "table" then raise("%s: field 'tls' must be true or a table of options, got %s", name, describe(options)) end
    local is_good, settings, message, code = pcall(native.tls, options, is_server)
    if is_good then return settings, message, code end
    if type(settings) ~= "string" then error(settings, 0) end
    local prefix = what or name == "stream:start_tls" and name or name .. ": field 'tls'"
    raise("%s: %s", prefix, (settings:gsub("^.-net%.tls: ", "")))
  end

  -- Of `sni`: settings for one name, with those of the listener where it says nothing; nil alone: those that the listener has. What is
  -- wrong with them is the server's own affair: nil, message, code, true.
  local function choose(options, name, caller)
    local chosen = options.sni(name)
    if chosen == nil then
      if options.certificate then return nil end
      return nil, format("TLS: no certificate for the name %q", name), "TLS"
    elseif type(chosen) ~= "table" then
      raise("%s: 'sni' must return a table of options or nil, got %s", caller, describe(chosen))
    end
    local merged = {}
    for field, value in next, options do merged[field] = value end
    for field, value in next, chosen do merged[field] = value end
    merged.sni = nil
    if chosen.certificate and chosen.key == nil then merged.key = nil end
    local settings, message, code = tls.settings(merged, true, caller, caller .. ": what 'sni' has returned")
    if settings then return settings end
    return nil, format("%s: 'sni' has chosen it for the name %q", message, name), code, true
  end

  -- The handshake has stopped at a name. True when it goes on; nil, message, code, and whether that is the server's own affair.
  local function answer_name(stream, options, server)
    local listener = server and server.listener
    -- Who fails is the server, and not the connection.
    if listener then hidden.begin_choice(listener) end
    local guard <close> = setmetatable({}, { __close = function(_, problem)
      if problem == nil then return end
      hidden.refuse_tls(stream, false)
      if server then stream:close() end
    end })
    local name, caller = hidden.requested_name(stream), server and server.caller or "stream:start_tls"
    local attempt, is_good, settings, message, code, is_own = server and server.attempt, true, nil, nil, nil, nil
    if attempt then is_good, settings, message, code, is_own = attempt(choose, options, name, caller)
    else settings, message, code, is_own = choose(options, name, caller) end
    if listener then hidden.end_choice(stream, listener) end
    if is_good and not message then return hidden.continue_tls(stream, settings) end
    hidden.refuse_tls(stream, is_good and not is_own)
    return nil, message, code, is_own
  end

  local GIVEN_UP <const> = { __close = function(started) hidden.give_up_tls(started[1]) end }

  -- From the first byte of TLS to the last of the handshake. `server`: the listener's part of it, if one has accepted the stream.
  function tls.handshake(stream, settings, options, name, timeout, server)
    local done, message, code, is_own = hidden.begin_tls(stream, settings, name)
    if not done then return nil, message, code end
    -- Late, cancelled, or ended by an error: half a handshake is no use to anybody.
    local started <close> = setmetatable({ stream }, GIVEN_UP)
    local limit = timeout and { timeout = timeout }
    while done do
      done, message, code = hidden.handshake(stream, limit)
      if done then return true end
      if message then break end
      done, message, code, is_own = answer_name(stream, options, server)
    end
    return nil, message, code, is_own
  end

  function tls.start(self, options)
    local server = options.server
    if server == nil then server = hidden.was_accepted(self) end
    if type(server) ~= "boolean" then raise("stream:start_tls: field 'server' must be a boolean, got %s", describe(server)) end
    local settings, message, code = tls.settings(options, server, "stream:start_tls")
    if not settings then return nil, message, code end
    local done
    done, message, code = tls.handshake(self, settings, options, not server and options.server_name or nil, options.timeout)
    if done then return true end
    return nil, message, code
  end

  -- The host of a place, for certificates.
  function tls.host_of(where)
    local host = where:match "^%[(.*)%]:%d+$" or where:match "^(.*):%d+$"
    if where:find "^unix:" then return nil end
    return host or "localhost"
  end

  -- What the connections of a listener have in common. `caller`: who has made it. `attempt`: calls a function, whose
  -- error is told, and ends neither the task nor the program; without it, it does. `on_text`: serves a stream whose
  -- client has sent text instead of a handshake.
  function tls.server(caller, settings, options, attempt, on_text)
    return { caller = caller, settings = settings, options = options, attempt = attempt, on_text = on_text,
      timeout = options.timeout or HANDSHAKE_TIMEOUT }
  end

  local function shake(stream, server)
    return tls.handshake(stream, server.settings, server.options, nil, server.timeout, server)
  end

  -- A listener's function that is called when the handshake is over.
  function tls.before(server, fn)
    return function(stream, listener)
      server.listener = listener
      local done, message, code, is_own = shake(stream, server)
      if done then return fn(stream, listener) end
      if server.on_text and hidden.leave_tls(stream) then server.on_text(stream) end
      -- The peer may read what is wrong.
      stream:close()
      if is_own then hidden.tell(listener, message, code) end
    end
  end

  -- The same where input goes to the listener's functions.
  function tls.before_delivery(server, on_error)
    return function(stream, listener)
      server.listener = listener
      local done, message, code, is_own = shake(stream, server)
      if done then return hidden.deliver(stream, listener) end
      if on_error then on_error(stream, message, code) end
      stream:close()
      if is_own and not on_error then hidden.tell(listener, message, code) end
    end
  end

  -- A connection for whoever waits in `accept`.
  function tls.accepted(stream, server, timeout)
    local done, message, code = tls.handshake(stream, server.settings, server.options, nil, timeout or server.timeout, server)
    if done then return stream end
    stream:close()
    return nil, message, code
  end

  return tls
end
