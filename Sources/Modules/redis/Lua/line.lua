-- runloop.redis.line: one connection to Redis. The commands of all tasks go out in the order of the calls, and the
-- answers come in the same order, even if some tasks are cancelled.

local native, internals = ...
local rl = require "runloop"
local net = require "runloop.net"
local shape = require "runloop.data.shape"

local setmetatable, getmetatable, type = setmetatable, getmetatable, type
local ipairs, next, fits = ipairs, next, require "runloop.misuse".fits_memory
local format, match, unpack, max = string.format, string.match, table.unpack, math.max

-- The class of errors inside lists: the message is at 1.
local Problem = { __name = "redis error" }
local codec, uncommon_mode = native.open(Problem), native.uncommon_mode
local future_of_call = internals.open_bare_futures()

local Line = {}
Line.__index = Line

-- Errors --------------------------------------------------------------------------------------------------------------

-- The first word of an error of the server, and this library's code for it.
local CODES = {
  WRONGPASS = "EAUTH", NOAUTH = "EAUTH", NOPERM = "EACCES", BUSYKEY = "EEXIST", BUSYGROUP = "EEXIST",
  LOADING = "EAGAIN", BUSY = "EAGAIN", TRYAGAIN = "EAGAIN", ERR = "EINVAL", WRONGTYPE = "EINVAL",
  NOSCRIPT = "EINVAL", OOM = "ENOSPC", READONLY = "EROFS", MISCONF = "EIO", UNBLOCKED = "ECANCELED",
  MOVED = "ENOTSUP", ASK = "ENOTSUP", EXECABORT = "EINVAL", NOPROTO = "ENOTSUP",
}

-- Returns the message, the code and the details of an error of the server.
local function meaning(text)
  local word, rest = match(text, "^(%u+) (.*)$")
  local code = CODES[word] or "EPROTO"
  return format("%s: %s (%s)", code, rest or text, word or "ERR"), code, { code = word or "ERR" }
end

-- Answers -------------------------------------------------------------------------------------------------------------

--- Passes an answer to the first call in the queue.
function Line:answer(value)
  local first = self.first
  local waiter = self.waiters[first]
  if not waiter then return self:fail("EPROTO: an answer without a request", "EPROTO") end
  self.waiters[first] = nil
  -- An empty queue begins at 1 again: a table whose indexes only grow is laid out again and again.
  if first == self.last then self.first, self.last = 1, 0 else self.first = first + 1 end
  local kind = type(value)
  if kind == "table" and getmetatable(value) == Problem then
    local message, code, details = meaning(value[1])
    waiter:complete(nil, message, code, details)
    -- The host's name may lead to another server by now, so connect again.
    if code == "EROFS" then self:fail("ECONNRESET: the server is read-only now", "ECONNRESET") end
  elseif kind == "userdata" then
    waiter:complete(nil)
  else
    waiter:complete(value)
  end
end

-- Leaves the loop while no answer is due, if time is virtual.
local function rest(self)
  if self.first <= self.last or self.is_at_rest or self.serve_fake or self.on_push or self.problem then return end
  if not shape.is_virtual() then return end
  self.is_at_rest = true
  for mode in next, self.modes do
    if self.loop:contains(self.stream, mode) then self.loop:remove(self.stream, mode) end
  end
end

local function wake(self)
  self.is_at_rest = false
  self.loop:add(self.stream, "common")
  for mode in next, self.modes do
    if not self.loop:contains(self.stream, mode) then self.loop:add(self.stream, mode) end
  end
end

--- Checks whether the server has closed the connection while the loop did not watch it.
function Line:look()
  wake(self)
  local _ <close> = setmetatable({}, { __close = function() rest(self) end })
  rl.sleep(0)
end

-- Parses the answers in received bytes.
local function take(self, bytes)
  local parser = self.parser
  if parser:feed(bytes) == false then return self:fail("ENOMEM: no memory for an answer", "ENOMEM") end
  while not self.problem do
    local kind, value = parser:next()
    if kind == nil then return rest(self) end
    if kind == false then return self:fail(value, match(value, "^%u+")) end
    if kind == ">" then
      if self.on_push then self.on_push(value) end
    else
      self:answer(value)
    end
  end
end

-- Takes received bytes. An answer that exceeds the memory's limit ends the connection, and not the program.
local function receive(self, bytes)
  if not fits(take, self, bytes) then self:fail("ENOMEM: no memory for an answer", "ENOMEM") end
end

--- Ends the connection: every waiting call returns the reason. A malformed answer is an error of the first call.
function Line:fail(message, code)
  if self.problem then return end
  self.problem, self.code = message, code
  if self.stream then self.stream:abort() end
  local first = self.waiters[self.first]
  if first and (code == "EMSGSIZE" or code == "EPROTO" or code == "ENOMEM") then
    self.waiters[self.first], self.first = nil, self.first + 1
    first:complete(nil, message, code)
  end
  for i = self.first, self.last do
    local waiter = self.waiters[i]
    self.waiters[i] = nil
    local text = "ECONNRESET: the connection was lost: it may have happened (" .. message .. ")"
    waiter:complete(nil, text, "ECONNRESET")
  end
  self.first = self.last + 1
  if self.on_lost then self.on_lost(self) end
end

--- Closes the connection.
function Line:close()
  self.on_lost = false
  self:fail("ENOTCONN: the connection is closed", "ENOTCONN")
end

-- Commands ------------------------------------------------------------------------------------------------------------

--- Serves the connection in a mode, too.
function Line:serve(mode)
  if self.modes[mode] then return end
  self.modes[mode] = true
  if self.serve_fake then return self.serve_fake(mode) end
  if not self.loop:contains(self.stream, mode) then self.loop:add(self.stream, mode) end
end

-- Serves the connection in the mode that runs, if it is not a common mode.
local function serve_here(self)
  if self.is_at_rest then wake(self) end
  local mode = uncommon_mode()
  if mode and not self.modes[mode] then self:serve(mode) end
end

--- Sends bytes with some commands, and returns the futures of their answers.
function Line:send(bytes, count)
  if self.problem then return nil, self.problem, self.code end
  local futures = {}
  serve_here(self)
  local done, message, code = self.stream:queue(bytes)
  if not done then
    self:fail(message, code)
    return nil, message, code
  end
  for i = 1, count do
    local future = future_of_call()
    futures[i] = future
    self.last = self.last + 1
    self.waiters[self.last] = future
  end
  return futures
end

-- Collects the answers of several commands, in place of one future for each.
local Group = {}
Group.__index = Group

function Group:complete(value, message, code, details)
  if self.is_over then return end
  if code == "ECONNRESET" then
    self.is_over = true
    return self.future:complete(nil, message, code)
  end
  local index = self.index + 1
  self.index, self.answers[index] = index, value
  if message then
    self.problems = self.problems or {}
    self.problems[index] = { message = message, code = code, details = details }
  end
  if index == self.count then self.future:complete(self.answers, self.problems) end
end

--- Sends bytes with some commands, and returns a future of all answers and of the problems by number.
function Line:send_all(bytes, count)
  if self.problem then return nil, self.problem, self.code end
  serve_here(self)
  local done, message, code = self.stream:queue(bytes)
  if not done then
    self:fail(message, code)
    return nil, message, code
  end
  local future, last = future_of_call(), self.last
  local group = setmetatable({ future = future, answers = {}, index = 0, count = count }, Group)
  for i = last + 1, last + count do self.waiters[i] = group end
  self.last = last + count
  return future
end

--- Sends a command, and returns the future of its answer.
function Line:ask(bytes)
  if self.problem then return nil, self.problem, self.code end
  serve_here(self)
  local done, message, code = self.stream:queue(bytes)
  if not done then
    self:fail(message, code)
    return nil, message, code
  end
  local future, last = future_of_call(), self.last + 1
  self.last, self.waiters[last] = last, future
  return future
end

--- Sends a command given by its words, and waits for the answer.
function Line:call(seconds, ...)
  local words = { ... }
  local future, message, code = self:ask(codec.encode(words, 1, #words))
  if not future then return nil, message, code end
  return future:await(seconds)
end

--- Returns whether no call waits for an answer.
function Line:is_idle() return self.first > self.last end

-- Opening -------------------------------------------------------------------------------------------------------------

-- Logs in and sets up a new connection before any other byte is sent.
local function greet(self, options, limit)
  local function left() return max(0, limit - rl.now()) end
  local words = { "HELLO", "3" }
  if options.password then
    words[3], words[4], words[5] = "AUTH", options.user or "default", options.password
  end
  local done, message, code, details = self:call(left(), unpack(words))
  if not done and code == "EINVAL" and message:find "unknown command" then
    return nil, "ENOTSUP: Redis 6 or later is needed: the server does not know HELLO", "ENOTSUP"
  end
  if done and options.client_name then
    done, message, code, details = self:call(left(), "CLIENT", "SETNAME", options.client_name)
  end
  if done and options.database and options.database ~= 0 then
    done, message, code, details = self:call(left(), "SELECT", options.database)
  end
  for _, command in ipairs(done and options.setup or {}) do
    done, message, code, details = self:call(left(), unpack(command))
    -- A null is an answer, too.
    done = done or not message
    if not done then break end
  end
  if done then return true end
  if message == "timed out" then message, code = "ETIMEDOUT: the server does not answer", "ETIMEDOUT" end
  -- At this point no call has sent anything, so the message does not say that a command may have run.
  if code == "ECONNRESET" then message = "ECONNRESET: the connection was lost while it was made" end
  return nil, message, code, details
end

-- Makes the stream of a connection. The stream's bytes go to functions and not to a task, so that any mode can serve
-- it.
local function connect(self, options)
  local where = options.where
  if where._accept then
    -- The streams of a fake are read by tasks.
    local stream, message, code = where:_accept()
    if not stream then return nil, message, code end
    self.stream, self.serve_fake = stream, message
    rl.task { function()
      while not self.problem do
        local bytes, problem, kind = stream:read()
        if not bytes then return self:fail(problem or "the server has closed the connection", kind or "ECONNRESET") end
        receive(self, bytes)
      end
    end, keeps_alive = false }
    return true
  end
  local opened = rl.future()
  local stream, refusal, reason = net.stream {
    host = where.host, port = where.port, path = where.path, timeout = options.connect_timeout, tls = options.tls,
    keeps_alive = false,
    on_open = function() opened:complete(true) end,
    on_data = function(_, bytes) receive(self, bytes) end,
    on_end = function() self:fail("the server has closed the connection", "ECONNRESET") end,
    on_error = function(_, message, code)
      opened:complete(nil, message, code)
      self:fail(message, code)
    end,
  }
  if not stream then return nil, refusal, reason end
  self.stream = stream
  self.loop:add(stream, "common")
  serve_here(self)
  local done, message, code = opened:await()
  -- A silent network is noticed after 30 seconds.
  if done and where.host then stream:set_keepalive { idle = 15, interval = 5, count = 3 } end
  return done, message, code
end

--- Opens a connection and logs in. Waits.
function Line.open(options)
  local self = setmetatable({
    waiters = {}, first = 1, last = 0, parser = codec.parser(options.max), loop = rl.current(),
    modes = { default = true, common = true },
    -- An absent field is looked up in the class, which takes longer.
    problem = false, is_at_rest = false, serve_fake = false, on_push = false, on_lost = false,
  }, Line)
  local is_open
  local _ <close> = setmetatable({}, { __close = function()
    if not is_open and self.stream then self:close() end
  end })
  local limit = rl.now() + options.connect_timeout
  local done, message, code, details = connect(self, options)
  if done then done, message, code, details = greet(self, options, limit) end
  if not done then return nil, message, code, details end
  is_open = true
  return self
end

Line.encode, Line.encode_all, Line.parser, Line.meaning, Line.Problem =
  codec.encode, codec.encode_all, codec.parser, meaning, Problem
return Line
