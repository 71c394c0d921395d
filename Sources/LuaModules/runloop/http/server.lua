-- runloop.http.server: connections. Each has a task that reads and takes requests apart; each request has a task of its own, which
-- is cancelled when its client goes.

local native = require "runloop.http.native"
local rl = require "runloop"
local net = require "runloop.net"
local misuse = require "runloop.misuse"
local receiver = misuse.receiver
local raise = misuse.raise
local incoming = require "runloop.http.incoming"
local answering = require "runloop.http.answering"
local log, begins = require "runloop.http.log", require("runloop.http.recording").begins

local M = {}
local now, task, condition = rl.now, rl.task, rl.condition
local read_request, write_response, new_request = native.read_request, native.write_response, incoming.new

local KNOWN = {
  tls = { "table", "boolean" }, header_timeout = "seconds", request_timeout = "seconds", idle_timeout = "seconds",
  max_header = "count", max_body = "count", max_connections = "count", access_log = { "any" }, backlog = "count",
  reuse_port = "boolean", mode = "count", name = "string", order = "any", modes = { "string", "table" },
}
local PASSED_ON = { "tls", "backlog", "max_connections", "reuse_port", "mode", "name", "order" }

local Server = { __name = "http server" }
Server.__index = Server

-- Deadlines: one timer for all connections of a server. ---------------------------------------------------------------------

local sweep

local function schedule(self, date)
  if self.sweeper then
    if self.sweeper:fire_date() <= date then return end
    self.sweeper:invalidate()
  end
  self.sweeper = rl.timer { fire_date = date, name = "http time-outs", callback = function() sweep(self) end }
  self.loop:add(self.sweeper, "common")
end

-- From `time` on, which is now if it is not given.
local function set_deadline(connection, seconds, time)
  local date = seconds and seconds > 0 and (time or now()) + seconds or math.huge
  connection.deadline = date
  if date < connection.server.next_sweep then
    connection.server.next_sweep = date
    schedule(connection.server, date)
  end
end

local expire

function sweep(self)
  self.sweeper = nil
  local earliest, time, late = math.huge, now(), nil
  for connection in pairs(self.connections) do
    local deadline = connection.deadline
    if deadline <= time then
      late = late or {}
      late[#late + 1] = connection
    elseif deadline < earliest then
      earliest = deadline
    end
  end
  self.next_sweep = earliest
  if earliest < math.huge then schedule(self, earliest) end
  for _, connection in ipairs(late or {}) do expire(connection) end
end

-- Connections ---------------------------------------------------------------------------------------------------------------

-- Whoever still sends gets an answer before the end.
local function refuse(connection, status, problem)
  local server = connection.server
  server.counts.refused = server.counts.refused + 1
  connection.is_over = true
  connection.stream:queue(write_response(status, nil, 0, problem .. "\n", "text/plain; charset=utf-8"))
  if server.log then server.log(connection, nil, status, #problem + 1, 0) end
  connection.stream:close()
end

-- Whether a request has stood still since somebody last looked: its client sends nothing of the body that is waited for, or takes
-- nothing of the answer. One whose handler is at work has not.
local function is_stalled(connection, request)
  local stream = connection.stream
  local read, written = stream:bytes_read(), stream:bytes_written()
  local has_stood = connection.read_before == read and connection.written_before == written
  connection.read_before, connection.written_before = read, written
  return has_stood and (request.is_reading or request.is_left or (stream:queue() or 0) > 0)
end

-- A time-out: of the head, of the request, or of the silence between two.
function expire(connection)
  connection.deadline = math.huge
  local request, server = connection.request, connection.server
  if request and (server.request_timeout == 0 or request.is_left) and not is_stalled(connection, request) then
    return set_deadline(connection, server.idle_timeout)
  elseif request then
    request.ended = "late"
    if not request.response then
      request.response = true
      refuse(connection, request.is_reading and 408 or 503, "the request took too long")
    else
      connection.stream:abort()
    end
    if request.task then request.task:cancel() end
  elseif connection.buffer ~= "" then
    refuse(connection, 408, "the head of the request took too long")
  else
    connection.is_over = true
    connection.stream:close()
  end
end

local process

-- The request is answered: what is left of its body is read and thrown away, unless that is too much.
local function finished(connection, request, keeps_alive)
  if connection.request ~= request then return end
  local server = connection.server
  local is_through = keeps_alive and not server.is_stopping and not connection.is_over and (request.left == 0 or request:discard())
  if is_through == nil then
    -- The next request comes behind what is still on its way.
    request.is_left = true
    is_stalled(connection, request)
    return set_deadline(connection, server.idle_timeout)
  elseif not is_through then
    connection.request = nil
    connection.is_over = true
    connection.stream:close()
    return
  end
  local time = now()
  connection.request, connection.began = nil, time
  set_deadline(connection, server.idle_timeout, time)
  if connection.buffer ~= "" then
    if not connection.is_processing then process(connection) end
    connection:drained()
  end
end

local send, explain = answering.send, log.explain

local function handle(handler, request)
  local answer = handler(request)
  if not request.ended then send(request, answer) end
end

-- In the request's task.
local function run(connection, request)
  local server = connection.server
  local is_good, problem = xpcall(handle, explain, server.handler, request)
  if request.ended then return end
  local keeps_alive = request.keeps_alive
  if not is_good then
    keeps_alive = answering.apologize(request)
    if not (request.is_too_large or request.is_malformed or request.problem) then
      server.counts.errors = server.counts.errors + 1
      log.report(request, problem)
    end
  end
  server.active = server.active - 1
  server.counts.bytes = server.counts.bytes + request.sent
  request.ended = "done"
  log.done(connection, request, request.status)
  keeps_alive = keeps_alive and request.keeps_alive
  -- A connection that is to be closed waits for a client that reads slowly, as long as one that stays.
  if not keeps_alive and not connection.is_over then connection.stream:flush(server.idle_timeout > 0 and server.idle_timeout or nil) end
  finished(connection, request, keeps_alive)
end

local function gone(connection)
  local request = connection.request
  connection.request = nil
  if not request then return end
  request.is_gone = true
  if request.ended ~= "done" then
    request.ended = "gone"
    local server = connection.server
    server.active = server.active - 1
    server.counts.cancelled = server.counts.cancelled + 1
    server.counts.bytes = server.counts.bytes + request.sent
    if request.close_body then request.close_body() end
    log.done(connection, request, 499)
    if request.task then request.task:cancel() end
    if request.arrived then request.arrived:broadcast() end
  end
end

-- Takes requests from what has been read, until one is under way or there is no whole one.
function process(connection)
  local server = connection.server
  connection.is_processing = true
  while not connection.request and not connection.is_over do
    local buffer = connection.buffer
    if buffer == "" then break end
    local position = connection.position
    local following, method, target, path, query, length, flags = read_request(buffer, position, server.max_header)
    if not following then
      if following == false then
        refuse(connection, method, target)
      elseif not connection.has_begun then
        connection.has_begun = true
        set_deadline(connection, server.header_timeout)
      end
      break
    end
    connection.has_begun = false
    if following > #buffer then connection.buffer, connection.position = "", 1 else connection.position = following end
    if not path then
      refuse(connection, 400, "a path that leaves its root, or with a bad escape")
      break
    elseif length > server.max_body then
      refuse(connection, 413, ("the body is longer than %d bytes"):format(server.max_body))
      break
    end
    local request = new_request(connection, method, target, path, query, length, flags, buffer, position)
    connection.request, request.record = request, begins(method, path) or false
    server.active = server.active + 1
    local counts, time = server.counts, connection.began
    counts.requests = counts.requests + 1
    if server.is_stopping then request.keeps_alive = false end
    if length ~= -1 then is_stalled(connection, request) end
    set_deadline(connection, server.request_timeout > 0 and server.request_timeout or server.idle_timeout, time)
    local running = task(run, connection, request)
    if connection.request == request then request.task = running end
  end
  connection.is_processing = false
end

local Connection = {}
Connection.__index = Connection

function Connection:drained()
  if self.room then self.room:broadcast() end
end

-- How much is kept for a request that does not read, or before its predecessor is answered.
local ENOUGH <const> = 262144

local function read_on(connection, stream)
  while not connection.is_over do
    local bytes = stream:read(65536)
    if not bytes then break end
    local position = connection.position
    if not connection.request then connection.began = now() end
    if connection.buffer == "" then connection.buffer, connection.position = bytes, 1
    else connection.buffer, connection.position = connection.buffer:sub(position) .. bytes, 1 end
    local request = connection.request
    if not request then
      process(connection)
    elseif request.is_left then
      finished(connection, request, true)
    elseif request.arrived then
      request.arrived:broadcast()
    end
    while #connection.buffer - connection.position >= ENOUGH and connection.request and not connection.is_over do
      connection.room = connection.room or condition()
      connection.room:wait()
    end
    local socket = connection.socket
    if socket then return socket:read_on(stream, connection) end
  end
  -- What a server that stops has refused to read is nobody's any more.
end

-- The task of a connection.
local function serve(self, stream)
  local connection = setmetatable({ server = self, stream = stream, buffer = "", position = 1, deadline = math.huge, began = now() }, Connection)
  self.connections[connection] = true
  self.count = self.count + 1
  self.counts.connections = self.counts.connections + 1
  set_deadline(connection, self.header_timeout)
  local guard <close> = setmetatable({}, { __close = function()
    self.connections[connection] = nil
    self.count = self.count - 1
    gone(connection)
    if self.count == 0 and self.stopped then self.stopped:broadcast() end
    if next(self.connections) == nil and self.sweeper then
      self.sweeper:invalidate()
      self.sweeper, self.next_sweep = nil, math.huge
    end
  end })
  read_on(connection, stream)
end

-- The server ------------------------------------------------------------------------------------------------------------------

function Server:address()
  receiver(self, Server, "server:address")
  return self.listener and self.listener:address() or "memory"
end

-- A stream from elsewhere becomes a connection of this server: for tests, and for listeners of one's own.
function Server:accept(stream)
  receiver(self, Server, "server:accept")
  if type(stream) ~= "userdata" or not tostring(stream):find "^stream" then
    raise("server:accept: argument #1 must be a stream, got %s", misuse.describe(stream))
  end
  return task(function()
    serve(self, stream)
    stream:close()
  end)
end

function Server:statistics()
  receiver(self, Server, "server:statistics")
  local counts = {}
  for name, count in pairs(self.counts) do counts[name] = count end
  counts.open, counts.active = self.count, self.active
  return counts
end

function Server:close()
  receiver(self, Server, "server:close")
  if self.is_stopping then return end
  self.is_stopping = true
  if self.listener then self.listener:close() end
  -- Those between two requests have nothing to finish.
  for connection in pairs(self.connections) do
    local request = connection.request
    if not request and connection.buffer == "" then
      connection.is_over = true
      connection.stream:close()
    elseif request then
      request.keeps_alive = false
    end
  end
end

function Server:stop(seconds)
  receiver(self, Server, "server:stop")
  if seconds ~= nil then misuse.argument(seconds, "seconds", "server:stop", 1) end
  self:close()
  for connection in pairs(self.connections) do
    if connection.socket then connection.socket:go_away() end
  end
  self.stopped = self.stopped or condition()
  local date = seconds and now() + seconds or math.huge
  while self.count > 0 and now() < date do
    self.stopped:wait(date < math.huge and date - now() or nil)
  end
  local count = self.count
  for connection in pairs(self.connections) do
    connection.is_over = true
    connection.stream:abort()
  end
  -- Those that are still in their handshake.
  if self.listener then self.listener:stop(0) end
  if count == 0 then return true end
  return nil, ("%d requests were cut off"):format(count)
end
Server.__close = function(self) self:stop(0) end

function Server:__tostring() return "http server at " .. tostring(self:address()) end

local function tls_of(tls)
  if type(tls) ~= "table" or tls.protocols then return tls end
  local copy = { protocols = { "http/1.1" } }
  for name, value in pairs(tls) do copy[name] = value end
  return copy
end

function M.serve(where, settings, handler)
  if handler == nil then settings, handler = {}, settings end
  misuse.argument(settings, "table", "http.serve", 2)
  misuse.fields(settings, KNOWN, "http.serve")
  local metatable = getmetatable(handler)
  if type(handler) ~= "function" and not (type(metatable) == "table" and metatable.__call) then
    raise("http.serve: the handler must be a function or routes, got %s", handler == nil and "nothing" or type(handler))
  end
  local self = setmetatable({
    handler = handler, connections = {}, count = 0, active = 0, next_sweep = math.huge, loop = rl.current(),
    counts = { connections = 0, requests = 0, errors = 0, refused = 0, cancelled = 0, bytes = 0 },
    header_timeout = settings.header_timeout or 10, request_timeout = settings.request_timeout or 0,
    idle_timeout = settings.idle_timeout or 60, max_header = settings.max_header or 32768, max_body = settings.max_body or 8 << 20,
  }, Server)
  local problem, code
  self.log, problem, code = log.open(settings.access_log)
  if problem then return nil, problem, code end
  if where == "memory" then return self end
  local passed = {}
  for _, name in ipairs(PASSED_ON) do passed[name] = settings[name] end
  passed.tls = tls_of(passed.tls)
  local is_good, listener
  is_good, listener, problem, code = pcall(net.serve, where, passed, function(stream) serve(self, stream) end)
  if not is_good then
    -- What is wrong is the caller's, under the name that the caller knows.
    if type(listener) ~= "string" then error(listener, 0) end
    require("runloop.misuse").raise((listener:gsub("^.-net%.serve: ", "http.serve: ")))
  elseif not listener then
    return nil, problem, code
  end
  self.listener = listener
  return self
end

return M
