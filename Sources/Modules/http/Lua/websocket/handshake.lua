-- runloop.http.handshake: turns a request into a WebSocket, at both ends.

local native = require "runloop.http.native"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local incoming = require "runloop.http.server.request"
local websocket = require "runloop.http.websocket"

local M = {}

-- The values that a parameter of permessage-deflate may have in an offer (RFC 7692, 7.1). The server's window has 15
-- bits; the client may use a smaller one.
local SIZES <const>, NONE <const> = {}, { [""] = true }
for bits = 8, 15 do SIZES[tostring(bits)] = true end
SIZES[""] = true
local PARAMETERS <const> = {
  server_no_context_takeover = NONE, client_no_context_takeover = NONE, server_max_window_bits = { ["15"] = true },
  client_max_window_bits = SIZES,
}

-- Returns the extension to agree on, if a list of offers has a suitable one: without context takeover, with any window
-- size.
local function agree(offers)
  for offer in offers:gmatch "[^,]+" do
    local name, parameters = offer:match "^%s*([%w-]+)%s*(.*)$"
    if name == "permessage-deflate" then
      local are_valid, seen = true, {}
      for parameter in parameters:gmatch "[^;]+" do
        local word, value = parameter:match "^%s*([%w_]+)%s*=?%s*\"?(%w*)\"?%s*$"
        local is_valid = word and PARAMETERS[word]
        if parameter:find "%S" and (seen[word] or not is_valid or not is_valid[value]) then are_valid = false end
        if word then seen[word] = true end
      end
      if are_valid then return "permessage-deflate; server_no_context_takeover; client_no_context_takeover" end
    end
  end
end

local function list_has(list, word)
  for item in (list or ""):gmatch "[^,%s]+" do
    if item:lower() == word then return true end
  end
end

-- Returns the set of protocols that a field offers. Names are case-sensitive: clients refuse another spelling.
local function protocols_in(field)
  local offered = {}
  for protocol in tostring(field or ""):gmatch "[^,%s]+" do offered[protocol] = true end
  return offered
end

local HAS_BODY <const> = native.request_flags.HAS_BODY

function incoming.Request:websocket(settings)
  misuse.receiver(self, incoming.Request, "request:websocket")
  settings = websocket.options(settings, nil, "request:websocket", 1)
  local headers, connection, stream = self.headers, self.connection, self.stream
  if self.response or not connection:claim(self) and not self.is_gone then
    misuse.raise("request:websocket: the request has been answered already")
  end
  local key = headers["sec-websocket-key"]
  local status, text, extra
  if self.method ~= "GET" or not self.is_upgrade or not list_has(headers.upgrade, "websocket") then
    status, text, extra = 426, "This is a WebSocket\n", { upgrade = "websocket" }
  elseif headers["sec-websocket-version"] ~= "13" then
    status, text, extra = 426, "Only version 13 is spoken here\n", { ["sec-websocket-version"] = "13" }
  elseif self.flags & HAS_BODY ~= 0 then
    -- A proxy, or a handler that has read the body, may have mistaken the body for frames or for a request.
    status, text = 400, "A WebSocket's request has no body\n"
  elseif not key or #key ~= 24 or not key:find "^[%w+/]+==$" then
    status, text = 400, "Not a WebSocket key\n"
  end
  if status then
    self.status, self.sent = status, #text
    connection:last(self)
    stream:write(connection:head(self, status, extra, text, "text/plain; charset=utf-8"))
    self.response = setmetatable({}, { __index = { finish = function() return true end } })
    return nil, "EPROTO: " .. text:sub(1, -2), "EPROTO"
  end
  local answer = { upgrade = "websocket", connection = "Upgrade", ["sec-websocket-accept"] = native.accept_key(key) }
  local offers = settings.compress ~= false and headers["sec-websocket-extensions"]
  local extension = offers and native.deflate(true, false, 15) and agree(offers) or nil
  answer["sec-websocket-extensions"] = extension
  local offered = protocols_in(headers["sec-websocket-protocol"])
  for _, protocol in ipairs(settings.protocols or {}) do
    if offered[protocol] then
      answer["sec-websocket-protocol"] = protocol
      break
    end
  end
  self.status = 101
  stream:queue(connection:head(self, 101, answer))
  local socket = websocket.new(stream, false, settings, extension ~= nil)
  socket.protocol = answer["sec-websocket-protocol"]
  socket.written_before = stream:bytes_written() + stream:queue()
  self.socket = socket
  connection:upgrade(socket)
  -- Bytes after the request are the socket's first ones. The connection's task continues with the WebSocket.
  local function finish()
    if not socket.is_over then socket:go_away() end
    return true
  end
  self.response = setmetatable({}, { __index = { finish = finish } })
  websocket.feed(socket, connection:rest())
  return socket
end

-- Makes the client's handshake over a connected stream. Returns a socket; or nil, message, code.
function M.connect(stream, target, host, settings)
  local key = native.random_key()
  local headers = {
    upgrade = "websocket", connection = "Upgrade", ["sec-websocket-key"] = key, ["sec-websocket-version"] = "13",
  }
  local compresses = settings.compress ~= false and native.deflate(false, false, 15) ~= nil
  if compresses then
    headers["sec-websocket-extensions"] = "permessage-deflate; client_no_context_takeover; server_no_context_takeover"
  end
  if settings.protocols then headers["sec-websocket-protocol"] = table.concat(settings.protocols, ", ") end
  for name, value in pairs(settings.headers or {}) do headers[name:lower()] = value or nil end
  local sent, problem, code = stream:write(native.write_request("GET", target, headers, nil, host))
  if not sent then return nil, problem, code end
  local function fail(name, text)
    stream:abort()
    return nil, name .. ": " .. text, name
  end
  local reader, heads = native.reader(), 0
  local status, fields, reason
  -- An interim answer, such as 103, is not the answer.
  while not status or status < 200 and status ~= 101 do
    if status then heads = heads + 1 end
    if heads > 16 then return fail("EPROTO", "the server sends too many interim answers") end
    status, fields, reason = reader:answer(65536, "GET")
    if status == false then return fail("EBADMSG", "the server's answer is not HTTP: " .. tostring(reason)) end
    if not status then
      local bytes
      bytes, problem, code = stream:read(65536, { timeout = settings.timeout or 30 })
      if not bytes and not problem then return fail("EOF", "the server ended the handshake") end
      if not bytes then
        stream:abort()
        return nil, problem, code
      end
      reader:feed(bytes)
    end
  end
  local is_switched = status == 101 and list_has(fields.upgrade, "websocket")
    and list_has(fields.connection, "upgrade")
  if not is_switched or fields["sec-websocket-accept"] ~= native.accept_key(key) then
    return fail("EPROTO", ("the server does not speak WebSocket here (%d %s)"):format(status, reason))
  end
  local extension = fields["sec-websocket-extensions"]
  -- Messages that the client sends may need a window of 15 bits, so that a smaller one cannot be agreed on.
  if extension and (not compresses or not extension:find "^%s*permessage%-deflate%s*;"
    or not extension:find "server_no_context_takeover" or extension:find "client_max_window_bits") then
    return fail("EPROTO", "the server has chosen an extension that was not offered")
  end
  -- If the answer has two such fields, the value is a list, which was not offered either.
  local protocol = fields["sec-websocket-protocol"]
  if protocol and not protocols_in(headers["sec-websocket-protocol"])[protocol] then
    return fail("EPROTO", "the server has chosen a protocol that was not offered: " .. protocol)
  end
  local socket = websocket.new(stream, true, settings, extension ~= nil)
  socket.protocol = protocol
  socket.reader = reader
  socket.task = rl.task(function() socket:read_on(stream) end)
  return websocket.handle(socket)
end

return M
