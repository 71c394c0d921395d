-- runloop.http.client.request: translates a script's request into options of libcurl.

local native = require "runloop.http.native"
local misuse = require "runloop.misuse"
local raise = misuse.raise
local answers = require "runloop.http.client.response"

local M = {}

M.KNOWN = {
  url = "string", method = "string", headers = "table", body = { "string", "function", "table", "any" }, json = "any",
  form = "table", query = "table", timeout = "seconds", connect_timeout = "seconds", idle_timeout = "seconds",
  follow = "count", proxy = { "string", "boolean" }, tls = { "table", "boolean" }, unix = "string",
  decompress = "boolean", max_body = "count", user = "string", password = "string", version = "string",
  high_water = "count", bind = "string",
}
local TLS = {
  verify = "boolean", ca = "string", certificate = "string", key = "string", min_version = "string",
  server_name = "string",
}

local VERSIONS = { ["1.0"] = 1, ["1.1"] = 2, ["2"] = 4, ["2-direct"] = 5 }
local TLS_VERSIONS = { ["1.0"] = 4, ["1.1"] = 5, ["1.2"] = 6, ["1.3"] = 7 }

-- The names of the errors with which a file is refused; all others are EIO.
local REASONS <const> = { [2] = "ENOENT", [13] = "EACCES", [20] = "ENOTDIR", [40] = "ELOOP" }

-- Returns whether a path is a file, false for a directory. If the path cannot be read, the request fails here, because
-- libcurl would report a bad certificate.
local function is_file(settings, path)
  local file, problem, number = io.open(path)
  -- A directory of certificates need not be listable.
  local is_directory = number == 13 and not problem:find("sandbox", 1, true) and select(3, io.open(path .. "/")) ~= 20
  if file or is_directory then
    local has_bytes = file and file:read(0) ~= nil
    if file then file:close() end
    return has_bytes
  end
  local code = REASONS[number] or "EIO"
  settings.refusal_code = code
  settings.refusal = problem:find("^E%u+: ") and problem
    or ("%s: %s (%s)"):format(code, problem:sub(#path + 3):gsub("^%u%l", string.lower), path)
end

local function set_tls(settings, tls, name)
  if tls == true then return end
  if tls == false then
    raise(name .. ": field 'tls' must be true or a table of options; https:// in the URL turns TLS on")
  end
  misuse.fields(tls, TLS, name .. ": tls")
  if tls.server_name then
    raise(name .. ": field 'tls' takes no 'server_name': the certificate must name the URL's host")
  end
  for _, field in ipairs { "certificate", "key" } do
    settings[field] = tls[field] or settings[field]
    if tls[field] then is_file(settings, tls[field]) end
  end
  if tls.verify == false then settings.verify, settings.verify_host = false, 0 end
  if tls.min_version then
    settings.min_version = TLS_VERSIONS[tls.min_version] or raise(name .. ": 'min_version' must be \"1.2\" or \"1.3\"")
  end
  if tls.ca then
    if is_file(settings, tls.ca) then settings.ca_file, settings.ca_directory = tls.ca, nil
    else settings.ca_directory = tls.ca end
  end
end

local function default_certificates(settings)
  local file, directory = os.getenv "SSL_CERT_FILE", os.getenv "SSL_CERT_DIR"
  if file then settings.ca_file = file end
  -- The directory of hashed files: reading the bundle would take longer than most requests.
  if directory or not file then settings.ca_directory = directory or "/etc/ssl/certs" end
end

-- The request fails if a whole body does not have the length that its field announces: the server would wait for the
-- rest, or take what is left for the next request.
local function check_length(settings, size)
  local field = settings.fields["content-length"]
  local length = field and math.tointeger(tonumber(field))
  if not field or length == size then return end
  local text = ("its Content-Length is %q"):format(field)
  if length and length > size then
    text = ("it ended after %d of the %d bytes of its Content-Length"):format(size, length)
  elseif length then
    text = ("it is longer than the %d bytes of its Content-Length"):format(length)
  end
  settings.refusal, settings.refusal_code = "the body of the request failed: " .. text, "ECANCELED"
end

local function set_body(settings, request, name)
  local headers = settings.fields
  local body, content_type = answers.body_of(request, name)
  if body == nil or type(body) == "string" then check_length(settings, #(body or "")) end
  local method = request.method
  if content_type and headers["content-type"] == nil then headers["content-type"] = content_type end
  -- curl would declare the body to be a form.
  if type(body) == "string" and headers["content-type"] == nil then headers["content-type"] = false end
  if type(body) == "string" then
    settings.body, settings.is_post = body, true
    method = method or "POST"
  elseif body ~= nil then
    settings.is_upload = true
    if headers["content-length"] ~= nil then
      settings.upload_size = math.tointeger(tonumber(headers["content-length"] or "")) or -1
    end
    if settings.upload_size then headers["content-length"] = nil else headers["transfer-encoding"] = "chunked" end
    method = method or "POST"
  end
  method = method or "GET"
  settings.verb = method
  if method == "HEAD" then
    settings.is_head = true
  elseif not (method == "GET" and not body or method == "POST" and type(body) == "string") then
    settings.method = method
  end
  -- curl would wait a second for servers that do not know this field.
  if body ~= nil and headers.expect == nil then headers.expect = false end
  -- Some servers require a length for these methods (RFC 9110, 8.6), but curl sends none without a body.
  if body == nil and (method == "POST" or method == "PUT") and headers["content-length"] == nil then
    headers["content-length"] = "0"
  end
  return body
end

local DECODED <const> = { gzip = true, ["x-gzip"] = true, deflate = true, identity = true, ["*"] = true }

-- Only this module's decoder detects a truncated body, and it knows gzip and deflate. libcurl decodes other encodings.
local function set_decoding(settings)
  local fields = settings.fields
  if fields["accept-encoding"] == nil then fields["accept-encoding"] = "gzip, deflate" end
  for coding in (fields["accept-encoding"] or ""):lower():gmatch "[^,]+" do
    if not DECODED[coding:match "^%s*([^%s;]*)"] then settings.encoding = "" end
  end
  settings.decodes = not settings.encoding
end

-- Raises an error unless `path` is nil, or a Unix socket's path, or "@name" for an abstract socket.
function M.check_unix(path, name)
  if path == nil or path ~= "" and path ~= "@" and not path:find("\0", 1, true) then return end
  raise("%s: field 'unix' must be the path of a socket, or \"@name\", got %s", name, misuse.describe(path))
end

-- Converts the URL in a field of the settings to ASCII. If the host cannot be written in ASCII, the request fails.
function M.make_ascii(settings, field)
  local url = settings[field]
  if not url or not url:find "[\128-\255%%]" then return end
  local message, code
  settings[field], message, code = require "runloop.http.iri"(url)
  if message then settings.refusal, settings.refusal_code = ("%s: %s"):format(code, message), code end
end

-- Returns whether a value is a URL table of runloop.url: such a table stands for its text.
local function is_url(value)
  local metatable = type(value) == "table" and getmetatable(value)
  return type(metatable) == "table" and rawget(metatable, "__name") == "url"
end

function M.text_of(url) return is_url(url) and tostring(url) or url end

-- Turns { url, … } into { url = url, … }.
local function positional(name, request)
  misuse.argument(request, "table", name, 1)
  if is_url(request) then return { url = tostring(request) } end
  if request[1] == nil and not is_url(request.url) then return request end
  if request[1] ~= nil and request.url ~= nil then
    raise("%s: the URL is given twice: as argument #1, and as field 'url'", name)
  end
  local copy = {}
  for field, value in pairs(request) do copy[field] = value end
  copy.url, copy[1] = M.text_of(copy[1] or copy.url), nil
  return copy
end

-- Makes one table from the arguments of `get` and `post`.
local function with_url(name, url, extra, number)
  url = M.text_of(url)
  if type(url) == "table" then
    local fetch = name:gsub("%a+$", "fetch")
    raise("%s: argument #1 must be a string, got a table (did you mean %s { url = … }?)", name, fetch)
  end
  misuse.argument(url, "string", name, 1)
  misuse.optional(extra, "table", name, number)
  local request = {}
  for field, value in pairs(extra or {}) do request[field] = value end
  request.url = url
  return request
end

-- Whether the second argument of `post` is its options: a plain table that has the body.
local function are_options(value)
  return type(value) == "table" and getmetatable(value) == nil
    and (value.json ~= nil or value.form ~= nil or value.body ~= nil)
end

-- The calls of clients. Each function makes a request from the call's name and arguments.
M.calls = {
  get = function(name, url, extra) return with_url(name, url, extra, 2) end,
  post = function(name, url, body, extra)
    if extra == nil and are_options(body) then body, extra = nil, body end
    local request = with_url(name, url, extra, 3)
    request.method = request.method or "POST"
    if body ~= nil then request.body = body end
    if request.body == nil and request.json == nil and request.form == nil then request.body = "" end
    return request
  end,
  fetch = positional, open = positional,
}

function M.prepare(defaults, request, name, is_open)
  misuse.fields(request, M.KNOWN, name)
  if not request.url then misuse.wrong(name, "field 'url'", "a string") end
  local settings = { url = answers.url_with(request.url, request.query), fields = {} }
  if request.url:find "[%c ]" then raise("%s: the URL has a blank or a control character: %q", name, request.url) end
  M.make_ascii(settings, "url")
  for _, headers in ipairs { defaults.headers or {}, request.headers or {} } do
    answers.check_fields(headers, name)
    for field, value in pairs(headers) do
      settings.fields[field:lower()] = value ~= false and tostring(value)
    end
  end
  local body = set_body(settings, request, name)
  if request.method and not native.is_token(request.method) then raise(name .. ": field 'method' is not a method") end

  -- The client's options apply to all its requests, unless a request has its own.
  local all = {}
  for _, said in ipairs { defaults, request } do for field, value in pairs(said) do all[field] = value end end
  settings.timeout = all.timeout
  settings.connect_timeout = all.connect_timeout or 30
  local idle = all.idle_timeout
  settings.has_one_limit = idle and not all.timeout
  if idle == nil and not is_open then idle = 60 end
  -- A limit of 30 years or more counts as no limit.
  if idle and idle > 0 and idle < 1e9 then
    settings.idle_timeout, settings.idle_bytes = math.max(1, math.floor(idle)), 1
  end
  local follow = all.follow or 10
  settings.follows, settings.max_redirects = follow > 0, follow
  if all.proxy ~= true then settings.proxy = all.proxy == false and "" or all.proxy end
  M.make_ascii(settings, "proxy")
  M.check_unix(all.unix, name)
  if all.unix and all.unix:sub(1, 1) == "@" then settings.abstract = all.unix:sub(2) else settings.unix = all.unix end
  if all.decompress ~= false and not defaults.is_plain then set_decoding(settings) end
  settings.user, settings.password = all.user, all.password
  settings.interface = all.bind
  settings.version = VERSIONS[all.version or "2"]
    or raise(name .. ": field 'version' must be \"1.0\", \"1.1\", \"2\" or \"2-direct\"")
  if defaults.cookies then settings.cookies = "" end
  if settings.fields["user-agent"] == nil then settings.agent = "rlhost" end
  default_certificates(settings)
  if defaults.tls ~= nil then set_tls(settings, defaults.tls, name) end
  if request.tls ~= nil then set_tls(settings, request.tls, name) end
  settings.max_body = all.max_body or (is_open and math.maxinteger or 16 << 20)
  settings.high_water = is_open and (request.high_water or 262144) or math.maxinteger
  return settings, body
end

-- Converts the fields to libcurl's form: "name:" suppresses a field, "name;" sends an empty one.
function M.list_fields(settings)
  local list = {}
  for field, value in pairs(settings.fields) do
    list[#list + 1] = field .. (not value and ":" or value == "" and ";" or ": " .. value)
  end
  settings.headers = list
end

return M
