-- runloop.http.server.response: answers to requests: values that handlers return, and streams that they write.

local native = require "runloop.http.native"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, receiver = misuse.raise, misuse.receiver
local incoming = require "runloop.http.server.request"
local events = require "runloop.http.events"

local M = {}
local Request = incoming.Request
local ROUTE = native.own.ROUTE
local TEXT <const> = "text/plain; charset=utf-8"
M.TEXT = TEXT

-- Returns the value of a field in any spelling; nil if it is missing, and false if the script suppresses it.
local function field(headers, name)
  if not headers then return nil end
  if headers[name] ~= nil then return headers[name] end
  for spelled, value in pairs(headers) do
    if type(spelled) == "string" and spelled:lower() == name then return value end
  end
end

local function route_of(request)
  local route = request[ROUTE]
  return route and (" (route %q %s)"):format(route.path, route.made) or ""
end

-- Raises an error about a handler's result; the error names the handler's route.
local function refuse(request, text, ...) error(text:format(...) .. route_of(request), 0) end

-- Returns the body's length in bytes if the handler announces one, or nil.
local function length_of(headers, name)
  local value = field(headers, "content-length")
  if not value then return nil end
  local length = math.type(value) == "integer" and value or type(value) == "number" and math.tointeger(value)
    or type(value) == "string" and #value <= 18 and value:find "^%d+$" and math.tointeger(tonumber(value))
  if not length or length < 0 then
    raise("%s: the field 'content-length' must be a count of bytes, got %s", name, misuse.describe(value))
  end
  return length
end

local function has_type(headers) return field(headers, "content-type") ~= nil end

-- Sends a head, and then `body` if it is a text. If `body` is a number, it is the length of a body that is not sent.
local function send_whole(request, status, headers, body, content_type)
  local connection = request.connection
  local bytes = connection:head(request, status, headers, body, content_type)
  -- From now on the head counts as sent: an error can no longer replace it.
  request.status = status
  return connection.stream:write(bytes)
end

-- Responses that are streams ------------------------------------------------------------------------------------------

local Response = objects.class("runloop.http.Response", { __name = "http response", __stays = true })

local RESPOND = { status = "count", headers = "table", compress = "boolean" }

function Request:respond(settings)
  receiver(self, Request, "request:respond")
  settings = misuse.options(settings, RESPOND, "request:respond", 1)
  local status, headers = settings.status or 200, settings.headers
  if headers then
    require("runloop.http.client.response").check_fields(headers, "request:respond", true)
    length_of(headers, "request:respond")
  end
  if status < 200 or status > 599 then
    raise("request:respond: field 'status' must be from 200 to 599, got " .. status)
  end
  -- A request whose client has gone gets a response object, too, and the object's calls report that.
  if self.response or not self.connection:claim(self) and not self.is_gone then
    raise("request:respond: the request has been answered already")
  end
  self.is_plain = self.is_plain or settings.compress == false
  return M.open(self, status, headers)
end

-- Begins an answer that is written piece by piece.
function M.open(request, status, headers)
  local stream = request.connection.stream
  local response = setmetatable({ request = request, stream = stream, status = status, headers = headers }, Response)
  request.response = response
  return response
end

-- MOST_DROPPED: the bytes of a body that a handler may write in one turn of the loop although they are not sent. CALL:
-- the bytes for which each call counts.
local MOST_DROPPED <const>, CALL <const> = 262144, 64

local function bodiless(status) return status == 204 or status == 304 end

-- Returns the fields for an answer, and the level if its body has to be compressed.
local function plan(request, status, headers, content_type, size)
  local settings = request.connection.server.compress
  if not settings then return headers end
  return settings:plan(request, status, headers, content_type, size)
end

-- Sends a piece of the body by a method of the stream.
local function send_piece(self, send, bytes)
  self.request.sent = self.request.sent + #bytes
  if self.is_chunked then return send(self.stream, ("%x\r\n"):format(#bytes), bytes, "\r\n") end
  return send(self.stream, bytes)
end

-- Passes the data that a response writes through a compressor.
local function compress_pieces(self, level)
  local server, stream = self.request.connection.server, self.stream
  self.pieces = server.compress.make_pieces(level, server.loop, server.modes, function(bytes, waits)
    return send_piece(self, waits and stream.write or stream.queue, bytes)
  end)
end

local function send_head(self, content_type)
  local request, is_chunked = self.request, false
  request.status = self.status
  local length = length_of(self.headers, "request:respond")
  local headers, level = plan(request, self.status, self.headers, content_type)
  if level then
    self.left, length = length, nil
    if request.method ~= "HEAD" then compress_pieces(self, level) end
  end
  if bodiless(self.status) then
    self.takes_nothing, content_type = true, nil
    if self.status == 204 then length = nil end
  elseif length then
    self.left = length
  elseif request.version == "1.1" then
    is_chunked = true
  else
    request.connection:last(request)
  end
  if request.method == "HEAD" then self.takes_nothing = true end
  local head = request.connection:head(request, self.status, headers, length, content_type, is_chunked)
  self.has_head, self.is_chunked = true, is_chunked
  return self.stream:write(head)
end

-- Raises an error for a body that does not have the announced length. Aborts the connection after a body that is too
-- short, so that no client mistakes it for the whole.
local function report_length(request, size, length, name)
  request.is_whole = size > length
  if size < length then
    request.connection:last(request)
    request.connection.stream:abort()
  end
  if name then raise("%s: the body is shorter than its Content-Length", name) end
  refuse(request, "the handler's answer has %d bytes, and its Content-Length says %d", size, length)
end

-- Sends no more of the body than was announced: a client would take the rest for the next answer.
local function send_part(request, status, headers, body, content_type, length, name)
  local connection = request.connection
  if #body < length then connection:last(request) end
  request.status, request.sent = status, math.min(#body, length)
  connection.stream:write(connection:head(request, status, headers, length, content_type), body:sub(1, length))
  report_length(request, #body, length, name)
end

-- Sends a whole answer. `name`: the method with which the script has sent the answer; nil if it has used none.
local function send_text(request, status, headers, body, content_type, name)
  local length = length_of(headers, "the handler's answer")
  local is_head, size, level = request.method == "HEAD", #body, nil
  if not length or length == size then headers, level = plan(request, status, headers, content_type, size) end
  if bodiless(status) then
    body, content_type, size = status == 304 and length or nil, nil, 0
  elseif is_head then
    body, size = not level and (length or #body) or nil, 0
  elseif level then
    body = request.connection.server.compress.compress(body, level)
    size = #body
  elseif length and length ~= size then
    return send_part(request, status, headers, body, content_type, length, name)
  end
  request.sent = size
  return send_whole(request, status, headers, body, content_type)
end

local function gone() return nil, "EPIPE: the client has gone", "EPIPE" end

function Response:flush()
  receiver(self, Response, "response:flush")
  if self.request.is_gone then return gone() end
  if not self.has_head then return send_head(self) end
  return not self.pieces or self.pieces:flush(true)
end

-- Drops a piece of a body that is not sent, as in an answer to HEAD. `write` waits only while bytes are left to send,
-- so a handler that writes for ever would hold up the loop.
local function drop(self, size)
  self.dropped = (self.dropped or 0) + size + CALL
  if self.dropped >= MOST_DROPPED then
    self.dropped = 0
    rl.sleep(0)
  end
  return true
end

local function write(self, name, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if type(value) ~= "string" and type(value) ~= "number" then
      misuse.wrong(name, "argument #" .. i, "a string", value)
    end
  end
  if self.request.is_gone then return gone() end
  if not self.has_head then send_head(self, TEXT) end
  local bytes = select("#", ...) == 1 and tostring((...)) or table.concat { ... }
  if bytes == "" then return true end
  if self.takes_nothing then return drop(self, #bytes) end
  local left = self.left
  if left and #bytes > left then
    -- Send the announced part of the body, and drop the rest.
    local rest = bytes:sub(1, left)
    self.left, self.is_over = 0, true
    if self.pieces then
      self.pieces:add(rest)
      self.pieces:finish()
      if self.is_chunked then self.stream:write "0\r\n\r\n" end
    else
      send_piece(self, self.stream.write, rest)
    end
    raise("%s: the body is longer than its Content-Length", name)
  end
  if left then self.left = left - #bytes end
  if self.pieces then
    local done, problem, code = self.pieces:add(bytes)
    if not done then return nil, problem, code end
    -- Waits while the client is slow.
    return self.stream:write ""
  end
  return send_piece(self, self.stream.write, bytes)
end

function Response:write(...)
  receiver(self, Response, "response:write")
  if self.is_over then raise("response:write: the response is finished") end
  return write(self, "response:write", ...)
end

function Response:finish(...)
  receiver(self, Response, "response:finish")
  if self.is_over then return true end
  if select("#", ...) > 0 then write(self, "response:finish", ...) end
  self.is_over = true
  if self.keeper then self.keeper:invalidate() end
  if self.request.is_gone then return gone() end
  if not self.has_head then
    self.has_head = true
    return send_text(self.request, self.status, self.headers, "", nil, "response:finish")
  end
  if self.left and self.left > 0 and not self.takes_nothing then
    self.request.connection:last(self.request)
    self.stream:abort()
    raise("response:finish: the body is shorter than its Content-Length")
  end
  if self.pieces then
    local done, problem, code = self.pieces:finish()
    if not done then return nil, problem, code end
  end
  if self.is_chunked and not self.takes_nothing then return self.stream:write "0\r\n\r\n" end
  return true
end
-- If an error ends the block, the server reports it and cuts off the unfinished answer.
Response.__close = function(self, problem)
  if problem == nil and not self.request.is_gone then self:finish() end
end

-- Server-sent events --------------------------------------------------------------------------------------------------

local Events = objects.class("runloop.http.Events", { __name = "http events", __stays = true })

local EVENTS = { keep_alive = { "seconds", "boolean" } }

local function check_events(settings, name)
  settings = misuse.options(settings, EVENTS, name, 1)
  -- A timer cannot be set further ahead than this.
  if type(settings.keep_alive) == "number" and settings.keep_alive > 1e9 then
    raise("%s: field 'keep_alive' is too long", name)
  end
  return settings
end

function Response:events(settings)
  receiver(self, Response, "response:events")
  settings = check_events(settings, "response:events")
  if self.has_head or self.is_over then raise("response:events: another response has been sent already") end
  local headers = { ["cache-control"] = "no-store", ["x-accel-buffering"] = "no" }
  for name, value in pairs(self.headers or {}) do
    if name:lower() ~= "content-length" then headers[name] = value end
  end
  self.headers = headers
  local sent, problem, code = send_head(self, "text/event-stream")
  if not sent then return nil, problem, code end
  local seconds = settings.keep_alive
  if seconds == nil or seconds == true then seconds = 15 end
  local last_id = self.request.headers["last-event-id"]
  local stream = setmetatable({ response = self, request = self.request, last_id = last_id }, Events)
  if seconds and seconds > 0 then
    -- Proxies cut silent connections.
    self.keeper = rl.timer {
      interval = seconds, name = "http keep-alive",
      callback = function()
        if stream.has_sent then stream.has_sent = false elseif not self.request.is_gone then self:write ":\n\n" end
      end,
    }
    local server = self.request.connection.server
    server.loop:add(self.keeper, server.modes)
    local keeper = self.keeper
    self.request.close_body = function() keeper:invalidate() end
  end
  return stream
end

function Request:events(settings)
  receiver(self, Request, "request:events")
  check_events(settings, "request:events")
  if self.response then raise("request:events: the request has been answered already") end
  return self:respond():events(settings)
end

function Events:send(event)
  receiver(self, Events, "events:send")
  local text = events.text_of(event, "events:send")
  if self.request.is_gone or self.response.is_over then return gone() end
  self.has_sent = true
  return self.response:write(text)
end

-- Does the same without waiting. Above the stream's limit, stream:queue aborts the connection.
function Events:queue(event)
  receiver(self, Events, "events:queue")
  local text = events.text_of(event, "events:queue")
  local request, response = self.request, self.response
  if request.is_gone or response.is_over then return gone() end
  self.has_sent = true
  if response.takes_nothing then return 0 end
  if response.pieces then
    local done, problem, code = response.pieces:add(text, true)
    if not done then return nil, problem, code end
    return response.stream:queue()
  end
  return send_piece(response, response.stream.queue, text)
end

-- Waits until the client goes or `close` is called. In both cases the task is also cancelled.
function Events:wait_closed()
  receiver(self, Events, "events:wait_closed")
  self.closed = self.closed or objects.condition "events:wait_closed"
  while not self.request.is_gone and not self.response.is_over do self.closed:wait() end
end

function Events:close()
  receiver(self, Events, "events:close")
  local done, problem, code = self.response:finish()
  if self.closed then self.closed:broadcast() end
  return done, problem, code
end
Events.__close = function(self)
  if not self.request.is_gone then self:close() end
end

-- Values that handlers return -----------------------------------------------------------------------------------------

local File = require "runloop.http.files"

local ANSWER = {
  status = true, headers = true, body = true, json = true, file = true, root = true, type = true, compress = true,
  compressed = true,
}

local function send_table(request, answer)
  for field in pairs(answer) do
    if not ANSWER[field] then
      refuse(request, "the handler's answer has an unknown field '%s'%s", tostring(field), misuse.hint(field, ANSWER))
    end
  end
  if answer.headers ~= nil and type(answer.headers) ~= "table" then
    refuse(request, "the handler's answer has headers that are %s, not a table", misuse.describe(answer.headers))
  end
  if answer.compress == false then request.is_plain = true end
  if answer.file then
    return File.send(request, answer, { plan = plan, send = send_whole, send_part = send_part, open = M.open,
      report_length = report_length, length = length_of(answer.headers, "the handler's answer") })
  end
  local body, content_type = answer.body, TEXT
  if answer.json ~= nil then
    body, content_type = require("runloop.json").encode(answer.json), "application/json"
  end
  local status = answer.status or 200
  if math.type(status) ~= "integer" or status < 200 or status > 599 then
    refuse(request, "the handler's answer has the status %s; it must be an integer from 200 to 599",
      misuse.describe(status))
  end
  if body == nil then body, content_type = "", nil end
  if type(body) == "number" then body = tostring(body) end
  if type(body) == "string" then
    if has_type(answer.headers) then content_type = nil end
    return send_text(request, status, answer.headers, body, content_type)
  end
  -- The body is a function or a stream, and is sent piece by piece.
  local following = body
  if type(body) ~= "function" then
    if not objects.method(body, "read") then
      refuse(request, "the handler's answer has a body that is neither text nor function nor stream, but a %s",
        type(body))
    end
    following = function() return body:read(65536) end
  end
  local response = request:respond { status = status, headers = answer.headers }
  while true do
    local bytes, problem = following()
    if bytes == nil then
      if problem then error(problem, 0) end
      break
    end
    if type(bytes) ~= "string" and type(bytes) ~= "number" then
      refuse(request, "the handler's answer has a body whose function returned %s; it has to return text, or nil at "
        .. "the end", misuse.describe(bytes))
    end
    if not response:write(bytes) then return end
    -- The rest of the body is not needed, and may be endless.
    if response.takes_nothing then break end
  end
  return response:finish()
end

-- Patterns of errors about an answer that other parts raise without the name of the route.
local COMPLAINTS = { "^http: ", "^json%.encode: ", "^the handler's answer: " }

-- Returns an error about an answer, and its traceback, with the handler's route.
function M.placed(request, problem, trace)
  for _, complaint in ipairs(COMPLAINTS) do
    if type(problem) == "string" and problem:find(complaint) then
      local text = problem .. route_of(request)
      return text, trace and trace:sub(1, #problem) == problem and text .. trace:sub(#problem + 1) or trace
    end
  end
  return problem, trace
end

function M.send(request, answer)
  local response = request.response
  if response then
    if answer ~= nil and answer ~= response and not request.socket then
      refuse(request, "the handler has answered by request:respond, and returned another answer")
    end
    if response ~= true then response:finish() end
    return
  end
  local kind = type(answer)
  if kind == "string" then
    request.connection:claim(request)
    return send_text(request, 200, nil, answer, TEXT)
  elseif kind == "table" then
    if answer.body == nil or type(answer.body) == "string" then request.connection:claim(request) end
    return send_table(request, answer)
  elseif math.type(answer) == "integer" and answer >= 200 and answer <= 599 then
    request.connection:claim(request)
    return send_text(request, answer, nil, "", nil)
  elseif request.is_too_large then
    error(request.is_too_large, 0)
  end
  local given = "a " .. kind
  if answer == nil then given = "nothing" end
  if kind == "number" then given = ("%s, which is not a status from 200 to 599"):format(answer) end
  refuse(request, "the handler answered %s: it has to return a string, a table or a status, or to call request:respond",
    given)
end

-- Answers after an error in the handler, or when the end of the program has cancelled it.
function M.apologize(request, is_end)
  local response, connection = request.response, request.connection
  if request.socket then return request.socket:go_away(not is_end and 1011 or nil) end
  if type(response) == "table" and response.keeper then response.keeper:invalidate() end
  -- A finished answer stays unchanged, even if an error follows it.
  local is_finished = type(response) == "table" and response.is_over and response.has_head
  if is_finished or request.is_whole then return end
  if request.status then
    -- A part of the answer was sent. If the connection ended properly now, the client would take the part for the
    -- whole.
    connection:last(request)
    connection.stream:abort()
    return
  end
  local status, text = 500, "Internal Server Error\n"
  if request.is_too_large then
    status, text = 413, "Content Too Large\n"
  elseif request.is_malformed or request.problem then
    status, text = 400, "Bad Request\n"
  end
  connection:claim(request)
  if status ~= 500 then connection:last(request) end
  send_text(request, status, nil, text, TEXT)
end

-- Functions that make answers -----------------------------------------------------------------------------------------

local function text_answer(status, default)
  return function(text) return { status = status, body = (text and tostring(text) or default) .. "\n" } end
end

local function check_status(status, name, number, first, last)
  if status ~= nil and (math.type(status) ~= "integer" or status < first or status > last) then
    misuse.wrong(name, "argument #" .. number, ("a status from %d to %d"):format(first, last), status)
  end
end

M.makers = {
  not_found = text_answer(404, "Not Found"), bad_request = text_answer(400, "Bad Request"),
  unauthorized = text_answer(401, "Unauthorized"), forbidden = text_answer(403, "Forbidden"),
  -- Ignores a table as second argument: `http.json(request:form())` passes two results.
  json = function(value, status, headers)
    if type(status) == "table" then status = nil end
    check_status(status, "http.json", 2, 200, 599)
    misuse.optional(headers, "table", "http.json", 3)
    return { status = status or 200, json = value == nil and require("runloop.json").null or value, headers = headers }
  end,
  html = function(text, status)
    misuse.argument(text, "string", "http.html", 1)
    check_status(status, "http.html", 2, 200, 599)
    return { status = status or 200, body = text, headers = { ["content-type"] = "text/html; charset=utf-8" } }
  end,
  redirect = function(url, status)
    if type(url) == "table" then url = require("runloop.http.client.request").text_of(url) end
    misuse.argument(url, "string", "http.redirect", 1)
    if not native.is_value(url) then raise("http.redirect: argument #1 has a control character") end
    if status ~= 201 then check_status(status, "http.redirect", 2, 300, 399) end
    return { status = status or 302, headers = { location = url } }
  end,
  no_content = function() return { status = 204 } end,
}

return M
