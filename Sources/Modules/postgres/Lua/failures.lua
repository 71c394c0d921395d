-- runloop.postgres.failures: refusals of PostgreSQL and libpq, with the codes that all databases share.

local _, internals = ...
local format = string.format

local failures = {}

-- This library's codes by those of PostgreSQL: first its codes of five characters, then its classes of two characters.
local CODES = {
  ["42501"] = "EACCES", ["23505"] = "EEXIST", ["42P07"] = "EEXIST", ["25006"] = "EROFS", ["57014"] = "ECANCELED",
  ["40001"] = "EAGAIN", ["40P01"] = "EAGAIN", ["55P03"] = "EAGAIN", ["53300"] = "EAGAIN", ["25P02"] = "EINVAL",
  ["57P01"] = "ECONNRESET", ["57P02"] = "ECONNRESET", ["57P03"] = "ECONNRESET", ["57P05"] = "ECONNRESET",
  ["25P03"] = "ECONNRESET", ["08P01"] = "EPROTO",
  ["08"] = "ECONNRESET", ["22"] = "EINVAL", ["23"] = "CONSTRAINT", ["28"] = "EAUTH", ["42"] = "EINVAL",
  ["53"] = "ENOSPC", ["58"] = "EIO", ["XX"] = "EIO",
}
local MANY_STATEMENTS = "42601"

--- Returns the common code for one of PostgreSQL's.
function failures.code(state) return CODES[state] or CODES[state:sub(1, 2)] or "EPROTO" end

--- Returns the refusal that the server has sent. `index` is the statement's number in a batch.
function failures.refusal(failure, index)
  local state, message = failure.code or "XX000", failure.message or "?"
  local code = failures.code(state)
  if state == MANY_STATEMENTS and message:find "multiple commands" then message = message .. ": use script()" end
  local details = { index = index }
  for key, value in pairs(failure) do if key ~= "message" then details[key] = value end end
  return nil, format("%s: %s (%s)", code, message, state), code, details
end

--- Returns the numbers of parameters that a statement has, and that the call has sent, if the server reports that they
--- differ.
function failures.wrong_count(failure, sent)
  if failure.code ~= "08P01" then return nil end
  local numbers = {}
  for number in failure.message:gsub('".-"', ""):gmatch "%d+" do numbers[#numbers + 1] = tonumber(number) end
  local wanted, got = numbers[#numbers], numbers[1]
  if #numbers == 2 and got == sent and wanted ~= got then return wanted, got end
end

--- Returns the refusal for a connection that was lost after something was sent.
function failures.lost(message, during)
  local first = (message or ""):match "^%s*([^\n]+)" or "the connection is closed"
  return nil, format("ECONNRESET: %s; during %s: it may have happened", first, during), "ECONNRESET"
end

--- Returns a refusal by this module, with PostgreSQL's code for that kind.
function failures.own(code, message, state)
  return nil, format("%s: %s%s", code, message, state and format(" (%s)", state) or ""), code,
    state and { code = state } or nil
end

--- Returns the refusal of a statement that a script or a batch must not contain.
function failures.not_in(place, word)
  local why = word == "copy" and "use copy()" or format("a %s is a transaction by itself", place)
  return failures.own("EINVAL", format("a %s must not contain '%s': %s", place, word, why), "25000")
end

-- The texts of libpq and of the system for a failed attempt to connect, the most specific first.
local TEXTS = {
  { "certificate", "TLS_CERTIFICATE" }, { "does not support SSL", "TLS_PROTOCOL" }, { "SSL error", "TLS_PROTOCOL" },
  { "no password supplied", "EAUTH" }, { "authentication", "EAUTH" },
  { "could not translate host name", "ENOTFOUND" }, { "Connection refused", "ECONNREFUSED" },
  { "No such file or directory", "ENOENT" }, { "Permission denied", "EACCES" },
  { "timed out", "ETIMEDOUT" }, { "timeout expired", "ETIMEDOUT" }, { "Network is unreachable", "ENETUNREACH" },
  { "No route to host", "EHOSTUNREACH" }, { "Connection reset", "ECONNRESET" },
  { "closed the connection", "ECONNRESET" }, { "out of memory", "ENOMEM" },
}

-- Returns a text of libpq together with the sandbox's option that would allow the connection.
local function refused_by_sandbox(text)
  local host, port = text:match 'server at "([^"]*)"[^\n]-, port (%d+)'
  local path = text:match 'server on socket "([^"]*)"'
  local kind, subject = "connect", host and host .. ":" .. port or path and "unix:" .. path
  -- libpq does not always write the reason.
  local file = text:match 'could not read [%a ]+ file "([^"]*)"' or text:match 'could not open [%a ]+ file "([^"]*)"'
    or text:match 'could not load [%a ]+ file "([^"]*)"'
  if file then kind, subject = "read", file end
  -- If the address has no user, libpq takes the name of the user of this process.
  if text:find("local user ID", 1, true) then kind, subject = "read", "/etc/passwd" end
  local refused = subject and internals.refusal(kind, subject)
  return refused and format("%s (%s)", refused, subject)
end

--- Returns the refusal for a failed attempt to connect, from libpq's message in its verbose form.
function failures.unconnected(text)
  if text == "timed out" then return nil, "timed out" end
  local state, message = text:match "%u+:  (%w%w%w%w%w): ([^\n]+)"
  if state then
    local code = failures.code(state)
    return nil, format("%s: %s (%s)", code, message, state), code, { code = state }
  end
  message = text:gsub("%s*\n%s*", "; "):gsub("[;%s]+$", "")
  if text:find("Permission denied", 1, true) or text:find(' file "', 1, true) then
    local refused = refused_by_sandbox(text)
    if refused then return nil, "EACCES: " .. refused, "EACCES" end
  end
  for _, pair in ipairs(TEXTS) do
    if text:find(pair[1], 1, true) then return nil, pair[2] .. ": " .. message, pair[2] end
  end
  return nil, "EPROTO: " .. message, "EPROTO"
end

return failures
