-- runloop.http.server.request: a request for its handler.

local native = require "runloop.http.native"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local receiver = misuse.receiver

local M = {}
local flags, own = native.request_flags, native.own
-- Indices of values that few requests need.
local CONNECTION, FLAGS, HEAD, ROUTE = own.CONNECTION, own.FLAGS, own.HEAD, own.ROUTE

local Request = objects.class("runloop.http.Incoming", { __name = "http request", __stays = true })
M.Request = Request

local function add_value(values, lists, name, value)
  if values[name] == nil then
    values[name], lists[name] = value, { value }
  else
    lists[name][#lists[name] + 1] = value
  end
end

-- Parses "a=1&b=2". Returns the first value of each name, and the lists of all values.
local function parse_form(text) return require("runloop.url").parse_query(text) end

-- Fields that are computed at first use.
local LAZY = {
  connection = function(self) return self[CONNECTION] end,
  flags = function(self) return self[FLAGS] end,
  response = function(self) return select(2, self.connection:standing(self)) or nil end,
  headers = function(self)
    local head = self[HEAD]
    self[HEAD] = nil
    return native.read_fields(head)
  end,
  target = function(self) return self.path end,
  version = function(self) return self.flags & flags.IS_OLD ~= 0 and "1.0" or "1.1" end,
  is_upgrade = function(self) return self.flags & flags.IS_UPGRADE ~= 0 end,
  query = function(self) return (parse_form(self.query_string)) end,
  query_lists = function(self) return select(2, parse_form(self.query_string)) end,
  peer = function(self) return self.connection.stream:peer() or "unix:" end,
  tls = function(self) return self.connection.stream:tls() end,
  stream = function(self) return self.connection.stream end,
  cookies = function(self)
    local cookies = {}
    for name, value in (self.headers.cookie or ""):gmatch '([^=; ]+)="?([^;"]*)"?' do
      cookies[name] = cookies[name] or value
    end
    return cookies
  end,
  params = function() return {} end,
  query_string = function() return "" end,
  sent = function() return 0 end,
  route = function(self) return self[ROUTE] and self[ROUTE].path end,
}

function Request.__index(self, name)
  local lazy = LAZY[name]
  if not lazy then return Request[name] end
  local value = lazy(self)
  self[name] = value
  return value
end

function Request:__tostring() return ("http request %s %s"):format(self.method, self.target) end

-- Bodies --------------------------------------------------------------------------------------------------------------

-- Open while a task waits for bytes of a request.
local Waiting = {}
function Waiting:__close() self.request.is_reading, self.request.reader = false, nil end

-- Returns first the bytes that a cancelled task has put back.
local function next_bytes(self, max)
  local unread = self.unread
  if unread then
    self.unread = #unread > max and unread:sub(max + 1) or nil
    return unread:sub(1, max)
  end
  if self.is_too_large then return nil, self.is_too_large, "EMSGSIZE" end
  local connection = self.connection
  while true do
    local bytes, problem, code = connection:take(self, max)
    if code == "EMSGSIZE" then self.is_too_large = problem elseif problem then self.problem = problem end
    if bytes ~= "" then return bytes, problem, code end
    if self.is_gone then return nil, "ECONNRESET: the client has gone", "ECONNRESET" end
    if self.is_reading then misuse.second_reader("request:read", self.reader) end
    self.arrived = self.arrived or objects.condition "request:read"
    self.is_reading, self.reader = true, coroutine.running()
    local waiting <close> = setmetatable({ request = self }, Waiting)
    self.arrived:wait()
  end
end

function Request:read(max)
  receiver(self, Request, "request:read")
  misuse.optional(max, "bytes", "request:read", 1)
  return next_bytes(self, max or 65536)
end

local WHOLE, FORM = { max = "count" }, { max = "count", max_parts = "count" }

local function whole(self, settings, name)
  local max = misuse.options(settings, WHOLE, name, 1).max or math.huge
  if self.whole then return self.whole end
  local pieces, count = {}, 0
  local guard <close> = setmetatable({}, {
    __close = function()
      if pieces[1] then self.unread = table.concat(pieces) .. (self.unread or "") end
    end,
  })
  while true do
    local bytes, problem, code = next_bytes(self, 1 << 30)
    if not bytes then
      if problem then return nil, problem, code end
      self.whole, pieces = table.concat(pieces), {}
      return self.whole
    end
    count = count + #bytes
    if count > max then
      self.is_too_large = ("EMSGSIZE: the body is longer than %d bytes"):format(max)
      self.connection:last(self)
      return nil, self.is_too_large, "EMSGSIZE"
    end
    pieces[#pieces + 1] = bytes
  end
end

function Request:body(settings) return whole(receiver(self, Request, "request:body"), settings, "request:body") end

function Request:json(settings)
  local text, problem, code = whole(receiver(self, Request, "request:json"), settings, "request:json")
  if not text then return nil, problem, code end
  return require("runloop.json").decode(text)
end

function Request:form(settings)
  receiver(self, Request, "request:form")
  settings = misuse.options(settings, FORM, "request:form", 1)
  local kind = self.headers["content-type"] or ""
  if kind:lower():find "^multipart/form%-data" then
    -- A call after a cancelled call continues to read the same form.
    local form = self.form_so_far or { values = {}, lists = {} }
    self.form_so_far = form
    local is_good, problem = pcall(function()
      local following = self:parts(settings)
      while true do
        form.part = form.part or following()
        if not form.part then break end
        add_value(form.values, form.lists, form.part.name or "", form.part:body())
        form.part = nil
      end
    end)
    if is_good then return form.values, form.lists end
    if type(problem) ~= "string" or problem ~= self.is_malformed and problem ~= self.is_too_large then
      error(problem, 0)
    end
    return nil, problem, problem:match "^%u+"
  end
  local text, problem, code = whole(self, settings.max and { max = settings.max }, "request:form")
  if not text then return nil, problem, code end
  return parse_form(text)
end

function Request:parts(settings)
  return require("runloop.http.multipart").parts(receiver(self, Request, "request:parts"), settings, next_bytes)
end

function Request:chunks()
  receiver(self, Request, "request:chunks")
  return function()
    local bytes, problem = next_bytes(self, 65536)
    if not bytes and problem then error(problem, 0) end
    return bytes
  end
end

return M
