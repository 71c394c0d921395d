-- runloop.socket.tcp: connections, masters and listeners of TCP and of Unix streams. The descriptor is made here; a
-- stream of runloop.net carries the bytes of a connection.

local _, internals = ...
local rl, net = require "runloop", require "runloop.net"
local common = require "runloop.socket.common"
local system, check = common.system, common.check
local left, wait, begin = common.left, common.wait, common.begin
local stream_methods = internals.methods "stream"
local read_until, read, buffered = stream_methods.read_until, stream_methods.read, stream_methods.buffered
local queue, flush, peek = stream_methods.queue, stream_methods.flush, stream_methods.peek
local bytes_read = stream_methods.bytes_read
local look, await_input, take_line = internals.look, internals.await_input, internals.take_line
local type, tonumber, ipairs = type, tonumber, ipairs
local find, gsub, byte, sub = string.find, string.gsub, string.byte, string.sub
local concat, min, now = table.concat, math.min, rl.now

local methods = {}
local metatable = common.class("tcp", methods)

-- A client that is collected closes its descriptor, unless it has a stream: then the stream closes the descriptor.
metatable.__gc = function(self)
  if not self.stream then common.close(self) end
end
metatable.__close = function(self) self:close() end

local function make(class, fd, family)
  return common.new(metatable, class, { fd = fd, family = family, born = now() })
end

-- Streams ------------------------------------------------------------------------------------------------------------
-- Without a time limit, the stream's reads wait by themselves. With a time limit, they only look for input, and
-- `receive` waits.
local function limit_stream(self)
  self.stream:set_timeout((self.block or self.total) and 0 or nil)
end

-- Returns the stream of a connection; makes it at the first use. Returns nil if the connection is closed.
local function open(self)
  local stream = self.stream
  if stream or not self.fd then return stream end
  stream = net.open(self.fd, { owns = true, keeps_alive = true })
  self.stream = stream
  if stream then limit_stream(self) end
  return stream
end


local CLOSED <const> = {
  ECONNRESET = true, EPIPE = true, EBADF = true, ECANCELED = true, ECONNABORTED = true, TLS_TRUNCATED = true,
}

-- Returns lua-socket's word for a failure of a stream.
local function word_of(problem, code)
  if problem == nil or code == "EOF" or CLOSED[code] then return "closed" end
  if problem == "timed out" or code == "ETIMEDOUT" then return "timeout" end
  if code == "ECONNREFUSED" then return "connection refused" end
  return problem
end

-- Receiving ----------------------------------------------------------------------------------------------------------
local function without_returns(line)
  if byte(line, -1) == 13 then line = sub(line, 1, -2) end
  if find(line, "\r", 1, true) then line = gsub(line, "\r", "") end
  return line
end

-- Bytes that a call has taken and not returned are in `self.rest`, a list of pieces, even after its task was cancelled.
local function keep(self, bytes)
  local rest = self.rest
  if rest then rest[#rest + 1] = bytes else self.rest = { bytes } end
end

-- Returns these bytes as one text.
local function joined(self)
  local rest = self.rest
  if not rest then return "" end
  if rest[2] then
    rest = { concat(rest) }
    self.rest = rest
  end
  return rest[1]
end

-- Takes the first `count` bytes out of `self.rest`, and drops the bytes after them up to the position `after`.
local function take_first(self, count, after)
  local text = joined(self)
  self.rest = after < #text and { sub(text, after + 1) } or nil
  return sub(text, 1, count)
end

-- Both of these functions consume as many bytes of the stream as they can use. The functions return the complete
-- result, or nil, a problem and a code. `self.rest` has no whole line, and fewer bytes than requested.
local function next_line(self, stream)
  local line, problem, code = read_until(stream, "\n")
  if not line then return nil, problem, code end
  local rest = self.rest
  if not rest then return line end
  self.rest = nil
  rest[#rest + 1] = line
  return concat(rest)
end

local function next_bytes(self, stream, count)
  local missing = count - #joined(self)
  while missing > 0 do
    local piece, problem, code = read(stream, min(missing, 65536))
    if not piece then return nil, problem, code end
    keep(self, piece)
    missing = missing - #piece
  end
  local bytes = concat(self.rest)
  self.rest = nil
  return bytes
end

local function next_of_all(self, stream)
  while true do
    local piece, problem, code = read(stream, 65536)
    if not piece then return nil, problem, code end
    keep(self, piece)
  end
end

-- Waits for bytes, but takes none.
local function nothing(_, stream) return peek(stream, 1) end

local function take_rest(self, stream)
  local count = buffered(stream)
  local bytes = count > 0 and read(stream, count)
  if bytes then keep(self, bytes) end
end

-- Waits for input. Returns true, or nil, a problem and a code.
local function await(self, stream, wait_options)
  local limit = left(self)
  if limit == 0 then return nil, "timed out" end
  wait_options.timeout = limit
  local came, problem, code = await_input(stream, wait_options)
  if came then return true end
  return nil, problem, code
end

-- Calls `take` until it returns the complete result; or returns a problem in the form of LuaSocket.
local function gather(self, stream, take, count)
  local has_limit, looked_at, options = self.block or self.total, nil, {}
  while true do
    local bytes, problem, code = take(self, stream, count)
    if bytes then return bytes end
    if code == "EMSGSIZE" then
      take_rest(self, stream)
    elseif problem ~= "timed out" or not has_limit then
      take_rest(self, stream)
      return nil, word_of(problem, code)
    elseif looked_at ~= bytes_read(stream) then
      -- After a read that did not fill its buffer, the stream takes the socket for empty. Ask the kernel again.
      looked_at = bytes_read(stream)
      look(stream)
    else
      take_rest(self, stream)
      local came
      came, problem, code = await(self, stream, options)
      if not came then return nil, word_of(problem, code) end
    end
  end
end

local function receive_slowly(self, pattern, prefix)
  prefix = common.text(prefix, 2, "receive", "")
  local take, count
  if pattern == nil or type(pattern) == "string" and not tonumber(pattern) then
    local two = sub(pattern or "*l", 1, 2)
    take = two == "*l" and next_line or two == "*a" and next_of_all
  else
    count = tonumber(pattern) or common.text(pattern, 1, "receive")
    if count >= 0 then take, count = next_bytes, count // 1 | 0 end
  end
  if not take then common.bad(1, "receive", "invalid receive pattern") end
  if count and #prefix > 0 then
    if count <= #prefix then return prefix, nil, nil end
    count = count - #prefix
  end
  local kept, at = joined(self), nil
  if take == next_line then
    at = find(kept, "\n", 1, true)
    if at then return prefix .. without_returns(take_first(self, at - 1, at)), nil, nil end
  elseif count and #kept >= count and (count > 0 or kept ~= "") then
    return prefix .. take_first(self, count, count), nil, nil
  end
  begin(self)
  local stream = open(self)
  if not stream then return nil, "closed", prefix end
  local bytes, problem = gather(self, stream, count == 0 and nothing or take, count)
  if bytes then
    if take == next_line then bytes = without_returns(bytes) end
    return prefix .. (count == 0 and "" or bytes), nil, nil
  end
  local partial = joined(self)
  self.rest = nil
  if take == next_of_all and problem == "closed" and partial ~= "" then return prefix .. partial, nil, nil end
  if take == next_line then partial = gsub(partial, "\r", "") end
  return nil, problem, prefix .. partial
end

function methods.receive(self, pattern, prefix)
  if type(self) ~= "table" then check(self, "receive", "tcp{client}") end
  -- The frequent case comes first: a complete line is buffered.
  local stream = self.stream
  if stream and not self.rest and prefix == nil and (pattern == nil or pattern == "*l") then
    local line, is_rest = take_line(stream)
    if line then
      if find(line, "\r", 1, true) then line = gsub(line, "\r", "") end
      if not is_rest then return line, nil, nil end
      return nil, "closed", line
    end
  end
  check(self, "receive", "tcp{client}")
  return receive_slowly(self, pattern, prefix)
end

function methods.dirty(self)
  check(self, "dirty", "tcp{any}")
  return self.rest ~= nil or self.stream ~= nil and buffered(self.stream) > 0
end

-- Sending ------------------------------------------------------------------------------------------------------------
-- Bytes that the stream has taken count as sent: the stream sends them later. The stream accepts only a few more bytes
-- than the kernel.
local PIECE <const> = 65536

-- Writes the bytes from `first` to `last` to the stream. Returns the index of the last byte that the stream accepted,
-- and the problem.
local function give(self, stream, data, first, last)
  local has_limit = self.block or self.total
  while first <= last do
    local limit = has_limit and left(self) or nil
    if limit then
      look(stream)
      local done, problem, code = flush(stream, limit)
      if not done then return first - 1, word_of(problem, code) end
    end
    local to = limit and min(first + PIECE - 1, last) or last
    local taken, problem, code = queue(stream, first == 1 and to == #data and data or sub(data, first, to))
    if not taken then return first - 1, word_of(problem, code) end
    local done
    done, problem, code = flush(stream, limit and left(self))
    if not done and (problem ~= "timed out" or not limit) then return first - 1, word_of(problem, code) end
    first = to + 1
  end
  return first - 1
end

function methods.send(self, data, first, last)
  check(self, "send", "tcp{client}")
  data = common.text(data, 1, "send")
  first, last = common.number(first, 2, "send", 1) // 1 | 0, common.number(last, 3, "send", -1) // 1 | 0
  if first < 0 then first = #data + first + 1 end
  if last < 0 then last = #data + last + 1 end
  if first < 1 then first = 1 end
  if last > #data then last = #data end
  begin(self)
  local stream = open(self)
  if not stream then return nil, "closed", first - 1 end
  if first > last then return first - 1, nil, nil end
  local sent, problem = give(self, stream, data, first, last)
  self.sent = (self.sent or 0) + sent - first + 1
  if problem then return nil, problem, sent end
  return sent, nil, nil
end

-- Connecting ---------------------------------------------------------------------------------------------------------
local function ensure(self, family)
  if self.fd then return true end
  if self.is_closed then return nil, "closed" end
  local fd, problem = system.open(family, "stream")
  self.fd = fd
  return fd, problem
end

local function connect_to(self, address, port)
  local done, problem, number = system.connect(self.fd, address, port)
  if done then return 1 end
  if number ~= system.EINPROGRESS then return nil, problem end
  local ready
  ready, problem = wait(self, "w")
  if not ready then return nil, problem end
  problem = system.problem(self.fd)
  if problem then return nil, problem end
  return 1
end

local function port_of(port, number, name)
  if type(port) == "number" and port % 1 == 0 then port = ("%d"):format(port) end
  return common.text(port, number, name)
end

function methods.connect(self, host, port)
  check(self, "connect", "tcp{any}")
  host, port = common.text(host, 1, "connect"), port_of(port, 2, "connect")
  begin(self)
  local list, problem = common.addresses(host, self.family, left(self) ~= 0)
  if not list then return nil, problem end
  local done
  for _, address in ipairs(list) do
    local family = self.family or common.family_of(address)
    done, problem = ensure(self, family)
    if done then
      done, problem = connect_to(self, address, port)
      if done or problem == "timeout" then break end
      -- After a failed connection, a socket cannot try another address, so make a new one.
      if list[2] and not self.family then common.close(self) end
    end
  end
  if self.fd then self.class = "tcp{client}" end
  if done then return 1 end
  return nil, problem
end

function methods.bind(self, host, port)
  check(self, "bind", "tcp{master}")
  host, port = common.text(host, 1, "bind"), port_of(port, 2, "bind")
  local list, problem = common.addresses(host, self.family, left(self) ~= 0)
  if not list then return nil, problem end
  local done
  done, problem = ensure(self, self.family or common.family_of(list[1]))
  if done then
    if host == "*" and self.family == "inet6" then host = "::" end
    done, problem = system.bind(self.fd, list[1] == "*" and "*" or list[1], port)
  end
  if done then return 1 end
  return nil, problem
end

function methods.listen(self, backlog)
  check(self, "listen", "tcp{master}")
  local done, problem = system.listen(self.fd or -1, common.number(backlog, 1, "listen", 32) // 1 | 0)
  if not done then return nil, problem end
  self.class = "tcp{server}"
  return 1
end

function methods.accept(self)
  check(self, "accept", "tcp{server}")
  begin(self)
  while self.fd do
    local fd, problem, number = system.accept(self.fd)
    if fd then return make("tcp{client}", fd, self.family) end
    if number ~= system.EAGAIN then return nil, problem end
    local ready
    ready, problem = wait(self, "r")
    if not ready then return nil, problem end
  end
  return nil, "closed"
end

-- The rest -----------------------------------------------------------------------------------------------------------
function methods.close(self)
  check(self, "close", "tcp{any}")
  self.is_closed, self.more_received = true, (self:getstats())
  if self.stream then
    self.stream:close()
    self.stream, self.fd, self.rest = nil, nil, nil
  else
    common.close(self)
  end
  return 1
end

local HOW <const> = { receive = true, send = true, both = true }

function methods.shutdown(self, how)
  check(self, "shutdown", "tcp{client}")
  how = common.text(how, 1, "shutdown", "both")
  if not HOW[how] then common.bad(1, "shutdown", ("invalid option '%s'"):format(how)) end
  if not self.fd then return 1 end
  if self.stream and how ~= "receive" and (self.stream:tls() or not flush(self.stream, 0)) then
    self.stream:finish()
    if how == "send" then return 1 end
    how = "receive"
  end
  system.shutdown(self.fd, how)
  return 1
end

function methods.settimeout(self, value, mode)
  check(self, "settimeout", "tcp{any}")
  local done = common.set_timeout(self, value, mode)
  if self.stream then limit_stream(self) end
  return done
end

function methods.gettimeout(self) return common.get_timeout(self) end

function methods.getfd(self)
  check(self, "getfd", "tcp{any}")
  return self.fd or -1
end

function methods.setfd(self, fd)
  check(self, "setfd", "tcp{any}")
  fd = common.number(fd, 1, "setfd") // 1 | 0
  self.fd, self.stream, self.rest = fd >= 0 and fd or nil, nil, nil
  return 1
end

function methods.getsockname(self)
  check(self, "getsockname", "tcp{any}")
  local host, port, family = system.name(self.fd or -1)
  if not host then return nil, port end
  return host, port, family
end

function methods.getpeername(self)
  check(self, "getpeername", "tcp{any}")
  return common.peer(self)
end

function methods.getfamily(self)
  check(self, "getfamily", "tcp{any}")
  return common.family(self)
end

function methods.setoption(self, name, value)
  check(self, "setoption", "tcp{any}")
  return common.set_option(self, name, value)
end

function methods.getoption(self, name)
  check(self, "getoption", "tcp{any}")
  return common.get_option(self, name)
end

function methods.getstats(self)
  check(self, "getstats", "tcp{any}")
  local received = self.stream and self.stream:bytes_read() - buffered(self.stream) - #joined(self) or 0
  return received + (self.more_received or 0), (self.sent or 0), now() - self.born
end

function methods.setstats(self, received, sent, age)
  check(self, "setstats", "tcp{any}")
  local own = self:getstats() - (self.more_received or 0)
  self.more_received = (tonumber(received) or own) - own
  self.sent = tonumber(sent) or self.sent
  if tonumber(age) then self.born = now() - age end
  return 1
end

-- Returns the stream of a connection, for a program that gets it.
function internals.stream_of(object) return getmetatable(object) == metatable and open(object) or nil end

return { make = make, methods = methods, metatable = metatable, open = open, limit_stream = limit_stream }
