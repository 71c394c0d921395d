-- Errors as the test runner reports them: message, place, and the way there without the runner's own frames.

local system = ...

local explain = {}
local core

local type, tostring, getmetatable, pcall, require = type, tostring, getmetatable, pcall, require
local format, getinfo = string.format, debug.getinfo

--- Tells it of the test library's side.
function explain.use(library) core = library end

-- Where an error was raised and how it came there, without the runner's own frames and C functions.
function explain.frames(level)
  local frames = {}
  while true do
    local info = getinfo(level, "Slnf")
    if not info then return frames end
    if info.currentline > 0 and info.source ~= "=[rlhost]" then
      local what = info.what == "main" and "in the main chunk"
        or core and core.current and info.func == core.current.body and "in the test"
        or info.name and format("in %s '%s'", info.namewhat ~= "" and info.namewhat or "function", info.name)
        or format("in function <%s:%d>", info.short_src, info.linedefined)
      frames[#frames + 1] = format("%s:%d: %s", info.short_src, info.currentline, what)
    end
    level = level + 1
  end
end

-- The same for the lines of a traceback that Lua has made.
function explain.trim(lines)
  local frames, last = {}, nil
  for i = 1, #lines do
    local line = lines[i]
    if line:find("[rlhost]", 1, true) then
      -- Called by the runner: it is a test or a hook, whatever the runner calls that.
      if last then frames[#frames] = last:gsub(": in field 'body'$", ": in the test") end
      last = nil
    elseif not line:find "^%[C%]: " and not line:find "^%.%.%.\t?%(skipping" then
      frames[#frames + 1] = line
      last = line
    end
  end
  return frames
end

-- What code that runs too long gets as an error, of the watchdog.
explain.TOO_LONG = "the test takes too long"

-- A failure as the runner reports it, of an error value. Called as a message handler: the stack is still there.
function explain.error(value)
  local meta = getmetatable(value)
  if core and meta == core.Skip then return { skip = value.reason } end
  if core and meta == core.Failure then
    local frames = explain.frames(3)
    return { kind = "assertion", message = value.message, where = value.where, details = value.details,
      frames = #frames > 1 and frames or nil }
  end
  local frames = explain.frames(3)
  local text
  if type(value) == "string" or type(value) == "number" then
    text = tostring(value)
  elseif type(meta) == "table" and meta.__tostring then
    text = tostring(value)
  else
    text = format("(error object is a %s value)", type(value))
    if type(value) == "table" then
      local fine, values = pcall(require, "runloop.test.values")
      if fine then text = text .. ": " .. values.show(value) end
    end
  end
  local where, rest = text:match "^([^\n:]+:%d+): (.*)$"
  if not where then
    where, rest = frames[1] and frames[1]:match "^([^:]+:%d+):", text
  end
  return { kind = "error", message = rest, where = where, frames = (#frames > 1 or rest == explain.TOO_LONG) and frames or nil }
end

-- The same of an error that nobody has handled, in a callback, a task or another thread.
function explain.uncaught(err)
  local value = err.value
  if core and getmetatable(value) == core.Failure then
    return { kind = "assertion", message = value.message, where = value.where, details = value.details, note = err.note }
  end
  local lines = {}
  for line in (err.message .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  local where, first = lines[1]:match "^([^\n:]+:%d+): (.*)$"
  local details
  for i = 2, #lines do
    details = details or {}
    details[#details + 1] = lines[i]:gsub("^  ", "")
  end
  local frames = explain.trim(err.frames)
  return { kind = "callback", message = first or lines[1], where = where, details = details, note = err.note,
    frames = #frames > 1 and frames or nil }
end

-- Where every task waits, for a report.
function explain.waits()
  local waiting = system.waiting()
  local lines = {}
  for i = 1, #waiting do
    local frames = explain.trim(waiting[i].frames)
    lines[#lines + 1] = format("%s waits in %s", waiting[i].what or "a task", waiting[i].place)
    for j = 1, #frames do lines[#lines + 1] = "  " .. frames[j] end
  end
  return lines
end

return explain
