-- runloop.redis.fake: a Redis server in this process, for tests. The fake speaks the protocol over streams of
-- net.memory, so a test includes the client's encoder and parser. Keys expire by the loop's clock, which is virtual
-- under `rlhost test`.

local rl = require "runloop"
local net = require "runloop.net"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local Line = require "runloop.redis.line"
local replies = require "runloop.redis.fake.replies"
local Space = require "runloop.redis.fake.spaces"
local clients = require "runloop.redis.fake.clients"

local setmetatable, getmetatable, pcall = setmetatable, getmetatable, pcall
local pairs, ipairs, type, error = pairs, ipairs, type, error
local lower, upper, format, sub = string.lower, string.upper, string.format, string.sub
local unpack, remove = table.unpack, table.remove
local receiver, Refusal = misuse.receiver, replies.Refusal

local Fake = objects.class("runloop.redis.Fake", { __name = "fake", __stays = true })

local OPTIONS = { latency = "seconds", bandwidth = "number", password = "string" }
local SPACES = 16
local LONGEST = 512 << 20
-- Seconds: the rest of a stall may be shorter than the clock can measure.
local INSTANT = 1e-6

-- Commands by name: the number of words, or the least number as a negative one, and the function.
local COMMANDS = {}
for _, part in ipairs { clients, require "runloop.redis.fake.strings", require "runloop.redis.fake.generic",
  require "runloop.redis.fake.lists", require "runloop.redis.fake.hashes", require "runloop.redis.fake.sorted" } do
  for name, command in pairs(part.commands) do COMMANDS[name] = command end
end

-- Sending -------------------------------------------------------------------------------------------------------------

local function cut_all(self)
  for _, client in ipairs { unpack(self._clients) } do client.stream:abort() end
end

local function later(seconds, client, fn)
  return rl.timer { delay = seconds, modes = client.modes, keeps_alive = false, callback = fn }
end

--- Sends bytes to a client; cuts all connections after the chosen number of bytes.
function Fake:_send(client, text)
  local left = self._drop_after
  if not left or #text < left then
    if left then self._drop_after = left - #text end
    client.stream:queue(text)
    return
  end
  self._drop_after = nil
  client.stream:queue(sub(text, 1, left))
  -- The bytes before the cut arrive.
  client.is_gone = true
  later(self._latency, client, function() cut_all(self) end)
end

-- Commands ------------------------------------------------------------------------------------------------------------

local function unknown(words)
  local shown = ""
  for at = 2, #words do
    if #shown >= 128 then break end
    shown = shown .. "'" .. sub(words[at], 1, 128 - #shown) .. "' "
  end
  local text = format("ERR unknown command '%s', with args beginning with: %s", sub(words[1], 1, 128), shown)
  replies.fail((text:gsub("[\r\n]", " ")))
end

-- Returns the command for some words.
local function command_of(words)
  local name = lower(words[1])
  local command = COMMANDS[name]
  if not command then unknown(words) end
  if command.subcommands and words[2] then
    local second = lower(words[2])
    command = command.subcommands[second]
    if not command then
      replies.fail((format("ERR unknown subcommand '%s'. Try %s HELP.", sub(words[2], 1, 128), upper(name))
        :gsub("[\r\n]", " ")))
    end
    name = name .. "|" .. second
  end
  local count = command[1]
  if count >= 0 and #words ~= count or #words < -count then
    replies.fail("ERR wrong number of arguments for '%s' command", name)
  end
  return command, name
end

local LISTENING = { subscribe = true, unsubscribe = true, psubscribe = true, punsubscribe = true, ping = true,
  quit = true, reset = true }

local function run(client, words)
  local command, name = command_of(words)
  client.command = name
  if not client.is_known and not command.is_open then replies.fail "NOAUTH Authentication required." end
  if client.protocol == 2 and client.channels.count + client.patterns.count > 0 and not LISTENING[name] then
    replies.fail("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
      .. "in this context", name)
  end
  local transaction = client.transaction
  if transaction and not command.is_immediate then
    transaction[#transaction + 1] = words
    return replies.QUEUED
  end
  return command[2](client, words)
end

-- Calls a function that may refuse a command. Returns the function's answer, and whether it has refused the command.
local function answer_of(fn, ...)
  local done, answer = pcall(fn, ...)
  if done then return answer, false end
  if getmetatable(answer) ~= Refusal then error(answer, 0) end
  return answer[1], true
end

--- Runs a command of a transaction.
function Fake:_perform(client, words)
  return (answer_of(function() return command_of(words)[2](client, words) end))
end

-- Runs a command. Returns its answer, or nil if the command blocks. If the fake refuses a command between MULTI and
-- EXEC, EXEC fails with EXECABORT.
local function execute(client, words)
  local answer, is_refused = answer_of(run, client, words)
  if is_refused and client.transaction then
    local command = COMMANDS[lower(words[1])]
    if not command or not command.is_immediate then client.is_broken = true end
  end
  return answer
end

-- Blocking ------------------------------------------------------------------------------------------------------------

--- Returns the result of `attempt(key)` for the first of some keys that has one. If the keys are empty, the client is
--- blocked until a key has a value, or the time is over. In a transaction, which never blocks, the answer is then
--- `none`, or a null instead of a list.
function Fake:_block(client, keys, seconds, attempt, none)
  local wanted = {}
  for _, key in ipairs(keys) do
    local answer = attempt(key)
    if answer then return answer end
    wanted[key] = true
  end
  if client.is_executing then return none or replies.null_list(client) end
  local blocked = { client = client, space = client.space, keys = wanted, attempt = attempt }
  client.blocked = blocked
  self._blocked[#self._blocked + 1] = blocked
  if seconds > 0 then
    blocked.timer = later(seconds, client, function() self:_unblock(blocked) end)
  end
  return nil
end

local drain

local function end_block(self, blocked)
  blocked.client.blocked = nil
  if blocked.timer then blocked.timer:invalidate() end
  for index, other in ipairs(self._blocked) do
    if other == blocked then return remove(self._blocked, index) end
  end
end

--- Ends the wait of a client with an answer, which is a null if there is none.
function Fake:_unblock(blocked, answer)
  local client = blocked.client
  if client.blocked ~= blocked then return end
  end_block(self, blocked)
  if client.is_gone then return end
  self:_send(client, answer or replies.null_list(client))
  drain(self, client)
end

-- Serves the clients that wait for a key, in the order in which they came.
local function serve_key(self, space, key, served)
  for _, blocked in ipairs { unpack(self._blocked) } do
    if blocked.space == space and blocked.keys[key] and blocked.client.blocked == blocked then
      local answer = answer_of(blocked.attempt, key)
      if answer then
        end_block(self, blocked)
        self:_send(blocked.client, answer)
        served[#served + 1] = blocked.client
      end
    end
  end
end

-- Called after a command. Serves blocked clients, then runs the commands that they have sent after the blocking
-- command.
local function serve_blocked(self)
  local served = {}
  while self._ready[1] do
    local ready = remove(self._ready, 1)
    serve_key(self, ready.space, ready.key, served)
  end
  for _, client in ipairs(served) do drain(self, client) end
end

-- Clients -------------------------------------------------------------------------------------------------------------

local function leave(self, client)
  client.is_gone = true
  for index, other in ipairs(self._clients) do
    if other == client then
      remove(self._clients, index)
      break
    end
  end
  if client.blocked then end_block(self, client.blocked) end
  clients.leave_everything(client)
  client.stream:close()
end

-- Waits until a stall is over. Returns whether there is a command.
local function is_stalled(self, client)
  local left = self._stalled - rl.now()
  if left <= INSTANT then return false end
  if not client.is_waiting then
    client.is_waiting = true
    later(left, client, function()
      client.is_waiting = nil
      drain(self, client)
    end)
  end
  return true
end

-- Runs the commands that a client has sent, up to one that blocks.
function drain(self, client)
  if client.is_draining then return end
  client.is_draining = true
  while client.first <= client.last and not (client.is_gone or client.blocked or is_stalled(self, client)) do
    local words = client.queue[client.first]
    client.queue[client.first], client.first = nil, client.first + 1
    self._received[#self._received + 1] = words
    local answer = execute(client, words)
    if answer then self:_send(client, answer) end
    serve_blocked(self)
    if client.is_ending then
      client.is_gone = true
      client.stream:close()
    end
  end
  client.is_draining = nil
end

-- Parses the commands in the bytes. Returns false if the bytes contain anything else.
local function take(self, client, bytes)
  local parser = client.parser
  parser:feed(bytes)
  while true do
    local mark, words = parser:next()
    if mark == nil then break end
    local is_good = mark == "*"
    for _, word in ipairs(is_good and words or {}) do is_good = is_good and type(word) == "string" end
    if not is_good then
      self:_send(client, "-ERR Protocol error: the fake takes arrays of strings\r\n")
      return false
    end
    if #words > 0 then
      client.last = client.last + 1
      client.queue[client.last] = words
    end
  end
  drain(self, client)
  return true
end

local function serve(self, client)
  local _ <close> = setmetatable({}, { __close = function() leave(self, client) end })
  while not client.is_gone do
    local bytes = client.stream:read()
    if not bytes or not take(self, client, bytes) then return end
  end
end

--- Accepts a client. Returns the client's stream, and a function that serves the connection in a further mode; or nil,
--- the reason and its code.
function Fake:_accept()
  if self._is_stopped then return nil, "ECONNREFUSED: connection refused (fake)", "ECONNREFUSED" end
  local near, far = net.memory { latency = self._latency, bandwidth = self._bandwidth, high_water = 1 << 20 }
  near:set_keeps_alive(false)
  far:set_keeps_alive(false)
  self._number = self._number + 1
  local client = {
    fake = self, stream = far, id = self._number, parser = Line.parser(LONGEST), protocol = 2, database = 0,
    space = self._spaces[1], queue = {}, first = 1, last = 0, watched = {}, channels = Space.Ordered.new(),
    patterns = Space.Ordered.new(), is_known = not self._password, modes = { "common" },
  }
  self._clients[#self._clients + 1] = client
  rl.task { serve, self, client, name = "fake of Redis", keeps_alive = false }
  return near, function(mode)
    local loop = rl.current()
    client.modes[#client.modes + 1] = mode
    for _, stream in ipairs { near, far } do if not loop:contains(stream, mode) then loop:add(stream, mode) end end
  end
end

function Fake:connect()
  receiver(self, Fake, "fake:connect")
  local stream, message, code = self:_accept()
  if not stream then return nil, message, code end
  return stream
end

function Fake:drop(after)
  receiver(self, Fake, "fake:drop")
  misuse.optional(after, "count", "fake:drop", 1)
  if after then self._drop_after = after else cut_all(self) end
end

function Fake:stall(seconds)
  receiver(self, Fake, "fake:stall")
  misuse.argument(seconds, "seconds", "fake:stall", 1)
  self._stalled = rl.now() + seconds
end

function Fake:stop()
  receiver(self, Fake, "fake:stop")._is_stopped = true
  cut_all(self)
end

function Fake:start() receiver(self, Fake, "fake:start")._is_stopped = false end

function Fake:received()
  local list = {}
  for index, words in ipairs(receiver(self, Fake, "fake:received")._received) do list[index] = { unpack(words) } end
  return list
end

function Fake:__tostring() return format("fake of Redis (%d clients, %s)", #self._clients, self._made_at) end

--- Makes a fake.
return function(options)
  options = misuse.options(options, OPTIONS, "redis.fake", 1)
  if options.bandwidth == 0 then
    misuse.raise "redis.fake: field 'bandwidth' must be a number of bytes per second, more than 0, got 0"
  end
  local self = setmetatable({
    _latency = options.latency or 0, _bandwidth = options.bandwidth, _password = options.password,
    _made_at = objects.made_at(), _spaces = {}, _clients = {}, _channels = Space.Ordered.new(),
    _patterns = Space.Ordered.new(), _blocked = {}, _ready = {}, _received = {}, _stalled = 0, _number = 0,
  }, Fake)
  local function on_ready(space, key)
    if self._blocked[1] then self._ready[#self._ready + 1] = { space = space, key = key } end
  end
  for index = 1, SPACES do self._spaces[index] = Space.new(on_ready) end
  return self
end
