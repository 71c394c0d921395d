-- The runner's side of its workers: starts them, reads their events and output, and notices their end. These are
-- methods of a run; see command.lua.

local rl = require "runloop"
local system = ...
local format, concat, unpack_string = string.format, table.concat, string.unpack
local find, sub = string.find, string.sub
local pairs, ipairs, tostring = pairs, ipairs, tostring
local tonumber, load = tonumber, load

local workers = {}

--- Records that a worker has begun a phase, which may take `limit` seconds.
function workers.enter(_, worker, name, limit)
  worker.phase = { name = name, limit = limit, began = system.real_clock(), delayed = 0 }
end

--- Ends a worker, and all programs that it has left.
function workers.kill(_, worker) system.signal(worker.pid, 15) end

-- Returns, for each thread of a process, the seconds for which it was ready but had no processor.
local function delays(pid)
  local found = {}
  if not pid then return found end
  for _, thread in ipairs(system.entries(format("/proc/%d/task", pid)) or {}) do
    local file <close> = io.open(format("/proc/%d/task/%s/schedstat", pid, thread))
    local delay = file and tonumber((file:read "a" or ""):match "^%d+ (%d+)")
    if delay then found[thread] = delay / 1e9 end
  end
  return found
end

--- Subtracts the time for which a worker waited for a processor from the time of its phase, once the phase has lasted 1
--- second.
function workers.note_delays(worker, phase)
  local now = system.real_clock()
  if now - phase.began < 1 then return end
  -- The tests do not run in the process that the runner has started, but in a child of it: see `linux_become_worker`.
  local found, sum = delays(worker.tests_in), 0
  for thread, delay in pairs(phase.delays and found or {}) do sum = sum + delay - (phase.delays[thread] or delay) end
  -- If runner and worker both get no processor, the first check comes late. The delays before the first check are
  -- unknown, so all the time before it counts as a delay.
  phase.delayed = phase.delayed + (phase.delays and math.min(sum, now - phase.looked) or now - phase.began - 1)
  phase.delays, phase.looked = found, now
end

-- Output -------------------------------------------------------------------------------------------------------------

-- Reads the output of a worker. Returns whether more output may come.
local function read_output(worker)
  for _ = 1, 64 do
    if not worker.output then return false end
    local text, _, code = system.read(worker.output.fd)
    if not text and code == "EAGAIN" then return false end
    if not text or text == "" then
      worker.output.port:invalidate()
      system.close(worker.output.fd)
      worker.output = nil
      return false
    end
    worker.pieces[#worker.pieces + 1] = text
  end
  return true
end

-- Returns where a mark may begin at the end of a text; nil if none can.
local function partial(text, mark)
  for length = #mark + 12 < #text and #mark + 12 or #text, 1, -1 do
    local tail = sub(text, -length)
    if tail == sub(mark, 1, length) or length > #mark and sub(tail, 1, #mark) == mark
      and not find(tail, "%z", #mark + 1) then
      return #text - length + 1
    end
  end
end

--- Reports what tests have printed. A mark follows the output of each test. The output after a mark waits until the
--- outcome of its test was reported. `last`: no more marks will come.
function workers.drain(self, worker, last)
  local mark = "\0rlhost:" .. self.secret .. ":"
  local more
  repeat
    more = read_output(worker)
    if worker.mark <= worker.marks_told or last then
      local file = worker.file or worker.last_file
      local text = concat(worker.pieces)
      worker.pieces = {}
      local at = 1
      while at <= #text do
        local from = find(text, mark, at, true)
        local _, to, number
        if from then _, to, number = find(text, "^(%d+)%z", from + #mark) end
        local stop = to and from or not last and partial(text, mark) or #text + 1
        if stop < at then stop = at end
        if stop > at and file then self:tell(file, "output", sub(text, at, stop - 1)) end
        if not to then
          if stop <= #text then worker.pieces = { sub(text, stop) } end
          break
        end
        at = to + 1
        worker.mark = tonumber(number)
        if worker.mark > worker.marks_told and not last then
          worker.pieces = { sub(text, at) }
          break
        end
      end
    end
  until not (more and last)
end

-- Events -------------------------------------------------------------------------------------------------------------

local function receive(self, worker)
  while worker.channel do
    local text = system.read(worker.channel.fd)
    if not text or text == "" then return end
    worker.pending = worker.pending .. text
    local position = 1
    while #worker.pending - position >= 3 do
      local length = unpack_string("<I4", worker.pending, position)
      if #worker.pending < position + 3 + length then break end
      local payload = sub(worker.pending, position + 4, position + 3 + length)
      position = position + 4 + length
      local chunk = load("return " .. payload, "=event", "t", {})
      if chunk then self:handle(worker, chunk()) end
    end
    worker.pending = sub(worker.pending, position)
  end
end

local function forget(worker, name)
  local port = worker[name]
  if not port then return end
  worker[name] = nil
  port.port:invalidate()
  system.close(port.fd)
end

-- The end -------------------------------------------------------------------------------------------------------------

local function describe_end(how, number)
  if how == "signal" then
    local name = require "runloop.process.signals".name(number)
    return format("the process was ended by signal %d%s", number,
      name ~= tostring(number) and format(" (SIG%s)", name) or "")
  end
  return format("the process ended with status %d", number)
end

-- Returns a note about the recording that the process of a test has written while it died.
local function recording_note(self, file, test)
  local path = file.tests[test] and file.tests[test].recording
  if not path then return nil end
  local found = io.open(path, "rb")
  if found then found:close() end
  return found and "recording: " .. path or "it has left no recording"
end

-- Attributes the end of a worker to the test that ran. Returns the number of the test with which to continue, or nil.
local function blame(self, worker, file, how, number)
  if worker.is_stopping then return (file.done or 0) < #file.tests and file.done + 1 or nil end
  local failure = { kind = "exit", message = describe_end(how, number) }
  if worker.was_late then failure = { kind = "timeout", message = worker.was_late } end
  if file.running then
    local test = file.running
    failure.where = file.tests[test] and file.tests[test].where
    failure.note = recording_note(self, file, test)
    file.running = nil
    self:outcome(file, test, { s = "failed", failures = { failure },
      t = worker.phase and system.real_clock() - worker.phase.began })
    return test < #file.tests and not self.options["fail-fast"] and test + 1 or nil
  end
  if file.planned and (file.done or 0) >= #file.tests then
    -- All tests had ended, so the failure belongs to no test.
    failure.message = failure.message .. (worker.was_late and ", after its last test" or " after its last test")
  elseif file.planned then
    -- The worker ended between two tests. The remaining tests get another process, unless that process ends there as
    -- well.
    local next_test = (file.done or 0) + 1
    self:file_failed(file, failure)
    if file.retried == next_test or self.options["fail-fast"] then return nil end
    file.retried = next_test
    return next_test
  end
  self:file_failed(file, failure)
end

-- Handles the end of a worker: attributes it to the running test, and starts another worker for the rest of the file.
local function ended(self, worker)
  local how, number = system.ended(worker.pid)
  if not how then return end
  receive(self, worker)
  worker.marks_told = math.huge
  self:drain(worker, true)
  self.workers[worker] = nil
  for _, name in ipairs { "channel", "output", "end_port" } do forget(worker, name) end
  local file = worker.file
  if file and not self.stopping then
    local next_test = blame(self, worker, file, how, number)
    if next_test then return self:start_worker(file, next_test) end
  end
  if file and not file.ended and not self.totals.interrupted then self:end_file(file) end
  if not self.stopping and self.next <= #self.files then self:start_worker() else self:finish_if_done() end
end

--- Returns a line for each test that runs at this moment.
function workers.running(self)
  local lines = {}
  for worker in pairs(self.workers) do
    local file, phase = worker.file, worker.phase
    local test = file and file.running and file.tests[file.running]
    if file then
      lines[#lines + 1] = format("%s: %s (for %.1f s, process %d)", file.path, test and concat(test.path, " › ")
        or phase and phase.name == "load" and "is being loaded" or "between two tests",
        phase and system.real_clock() - phase.began or 0, worker.pid)
    end
  end
  table.sort(lines)
  return lines
end

--- Prints these lines, on Ctrl-\.
function workers.explain(self)
  io.stderr:write("\nrlhost: test: what runs now:\n", concat(self:running(), "\n"), "\n")
end

-- Work ----------------------------------------------------------------------------------------------------------------

local function send(self, worker, file, first)
  worker.file, worker.last_file = file, file
  worker.began = system.real_clock()
  self:enter(worker, "load", self.options.timeout)
  file.is_over = false
  if first == 1 then
    file.has_begun = true
    self:tell(file, "begin_file")
  end
  local line = concat({ file.path, tostring(first), self:settings(file) }, "\t") .. "\n"
  local position = 1
  while position <= #line do
    local count, _, code = system.write(worker.channel.fd, line, position)
    if count then position = position + count elseif code ~= "EAGAIN" and code ~= "EINTR" then return end
  end
end

--- Gives a worker a file, from a test on, or the next file. Without a further file, lets the worker end.
function workers.give_work(self, worker, file, first)
  if file then return send(self, worker, file, first) end
  local next_file = not self.stopping and self.files[self.next]
  if not next_file then return forget(worker, "channel") end
  self.next = self.next + 1
  send(self, worker, next_file, 1)
end

function workers.start_worker(self, file, first)
  local arguments = { system.program() }
  for _, list in ipairs { self.lua_options, { "test", "--worker", tostring(self.options.seed) } } do
    table.move(list, 1, #list, #arguments + 1, arguments)
  end
  local pid, channel, output, end_fd = system.start(arguments)
  if not pid then
    io.stderr:write("rlhost: test: cannot start a worker: ", channel, "\n")
    os.exit(1)
  end
  local worker = { pid = pid, pending = "", pieces = {}, mark = 0, marks_told = 0 }
  self.workers[worker] = true
  local function watch(name, fd, callback) worker[name] = { fd = fd, port = rl.on_readable(fd, callback) } end
  -- Output may have waited for the outcome that has just arrived.
  local function listen()
    receive(self, worker)
    self:drain(worker)
    io.flush()
  end
  watch("channel", channel, listen)
  watch("output", output, listen)
  watch("end_port", end_fd, function() ended(self, worker) end)
  self:give_work(worker, file, first)
end

return workers
