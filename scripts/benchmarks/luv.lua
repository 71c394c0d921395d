-- The workloads on luv (libuv for Lua), as its users write them: streams for sockets, uv_poll for bare
-- descriptors. libuv counts in whole milliseconds.
local uv = require "luv"
local common = require "common"
local posix = common.posix
local random = math.random
local workloads = {}

local function ignore() end

local function timer(delay, fn, interval)
  local t = uv.new_timer()
  t:start(delay, interval or 0, fn)
  return t
end

function workloads.timers(size, window)
  common.start()
  uv.update_time()
  for _ = 1, size do
    local t = uv.new_timer()
    t:start(random(0, window), 0, function() t:close() end)
  end
  uv.run()
  common.report(size)
end

function workloads.cancel(size, count)
  for _ = 1, size do timer(60000, ignore) end
  common.start()
  for i = 1, count do
    local t = timer(30000, ignore)
    t:stop()
    t:close()
    -- libuv frees a closed handle in the loop: without a pass now and then memory would grow.
    if i % 1000 == 0 then uv.run("nowait") end
  end
  common.report(count)
end

function workloads.move(size, count)
  local timers = {}
  for i = 1, size do timers[i] = timer(30000, ignore) end
  common.start()
  for i = 0, count - 1 do timers[i % size + 1]:start(30000 + i * 7919 % 9973, 0, ignore) end
  common.report(count)
end

workloads["repeat"] = function(size, milliseconds)
  local fires = 0
  local function fired() fires = fires + 1 end
  uv.update_time()
  for i = 0, size - 1 do timer(common.interval(i), fired, common.interval(i)) end
  timer(milliseconds, uv.stop)
  common.start()
  uv.run()
  common.report_repeating(fires, common.due(size, milliseconds))
end

function workloads.lateness(size, milliseconds)
  local note, report = common.lateness()
  for i = 0, size - 1 do
    local interval = common.interval(i)
    uv.update_time()
    local due = posix.now() + interval * 0.001
    timer(interval, function()
      local now = posix.now()
      note(now - due)
      due = now + interval * 0.001  -- libuv has no grid: the next fire counts from this one
    end, interval)
  end
  timer(milliseconds, uv.stop)
  uv.run()
  report()
end

function workloads.pingpong(_, count)
  local a, b = assert(posix.socketpair())
  local hops = 0
  local function stream(fd)
    local s = uv.new_pipe()
    s:open(fd)
    s:read_start(function(_, message)
      hops = hops + 1
      if hops == count then uv.stop() else s:write(message) end
    end)
    return s
  end
  local first = stream(a)
  stream(b)
  common.start()
  first:write(common.message)
  uv.run()
  common.report(count)
end

function workloads.idle(size, count)
  local readers, writers = common.pipes(size)
  local done = 0
  for i = 1, size do
    local fd = readers[i]
    uv.new_poll(fd):start("r", function()
      posix.read(fd)
      done = done + 1
      if done == count then uv.stop() else posix.write(writers[random(size)], common.message) end
    end)
  end
  common.start()
  posix.write(writers[1], common.message)
  uv.run()
  common.report(count)
end

-- Runs in the other thread, with its own Lua state and loop.
local function worker(parent)
  local uv = require "luv"
  local own = uv.new_async(function() parent:send() end)
  parent:send(own)
  uv.run()
end

function workloads.wake(size, count)
  local workers, trips = {}, 0
  local parent, async
  local function start_worker()
    uv.new_thread(worker, parent)
    debug.setmetatable(parent, async)  -- luv removes the metatable from a handle that is passed to a thread
  end
  parent = uv.new_async(function(own)
    if own then
      workers[#workers + 1] = own
      if #workers < size then start_worker() end
      return
    end
    trips = trips + 1
    if trips == count then uv.stop() else workers[trips % size + 1]:send() end
  end)
  async = debug.getmetatable(parent)
  start_worker()
  timer(300, function()  -- every thread has reached its wait
    for _, own in ipairs(workers) do debug.setmetatable(own, async) end
    common.start()
    workers[1]:send()
  end)
  uv.run()
  common.report(count)
  io.stdout:flush()
  os.exit(0, false)
end

-- libuv cannot call a function on the next pass, so its users drain a queue in an idle handle.
local queue, next_queue, idle = {}, {}, uv.new_idle()
local function drain()
  queue, next_queue = next_queue, queue
  for i = 1, #next_queue do
    local fn = next_queue[i]
    next_queue[i] = nil
    fn()
  end
  if #queue == 0 then idle:stop() end
end
local function post(fn)
  if #queue == 0 then idle:start(drain) end
  queue[#queue + 1] = fn
end

function workloads.burst(_, count)
  local done = 0
  local function posted() done = done + 1 end
  common.start()
  for _ = 1, count do post(posted) end
  uv.run()
  common.report(done)
end

function workloads.now(_, count)
  common.start()
  for _ = 1, count do uv.hrtime() end
  common.report(count)
end

function workloads.chain(_, count)
  local done = 0
  local function posted()
    done = done + 1
    if done < count then post(posted) end
  end
  common.start()
  post(posted)
  uv.run()
  common.report(count)
end

function workloads.echo(connections, requests)
  local server = uv.new_tcp()
  server:bind("127.0.0.1", 0)
  local done = 0
  server:listen(4096, function()
    local client = uv.new_tcp()
    server:accept(client)
    client:nodelay(true)
    client:read_start(function(_, message)
      if not message then client:close() return end
      client:write(message)
      done = done + 1
      if done == connections then common.start() end
      if done == connections + requests then uv.stop() end
    end)
  end)
  print(server:getsockname().port)
  io.stdout:flush()
  uv.run()
  common.report(requests)
end

-- Calls back when both the program and its output have ended.
local function program(path, arguments, on_data, on_end)
  local pipe, left = uv.new_pipe(), 2
  local function ended()
    left = left - 1
    if left == 0 then on_end() end
  end
  local handle
  handle = assert(uv.spawn(path, { args = arguments, stdio = { nil, pipe, nil } }, function()
    handle:close()
    ended()
  end))
  pipe:read_start(function(_, bytes)
    if bytes then return on_data(bytes) end
    pipe:close()
    ended()
  end)
end

function workloads.spawn(_, count)
  local function go_on(left)
    if left > 0 then program("/bin/true", {}, ignore, function() go_on(left - 1) end) end
  end
  common.start()
  go_on(count)
  uv.run()
  common.report(count)
end

function workloads.output(_, count)
  local size = 0
  common.start()
  program("/usr/bin/head", { "-c", tostring(count << 20), "/dev/zero" }, function(bytes)
    size = size + #bytes
  end, ignore)
  uv.run()
  assert(size == count << 20)
  common.report(count)
end

function workloads.changes(_, count)
  local directory, writes = common.writer(count)
  local watcher = uv.new_fs_event()
  watcher:start(directory, {}, function(_, name) if name == "done" then uv.stop() end end)
  common.start()
  program("/bin/sh", { "-c", writes }, ignore, ignore)
  uv.run()
  common.report(count)
  os.execute("rm -r " .. directory)
end

function workloads.keys(_, count)
  local terminal = assert(uv.new_tty(assert(uv.fs_open("/dev/tty", "r+", 0)), true))
  terminal:set_mode(1)
  local seen = 0
  terminal:read_start(function(_, bytes)
    posix.write(1, ".")
    seen = seen + #bytes
    if seen >= count then uv.stop() end
  end)
  posix.write(1, "?")
  common.start()
  uv.run()
  print()
  common.report(count)
  uv.tty_reset_mode()
end

workloads["memory-timer"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do timer(1000000, ignore) end
  end)
end

workloads["memory-fd"] = function(size)
  local ours = common.socketpairs(size)
  common.report_memory(size, function()
    for i = 1, size do
      local stream = uv.new_pipe()
      stream:open(ours[i])
      stream:read_start(ignore)
    end
  end)
end

workloads["memory-thread"] = function(size)
  common.report_memory(size, function()
    for _ = 1, size do uv.new_thread(function() require("luv").sleep(100000) end) end
    uv.sleep(200)  -- so that each thread has begun to wait
  end)
  io.stdout:flush()
  os.exit(0, false)
end

-- Users of luv read and write JSON with lua-cjson.
workloads["json-encode"] = function(size, count) common.json(require "cjson", true, size, count) end
workloads["json-decode"] = function(size, count) common.json(require "cjson", false, size, count) end

common.run(workloads, ...)
os.exit(0, false)
