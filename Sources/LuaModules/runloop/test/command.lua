-- The test runner: finds the files, has workers run them, and reports what they say.

local rl = require "runloop"
local system = ...
local report = require "runloop.test.report"
local choice = require "runloop.test.options"

local command = {}
local function leave(status) os.exit(status) end
local format, concat, unpack_string = string.format, table.concat, string.unpack
local pairs, ipairs, tonumber, tostring, type, load = pairs, ipairs, tonumber, tostring, type, load

-- A run ---------------------------------------------------------------------------------------------------------------

local Run = {}
Run.__index = Run
local read_output, drain

local function quote(value) return format("%q", value) end

-- What a worker needs to know, as Lua.
local function settings(options)
  local parts = {}
  for _, name in ipairs { "filter", "seed", "timeout" } do
    if options[name] then parts[#parts + 1] = name .. "=" .. quote(options[name]) end
  end
  if options["fail-fast"] then parts[#parts + 1] = "fail_fast=true" end
  if options["real-time"] then parts[#parts + 1] = "real_time=true" end
  for _, name in ipairs { "list", "shuffle", "watch" } do
    if options[name] then parts[#parts + 1] = name .. "=true" end
  end
  if options.coverage then parts[#parts + 1] = "coverage=true" end
  return "{" .. concat(parts, ","):gsub("\\\n", "\\n") .. "}"
end

-- Reports of files come in order: what a later file has to say waits for its turn.
function Run:tell(file, method, ...)
  if self.files[self.turn] ~= file then
    file.queue[#file.queue + 1] = table.pack(method, ...)
    return
  end
  self.reporter[method](self.reporter, file, ...)
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
    for _, entry in ipairs(queue) do
      self.reporter[entry[1]](self.reporter, next_file, table.unpack(entry, 2, entry.n))
    end
  end
end

local function new_file(path)
  return { path = path, queue = {}, tests = {}, passed = 0, failed = 0, skipped = 0, time = 0 }
end

function Run:stop_early()
  if not self.options["fail-fast"] or self.stopping then return end
  self.stopping = true
  for worker in pairs(self.workers) do
    if worker.file and worker.file ~= self.failed_file then self:kill(worker) end
  end
end

function Run:kill(worker)
  system.signal(-worker.pid, 9)
  system.signal(worker.pid, 9)
end

function Run:file_failed(file, failure)
  file.broken = true
  self.totals.broken = self.totals.broken + 1
  self:tell(file, "file_failed", failure)
  self.failed_file = file
  self:stop_early()
end

function Run:outcome(file, number, event)
  local totals = self.totals
  file[event.s] = file[event.s] + 1
  totals[event.s] = totals[event.s] + 1
  file.done = number
  self:tell(file, "test", number, event)
  if event.s == "failed" then
    self.failed_file = file
    self:stop_early()
  end
end

function Run:handle(worker, event)
  local file = worker.file
  if not file then return end
  if event.k == "plan" then
    file.tests = event.tests
    if not file.planned then
      file.planned = true
      self.totals.tests = self.totals.tests + #event.tests
      self.totals.passed_over = self.totals.passed_over + (event.only or 0)
    end
  elseif event.k == "start" then
    file.running = event.i
    worker.test_began = system.real_clock()
  elseif event.k == "done" then
    file.running = nil
    worker.test_began = nil
    drain(self, worker)
    self:outcome(file, event.i, event)
    if event.m then worker.marks_told = event.m end
  elseif event.k == "file_failed" then
    drain(self, worker)
    self:file_failed(file, event.failure)
  elseif event.k == "lines" then
    self.coverage:add(event.files)
  elseif event.k == "files" then
    self.dependencies[file.path] = event.files
  elseif event.k == "broken" then
    worker.is_broken = true
  elseif event.k == "end" then
    drain(self, worker, true)
    file.time = system.real_clock() - worker.began
    worker.file = nil
    file.ended = true
    self:tell(file, "end_file")
    self:advance()
    if worker.is_broken then self:dismiss(worker) else self:give_work(worker) end
  end
end

function read_output(worker)
  while worker.output do
    local text, _, code = system.read(worker.output.fd)
    if not text and code == "EAGAIN" then return end
    if not text or text == "" then
      worker.output.port:invalidate()
      system.close(worker.output.fd)
      worker.output = nil
      return
    end
    worker.printed = worker.printed .. text
  end
end

-- Passes on what tests have printed. Behind each test's output is its mark: what comes after that waits until the test's
-- outcome has been told. `last`: there will be no more marks.
function drain(self, worker, last)
  read_output(worker)
  local file = worker.file or worker.last_file
  while worker.printed ~= "" and worker.mark <= worker.marks_told do
    local from, to, number = worker.printed:find "%zrlhost:(%d+)%z"
    local stop = from or last and #worker.printed + 1
      -- The beginning of a mark is no output.
      or worker.printed:find "%z[^%z]*$" or #worker.printed + 1
    local text = worker.printed:sub(1, stop - 1)
    worker.printed = worker.printed:sub(from and to + 1 or stop)
    if number then worker.mark = tonumber(number) end
    if text ~= "" and file then self:tell(file, "output", text) end
    if not from then return end
  end
end

local function receive(self, worker)
  while worker.channel do
    local text, _, code = system.read(worker.channel.fd)
    if not text and code == "EAGAIN" then return end
    if not text or text == "" then return end
    worker.pending = worker.pending .. text
    local position = 1
    while #worker.pending - position >= 3 do
      local length = unpack_string("<I4", worker.pending, position)
      if #worker.pending < position + 3 + length then break end
      local payload = worker.pending:sub(position + 4, position + 3 + length)
      position = position + 4 + length
      local chunk = load("return " .. payload, "=event", "t", {})
      if chunk then self:handle(worker, chunk()) end
    end
    worker.pending = worker.pending:sub(position)
  end
end

local function forget(worker, name)
  local port = worker[name]
  if not port then return end
  worker[name] = nil
  port.port:invalidate()
  system.close(port.fd)
end

local SIGNALS

local function describe_end(how, number)
  if how == "signal" then
    SIGNALS = SIGNALS or require "runloop.test.spawn".signal_names
    return format("the process was ended by signal %d%s", number, SIGNALS[number] and format(" (SIG%s)", SIGNALS[number])
      or "")
  end
  return format("the process ended with status %d", number)
end

-- A worker has gone: the test it ran is to blame, and the rest of its file is given to another one.
function Run:worker_ended(worker)
  local how, number = system.ended(worker.pid)
  if not how then return end
  receive(self, worker)
  worker.marks_told = math.huge
  drain(self, worker, true)
  self.workers[worker] = nil
  for _, name in ipairs { "channel", "output", "end_port" } do forget(worker, name) end
  local file = worker.file
  if file and not self.stopping then
    local failure = { kind = "exit", message = describe_end(how, number) }
    if worker.was_late then failure = { kind = "timeout", message = worker.was_late } end
    if file.running then
      failure.where = file.tests[file.running] and file.tests[file.running].where
      local test = file.running
      file.running = nil
      self:outcome(file, test, { s = "failed", failures = { failure }, t = system.real_clock() - worker.test_began })
      if test < #file.tests and not self.options["fail-fast"] then
        self:start_worker(file, test + 1)
        return
      end
    elseif file.planned and (file.done or 0) >= #file.tests then
      -- All tests had ended; what came after is nobody's.
      failure.message = failure.message .. " after its last test"
      self:file_failed(file, failure)
    else
      self:file_failed(file, failure)
    end
  end
  if file then
    file.ended = true
    self:tell(file, "end_file")
    self:advance()
  end
  if not self.stopping and self.next <= #self.files then self:start_worker() else self:finish_if_done() end
end

function Run:dismiss(worker)
  forget(worker, "channel")
end

function Run:send(worker, file, first)
  worker.file, worker.last_file = file, file
  worker.began = system.real_clock()
  if first == 1 then self:tell(file, "begin_file") end
  local line = concat({ file.path, tostring(first), self.settings }, "\t") .. "\n"
  local position = 1
  while position <= #line do
    local count, _, code = system.write(worker.channel.fd, line, position)
    if count then position = position + count elseif code ~= "EAGAIN" and code ~= "EINTR" then return end
  end
end

function Run:give_work(worker, file, first)
  if file then return self:send(worker, file, first) end
  local next_file = not self.stopping and self.files[self.next]
  if not next_file then return self:dismiss(worker) end
  self.next = self.next + 1
  self:send(worker, next_file, 1)
end

function Run:start_worker(file, first)
  local arguments = { system.program() }
  for _, argument in ipairs(self.lua_options) do arguments[#arguments + 1] = argument end
  arguments[#arguments + 1] = "test"
  arguments[#arguments + 1] = "--worker"
  local pid, channel, output, ended = system.start(arguments, nil, nil, "worker")
  if not pid then
    io.stderr:write("rlhost: test: cannot start a worker: ", channel, "\n")
    leave(1)
  end
  local worker = { pid = pid, pending = "", printed = "", mark = 0, marks_told = 0 }
  self.workers[worker] = true
  local function watch(name, fd, callback) worker[name] = { fd = fd, port = rl.on_readable(fd, callback) } end
  watch("channel", channel, function() receive(self, worker) end)
  watch("output", output, function()
    receive(self, worker)
    drain(self, worker)
  end)
  watch("end_port", ended, function() self:worker_ended(worker) end)
  self:give_work(worker, file, first)
end

-- A worker tells by itself when a test takes too long; one that cannot even do that is ended.
function Run:look_for_late()
  local limit = self.options.timeout * 2 + 5
  for worker in pairs(self.workers) do
    if worker.test_began and system.real_clock() - worker.test_began > limit then
      worker.was_late = format("the test took longer than %g s and could not be interrupted", self.options.timeout)
      self:kill(worker)
    end
  end
end

function Run:finish_if_done()
  if next(self.workers) ~= nil or self.finished then return end
  self.finished = true
  self.late_timer:invalidate()
  local totals = self.totals
  totals.time = system.real_clock() - self.began
  totals.not_run = totals.tests - totals.passed - totals.failed - totals.skipped
  if totals.not_run < 0 then totals.not_run = 0 end
  if not self.options.list then
    if totals.tests > 0 or totals.broken > 0 then self.reporter:finish(totals) end
    if self.options.coverage then self.coverage:finish(self.options.coverage, self.say) end
  end
  local status = (totals.failed > 0 or totals.broken > 0) and 1 or totals.tests == 0 and 5 or 0
  if status == 5 then
    io.stderr:write("rlhost: test: no test found", self.options.filter and #self.files > 0
      and format(" whose name matches '%s'", self.options.filter) or " in " .. concat(self.searched, ", "), "\n")
  end
  self.done(status)
end

-- Names only.
local Lister = setmetatable({}, { __index = function() return function() end end })

function Run:lister()
  local lister = setmetatable({}, getmetatable(Lister))
  function lister.end_file(_, file)
    for _, test in ipairs(file.tests) do io.write(file.path, ": ", concat(test.path, " › "), "\n") end
  end
  function lister.file_failed(_, file, failure)
    io.stderr:write("rlhost: test: ", concat(report.failure_lines(failure), "\n"), "\n")
  end
  return lister
end

--- Runs files, and calls `done` with the exit status.
local function run_files(options, paths, searched, lua_options, dependencies, done)
  local write = function(text) io.write(text) end
  local coloured = system.is_terminal(1) and not os.getenv "NO_COLOR" and os.getenv "TERM" ~= "dumb"
  local run = setmetatable({
    options = options, settings = settings(options), lua_options = lua_options, files = {}, turn = 1, next = 1, workers = {},
    searched = searched, done = done, began = system.real_clock(), dependencies = dependencies, say = write,
    totals = { tests = 0, passed = 0, failed = 0, skipped = 0, broken = 0, passed_over = 0, seed = options.seed,
      shuffled = options.shuffle },
    coverage = options.coverage and require "runloop.test.coverage".new(),
  }, Run)
  run.reporter = options.list and run:lister() or report.new(options.format, write, coloured)
  if options.format ~= "readable" and options.coverage then run.say = function(text) io.stderr:write(text) end end
  for i, path in ipairs(paths) do run.files[i] = new_file(path) end
  if options.shuffle then require "runloop.test.order"(options.seed, "")(run.files) end
  run.late_timer = rl.every(1, function() run:look_for_late() end)
  for _ = 1, options.jobs < #paths and options.jobs or #paths do run:start_worker() end
  run:finish_if_done()
end

-- The command ---------------------------------------------------------------------------------------------------------

--- Runs the command: gets how many options of rlhost come before "test", these, and those after it.
function command.run(count, ...)
  local all, lua_options, own = { ... }, {}, {}
  count = math.tointeger(tonumber(count))
  for i, argument in ipairs(all) do
    local list = i <= count and lua_options or own
    list[#list + 1] = argument
  end
  local options, paths = choice.parse(own)
  if not options.seed then options.seed = math.random(0, 999999) end
  if options.watch then
    local _, searched = choice.find_files(paths)
    return require "runloop.test.watch"(searched, function(files, dependencies, done)
      run_files(options, files, searched, lua_options, dependencies, done)
    end)
  end
  local files, searched = choice.find_files(paths)
  run_files(options, files, searched, lua_options, {}, leave)
end

return command
