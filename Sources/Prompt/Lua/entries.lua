-- The Lua half of the prompt: compiles entries, shows values and errors, completes, and gives help. The chunk returns
-- the functions that the prompt calls. Its arguments are: functions that load a part, list a directory, and return the
-- text of a part; the internals; for the prompt of an attached user (a guest), the name of its chunks, else nil; and
-- Lua's own `print`. The prompt of a guest does not change the globals.

local part, list_directory, text_of, internals = ...
local guest, print = select(5, ...)
local type, select, rawget, next = type, select, rawget, next
local pcall, ipairs, setmetatable = pcall, ipairs, setmetatable
local tonumber, rawequal = tonumber, rawequal
local find, match, gsub = string.find, string.match, string.gsub
local concat = table.concat
local getmetatable = debug.getmetatable
local globals, package, stderr = _G, package, io.stderr

local KEYWORDS = part "keywords"()
local tokens = part "prompt.tokens"(KEYWORDS)
local inspector = part "inspect"(KEYWORDS, part "text"())
local stdlib = part "prompt.stdlib"()
local locals = part "prompt.locals"(tokens, guest)
local inspect = inspector.inspect

local repl = { is_incomplete = locals.is_incomplete, statement = locals.statement, close = locals.close }

-- Names ---------------------------------------------------------------------------------------------------------------

-- Returns a function that calls `load` at its first call, and always returns the result of that call.
local function later(load)
  local loaded
  return function()
    loaded = loaded or load()
    return loaded
  end
end

local get_reference = later(function() return part "prompt.reference"(text_of "runloop.reference") end)

local names = part "prompt.names"(internals, stdlib, get_reference)

-- Returns the name under which the script knows a function: a global, a kept local, or a field of a loaded module.
function names.own(value)
  local found
  locals.each(function(name)
    if not found and rawequal(locals.value(name), value) and not find(name, "^_") then found = name end
  end)
  if found then return found end
  local key = names.in_table(globals, value)
  if key then return key end
  for module, loaded in next, package.loaded do
    key = type(module) == "string" and module ~= "_G" and names.in_table(loaded, value)
    if key then return module .. "." .. key end
  end
end

-- Returns the name and arguments of a function of Lua or ours; nil for other functions.
local function title_of(value)
  local name = names.of(value)
  if not name then return nil end
  if stdlib.texts[name] then return stdlib.title(name) end
  local entry = get_reference().functions[get_reference().plain(name)]
  return entry and entry.title or name
end

-- Results -------------------------------------------------------------------------------------------------------------

local last_count = 0

-- The properties of objects that the prompt shows.
local GETTERS = {
  "name", "is_valid", "is_open", "address", "peer", "interval", "repeats", "fire_date", "tolerance", "order",
  "status", "is_signalled", "fd", "events", "activities", "capacity", "count", "is_alive", "mode", "modes",
}

local function modes_of(object)
  local loop = package.loaded.runloop.current()
  local found = {}
  for _, mode in ipairs(loop:modes()) do
    local ok, is_in = pcall(loop.contains, loop, object, mode)
    if ok and is_in and mode ~= "common" then found[#found + 1] = mode end
  end
  return found
end

local function fields_of(object)
  local kind = internals.kind(object)
  local methods = kind and names.methods(kind)
  if not methods then return nil end
  local parts = {}
  for _, getter in ipairs(GETTERS) do
    local method = rawget(methods, getter)  -- Reading a missing property raises.
    local ok, value = false, nil
    if method then ok, value = pcall(method, object) end
    if ok and value ~= nil and value ~= "" then parts[#parts + 1] = { getter, value } end
  end
  if kind ~= "loop" then
    local ok, modes = pcall(modes_of, object)
    if ok and #modes > 0 then parts[#parts + 1] = { "modes", modes } end
    for n = 1, 4 do
      local held, value = pcall(internals.value, object, n)
      if held and type(value) == "function" then
        parts[#parts + 1] = { n == 1 and "callback" or "callback " .. n, value }
      end
    end
  end
  return parts
end

local function options(width, color, deep)
  return {
    width = width,
    color = color,
    deep = deep,
    depth = deep and 12 or 3,
    title_of = title_of,
    name_of = names.own,
    fields_of = fields_of,
  }
end

-- As in the prompt of `lua`, results are printed with the script's `print`, if the script has replaced it.
local function show_by(own_print, ...)
  local ok, message = pcall(own_print, ...)
  if ok then return end
  if type(message) ~= "string" then message = "(error object is a " .. type(message) .. " value)" end
  stderr:write("error calling 'print' (", message, ")\n")
end

local function show(width, color, is_plain, ...)
  local count = select("#", ...)
  if count == 0 then return end
  locals.publish("_", (...))
  for i = 1, count > last_count and count or last_count do locals.publish("_" .. i, (select(i, ...))) end
  last_count = count
  local current_print = rawget(globals, "print")
  if not guest and not rawequal(current_print, print) then return show_by(current_print, ...) end
  local texts, is_long = {}, false
  for i = 1, count do
    local value = (select(i, ...))
    texts[i] = is_plain and type(value) == "string" and value or inspect(value, options(width, color))
    is_long = is_long or find(texts[i], "\n", 1, true)
  end
  return concat(texts, is_long and "\n" or "\t")
end

-- show(width, color, results…): returns the text to show, or nothing. Sets _ and _1, _2 …. With `plain`, strings are
-- shown without quotes.
function repl.show(width, color, ...) return show(width, color, false, ...) end
function repl.show_plain(width, color, ...) return show(width, color, true, ...) end

function repl.show_deep(width, color, ...)
  local texts = {}
  for i = 1, select("#", ...) do texts[i] = inspect((select(i, ...)), options(width, color, true)) end
  return concat(texts, "\n")
end

-- Errors --------------------------------------------------------------------------------------------------------------

local last_traceback

-- failed(width, color, was_interrupted, text, error value): returns the text to show for an error, and sets _error. An
-- error value that is not a string is shown as a value.
function repl.failed(width, color, was_interrupted, text, value)
  local message, traceback = match(text, "^(.-)\n(stack traceback:.*)$")
  message, traceback = message or text, traceback or ""
  if was_interrupted then
    -- Show the traceback of an interruption only if it was in a function that the entry called.
    local frames = 0
    for line in traceback:gmatch "\n\t([^\n]*)" do
      if not find(line, "^%[C%]:") then frames = frames + 1 end
    end
    last_traceback = "interrupted!\n" .. traceback
    return frames > 1 and last_traceback or "interrupted!"
  end
  locals.publish("_error", value)
  local metatable = getmetatable(value)
  if type(value) ~= "string" and not (type(metatable) == "table" and rawget(metatable, "__tostring"))
    and value ~= nil then
    local how = options(width, color)
    how.reset = "\27[m\27[31m"
    message = inspect(value, how)
  else
    message = inspector.harmless(message)
  end
  -- Show the entry as the main chunk, although an entry that uses earlier locals is compiled inside a function.
  local head, line = match(traceback, "^(.*\n\t)([^\n]-: in )function <[^\n]-:1>\n\t%[C%]: in %?$")
  if head then traceback = head .. line .. "main chunk\n\t[C]: in ?" end
  last_traceback = traceback ~= "" and message .. "\n" .. traceback or message
  return last_traceback
end

function repl.traceback() return last_traceback or "there was no error" end

-- Entries -------------------------------------------------------------------------------------------------------------

local entries_compiled, texts = 0, {}

local get_sources = later(function()
  return part "prompt.sources"(texts, inspector.harmless, text_of, internals.loaded)
end)

-- Returns the source of a function, given by name and value.
local function source(name, value)
  if type(value) ~= "function" then
    return value == nil and name .. " is nil" or name .. " is a " .. type(value) .. ": only functions have a source"
  end
  local text, message = get_sources().text(value, names.of(value))
  return text or name .. ": " .. message
end

-- reload(name): returns the changes made by loading the module again, or the reason why nothing has changed.
function repl.reload(name)
  local text, message = get_sources().reload(name)
  return text or ".reload: " .. message
end

-- Without a number, the chunk is called "stdin", or by the guest's name.
function repl.compile(text, kind)
  local chunk = guest and "=" .. guest or "=stdin"
  if kind == "numbered" then
    entries_compiled = entries_compiled + 1
    chunk = "=[" .. entries_compiled .. "]"
    texts["[" .. entries_compiled .. "]"] = text
  elseif kind then
    chunk = "@" .. kind
  end
  local subject, marks = match(text, "^%s*(%S[%w_.:%s]-)%s*(%?%??)%s*$")
  if not subject then marks, subject = match(text, "^%s*(%?%??)%s*([^%?]-)%s*$") end
  if subject and subject ~= "" and marks ~= "" and not find(subject, "^%?") then
    local name = gsub(subject, ":", ".")
    local value = locals.compile("return " .. name, chunk)
    local is_value, found = false, nil
    if value and find(name, "^[%a_][%w_.]*$") then is_value, found = pcall(value) end
    return function()
      if marks == "??" then return print(source(subject, is_value and found or nil)) end
      local is_known = is_value and found ~= nil
        and (type(found) == "function" or internals.kind(found) or names.class(found) or names.module(found))
      local what = is_known and found or subject
      local text, message = repl.help(what)
      print(text or message)
    end
  end
  return locals.compile(text, chunk)
end

-- Completion and help -------------------------------------------------------------------------------------------------

local function modes()
  local rl = package.loaded.runloop
  local found = {}
  for _, mode in ipairs(rl.current():modes()) do found[#found + 1] = mode end
  found[#found + 1] = "common"
  return found
end

local get_expressions = later(function() return part "prompt.expressions"(locals, get_reference(), stdlib, names) end)
local get_complete = later(function()
  return part "prompt.complete"(tokens, get_expressions(), locals, get_reference(), stdlib, list_directory, modes)
end)

function repl.complete(text) return get_complete().candidates(text) end

-- hint(text before the cursor): returns the remaining parameters of the call at its end, or nil.
function repl.hint(text) return get_complete().hint(text) end

local get_help = later(function() return part "prompt.help"(get_reference(), stdlib, names, inspector) end)

-- Returns the reference text for a name, a function or an object; or nil and a message.
function repl.help(what, width)
  local help = get_help()
  if type(what) == "string" then
    -- If the reference does not have the name, look for a comment above the function in the user's own code.
    local text, message = help.text(what, width)
    if text then return text end
    local known = find(what, "^%s*[%a_][%w_.:]*%s*$") and get_expressions().resolve(tokens.scan(what), 1)
    local value = known and known.value
    if type(value) == "function" or names.class(value) or names.module(value) then return help.text(value, width) end
    return nil, message
  end
  return help.text(what, width)
end

-- help_for(name, width as text): for `.help name`.
function repl.help_for(name, width)
  local text, message = repl.help(name, tonumber(width))
  return text or message
end

local GENERAL = [[
Type an expression to see its value, or statements to run them. Lines may wait: rl.sleep(1).
  help(rl.sleep)   what a call does; help "timer" what timers can do; rl.sleep? is the same
  .help            what else the prompt can do
  _, _1, _2 …      the last results; _error the last error]]

local help_value = setmetatable({}, {
  __call = function(_, ...)
    if select("#", ...) == 0 then return print(GENERAL) end
    local text, message = repl.help((...))
    print(text or message)
  end,
  __tostring = function() return GENERAL end,
})

-- Defines `help`, and for a guest `rl`, unless the script has defined it.
function repl.install()
  if rawget(globals, "help") == nil then locals.publish("help", help_value) end
  if guest then locals.publish("rl", package.loaded.runloop) end
end

return repl
