-- runloop.http.redirect: how a request follows a redirect, as browsers do: the Fetch standard, and RFC 9110, 15.4.

local requests = require "runloop.http.client.request"

-- Fields about a body that is not sent any more.
local OF_BODY <const> = {
  "content-type", "content-length", "content-encoding", "content-language", "content-location", "transfer-encoding",
  "expect",
}

-- Fields that only the first server may receive.
local OF_SERVER <const> = { "authorization", "proxy-authorization", "cookie", "host" }

local function without(fields, names)
  for _, name in ipairs(names) do fields[name] = nil end
end

-- Returns scheme, host and port. A URL without a scheme is http, as in libcurl.
local function origin(url)
  local scheme, authority = url:lower():match "^(%a[%w+.-]*)://([^/?#]*)"
  if not scheme then scheme, authority = "http", url:lower():match "^[^/?#]*" end
  local name = authority:gsub("^.*@", "")
  -- Only digits after a colon are a port.
  local host, port = name:match "^(.*):(%d*)$"
  return ("%s %s %d"):format(scheme, host or name, tonumber(port) or scheme == "https" and 443 or 80)
end

local function refusal(code, settings, url, status, text)
  return ("%s: the answer %d leads to %s, %s (%s)"):format(code, status, url, text, settings.url), code
end

-- Changes the settings of a request to those of the next one. Returns message and code if that is impossible.
local function follow(settings, url, status)
  local verb, fields = settings.verb, settings.fields
  -- libcurl might mistake another scheme for a host name.
  if not url:lower():find "^https?://" then
    return refusal("EPROTONOSUPPORT", settings, url, status, "which is neither http:// nor https://")
  end
  if status == 303 and verb ~= "GET" and verb ~= "HEAD" or status < 303 and verb == "POST" then
    settings.verb, settings.method, settings.body = "GET", nil, nil
    settings.is_post, settings.is_upload, settings.upload_size = nil, nil, nil
    without(fields, OF_BODY)
  elseif settings.is_upload then
    return refusal("ESPIPE", settings, url, status, "where the body has to be sent again, and a function or a stream "
      .. "gives it only once: send it there, or give a string, or follow = 0")
  end
  -- The user's name must not appear in the answer's URL.
  if settings.user then url = url:gsub("^(%a[%w+.-]*://)[^/?#]*@", "%1") end
  local going = { url = url }
  requests.make_ascii(going, "url")
  url = going.url
  if going.refusal then return going.refusal, going.refusal_code end
  if origin(url) ~= origin(settings.url) then
    without(fields, OF_SERVER)
    settings.user, settings.password = nil, nil
  end
  settings.url = url
end

-- Prepares the exchange for a redirect with this status to `url`. Returns true; or false, and sets the exchange's
-- refusal.
return function(exchange, url, status)
  local settings, problem, code = exchange.settings, nil, nil
  if exchange.redirects < settings.max_redirects then
    problem, code = follow(settings, url, status)
  else
    problem, code = ("ELOOP: more than %d redirects (%s)"):format(settings.max_redirects, exchange.url), "ELOOP"
  end
  if problem then
    exchange.refusal, exchange.refusal_code = problem, code
    return false
  end
  exchange.redirects, exchange.url = exchange.redirects + 1, settings.url
  return true
end
