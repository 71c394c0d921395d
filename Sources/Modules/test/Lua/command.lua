-- The test runner: starts workers that run the files, and reports their events.

local rl = require "runloop"
local system = ...
local report = require "runloop.test.report"
local choice = require "runloop.test.options"
local workers = require "runloop.test.workers"
local text_of = require "runloop.test.events".text_of

local command = {}
local function leave(status) os.exit(status) end
local format, concat = string.format, table.concat
local pairs, ipairs, next = pairs, ipairs, next
local tonumber, tostring = tonumber, tostring

-- A run ---------------------------------------------------------------------------------------------------------------

local Run = {}
Run.__index = Run
for name, method in pairs(workers) do Run[name] = method end

-- Returns what a worker needs to know about a file, as Lua in one line without tabs.
function Run:settings(file)
  local options, settings = self.options, { secret = self.secret, file_number = file.number, lines = file.lines,
    names = file.names }
  for _, name in ipairs { "filters", "seed", "timeout", "fail-fast", "real-time", "list", "shuffle", "watch", "repeat",
    "retries", "tags", "skip-tags", "shard", "update", "tz", "forbid-only", "plain" } do
    settings[name:gsub("%-", "_")] = options[name]
  end
  settings.coverage = options.coverage and true or nil
  settings.trace, settings.recordings = options.trace, file.recordings
  -- Tests may change the current directory, so the settings contain the directory of a relative path.
  if options.trace and options.trace:sub(1, 1) ~= "/" then settings.trace_from = system.current_directory() end
  return (text_of(settings):gsub("\\\n", "\\n"):gsub("\t", "\\009"))
end

local function say_to_all(self, file, method, ...)
  for _, reporter in ipairs(self.reporters) do reporter[method](reporter, file, ...) end
end

-- Files are reported in their order: the events of a later file are queued until it is the file's turn.
function Run:tell(file, method, ...)
  if self.files[self.turn] ~= file then
    file.queue[#file.queue + 1] = table.pack(method, ...)
    return
  end
  say_to_all(self, file, method, ...)
end

function Run:advance()
  while true do
    local file = self.files[self.turn]
    if not file or not file.ended then return end
    self.turn = self.turn + 1
    local next_file = self.files[self.turn]
    if not next_file then return end
    local queue = next_file.queue
    next_file.queue = {}
    for _, entry in ipairs(queue) do say_to_all(self, next_file, entry[1], table.unpack(entry, 2, entry.n)) end
  end
end

function Run:end_file(file)
  file.ended = true
  self:tell(file, "end_file")
  self:advance()
end

function Run:stop_early()
  if not self.options["fail-fast"] or self.stopping then return end
  self.stopping = true
  for worker in pairs(self.workers) do
    if worker.file and worker.file ~= self.failed_file then self:kill(worker) end
  end
end

function Run:file_failed(file, failure, title)
  local what = title and title ~= "" and "broken_groups" or "broken"
  file[what] = (file[what] or 0) + 1
  self.totals[what] = self.totals[what] + 1
  self:tell(file, "file_failed", failure, title)
  self.failed_file = file
  self:stop_early()
end

function Run:outcome(file, number, event)
  local totals = self.totals
  file[event.s] = file[event.s] + 1
  totals[event.s] = totals[event.s] + 1
  if event.flaky then totals.flaky = totals.flaky + 1 end
  file.done = number
  local test = file.tests[number]
  self.memory:note(file.path, test.path, event.s)
  if event.t then self.times[#self.times + 1] = { event.t, file.path, test.path } end
  self:tell(file, "test", number, event)
  if event.s == "failed" then
    self.failed_file = file
    self:stop_early()
  end
end

--- Handles an event from a worker.
function Run:handle(worker, event)
  local file = worker.file
  if not file then return end
  local kind = event.k
  if kind == "begin" then
    worker.tests_in = event.pid
    self:enter(worker, "load", self.options.timeout)
  elseif kind == "plan" then
    file.tests = event.tests
    if not file.planned then
      file.planned = true
      self.totals.tests = self.totals.tests + #event.tests
      self.totals.passed_over = self.totals.passed_over + (event.only or 0)
    end
    self:enter(worker, "group", self.options.timeout)
  elseif kind == "start" then
    file.running = event.i
    self:enter(worker, "test", event.l)
  elseif kind == "done" then
    file.running = nil
    self:drain(worker)
    self:outcome(file, event.i, event)
    self:enter(worker, "group", self.options.timeout * 2)
    if event.m then worker.marks_told = event.m end
  elseif kind == "file_failed" then
    self:drain(worker)
    self:file_failed(file, event.failure, event.title)
  elseif kind == "lines" then
    self.coverage:add(event.files)
  elseif kind == "note" then
    self.notes[#self.notes + 1] = event.text
  elseif kind == "files" then
    self.dependencies[file.path] = event.files
  elseif kind == "stop" then
    worker.is_stopping = true
    self:kill(worker)
  elseif kind == "end" then
    file.is_over = true
    self:enter(worker, "close", self.options.timeout)
  elseif kind == "closed" and file.is_over then
    self:drain(worker, true)
    worker.phase = nil
    file.time = system.real_clock() - worker.began
    worker.file = nil
    self:end_file(file)
    self:give_work(worker)
  elseif kind == "closed" and not worker.is_stopping then
    file.is_over = true
    self:end_file(file)
    worker.phase, worker.file = nil, nil
    self:give_work(worker)
  end
end

function Run:look_for_late()
  for worker in pairs(self.workers) do
    local phase = worker.phase
    if phase then workers.note_delays(worker, phase) end
    -- A worker itself reports a phase that takes too long. A worker that cannot report it any more is killed.
    if phase and system.real_clock() - phase.began - phase.delayed > phase.limit + 5 then
      local what = phase.name == "load" and "loading the file took"
        or phase.name == "close" and "the end of the file took"
        or phase.name == "test" and "the test took" or "the group's before_all and after_all took"
      worker.was_late = format("%s longer than %g s and could not be interrupted", what, phase.limit)
      worker.phase = nil
      self:kill(worker)
    end
  end
end

-- The end -------------------------------------------------------------------------------------------------------------

function Run:finish_if_done()
  if next(self.workers) ~= nil or self.finished then return end
  self.finished = true
  self.late_timer:invalidate()
  if self.give_up then self.give_up:invalidate() end
  local totals, options = self.totals, self.options
  -- Report the events of later files, which were queued until now.
  for turn = self.turn, #self.files do
    local file = self.files[turn]
    self.turn = turn
    for _, entry in ipairs(file.queue) do say_to_all(self, file, entry[1], table.unpack(entry, 2, entry.n)) end
    file.queue = {}
    if file.has_begun and not file.ended then say_to_all(self, file, "end_file") end
    file.ended = true
  end
  totals.time = system.real_clock() - self.began
  totals.not_run = math.max(0, totals.tests - totals.passed - totals.failed - totals.skipped)
  totals.not_loaded = 0
  for _, file in ipairs(self.files) do
    if not file.planned and not file.broken then totals.not_loaded = totals.not_loaded + 1 end
  end
  totals.notes = self.notes
  local below
  if not options.list then
    table.sort(self.times, function(a, b) return a[1] > b[1] end)
    totals.slowest = {}
    for i = 1, options.slowest or 0 do totals.slowest[i] = self.times[i] end
    if totals.abandoned then
      io.write "\ngiven up\n"
    elseif totals.tests > 0 or totals.broken + totals.broken_groups > 0 or totals.interrupted then
      for _, reporter in ipairs(self.reporters) do reporter:finish(totals) end
    end
    if options.coverage and not totals.interrupted then
      local covered = self.coverage:finish(options.coverage, self.say)
      if not covered then
        below = true
      elseif options["coverage-min"] and covered < options["coverage-min"] then
        below = true
        io.stderr:write(format("rlhost: test: %.1f%% of the lines ran, less than --coverage-min %g\n", covered,
          options["coverage-min"]))
      end
    end
    for _, file in ipairs(self.files) do
      if file.names and file.planned then self.memory:forget(file.path, file.names, file.tests) end
    end
    self.memory:save()
  end
  for _, fd in ipairs(self.targets) do system.close(fd) end
  self:note_loss("standard output", select(2, io.stdout:flush()))
  if totals.interrupted then return self.done(128 + totals.interrupted) end
  local status = (totals.failed + totals.broken + totals.broken_groups > 0 or below or self.has_lost) and 1
    or totals.tests == 0 and not options.shard and 5 or 0
  if status == 0 and totals.tests == 0 and options.format == "readable" and not options.list then
    io.write "no test is in this part\n"
  end
  if status == 5 and options["last-failed"] then
    io.stderr:write "rlhost: test: the tests that failed last time no longer exist\n"
  elseif status == 5 then
    local filters = concat(options.filters or {}, "' or '")
    io.stderr:write("rlhost: test: no test found", filters ~= "" and #self.files > 0
      and format(" whose name matches '%s'", filters) or options.tags and " with these tags"
      or " in " .. concat(self.searched, ", "), "\n")
    if filters:find "[%^%$%(%)%%%.%[%]%*%+%-%?]" and #self.files > 0 and not options.plain then
      io.stderr:write("a filter is a Lua pattern, or a literal part of the name\n")
    end
  end
  self.done(status)
end

local SIGNALS = { [1] = "SIGHUP", [2] = "SIGINT", [15] = "SIGTERM" }

--- Ends all workers, and reports the results so far.
function Run:interrupt(number)
  if self.totals.interrupted then os.exit(128 + number) end
  self.totals.interrupted, self.totals.signal = number, SIGNALS[number]
  for _, text in ipairs(self:running()) do table.insert(self.totals.running, text) end
  self.stopping = true
  for worker in pairs(self.workers) do self:kill(worker) end
  -- The workers clean up before they end; the runner waits at most 5 seconds for their end.
  self.give_up = rl.after(5, function()
    self.workers = {}
    self:finish_if_done()
  end)
  self:finish_if_done()
end

--- Ends a run whose results nobody wants any more.
function Run:abandon()
  if self.stopping then return end
  self.stopping, self.totals.abandoned = true, true
  for worker in pairs(self.workers) do self:kill(worker) end
end

-- Returns a reporter that prints the names of the tests only.
local function lister()
  local new = setmetatable({}, { __index = function() return function() end end })
  function new.end_file(_, file)
    for _, test in ipairs(file.tests) do io.write(file.path, ": ", report.clean(concat(test.path, " › ")), "\n") end
  end
  function new.file_failed(_, file, failure)
    io.stderr:write("rlhost: test: ", concat(report.failure_lines(failure), "\n"), "\n")
  end
  return new
end

--- If there is a message, reports once that a report could not be written; the run has then failed. A reader that
--- closes the pipe early, like `head`, is not an error.
function Run:note_loss(what, message)
  if not message or self.has_lost or message:find "[Bb]roken pipe" then return end
  self.has_lost = true
  io.stderr:write("rlhost: test: cannot write ", what, ": ", message, "\n")
end

-- Returns the reporters for the terminal and for files.
local function make_reporters(self, options)
  local coloured = system.is_terminal(1) and not os.getenv "NO_COLOR" and os.getenv "TERM" ~= "dumb"
  local write = function(text)
    local _, message = io.write(text)
    self:note_loss("standard output", message)
  end
  if options.list then return { lister() } end
  local list = { report.new(options.format, write, coloured) }
  for _, entry in ipairs(options.reports) do
    local fd, message = system.open_report(entry.path)
    if not fd then
      io.stderr:write("rlhost: test: --report: cannot write ", message, "\n")
      leave(64)
    end
    self.targets[#self.targets + 1] = fd
    list[#list + 1] = report.new(entry.format, function(text)
      self:note_loss(entry.path, select(2, system.put(fd, text)))
    end, false, entry.schema)
  end
  return list
end

local function new_secret()
  local file <close> = io.open("/dev/urandom", "rb")
  local bytes = file and file:read(8) or tostring(system.real_clock())
  return (bytes:gsub(".", function(c) return format("%02x", c:byte()) end))
end

--- Runs files, and calls `done` with the exit status.
local function run_files(options, files, searched, lua_options, dependencies, done)
  local run = setmetatable({
    options = options, lua_options = lua_options, files = {}, turn = 1, next = 1, workers = {}, secret = new_secret(),
    searched = searched, done = done, began = system.real_clock(), dependencies = dependencies, times = {}, notes = {},
    targets = {}, memory = options.memory,
    totals = { tests = 0, passed = 0, failed = 0, skipped = 0, broken = 0, broken_groups = 0, flaky = 0,
      passed_over = 0, running = {}, seed = options.seed, shuffled = options.shuffle },
    coverage = options.coverage and require "runloop.test.coverage".new(system.current_directory(),
      options["coverage-source"]),
  }, Run)
  run.reporters = make_reporters(run, options)
  run.say = options.format == "readable" and function(text) io.write(text) end
    or function(text) io.stderr:write(text) end
  for i, file in ipairs(files) do
    run.files[i] = { path = file.path, lines = file.lines, names = file.names, number = i, queue = {}, tests = {},
      passed = 0, failed = 0, skipped = 0, time = 0 }
  end
  if options.trace then require "runloop.test.recordings".prepare(options.trace, run.files) end
  if options.shuffle then require "runloop.test.order"(options.seed, "")(run.files) end
  run.late_timer = rl.every(0.25, function() run:look_for_late() end)
  for _ = 1, options.jobs < #files and options.jobs or #files do run:start_worker() end
  run:finish_if_done()
  return run
end

-- The command ---------------------------------------------------------------------------------------------------------

local function watch_signals(handle)
  local fd = system.watch_signals()
  if not fd then return end
  rl.on_readable(fd, function()
    local number = system.next_signal(fd)
    if number and number > 0 then handle(number) end
  end)
end

--- Runs the command. `count` is the number of options of rlhost before "test"; in the arguments, these options come
--- first, and the words after "test" follow.
function command.run(count, ...)
  local all, lua_options, own = { ... }, {}, {}
  count = math.tointeger(tonumber(count))
  for i, argument in ipairs(all) do
    local list = i <= count and lua_options or own
    list[#list + 1] = argument
  end
  local options, paths = choice.parse(own)
  if not options.seed then options.seed = math.random(0, 999999) end
  options.memory = require "runloop.test.memory".new()
  local current
  watch_signals(function(number)
    if number == 3 then return current and current:explain() end
    io.write "\n"
    if options.watch and (not current or current.finished) then leave(128 + number) end
    if current then current:interrupt(number) else leave(128 + number) end
  end)
  if options.watch then
    local _, searched = choice.find_files(paths)
    local watch = require "runloop.test.watch"
    return watch(searched, options, function(files, dependencies, done)
      current = run_files(options, files, searched, lua_options, dependencies, function(status)
        if current and current.totals.interrupted then leave(status) end
        done()
      end)
      return current
    end, function()
      if current.finished then leave(0) end
      current:interrupt(2)
    end)
  end
  local files, searched = choice.find_files(paths)
  if options["last-failed"] then files = options.memory:choose(files) end
  current = run_files(options, files, searched, lua_options, {}, leave)
end

return command
