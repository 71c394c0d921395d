-- The object of a running program: starts it, keeps its state, and controls it. Used by runloop.process, and by the
-- programs of tests.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local net = require "runloop.net"
local channels = require "runloop.process.channels"
local signals = require "runloop.process.signals"

local programs = {}
local channel, descriptor_of = channels.open, channels.descriptor_of
local raise, describe = misuse.raise, misuse.describe
local type, pairs, ipairs, tostring = type, pairs, ipairs, tostring
local setmetatable, rawlen = setmetatable, rawlen
local io_type = io.type
local format, find, concat = string.format, string.find, table.concat
local NUMBERS, signal_number, signal_name = signals.numbers, signals.number, signals.name

local STOP_GRACE = 2
local STANDARD = { "input", "output", "errors" }

-- Options -------------------------------------------------------------------------------------------------------------

programs.options = {
  environment = "table", clean_environment = "boolean", directory = "string", terminal = "table",
  detached = "boolean", dies_with_host = "boolean", foreground = "boolean", name = "string",
  on_exit = "function", on_output = "function", on_errors = "function",
  input = "any", output = "any", errors = "any", modes = { "string", "table" }, ["..."] = "any",
}
local TERMINAL = { columns = "any", rows = "any" }

local function wrong(what, text, ...) raise(what .. ": " .. format(text, ...)) end
programs.wrong = wrong

--- Checks and returns the words of a command: the array part of a table whose other fields must be known options.
function programs.check(what, options, known)
  if type(options) ~= "table" then
    wrong(what, "argument #1 must be a table such as { \"ls\", \"-l\" }, got %s", describe(options))
  end
  misuse.fields(options, known, what)
  local words = {}
  for index = 1, rawlen(options) do
    local word = options[index]
    if type(word) == "number" then word = tostring(word) end
    if type(word) ~= "string" then wrong(what, "word %d must be a string, got %s", index, describe(word)) end
    if find(word, "\0", 1, true) then wrong(what, "word %d contains a NUL, which no program can get", index) end
    words[index] = word
  end
  if not words[1] or words[1] == "" then wrong(what, "the first word must be the program, as in { \"ls\", \"-l\" }") end
  return words
end

-- The seed of this program, from the environment, and the number of programs that it has started.
local seed, started = math.tointeger(tonumber(os.getenv "RLHOST_SEED")), 0

--- Returns the seed of the n-th program that a program with a seed starts: SplitMix64, without the sign bit.
function programs.seed_of(parent, number)
  local z = parent + number * 0x9E3779B97F4A7C15
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return (z ~ (z >> 31)) >> 1
end

-- Returns the program's environment as "NAME=value" texts, or nil if the program gets the environment of this process.
local function environment(what, options)
  local changes = options.environment
  if not changes and not options.clean_environment and not seed then return nil end
  local all = {}
  if not options.clean_environment then for name, value in pairs(native.environment()) do all[name] = value end end
  -- Programs that inherited one seed would all draw the same numbers, so each gets its own.
  if seed and all.RLHOST_SEED then
    started = started + 1
    all.RLHOST_SEED = tostring(programs.seed_of(seed, started))
  end
  for name, value in pairs(changes or {}) do
    if type(name) ~= "string" or name == "" or find(name, "[=%z]") then
      wrong(what, "environment: '%s' cannot be a variable's name", tostring(name))
    end
    if value == false then
      all[name] = nil
    elseif type(value) == "string" or type(value) == "number" then
      value = tostring(value)
      if find(value, "\0", 1, true) then wrong(what, "environment: %s has a NUL in it", name) end
      all[name] = value
    else
      wrong(what, "environment: %s must be a string, or false for none, got %s", name, describe(value))
    end
  end
  local list = {}
  for name, value in pairs(all) do list[#list + 1] = name .. "=" .. value end
  table.sort(list)
  return list
end

-- Programs ------------------------------------------------------------------------------------------------------------

-- `__item` is the object that `loop:add` uses.
local Program = objects.class("runloop.process.Program", { __name = "program", __stays = true, __item = "_port" })
programs.Program = Program

--- Returns a program's name, from the words of its command.
function programs.words_of(words)
  local text = concat(words, " ")
  return #text > 60 and text:sub(1, 57) .. "…" or text
end

-- Returns the name of a program, and of its streams, in recordings. The program's arguments, which may be secrets, are
-- left out, unless the recorder's settings include them.
local function recorded_name(options, words)
  return options.recorded or options.name or native.records_arguments() and programs.words_of(words) or words[1]
end

-- Asks the system whether the program has ended, and records the answer.
local function look(self)
  if self._how then return true end
  local how, value = native.outcome(self._pid)
  if not how then return false end
  self._how, self._value = how, how == "signal" and signal_name(value) or value
  if self._stops then self._stops:invalidate() end
  if self._lent then native.take_back(self._pid) end
  if self._slave then self._slave:invalidate() end
  if self._killer and not native.has_group(self._pid) then self._killer:invalidate() end
  return true
end

-- Waits until a function has received all that the program has written by now, and has returned.
local function settle(self, told)
  local stream <const> = told.stream
  -- The kernel reports only complete lines of a terminal, and may hold some more bytes.
  local all = told.count + internals.available(stream) + (self._terminal and 65536 or 0)
  repeat
    while told.is_busy do told.changed:wait() end
    local before, is_all = told.count, told.count >= all
    internals.deliver(stream)
    while told.is_busy do told.changed:wait() end
  until is_all or told.count == before
end

-- Calls `on_exit` in one of the program's modes.
local function ended(self)
  if self._is_over or not look(self) then return end
  self._is_over = true
  self._port:invalidate()
  -- All of the program's output has arrived by now. This output is delivered before the end is reported.
  for _, told in ipairs(self._told) do internals.deliver(told.stream) end
  self._changed:broadcast()
  if not self._on_exit then return end
  for _, told in ipairs(self._told) do if told.is_busy then settle(self, told) end end
  -- Not a tail call: error traces then show that the call was made for this program.
  self._on_exit(self, self._how, self._value)
end

-- Watches for the program's end. If the kernel has no room for the watch, reports that once as an error; from then on
-- the system is polled.
local function watch(self, options, check)
  function options.callback(port)
    if check() then return end
    local loop, modes = rl.current(), {}
    for _, mode in ipairs(loop:modes()) do if loop:contains(port, mode) then modes[#modes + 1] = mode end end
    local timer
    timer = rl.timer {
      interval = 0.1, delay = 0.1, modes = modes, keeps_alive = false, name = "end of " .. self._recorded,
      callback = function()
        if not port:is_valid() or check() then timer:invalidate() end
      end,
    }
  end
  return rl.fd_port(options)
end

-- Returns whether the program's end is reported in the mode that runs.
local function is_heard(self)
  local loop = rl.current()
  return loop:contains(self._port, loop:mode() or "default")
end

-- Programs without a loop -------------------------------------------------------------------------------------------

--- Starts a program that no loop watches, such as a server of tests. Its output and errors go to a file. Returns its
--- process number, or nil and the reason.
function programs.launch(words, changes, path, name)
  local fd, message = native.open(path, false)
  if not fd then return nil, message end
  local pid, pidfd = native.start(words, environment("t.server", { environment = changes }), nil, -1, fd, fd, nil,
    false, true, nil, name)
  native.close(fd)
  if pid then native.close(pidfd) end
  return pid, pidfd
end

--- Starts a program that reads until this process ends. Returns the program's process number and the descriptor that
--- keeps it alive.
function programs.guard(words)
  local from, to = native.pipe()
  if not from then return end
  local pid, pidfd = native.start(words, nil, nil, from, -1, -1, nil, true, false, nil, words[1])
  native.close(from)
  if pid then native.close(pidfd) else native.close(to) end
  return pid, pid and to
end

--- Ends a program that `guard` has started.
function programs.dismiss(pid, fd)
  if not pid then return end
  native.abandon(pid)
  native.close(fd)
end

programs.outcome = native.outcome

--- Returns whether the program has ended, as the system says at this moment.
function programs.has_ended(self)
  if not self._is_over and look(self) then
    -- The program's functions are called in its modes.
    local has_functions = self._on_exit or self._on_output or self._on_errors
    if not has_functions or is_heard(self) then rl.task(ended, self) else self._changed:broadcast() end
  end
  return self._how ~= nil
end

--- Closes the program's streams: nothing more is written to the program or read from it.
function programs.abort_streams(self)
  for _, field in ipairs(STANDARD) do if self[field] then self[field]:abort() end end
end

--- Releases everything in this process that belongs to the program. None of the program's callbacks is called
--- afterwards.
function programs.forget(self)
  self._port:invalidate()
  if self._slave then self._slave:invalidate() end
  programs.abort_streams(self)
end

-- Counts the bytes that a function has received, and records whether the function runs at the moment.
local Told = { __close = function(self)
  self.is_busy = false
  self.changed:broadcast()
end }

-- Makes a stream of our end of one of the program's descriptors.
local function open_stream(self, fd, what, fn, modes)
  local options, told = { owns = true, name = what .. " of " .. self._recorded }, nil
  if fn then
    told = setmetatable({ count = 0, is_busy = false, changed = objects.condition "program:wait" }, Told)
    function options.on_data(_, bytes)
      local _ <close> = told
      told.is_busy, told.count = true, told.count + #bytes
      fn(self, bytes)
    end
    -- Without this function, no code would close the stream at its end.
    function options.on_end(stream, message, code)
      local _ <close> = told
      told.is_busy = true
      stream:close()
      fn(self, nil, message, code)
    end
    options.on_error = options.on_end
  end
  local stream, message, code = net.open(fd, options)
  if stream and fn then
    told.stream, self._told[#self._told + 1] = stream, told
    rl.current():remove(stream, "common")
    rl.current():add(stream, modes)
  end
  return stream, message, code
end

-- Raises unless the options for input, output, errors and the terminal fit together.
local function check_channels(what, options)
  local terminal = options.terminal
  for field in pairs { output = options.on_output, errors = options.on_errors } do
    if terminal and field == "errors" then
      wrong(what, "on_errors: with a terminal, on_output gets everything that a program writes to its terminal")
    end
    if options[field] ~= nil and options[field] ~= "pipe" then
      wrong(what, "on_%s: it needs a pipe, and cannot be used with %s = %s", field, field, describe(options[field]))
    end
  end
  for _, field in ipairs(STANDARD) do
    local value = options[field]
    if value ~= nil and terminal then wrong(what, "%s: a program with a terminal has that as its %s", field, field) end
    if internals.kind(value) == "stream" and not descriptor_of(value) then
      wrong(what, "%s: this stream has no descriptor: it is closed, or of net.memory", field)
    end
    if internals.kind(value) == "stream" and value:tls() then
      wrong(what, "%s: this stream uses TLS, which a program would bypass: give it a pipe, and copy", field)
    end
    if value ~= nil and type(value) ~= "string" and not descriptor_of(value) then
      wrong(what, "%s must be \"pipe\", \"inherit\", \"null\", a path, a stream or a file%s, got %s", field,
        field == "errors" and ", or \"output\"" or "", describe(value))
    end
  end
  if options.foreground and (terminal or options.detached) then
    wrong(what, "foreground: a program that is detached, or has a terminal of its own, cannot have this one")
  end
  if terminal then misuse.fields(terminal, TERMINAL, what .. ": terminal") end
  for field, value in pairs(terminal or {}) do
    if math.type(value) ~= "integer" or value < 1 or value > 65535 then
      wrong(what, "terminal: %s must be an integer from 1 to 65535, got %s", field, tostring(value))
    end
  end
end

-- Makes the port for the program's end, and the streams of our ends of its descriptors. Removes the descriptors that it
-- uses from `ours`. Returns nothing, or a message and its code.
local function observe(self, pidfd, ours, options, modes)
  local message, code
  local name = format("%s (%d)", self._recorded, self._pid)
  self._port, message, code = watch(self, { fd = pidfd, owns = true, name = name },
    function() ended(self) return self._is_over end)
  internals.set_subject(self, format('program "%s" (%d) %s', self._name, self._pid, self._made_at))
  if not self._port then ours.process = pidfd end
  for _, field in ipairs(STANDARD) do
    local fd = ours[field]
    if self._port and not message and fd then
      local fn = options.terminal and options.on_output or options["on_" .. field]
      self[field], message, code = open_stream(self, fd, options.terminal and "terminal" or field, fn, modes)
      if self[field] then ours[field] = nil end
    end
  end
  return message, code
end

-- Returns the stream in a value that a program gets as a standard stream: the value itself, or the stream of a
-- connection of runloop.socket. Returns nil for other values.
local function stream_of(value)
  if internals.kind(value) == "stream" then return value end
  return type(value) == "table" and internals.stream_of and internals.stream_of(value) or nil
end

-- Sends the buffered output of the streams and files that the program is about to get, so that the program's own output
-- follows it. Waits for a stream that is full. Returns true, or nil and the reason.
local function send_before(options, defaults)
  if options.terminal then return true end
  for index, field in ipairs(STANDARD) do
    local value = options[field]
    if value == nil and not options["on_" .. field] then value = defaults[index] end
    local stream = stream_of(value)
    if stream then
      if field ~= "input" then
        local fine, message, code = stream:flush()
        if not fine then return nil, message, code end
      end
      internals.make_blocking(stream)
    elseif io_type(value) == "file" then
      value:flush()
    elseif value == "inherit" and field ~= "input" then
      native.flush()
      local own = internals.standard[index - 1]
      if own and own:is_open() then own:flush() end
    end
  end
  return true
end

-- The program owns the streams that it was given: closing them here does not shut down their connections.
local function share_streams(options)
  for _, field in ipairs(STANDARD) do
    local stream = stream_of(options[field])
    if stream then internals.share(stream) end
  end
end

--- Starts a program. `words` is its command; `defaults` has the default places of its input, output and errors. Returns
--- the program, or nil and the reason.
function programs.start(what, options, words, defaults)
  local list = environment(what, options)
  local modes = objects.modes(options.modes, what)
  check_channels(what, options)
  local is_sent, refusal, reason = send_before(options, defaults)
  if not is_sent then return nil, refusal, reason end
  local spare, ours = {}, {}
  local function give_up(message, code, has_started)
    for _, fd in ipairs(has_started and {} or spare) do native.close(fd) end
    for _, fd in pairs(ours) do native.close(fd) end
    return nil, message, code
  end
  local terminal, fds, path, slave = options.terminal, {}, nil, nil
  if terminal then
    local master, name, other = native.terminal(terminal.rows or 24, terminal.columns or 80)
    if not master then return give_up(name, other) end
    -- This process keeps the other side open, too. The terminal then survives a program that closes it, and the program
    -- may open it again.
    ours.input, ours.slave, path, slave = master, other, name, other
    fds = { -1, -1, -1 }
  else
    for index, field in ipairs(STANDARD) do
      local default = options["on_" .. field] and "pipe" or defaults[index]
      local fd, message, code = channel(options, field, default, spare, ours)
      if not fd then return give_up(message, code) end
      fds[index] = fd
    end
    if fds[3] == -2 then fds[3] = fds[2] end
  end
  local lent, busy, busy_code
  if options.foreground then lent, busy, busy_code = native.lend() end
  if busy then return give_up(busy, busy_code) end
  local slave_port
  if slave then
    local message, code
    slave_port, message, code = rl.fd_port { fd = slave, owns = true, callback = function() end }
    if not slave_port then return give_up(message, code) end
    ours.slave = nil
  end
  local recorded = recorded_name(options, words)
  local pid, pidfd, code = native.start(words, list, options.directory, fds[1], fds[2], fds[3], path,
    options.detached or false, options.dies_with_host or false, lent, recorded)
  if not pid then
    if slave_port then slave_port:invalidate() elseif lent then native.keep() end
    return give_up(pidfd, code)
  end
  for _, fd in ipairs(spare) do native.close(fd) end
  share_streams(options)
  local self = setmetatable({
    _pid = pid, _made_at = objects.made_at(),
    _changed = objects.condition(what == "process.run" and what or "program:wait"),
    _name = options.name or programs.words_of(words), _recorded = recorded,
    _on_exit = options.on_exit, _on_output = options.on_output, _on_errors = options.on_errors, _told = {},
    _detached = options.detached, _terminal = terminal and true, _slave = slave_port, _lent = lent and true,
  }, Program)
  local message
  message, reason = observe(self, pidfd, ours, options, modes)
  if message then
    -- If there is no memory for the objects that observe the program, the program is ended.
    native.abandon(pid)
    if lent then native.take_back(pid) end
    if self._port then programs.forget(self) elseif slave_port then slave_port:invalidate() end
    return give_up(message, reason, true)
  end
  if terminal then self.output = self.input end
  if (what == "process.run" or what == "process.shell") and internals.is_background() then
    internals.set_background(self._port, true)
  end
  -- Errors about the port name the program.
  internals.set_value(self._port, internals.value_number("fd_port", "object"), self)
  rl.current():add(self._port, modes)
  -- Control-Z stops the program. This process then stops, too, so that the user gets back to the shell.
  if lent then self._stops = signals.on_signal("CHLD", function() native.suspend(pid) end) end
  return self
end

function Program:wait(timeout)
  misuse.optional(timeout, "seconds", "program:wait", 1)
  local limit = timeout and rl.now() + timeout
  -- Like every wait, this wait can also end in the mode in which it begins, whatever the program's own modes are.
  local ear <close> = not is_heard(self) and not programs.has_ended(self)
    and watch(self, { fd = self._port:fd(), modes = { "common", rl.current():mode() } },
      function() return programs.has_ended(self) end) or nil
  while not self._how do
    local left = limit and math.max(0, limit - rl.now())
    local woken, reason = self._changed:wait(left)
    if not woken and not self._how then return nil, reason end
  end
  return self._how, self._value
end

function Program:is_running() return not programs.has_ended(self) end
function Program:pid() return self._pid end
function Program:name() return self._name end

-- Sends a signal to the program's whole group. After the program has been reaped, its process number stays reserved as
-- long as the group has members, and the signal reaches only these. If the group is empty, another process may have the
-- number: returns ESRCH.
local function send(self, number)
  if self._how and not native.has_group(self._pid) then
    return nil, "ESRCH: it has ended (" .. self._name .. ")", "ESRCH"
  end
  return native.signal(-self._pid, number)
end

function Program:signal(name) return send(self, signal_number("program:signal", name, 1)) end

-- Ends the processes that the program has left in its group. The processes get the same time as the program itself.
local function end_rest(self, limit)
  local pause = 0.002
  while native.has_group(self._pid) and rl.now() < limit do
    rl.sleep(pause)
    pause = math.min(pause * 2, 0.1)
  end
  send(self, NUMBERS.KILL)
end

function Program:stop(grace)
  if grace == nil then grace = STOP_GRACE end
  misuse.argument(grace, "seconds", "program:stop", 1)
  local limit = rl.now() + grace
  -- A stopped process would not receive SIGTERM, so it is continued.
  if send(self, NUMBERS.TERM) then send(self, NUMBERS.CONT) end
  if not self:wait(grace) then send(self, NUMBERS.KILL) end
  self:wait()
  end_rest(self, limit)
  return self._how, self._value
end

function Program:resize(rows, columns)
  for index, value in ipairs { rows or false, columns or false } do
    if math.type(value) ~= "integer" or value < 1 or value > 65535 then
      raise("program:resize: argument #%d must be an integer from 1 to 65535, got %s",
        index, value and tostring(value) or "nothing")
    end
  end
  if not self._terminal then
    raise("program:resize: it has no terminal; start it with terminal = { rows =, columns = }")
  end
  return native.resize(self.input:fd(), rows, columns)
end

-- A <close> cannot wait, so it sends SIGTERM now; SIGKILL follows in the background if the program has not ended in
-- time.
function Program:__close()
  if self._how then return end
  send(self, NUMBERS.TERM)
  send(self, NUMBERS.CONT)
  self._killer = rl.after(STOP_GRACE, function() send(self, NUMBERS.KILL) end)
end
objects.methods(Program, "program")
function Program:__tostring()
  local state = not self._how and "runs" or self._how == "exit" and "exit " .. self._value or "ended by " .. self._value
  return format("program %q (%d, %s, %s)", self._name, self._pid, state, self._made_at)
end

return programs
