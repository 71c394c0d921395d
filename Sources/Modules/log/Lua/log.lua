-- runloop.log: writes messages with a level and fields to standard error, to a file or to the journal.

local native = ...
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local log = {}
local raise, describe = misuse.raise, misuse.describe
local type, pairs, tostring = type, pairs, tostring
local setmetatable, getmetatable, pcall = setmetatable, getmetatable, pcall
local format, gsub, find, lower = string.format, string.gsub, string.find, string.lower
local concat, sort = table.concat, table.sort
local date, open, require = os.date, io.open, require
local locals = package.loaded.runloop.locals

local LEVELS = { debug = 1, info = 2, warning = 3, error = 4, off = 5 }
-- The priorities of syslog(3). The journal reads these priorities at the beginning of a line.
local PRIORITIES = { debug = 7, info = 6, warning = 4, error = 3 }
local COLORS = { debug = "2", info = "36", warning = "33", error = "31" }
local OPTIONS = {
  level = "any", to = "any", format = "any", name = "string", fields = "table", time = "boolean", locals = "table",
  max_size = "count", keep = "count",
}
local LEAST_SIZE, USUAL_KEEP, MOST_KEEP, PATIENCE = 4096, 5, 10000, 60
local FORMATS = { text = true, json = true, journal = true }

local Logger = objects.class("runloop.log.Logger", { __name = "logger" })

local function level_of(what, level)
  local found = type(level) == "string" and LEVELS[lower(level)]
  if not found then
    raise("%s: the level must be \"debug\", \"info\", \"warning\", \"error\" or \"off\", got %s", what, describe(level))
  end
  return found
end

-- Control characters are replaced: they could make one message look like two, or command the terminal that shows the
-- log. Invalid UTF-8 is replaced as well, because readers of logs refuse it.
local texts = require "runloop.text"
local valid, plain = texts.valid, texts.shown

local json
-- Returns a value that JSON can represent, with all that it contains. Values that JSON has no form for become texts.
local function json_value(value)
  json = json or require "runloop.json"
  if type(value) == "string" then return json.encode(valid(value)) end
  local is_fine, text = pcall(json.encode, value)
  return is_fine and text or json.encode(valid(tostring(value)))
end

local function shown(value)
  local meta = getmetatable(value)
  if type(value) == "table" and not (type(meta) == "table" and meta.__tostring) then return plain(json_value(value)) end
  local text = tostring(value)
  if type(value) ~= "string" then return plain(text) end
  if text ~= "" and not find(text, "[%s%c\"\\=]") then return plain(text) end
  return '"' .. plain((gsub(text, '["\\]', "\\%0"))) .. '"'
end

-- Returns the values of rl.locals that the logger adds: all except those whose names are also fields.
local function locals_of(self, fields)
  local own, values = self._fields or {}, {}
  for _, name in ipairs(self._sink.locals) do
    if own[name] == nil and (not fields or fields[name] == nil) then values[name] = locals[name] end
  end
  return values
end

-- Visits the fields in a fixed order: values of rl.locals, then the fields of the logger, then those of the message,
-- each sorted by name.
local function each_field(self, fields, visit)
  local others = self._sink.locals and locals_of(self, fields) or false
  for _, all in ipairs { others, self._fields or false, fields or false } do
    if all then
      local names, values = {}, {}
      for key, value in pairs(all) do
        local name = tostring(key)
        if not (all == self._fields and fields and fields[key] ~= nil) and values[name] == nil then
          names[#names + 1], values[name] = name, value
        end
      end
      sort(names)
      for _, name in ipairs(names) do visit(name, values[name]) end
    end
  end
end

-- Every line has these names. A field with such a name gets a trailing underscore.
local TAKEN = { time = true, level = true, logger = true, message = true }

local function compose(self, level, message, fields)
  local sink, parts = self._sink, {}
  local now = native.wall_clock()
  if sink.format == "json" then
    parts[1] = '{"time":'
      .. json_value(date("!%Y-%m-%dT%H:%M:%S", now // 1 | 0) .. format(".%03dZ", (now % 1 * 1000) // 1 | 0))
    parts[2] = '"level":' .. json_value(level)
    if self._name then parts[3] = '"logger":' .. json_value(self._name) end
    parts[#parts + 1] = '"message":' .. json_value(message)
    each_field(self, fields, function(name, value)
      parts[#parts + 1] = json_value(TAKEN[name] and name .. "_" or name) .. ":" .. json_value(value)
    end)
    return texts.shown_json(concat(parts, ",")) .. "}\n"
  end
  if sink.format == "journal" then
    parts[1] = format("<%d>", PRIORITIES[level]) .. (self._name and plain(self._name) .. ": " or "") .. plain(message)
  else
    local name = format("%-7s", level)
    if sink.color then name = "\27[" .. COLORS[level] .. "m" .. name .. "\27[0m" end
    local stamp = sink.time == false and ""
      or date("%Y-%m-%d %H:%M:%S", now // 1 | 0) .. format(".%03d ", (now % 1 * 1000) // 1 | 0)
    parts[1] = stamp .. name .. " " .. (self._name and plain(self._name) .. ": " or "") .. plain(message)
  end
  each_field(self, fields, function(name, value) parts[#parts + 1] = plain(name) .. "=" .. shown(value) end)
  return concat(parts, " ") .. "\n"
end

local function complain(text, ...) native.write(2, format("%s: " .. text .. "\n", log.program(), ...)) end

-- Writes a line to a file of limited size. Files that could not be renamed are tried again after a minute.
local function write_limited(sink, text)
  local now = native.wall_clock()
  local is_early = sink.retry and now < sink.retry and now > sink.retry - PATIENCE
  local fd, problem, refusal = native.rotate(sink.fd or -1, sink.path, text, sink.max_size, sink.keep, not is_early)
  sink.fd = fd >= 0 and fd or nil
  if refusal and not is_early then
    sink.retry = now + PATIENCE
    complain("cannot rename the full log %s: %s (still writing to it)", sink.path, refusal)
  end
  return not problem, problem
end

-- Returns whether a file ends in the middle of a line: a full disk may have accepted only the beginning of one.
local function is_torn(path)
  local file <close> = open(path, "rb")
  return file and file:seek("end", -1) and file:read(1) ~= "\n"
end

local function write(self, level, what, message, fields)
  if LEVELS[level] < self._sink.level then return end
  if type(message) ~= "string" then message = tostring(message) end
  if fields ~= nil and type(fields) ~= "table" then
    raise("%s: the fields must be a table, got %s", what, describe(fields))
  end
  local sink = self._sink
  local text = compose(self, level, message, fields)
  -- A finalizer may still log after the sink's own finalizer has closed the file.
  if sink.path and not sink.fd then sink.fd = native.append(sink.path) end
  if sink.failed and sink.path and is_torn(sink.path) then text = "\n" .. text end
  local fine, why
  if sink.max_size then
    fine, why = write_limited(sink, text)
  else
    fine, why = native.write(sink.fd or -1, text)
  end
  if not fine and not sink.failed then
    -- Reports the first failure on standard error: a log that is lost silently is worse than none.
    sink.failed = true
    complain("cannot write the log to %s: %s", sink.path or "standard error", why)
  elseif fine then
    sink.failed = false
  end
end

-- Returns a logger with more fields that writes to the same sink.
function Logger:with(fields, name)
  if type(fields) ~= "table" then
    raise("logger:with: argument #1 must be a table of fields, got %s", describe(fields))
  end
  if name ~= nil and type(name) ~= "string" then
    raise("logger:with: argument #2 must be a string, got %s", describe(name))
  end
  local all = {}
  for key, value in pairs(self._fields or {}) do all[key] = value end
  for key, value in pairs(fields) do all[key] = value end
  return setmetatable({ _sink = self._sink, _fields = all, _name = name or self._name }, Logger)
end
function Logger:set_level(level) self._sink.level = level_of("logger:set_level", level) end
function Logger:is_on(level) return level_of("logger:is_on", level) >= self._sink.level end
function Logger:__tostring() return format("logger (%s)", self._sink.path or "standard error") end

-- Opens the file again under its name, after another program (logrotate) has moved the old one away.
function Logger:reopen()
  local sink = self._sink
  if not sink.path then return true end
  local fd, message, code = native.append(sink.path)
  if not fd then return nil, message, code end
  if sink.fd then native.close(sink.fd) end
  sink.fd = fd
  return true
end

-- The file's descriptor is closed when the last logger that uses it is collected.
local Sink = {}
function Sink:__gc()
  if self.path and self.fd then native.close(self.fd) end
  self.fd = nil
end
function Logger:close()
  local sink = self._sink
  sink.level = LEVELS.off
  Sink.__gc(sink)
end
Logger.__close = Logger.close
objects.methods(Logger, "logger")

for level in pairs(PRIORITIES) do
  Logger[level] = function(self, message, fields)
    if getmetatable(self) ~= Logger then raise("logger:%s: call it with a colon, on a logger", level) end
    write(self, level, "logger:" .. level, message, fields)
  end
end

function log.program() return arg and arg[0] and arg[0]:match "[^/]*$" or "rlhost" end

local has_warned = false
-- A mistake in the variable is not a mistake in the script, so this function warns instead of raising an error.
local function level_from_environment()
  local level = os.getenv "RLHOST_LOG"
  if level and not LEVELS[lower(level)] and not has_warned then
    has_warned = true
    native.write(2, format("%s: RLHOST_LOG must be debug, info, warning, error or off, got %q; info is used\n",
      log.program(), level))
  end
  return level and LEVELS[lower(level)] or LEVELS.info
end

-- Returns a copy of the option `locals`; nil if there is none.
local function names_of_locals(list)
  if not list then return nil end
  local names = {}
  for key, name in pairs(list) do
    if math.type(key) ~= "integer" or type(name) ~= "string" then
      raise("log.open: field 'locals' must be a list of names, got %s in it",
        describe(type(name) ~= "string" and name or key))
    end
    names[key] = name
  end
  return names
end

-- Raises if the options of a limited size make no sense.
local function check_size(options, has_path)
  if not options.max_size then
    if options.keep then raise "log.open: 'keep' needs 'max_size'" end
    return
  end
  if not has_path then raise "log.open: 'max_size' needs a path in 'to'" end
  if options.max_size < LEAST_SIZE then
    raise("log.open: max_size must be at least %d bytes, got %d", LEAST_SIZE, options.max_size)
  end
  if options.keep and options.keep > MOST_KEEP then
    raise("log.open: keep must be at most %d, got %d", MOST_KEEP, options.keep)
  end
end

function log.open(options)
  options = misuse.options(options, OPTIONS, "log.open", 1)
  local to = options.to or "stderr"
  if type(to) ~= "string" then raise("log.open: to must be \"stderr\", \"journal\" or a path, got %s", describe(to)) end
  if options.format ~= nil and not FORMATS[options.format] then
    raise("log.open: format must be \"text\", \"json\" or \"journal\", got %s", describe(options.format))
  end
  local is_stream = to == "stderr" or to == "journal" or find(to, "^/dev/std") or find(to, "^/dev/fd/")
    or find(to, "^/proc/self/fd/")
  check_size(options, not is_stream)
  local level = options.level and level_of("log.open", options.level)
  local sink = setmetatable({
    level = level or level_from_environment(), time = options.time, fd = 2, locals = names_of_locals(options.locals),
  }, Sink)
  if to == "journal" or to == "stderr" and not options.format and native.is_journal(2) then
    sink.format = options.format or "journal"
  elseif to == "stderr" then
    sink.format, sink.color = options.format or "text", native.wants_color(2)
  else
    local fd, message, code = native.append(to)
    if not fd then return nil, message, code end
    sink.fd, sink.path, sink.format = fd, to, options.format or "text"
    sink.max_size, sink.keep = options.max_size, options.keep or USUAL_KEEP
  end
  return setmetatable({ _sink = sink, _name = options.name or false, _fields = options.fields or false }, Logger)
end

-- The program's default logger, created at first use.
local default
local function own()
  if not default then default = log.open() end
  return default
end
for level in pairs(PRIORITIES) do
  log[level] = function(message, fields) write(own(), level, "log." .. level, message, fields) end
end
function log.with(fields, name) return own():with(fields, name) end
function log.set_level(level) own():set_level(level) end
function log.is_on(level) return own():is_on(level) end
-- Replaces the program's default logger.
function log.set_default(logger)
  if getmetatable(logger) ~= Logger then
    raise("log.set_default: argument #1 must be a logger, got %s", describe(logger))
  end
  default = logger
end

return log
