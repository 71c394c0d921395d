-- runloop.http.websocket: the messages of a WebSocket (RFC 6455), at both ends, with permessage-deflate (RFC 7692).

local native = require "runloop.http.native"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local waiting_modes = require "runloop.waiting_modes"
local raise, receiver = misuse.raise, misuse.receiver

local M = {}
local write_frame, check_utf8 = native.write_frame, native.check_utf8
local CONTINUATION <const>, TEXT <const>, BINARY <const> = 0, 1, 2
local CLOSE <const>, PING <const>, PONG <const> = 8, 9, 10

local Socket = objects.class("runloop.http.WebSocket", { __name = "websocket", __stays = true })

local KNOWN = { max_message = "count", compress = "boolean", protocols = "table", close_timeout = "seconds" }

-- Returns the checked options of a WebSocket, never nil.
function M.options(settings, known, name, number)
  settings = misuse.options(settings, known or KNOWN, name, number)
  local protocols, count = settings.protocols or {}, 0
  for _, protocol in ipairs(protocols) do
    count = count + 1
    if type(protocol) ~= "string" or not native.is_token(protocol) then
      raise("%s: field 'protocols' must be a list of names, got %s in it", name, misuse.describe(protocol))
    end
  end
  local has_length, length = pcall(function() return #protocols end)
  if not has_length or length ~= count then
    raise("%s: field 'protocols' must be a list of names without gaps", name)
  end
  if settings.headers then require("runloop.http.client.response").check_fields(settings.headers, name) end
  return settings
end

-- Each message is compressed independently, so that one compressor serves all sockets of a thread.
local shared = {}
local function zlib(compresses)
  local name = compresses and "deflate" or "inflate"
  if not shared[name] then
    local step, reset = native.deflate(compresses, false, 15)
    shared[name] = { step = step, reset = reset }
  end
  return shared[name]
end

local function new(stream, is_client, settings, compresses)
  return setmetatable({
    stream = stream, is_client = is_client, compresses = compresses, max = settings.max_message or 1 << 20,
    reader = native.reader(), first = 1, last = 0, inbox = {}, queued = 0,
    close_timeout = settings.close_timeout or 5, arrived = objects.condition "socket:receive",
  }, Socket)
end

function Socket:__tostring() return "websocket" end

-- Sending -------------------------------------------------------------------------------------------------------------

-- `write` waits while the peer is slow; `queue` does not.
local function send(self, code, payload, queues)
  local is_compressed = false
  if self.compresses and code <= BINARY and #payload >= 64 then
    local deflate = zlib(true)
    local bytes = deflate.step(payload, false)
    deflate.reset()
    -- RFC 7692 omits the empty block at the end.
    if bytes and #bytes - 4 < #payload then payload, is_compressed = bytes:sub(1, -5), true end
  end
  local stream, frame = self.stream, write_frame(code, payload, self.is_client, is_compressed)
  if queues then return stream:queue(frame) end
  return stream:write(frame)
end

local function closed(self)
  if self.problem then return nil, self.problem, self.problem_code end
  return nil, "EPIPE: the websocket is closed", "EPIPE"
end

local function send_message(self, text, kind, name, queues)
  receiver(self, Socket, name)
  if type(text) ~= "string" then
    if type(text) ~= "number" then misuse.wrong(name, "argument #1", "a string", text) end
    text = tostring(text)
  end
  if kind == nil then kind = "text" end
  if kind ~= "text" and kind ~= "binary" then misuse.wrong(name, "argument #2", '"text" or "binary"', kind) end
  if kind == "text" and check_utf8(0, text) ~= 0 then
    raise("%s: argument #1 is not UTF-8; send it as \"binary\"", name)
  end
  if self.close_sent or self.is_over then return closed(self) end
  return send(self, kind == "text" and TEXT or BINARY, text, queues)
end

function Socket:send(text, kind) return send_message(self, text, kind, "socket:send") end

function Socket:queue(text, kind) return send_message(self, text, kind, "socket:queue", true) end

function Socket:ping(text)
  receiver(self, Socket, "socket:ping")
  text = text or ""
  if type(text) ~= "string" or #text > 125 then
    raise("socket:ping: argument #1 must be a string of at most 125 bytes")
  end
  if self.close_sent or self.is_over then return closed(self) end
  return send(self, PING, text)
end

local function send_close(self, code, reason)
  if self.close_sent or self.is_over then return end
  self.close_sent = true
  local payload = code and string.pack(">I2", code) .. (reason or "") or ""
  self.stream:queue(write_frame(CLOSE, payload, self.is_client, false))
end

-- Closes the stream when the rest of its output is sent. The access log counts the rest as sent.
local function close_stream(self)
  local stream = self.stream
  self.written = self.written or stream:bytes_written() + (stream:queue() or 0)
  stream:close()
end

-- Receiving -----------------------------------------------------------------------------------------------------------

local function over(self, problem, code)
  if self.is_over then return end
  self.is_over, self.problem, self.problem_code = true, problem, code
  self.arrived:broadcast()
  if self.room then self.room:broadcast() end
end

local function lost(self) over(self, "ECONNRESET: the websocket ended without a close frame", "ECONNRESET") end

-- The connection has ended, which is an error unless the socket has sent a close frame.
function Socket:ended()
  if self.close_sent then over(self) else lost(self) end
end

local function break_off(self, code, problem)
  local name = "EPROTO"
  if code == 1009 then problem, name = ("message longer than %d bytes"):format(self.max), "EMSGSIZE" end
  self.close_code = self.close_code or code
  send_close(self, code, problem)
  over(self, name .. ": " .. problem, name)
  close_stream(self)
  return false
end

-- The approximate memory of an empty message. It counts towards the limit of bytes, which so limits empty messages,
-- too.
local EACH <const> = 64

local function deliver(self, kind, text)
  self.last = self.last + 1
  self.inbox[self.last] = { text, kind }
  self.queued = self.queued + #text + EACH
  self.arrived:signal()
end

local function complete(self, kind, pieces, is_compressed)
  local text = pieces
  if is_compressed then
    local inflate = zlib(false)
    inflate.reset()
    local bytes, problem = inflate.step(text .. "\0\0\255\255", false, self.max)
    if not bytes then return break_off(self, problem:find "long" and 1009 or 1007, problem) end
    text = bytes
  end
  if kind == TEXT and (is_compressed or not self.is_checked) and check_utf8(0, text) ~= 0 then
    return break_off(self, 1007, "text that is not UTF-8")
  end
  deliver(self, kind == TEXT and "text" or "binary", text)
  return true
end

-- Codes that may be in a close frame: RFC 6455, 7.4.
local function is_close_code(code)
  local is_reserved = code == 1004 or code == 1005 or code == 1006
  return code >= 1000 and code <= 1014 and not is_reserved or code >= 3000 and code <= 4999
end

local function take_close(self, payload)
  local code, reason = 1005, ""
  if #payload == 1 then return break_off(self, 1002, "a close frame of one byte") end
  if #payload >= 2 then
    code, reason = string.unpack(">I2", payload), payload:sub(3)
    if not is_close_code(code) then return break_off(self, 1002, "a close code that must not be sent") end
    if check_utf8(0, reason) ~= 0 then return break_off(self, 1007, "text that is not UTF-8") end
  end
  self.close_code, self.close_reason = code, reason
  send_close(self, code ~= 1005 and code or nil, reason)
  over(self)
  close_stream(self)
  return false
end

-- Handles one frame. Returns whether to go on.
local function take(self, code, payload, is_final, is_compressed)
  if code == PING then
    if not self.close_sent then self.stream:queue(write_frame(PONG, payload, self.is_client, false)) end
    return true
  elseif code == PONG then
    return true
  elseif code == CLOSE then
    return take_close(self, payload)
  elseif code == CONTINUATION then
    if not self.kind then return break_off(self, 1002, "a continuation without a message") end
    if is_compressed then return break_off(self, 1002, "a reserved bit is set") end
  else
    if self.kind then return break_off(self, 1002, "a message within another one") end
    if is_final then
      self.is_checked = false
      return complete(self, code, payload, is_compressed)
    end
    self.kind, self.pieces, self.size, self.is_deflated, self.utf8 = code, {}, 0, is_compressed, 0
  end
  self.size = self.size + #payload
  if self.size > self.max then return break_off(self, 1009, "a message that is too long") end
  if payload ~= "" then self.pieces[#self.pieces + 1] = payload end
  if self.kind == TEXT and not self.is_deflated then
    -- Errors in the text are reported at once, not at the end of the message.
    self.utf8 = check_utf8(self.utf8, payload)
    if not self.utf8 or is_final and self.utf8 ~= 0 then return break_off(self, 1007, "text that is not UTF-8") end
  end
  if is_final then
    local kind, text, was_deflated = self.kind, table.concat(self.pieces), self.is_deflated
    self.kind, self.pieces, self.is_checked = nil, nil, true
    return complete(self, kind, text, was_deflated)
  end
  return true
end

-- Handles all complete frames that have been read.
local function take_all(self)
  while not self.is_over do
    local code, payload, is_final, is_compressed = self.reader:frame(not self.is_client, self.max, self.compresses)
    if code == nil then
      self.missing = payload
      return
    elseif code == false then
      return break_off(self, payload, is_final)
    end
    if not take(self, code, payload, is_final, is_compressed) then return end
  end
end

-- Gives the WebSocket bytes that came with the handshake, or after it.
function M.feed(self, bytes)
  self.reader:feed(bytes)
  take_all(self)
end

local function read_all(self, stream)
  take_all(self)
  while not self.is_over do
    -- Further bytes wait in the kernel, and at the peer.
    while self.queued >= self.max and not self.is_over do
      self.room = self.room or rl.condition()
      self.room:wait()
    end
    local bytes = stream:read(math.max(self.missing or 0, 65536))
    if not bytes then break end
    M.feed(self, bytes)
  end
end

-- Reads the stream to its end: answers pings and collects messages.
function Socket:read_on(stream)
  local guard <close> = setmetatable({}, {
    __close = function() lost(self) end,
  })
  if misuse.fits_memory(read_all, self, stream) then return end
  -- The peer has sent more than the memory's limit allows, which must not end the program.
  over(self, "ENOMEM: no memory for a message", "ENOMEM")
  stream:abort()
end

function Socket:receive(timeout)
  receiver(self, Socket, "socket:receive")
  if timeout ~= nil then misuse.argument(timeout, "seconds", "socket:receive", 1) end
  if self.receiver then misuse.second_reader("socket:receive", self.receiver) end
  local date = timeout and rl.now() + timeout
  local heard <close> = waiting_modes(self.stream)
  local waiting <close> = self.first > self.last and setmetatable({}, {
    __close = function() self.receiver = nil end,
  }) or nil
  if waiting then self.receiver = coroutine.running() end
  while self.first > self.last do
    if self.is_over then
      if self.problem then return nil, self.problem, self.problem_code end
      return nil
    end
    if date and rl.now() >= date then return nil, "timed out" end
    self.arrived:wait(date and date - rl.now())
  end
  local message = self.inbox[self.first]
  self.inbox[self.first] = nil
  self.first = self.first + 1
  self.queued = self.queued - #message[1] - EACH
  if self.room then self.room:broadcast() end
  return message[1], message[2]
end

function Socket:messages(settings)
  receiver(self, Socket, "socket:messages")
  self.max = misuse.options(settings, { max = "count" }, "socket:messages", 1).max or self.max
  return function()
    local text, kind = self:receive()
    if text then return text, kind end
  end
end

-- Sends a close frame, and waits a few seconds for the peer's.
function Socket:close(code, reason)
  receiver(self, Socket, "socket:close")
  if code ~= nil and (math.type(code) ~= "integer" or not is_close_code(code)) then
    raise("socket:close: argument #1 must be a close code (1000, or 3000 to 4999), got %s", misuse.describe(code))
  end
  if reason ~= nil and (type(reason) ~= "string" or #reason > 123 or check_utf8(0, reason) ~= 0) then
    raise("socket:close: argument #2 must be at most 123 bytes of text")
  end
  if not self.is_over then
    send_close(self, code or 1000, reason)
    local date = rl.now() + self.close_timeout
    while not self.is_over and rl.now() < date do
      -- Messages that still arrive are dropped.
      self.first, self.last, self.inbox, self.queued = 1, 0, {}, 0
      if self.room then self.room:broadcast() end
      self.arrived:wait(date - rl.now())
    end
    over(self)
  end
  close_stream(self)
  return true
end

-- Closes without waiting: the end of a block must not wait.
function Socket:go_away(code)
  send_close(self, code or self.is_client and 1000 or 1001)
end
Socket.__close = function(self)
  self:go_away()
  over(self)
  close_stream(self)
end

function Socket:is_open()
  receiver(self, Socket, "socket:is_open")
  return not self.is_over and not self.close_sent
end

-- The handle of a socket that a client's script gets. The task that reads refers to the socket itself, so without a
-- separate handle the socket could never be collected.
local methods = {}
local Handle = objects.class("runloop.http.WebSocket", { __name = "websocket", __stays = true }, methods)

-- Keeps the handle from being collected while a call waits.
local function keep(_, ...) return ... end

for _, name in ipairs { "send", "queue", "ping", "receive", "close", "is_open" } do
  local method, called = Socket[name], "socket:" .. name
  methods[name] = function(self, ...) return keep(self, method(receiver(self, Handle, called).core, ...)) end
end

function methods:messages(settings)
  local following = Socket.messages(receiver(self, Handle, "socket:messages").core, settings)
  return function() return keep(self, following()) end
end

function Handle:__index(name)
  local value = rawget(methods, name)
  if value == nil then value = rawget(self, "core")[name] end
  if value ~= nil then return value end
  return methods[name]
end
function Handle:__close() Socket.__close(self.core) end
-- If the Lua state is being closed, the socket has already ended, and the call fails.
function Handle:__gc() pcall(Socket.__close, self.core) end
Handle.__tostring = Socket.__tostring

function M.handle(socket) return setmetatable({ core = socket }, Handle) end

M.new = new

return M
