-- Programs that a test runs from outside: t.spawn.

local rl = require "runloop"
local system = ...

local spawn = {}
local error, type, pairs, pcall, tostring = error, type, pairs, pcall, tostring
local setmetatable, getmetatable = setmetatable, getmetatable
local format, find, sub, concat = string.format, string.find, string.sub, table.concat

local SIGNALS = {
  HUP = 1, INT = 2, QUIT = 3, ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, KILL = 9, USR1 = 10, SEGV = 11, USR2 = 12,
  PIPE = 13, ALRM = 14, TERM = 15, CHLD = 17, CONT = 18, STOP = 19, TSTP = 20, TTIN = 21, TTOU = 22, WINCH = 28,
}
local NAMES = {}
for name, number in pairs(SIGNALS) do NAMES[number] = name end
spawn.signal_names = NAMES

local Process = { __name = "process" }
Process.__index = Process

local core

local function misuse(text)
  local where = core.here()
  error((where and where .. ": " or "") .. text, 0)
end

local function fail(message, details)
  error(setmetatable({ message = message, details = details, where = core.here() }, core.Failure), 0)
end

local function check(self, name)
  if getmetatable(self) ~= Process then misuse(name .. ": a process is expected as self; call it with a colon") end
end

-- Waiting: a task that sleeps until the time is over; whatever happens to the process ends it before that.

local function wake(self)
  local gates = self.gates
  self.gates = {}
  for i = 1, #gates do gates[i]:cancel() end
end

-- Returns false when so many seconds have passed.
local function pause(self, seconds)
  if seconds <= 0 then return false end
  local gate = rl.task(rl.sleep, seconds)
  self.gates[#self.gates + 1] = gate
  pcall(gate.await, gate)
  local woken = gate:status() ~= "done"
  -- Should the wait itself have been cancelled, the gate still sleeps.
  if gate:status() == "waiting" then
    gate:cancel()
    error("cancelled", 0)
  end
  return woken
end

-- What it writes -------------------------------------------------------------------------------------------------------

local function close_port(self, name)
  local port = self[name]
  if not port then return end
  self[name] = nil
  port.port:invalidate()
  system.close(port.fd)
end

-- What has come in since somebody last asked for all of it is in pieces: to put 64 KB at a time to the end of what is
-- there would take the square of its length.
local function text_of(self, buffer)
  local pieces = self[buffer]
  if #pieces > 1 then
    self[buffer] = { concat(pieces) }
    pieces = self[buffer]
  end
  return pieces[1] or ""
end

local function read_all(self, name, buffer)
  local port = self[name]
  if not port then return end
  while true do
    local text, _, code = system.read(port.fd)
    if not text and code == "EAGAIN" then break end
    if not text or text == "" then
      close_port(self, name)
      self.at_end[buffer] = true
      break
    end
    local pieces = self[buffer]
    pieces[#pieces + 1] = text
    self.sizes[buffer] = self.sizes[buffer] + #text
  end
  wake(self)
end

local function note_end(self)
  if self.how then return true end
  local how, number = system.ended(self.number)
  if not how then return false end
  self.how, self.code = how, number
  close_port(self, "end_port")
  if self.input then
    system.close(self.input)
    self.input = nil
  end
  if self.slave then
    system.close(self.slave)
    self.slave = nil
  end
  -- What it has written before it ended is in the pipes by now; others that hold them open do not matter.
  read_all(self, "output_port", "written")
  read_all(self, "errors_port", "complained")
  wake(self)
  return true
end

local function watch(self, name, fd, callback)
  local port, message = rl.on_readable(fd, callback)
  if not port then error(message, 0) end
  self[name] = { fd = fd, port = port }
end

-- Starting -------------------------------------------------------------------------------------------------------------

local FIELDS = { terminal = "boolean or table", env = "table", directory = "string", name = "string" }

local function environment(changes)
  if not changes then return nil end
  local all, order = {}, {}
  local file = io.open("/proc/self/environ", "rb")
  for entry in (file and file:read "a" or ""):gmatch "[^%z]+" do
    local name = entry:match "^([^=]+)="
    if name then
      if not all[name] then order[#order + 1] = name end
      all[name] = entry
    end
  end
  if file then file:close() end
  for name, value in pairs(changes) do
    if type(name) ~= "string" or name:find "[=%z]" or type(value) == "table" or type(value) == "function" then
      misuse("t.spawn: field 'env' must hold names and strings")
    end
    if not all[name] then order[#order + 1] = name end
    all[name] = value ~= false and name .. "=" .. tostring(value) or nil
  end
  local list = {}
  for i = 1, #order do list[#list + 1] = all[order[i]] end
  return list
end

function spawn.start(options, library)
  core = library
  if type(options) ~= "table" then
    misuse("t.spawn: a table is expected, like {t.rlhost, \"script.lua\"}, got "
      .. (options == nil and "nothing" or "a " .. type(options)))
  end
  local current = core.current
  if not current then misuse("t.spawn: only a test can start a program") end
  local arguments = {}
  for key, value in pairs(options) do
    if math.type(key) == "integer" then
      if type(value) ~= "string" and type(value) ~= "number" then
        misuse(format("t.spawn: argument %d of the program must be a string, got a %s", key, type(value)))
      end
      arguments[key] = tostring(value)
    elseif not FIELDS[key] then
      misuse(format("t.spawn: unknown field '%s' (there are: directory, env, name, terminal)", tostring(key)))
    elseif not find(FIELDS[key], type(value), 1, true) then
      misuse(format("t.spawn: field '%s' must be a %s, got a %s", key, FIELDS[key], type(value)))
    end
  end
  if not arguments[1] then misuse("t.spawn: which program? Give its name first, then its arguments") end
  local terminal = options.terminal
  local size = type(terminal) == "table" and terminal or {}
  if options.directory and system.kind(options.directory) ~= "directory" then
    local _, message = system.kind(options.directory)
    fail(format("cannot start '%s' in '%s': %s", arguments[1], options.directory, message or "ENOTDIR: not a directory"))
  end
  local number, a, b, c, d = system.start(arguments, environment(options.env), options.directory,
    terminal and "terminal" or "pipes", size.rows or 24, size.columns or 80)
  if not number then fail(format("cannot start '%s': %s", arguments[1], a)) end
  local self = setmetatable({
    number = number, title = options.name or arguments[1]:match "[^/]+$" or arguments[1], where = core.here(),
    written = {}, complained = {}, position = 1, error_position = 1, gates = {}, at_end = {},
    sizes = { written = 0, complained = 0 }, searched = {},
  }, Process)
  current.programs[#current.programs + 1] = self
  local end_fd
  if terminal then
    -- While we hold the other side, too, the terminal stays: whoever closes it is not hung up, and may open it again.
    self.master, self.slave, end_fd = a, b, c
    self.rows, self.columns = size.rows or 24, size.columns or 80
    watch(self, "output_port", a, function() read_all(self, "output_port", "written") end)
  else
    self.input, end_fd = a, d
    watch(self, "output_port", b, function() read_all(self, "output_port", "written") end)
    watch(self, "errors_port", c, function() read_all(self, "errors_port", "complained") end)
  end
  watch(self, "end_port", end_fd, function() note_end(self) end)
  return self
end

-- Talking --------------------------------------------------------------------------------------------------------------

--- Writes a text to its standard input, or types it in its terminal. Waits while it does not read. Returns true, or nil
--- and why not.
function Process:write(text)
  check(self, "process:write")
  if type(text) ~= "string" then misuse("process:write: argument #1 must be a string, got a " .. type(text)) end
  local first = 1
  while first <= #text do
    local fd = self.input or self.output_port and self.master
    if not fd then return nil, "EPIPE: its standard input is closed", "EPIPE" end
    local count, message, code = system.write(fd, text, first)
    if count then
      first = first + count
    elseif code == "EAGAIN" then
      local port = rl.on_writable(fd, function(port)
        port:invalidate()
        wake(self)
      end)
      local fine, cancelled = pcall(pause, self, 3600)
      port:invalidate()
      if not fine then error(cancelled, 0) end
    elseif code ~= "EINTR" then
      return nil, message, code
    end
  end
  return true
end

--- Ends its standard input. In a terminal: types Ctrl-D.
function Process:close_input()
  check(self, "process:close_input")
  if self.master then return self:write "\4" end
  if self.input then
    system.close(self.input)
    self.input = nil
  end
end

--- Sends a signal: "INT", "TERM" …, or a number. Returns true, or nil and why not.
function Process:signal(name)
  check(self, "process:signal")
  local number = type(name) == "string" and SIGNALS[(name:upper():gsub("^SIG", ""))] or math.tointeger(name)
  if not number then misuse("process:signal: argument #1 must be a signal, like \"INT\" or 2, got " .. tostring(name)) end
  if self.how then return nil, "ESRCH: it has ended", "ESRCH" end
  return system.signal(self.number, number)
end

--- Changes the size of its terminal.
function Process:resize(rows, columns)
  check(self, "process:resize")
  if not self.master then misuse("process:resize: it has no terminal") end
  for _, number in pairs { rows or false, columns or false } do
    if math.type(number) ~= "integer" or number < 1 or number > 10000 then
      misuse "process:resize: rows and columns must be whole numbers from 1 to 10000"
    end
  end
  self.rows, self.columns = rows, columns
  return system.resize(self.master, rows, columns)
end

--- What its terminal shows now: what it has written, as a terminal understands that.
function Process:screen()
  check(self, "process:screen")
  if not self.master then misuse("process:screen: it has no terminal") end
  local text = text_of(self, "written")
  if not self.shown or self.shown.rows ~= self.rows or self.shown.columns ~= self.columns then
    self.shown, self.shown_until = require "runloop.test.screen".new(self.rows, self.columns), 0
  end
  self.shown:feed(sub(text, self.shown_until + 1))
  self.shown_until = #text
  return self.shown:picture()
end

--- All it has written to its standard output, or in its terminal, until now.
function Process:output()
  check(self, "process:output")
  return text_of(self, "written")
end

--- All it has written to its standard error until now.
function Process:errors()
  check(self, "process:errors")
  return text_of(self, "complained")
end

function Process:is_running()
  check(self, "process:is_running")
  return not note_end(self)
end

function Process:pid()
  check(self, "process:pid")
  return self.number
end

--- Ends it at once, if it still runs, and everything in its process group.
function Process:kill()
  check(self, "process:kill")
  if not note_end(self) then
    system.signal(-self.number, SIGNALS.KILL)
    system.signal(self.number, SIGNALS.KILL)
    local give_up = system.real_clock() + 5
    while not note_end(self) and system.real_clock() < give_up do end
  end
  self:release()
end

-- Lets go of its descriptors.
function Process:release()
  close_port(self, "output_port")
  close_port(self, "errors_port")
  close_port(self, "end_port")
  if self.input then system.close(self.input) end
  if self.slave then system.close(self.slave) end
  self.input, self.slave = nil, nil
end

Process.__close = Process.kill

require "runloop.test.awaiting"(Process, {
  check = check, misuse = misuse, fail = fail, pause = pause, text_of = text_of, names = NAMES,
})

function Process:__tostring()
  local state = not self.how and "running" or self.how == "exit" and "exit status " .. self.code
    or "ended by signal " .. (NAMES[self.code] or self.code)
  return format("process %d (%s, %s, made at %s)", self.number, self.title, state, self.where)
end

return spawn
