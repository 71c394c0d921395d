-- A client for Redis 6 and later, over RESP3. The page "Write a client" (docs/clients.md) explains each part.
--
--     local resp = dofile "resp.lua"
--     local client = assert(resp.open "localhost:6379")
--     print(client:call("INCR", "visits"))

local rl, net = require "runloop", require "runloop.net"

local resp = { null = setmetatable({}, { __name = "resp.null", __tostring = function() return "null" end }) }
local Client, Line, HEADS = { connect = net.connect, timeout = 5 }, {}, {}

-- Reading. An error here means that the connection is unusable.

local function need(value, ...) if value then return value, ... else error((...) or "EOF: end of input", 0) end end

local SKIP, BODY, SIZES, LENGTHS = { skip = "\r\n" }, { skip = "\r\n", max = 512 << 20 }, {}, {}
local FLOATS = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0 }
local function number(text) return (need(FLOATS[text] or tonumber(text), "EBADMSG: a number expected")) end
local function refusal(text) return { code = text:match "^%S*", message = text:gsub(" ", ": ", 1) } end

-- The most frequent pieces are made once: SIZES maps 5 to "$5\r\n", and LENGTHS maps "$5" to 5. HEADS has
-- "*2\r\n$3\r\nGET\r\n".
for n = 0, 999 do SIZES[n], LENGTHS["$" .. n] = "$" .. n .. "\r\n", n end

-- Functions that read a value by the sign of its line: plain lines, strings with a length, and lists with or without
-- keys.
local LINES = { ["+"] = tostring, ["("] = tostring, [":"] = number, [","] = number, ["-"] = refusal,
  ["#"] = function(text) return text == "t" end, ["_"] = function() return resp.null end }
local BYTES = { ["$"] = tostring, ["!"] = refusal, ["="] = function(text) return text:sub(5) end }
local KEYED = { ["*"] = false, ["~"] = false, [">"] = false, ["%"] = true, ["|"] = true }

-- Reads a value: returns it and its sign. `read_line` would take half a line for a whole one at the end of input.
local function read(stream)
  local line, problem = stream:read_until "\r\n"
  if LENGTHS[line] then return stream:read_exactly(LENGTHS[line], SKIP) or need(nil, "a text is cut off"), "$" end
  local kind, rest = need(line, problem):sub(1, 1), line:sub(2)
  if LINES[kind] then return LINES[kind](rest), kind end
  local length, meaning, value = number(rest), BYTES[kind], {}
  if meaning then return meaning((need(stream:read_exactly(length, BODY)))), kind end
  for i = 1, need(KEYED[kind] ~= nil and length, "EBADMSG: not RESP3") do
    local key = KEYED[kind] and read(stream) or i
    value[key] = read(stream)
  end
  if kind == "|" then return read(stream) else return value, kind end
end

-- Writing: a command is a list of texts and numbers.
local function encode(...)
  local parts = { ... }
  for i = 1, #parts do parts[i] = "$" .. #(parts[i] .. "") .. "\r\n" .. parts[i] .. "\r\n" end
  return "*" .. #parts .. "\r\n" .. table.concat(parts)
end

-- A line is one connection: its stream, and the futures of unanswered commands, oldest first.

local function send(line, ...)
  local future = rl.future()
  if line.problem and future:complete(nil, line.problem, "ENOTCONN") then return future end
  line.last, line[line.last + 1] = line.last + 1, future
  line.stream:queue(...)
  return future
end

local function answer(line, ...)
  (line[line.first] or need(nil, "EBADMSG: an answer to no call")):complete(...)
  line.first, line[line.first] = line.first + 1, nil
  if line.first > line.last then line.first, line.last = 1, 0 end
end

function Line.__close(line, problem)
  line.problem = "ENOTCONN: not connected (" .. tostring(problem) .. ")"
  line.stream:abort()
  while line.first <= line.last do answer(line, nil, "became invalid") end
end

-- Serves one connection until it ends, which raises an error.
local function serve(self, backoff)
  local line <close> = setmetatable({ stream = need(self.connect(self.where, self.how)), first = 1, last = 0 }, Line)
  line.stream:queue(encode("HELLO", 3, table.unpack(self.login or {})))
  local _, value, kind = need(rl.timeout(self.timeout, read, line.stream))
  need(kind ~= "-", value.message)
  for channel in pairs(self.listeners) do send(line, encode("SUBSCRIBE", channel)) end
  self.line = line
  backoff:reset()
  self.opened:complete(self)
  while true do
    value, kind = read(line.stream)
    if kind == ">" then
      local fn = value[1] == "message" and self.listeners[value[2]]
      if fn then rl.task(fn, value[3], value[2]) elseif value[1]:find "subscribe$" then answer(line, true) end
    elseif kind == "-" or kind == "!" then answer(line, nil, value.message, value.code)
    elseif kind == "_" then answer(line, nil)
    else answer(line, value) end
  end
end

local function keep(self, backoff)
  repeat local _, problem = pcall(serve, self, backoff)
  until self.opened:complete(nil, problem) or rl.is_cancelled(problem) or not backoff:wait()
end

-- Commands with no answer, or with several: after one, each later call would get the answer of another.
local UNEVEN = { MONITOR = true, HELLO = true, RESET = true, QUIT = true, SYNC = true, PSYNC = true, CLIENT = true }

-- Sends a command, and returns the future of its answer. Writing pieces costs less than joining them first.
function Client:ask(name, key, ...)
  local head = HEADS[name]
  local size = head and key and ... == nil and SIZES[#(key .. "")]
  if size then return send(self.line, head, size, key, "\r\n") end
  local upper = name:upper()
  if UNEVEN[upper] or upper:find "SUBSCRIBE$" then error("client.ask: " .. upper .. " is not for calls", 2) end
  HEADS[name] = "*2\r\n" .. encode(name):match "%$.*"
  return send(self.line, encode(name, key, ...))
end

-- Sends a command and waits for its answer. If no answer to any call came meanwhile, the connection is closed.
function Client:call(...)
  local line, oldest, future = self.line, self.line[self.line.first], self:ask(...)
  future:await(self.timeout)
  if not future:is_done() and line[line.first] == (oldest or future) then line.stream:abort() end
  return future:await(0)
end

-- Calls `listener(message, channel)` in a task of its own for each message; nil ends that.
function Client:subscribe(channel, listener)
  self.listeners[channel] = listener
  return send(self.line, encode(listener and "SUBSCRIBE" or "UNSUBSCRIBE", channel)):await(self.timeout)
end

function Client:close() return self.keeper:cancel() end

-- Options: `timeout` (5), `tls`, `login = { "AUTH", user, password }`, `connect`, a function that returns a stream.
function resp.open(where, options)
  local self = setmetatable({ listeners = {}, opened = rl.future() }, { __index = Client })
  for name, value in pairs(options or {}) do self[name] = value end
  self.where, self.how = where, { timeout = self.timeout, tls = self.tls, keeps_alive = false }
  self.keeper = rl.task { keep, self, rl.backoff(), name = "resp", keeps_alive = false }
  return self.opened:await()
end

return resp
