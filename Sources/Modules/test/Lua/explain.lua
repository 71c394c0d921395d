-- Errors as the test runner reports them: message, place, and the stack without the runner's own frames.

local system = ...

local explain = {}
local core

local type, tostring, getmetatable = type, tostring, getmetatable
local pcall, require, pairs = pcall, require, pairs
local format, getinfo, getlocal, getupvalue = string.format, debug.getinfo, debug.getlocal, debug.getupvalue
local io_open, rawget, assert_function = io.open, rawget, assert

--- Sets the core of the test library.
function explain.use(library) core = library end

-- Places --------------------------------------------------------------------------------------------------------------

local sources = {}

--- Returns the source of a function as a path to click on. Lua's short form of a long path would be cut off.
local function source_of(info)
  local path = info.source:match "^@(.*)$"
  if not path then return info.short_src end
  if path ~= info.short_src then sources[info.short_src] = path end
  return path
end
explain.source_of = source_of

--- Records a file whose path may be cut in messages of Lua.
function explain.note_file(path)
  if #path >= 60 then sources["..." .. path:sub(-56)] = path end
end

-- Replaces each path that Lua has shortened with the whole path.
local function whole(text)
  if not text:find("...", 1, true) then return text end
  for name in pairs(package.loaded) do
    local path = package.searchpath(name, package.path)
    if path then explain.note_file(path) end
  end
  return (text:gsub("(%.%.%.[^\n:]*)(:%d+)", function(short, line)
    return sources[short] and sources[short] .. line
  end))
end
explain.whole = whole

-- The largest number of frames that a report shows of the beginning and of the end of a stack.
local INNER, OUTER = 12, 6

-- Returns the depth of the stack. Lua counts levels from the innermost one at each call, so looking at every frame of a
-- runaway recursion would take minutes.
local function depth_from(level)
  local low, high = level, level + 64
  while getinfo(high, "l") do low, high = high, high * 2 end
  while low < high do
    local middle = (low + high) // 2
    if getinfo(middle, "l") then low = middle + 1 else high = middle end
  end
  return low - 1
end

-- Returns the frames from the place of an error outwards, without the runner's own frames and C functions.
function explain.frames(level)
  local frames = {}
  local last = depth_from(level) - 1  -- depth_from counts its own frame, too
  local skipped
  while level <= last do
    if not skipped and #frames == INNER and last - level > OUTER + 16 then
      skipped = last - OUTER - 12 - level
      frames[#frames + 1] = ""
      level = level + skipped
    end
    local info = getinfo(level, "Slnf")
    if not info then break end
    if info.currentline > 0 and info.source ~= "=[rlhost]" then
      local source = source_of(info)
      local what = info.what == "main" and "in the main chunk"
        or core and core.current and info.func == core.current.body and "in the test"
        or info.name and format("in %s '%s'", info.namewhat ~= "" and info.namewhat or "function", info.name)
        or format("in function <%s:%d>", source, info.linedefined)
      frames[#frames + 1] = format("%s:%d: %s", source, info.currentline, what)
    end
    level = level + 1
  end
  if skipped then
    while #frames > INNER + 1 + OUTER do
      table.remove(frames, INNER + 2)
      skipped = skipped + 1
    end
    frames[INNER + 1] = format("… %d more", skipped)
  end
  return frames
end

-- Returns those frames of a traceback by Lua that a report shows.
function explain.trim(lines)
  local frames, last = {}, nil
  for i = 1, #lines do
    local line = lines[i]
    if line:find("[rlhost]", 1, true) then
      -- The runner has called this function, so the function is a test or a hook, whatever name the traceback gives it.
      if last then frames[#frames] = last:gsub(": in field 'body'$", ": in the test") end
      last = nil
    elseif not line:find "^%[C%]: " then
      frames[#frames + 1] = line:find "^%.%.%.\t?%(skipping" and line or whole(line)
      last = frames[#frames]
    end
  end
  return frames
end

-- A failed assert -----------------------------------------------------------------------------------------------------

-- The largest number of source lines that are searched for an assertion.
local MOST = 20

-- Returns a line of a file without its indentation, and the text from this line on.
local function source_lines(path, number)
  local file = io_open(path)
  if not file then return nil end
  for _ = 2, number do file:read "l" end
  local lines = {}
  for i = 1, MOST do lines[i] = file:read "l" end
  file:close()
  return lines[1] and lines[1]:gsub("^%s+", ""):gsub("%s+$", ""), table.concat(lines, "\n")
end

-- Returns the names that a frame sees, with their values.
local function scope(level)
  local names = {}
  local info = getinfo(level + 1, "f")
  for i = 1, 250 do
    local name, value = getupvalue(info.func, i)
    if not name then break end
    names[name] = { value }
  end
  for i = 1, 250 do
    local name, value = getlocal(level + 1, i)
    if not name then break end
    names[name] = { value }
  end
  return names
end

-- For an error raised by assert, returns the line of the call, and the values that it compared.
local function assertion(level)
  local caller
  for i = level + 1, level + 6 do
    local info = getinfo(i, "f")
    if not info then return nil end
    if info.func == assert_function then
      caller = i + 1
      break
    end
  end
  local info = caller and getinfo(caller, "Sl")
  local path = info and info.currentline > 0 and info.source:match "^@(.*)$"
  if not path then return nil end
  local line, text = source_lines(path, info.currentline)
  if not line then return nil end
  local details = { "> " .. line }
  local fine, shown = pcall(require("runloop.test.condition").values, text, scope(caller))
  for i = 1, fine and shown and #shown or 0 do details[#details + 1] = shown[i] end
  return details
end

-- Failures ------------------------------------------------------------------------------------------------------------

-- TOO_LONG: the error that the watchdog raises in code that runs too long. STUCK: the error of a run in which nothing
-- can happen any more.
explain.TOO_LONG = "the test takes too long"
explain.STUCK = "nothing is left that could end this run"

local function text_of(value)
  local meta = getmetatable(value)
  if type(value) == "string" or type(value) == "number" then return tostring(value) end
  if type(meta) == "table" and rawget(meta, "__tostring") then
    local fine, text = pcall(tostring, value)
    if fine then return text end
  end
  if type(value) == "table" then return require("runloop.inspect").error_text(value) end
  return format("(error object is a %s value)", type(value))
end

-- An assertion that failed in another thread arrives as a text. If `assert` has raised the text again, a second
-- position is in front of it. Returns the original text, or nil if the text is not such an assertion.
local function from_thread(text)
  if system.is_assertion(text) then return text end
  text = text:match "^[^\n:]+:%d+: (.*)$"
  return text and system.is_assertion(text) and text or nil
end

-- Returns the failure of a raised value. `frames` is the stack at that moment.
local function failure_of(value, frames)
  local meta = getmetatable(value)
  if core and meta == core.Skip then return { skip = value.reason } end
  if core and meta == core.Failure then
    return { kind = "assertion", message = value.message, where = value.where, details = value.details,
      frames = #frames > 1 and frames or nil }
  end
  local assertion = type(value) == "string" and from_thread(value)
  if assertion then
    local lines = {}
    for line in (assertion .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
    local head = table.remove(lines, 1)
    local where, rest = head:match "^([^:]+:%d+): (.*)$"
    for i = 1, #lines do lines[i] = lines[i]:gsub("^  ", "") end
    return { kind = "assertion", message = rest or head, where = where, details = #lines > 0 and lines or nil,
      frames = #frames > 1 and frames or nil }
  end
  local text = whole(text_of(value))
  local where, rest = text:match "^([^\n:]+:%d+): (.*)$"
  -- The text was raised again, as by assert(thread:join()), so its position is repeated.
  if where and rest:sub(1, #where + 2) == where .. ": " then rest = rest:sub(#where + 3) end
  if not where then where, rest = frames[1] and frames[1]:match "^([^:]+:%d+):", text end
  return { kind = "error", message = rest, where = where,
    frames = (#frames > 1 or rest == explain.TOO_LONG or rest == explain.STUCK) and frames or nil }
end

-- Returns the failure of an error value, as the runner reports it. The function is called as a message handler, while
-- the stack still exists.
function explain.error(value)
  local passed = system.passed(value)
  local failure = failure_of(value, passed and explain.trim(passed) or explain.frames(3))
  if failure.kind == "error" then failure.details = assertion(2) end
  return failure
end

-- Returns the failure of an error that nothing has handled, in a callback, a task or another thread.
function explain.uncaught(err)
  local frames = explain.trim(err.frames or {})
  local failure = failure_of(err.value == nil and err.message or err.value, frames)
  if failure.skip then return failure end
  if failure.kind == "error" then
    failure.kind = "callback"
    -- Report the message: it says more than the error value, and may join two errors.
    if err.message and err.value ~= err.message then
      local text = whole(err.message)
      failure.where = text:match "^([^\n:]+:%d+): " or failure.where
      failure.message = text:match "^[^\n:]+:%d+: (.*)$" or text
    end
    local first, more = failure.message:match "^([^\n]*)\n(.*)$"
    if first then
      failure.message, failure.details = first, failure.details or {}
      for line in (more .. "\n"):gmatch "(.-)\n" do failure.details[#failure.details + 1] = line:gsub("^  ", "") end
    end
  end
  failure.note = err.note and whole(err.note) or nil
  return failure
end

-- Returns lines for a report: where each task waits, and which threads exist.
function explain.waits()
  local lines = {}
  for _, task in pairs(system.waiting()) do
    local frames = explain.trim(task.frames)
    lines[#lines + 1] = format("%s waits in %s", task.what or "a task", task.place)
    for j = 1, #frames do lines[#lines + 1] = "  " .. frames[j] end
  end
  for _, thread in pairs(system.threads()) do lines[#lines + 1] = thread .. " still runs" end
  for i = 1, #lines do lines[i] = whole(lines[i]) end
  return lines
end

return explain
