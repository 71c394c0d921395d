-- The workloads on rlhost.
local rl = require "runloop"
local common = require "common"
local posix = common.posix
local random = math.random
local workloads = {}

local function ignore() end

function workloads.timers(size, window)
  local done = 0
  local function fired()
    done = done + 1
    if done == size then rl.stop() end
  end
  common.start()
  for _ = 1, size do rl.after(random(0, window) * 0.001, fired) end
  rl.run()
  common.report(size)
end

function workloads.cancel(size, count)
  for _ = 1, size do rl.after(60, ignore) end
  common.start()
  for _ = 1, count do rl.after(30, ignore):invalidate() end
  common.report(count)
end

function workloads.move(size, count)
  local timers = {}
  for i = 1, size do timers[i] = rl.after(30, ignore) end
  local now = rl.now()
  common.start()
  for i = 0, count - 1 do timers[i % size + 1]:set_fire_date(now + 30 + i * 7919 % 9973 * 0.001) end
  common.report(count)
end

workloads["repeat"] = function(size, milliseconds)
  local fires = 0
  local function fired() fires = fires + 1 end
  for i = 0, size - 1 do rl.every(common.interval(i) * 0.001, fired) end
  rl.after(milliseconds * 0.001, rl.stop)
  common.start()
  rl.run()
  common.report_repeating(fires, common.due(size, milliseconds))
end

function workloads.lateness(size, milliseconds)
  local note, report = common.lateness()
  for i = 0, size - 1 do
    local interval = common.interval(i) * 0.001
    local due = rl.now() + interval
    rl.every(interval, function(timer)
      local now = posix.now()
      note(now - due)
      repeat due = due + interval until due > now
    end)
  end
  rl.after(milliseconds * 0.001, rl.stop)
  rl.run()
  report()
end

function workloads.pingpong(_, count)
  local a, b = assert(posix.socketpair())
  local hops = 0
  local function watch(fd)
    rl.on_readable(fd, function()
      local message = posix.read(fd)
      hops = hops + 1
      if hops == count then rl.stop() else posix.write(fd, message) end
    end)
  end
  watch(a)
  watch(b)
  common.start()
  posix.write(a, common.message)
  rl.run()
  common.report(count)
end

function workloads.idle(size, count)
  local readers, writers = common.pipes(size)
  local done = 0
  for i = 1, size do
    local fd = readers[i]
    rl.on_readable(fd, function()
      posix.read(fd)
      done = done + 1
      if done == count then rl.stop() else posix.write(writers[random(size)], common.message) end
    end)
  end
  common.start()
  posix.write(writers[1], common.message)
  rl.run()
  common.report(count)
end

local function source(perform)
  local s = rl.source { perform = perform }
  rl.current():add(s)
  return s
end

-- Runs in the other thread. The question and the answer are each a signal and a wake-up; nothing is copied.
local function worker(number, parent, ready, answer)
  local rl = require "runloop"
  local question = rl.source { perform = function()
    answer:signal()
    parent:wake_up()
  end }
  rl.current():add(question)
  ready:post { number, question }
  rl.run()
end

function workloads.wake(size, count)
  local loops, questions, trips, started = {}, {}, 0, 0
  local function ask()
    local i = trips % size + 1
    questions[i]:signal()
    loops[i]:wake_up()
  end
  local answer = source(function()
    trips = trips + 1
    if trips == count then rl.stop() else ask() end
  end)
  local ready
  ready = source(function()
    for command in ready:commands() do
      questions[command[1]] = command[2]
      started = started + 1
    end
    if started < size then return end
    common.start()
    ask()
  end)
  for i = 1, size do loops[i] = rl.thread(worker, i, rl.current(), ready, answer):loop() end
  rl.run()
  common.report(count)
end

function workloads.burst(_, count)
  local done = 0
  local function posted()
    done = done + 1
    if done == count then rl.stop() end
  end
  common.start()
  for _ = 1, count do rl.perform(posted) end
  rl.run()
  common.report(count)
end

function workloads.chain(_, count)
  local done = 0
  local function posted()
    done = done + 1
    if done == count then rl.stop() else rl.perform(posted) end
  end
  common.start()
  rl.perform(posted)
  rl.run()
  common.report(count)
end

-- A custom source that signals itself: one signal and one perform per pass.
function workloads.now(_, count)
  local now = rl.now
  common.start()
  for _ = 1, count do now() end
  common.report(count)
end

function workloads.signal(_, count)
  local done = 0
  local s
  s = source(function()
    done = done + 1
    if done == count then rl.stop() else s:signal() end
  end)
  s:signal()
  common.start()
  rl.run()
  common.report(count)
end

-- How the cost of a pass grows with observers that it calls and with modes that it does not run.
function workloads.observers(size, count)
  for _ = 1, size do rl.observe({ "before_timers" }, ignore) end
  workloads.signal(1, count)
end

function workloads.modes(size, count)
  for i = 1, size do
    rl.current():add(rl.timer { delay = 1000, callback = ignore }, "mode " .. i)
  end
  workloads.signal(1, count)
end

-- Switches from one task to the next: each gives way to the others with a sleep of length 0.
function workloads.switch(tasks, count)
  local sleep, each = rl.sleep, count // tasks
  common.start()
  local all = {}
  for i = 1, tasks do
    all[i] = rl.task(function() for _ = 1, each do sleep(0) end end)
  end
  for i = 1, tasks do all[i]:await() end
  common.report(each * tasks)
end

function workloads.echo(connections, requests)
  local listener, port = assert(posix.listen())
  local done = 0
  local function readable(client)
    local fd = client:fd()
    local message = posix.read(fd)
    if message == "" then client:invalidate() posix.close(fd) return end
    posix.write(fd, message)
    done = done + 1
    if done == connections then common.start() end
    if done == connections + requests then rl.stop() end
  end
  rl.on_readable(listener, function()
    local fd = posix.accept(listener)
    while fd do
      rl.on_readable(fd, readable)
      fd = posix.accept(listener)
    end
  end)
  print(port)
  io.stdout:flush()
  rl.run()
  common.report(requests)
end

function workloads.spawn(_, count)
  local process = require "runloop.process"
  common.start()
  for _ = 1, count do
    local program = assert(process.start { "/bin/true", output = "pipe" })
    program.output:read_all()
    program:wait()
    program.output:close()
  end
  common.report(count)
end

function workloads.output(_, count)
  local process = require "runloop.process"
  common.start()
  local program = assert(process.start { "/usr/bin/head", "-c", tostring(count << 20), "/dev/zero", output = "pipe" })
  local size = 0
  for bytes in program.output:chunks() do size = size + #bytes end
  assert(size == count << 20)
  common.report(count)
end

function workloads.changes(_, count)
  local process, fs = require "runloop.process", require "runloop.fs"
  local directory, writes = common.writer(count)
  local watcher = assert(fs.watch(directory, function(changes)
    for _, change in ipairs(changes) do
      if change.path:match "done$" then rl.stop() end
    end
  end))
  common.start()
  local program = assert(process.start { "/bin/sh", "-c", writes })
  rl.run()
  common.report(count)
  watcher:invalidate()
  fs.remove(directory, { recursive = true })
end

function workloads.keys(_, count)
  local terminal = assert(require "runloop.terminal".open())
  local raw <close> = assert(terminal:raw())
  local seen = 0
  terminal:on_key(function(key)
    posix.write(1, ".")
    seen = seen + 1
    if seen == count then rl.stop() end
  end)
  posix.write(1, "?")
  common.start()
  rl.run()
  print()
  common.report(count)
end

workloads["memory-timer"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do rl.after(1000, ignore) end
  end)
end

workloads["memory-fd"] = function(size)
  local ours = common.socketpairs(size)
  common.report_memory(size, function()
    for i = 1, size do rl.on_readable(ours[i], ignore) end
  end)
end

workloads["memory-task"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do rl.task(rl.sleep, 1000) end
    rl.sleep(0)
  end)
end

-- Resident memory two seconds after COUNT tasks that slept at the same time have ended.
workloads["memory-burst"] = function(size)
  local left = size
  local function sleep()
    rl.sleep(0.2)
    left = left - 1
  end
  for _ = 1, size do rl.task(sleep) end
  while left > 0 do rl.sleep(0.1) end
  rl.sleep(2)
  for line in io.lines "/proc/self/status" do
    local kilobytes = line:match "VmRSS:%s*(%d+)"
    if kilobytes then print(('{"ops": 1, "resident": %d}'):format(kilobytes * 1024)) end
  end
end

workloads["memory-thread"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do rl.thread(function() require("runloop").sleep(1000) end) end
    rl.sleep(0.2)  -- so that each thread has begun to wait
  end)
end

workloads["json-encode"] = function(size, count) common.json(require "runloop.json", true, size, count) end
workloads["json-decode"] = function(size, count) common.json(require "runloop.json", false, size, count) end

common.run(workloads, ...)
os.exit(0)
