-- Programs that a test runs as a user would: t.spawn. The programs are programs of runloop.process, with callbacks that
-- collect their output and their end.

local rl = require "runloop"
local programs = require "runloop.process.programs"
local signals = require "runloop.process.signals"
local system = ...

local spawn = {}
local type, pairs, tostring = type, pairs, tostring
local setmetatable, getmetatable, loadfile, os = setmetatable, getmetatable, loadfile, os
local format, find, sub, concat = string.format, string.find, string.sub, table.concat

local Process = { __name = "process" }
Process.__index = Process

local core
local io = io
-- The name of the variable is part of every build of rlhost, so is_rlhost searches for it.
local CLOCK_VARIABLE = "RLHOST_TEST_CLOCK"

local wrongs = require "runloop.misuse"
local function misuse(text) core.misuse(text) end
local function fail(message, details) core.fail(message, details) end

local function a_type(value) return "a " .. type(value) end

local function check(self, name)
  if getmetatable(self) ~= Process then misuse(name .. ": a process is expected as self; call it with a colon") end
  return self
end

-- Waits for output or the end of the program. Returns false if after that many seconds neither has come.
local function pause(self, seconds) return seconds > 0 and self.changed:wait(seconds) or false end

-- Output -------------------------------------------------------------------------------------------------------------

-- Returns all output of a stream. New output is kept in pieces until it is needed, because appending 64 KB at a time to
-- one string would take time proportional to the square of its length.
local function text_of(self, buffer)
  local pieces = self[buffer]
  if #pieces > 1 then
    self[buffer] = { concat(pieces) }
    pieces = self[buffer]
  end
  return pieces[1] or ""
end

-- Releases a program that has ended and whose output has ended, so that a test can start any number of programs. The
-- end of the test releases the other programs.
local function let_go(self)
  local list, at_end = self.list, self.at_end
  if not list or not self.how or not at_end.written or not at_end.complained and not self.has_terminal then return end
  list[self.place], self.list = nil, nil
  programs.forget(self.program)
end

-- Returns a callback that keeps the output of a stream. The callback gets nil at the end of the stream.
local function keep(self, buffer)
  return function(_, bytes)
    if bytes then
      local pieces = self[buffer]
      pieces[#pieces + 1] = bytes
      self.sizes[buffer] = self.sizes[buffer] + #bytes
    else
      self.at_end[buffer] = true
      let_go(self)
    end
    self.changed:broadcast()
  end
end

local function has_ended(self)
  local program = self.program
  if not self.how and programs.has_ended(program) then
    local how, value = program:wait()
    self.how, self.code, self.signalled = how, how == "exit" and value or signals.numbers[value]
      or signals.number("", value, 1), value
    if program.input and not self.has_terminal then program.input:abort() end
    if self.lives_here then system.forget_program(program:pid()) end
    self.changed:broadcast()
    let_go(self)
  end
  return self.how ~= nil
end

-- Coverage ------------------------------------------------------------------------------------------------------------

-- The directory in which programs leave their counts.
local notes
local function counted_in()
  notes = notes or assert(system.temporary_directory())
  return notes
end

--- Calls a function with the counts that each program has written since the last call. With `is_end`, removes the
--- directory.
function spawn.each_count(fn, is_end)
  if not notes then return end
  for _, name in pairs(system.entries(notes) or {}) do
    local path = notes .. "/" .. name
    local chunk = name:find "%.lua$" and loadfile(path, "t", {})
    if chunk then fn(chunk()) end
    if chunk or is_end then os.remove(path) end
  end
  if is_end then os.remove(notes) end
end

-- Starting ------------------------------------------------------------------------------------------------------------

local FIELDS = { terminal = "boolean or table", env = "table", directory = "string", name = "string",
  virtual_time = "boolean" }

-- Returns whether a program can run in the test's time: this rlhost, another build of it, or a script that rlhost runs.
local function is_rlhost(word, directory)
  local path = word:find("/", 1, true) and word or nil
  if path and path:sub(1, 1) ~= "/" and directory then path = directory .. "/" .. path end
  for folder in (path and "" or os.getenv "PATH" or ""):gmatch "[^:]+" do
    path = path or system.kind(folder .. "/" .. word) == "file" and folder .. "/" .. word or nil
  end
  local identity = path and system.identity(path)
  -- If the program does not exist, starting it reports that.
  if not identity or identity == system.identity(system.program()) then return true end
  local file <close> = io.open(path, "rb")
  local text = file and file:read "a"
  return not text or text:find(text:sub(1, 2) == "#!" and "rlhost" or CLOCK_VARIABLE, 1, true) ~= nil
end

-- Returns the environment variables as texts; false removes a variable.
local function variables(changes)
  local texts = {}
  for name, value in pairs(changes or {}) do
    if type(name) ~= "string" or find(name, "[=%z]") or type(value) == "table" or type(value) == "function" then
      misuse("t.spawn: field 'env' must hold names and strings")
    end
    texts[name] = value and tostring(value)
  end
  return texts
end

function spawn.start(options, library)
  core = library
  if type(options) ~= "table" then
    misuse("t.spawn: a table is expected, like {t.rlhost, \"script.lua\"}, got "
      .. (options == nil and "nothing" or "a " .. type(options)))
  end
  local current = core.current
  if not current then misuse("t.spawn: only a test can start a program") end
  for key, value in pairs(options) do
    if math.type(key) ~= "integer" then
      if not FIELDS[key] then
        misuse(format("t.spawn: unknown field '%s'%s", tostring(key), wrongs.hint(key, FIELDS)))
      elseif not find(FIELDS[key], type(value), 1, true) then
        misuse(format("t.spawn: field '%s' must be a %s, got a %s", key, FIELDS[key], type(value)))
      end
    end
  end
  if options[1] == nil then misuse("t.spawn: which program? Give its name first, then its arguments") end
  local words = programs.check("t.spawn", { table.unpack(options) }, programs.options)
  if options.virtual_time and not is_rlhost(words[1], options.directory) then
    misuse(format("t.spawn: field 'virtual_time' works with rlhost only, and '%s' is another program: "
      .. "real time passes while it works", words[1]))
  end
  local size = type(options.terminal) == "table" and options.terminal or {}
  if options.directory and system.kind(options.directory) ~= "directory" then
    local _, message = system.kind(options.directory)
    fail(format("cannot start '%s' in '%s': %s", words[1], options.directory, message or "ENOTDIR: not a directory"))
  end
  local self = setmetatable({
    title = options.name or words[1]:match "[^/]+$" or words[1], where = core.here(), written = {}, complained = {},
    position = 1, error_position = 1, at_end = {}, sizes = { written = 0, complained = 0 }, searched = {},
    changed = rl.condition(),
    has_terminal = options.terminal and true,
  }, Process)
  if self.has_terminal then self.rows, self.columns = size.rows or 24, size.columns or 80 end
  local environment = variables(options.env)
  current.spawned = (current.spawned or 0) + 1
  if environment.RLHOST_SEED == nil then
    environment.RLHOST_SEED = tostring(programs.seed_of(current.seed or core.options.seed, current.spawned))
  end
  if core.options.coverage then environment.RLHOST_TEST_COVERAGE = counted_in() end
  local lives_here = options.virtual_time and not current.real_time
  if lives_here then
    local variable, value = system.clock_address()
    if not variable then fail("no program can use virtual time here: " .. value) end
    environment[variable] = value
  end
  local program, message, code = programs.start("t.spawn", {
    environment = environment, directory = options.directory, name = self.title,
    terminal = self.has_terminal and { rows = self.rows, columns = self.columns },
    on_output = keep(self, "written"), on_errors = not self.has_terminal and keep(self, "complained") or nil,
    on_exit = function() has_ended(self) end,
  }, words, { "pipe" })
  if not program then
    if code == "ENOENT" then message = format("ENOENT: no such file or directory (%s)", words[1]) end
    fail(format("cannot start '%s': %s", words[1], message))
  end
  self.program = program
  self.lives_here = lives_here
  if lives_here then system.expect_program(program:pid()) end
  local list = current.programs
  self.list, self.place = list, #list + 1
  list[self.place] = self
  return self
end

-- Talking -------------------------------------------------------------------------------------------------------------

--- Writes a text to the program's standard input, or types it in its terminal. Waits while the program does not read.
--- Returns true, or nil and an error.
function Process:write(text)
  check(self, "process:write")
  if type(text) ~= "string" then misuse("process:write: argument #1 must be a string, got a " .. type(text)) end
  local input = self.program.input
  if has_ended(self) or not input:is_open() then return nil, "EPIPE: its standard input is closed", "EPIPE" end
  if text == "" then return true end
  local done, message, code = input:write(text)
  -- After this call the program finds the text in its input.
  if done then done, message, code = input:flush() end
  if done then return true end
  if has_ended(self) then return nil, "EPIPE: it has ended", "EPIPE" end
  return nil, message, code
end

--- Ends the program's standard input. In a terminal, types Ctrl-D.
function Process:close_input()
  check(self, "process:close_input")
  if self.has_terminal then return self:write "\4" end
  self.program.input:close()
end

--- Sends a signal: "INT", "TERM" …, or a number. Returns true, or nil and an error.
function Process:signal(name)
  check(self, "process:signal")
  local number = signals.number("process:signal", name, 1)
  if has_ended(self) then return nil, "ESRCH: it has ended", "ESRCH" end
  return system.signal(self.program:pid(), number)
end

--- Changes the size of the program's terminal.
function Process:resize(rows, columns)
  check(self, "process:resize")
  if not self.has_terminal then misuse("process:resize: it has no terminal") end
  local done, message, code = self.program:resize(rows, columns)
  if done then self.rows, self.columns = rows, columns end
  return done, message, code
end

--- Returns the present contents of the program's terminal.
function Process:screen()
  check(self, "process:screen")
  if not self.has_terminal then misuse("process:screen: it has no terminal") end
  local text = text_of(self, "written")
  if not self.shown or self.shown.rows ~= self.rows or self.shown.columns ~= self.columns then
    self.shown, self.shown_until = require "runloop.test.screen".new(self.rows, self.columns), 0
  end
  self.shown:feed(sub(text, self.shown_until + 1))
  self.shown_until = #text
  return self.shown:picture()
end

--- Returns all output on standard output, or in the terminal, until now.
function Process:output() return text_of(check(self, "process:output"), "written") end

--- Returns all output on standard error until now.
function Process:errors() return text_of(check(self, "process:errors"), "complained") end
function Process:is_running() return not has_ended(check(self, "process:is_running")) end
function Process:pid() return check(self, "process:pid").program:pid() end

--- Kills the program, if it still runs, and everything in its process group.
function Process:kill()
  check(self, "process:kill")
  if not has_ended(self) then
    self.program:signal "KILL"
    local give_up = system.real_clock() + 5
    while not has_ended(self) and system.real_clock() < give_up do end
  end
  self:release()
end

-- Closes the program's descriptors.
function Process:release() programs.forget(self.program) end

Process.__close = Process.kill

require "runloop.test.program_output"(Process, {
  check = check, misuse = misuse, fail = fail, pause = pause, text_of = text_of,
  check_options = function(options, known, name) core.check_options(options, known, name, nil, a_type) end,
})

function Process:__tostring()
  local state = not self.how and "running" or self.how == "exit" and "exit status " .. self.code
    or "ended by signal " .. self.signalled
  return format("process %d (%s, %s, made at %s)", self.program:pid(), self.title, state, self.where)
end

return spawn
