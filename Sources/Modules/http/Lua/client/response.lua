-- runloop.http.client.response: the answer to a request, and the request's body.

local native = require "runloop.http.native"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local receiver = misuse.receiver
local events = require "runloop.http.events"

local M = {}

local function json() return require "runloop.json" end

-- Fields --------------------------------------------------------------------------------------------------------------

local function is_value(value)
  return (type(value) == "string" or type(value) == "number") and native.is_value(tostring(value))
end

-- Raises an error unless these can be the fields of a message: names are tokens, values have one line. In an answer a
-- value may be a list of values. false suppresses a field.
function M.check_fields(fields, name, is_answer)
  for field, value in pairs(fields) do
    if type(field) ~= "string" or not native.is_token(field) then
      misuse.raise("%s: %s cannot be the name of a field", name, misuse.describe(field))
    end
    local is_right = is_value(value) or value == false
    if type(value) == "table" and is_answer then
      is_right = true
      for _, one in ipairs(value) do is_right = is_right and is_value(one) end
    end
    if not is_right then
      local or_list = is_answer and ", or a list of such" or ""
      misuse.raise("%s: the field '%s' must be a string without control characters%s", name, field, or_list)
    end
  end
end

-- Bodies of requests --------------------------------------------------------------------------------------------------

-- Returns "a=1&b=x+y", sorted by name, so that the same table always gives the same text.
local function encode_form(form)
  local names, pairs_of = {}, {}
  for name in pairs(form) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local values = form[name]
    for _, value in ipairs(type(values) == "table" and values or { values }) do
      pairs_of[#pairs_of + 1] = native.escape(tostring(name), true) .. "=" .. native.escape(tostring(value), true)
    end
  end
  return table.concat(pairs_of, "&")
end
M.encode_form = encode_form

-- Returns the URL without its fragment, with further parameters.
function M.url_with(url, query)
  local bare = url:match "^[^#]*"
  if not query or next(query) == nil then return bare end
  return bare .. (bare:find("?", 1, true) and "&" or "?") .. encode_form(query)
end

-- Returns the body and its content type from a request's fields `body`, `json` and `form`, only one of which may be
-- given.
function M.body_of(request, name)
  local count = (request.body ~= nil and 1 or 0) + (request.json ~= nil and 1 or 0) + (request.form ~= nil and 1 or 0)
  if count > 1 then misuse.raise(name .. ": only one of the fields 'body', 'json' and 'form' can be given") end
  if request.json ~= nil then
    local is_good, text = pcall(json().encode, request.json)
    if not is_good then misuse.raise(name .. ": " .. text:gsub("^.-json%.encode: ", "field 'json': ")) end
    return text, "application/json"
  end
  if request.form ~= nil then return encode_form(request.form), "application/x-www-form-urlencoded" end
  local body = request.body
  if body == nil or type(body) == "string" or type(body) == "function" then return body end
  if type(body) == "number" then return tostring(body) end
  if objects.method(body, "read") then return body end
  misuse.wrong(name, "field 'body'", "a string, a function or a stream", body)
end

-- Answers -------------------------------------------------------------------------------------------------------------

local Answer = objects.class("runloop.http.Answer", { __name = "http answer" })

function Answer:__tostring() return ("http answer %d of %s"):format(self.status, self.url) end

function Answer:json() return json().decode(receiver(self, Answer, "answer:json").body) end

local VERSIONS = { [1] = "1.0", [2] = "1.1", [3] = "2", [30] = "3" }

local function read_head(head)
  local headers = setmetatable({}, native.fields)
  -- Old servers continue a value in further lines.
  head = head:gsub("[ \t]*\r?\n[ \t]+", " ")
  local reason = head:match "^HTTP/[%d.]+ %d+ ?([^\r\n]*)"
  for name, value in head:gmatch "\n([^:\r\n]+):[ \t]*([^\r\n]*)" do
    name, value = name:lower(), value:match "^(.-)[ \t]*$"
    local before = rawget(headers, name)
    if name == "set-cookie" then
      before = before or {}
      before[#before + 1] = value
      headers[name] = before
    else
      headers[name] = before and before .. ", " .. value or value
    end
  end
  return headers, reason
end

local function fill(answer, status, head, url, version, seconds, redirects, address)
  answer.headers, answer.reason = read_head(head)
  answer.status, answer.url, answer.version = status, url, VERSIONS[version] or "1.1"
  answer.seconds, answer.redirects, answer.address = seconds, redirects, address
  return answer
end

function M.new(...) return fill(setmetatable({}, Answer), ...) end

-- Answers with a body that is read piece by piece ---------------------------------------------------------------------

local Open = objects.class("runloop.http.OpenAnswer", { __name = "http answer", __stays = true })
function Open:__tostring()
  local state = self.is_closed and "closed, " or ""
  return ("http answer %d of %s (%s%s)"):format(self.status, self.url, state, self.made_at)
end

function M.open(exchange, ...)
  local answer = fill(setmetatable({}, Open), ...)
  answer.exchange, answer.rest, answer.first, answer.made_at = exchange, "", 1, objects.made_at()
  return answer
end

-- `rest` from `first` on has the bytes that have arrived and were not returned.
local function take_rest(self)
  local bytes = self.rest:sub(self.first)
  self.rest, self.first = "", 1
  return bytes
end

-- Waits for the next bytes, at most `max`. Returns nil at the end; nil, message, code on failure.
local function more(self, max, name)
  if self.is_closed then return nil, ("EBADF: the answer is closed (%s)"):format(self.url), "EBADF" end
  if self.is_over then return nil, self.problem, self.code end
  local bytes, problem, code = self.exchange:next_bytes(max, name)
  if not bytes then self.is_over, self.problem, self.code = true, problem, code end
  return bytes, problem, code
end

-- Returns the available bytes, or waits for some; at most `max`.
local function next_bytes(self, max, name)
  local bytes, problem, code = take_rest(self), nil, nil
  if bytes == "" then bytes, problem, code = more(self, max, name) end
  if max and bytes and #bytes > max then self.rest, bytes = bytes:sub(max + 1), bytes:sub(1, max) end
  return bytes, problem, code
end

function Open:read(max)
  misuse.optional(max, "bytes", "answer:read", 1)
  return next_bytes(self, max, "answer:read")
end

-- Returns all bytes up to the end. If that fails, the bytes stay for the next read.
local function read_all(self, max, name)
  misuse.optional(max, "count", name, 1)
  max = max or 16 << 20
  local pieces = { take_rest(self) }
  local guard <close> = setmetatable({}, {
    __close = function()
      if pieces then self.rest = table.concat(pieces) end
    end,
  })
  local count = #pieces[1]
  while count <= max do
    local bytes, problem, code = more(self, nil, name)
    if not bytes then
      if problem then return nil, problem, code end
      local text = table.concat(pieces)
      pieces = nil
      return text
    end
    count = count + #bytes
    pieces[#pieces + 1] = bytes
  end
  return nil, ("EMSGSIZE: the body is longer than %d bytes (%s)"):format(max, self.url), "EMSGSIZE"
end

function Open:read_all(max) return read_all(self, max, "answer:read_all") end

function Open:json(max)
  local text, problem, code = read_all(self, max, "answer:json")
  if not text then return nil, problem, code end
  return json().decode(text)
end

-- Iterators raise an error where other calls return nil and a message.
local function bytes_or_error(bytes, problem)
  if not bytes and problem then error(problem, 0) end
  return bytes
end

function Open:chunks()
  return function() return bytes_or_error(next_bytes(self, nil, "answer:chunks")) end
end

local MAX = { max = "count" }

function Open:lines(settings)
  local max = misuse.options(settings, MAX, "answer:lines", 1).max or 1 << 20
  return function()
    local from = self.first
    while true do
      local place = self.rest:find("\n", from, true)
      if place then
        local line = self.rest:sub(self.first, place - 1)
        self.first = place + 1
        return (line:gsub("\r$", ""))
      end
      -- Lines that were returned are dropped before more is read.
      self.rest = take_rest(self)
      if #self.rest > max then error(("EMSGSIZE: line longer than %d bytes (%s)"):format(max, self.url), 0) end
      from = #self.rest + 1
      local bytes = bytes_or_error(more(self, nil, "answer:lines"))
      if not bytes then
        local line = take_rest(self)
        return line ~= "" and line or nil
      end
      self.rest = self.rest .. bytes
    end
  end
end

-- Iterates over server-sent events: tables with event, data, id, retry. A second iterator continues after the first.
function Open:events(settings)
  local max = misuse.options(settings, MAX, "answer:events", 1).max
  self.decode = self.decode or events.decoder(max)
  self.waiting, self.place = self.waiting or {}, self.place or 1
  return function()
    while true do
      local event = self.waiting[self.place]
      if event then
        self.place = self.place + 1
        return event
      end
      local bytes = bytes_or_error(next_bytes(self, nil, "answer:events"))
      if not bytes then return nil end
      self.waiting, self.place = self.decode(bytes), 1
    end
  end
end

function Open:close()
  -- An answer that was read to its end does not count as closed: further reads still return its end.
  if not self.is_over then self.is_closed = true end
  self.is_over, self.rest, self.first = true, "", 1
  self.exchange:finish()
end
objects.methods(Open, "answer")
Open.__close = Open.close
-- A collected answer has no reader any more. If the Lua state is being closed, the exchange has already ended, and the
-- call fails.
Open.__gc = function(self) pcall(self.exchange.finish, self.exchange) end

return M
