-- runloop.http.compress: which answers of a server are compressed, and how (RFC 9110, 12.5.3).

local native = require "runloop.http.native"
local pieces = require "runloop.zlib.native"
local misuse = require "runloop.misuse"
local type, tonumber, pairs, ipairs = type, tonumber, pairs, ipairs
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

-- Returns the settings for the option `compress` of a server; nil without compression; nil, problem, code on failure.
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
  -- The table has the functions that each answer needs.
  return { level = level, least = option.least or 1024, patterns = patterns, known = {}, events = option.events,
    plan = M.plan, compress = M.text, make_pieces = M.pieces }
end

-- Whether a Content-Type is one of the settings'.
local function has_type(settings, content_type)
  local found = settings.known[content_type]
  if found == nil then
    local name = content_type:match "^%s*([^;%s]*)"
    found = false
    for _, pattern in ipairs(settings.patterns) do found = found or name:lower():find(pattern) ~= nil end
    -- A handler could produce an unlimited number of names.
    settings.count = (settings.count or 0) + 1
    if settings.count > 100 then settings.known, settings.count = {}, 1 end
    settings.known[content_type] = found
  end
  return found
end

-- Accepted codings ----------------------------------------------------------------------------------------------------

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

-- Returns those of `names` that the client prefers to the plain form, the best first. Names that the client values
-- equally stay in their order.
function M.accepted(accept, names)
  if not accept or accept == "" then return {} end
  local list, weights = {}, weights_of(accept)
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
local asked_latest, answer_latest

-- Whether a client accepts gzip and does not prefer the plain form. The last result is kept, since the next request is
-- often of the same client.
function M.accepts_gzip(accept)
  if accept == asked_latest then return answer_latest end
  asked_latest, answer_latest = accept, M.accepted(accept, GZIP)[1] ~= nil
  return answer_latest
end

-- Answers -------------------------------------------------------------------------------------------------------------

local SEEN <const> = {
  vary = true, etag = true, ["content-length"] = true, ["content-type"] = true, ["content-encoding"] = true,
  ["content-range"] = true, ["cache-control"] = true,
}

-- Returns a copy of an answer's fields, and the spellings of the fields that matter for compression. false suppresses a
-- field.
local function copied(headers)
  local copy, names = {}, {}
  for name, value in pairs(headers) do
    copy[name] = value
    if value and type(name) == "string" then
      local lower = SEEN[name] and name or name:lower()
      if SEEN[lower] then names[lower] = name end
    end
  end
  return copy, names
end

local function text_of(value) return type(value) == "table" and concat(value, ", ") or value end

-- Adds Accept-Encoding to the field Vary, whose spelling is `name`.
local function add_vary(headers, name)
  local value = name and text_of(headers[name])
  if not value then
    headers.vary = "Accept-Encoding"
  elseif value ~= "*" and not ("," .. value:lower():gsub("%s", "") .. ","):find(",accept-encoding,", 1, true) then
    headers[name] = value .. ", Accept-Encoding"
  end
  return headers
end

-- Returns a copy of the fields with Accept-Encoding in Vary.
function M.varying(headers)
  local copy, names = copied(headers)
  return add_vary(copy, names.vary)
end

local NONE <const>, HEAD <const> = {}, native.own.HEAD
local BARE <const> = { [204] = true, [206] = true, [304] = true }

-- Returns the fields of an answer, and the level with which its body has to be compressed, or nil if the body is sent
-- as it is. `size` is the size of the body, if it is known.
function M.plan(settings, request, status, headers, content_type, size)
  if request.is_plain or BARE[status] then return headers end
  local fields, names = copied(headers or NONE)
  if names["content-encoding"] or names["content-range"] then return headers end
  if names["content-type"] then content_type = text_of(fields[names["content-type"]]) end
  if not content_type then return headers end
  if content_type:find("text/event-stream", 1, true) == 1 then
    if not settings.events then return headers end
  elseif not has_type(settings, content_type) then
    return headers
  end
  local control, accept, range = names["cache-control"], nil, nil
  local head = request[HEAD]
  if head then
    accept, range = native.find_accepted(head)
  else
    accept, range = request.headers["accept-encoding"], request.headers.range
  end
  if range or control and text_of(fields[control]):lower():find("no-transform", 1, true) then return headers end
  add_vary(fields, names.vary)
  if size and size < settings.least or not M.accepts_gzip(accept) then return fields end
  local tag = names.etag and fields[names.etag]
  if type(tag) == "string" and tag:sub(1, 2) ~= "W/" then fields[names.etag] = "W/" .. tag end
  fields["content-encoding"] = "gzip"
  if names["content-length"] then fields[names["content-length"]] = nil end
  return fields, settings.level
end

-- A text above this size is compressed in pieces, each in a turn of the loop of its own.
local LONG <const>, PIECE <const> = 262144, 65536

-- Returns the compressed form of a text. May wait.
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

-- Makes an object for the body of a response, which is written piece by piece. Pieces that are written in one turn of
-- the loop are flushed once, at its end. `send(bytes, waits)` sends.
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
  if self.size >= PIECE then
    local done, problem, code = self:flush(not is_quick)
    -- A long text may become few bytes, for which the stream never makes its writer wait: so let other tasks run here.
    if done and not is_quick then require("runloop").sleep(0) end
    return done, problem, code
  end
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
