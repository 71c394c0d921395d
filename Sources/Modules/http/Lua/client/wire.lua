-- runloop.http.client.wire: requests over a stream without libcurl, for tests of services and for WebSockets. In tests
-- of services, such requests take no time.

local native = require "runloop.http.native"
local rl = require "runloop"
local net = require "runloop.net"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise = misuse.raise
local answers = require "runloop.http.client.response"
local requests = require "runloop.http.client.request"

local M = {}

-- A request and its answer over a stream of its own.
local Exchange = {}
Exchange.__index = Exchange

local function fail(self, problem, code)
  self.is_over = true
  self.stream:abort()
  return nil, problem, code
end

function Exchange:remaining()
  local left = self.date and math.max(0, self.date - rl.now())
  if self.idle_timeout and (not left or self.idle_timeout < left) then left = self.idle_timeout end
  return left and { timeout = left }
end

-- Reads further bytes. Returns nil at the end of the input; nil, message, code on failure.
local function feed(self)
  local bytes, problem, code = self.stream:read(65536, self:remaining())
  if bytes then self.reader:feed(bytes) end
  return bytes, problem, code
end

function Exchange:next_bytes(max)
  while not self.is_over do
    local bytes = self.reader:take(max or 65536)
    if bytes == false then return fail(self, "EBADMSG: the chunks of the answer are not well-formed", "EBADMSG") end
    if not bytes then break end
    if bytes ~= "" then return bytes end
    local more, problem, code = feed(self)
    if not more and problem then return fail(self, problem, code) end
    if not more and self.reader:ends() then break end
    if not more then return fail(self, "EOF: the answer ended too early", "EOF") end
  end
  self.is_over = true
  return nil
end

function Exchange:finish()
  self.is_over = true
  self.stream:close()
end

local function read_head(self)
  while true do
    local status, _, reason, minor
    status, _, reason, minor, self.head = self.reader:answer(262144, self.method)
    if status == false then
      local text = reason:find "^the answer" and "EBADMSG: %s (%s)" or "EBADMSG: the answer is not HTTP: %s"
      return fail(self, text:format(reason, self.url), "EBADMSG")
    end
    if status and status >= 200 then return status, minor end
    if not status then
      local bytes, problem, code = feed(self)
      if not bytes and not problem then
        problem, code = "ECONNRESET: the server ended the connection without an answer", "ECONNRESET"
      end
      if not bytes then return fail(self, problem, code) end
    end
  end
end

local WEBSOCKET = {
  max_message = "count", compress = "boolean", protocols = "table", close_timeout = "seconds", headers = "table",
  timeout = "seconds", tls = { "table", "boolean" }, unix = "string",
}

local Client = objects.class("runloop.http.Client", { __name = "http test client", __stays = true })

local function send_body(stream, body)
  local following = body
  if type(body) ~= "function" then following = function() return body:read(65536) end end
  while true do
    local bytes, problem = following()
    if bytes == nil then
      if problem then return nil, problem end
      return stream:write "0\r\n\r\n"
    end
    if bytes ~= "" and not stream:write(("%x\r\n"):format(#bytes), bytes, "\r\n") then
      return nil, "EPIPE: the server has gone"
    end
  end
end

-- Sends a request, and waits for the head of its answer.
local function ask(self, settings, exchange)
  local stream, far = net.memory(self.network)
  self.server:accept(far)
  exchange.stream, exchange.reader, exchange.method, exchange.is_over = stream, native.reader(), settings.verb, false
  local target = settings.url:gsub("^%a+://[^/?]*", "")
  if target == "" or target:sub(1, 1) == "?" then target = "/" .. target end
  local authority = settings.url:match "^%a+://([^/?]*)" or "test"
  local body = settings.is_upload and -2 or settings.body
  stream:write(native.write_request(settings.verb, target, settings.fields, body, authority))
  if settings.is_upload then native.internals.child_task(send_body, stream, exchange.body) end
  return read_head(exchange)
end

local LEADS_ON <const> = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

local function absolute(url) return url:find "^%a[%w+.-]*://" and url or "http://test" .. url end

-- Resolves a head's Location against the URL `from`. Returns nil without a Location.
local function location(head, from)
  local place = select(2, head:lower():find "\nlocation:[ \t]*")
  local where = place and head:match("^[^\r\n#]*", place + 1)
  if not where or where == "" or where:find "^%a[%w+.-]*:" then return where ~= "" and where or nil end
  return require("runloop.url").join(from, where) or where
end

-- Requests in memory ask for no compression.
local MEMORY <const> = { is_plain = true }

local function begin(self, request, name)
  local settings, body = requests.prepare(MEMORY, request, name, true)
  if settings.refusal then return nil, settings.refusal, settings.refusal_code end
  local url, fields = settings.url, settings.fields
  if request.user and fields.authorization == nil then
    local both = request.user .. ":" .. (request.password or "")
    fields.authorization = "Basic " .. require("runloop.encoding").encode(both, "base64")
  end
  if fields["user-agent"] == nil then fields["user-agent"] = settings.agent end
  if fields.connection == nil then fields.connection = "close" end
  settings.max_redirects = request.follow or 0
  local exchange = setmetatable({
    url = url, settings = settings, body = body, redirects = 0, idle_timeout = request.idle_timeout,
    date = request.timeout and rl.now() + request.timeout,
  }, Exchange)
  if exchange.idle_timeout == 0 then exchange.idle_timeout = nil end
  while true do
    local status, minor, code = ask(self, settings, exchange)
    if not status then return nil, minor, code end
    local where = settings.max_redirects > 0 and LEADS_ON[status] and location(exchange.head, absolute(url))
    if not where then
      return exchange, status, exchange.head, url, minor == 1 and 2 or 1, 0, exchange.redirects, "memory"
    end
    exchange:finish()
    settings.url = absolute(url)
    if not require "runloop.http.redirect"(exchange, where, status) then
      return nil, exchange.refusal, exchange.refusal_code
    end
    url = settings.url
  end
end

local function opened(exchange, ...)
  if not exchange then return nil, ... end
  return answers.open(exchange, ...)
end

-- Returns the answer with its whole body, at most `max` bytes.
local function whole(max, exchange, ...)
  local open, problem, code = opened(exchange, ...)
  if not open then return nil, problem, code end
  local body
  body, problem, code = open:read_all(max)
  open:close()
  if not body then return nil, problem, code end
  local answer = answers.new(...)
  answer.body = body
  return answer
end

for name, request_of in pairs(requests.calls) do
  local called = "client:" .. name
  Client[name] = function(self, ...)
    local request = request_of(called, ...)
    if name == "open" then return opened(begin(self, request, called)) end
    return whole(request.max_body, begin(self, request, called))
  end
end

function Client:websocket(url, settings)
  url = requests.text_of(url)
  misuse.argument(url, "string", "client:websocket", 1)
  settings = require("runloop.http.websocket").options(settings, WEBSOCKET, "client:websocket", 2)
  local target = url:gsub("^%a+://[^/]*", "")
  if target == "" or target:find "[%c ]" then raise("client:websocket: argument #1 is not a URL: %q", url) end
  local stream, far = net.memory(self.network)
  self.server:accept(far)
  return require("runloop.http.handshake").connect(stream, target, "test", settings)
end
objects.methods(Client, "client")

-- A client of a server or handler over streams in memory. `network` has the options of net.memory.
function M.client(server, network)
  local metatable = getmetatable(server)
  if misuse.is_callable(server) then
    server = require("runloop.http.server").serve("memory", {}, server)
  elseif type(metatable) ~= "table" or metatable.__name ~= "http server" then
    misuse.wrong("t.http", "argument #1", "a server, routes or a handler", server)
  end
  return setmetatable({ server = server, network = network }, Client)
end

function M.websocket(url, settings)
  url = requests.text_of(url)
  misuse.argument(url, "string", "http.websocket", 1)
  settings = require("runloop.http.websocket").options(settings, WEBSOCKET, "http.websocket", 2)
  local named = { url = url }
  requests.make_ascii(named, "url")
  local scheme, authority, target = (named.url or url):match "^(%a+)://([^/?#]+)([^#]*)"
  local is_secure = scheme == "wss" or scheme == "https"
  if not scheme or not is_secure and scheme ~= "ws" and scheme ~= "http" then
    raise("http.websocket: argument #1 must be a URL that begins with ws://, wss://, http:// or https://, got %q", url)
  end
  requests.check_unix(settings.unix, "http.websocket")
  if target:sub(1, 1) ~= "/" then target = "/" .. target end
  if url:find "[%c ]" then raise("http.websocket: the URL has a blank or a control character: %q", url) end
  if named.refusal then return nil, named.refusal, named.refusal_code end
  local host = authority:gsub("^.*@", "")
  local where = host:find ":%d+$" and host or host .. (is_secure and ":443" or ":80")
  if settings.unix then where = "unix:" .. settings.unix end
  local options = { timeout = settings.timeout or 30, tls = settings.tls or is_secure or nil }
  local stream, problem, code = net.connect(where, options)
  if not stream then return nil, problem, code end
  return require("runloop.http.handshake").connect(stream, target, host, settings)
end

return M
