-- runloop.http.multipart: reads the parts of a form with files (RFC 7578) as they arrive.

local native = require "runloop.http.native"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local M = {}

local Part = objects.class("runloop.http.Part", { __name = "http part" })

-- Splits "form-data; name=\"a\"; filename=\"b.txt\"" into the value and its parameters.
local function parse_parameters(text)
  local parameters = {}
  for name, value in text:gmatch ';%s*([%w_*-]+)%s*=%s*"([^"]*)"' do parameters[name:lower()] = value end
  for name, value in text:gmatch ";%s*([%w_*-]+)%s*=%s*([^\"; ]+)" do
    if parameters[name:lower()] == nil then parameters[name:lower()] = value end
  end
  return text:match "^%s*([^;]*)", parameters
end

-- Returns an iterator over the parts. A second call returns the same iterator. The next part discards the unread rest
-- of a body. `next_bytes` reads the request.
function M.parts(request, settings, next_bytes)
  settings = misuse.options(settings, { max = "count", max_parts = "count" }, "request:parts", 1)
  if request.following_part then return request.following_part end
  local max, max_parts = settings.max or 8 << 20, settings.max_parts or 1000
  -- Notes in the request that the client has made a mistake, even if the handler catches the error.
  local function raise(problem)
    if problem:find "^EMSGSIZE" then request.is_too_large = problem else request.is_malformed = problem end
    error(problem, 0)
  end

  local kind, parameters = parse_parameters(request.headers["content-type"] or "")
  local boundary = parameters.boundary
  if not kind:lower():find "^multipart/" or not boundary or boundary == "" or #boundary > 70 then
    raise "EBADMSG: the request is not a multipart form"
  end
  local delimiter = "\r\n--" .. boundary
  -- The first delimiter may lack the end of a line before it.
  local buffer, is_over, count = "\r\n", false, 0

  local function more()
    local bytes, problem = next_bytes(request, 65536)
    if not bytes then raise(problem or "EBADMSG: the form ends too early") end
    buffer = buffer .. bytes
  end

  -- Returns bytes that certainly come before the next delimiter; nil at the delimiter.
  local function until_delimiter()
    while true do
      local place = buffer:find(delimiter, 1, true)
      if place == 1 then return nil end
      local sure = place and place - 1 or #buffer - #delimiter + 1
      if sure > 0 then
        local bytes = buffer:sub(1, sure)
        buffer = buffer:sub(sure + 1)
        return bytes
      end
      more()
    end
  end

  local function read_head()
    while not buffer:find("\r\n\r\n", 1, true) do
      if #buffer > 16384 then raise "EMSGSIZE: the head of a part is too long" end
      more()
    end
    local head, following = buffer:match "^(.-\r\n)\r\n()"
    buffer = buffer:sub(following)
    local headers = setmetatable({}, native.fields)
    for name, value in head:gmatch "([^:\r\n]+):[ \t]*([^\r\n]*)" do headers[name:lower()] = value end
    return headers
  end

  -- The position in the form, which outlives a cancelled task: after a delimiter, or at the fields of a part.
  local current, is_behind, is_at_fields
  local function find_fields()
    if not is_behind then
      while until_delimiter() do end
      if current and not current.is_over then current.is_over, current.is_left = true, true end
      buffer, is_behind = buffer:sub(#delimiter + 1), true
    end
    while #buffer < 2 do more() end
    if buffer:sub(1, 2) == "--" then
      is_over = true
      return
    end
    -- Reads blanks and the end of the line. The two bytes after the line show whether fields follow. These bytes may
    -- arrive in several pieces.
    local is_enough
    repeat
      buffer = buffer:gsub("^[ \t]+", "")
      is_enough = #buffer >= 4 or #buffer >= 2 and buffer:sub(1, 2) ~= "\r\n"
      if not is_enough then more() end
    until is_enough
    if buffer:sub(1, 2) ~= "\r\n" then raise "EBADMSG: the form is not well-formed" end
    -- For a part without fields, the empty line comes right here.
    if buffer:sub(3, 4) ~= "\r\n" then buffer = buffer:sub(3) end
    count, is_at_fields = count + 1, true
    if count > max_parts then raise(("EMSGSIZE: more than %d parts"):format(max_parts)) end
  end

  request.following_part = function()
    if not is_over and not is_at_fields then find_fields() end
    if is_over then return nil end
    local headers = read_head()
    is_behind, is_at_fields = false, false
    local _, fields = parse_parameters(headers["content-disposition"] or "")
    -- A path in a file's name would let a client choose the directory.
    local name = fields.filename and fields.filename:match "[^/\\]*$"
    current = setmetatable({
      headers = headers, name = fields.name, filename = name, type = headers["content-type"], max = max,
      following = until_delimiter, raise = raise,
    }, Part)
    return current
  end
  return request.following_part
end

function Part:read()
  local bytes = self.unread
  self.unread = nil
  if bytes then return bytes end
  if self.is_left then
    misuse.raise "part:read: the next part has begun: the unread rest of this one is lost"
  end
  if self.is_over then return nil end
  bytes = self.following()
  if not bytes then self.is_over = true end
  return bytes
end

function Part:chunks()
  return function() return self:read() end
end

function Part:body(settings)
  local max = misuse.options(settings, { max = "count" }, "part:body", 1).max or self.max
  if self.whole then return self.whole end
  local pieces, count = {}, 0
  -- If the task is cancelled, the pieces go back to the part.
  local guard <close> = setmetatable({}, {
    __close = function()
      if pieces[1] then self.unread = table.concat(pieces) .. (self.unread or "") end
    end,
  })
  for bytes in self:chunks() do
    count = count + #bytes
    pieces[#pieces + 1] = bytes
    if count > max then self.raise(("EMSGSIZE: the part is longer than %d bytes"):format(max)) end
  end
  self.whole, pieces = table.concat(pieces), {}
  return self.whole
end
objects.methods(Part, "part")

return M
