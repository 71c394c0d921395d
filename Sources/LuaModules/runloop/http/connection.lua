-- runloop.http.connection: a connection of a server. Its task reads, and takes requests apart; each request has a task of its own, which
-- is cancelled when its client goes. What runs for every request asks for nothing that most of them do not need.

local native = require "runloop.http.native"
local rl = require "runloop"
local incoming = require "runloop.http.incoming"
local answering = require "runloop.http.answering"
local log, begins = require "runloop.http.log", require("runloop.http.recording").begins

local M = {}
local now, task, condition = rl.now, native.task, rl.condition
local read_request, write_response, write_text = native.read_requests(incoming.Request), native.write_response, native.write_text
local complete = incoming.complete
local KEEPS_ALIVE <const>, HAS_BODY <const> = 1, 64
-- The methods of streams.
local read, write

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

local function set_date(connection, date)
  connection.deadline = date
  if date < connection.server.next_sweep then
    connection.server.next_sweep = date
    schedule(connection.server, date)
  end
end

-- 0: there is no limit.
local function set_deadline(connection, seconds) set_date(connection, seconds > 0 and now() + seconds or math.huge) end

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
    log.ended(connection, 503)
    if not request.response then
      request.response = true
      refuse(connection, request.is_reading and 408 or 503, "the request took too long")
    else
      connection.stream:abort()
    end
    if connection.task then connection.task:cancel() end
  elseif connection.buffer ~= "" then
    refuse(connection, 408, "the head of the request took too long")
  else
    connection.is_over = true
    connection.stream:close()
  end
end

-- The request is answered: what is left of its body is read and thrown away, unless that is too much.
local function finished(connection, request, keeps_alive)
  if connection.request ~= request then return end
  local server = connection.server
  local is_through = keeps_alive and not server.is_stopping and not connection.is_over
    and (request.flags & HAS_BODY == 0 or request:discard())
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
  connection.request = nil
  -- One that was answered at once has the deadline already that it had when it came.
  if not connection.is_processing or server.request_timeout > 0 or server.log then
    connection.began = now()
    set_deadline(connection, server.idle_timeout)
  end
  if connection.buffer ~= "" then
    if not connection.is_processing then server.process(connection) end
    connection:drained()
  end
end

local function gone(connection)
  local request = connection.request
  connection.request = nil
  if not request then return end
  request.is_gone = true
  if request.ended ~= "done" then
    request.ended = "gone"
    local server = connection.server
    server.counts.cancelled = server.counts.cancelled + 1
    server.counts.bytes = server.counts.bytes + request.sent
    if request.close_body then request.close_body() end
    log.done(connection, request, 499)
    if connection.task then connection.task:cancel() end
    if request.arrived then request.arrived:broadcast() end
  end
end

local Connection = {}
Connection.__index = Connection

function Connection:drained()
  if self.room then self.room:broadcast() end
end

-- How much is kept for a request that does not read, or before its predecessor is answered.
local ENOUGH <const> = 262144

local send, explain = answering.send, log.explain

-- The function that is the task of each connection of a server. What it needs for each request is at hand, and not looked for.
function M.server(self)
  local handler, counts, site, patience = self.handler, self.counts, self.site, self.patience
  local max_header, max_body, access_log = self.max_header, self.max_body, self.log

  local function handle(request)
    local answer = handler(request)
    if request.ended then return 0 end
    -- What most handlers return is a text.
    local bytes = not request.response and write_text(answer, request.flags, request.keeps_alive)
    if not bytes then
      send(request, answer)
      return request.sent
    end
    request.response = "sent"
    write(request.connection.stream, bytes)
    return #answer
  end

  -- In the request's task.
  local function run(connection, request)
    local is_good, sent = xpcall(handle, explain, request)
    local trace = not is_good and log.take_trace()
    if request.ended then return end
    if not is_good then
      answering.apologize(request)
      if not (request.is_too_large or request.is_malformed or request.problem) then
        counts.errors = counts.errors + 1
        log.report(request, sent, trace)
      end
      sent = request.sent
    end
    counts.bytes = counts.bytes + sent
    request.ended = "done"
    if connection.record then log.ended(connection, request.response == "sent" and 200 or request.status) end
    if access_log then access_log(connection, request, request.response == "sent" and 200 or request.status, sent, now() - connection.began) end
    local keeps_alive = request.keeps_alive
    -- A connection that is to be closed waits for a client that reads slowly, as long as one that stays.
    if not keeps_alive and not connection.is_over then connection.stream:flush(self.idle_timeout > 0 and self.idle_timeout or nil) end
    finished(connection, request, keeps_alive)
  end

  -- Takes requests from what has been read, until one is under way or there is no whole one.
  local function process(connection)
    connection.is_processing = true
    while not connection.request and not connection.is_over do
      local buffer, position = connection.buffer, connection.position
      if buffer == "" then break end
      local following, request, method, path, flags, length, target, query = read_request(buffer, position, max_header)
      if not following then
        if following == false then
          refuse(connection, request, method)
        elseif not connection.has_begun then
          connection.has_begun = true
          set_deadline(connection, self.header_timeout)
        end
        break
      end
      connection.has_begun = false
      if following > #buffer then connection.buffer = "" else connection.position = following end
      if not path then
        refuse(connection, 400, "a path that leaves its root, or with a bad escape")
        break
      elseif length and length > max_body then
        refuse(connection, 413, ("the body is longer than %d bytes"):format(max_body))
        break
      end
      -- There is room for these fields and no more: what few need is worked out when it is asked for. `ended`: false, or "done", "late",
      -- "gone". `response`: false, true where somebody answers, "sent", or an object.
      request.connection, request.method, request.path, request.flags, request.head = connection, method, path, flags, buffer
      request.keeps_alive, request.response, request.ended = flags & KEEPS_ALIVE ~= 0 and not self.is_stopping, false, false
      if position > 1 then request.position = position end
      if target then complete(request, length, target, query) end
      connection.request, connection.record = request, begins(method, path)
      counts.requests = counts.requests + 1
      if length then is_stalled(connection, request) end
      local date = connection.began + patience
      if date < self.next_sweep then set_date(connection, date) else connection.deadline = date end
      local running = task(site, run, connection, request)
      if connection.request == request then connection.task = running end
    end
    connection.is_processing = false
  end
  self.process = process

  local function read_on(connection, stream)
    while not connection.is_over do
      local bytes = read(stream, 65536)
      if not bytes then break end
      local request, buffer = connection.request, connection.buffer
      if not request then connection.began = now() end
      if buffer ~= "" then bytes = buffer:sub(connection.position) .. bytes end
      connection.buffer, connection.position = bytes, 1
      if not request then
        process(connection)
      elseif request.is_left then
        finished(connection, request, true)
      elseif request.arrived then
        request.arrived:broadcast()
      end
      if connection.request then
        while #connection.buffer - connection.position >= ENOUGH and connection.request and not connection.is_over do
          connection.room = connection.room or condition()
          connection.room:wait()
        end
        local socket = connection.socket
        if socket then return socket:read_on(stream, connection) end
      end
    end
    -- What a server that stops has refused to read is nobody's any more.
  end

  return function(stream)
    read, write = stream.read, stream.write
    local connection = setmetatable({ server = self, stream = stream, buffer = "", position = 1, deadline = math.huge, began = now(),
      is_processing = false, is_over = false, has_begun = false, task = false }, Connection)
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
end

return M
