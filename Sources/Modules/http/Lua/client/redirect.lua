-- runloop.http.redirect: how a request goes on when its answer leads elsewhere, as browsers do it: the Fetch standard, and RFC 9110, 15.4.

local requests = require "runloop.http.request"

-- What tells of a body that is not sent any more.
local OF_BODY <const> = { "content-type", "content-length", "content-encoding", "content-language", "content-location", "transfer-encoding",
  "expect" }

-- What only the server that was asked is to get.
local OF_SERVER <const> = { "authorization", "proxy-authorization", "cookie", "host" }

local function without(fields, names)
  for _, name in ipairs(names) do fields[name] = nil end
end

-- Scheme, host and port. What has no scheme is http for libcurl, too.
local function origin(url)
  local scheme, authority = url:lower():match "^(%a[%w+.-]*)://([^/?#]*)"
  if not scheme then scheme, authority = "http", url:lower():match "^[^/?#]*" end
  local name = authority:gsub("^.*@", "")
  -- A name may end in digits, which are no port without a colon.
  local host, port = name:match "^(.*):(%d*)$"
  return ("%s %s %d"):format(scheme, host or name, tonumber(port) or scheme == "https" and 443 or 80)
end

local function refusal(code, settings, url, status, text)
  return ("%s: the answer %d leads to %s, %s (%s)"):format(code, status, url, text, settings.url), code
end

-- Turns what a request says into what the next one says. Returns message and code if that cannot be.
local function follow(settings, url, status)
  local verb, fields = settings.verb, settings.fields
  -- Of something else libcurl might make the name of a host.
  if not url:lower():find "^https?://" then return refusal("EPROTONOSUPPORT", settings, url, status, "which is no http:// or https://") end
  if status == 303 and verb ~= "GET" and verb ~= "HEAD" or status < 303 and verb == "POST" then
    settings.verb, settings.method, settings.body, settings.is_post, settings.is_upload, settings.upload_size = "GET", nil, nil, nil, nil, nil
    without(fields, OF_BODY)
  elseif settings.is_upload then
    return refusal("ESPIPE", settings, url, status,
      "where the body has to be sent again, and a function or a stream gives it only once: send it there, or give a string, or follow = 0")
  end
  -- Who is asked for is no part of an address that is told to others.
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

-- Prepares an exchange whose answer has this status, and leads to `url`, for asking there: true. If it must not, it is told why.
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
