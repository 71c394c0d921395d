-- runloop.http.server.connection: a connection of a server. Its task reads and parses requests. Each request has a task
-- of its own, which is cancelled when the client goes. serving.c does what every request needs; this file does the
-- rest.

local native = require "runloop.http.native"
local rl = require "runloop"
local incoming = require "runloop.http.server.request"
local answering = require "runloop.http.server.response"
local routes = require "runloop.http.routes"
local log, recording = require "runloop.http.log", require "runloop.http.recording"

local M = {}
local now, condition = rl.now, rl.condition
local write_response = native.write_response
local HAS_BODY = native.request_flags.HAS_BODY

-- Deadlines: one timer for all connections of a server ----------------------------------------------------------------

local sweep

local function set_next(self, date)
  self.next_sweep = date
  self.note("next_sweep", date)
end

local function schedule(self, date)
  if self.sweeper then
    if self.sweeper:fire_date() <= date then return end
    self.sweeper:invalidate()
  end
  self.sweeper = rl.timer { fire_date = date, name = "http time-outs", callback = function() sweep(self) end }
  self.loop:add(self.sweeper, self.modes)
end

local function set_date(connection, date)
  connection.deadline = date
  if date < connection.server.next_sweep then
    set_next(connection.server, date)
    schedule(connection.server, date)
  end
end

-- A limit of 0 seconds means no limit.
local function set_deadline(connection, seconds) set_date(connection, seconds > 0 and now() + seconds or math.huge) end

-- Only a request whose task waits has a task's number.
local function cancel(connection)
  if connection.task then native.cancel(connection.task) end
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
  set_next(self, earliest)
  if earliest < math.huge then schedule(self, earliest) end
  for _, connection in ipairs(late or {}) do expire(connection) end
end

-- Connections ---------------------------------------------------------------------------------------------------------

-- Returns, for the log, what can be read of a head that is not complete or not well-formed; nil if nothing can.
local function readable(bytes)
  local line = bytes:match "^[\r\n]*([^\r\n]+)"
  local method, target = (line or ""):match "^(%S+)%s*(.-)%s*$"
  if not method then return nil end
  local rest, version = target:match "^(.-)%s*HTTP/(%d%.%d)$"
  target = rest or target
  return { method = method, target = target ~= "" and target or nil, version = version, headers = {} }
end

-- The answer is sent even if the client is still sending. `request` is absent if its head could not be read.
local function refuse(connection, status, problem, request)
  local server = connection.server
  server.counts.refused = server.counts.refused + 1
  connection.is_over = true
  connection.stream:queue(write_response(status, nil, 0, problem .. "\n", "text/plain; charset=utf-8"))
  if server.log then
    request = request or readable(connection.buffer:sub(connection.position))
    server.log(connection, request, status, #problem + 1, now() - connection.began)
  end
  connection.stream:close()
end

-- Serves a client that speaks HTTP without TLS on a port with TLS: the answer names the URL to use.
function M.on_text(self)
  return function(stream)
    local began = now()
    local seconds = self.header_timeout > 0 and self.header_timeout or nil
    local head, _, code = stream:read_until("\r\n\r\n", { timeout = seconds, max = self.max_header })
    if not head and code ~= "EMSGSIZE" then return end
    local host = head and native.read_fields(head .. "\r\n\r\n", 1).host or ""
    local text = "this port speaks TLS"
    if host:find "^[%w.:_%[%]-]+$" then
      text = ("%s: https://%s%s"):format(text, host, head:match "^%u+ (/%g*) HTTP/1" or "/")
    end
    refuse({ server = self, stream = stream, buffer = head or "", position = 1, began = began }, 400, text)
  end
end

-- Whether a request has stood still since the last check: the client sends nothing of a body that is waited for, or
-- takes nothing of the answer. A request whose handler is working has not. Bytes in the kernel count as well: it
-- buffers megabytes, so that a slow client may accept nothing new for a long time while that buffer empties.
local function has_stood(connection)
  local stream = connection.stream
  local read, written, kept = stream:bytes_read(), stream:bytes_written(), native.unacknowledged(stream:fd())
  local is_as_before = connection.read_before == read and connection.written_before == written
    and connection.kept_before == kept
  connection.read_before, connection.written_before, connection.kept_before = read, written, kept
  return is_as_before
end

local function is_stalled(connection, request)
  local stream, has_stood = connection.stream, has_stood(connection)
  return has_stood and (request.is_reading or request.is_left or (stream:queue() or 0) > 0)
end

-- Called at the deadline of a head, of a request, or of the silence between two.
function expire(connection)
  connection.deadline = math.huge
  local request, server = connection.request, connection.server
  if request and (server.request_timeout == 0 or request.is_left) and not is_stalled(connection, request) then
    return set_deadline(connection, server.idle_timeout)
  elseif request then
    request.ended = "late"
    log.ended(connection, 503)
    if not request.response then
      request.response = true
      refuse(connection, request.is_reading and 408 or 503, "the request took too long", request)
    else
      log.write(connection, request, request.status or 503)
      connection.stream:abort()
    end
    cancel(connection)
  elseif connection.buffer ~= "" then
    refuse(connection, 408, "the head of the request took too long")
  else
    connection.is_over = true
    connection.stream:close()
  end
end

-- Called when a request is answered: reads and discards the rest of its body, unless that is too long.
local function finished(connection, request, keeps_alive)
  if connection.request ~= request then return end
  local server = connection.server
  local was_at_once = not connection.task
  connection.task = false
  local is_through = keeps_alive and not server.is_stopping and not connection.is_over
    and (request.flags & HAS_BODY == 0 or request:discard())
  if is_through == nil then
    -- The next request follows the bytes that are still on their way.
    request.is_left = true
    is_stalled(connection, request)
    return set_deadline(connection, server.idle_timeout)
  elseif not is_through then
    connection.request = false
    connection.is_over = true
    connection.stream:close()
    return
  end
  connection.request, connection.record = false, false
  connection.began = now()
  set_deadline(connection, server.idle_timeout)
  if connection.buffer ~= "" then
    -- If the request was answered at once, its caller continues with the next one.
    if not was_at_once then server.process(connection) end
    connection:drained()
  end
end

local function gone(connection)
  local request = connection.request
  connection.request = false
  if not request then return end
  request.is_gone = true
  if request.ended ~= "done" then
    local is_logged = request.ended == "late"
    request.ended = "gone"
    local server, socket = connection.server, connection.socket
    -- Every WebSocket ends like this, and it has its answer.
    if socket then request.sent = connection.stream:bytes_written() - socket.written_before end
    if not (socket and socket.close_sent) then server.counts.cancelled = server.counts.cancelled + 1 end
    server.counts.bytes = server.counts.bytes + request.sent
    if request.close_body then request.close_body() end
    if not is_logged then log.done(connection, request, socket and 101 or request.status or 499) end
    cancel(connection)
    if request.arrived then request.arrived:broadcast() end
  end
end

local Connection = {}
Connection.__index = Connection

function Connection:drained()
  if self.room then self.room:broadcast() end
end

-- Bytes that are buffered for a request that does not read, or whose predecessor is not answered yet.
local ENOUGH <const> = 262144

-- A head that arrives in tiny pieces is searched again for each piece, up to this size.
local LITTLE <const> = 4096

-- Returns the bytes of a head so far, or nil: a long head is joined when it has grown by half or may be complete, since
-- joining it for each piece would take quadratic time.
local function gathered(connection, bytes)
  local pieces, tail = connection.pieces, nil
  if pieces then
    tail = pieces.tail .. bytes
    pieces[#pieces + 1] = bytes
    pieces.count = pieces.count + #bytes
  else
    local buffer = connection.buffer:sub(connection.position)
    tail = buffer:sub(-3) .. bytes
    pieces = { buffer, bytes, count = #bytes }
    connection.pieces = pieces
  end
  pieces.tail = tail:sub(-3)
  local known = #pieces[1]
  if known >= LITTLE and pieces.count < known // 2 and known + pieces.count <= connection.server.max_header
    and not tail:find("\n\r\n", 1, true) then
    return nil
  end
  connection.pieces = nil
  return table.concat(pieces)
end

local send, explain = answering.send, log.explain

-- Returns the task function of a server's connections. Values that each request needs are upvalues, not fields.
function M.server(self)
  local counts, max_body, access_log = self.counts, self.max_body, self.log
  local silence = self.idle_timeout > 0 and self.idle_timeout or math.huge
  local serving = native.serving(self.max_header, self.patience, silence, access_log ~= nil, self.max_fields)
  local quick, take, note = serving.quick, serving.take, serving.note
  self.note, self.served = note, serving.counts
  if self.compress then note "compressing" end

  -- Checks and stores what a request has beyond method and path. Returns whether it may be answered.
  note("completed", function(connection, request, length, target, query)
    local status, problem
    if not request.path then
      status, problem = 400, "a path that leaves its root, or with a bad escape"
      request.target = target
    else
      incoming.complete(request, length, target, query)
      if length and length > max_body then
        status, problem = 413, ("the body is longer than %d bytes"):format(max_body)
      end
    end
    if status then
      if not connection.has_begun then connection.began = now() end
      refuse(connection, status, problem, request)
      return false
    end
    if length then is_stalled(connection, request) end
    return true
  end)

  -- Called when the answer is sent.
  local function done(connection, request, status, sent)
    if request.ended then return end
    counts.bytes = counts.bytes + sent
    request.ended = "done"
    if access_log then access_log(connection, request, status, sent, now() - connection.began) end
    local keeps_alive = request.keeps_alive
    -- Before the connection is closed, a client that reads slowly has as much time as one whose connection continues.
    if not keeps_alive and not connection.is_over then
      local seconds = self.idle_timeout > 0 and self.idle_timeout or nil
      has_stood(connection)
      repeat
        local is_sent, problem = connection.stream:flush(seconds)
      until is_sent or problem ~= "timed out" or has_stood(connection)
    end
    finished(connection, request, keeps_alive)
    return status
  end

  local function respond(request, answer)
    if request.ended then return 0 end
    send(request, answer)
    return request.sent
  end

  -- Runs in the request's task if the handler has failed, or its result is not just a text.
  local function conclude(connection, request, is_good, sent)
    if is_good then is_good, sent = xpcall(respond, explain, request, sent) end
    local trace = not is_good and log.take_trace()
    if request.ended then return end
    if not is_good then
      -- A handler that the end of the program has cancelled has made no error.
      local is_end = rl.is_cancelled(sent) and native.is_ending()
      answering.apologize(request, is_end)
      if not (is_end or request.is_too_large or request.is_malformed or request.problem) then
        counts.errors = counts.errors + 1
        log.report(request, sent, trace)
      end
      sent = request.sent
    end
    return done(connection, request, request.status, sent)
  end

  note("start", native.start)
  note("site", self.site)
  note("run", serving.run)
  note("request", incoming.Request)
  note("labels", recording.labels)
  note("label", recording.label)
  note("set_date", set_date)
  note("conclude", conclude)
  note("done", done)
  note("handler", self.handler)
  note("not_allowed", function(request)
    -- Clients may take the bytes after a CONNECT for those of a tunnel: close the connection.
    local connection = request.method == "CONNECT" and "close" or nil
    local headers = { allow = routes.allow(self.handler, request), connection = connection }
    return { status = 405, body = "Method Not Allowed\n", headers = headers }
  end)
  -- C finds routes without parameters in `exact`, unless `use` has put functions before them.
  if getmetatable(self.handler) == routes.Routes then
    note("exact", self.handler.exact)
    note("before", self.handler.before)
  end
  note("explain", explain)
  note("now", now)

  -- Takes requests from the buffer until one is being answered or the rest is incomplete.
  local function process(connection)
    while not connection.request and not connection.is_over and connection.buffer ~= "" do
      local is_taken, status, problem = take(connection)
      if not is_taken then
        if not connection.has_begun then connection.began = now() end
        if is_taken == false then
          refuse(connection, status, problem)
        elseif not connection.has_begun then
          connection.has_begun = true
          set_deadline(connection, self.header_timeout)
        end
        return
      end
      connection.has_begun = false
    end
  end
  self.process = process

  -- Handles bytes that are not exactly one whole request.
  local function arrived(connection, bytes)
    local request = connection.request
    if connection.buffer ~= "" then
      if request then
        bytes = connection.buffer:sub(connection.position) .. bytes
      else
        bytes = gathered(connection, bytes)
      end
      if not bytes then return end
    end
    connection.buffer, connection.position = bytes, 1
    if not request then
      process(connection)
    elseif request.is_left then
      finished(connection, request, true)
      process(connection)
    elseif request.arrived then
      request.arrived:broadcast()
    end
  end

  local function read_on(connection, stream)
    while not connection.is_over do
      local is_idle = not connection.request and connection.buffer == ""
      local bytes = is_idle and quick(connection, stream) or not is_idle and stream:read(65536)
      if not bytes then break end
      if bytes ~= true then arrived(connection, bytes) else process(connection) end
      if connection.request then
        while #connection.buffer - connection.position >= ENOUGH and connection.request and not connection.is_over do
          connection.room = connection.room or condition()
          connection.room:wait()
        end
        local socket = connection.socket
        if socket then return socket:read_on(stream, connection) end
      end
    end
    -- A server that stops leaves unread requests unanswered.
  end

  return function(stream)
    note("read", stream.read)
    note("write", stream.write)
    note("write_draft", native.internals.write_draft)
    local connection = setmetatable({
      server = self, stream = stream, buffer = "", position = 1, deadline = math.huge, began = now(), request = false,
      is_over = false, has_begun = false, task = false, record = false,
    }, Connection)
    self.connections[connection] = true
    self.count = self.count + 1
    self.counts.connections = self.counts.connections + 1
    set_deadline(connection, self.header_timeout)
    local guard <close> = setmetatable({}, {
      __close = function()
        self.connections[connection] = nil
        self.count = self.count - 1
        gone(connection)
        if connection.socket then connection.socket:ended() end
        if self.count == 0 and self.stopped then self.stopped:broadcast() end
        if next(self.connections) == nil and self.sweeper then
          self.sweeper:invalidate()
          self.sweeper = nil
          set_next(self, math.huge)
        end
      end,
    })
    read_on(connection, stream)
  end
end

return M
