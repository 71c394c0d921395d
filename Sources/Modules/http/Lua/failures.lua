-- runloop.http.failures: why a request of a client has failed, in the words of this module.

local rl = require "runloop"

local M = {}

-- Names for what curl cannot do, where the system has none. That nobody is there the system says: 7 is what curl has taken for under way,
-- and then finds no reason for, as where too many wait at a Unix socket already.
local CODES = {
  [6] = "ENOTFOUND", [5] = "ENOTFOUND", [3] = "EINVAL", [1] = "EPROTONOSUPPORT", [7] = "EAGAIN", [35] = "TLS",
  [80] = "TLS_TRUNCATED", [60] = "TLS_CERTIFICATE", [58] = "TLS_CERTIFICATE", [77] = "TLS_CERTIFICATE", [52] = "ECONNRESET", [56] = "ECONNRESET",
  [55] = "EPIPE", [18] = "EOF", [8] = "EBADMSG", [61] = "EBADMSG", [16] = "EPROTO", [92] = "EPROTO", [97] = "EPROXY", [65] = "ESPIPE", [42] = "ECANCELED",
  [43] = "EBADMSG",
}

-- libcurl tells only that it has found no address. Whether there is no such name, or nobody who would know, the system is asked once
-- more: it answers at once if it knows.
local PATIENCE <const> = 2

local function why_unknown(exchange, message, url)
  local name = message:match "resolve %a+: ([^%s]+)"
  if not name then return nil end
  local time = exchange.deadline and math.min(PATIENCE, math.max(0, exchange.deadline - rl.now())) or PATIENCE
  -- Who is cancelled here gives it back.
  exchange.waiting = true
  local guard <close> = exchange
  local _, problem, code = require("runloop.net").resolve(name, { timeout = time })
  exchange.waiting = false
  if code == "ENOTFOUND" then return nil end
  if code == "EAI_AGAIN" or not code then code, problem = "EAI_AGAIN", "the name servers do not answer" end
  return ("%s: %s (%s, %s)"):format(code, problem:gsub("^%u+_?%u*: ", ""):gsub(" %(.*", ""), name, url), code
end

-- Returns the URL of the proxy that libcurl uses, or nil. It has the same rules: HTTP_PROXY is what a CGI program gets
-- from a client.
local function configured_proxy(exchange)
  local proxy = exchange.settings.proxy
  if proxy then return proxy ~= "" and proxy or nil end
  local getenv, is_secure = os.getenv, exchange.url:lower():find "^https:"
  return (is_secure and (getenv "https_proxy" or getenv "HTTPS_PROXY") or not is_secure and getenv "http_proxy")
    or getenv "all_proxy" or getenv "ALL_PROXY"
end

-- Returns "host:port" of the proxy if libcurl's message says that this is what it could not reach. The environment may
-- exempt the target.
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

-- What libcurl says about an answer that it refuses, in words that name the answer.
local function bad_answer(transfer, code, message)
  if message:find "^Invalid Content%-Length" then
    local value = transfer:refused_length()
    return value and ('the answer\'s length is "%s"'):format(value) or "the answer's length is not a number"
  end
  if message:find "^Nul byte in header" then return "the answer has a NUL in its head" end
  if code == 43 then return "the first field of the answer begins with a blank" end
  return message
end

-- A limit that is not the only one that the caller has set is named with its value.
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

-- nil, message, code, for an exchange that has failed.
function M.of(exchange)
  if exchange.is_cut then return nil, ("ECANCELED: the client is closed (%s)"):format(exchange.url), "ECANCELED" end
  if exchange.is_late then return timed_out(exchange) end
  if exchange.refusal then return nil, exchange.refusal, exchange.refusal_code end
  local code, message, name, text, is_too_large, certificate = exchange.transfer:failure()
  if not code then return nil end
  local url = exchange.url
  if exchange.unix then url = ("unix:%s, %s"):format(exchange.unix, url) end
  local proxy = (code == 7 or code == 5) and dead_proxy(exchange, message)
  if proxy then url = ("proxy %s, for %s"):format(proxy, url) end
  if is_too_large then
    return nil, ("EMSGSIZE: the body is longer than %d bytes (%s)"):format(exchange.max_body, url), "EMSGSIZE"
  end
  if exchange.problem then return nil, exchange.problem, "ECANCELED" end
  if code == 28 then return timed_out(exchange, message) end
  -- libcurl has no memory for a line of a head that is longer than its limit, and no other word for that; of all lines the limit is ours.
  if (code == 27 or code == 23) and not exchange.transfer:state() or code == 100 or message:find "^Too large response headers" then
    return nil, ("EMSGSIZE: the answer's head is longer than 256 kB, or a line of it than 100 kB (%s)"):format(url), "EMSGSIZE"
  end
  if code == 65 then message = "the body has to be sent again, and a function or a stream gives it only once" end
  -- Of this curl's text is that of something before.
  if code == 7 and name then return nil, ("%s: %s (%s)"):format(name, text:lower(), url), name end
  message = bad_answer(exchange.transfer, code, message)
  name = code == 56 and message:lower():find("chunk", 1, true) and "EBADMSG" or CODES[code] or "EIO"
  -- These have the numbers of others.
  if message:find "^Unix socket path too long" then
    name, message = "ENAMETOOLONG", "file name too long: a Unix socket's has at most 107 bytes"
  elseif message:find "^Unsupported proxy" then name = "EPROTONOSUPPORT" elseif message:find "^CONNECT tunnel failed" then name = "EPROXY" end
  if name == "ENOTFOUND" then
    local unknown, reason = why_unknown(exchange, message, url)
    if unknown then return nil, unknown, reason end
  end
  if name == "TLS_CERTIFICATE" and certificate then url = ("%s, %s"):format(certificate, url) end
  return nil, ("%s: %s (%s)"):format(name, message:gsub("^%u%l", string.lower), url), name
end

return M
