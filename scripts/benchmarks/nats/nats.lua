-- Measures the cost of runloop.nats: URL WORKLOAD COUNT. Prints "cpu" and "wall" in microseconds per operation, or
-- another number under its name.

local before = os.clock()
local nats = require "runloop.nats"
local loaded = os.clock() - before
local rl = require "runloop"

local url, workload, count = arg[1], arg[2], math.tointeger(arg[3])
local DATA = "0123456789abcdef"

local function connect() return assert(nats.connect(url)) end

local cpu, wall
local function begin() cpu, wall = os.clock(), rl.now() end
local function finish()
  local spent, passed = os.clock() - cpu, rl.now() - wall
  print(("cpu\t%f\nwall\t%f"):format(spent / count * 1e6, passed / count * 1e6))
end

-- Returns the bytes of memory in use, without garbage: those of Lua, and those that are resident.
local function memory()
  collectgarbage()
  collectgarbage()
  local file <close> = assert(io.open "/proc/self/statm")
  return collectgarbage "count" * 1024, tonumber(file:read "a":match "^%d+ (%d+)") * 4096
end

-- Prints the bytes for each of `count` objects, measured over the second half: the first half may fill holes.
local function each(make)
  local kept = {}
  for i = 1, count do kept[i] = make(i) end
  rl.sleep(0.1)
  local used, resident = memory()
  for i = count + 1, 2 * count do kept[i] = make(i) end
  rl.sleep(0.1)
  local used_now, resident_now = memory()
  print(("bytes\t%f\nresident\t%f"):format((used_now - used) / count, (resident_now - resident) / count))
  os.exit(0)
end

local function requests(bus, number) for _ = 1, number do assert(bus:request("echo", DATA)) end end

local WORK = {}

-- Answers requests until the program is killed.
function WORK.echo()
  local bus = connect()
  bus:subscribe("echo", function(m) m:respond(m.data) end)
  assert(rl.message_port { name = "bench", via = bus, modes = "common", callback = function() end })
  assert(bus:flush())
  print "ready"
end

function WORK.publish()
  local bus <close> = connect()
  begin()
  for _ = 1, count do bus:publish("bench", DATA) end
  assert(bus:flush(60))
  finish()
end

-- With `queue`, two processes share the messages. Handling a message takes some time.
local function receive(queue, work)
  local bus <close> = connect()
  local over, received = rl.future(), 0
  bus:subscribe("bench", { queue = queue, max_pending = 1 << 40, max_bytes = 1 << 40 }, function()
    received = received + 1
    if work then work() end
    if received == count then over:complete() end
  end)
  assert(bus:flush())
  print "ready"
  io.stdout:flush()
  begin()
  over:await()
  finish()
end

function WORK.receive() receive() end

function WORK.request()
  local bus <close> = connect()
  begin()
  requests(bus, count)
  finish()
end

function WORK.request100()
  local bus <close> = connect()
  local tasks = {}
  begin()
  for i = 1, 100 do tasks[i] = rl.task(function() requests(bus, count // 100) end) end
  for i = 1, 100 do tasks[i]:await() end
  finish()
end

function WORK.port()
  local bus <close> = connect()
  local remote = assert(rl.remote_port("bench", { via = bus }))
  begin()
  for _ = 1, count do assert(remote:send(1, DATA)) end
  assert(remote:flush())
  finish()
end

-- Answers each job after half a millisecond of work, until the process is killed.
function WORK.worker()
  local bus = connect()
  local function fibonacci(n) return n < 2 and n or fibonacci(n - 1) + fibonacci(n - 2) end
  bus:subscribe("work", { queue = "workers" }, function(m) m:respond(tostring(fibonacci(20))) end)
  assert(bus:flush())
  print "ready"
end

-- Sends jobs to the workers that wait for them, 20 at a time.
function WORK.share()
  local bus <close> = connect()
  local tasks = {}
  begin()
  for i = 1, 20 do
    tasks[i] = rl.task(function() for _ = 1, count // 20 do assert(bus:request("work", "", { timeout = 60 })) end end)
  end
  for i = 1, 20 do tasks[i]:await() end
  finish()
end

function WORK.buses() each(connect) end

function WORK.subscriptions()
  local bus = connect()
  local function handle() end
  each(function(i) return bus:subscribe("s." .. i, handle) end)
end

function WORK.waiting()
  local bus, other = connect(), connect()
  other:subscribe("silent", { keeps_alive = false, max_pending = 1 << 40 }, function() rl.sleep(600) end)
  assert(other:flush())
  each(function() return rl.task(function() bus:request("silent", "", { timeout = 600 }) end) end)
end

function WORK.require() print(("ms\t%f"):format(loaded * 1000)) end

WORK[workload]()
io.stdout:flush()
