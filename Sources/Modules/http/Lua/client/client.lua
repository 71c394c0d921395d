-- runloop.http.client: requests with libcurl, which the run loop drives. The descriptors and the timer that curl needs
-- are fd ports and a timer of the loop, in the client's modes.

local native = require "runloop.http.native"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise = misuse.raise
local answers = require "runloop.http.client.response"
local requests = require "runloop.http.client.request"
local recording = require "runloop.http.recording"
local admission, failure = require "runloop.http.admission", require("runloop.http.failures").of

local M = {}

local CLIENT = {
  modes = { "string", "table" }, connections = "count", max_connections = "count", cookies = "boolean",
  headers = "table", timeout = "seconds", connect_timeout = "seconds", idle_timeout = "seconds", follow = "count",
  proxy = { "string", "boolean" }, tls = { "table", "boolean" }, unix = "string", decompress = "boolean",
  max_body = "count", user = "string", password = "string", version = "string", name = "string", bind = "string",
}

local curl

-- Returns libcurl, or nil and the reason. A later call tries again.
local function load_curl()
  if curl then return curl end
  local problem, code
  curl, problem, code = native.curl()
  if curl then return curl end
  return nil, (code == "ENOPKG" and "module 'runloop.http': " or code .. ": ") .. problem, code
end

-- The client that `http.get` and the other functions of the module share.
local default

local Client = objects.class("runloop.http.Client", { __name = "http client", __stays = true })

local internals = native.internals
local is_background, set_background = internals.is_background, internals.set_background

-- Driving curl --------------------------------------------------------------------------------------------------------

local WATCHED = { "r", "w", "rw", "" }

-- Adds an item to the client's modes, and to those in which a task waits for it.
local function add(self, item)
  local loop = self.loop
  for _, mode in ipairs(self.modes) do loop:add(item, mode) end
  for mode in pairs(self.borrowed) do loop:add(item, mode) end
end

-- Counts an exchange that keeps the loop running, since no background task has begun it.
local function count_awaited(self, change)
  local before = self.awaited
  self.awaited = before + change
  if (before == 0) == (self.awaited == 0) then return end
  for _, port in pairs(self.ports) do set_background(port, self.awaited == 0) end
  if self.timer then set_background(self.timer, self.awaited == 0) end
end

local function unwatch(self, fd)
  local port = self.ports[fd]
  if not port then return end
  self.ports[fd] = nil
  port:invalidate()
end

local pump

local function watch(self, fd, events)
  local port = self.ports[fd]
  if port then
    port:set_events(events)
    return
  end
  port = rl.fd_port {
    fd = fd, events = events, name = self.name,
    callback = function(_, happened)
      local mask = 0
      if happened:find "r" then mask = mask | 1 end
      if happened:find "w" then mask = mask | 2 end
      if happened:find "[he]" then mask = mask | 4 | 1 end
      self.multi:act(fd, mask)
      pump(self)
    end,
  }
  if port then
    self.ports[fd] = port
    if self.awaited == 0 then set_background(port, true) end
    add(self, port)
  end
end

local function set_timer(self, seconds)
  if self.timer then self.timer:invalidate() end
  self.timer = nil
  if not seconds then return end
  self.timer = rl.timer {
    delay = seconds, name = self.name,
    callback = function()
      self.timer = nil
      self.multi:act(-1, 0)
      pump(self)
    end,
  }
  if self.awaited == 0 then set_background(self.timer, true) end
  add(self, self.timer)
end

-- Does the work that curl requests, and wakes tasks whose exchange has changed.
function pump(self)
  while self.multi do
    local multi = self.multi
    local kind, a, b = multi:next()
    if kind == 1 then
      if b == 4 then unwatch(self, a) else watch(self, a, WATCHED[b] or "") end
    elseif kind == 2 then
      unwatch(self, a)
      multi:close_socket(a)
    elseif kind == 3 then
      set_timer(self, a)
    elseif kind == 4 then
      local exchange = self.exchanges[a]
      if exchange then
        exchange.changed:broadcast()
        -- The bytes stay for the code that reads the answer, but the connection is free for another request.
        if exchange.is_open and select(2, exchange.transfer:state()) then exchange:finish() end
      end
    else
      return
    end
  end
end

-- Without a request nothing is watched: idle connections do not keep the loop alive.
local function rest(self)
  if self.count > 0 then return end
  for fd in pairs(self.ports) do unwatch(self, fd) end
  set_timer(self, nil)
  -- A test must not leave connections of the shared client behind. Clients that the test has made are closed by the
  -- test.
  if self == default and native.internals.loaded["runloop.test.core"] then
    self.multi:close()
    self.multi = nil
  end
end

-- Exchanges: a request and its answer ---------------------------------------------------------------------------------

local Exchange = { __name = "http exchange" }
Exchange.__index = Exchange

-- Waits until the exchange changes or its time is over: curl's own limit does not suffice, since its clock differs from
-- the loop's in tests. An error before the answer ends the exchange.
local function wait(exchange)
  local client = exchange.client
  local mode = client.loop:mode()
  if mode and not client.is_in[mode] and not client.borrowed[mode] then
    client.borrowed[mode] = true
    for _, port in pairs(client.ports) do client.loop:add(port, mode) end
    if client.timer then client.loop:add(client.timer, mode) end
  end
  exchange.waiting = true
  local guard <close> = exchange
  local limit = exchange.deadline and math.max(0, exchange.deadline - rl.now())
  if exchange.idle_timeout and exchange.is_admitted and (not limit or exchange.idle_timeout < limit) then
    limit = exchange.idle_timeout
  end
  exchange.is_late = not exchange.changed:wait(limit)
  exchange.waiting = false
end

function Exchange:__close()
  if self.waiting and not self.is_open then self:finish() end
  self.waiting = false
end

-- Releases everything that the exchange holds.
function Exchange:finish()
  if self.is_finished then return end
  self.is_finished = true
  if self.feeder then
    self.feeder:cancel()
    self.feeder = nil
  end
  self.transfer:finish()
  if self.number then self.client.exchanges[self.number] = nil end
  self.client.count = self.client.count - 1
  if not self.is_background then count_awaited(self.client, -1) end
  self.client.admission:leave(self)
  if self.record then recording.ends(self.record, self.status or 0, not self.status or self.status >= 500) end
  pump(self.client)
  rest(self.client)
end

-- Making requests -----------------------------------------------------------------------------------------------------

-- Stands for the transfer until the request has begun.
local NOT_YET = {
  state = function() return false, false, 0, 0 end, failure = function() end, finish = function() end,
  leads_to = function() end,
}

-- Starts a request for which there is a connection.
local function start(exchange)
  local self, settings = exchange.client, exchange.settings
  if exchange.refusal then return exchange.changed:broadcast() end
  requests.list_fields(settings)
  if exchange.deadline then settings.timeout = math.max(0.001, exchange.deadline - rl.now()) end
  local is_good, transfer, number = pcall(self.multi.start, self.multi, settings)
  if is_good then
    exchange.transfer, exchange.number = transfer, number
    self.exchanges[number] = exchange
    if settings.is_upload then require "runloop.http.upload"(exchange, settings.upload_size, pump) end
  else
    exchange.error = transfer
  end
  -- The task that waits has a shorter time limit from now on.
  exchange.changed:broadcast()
end

local function begin(self, request, name, is_open)
  if self.is_closed then raise(name .. ": the client is closed") end
  local settings, body = requests.prepare(self.options, request, name, is_open)
  local exchange = setmetatable({
    client = self, url = settings.url or request.url, changed = objects.condition(name), max_body = settings.max_body,
    refusal = settings.refusal, refusal_code = settings.refusal_code,
    unix = settings.unix or settings.abstract and "@" .. settings.abstract, settings = settings, body = body,
    transfer = NOT_YET, deadline = settings.timeout and rl.now() + settings.timeout,
    idle_timeout = settings.idle_timeout, redirects = 0, seconds = 0,
  }, Exchange)
  exchange.drained = exchange.changed
  local connections, in_all = self.options.connections or 64, self.options.max_connections or 0
  self.multi = self.multi or curl.multi(connections, in_all, self.options.cookies)
  self.admission = self.admission or admission.new(connections, in_all, start)
  exchange.record = recording.begins_at(settings.verb, exchange.url)
  self.count = self.count + 1
  exchange.is_background = is_background()
  if not exchange.is_background then count_awaited(self, 1) end
  self.admission:enter(exchange, exchange.url, exchange.unix)
  pump(self)
  return exchange
end

-- Follows the redirect of the answer that has arrived. Returns true if there is a redirect that may be followed.
local function goes_on(exchange)
  local url, status, seconds = exchange.transfer:leads_to()
  if not url or not require("runloop.http.redirect")(exchange, url, status) then return false end
  exchange.seconds = exchange.seconds + seconds
  exchange.client.exchanges[exchange.number] = nil
  exchange.transfer:finish()
  exchange.transfer, exchange.number = NOT_YET, nil
  -- The source of the body is not called any more.
  if exchange.feeder then exchange.feeder:cancel() end
  exchange.feeder, exchange.problem = nil, nil
  start(exchange)
  pump(exchange.client)
  return true
end

-- Whether the exchange is over, successfully or not.
local function has_ended(exchange, is_over)
  if exchange.error then
    exchange:finish()
    error(exchange.error, 0)
  end
  return is_over or exchange.refusal or exchange.is_late or exchange.is_cut
end

-- Waits for the answer's head. Returns nil, message, code if there is none.
local function await_head(exchange)
  while true do
    local is_here, is_over = exchange.transfer:state()
    if not (is_over and goes_on(exchange)) then
      if is_here and not exchange.refusal then return true end
      if has_ended(exchange, is_over and exchange.transfer:failure()) then
        local _, message, code = failure(exchange)
        exchange:finish()
        return nil, message, code
      end
      wait(exchange)
    end
  end
end

local function complete(exchange, status, head, url, version, seconds, address)
  return status, head, url, version, exchange.seconds + seconds, exchange.redirects, address
end

local function answer_of(exchange) return complete(exchange, exchange.transfer:answer()) end

local function fetch(self, name, request)
  local exchange = begin(self, request, name, false)
  while true do
    local _, is_over = exchange.transfer:state()
    if not (is_over and goes_on(exchange)) then
      if has_ended(exchange, is_over) then break end
      wait(exchange)
    end
  end
  local _, message, code = failure(exchange)
  local transfer = exchange.transfer
  local answer = not message and answers.new(answer_of(exchange))
  if answer then exchange.status = answer.status end
  if answer then answer.body = transfer:take() end
  exchange:finish()
  if message then return nil, message, code end
  return answer
end

-- Returns the next bytes of an answer's body; nil at the end; nil, message, code on failure.
function Exchange:next_bytes(max, name)
  local transfer = self.transfer
  if self.waiting then misuse.second_reader(name, self.reader) end
  while true do
    local _, is_over, waiting = transfer:state()
    if waiting > 0 then
      local bytes = transfer:take(max)
      pump(self.client)
      return bytes
    end
    if is_over or self.is_late or self.is_cut then
      local _, message, code = failure(self)
      self:finish()
      return nil, message, code
    end
    self.reader = coroutine.running()
    wait(self)
    self.reader = nil
  end
end

-- The calls -----------------------------------------------------------------------------------------------------------

local function open(self, name, request)
  local exchange = begin(self, request, name, true)
  local is_here, message, code = await_head(exchange)
  if not is_here then return nil, message, code end
  local answer = answers.open(exchange, answer_of(exchange))
  exchange.status, exchange.is_open = answer.status, true
  if select(2, exchange.transfer:state()) then exchange:finish() end
  return answer
end

-- Each call is a method of clients, and a function of the module with a shared client.
for name, request_of in pairs(requests.calls) do
  local as_method, as_function, send = "client:" .. name, "http." .. name, name == "open" and open or fetch
  local function call(self, called, ...)
    local request = request_of(called, ...)
    local is_ready, problem, code = load_curl()
    if not is_ready then return nil, problem, code end
    return send(self, called, request)
  end
  Client[name] = function(self, ...) return call(misuse.receiver(self, Client, as_method), as_method, ...) end
  M[name] = function(...)
    default = default or M.client()
    return call(default, as_function, ...)
  end
end

function Client:close()
  misuse.receiver(self, Client, "client:close")
  if self.is_closed then return end
  self.is_closed = true
  local function cut(exchange)
    exchange.is_cut = not select(2, exchange.transfer:state())
    exchange:finish()
    exchange.changed:broadcast()
  end
  if self.admission then self.admission:each_waiting(cut) end
  for _, exchange in pairs(self.exchanges) do cut(exchange) end
  for fd in pairs(self.ports) do unwatch(self, fd) end
  set_timer(self, nil)
  if self.multi then
    pump(self)
    self.multi:close()
  end
end
Client.__close = Client.close
Client.__gc = function(self)
  if self.multi and not self.is_closed then self.multi:close() end
end

function Client:__tostring()
  local name = self.name ~= "http" and ' "' .. self.name .. '"' or ""
  return ("http client%s (%s%s)"):format(name, self.is_closed and "closed, " or "", self.made_at)
end

function M.client(settings)
  settings = misuse.options(settings, CLIENT, "http.client", 1)
  local modes = objects.modes(settings.modes, "http.client")
  local self = setmetatable({
    options = settings, modes = modes, loop = rl.current(), ports = {}, exchanges = {}, count = 0, borrowed = {},
    awaited = 0,
    is_in = {}, name = settings.name or "http", made_at = objects.made_at(),
  }, Client)
  for _, mode in ipairs(modes) do
    self.is_in[mode] = true
    local also = mode == "common" and self.loop:inspect().common_modes or {}
    for _, common in ipairs(also) do self.is_in[common] = true end
  end
  return self
end

return M
