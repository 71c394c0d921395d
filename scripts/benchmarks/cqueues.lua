-- The workloads on cqueues: everything is a coroutine, a timer is a coroutine that sleeps.
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local socket = require "cqueues.socket"
local thread = require "cqueues.thread"
local common = require "common"
local posix = common.posix
local random = math.random
local workloads = {}
local loop = cqueues.new()

local function run() assert(loop:loop()) end

-- Runs until a task calls `finish`: cqueues has no function that stops its loop.
local function run_until_finished(body)
  local finished = false
  body(function() finished = true end)
  while not finished do assert(loop:step()) end
end

function workloads.timers(size, window)
  common.start()
  for _ = 1, size do
    local delay = random(0, window) * 0.001
    loop:wrap(function() cqueues.sleep(delay) end)
  end
  run()
  common.report(size)
end

-- The tasks wait for a condition while they sleep, and signalling the condition cancels them.
function workloads.cancel(size, count)
  for _ = 1, size do loop:wrap(cqueues.sleep, 60) end
  local cancelled, waiting, done = condition.new(), 0, 0
  local function sleeper()
    waiting = waiting + 1
    cqueues.poll(cancelled, 30)
    done = done + 1
  end
  run_until_finished(function(finish)
    loop:wrap(function()
      cqueues.sleep(0)
      common.start()
      for i = 1, count do
        loop:wrap(sleeper)
        repeat cqueues.sleep(0) until waiting == i
        cancelled:signal()
        repeat cqueues.sleep(0) until done == i
      end
      common.report(count)
      finish()
    end)
  end)
end

workloads["repeat"] = function(size, milliseconds)
  local fires = 0
  run_until_finished(function(finish)
    common.start()
    local start = cqueues.monotime()
    for i = 0, size - 1 do
      local interval = common.interval(i) * 0.001
      loop:wrap(function()
        local due = start
        while true do
          due = due + interval
          cqueues.sleep(math.max(0, due - cqueues.monotime()))
          fires = fires + 1
        end
      end)
    end
    loop:wrap(function() cqueues.sleep(milliseconds * 0.001) finish() end)
  end)
  common.report_repeating(fires, common.due(size, milliseconds))
end

function workloads.lateness(size, milliseconds)
  local note, report = common.lateness()
  run_until_finished(function(finish)
    for i = 0, size - 1 do
      local interval = common.interval(i) * 0.001
      local due = posix.now()
      loop:wrap(function()
        while true do
          due = due + interval
          cqueues.sleep(math.max(0, due - posix.now()))
          note(posix.now() - due)
        end
      end)
    end
    loop:wrap(function() cqueues.sleep(milliseconds * 0.001) finish() end)
  end)
  report()
end

function workloads.pingpong(_, count)
  local a, b = socket.pair()
  a:setmode("b", "bn") b:setmode("b", "bn")  -- binary, unbuffered output
  local hops = 0
  run_until_finished(function(finish)
    local function bounce(s)
      while true do
        local message = s:read(#common.message)
        hops = hops + 1
        if hops == count then finish() return end
        s:write(message)
      end
    end
    loop:wrap(bounce, a)
    loop:wrap(bounce, b)
    common.start()
    loop:wrap(function() a:write(common.message) end)
  end)
  common.report(count)
end

function workloads.idle(size, count)
  local readers, writers = common.pipes(size)
  local done = 0
  run_until_finished(function(finish)
    for i = 1, size do
      local fd = readers[i]
      local pollable = { pollfd = fd, events = "r" }
      loop:wrap(function()
        while true do
          cqueues.poll(pollable)
          posix.read(fd)
          done = done + 1
          if done == count then finish() else posix.write(writers[random(size)], common.message) end
        end
      end)
    end
    loop:wrap(function()
      cqueues.sleep(0)
      common.start()
      posix.write(writers[1], common.message)
    end)
  end)
  common.report(count)
end

-- Threads talk over a socket pair.
local function worker(connection)
  connection:setmode("b", "bn")
  while true do
    local question = connection:read(1)
    if not question then return end
    connection:write(question)
  end
end

function workloads.wake(size, count)
  local workers = {}
  for i = 1, size do
    local _, connection = assert(thread.start(worker))
    connection:setmode("b", "bn")
    workers[i] = connection
  end
  run_until_finished(function(finish)
    loop:wrap(function()
      for _, connection in ipairs(workers) do connection:write("?") connection:read(1) end
      common.start()
      for trip = 1, count do
        local connection = workers[trip % size + 1]
        connection:write("?")
        connection:read(1)
      end
      common.report(count)
      finish()
    end)
  end)
  io.stdout:flush()
  os.exit(0, false)
end

-- "On the next pass" is sleep(0). The burst reuses 1,000 coroutines: a million at once would take more than a gigabyte.
function workloads.burst(_, count)
  common.start()
  local coroutines = math.min(count, 1000)
  for _ = 1, coroutines do
    loop:wrap(function() for _ = 1, count // coroutines do cqueues.sleep(0) end end)
  end
  run()
  common.report(count)
end

function workloads.now(_, count)
  common.start()
  for _ = 1, count do cqueues.monotime() end
  common.report(count)
end

function workloads.chain(_, count)
  common.start()
  loop:wrap(function() for _ = 1, count do cqueues.sleep(0) end end)
  run()
  common.report(count)
end

function workloads.echo(connections, requests)
  local server = assert(socket.listen { host = "127.0.0.1", port = 0, nodelay = true })
  assert(server:listen())
  local _, _, port = server:localname()
  local done = 0
  run_until_finished(function(finish)
    loop:wrap(function()
      for client in server:clients() do
        client:setmode("bn", "bn")
        loop:wrap(function()
          while true do
            local message = client:read(-4096)
            if not message then client:close() return end
            client:write(message)
            done = done + 1
            if done == connections then common.start() end
            if done == connections + requests then finish() end
          end
        end)
      end
    end)
    print(port)
    io.stdout:flush()
  end)
  common.report(requests)
end

workloads["switch"] = function(tasks, count)
  common.start()
  for _ = 1, tasks do
    loop:wrap(function() for _ = 1, count // tasks do cqueues.sleep(0) end end)
  end
  run()
  common.report(count)
end

local function memory_of_sleepers(size)
  common.report_memory(size, function()
    for _ = 1, size do loop:wrap(cqueues.sleep, 1000) end
    assert(loop:step(0))
  end)
end
workloads["memory-timer"] = memory_of_sleepers
workloads["memory-task"] = memory_of_sleepers

workloads["memory-fd"] = function(size)
  local ours = common.socketpairs(size)
  common.report_memory(size, function()
    for i = 1, size do
      local stream = socket.fdopen(ours[i])
      loop:wrap(function() stream:read(1) end)
    end
    assert(loop:step(0))
  end)
end

workloads["memory-thread"] = function(size)
  local threads = {}
  common.report_memory(size, function()
    for i = 1, size do threads[i] = { assert(thread.start(worker)) } end
    cqueues.sleep(0.2)  -- so that each thread has begun to wait
  end)
  io.stdout:flush()
  os.exit(0, false)
end

common.run(workloads, ...)
os.exit(0, false)
