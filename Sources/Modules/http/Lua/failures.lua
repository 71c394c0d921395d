-- runloop.http.failures: the messages and codes of failed requests.

local rl = require "runloop"
local native = require "runloop.http.native"

local M = {}

-- Codes for errors of curl that have no number of the system. A failed connection has a number of the system; if code 7
-- comes without one, curl considered the connection as started, as with a Unix socket whose backlog is full.
local CODES = {
  [1] = "EPROTONOSUPPORT", [3] = "EINVAL", [5] = "ENOTFOUND", [6] = "ENOTFOUND", [7] = "EAGAIN", [8] = "EBADMSG",
  [16] = "EPROTO", [18] = "EOF", [35] = "TLS", [42] = "ECANCELED", [43] = "EBADMSG", [52] = "ECONNRESET",
  [55] = "EPIPE", [56] = "ECONNRESET", [58] = "TLS_CERTIFICATE", [60] = "TLS_CERTIFICATE", [61] = "EBADMSG",
  [65] = "ESPIPE", [77] = "TLS_CERTIFICATE", [80] = "TLS_TRUNCATED", [92] = "EPROTO", [97] = "EPROXY",
}

-- libcurl does not report whether a name does not exist, or no name server answers. So the resolver is asked again. It
-- answers at once if it knows the answer already; the wait is at most 2 s.
local PATIENCE <const> = 2

local function why_unknown(exchange, message, url)
  local name = message:match "resolve %a+: ([^%s]+)"
  if not name then return nil end
  local time = exchange.deadline and math.min(PATIENCE, math.max(0, exchange.deadline - rl.now())) or PATIENCE
  -- Cancelling the task closes the guard, which ends the exchange.
  exchange.waiting = true
  local guard <close> = exchange
  local _, problem, code = require("runloop.net").resolve(name, { timeout = time })
  exchange.waiting = false
  if code == "ENOTFOUND" then return nil end
  if code == "EAI_AGAIN" or not code then code, problem = "EAI_AGAIN", "the name servers do not answer" end
  return ("%s: %s (%s, %s)"):format(code, problem:gsub("^%u+_?%u*: ", ""):gsub(" %(.*", ""), name, url), code
end

-- Returns the URL of the proxy that libcurl uses, or nil. The rules are libcurl's: it ignores HTTP_PROXY, which clients
-- of a CGI program can set.
local function configured_proxy(exchange)
  local proxy = exchange.settings.proxy
  if proxy then return proxy ~= "" and proxy or nil end
  local getenv, is_secure = os.getenv, exchange.url:lower():find "^https:"
  return (is_secure and (getenv "https_proxy" or getenv "HTTPS_PROXY") or not is_secure and getenv "http_proxy")
    or getenv "all_proxy" or getenv "ALL_PROXY"
end

-- Returns "host:port" of the proxy if libcurl's message names it as unreachable. The environment may exempt the target
-- from the proxy.
local function dead_proxy(exchange, message)
  local proxy = not exchange.unix and configured_proxy(exchange)
  if not proxy then return nil end
  local scheme, authority = proxy:match "^(%a[%w+.-]*)://([^/?#]*)"
  authority = (authority or proxy:match "^[^/?#]*"):gsub("^.*@", "")
  local host, port = authority:match "^(.*):(%d*)$"
  host = (host or authority):gsub("^%[(.*)%]$", "%1")
  if not port or port == "" then port = (scheme or ""):lower() == "https" and "443" or "1080" end
  local unreached, at = message:match "^Failed to connect to (.-) port (%d+)"
  local unresolved = message:match "^Could not resolve proxy: (.+)"
  if unresolved or unreached and unreached:lower() == host:lower() and at == port then
    return (host:find(":", 1, true) and "[%s]:%s" or "%s:%s"):format(host, port)
  end
end

-- Returns the text for an answer that libcurl has refused, naming the answer's mistake.
local function bad_answer(transfer, code, message)
  if message:find "^Invalid Content%-Length" then
    local value = transfer:refused_length()
    return value and ('the answer\'s length is "%s"'):format(value) or "the answer's length is not a number"
  end
  if message:find "^Nul byte in header" then return "the answer has a NUL in its head" end
  -- curl's text for this is missing if curl has tried a kept connection before.
  if message == "Unsupported protocol" then return "the answer is not HTTP" end
  if code == 43 then return "the first field of the answer begins with a blank" end
  return message
end

-- The message names the limit and its value, unless the caller has set only one limit.
local function timed_out(exchange, message)
  local settings = exchange.settings
  if settings.has_one_limit then return nil, "timed out" end
  if exchange.deadline and rl.now() >= exchange.deadline - 0.05 then return nil, "timed out" end
  if settings.idle_timeout and (not message or message:find "too slow") then
    return nil, ("timed out: nothing came for %g s (idle_timeout)"):format(settings.idle_timeout)
  end
  if settings.connect_timeout and not exchange.deadline then
    return nil, ("timed out: there was no connection within %g s (connect_timeout)"):format(settings.connect_timeout)
  end
  return nil, "timed out"
end

-- Returns the text about an address that the sandbox does not allow, or nil. In a sandbox, a name that is not allowed
-- fails like a name that does not exist.
local function refused(exchange)
  local address = exchange.unix and "unix:" .. exchange.unix
  if not address then
    local scheme, authority = exchange.url:match "^(%a+)://([^/?#]*)"
    address = (authority or exchange.url):gsub("^.*@", "")
    if not address:find ":%d+$" then address = address .. ((scheme or ""):lower() == "https" and ":443" or ":80") end
  end
  -- A request over a Unix socket connects to the socket instead of a proxy.
  local proxy = not exchange.unix and configured_proxy(exchange)
  local path = proxy and proxy:match "^[Ss][Oo][Cc][Kk][Ss]%w*://localhost(/.+)$"
  local refusal = native.internals.refusal("connect", path and "unix:" .. path or address)
  return refusal and ("EACCES: %s (%s)"):format(refusal, exchange.url)
end

-- Returns nil, message, code for an exchange that has failed.
function M.of(exchange)
  if exchange.is_cut then return nil, ("ECANCELED: the client is closed (%s)"):format(exchange.url), "ECANCELED" end
  if exchange.is_late then return timed_out(exchange) end
  if exchange.refusal then return nil, exchange.refusal, exchange.refusal_code end
  local code, message, name, text
  local is_too_large, certificate
  code, message, name, text, is_too_large, certificate = exchange.transfer:failure()
  if not code then return nil end
  local refusal = code >= 5 and code <= 7 and refused(exchange)
  if refusal then return nil, refusal, "EACCES" end
  local url = exchange.url
  if exchange.unix then url = ("unix:%s, %s"):format(exchange.unix, url) end
  local proxy = (code == 7 or code == 5) and dead_proxy(exchange, message)
  if proxy then
    url = ("proxy %s, for %s"):format(proxy, url)
    refusal = native.internals.refusal("connect", proxy)
    if refusal then return nil, ("EACCES: %s (%s)"):format(refusal, url), "EACCES" end
  end
  if is_too_large then
    return nil, ("EMSGSIZE: the body is longer than %d bytes (%s)"):format(exchange.max_body, url), "EMSGSIZE"
  end
  if exchange.problem then return nil, exchange.problem, "ECANCELED" end
  if code == 28 then return timed_out(exchange, message) end
  -- libcurl reports a line of a head above its limit as a lack of memory. This module sets the limit for all lines
  -- together.
  if (code == 27 or code == 23) and not exchange.transfer:state() or code == 100
    or message:find "^Too large response headers" then
    local problem = "EMSGSIZE: the answer's head is longer than 256 kB, or a line of it than 100 kB (%s)"
    return nil, problem:format(url), "EMSGSIZE"
  end
  if code == 65 then
    message = "the body has to be sent again, and a function or a stream gives it only once"
  end
  -- In this case curl's text is about an earlier error.
  if code == 7 and name then return nil, ("%s: %s (%s)"):format(name, text:lower(), url), name end
  -- The bundle is that of Debian's libcurl; a file named by the caller has been checked before.
  if code == 77 and message:find("/etc/ssl/certs/ca-certificates.crt", 1, true) then
    message = "this system has no CA certificates, so no certificate can be checked: apt install ca-certificates"
  end
  message = bad_answer(exchange.transfer, code, message)
  name = code == 56 and message:lower():find("chunk", 1, true) and "EBADMSG" or CODES[code] or "EIO"
  -- libcurl reports these two with the numbers of other errors.
  if message:find "^Unix socket path too long" then
    name, message = "ENAMETOOLONG", "file name too long: the path of a socket has at most 107 bytes"
  elseif message:find "^Unsupported proxy" then
    name = "EPROTONOSUPPORT"
  elseif message:find "^CONNECT tunnel failed" then
    name = "EPROXY"
  end
  if name == "ENOTFOUND" then
    local unknown, reason = why_unknown(exchange, message, url)
    if unknown then return nil, unknown, reason end
  end
  if name == "TLS_CERTIFICATE" and certificate then url = ("%s, %s"):format(certificate, url) end
  return nil, ("%s: %s (%s)"):format(name, message:gsub("^%u%l", string.lower), url), name
end

return M
