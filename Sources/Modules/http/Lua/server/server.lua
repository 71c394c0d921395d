-- runloop.http.server: accepts connections, counts them, and ends them.

local native = require "runloop.http.native"
local rl = require "runloop"
require "runloop.net"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise = misuse.raise
local log, connections = require "runloop.http.log", require "runloop.http.server.connection"

local M = {}
local now, task = rl.now, rl.task

local KNOWN = {
  tls = { "table", "boolean" }, header_timeout = "seconds", request_timeout = "seconds", idle_timeout = "seconds",
  max_header = "count", max_fields = "count", max_body = "count",
  max_connections = "count", max_queue = "count", access_log = { "any" }, backlog = "count",
  compress = { "table", "boolean" }, reuse_port = "boolean", mode = "count", name = "string",
  order = "any", modes = { "string", "table" },
}
local PASSED_ON = { "tls", "backlog", "max_connections", "max_queue", "reuse_port", "mode", "name", "order" }

-- `loop:add` uses the server's listener.
local Server = objects.class("runloop.http.Server", { __name = "http server", __stays = true, __item = "listener" })

-- The server ----------------------------------------------------------------------------------------------------------

function Server:address()
  return self.listener and self.listener:address() or "memory"
end

-- Serves a stream that the server has not accepted itself: for tests, and for a script's own listeners.
function Server:accept(stream)
  if type(stream) ~= "userdata" or not tostring(stream):find "^stream" then
    raise("server:accept: argument #1 must be a stream, got %s", misuse.describe(stream))
  end
  return task(function()
    self.serve(stream)
    stream:close()
  end)
end

function Server:statistics()
  local counts = {}
  for name, count in pairs(self.counts) do counts[name] = count end
  local requests, bytes = self.machine.counts()
  counts.requests, counts.bytes = requests, counts.bytes + bytes
  counts.open, counts.active = self.count, 0
  for connection in pairs(self.connections) do
    if connection:state() then counts.active = counts.active + 1 end
  end
  return counts
end

function Server:close()
  if self.is_stopping then return end
  self.is_stopping = true
  self.machine.stop()
  if self.listener then self.listener:close() end
  -- A connection between two requests can be closed at once.
  for connection in pairs(self.connections) do
    local request, unread = connection:state()
    if not request and unread == 0 then connection:close() end
  end
end

function Server:stop(seconds)
  misuse.optional(seconds, "seconds", "server:stop", 1)
  self:close()
  for connection in pairs(self.connections) do
    if connection.socket then connection.socket:go_away() end
  end
  self.stopped = self.stopped or objects.condition "server:stop"
  local date = seconds and now() + seconds or math.huge
  while self.count > 0 and now() < date do
    self.stopped:wait(date < math.huge and date - now() or nil)
  end
  -- A connection between two requests can be closed without loss, unless its answer is still being sent.
  local count = 0
  for connection in pairs(self.connections) do
    local stream, request, unread = connection.stream, connection:state()
    if request or connection.socket or unread > 0 or (stream:queue() or 0) > 0 then count = count + 1 end
    stream:abort()
    connection:close()
  end
  -- Connections that are still in their TLS handshake.
  if self.listener then self.listener:stop(0) end
  if count == 0 then return true end
  return nil, count == 1 and "1 request was cut off" or ("%d requests were cut off"):format(count)
end
objects.methods(Server, "server")
Server.__close = function(self) self:stop(0) end

function Server:__tostring()
  return ("http server (%s, %s%s)"):format(self:address(), self.is_stopping and "closed, " or "", self.made_at)
end

-- Returns a function that calls a function of the script other than its handler, such as `sni`. An error is reported,
-- and affects only this call.
local function attempt_for(self)
  local function tell(is_good, ...)
    if is_good then return true, ... end
    local problem, trace = ..., log.take_trace()
    if rl.is_cancelled(problem) then error(problem, 0) end
    self.counts.errors = self.counts.errors + 1
    log.tell("http server " .. self.made_at, problem, trace)
    return false
  end
  return function(fn, ...) return tell(xpcall(fn, log.explain, ...)) end
end

local function tls_of(tls, header_timeout)
  if type(tls) ~= "table" then return tls end
  -- A handshake has the same time limit as the head of a request.
  local copy = { protocols = { "http/1.1" }, timeout = header_timeout > 0 and header_timeout or nil }
  for name, value in pairs(tls) do copy[name] = value end
  return copy
end

function M.serve(where, settings, handler)
  if handler == nil then settings, handler = {}, settings end
  misuse.argument(settings, "table", "http.serve", 2)
  misuse.fields(settings, KNOWN, "http.serve")
  if not misuse.is_callable(handler) then misuse.wrong("http.serve", "the handler", "a function or routes", handler) end
  local self = setmetatable({
    handler = handler, connections = {}, count = 0, site = native.site(), made_at = objects.made_at(),
    loop = rl.current(),
    modes = objects.modes(settings.modes, "http.serve"),
    counts = { connections = 0, errors = 0, refused = 0, cancelled = 0, bytes = 0 },
    header_timeout = settings.header_timeout or 10, request_timeout = settings.request_timeout or 0,
    idle_timeout = settings.idle_timeout or 60, max_header = settings.max_header or 32768,
    max_fields = settings.max_fields or 256, max_body = settings.max_body or 8 << 20,
  }, Server)
  -- The time limit for a request, or for a stall of it.
  local patience = self.request_timeout > 0 and self.request_timeout or self.idle_timeout
  self.patience = patience > 0 and patience or math.huge
  local problem, code
  if settings.compress then
    self.compress, problem, code = require("runloop.http.compress").settings(settings.compress, "http.serve")
    if problem then return nil, problem, code end
  end
  self.log, problem, code = log.open(settings.access_log, "http.serve")
  if problem then return nil, problem, code end
  self.serve = connections.server(self)
  if where == "memory" then return self end
  local passed = {}
  for _, name in ipairs(PASSED_ON) do passed[name] = settings[name] end
  passed.tls = tls_of(passed.tls, self.header_timeout)
  local is_good, listener
  is_good, listener, problem, code = pcall(native.internals.serve, where, passed, self.serve, "http.serve",
    passed.tls and attempt_for(self), passed.tls and connections.on_text(self))
  if not is_good then
    -- The error is the caller's mistake, and has to name the function that the caller has called.
    if type(listener) ~= "string" then error(listener, 0) end
    raise((listener:gsub("^.-net%.serve: ", "http.serve: ")))
  elseif not listener then
    return nil, problem, code
  end
  self.listener = listener
  -- No connection can have come in between, since the loop has not run.
  if settings.modes then
    self.loop:remove(listener, "common")
    self.loop:add(listener, self.modes)
  end
  return self
end

return M
