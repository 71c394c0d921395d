-- runloop.http.events: writes and reads server-sent events (WHATWG HTML, 9.2).

local misuse = require "runloop.misuse"

local M = {}

local function lines_of(name, text)
  local lines = {}
  text = text:gsub("\r\n?", "\n")
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = name .. ": " .. line .. "\n" end
  return table.concat(lines)
end

-- Returns the text of an event: { event =, data =, id =, retry = seconds, comment = }.
function M.encode(event)
  local text = ""
  if event.comment then text = lines_of("", event.comment) end
  if event.event then text = text .. "event: " .. event.event .. "\n" end
  if event.id then text = text .. "id: " .. event.id .. "\n" end
  if event.retry then text = text .. "retry: " .. math.floor(event.retry * 1000) .. "\n" end
  if event.data then text = text .. lines_of("data", event.data) end
  return text .. "\n"
end

local EVENT = { event = "string", data = "any", id = "any", retry = "seconds", comment = "string" }

-- Checks an event of a script, and returns its text.
function M.text_of(event, name)
  if type(event) == "string" then event = { data = event } end
  if type(event) ~= "table" then
    misuse.raise("%s: argument #1 must be a string or a table, got %s", name, misuse.describe(event))
  end
  misuse.fields(event, EVENT, name)
  local data, id = event.data, event.id
  if event.retry and event.retry > 1e9 then misuse.raise("%s: field 'retry' is too long", name) end
  if data ~= nil and type(data) ~= "string" then
    local is_good, text = pcall(require("runloop.json").encode, data)
    if not is_good then misuse.raise("%s: field 'data': %s", name, (text:gsub("^.-json%.encode: ", ""))) end
    data = text
  end
  if id ~= nil then id = tostring(id) end
  if event.event and event.event:find "[\r\n]" or id and id:find "[\r\n%z]" then
    misuse.raise("%s: the fields 'event' and 'id' must be one line each", name)
  end
  return M.encode { event = event.event, data = data, id = id, retry = event.retry, comment = event.comment }
end

local LF <const> = 10

-- Returns a function that takes bytes and returns the events that they complete. An event is complete at its empty
-- line.
function M.decoder(max)
  max = max or 1 << 20
  local buffer, is_first = "", true
  -- True if the last byte was a CR that ended a line: an LF that follows belongs to the same line end.
  local has_ended = false
  -- Pieces of a line, which are joined once.
  local pieces, waiting = {}, 0
  local data, size = {}, 0
  local event, last_id, retry

  local function take(line, found)
    if line == "" then
      if data[1] then
        found[#found + 1] = { event = event or "message", data = table.concat(data, "\n"), id = last_id, retry = retry }
      end
      data, event, retry, size = {}, nil, nil, 0
      return
    end
    local name, value = line:match "^([^:]*):? ?(.*)$"
    if line:sub(1, 1) == ":" then return end
    if name == "data" then
      size = size + #value
      if size > max then error(("EMSGSIZE: event longer than %d bytes"):format(max), 0) end
      data[#data + 1] = value
    elseif name == "event" then
      event = value
    elseif name == "id" then
      if not value:find "\0" then last_id = value end
    elseif name == "retry" then
      if value:find "^%d+$" then retry = tonumber(value) / 1000 end
    end
  end

  return function(bytes)
    local found = {}
    if has_ended and bytes ~= "" then
      has_ended = false
      if bytes:byte() == LF then bytes = bytes:sub(2) end
    end
    if not is_first and not bytes:find "[\r\n]" then
      pieces[#pieces + 1] = bytes
      waiting = waiting + #bytes
      if #buffer + waiting > max then error(("EMSGSIZE: line longer than %d bytes"):format(max), 0) end
      return found
    end
    buffer = buffer .. table.concat(pieces) .. bytes
    pieces, waiting = {}, 0
    if is_first and #buffer >= 3 then
      if buffer:sub(1, 3) == "\u{FEFF}" then buffer = buffer:sub(4) end
      is_first = false
    end
    local from, lf, cr = 1, buffer:find("\n", 1, true), buffer:find("\r", 1, true)
    while lf or cr do
      local is_cr = cr and (not lf or cr < lf)
      local place = is_cr and cr or lf
      take(buffer:sub(from, place - 1), found)
      from = place + 1
      if is_cr then
        has_ended = place == #buffer
        if buffer:byte(from) == LF then from = from + 1 end
      end
      -- Costs if removed: 0.9 s instead of 0.4 s for 200,000 events, since each line searches all further ones.
      if lf and lf < from then lf = buffer:find("\n", from, true) end
      if cr and cr < from then cr = buffer:find("\r", from, true) end
    end
    buffer = buffer:sub(from)
    if #buffer > max then error(("EMSGSIZE: line longer than %d bytes"):format(max), 0) end
    return found
  end
end

return M
