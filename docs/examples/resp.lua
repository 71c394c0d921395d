-- A client for Redis 6 and later, over RESP3. The page "Write a client" (docs/clients.md) explains each part.
--
--     local resp = dofile "resp.lua"
--     local client = assert(resp.open "localhost:6379")
--     print(client:call("INCR", "visits"))

local rl, net = require "runloop", require "runloop.net"

local resp = { null = setmetatable({}, { __name = "resp.null", __tostring = function() return "null" end }) }
local Client, Line = {}, {}

-- Reading. An error here means that the connection is of no use any more.

local function need(value, ...) if value then return value, ... else error((...) or "EOF: end of input", 0) end end

local BODY = { skip = "\r\n", max = 512 << 20 }
local FLOATS = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0 }
local function number(text) return (need(FLOATS[text] or tonumber(text), "EBADMSG: a number expected")) end
local function refusal(text) return { code = text:match "^%S*", message = text:gsub(" ", ": ", 1) } end

-- The meaning of a line by its sign, of the bytes whose number a line gives, and of lists, with or without keys.
local LINES = { ["+"] = tostring, ["("] = tostring, [":"] = number, [","] = number, ["-"] = refusal,
  ["#"] = function(text) return text == "t" end, ["_"] = function() return resp.null end }
local BYTES = { ["$"] = tostring, ["!"] = refusal, ["="] = function(text) return text:sub(5) end }
local KEYED = { ["*"] = false, ["~"] = false, [">"] = false, ["%"] = true, ["|"] = true }

-- Reads a value: returns it and its sign. `read_line` would take half a line for a whole one at the end of input.
local function read(stream)
  local line = need(stream:read_until "\r\n")
  local kind, rest = line:sub(1, 1), line:sub(2)
  if LINES[kind] then return LINES[kind](rest), kind end
  local length, meaning, value = number(rest), BYTES[kind], {}
  if meaning then return meaning((need(stream:read_exactly(length, BODY)))), kind end
  need(KEYED[kind] ~= nil, "EBADMSG: not RESP3")
  for i = 1, length do
    local key = KEYED[kind] and read(stream) or i
    value[key] = read(stream)
  end
  if kind == "|" then return read(stream) end
  return value, kind
end

-- Writing: a command is a list of texts.
local function encode(...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = "$" .. #tostring(parts[i]) .. "\r\n" .. tostring(parts[i]) .. "\r\n" end
  return "*" .. parts.n .. "\r\n" .. table.concat(parts)
end

-- A line is one connection: its stream, and the futures of what was sent and not answered, first to last.

local function send(line, bytes)
  local future = rl.future()
  if line.problem and future:complete(nil, line.problem, "ENOTCONN") then return future end
  line.last, line[line.last + 1] = line.last + 1, future
  line.stream:queue(bytes)
  return future
end

local function answer(line, ...)
  need(line[line.first], "EBADMSG: an answer to no call"):complete(...)
  line[line.first], line.first = nil, line.first + 1
end

function Line.__close(line, problem)
  line.problem = "ENOTCONN: not connected (" .. tostring(problem) .. ")"
  line.stream:abort()
  while line.first <= line.last do answer(line, nil, "became invalid") end
end

-- Serves one connection until it ends, which raises an error.
local function serve(self, backoff)
  local line <close> = setmetatable({ stream = need(self.connect()), first = 1, last = 0 }, Line)
  line.stream:queue(self.hello)
  local _, value, kind = need(rl.timeout(self.timeout, read, line.stream))
  need(kind ~= "-", value.message)
  for channel in pairs(self.listeners) do send(line, encode("SUBSCRIBE", channel)) end
  self.line = line
  backoff:reset()
  self.opened:complete(self)
  while true do
    value, kind = read(line.stream)
    if kind == ">" then
      local listener = value[1] == "message" and self.listeners[value[2]]
      if listener then rl.task(listener, value[3], value[2]) end
      if value[1] == "subscribe" or value[1] == "unsubscribe" then answer(line, true) end
    elseif kind == "-" or kind == "!" then answer(line, nil, value.message, value.code)
    elseif kind == "_" then answer(line, nil)
    else answer(line, value) end
  end
end

local function keep(self)
  local backoff = rl.backoff()
  repeat local _, problem = pcall(serve, self, backoff)
  until self.opened:complete(nil, problem) or rl.is_cancelled(problem) or not backoff:wait()
end

-- Commands whose answers are none or several: each later call would get another's.
local UNEVEN = { MONITOR = true, HELLO = true, RESET = true, QUIT = true, SYNC = true, PSYNC = true, CLIENT = true }

-- Sends a command, and returns the future of its answer.
function Client:ask(name, ...)
  local upper = tostring(name):upper()
  if UNEVEN[upper] or upper:find "SUBSCRIBE$" then error("client.ask: " .. upper .. " is not for calls", 2) end
  return send(self.line, encode(name, ...))
end

-- Sends a command and waits for its answer. When nothing at all came meanwhile, the connection is given up.
function Client:call(...)
  local line, first, future = self.line, self.line.first, self:ask(...)
  local value, problem, code = future:await(self.timeout)
  if not problem then return value end
  if not future:is_done() and line.first == first then line.stream:abort() end
  return value, problem, code
end

-- Calls `listener(message, channel)` in a task of its own for each message; nil ends that.
function Client:subscribe(channel, listener)
  self.listeners[channel] = listener
  return send(self.line, encode(listener and "SUBSCRIBE" or "UNSUBSCRIBE", channel)):await(self.timeout)
end

function Client:close() return self.keeper:cancel() end

-- Options: `timeout` (5), `tls`, `login = { "AUTH", user, password }`, `connect`, a function that returns a stream.
function resp.open(where, options)
  local self = setmetatable({ listeners = {}, timeout = 5, opened = rl.future() }, { __index = Client })
  for name, value in pairs(options or {}) do self[name] = value end
  local how = { timeout = self.timeout, tls = self.tls, keeps_alive = false }
  self.connect = self.connect or function() return net.connect(where, how) end
  self.hello = encode("HELLO", 3, table.unpack(self.login or {}))
  self.keeper = rl.task { keep, self, name = "resp", keeps_alive = false }
  return self.opened:await()
end

return resp
