-- The workloads on the floor's own loop (floor.c), a Lua function per event.
local common = require "common"
local posix = common.posix
local loop = loop
local random = math.random
local workloads = {}

local function ignore() end

function workloads.timers(size, window)
  local done = 0
  local function fired()
    done = done + 1
    if done == size then loop.stop() end
  end
  common.start()
  for _ = 1, size do loop.timer(random(0, window) * 0.001, fired) end
  loop.run()
  common.report(size)
end

function workloads.cancel(size, count)
  for _ = 1, size do loop.timer(60, ignore) end
  common.start()
  for _ = 1, count do loop.cancel(loop.timer(30, ignore)) end
  common.report(count)
end

function workloads.move(size, count)
  local timers = {}
  for i = 1, size do timers[i] = loop.timer(30, ignore) end
  common.start()
  for i = 0, count - 1 do loop.move(timers[i % size + 1], 30 + i * 7919 % 9973 * 0.001) end
  common.report(count)
end

workloads["repeat"] = function(size, milliseconds)
  local fires = 0
  local function fired() fires = fires + 1 end
  for i = 0, size - 1 do
    local interval = common.interval(i) * 0.001
    loop.timer(interval, fired, interval)
  end
  loop.timer(milliseconds * 0.001, loop.stop)
  common.start()
  loop.run()
  common.report_repeating(fires, common.due(size, milliseconds))
end

function workloads.lateness(size, milliseconds)
  local note, report = common.lateness()
  for i = 0, size - 1 do
    local interval = common.interval(i) * 0.001
    local due = posix.now() + interval
    loop.timer(interval, function()
      local now = posix.now()
      note(now - due)
      repeat due = due + interval until due > now
    end, interval)
  end
  loop.timer(milliseconds * 0.001, loop.stop)
  loop.run()
  report()
end

function workloads.pingpong(_, count)
  local a, b = assert(posix.socketpair())
  local hops = 0
  local function bounce(fd)
    local message = posix.read(fd)
    hops = hops + 1
    if hops == count then loop.stop() else posix.write(fd, message) end
  end
  loop.watch(a, bounce)
  loop.watch(b, bounce)
  common.start()
  posix.write(a, common.message)
  loop.run()
  common.report(count)
end

function workloads.idle(size, count)
  local readers, writers = common.pipes(size)
  local done = 0
  local function readable(fd)
    posix.read(fd)
    done = done + 1
    if done == count then loop.stop() else posix.write(writers[random(size)], common.message) end
  end
  for i = 1, size do loop.watch(readers[i], readable) end
  common.start()
  posix.write(writers[1], common.message)
  loop.run()
  common.report(count)
end

local worker = [[
  local parent = ...
  loop.on_wake(function() loop.wake(parent) end)
  loop.run()
]]

function workloads.wake(size, count)
  local workers, trips = {}, 0
  for i = 1, size do workers[i] = loop.thread(worker) end
  loop.on_wake(function()
    trips = trips + 1
    if trips == count then loop.stop() else loop.wake(workers[trips % size + 1]) end
  end)
  loop.timer(0.2, function()  -- every thread has reached its wait
    common.start()
    loop.wake(workers[1])
  end)
  loop.run()
  common.report(count)
  os.exit(0)
end

function workloads.burst(_, count)
  local done = 0
  local function posted()
    done = done + 1
    if done == count then loop.stop() end
  end
  common.start()
  for _ = 1, count do loop.post(posted) end
  loop.run()
  common.report(count)
end

function workloads.chain(_, count)
  local done = 0
  local function posted()
    done = done + 1
    if done == count then loop.stop() else loop.post(posted) end
  end
  common.start()
  loop.post(posted)
  loop.run()
  common.report(count)
end

function workloads.echo(connections, requests)
  local listener, port = assert(posix.listen())
  local done = 0
  local function readable(fd)
    local message = posix.read(fd)
    if message == "" then loop.unwatch(fd) posix.close(fd) return end
    posix.write(fd, message)
    done = done + 1
    if done == connections then common.start() end
    if done == connections + requests then loop.stop() end
  end
  loop.watch(listener, function()
    local fd = posix.accept(listener)
    while fd do
      loop.watch(fd, readable)
      fd = posix.accept(listener)
    end
  end)
  print(port)
  io.stdout:flush()
  loop.run()
  common.report(requests)
end

workloads["memory-timer"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do loop.timer(1000, ignore) end
  end)
end

workloads["memory-fd"] = function(size)
  local ours = common.socketpairs(size)
  common.report_memory(size, function()
    for i = 1, size do loop.watch(ours[i], ignore) end
  end)
end

workloads["memory-thread"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do loop.thread(worker) end
    loop.timer(0.2, loop.stop)  -- so that each thread has begun to wait
    loop.run()
  end)
  os.exit(0)
end

common.run(workloads, ...)
