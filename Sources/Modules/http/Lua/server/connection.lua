-- runloop.http.server.connection: the policy of a server's connections: their deadlines, and requests that are refused,
-- late or cut off. The connection itself is the userdata of connection.c.

local native = require "runloop.http.native"
local rl = require "runloop"
local incoming = require "runloop.http.server.request"
local answering = require "runloop.http.server.response"
local routes = require "runloop.http.routes"
local log, recording = require "runloop.http.log", require "runloop.http.recording"

local M = {}
local now, condition = rl.now, rl.condition
local send, explain = answering.send, log.explain

-- Returns the readable part of an incomplete or malformed head, for the log; nil if there is none.
local function readable(bytes)
  local line = bytes:match "^[\r\n]*([^\r\n]+)"
  local method, target = (line or ""):match "^(%S+)%s*(.-)%s*$"
  if not method then return nil end
  local rest, version = target:match "^(.-)%s*HTTP/(%d%.%d)$"
  target = rest or target
  return { method = method, target = target ~= "" and target or nil, version = version, headers = {} }
end

-- The answer is sent even if the client is still sending. `request` is absent if its head could not be read.
local function refuse(server, connection, status, problem, request)
  local stream = connection.stream
  server.counts.refused = server.counts.refused + 1
  stream:queue(connection:head(nil, status, nil, problem .. "\n", answering.TEXT))
  if server.log then
    local _, began = connection:numbers()
    server.log(stream, request or readable(connection:rest()), status, #problem + 1, now() - began)
  end
  connection:close()
end

-- Whether nothing has been sent or received since the last check. Bytes in the kernel count as well: the kernel buffers
-- megabytes, so that a slow client may accept nothing new for a long time while the kernel's buffer empties.
local function has_stood(connection)
  local stream = connection.stream
  return connection:has_stood(stream:bytes_read(), stream:bytes_written(), native.unacknowledged(stream:fd()))
end

-- Whether a request has stalled since the last check: the client sends nothing of a body that the handler waits for, or
-- receives nothing of the answer. A request whose handler is working does not count as stalled.
local function is_stalled(connection, request, is_left)
  local has_stood = has_stood(connection)
  return has_stood and (request.is_reading or is_left or (connection.stream:queue() or 0) > 0)
end

-- A request has a task's number only if its task waits.
local function cancel(connection)
  local _, _, task = connection:numbers()
  if task then native.cancel(task) end
end

-- Called at the deadline of a head, of a request, or of the silence between two requests.
local function expire(server, connection)
  connection:set_deadline(0)
  local request, unread, is_left = connection:state()
  if not request then
    if unread == 0 then return connection:close() end
    return refuse(server, connection, 408, "the head of the request took too long")
  elseif (server.request_timeout == 0 or is_left) and not is_stalled(connection, request, is_left) then
    return connection:set_deadline(server.idle_timeout)
  end
  log.ended(connection, 503)
  local is_done = connection:standing(request)
  if connection:give_up() then
    if not is_done then log.write(server, connection, request, request.status or 503) end
    connection.stream:abort()
    connection:close()
  else
    refuse(server, connection, request.is_reading and 408 or 503, "the request took too long", request)
  end
  cancel(connection)
end

-- Runs at the earliest deadline of a server's connections, and handles the expired ones.
local function sweep(self)
  local earliest, time, late = math.huge, now(), {}
  self.sweeper = nil
  for connection in pairs(self.connections) do
    local deadline = connection:numbers()
    if deadline <= time then late[#late + 1] = connection elseif deadline < earliest then earliest = deadline end
  end
  self.machine.sweep_at(earliest)
  if earliest < math.huge then self.schedule(earliest) end
  for _, connection in ipairs(late) do expire(self, connection) end
end

-- Notes and returns the number of bytes that a request's answer has, for the log.
local function count_sent(connection, request)
  local socket = connection.socket
  if socket then
    request.sent = math.max(connection.stream:bytes_written(), socket.written or 0) - socket.written_before
  end
  return request.sent
end

-- Called when the client has gone, or the connection has ended.
local function gone(server, connection)
  local request, ended = connection:leave()
  if not request then return end
  request.is_gone = true
  if ended == "done" then return end
  local socket = connection.socket
  -- Every WebSocket ends like this; its request was already answered.
  count_sent(connection, request)
  if not (socket and socket.close_sent) then server.counts.cancelled = server.counts.cancelled + 1 end
  server.counts.bytes = server.counts.bytes + request.sent
  if request.close_body then request.close_body() end
  if not ended then
    local status = socket and 101 or request.status or 499
    log.ended(connection, status)
    log.write(server, connection, request, status)
  end
  cancel(connection)
  if request.arrived then request.arrived:broadcast() end
end

local function respond(connection, request, answer)
  if connection:standing(request) then return 0 end
  send(request, answer)
  return request.sent
end

-- Returns the functions that the connections of a server call, by name: see connection.c.
local function policy(self)
  local stream = native.internals.methods "stream"
  local of_routes = getmetatable(self.handler) == routes.Routes
  return {
    read = stream.read, write = stream.write, queue = stream.queue, close = stream.close,
    write_draft = native.internals.write_draft,
    start = native.start, site = self.site, request = incoming.Request, explain = explain, now = now,
    labels = recording.labels, label = recording.label, handler = self.handler,
    -- C finds routes without parameters in `exact`, unless `use` has put functions before them.
    exact = of_routes and self.handler.exact, before = of_routes and self.handler.before,
    encoder = function() return require("runloop.json").encode end,
    schedule = self.schedule, compare = has_stood, server = self,
    log = function(...) return log.write(self, ...) end,
    refuse = function(...) return refuse(self, ...) end,

    -- Called when bytes of the body have arrived, or the connection can take further ones.
    wake = function(request)
      if request.arrived then request.arrived:broadcast() end
      if request.room then request.room:broadcast() end
    end,

    -- Waits until an answer is sent, or its client takes nothing of it.
    linger = function(connection)
      local seconds = self.idle_timeout > 0 and self.idle_timeout or nil
      has_stood(connection)
      repeat
        local is_sent, problem = connection.stream:flush(seconds)
      until is_sent or problem ~= "timed out" or has_stood(connection)
    end,

    not_allowed = function(request)
      -- Clients may treat the bytes after a CONNECT as those of a tunnel, so close the connection.
      local connection = request.method == "CONNECT" and "close" or nil
      local headers = { allow = routes.allow(self.handler, request), connection = connection }
      return { status = 405, body = "Method Not Allowed\n", headers = headers }
    end,

    -- Runs in the request's task if the handler has failed, or its result is not just a text.
    conclude = function(connection, request, is_good, sent)
      if is_good then is_good, sent = xpcall(respond, explain, connection, request, sent) end
      local trace
      if not is_good then sent, trace = answering.placed(request, sent, log.take_trace()) end
      if connection:standing(request) then return end
      if not is_good then
        -- If the end of the program has cancelled the handler, the handler has made no error.
        local is_end = rl.is_cancelled(sent) and native.is_ending()
        answering.apologize(request, is_end)
        if not (is_end or request.is_too_large or request.is_malformed or request.problem) then
          self.counts.errors = self.counts.errors + 1
          log.report(request, sent, trace)
        end
      end
      return connection:finish(request, request.status or 0, count_sent(connection, request))
    end,
  }
end

-- Returns the task function for a function that serves a connection and calls no code of the script. An error in it,
-- such as a lack of memory for the client's data, ends this connection only: otherwise a client could end the program.
local function contained(self, serve)
  return function(stream)
    local is_good, problem = xpcall(serve, explain, stream)
    if is_good then return end
    if rl.is_cancelled(problem) then error(problem, 0) end
    stream:abort()
    self.counts.errors = self.counts.errors + 1
    pcall(log.tell, "a connection of http.serve", problem, log.take_trace())
  end
end

-- Returns the task function of a server's connections.
function M.server(self)
  function self.schedule(date)
    if self.sweeper then self.sweeper:invalidate() end
    self.sweeper = rl.timer { fire_date = date, name = "http time-outs", callback = function() sweep(self) end }
    self.loop:add(self.sweeper, self.modes)
  end
  self.machine = native.server(self, policy(self))

  -- Called when a connection's task ends: ends everything that belongs to the connection.
  local function left(connection)
    self.connections[connection] = nil
    self.count = self.count - 1
    gone(self, connection)
    if connection.socket then connection.socket:ended() end
    if self.count == 0 and self.stopped then self.stopped:broadcast() end
    if next(self.connections) == nil and self.sweeper then
      self.sweeper:invalidate()
      self.sweeper = nil
      self.machine.sweep_at(math.huge)
    end
  end

  return contained(self, function(stream)
    local connection = self.machine.connect(stream)
    self.connections[connection] = true
    self.count = self.count + 1
    self.counts.connections = self.counts.connections + 1
    connection:set_deadline(self.header_timeout)
    local guard <close> = setmetatable({}, { __close = function() left(connection) end })
    while true do
      local event = connection:next_request()
      if event == "upgraded" then
        require("runloop.http.websocket").feed(connection.socket, connection:rest())
        return connection.socket:read_on(stream)
      end
      -- A server that stops leaves unread requests unanswered.
      if event ~= "full" then return end
      local request = connection:state()
      request.room = request.room or condition()
      request.room:wait()
    end
  end)
end

-- Serves a client that speaks HTTP without TLS on a port with TLS: the answer names the URL to use.
function M.on_text(self)
  return contained(self, function(stream)
    local connection = self.machine.connect(stream)
    local seconds = self.header_timeout > 0 and self.header_timeout or nil
    local head, _, code = stream:read_until("\r\n\r\n", { timeout = seconds, max = self.max_header })
    if not head and code ~= "EMSGSIZE" then return end
    local host = head and native.read_fields(head .. "\r\n\r\n").host or ""
    local text = "this port speaks TLS"
    if host:find "^[%w.:_%[%]-]+$" then
      text = ("%s: https://%s%s"):format(text, host, head:match "^%u+ (/%g*) HTTP/1" or "/")
    end
    refuse(self, connection, 400, text, readable(head or ""))
  end)
end

return M
