-- runloop.net.tls: the TLS functions that wait. The module is loaded when a stream first needs them.

local native = ...
local misuse = require "runloop.misuse"
local raise, describe = misuse.raise, misuse.describe
local error, type, pcall = error, type, pcall
local next, setmetatable = next, setmetatable
local format = string.format

-- `hidden`: methods of streams that scripts do not see.
return function(hidden)
  local tls = {}

  -- Each connection of a listener has a limit of its own: a handshake that stalls does not delay others.
  local HANDSHAKE_TIMEOUT <const> = 10

  -- Returns settings for an options table; nil, message, code for a bad certificate. Errors name the table as `what`.
  function tls.settings(options, is_server, name, what)
    if options == true then options = {} end
    if type(options) ~= "table" then
      raise("%s: field 'tls' must be true or a table of options, got %s", name, describe(options))
    end
    local is_good, settings, message, code = pcall(native.tls, options, is_server)
    if is_good then return settings, message, code end
    if type(settings) ~= "string" then error(settings, 0) end
    local prefix = what or name == "stream:start_tls" and name or name .. ": field 'tls'"
    raise("%s: %s", prefix, (settings:gsub("^.-net%.tls: ", "")))
  end

  -- Calls `sni`. Returns the settings for a name: the listener's, with the fields that `sni` has chosen. Returns nil
  -- alone if the listener's own settings apply. Returns nil, a message and a code if there is no certificate for the
  -- name, or if the chosen settings are wrong; in the latter case the fourth result is true.
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
    local settings, message, code = tls.settings(merged, true, caller, caller .. ": the table returned by 'sni'")
    if settings then return settings end
    return nil, format("%s: 'sni' has chosen it for the name %q", message, name), code, true
  end

  -- Answers a handshake that has stopped at a name. Returns true if the handshake may continue; or nil, message, code,
  -- and whether the error is the server's.
  local function answer_name(stream, options, server)
    local listener = server and server.listener
    -- An error in `sni` is the server's fault, not that of the connection.
    if listener then hidden.begin_choice(listener) end
    local guard <close> = setmetatable({}, {
      __close = function(_, problem)
        if problem == nil then return end
        hidden.refuse_tls(stream, false)
        if server then stream:close() end
      end,
    })
    local name, caller = hidden.requested_name(stream), server and server.caller or "stream:start_tls"
    local attempt, is_good = server and server.attempt, true
    local settings, message, code, is_own
    if attempt then is_good, settings, message, code, is_own = attempt(choose, options, name, caller)
    else settings, message, code, is_own = choose(options, name, caller) end
    if listener then hidden.end_choice(stream, listener) end
    if is_good and not message then return hidden.continue_tls(stream, settings) end
    hidden.refuse_tls(stream, is_good and not is_own)
    return nil, message, code, is_own
  end

  local GIVEN_UP <const> = { __close = function(started) hidden.give_up_tls(started[1]) end }

  -- Runs a whole handshake. `server`: the listener's settings if a listener has accepted the stream.
  function tls.handshake(stream, settings, options, name, timeout, server)
    local done, message, code, is_own = hidden.begin_tls(stream, settings, name)
    if not done then return nil, message, code end
    -- The stream is also given up if the handshake is late, cancelled or ended by an error: half a handshake is
    -- useless.
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
    if type(server) ~= "boolean" then
      raise("stream:start_tls: field 'server' must be a boolean, got %s", describe(server))
    end
    local settings, message, code = tls.settings(options, server, "stream:start_tls")
    if not settings then return nil, message, code end
    local done
    local server_name = not server and options.server_name or nil
    done, message, code = tls.handshake(self, settings, options, server_name, options.timeout)
    if done then return true end
    return nil, message, code
  end

  -- Returns the host of a place, for the check of certificates.
  function tls.host_of(where)
    local host = where:match "^%[(.*)%]:%d+$" or where:match "^(.*):%d+$"
    if where:find "^unix:" then return nil end
    return host or "localhost"
  end

  -- Makes the settings that a listener's connections share. `caller`: the function that has made the listener.
  -- `attempt`: calls a function and reports its error; without it, the error ends the task. `on_text`: serves a stream
  -- whose client has sent text instead of a handshake.
  function tls.server(caller, settings, options, attempt, on_text)
    return { caller = caller, settings = settings, options = options, attempt = attempt, on_text = on_text,
      timeout = options.timeout or HANDSHAKE_TIMEOUT }
  end

  local function shake(stream, server)
    return tls.handshake(stream, server.settings, server.options, nil, server.timeout, server)
  end

  -- Wraps a listener's function so that it is called after the handshake.
  function tls.before(server, fn)
    return function(stream, listener)
      server.listener = listener
      local done, message, code, is_own = shake(stream, server)
      if done then return fn(stream, listener) end
      if server.on_text and hidden.leave_tls(stream) then server.on_text(stream) end
      -- Closing sends the alert, so that the peer can read the reason.
      stream:close()
      if is_own then hidden.tell(listener, message, code) end
    end
  end

  -- Does the same for a listener whose functions receive input.
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

  -- Makes the handshake of a connection for the task that waits in `accept`.
  function tls.accepted(stream, server, timeout)
    local limit = timeout or server.timeout
    local done, message, code = tls.handshake(stream, server.settings, server.options, nil, limit, server)
    if done then return stream end
    stream:close()
    return nil, message, code
  end

  return tls
end
