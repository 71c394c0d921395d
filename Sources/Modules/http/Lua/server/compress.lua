-- runloop.http.compress: which answers of a server are compressed, and how (RFC 9110, 12.5.3).

local pieces = require "runloop.zlib.native"
local misuse = require "runloop.misuse"
local type, tonumber, ipairs = type, tonumber, ipairs
local concat, min = table.concat, math.min

local M = {}

-- Settings ------------------------------------------------------------------------------------------------------------

local KNOWN = { level = "positive", least = "count", types = "table", events = "boolean" }
local TYPES = {
  "text/*", "application/json", "*+json", "application/javascript", "application/xml", "*+xml", "application/wasm",
}

-- Returns a pattern for the name of a type; "*" stands for anything.
local function pattern_of(name)
  return "^" .. name:lower():gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*") .. "$"
end

-- Returns the settings for the option `compress` of a server; nil without compression; nil, problem, code.
function M.settings(option, what)
  if not option then return nil end
  if option == true then option = {} end
  misuse.fields(option, KNOWN, what .. ": compress")
  local level = option.level or 1
  if level > 9 then misuse.wrong(what .. ": compress", "field 'level'", "an integer from 1 to 9", level) end
  local patterns = {}
  for i, name in ipairs(option.types or TYPES) do
    if type(name) ~= "string" then
      misuse.wrong(what .. ": compress", "field 'types'", "a list of names, such as text/*", name)
    end
    patterns[i] = pattern_of(name)
  end
  local is_there, problem, code = pieces.is_there()
  if not is_there then return nil, problem, code end
  return { level = level, least = option.least or 1024, patterns = patterns, known = {}, events = option.events }
end

-- Whether a Content-Type is one of the settings'.
local function has_type(settings, content_type)
  local name = content_type:match "^%s*([^;%s]*)"
  local found = settings.known[name]
  if found == nil then
    found = false
    for _, pattern in ipairs(settings.patterns) do found = found or name:lower():find(pattern) ~= nil end
    -- A handler could make names without end.
    settings.count = (settings.count or 0) + 1
    if settings.count > 100 then settings.known, settings.count = {}, 1 end
    settings.known[name] = found
  end
  return found
end

-- What a client accepts -----------------------------------------------------------------------------------------------

-- Returns the weights of an Accept-Encoding's codings, by their names in lower case.
local function weights_of(text)
  local weights = {}
  for member in text:gmatch "[^,]+" do
    local name, rest = member:match "^%s*([^;%s]+)%s*(.-)%s*$"
    local weight = 1
    if name and rest ~= "" then
      local value = rest:match "^;%s*[qQ]=(%d*%.?%d*)$"
      weight = value and tonumber(value)
    end
    if name and weight then
      name = name:lower()
      weights[name == "x-gzip" and "gzip" or name] = min(weight, 1)
    end
  end
  return weights
end

local latest, weights

-- Returns those of `names` that the client prefers to the plain form, the best first. Equal ones stay in their order.
function M.accepted(accept, names)
  if not accept or accept == "" then return {} end
  -- The next request is often of the same client.
  if accept ~= latest then latest, weights = accept, weights_of(accept) end
  local list = {}
  for _, name in ipairs(names) do
    local weight = weights[name] or weights["*"] or 0
    if weight > 0 and weight >= (weights.identity or 0) then list[#list + 1] = { name = name, weight = weight } end
  end
  for i = 2, #list do
    local place = i
    while place > 1 and list[place].weight > list[place - 1].weight do
      list[place], list[place - 1] = list[place - 1], list[place]
      place = place - 1
    end
  end
  for i, one in ipairs(list) do list[i] = one.name end
  return list
end

local GZIP <const> = { "gzip" }

-- What is sent --------------------------------------------------------------------------------------------------------

-- Returns key and value of a field in any spelling; false suppresses a field.
local function find(headers, name)
  if headers[name] then return name, headers[name] end
  for spelled, value in pairs(headers) do
    if type(spelled) == "string" and value and spelled:lower() == name then return spelled, value end
  end
end

local function value_of(headers, name)
  local _, value = find(headers, name)
  return type(value) == "table" and concat(value, ", ") or value
end

-- Adds Accept-Encoding to the field Vary of a copy of the fields, and returns it.
local function varying(headers)
  local copy = {}
  for name, value in pairs(headers) do copy[name] = value end
  local name, value = find(copy, "vary")
  value = type(value) == "table" and concat(value, ", ") or value
  if not value then
    copy[name or "vary"] = "Accept-Encoding"
  elseif not ("," .. value:lower():gsub("%s", "") .. ","):find "[,][*,]?accept%-encoding," and value ~= "*" then
    copy[name] = value .. ", Accept-Encoding"
  end
  return copy
end
M.varying = varying

local NONE <const> = {}
local BARE <const> = { [204] = true, [206] = true, [304] = true }

-- Returns the fields of an answer, and the level with which its body has to be compressed; nil: it is sent as it is.
-- `size`: of the body, if it is known.
function M.plan(request, status, headers, content_type, size)
  local settings = request.connection.server.compress
  if not settings or request.is_plain or BARE[status] or status < 200 then return headers end
  local fields = headers or NONE
  content_type = value_of(fields, "content-type") or content_type
  if not content_type or find(fields, "content-encoding") or find(fields, "content-range") then return headers end
  if content_type:find "^text/event%-stream" then
    if not settings.events then return headers end
  elseif not has_type(settings, content_type) then
    return headers
  end
  local asked, control = request.headers, value_of(fields, "cache-control")
  if asked.range or control and control:lower():find("no-transform", 1, true) then return headers end
  fields = varying(fields)
  if size and size < settings.least or not M.accepted(asked["accept-encoding"], GZIP)[1] then return fields end
  local name, tag = find(fields, "etag")
  if type(tag) == "string" and not tag:find "^W/" then fields[name] = "W/" .. tag end
  fields["content-encoding"] = "gzip"
  local length = find(fields, "content-length")
  if length then fields[length] = nil end
  return fields, settings.level
end

-- A text above this size is compressed in pieces, each in a turn of the loop of its own.
local LONG <const>, PIECE <const> = 262144, 65536

-- Returns a text compressed. May wait.
function M.text(text, level)
  if #text <= LONG then return pieces.gzip(text, level) end
  local sleep, write, parts = require("runloop").sleep, pieces.pieces(level), {}
  for at = 1, #text, PIECE do
    parts[#parts + 1] = write(text:sub(at, at + PIECE - 1), at + PIECE > #text)
    if at + PIECE <= #text then sleep(0) end
  end
  return concat(parts)
end

-- Pieces --------------------------------------------------------------------------------------------------------------

local Pieces = {}
Pieces.__index = Pieces

-- Makes an object for the body of a response, which is written piece by piece. What is written in a turn of the loop is
-- sent, flushed once, at its end. `send(bytes, waits)` sends.
function M.pieces(level, loop, modes, send)
  return setmetatable({ write = pieces.pieces(level), loop = loop, modes = modes, send = send, texts = {}, size = 0 },
    Pieces)
end

-- Sends what has been written.
function Pieces:flush(waits, is_last)
  if self.size == 0 and not is_last then return true end
  local text = concat(self.texts)
  self.texts, self.size = {}, 0
  return self.send(self.write(text, is_last), waits)
end

-- `is_quick`: does not wait for a slow client.
function Pieces:add(text, is_quick)
  self.texts[#self.texts + 1], self.size = text, self.size + #text
  if self.size >= PIECE then return self:flush(not is_quick) end
  if not self.is_due then
    self.is_due = true
    self.loop:perform { function()
      self.is_due = false
      if not self.is_over then self:flush(false) end
    end, modes = self.modes }
  end
  return true
end

-- Sends the rest and the end of the data.
function Pieces:finish()
  self.is_over = true
  return self:flush(true, true)
end

return M
