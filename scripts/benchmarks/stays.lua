-- Makes, uses and drops many objects of a kind, and prints by how many bytes the process has grown from the thousandth on.
--
--   rlhost stays.lua KIND COUNT      rlhost stays.lua      the kinds, one a line: name, and how many take about a second

local rl = require "runloop"
local kinds, seconds = {}, {}

local function kind(name, count, body)
  kinds[#kinds + 1] = name
  kinds[name], seconds[name] = body, count
end

-- What objects have left in the loop's mail is dropped when it runs.
local function settle(i) if i % 500 == 0 then rl.run { timeout = 0 } end end

local function each(body)
  return function(n)
    for i = 1, n do
      body(i)
      settle(i)
    end
  end
end

kind("timer", 100000, each(function(i)
  local timer = rl.timer { delay = 60, interval = i % 2 == 0 and 1 or nil, callback = function() end }
  rl.current():add(timer)
  timer:set_fire_date(rl.now() + 5)
  timer:invalidate()
end))
kind("timer that fires", 100000, function(n)
  for _ = 1, n / 100 do
    for _ = 1, 100 do rl.after(0, function() end) end
    rl.sleep(0)
  end
end)
kind("task", 100000, function(n) for i = 1, n do assert(rl.task(function() rl.sleep(0) return i end):await() == i) end end)
kind("task that fails", 50000, function(n)
  for i = 1, n do
    local task = rl.task(function() rl.sleep(0) error { i } end)
    pcall(task.await, task)
  end
end)
kind("task that is cancelled", 50000, function(n)
  for _ = 1, n do rl.task(function() local c <close> = setmetatable({}, { __close = function() end }) rl.sleep(60) end):cancel() end
end)
kind("tasks, many at once", 100000, function(n)
  for _ = 1, n / 500 do
    local tasks = {}
    for i = 1, 500 do tasks[i] = rl.task(rl.sleep, 0.001) end
    rl.all_of(tasks)
  end
end)
kind("rl.timeout", 50000, function(n) for i = 1, n do assert(rl.timeout(10, function() rl.sleep(0) return i end)) end end)
kind("rl.first_of", 30000, function(n)
  for _ = 1, n do rl.first_of(function() rl.sleep(0) end, function() rl.sleep(60) end) end
end)
kind("rl.settle_all", 30000, function(n)
  for _ = 1, n do rl.settle_all { rl.task(rl.sleep, 0), rl.task(error, "no") } end
end)
kind("coroutine", 50000, each(function() local f = coroutine.wrap(function() coroutine.yield(rl.now()) end) f() end))
kind("source", 60000, each(function(i)
  local source = rl.source { perform = function() end }
  if i % 2 == 0 then
    rl.current():add(source)
    source:post(i)
    source:invalidate()
  end
end))
kind("observer", 60000, each(function(i)
  local observer = rl.observer { activities = "exit", callback = function() end }
  if i % 2 == 0 then
    rl.current():add(observer)
    observer:invalidate()
  end
end))
kind("request", 100000, function(n)
  for _ = 1, n / 100 do
    for i = 1, 100 do rl.perform(function() end, i) end
    rl.perform(print):cancel()
    rl.sleep(0)
  end
end)
kind("port", 60000, each(function(i)
  local port = rl.port { callback = function() end }
  if i % 2 == 0 then
    rl.current():add(port)
    port:send { data = i }
    port:invalidate()
  end
end))
kind("descriptor port", 30000, each(function(i)
  local file = io.open "/dev/null"
  local port = rl.fd_port { fd = file, callback = function() end }
  if i % 2 == 0 then rl.current():add(port) end
  port:invalidate()
  file:close()
end))
kind("mode", 20000, function(n)
  for i = 1, n do
    local mode = "mode " .. i
    local timer = rl.after(60, print)
    rl.current():add(timer, mode)
    rl.run { mode = mode, timeout = 0 }
    timer:invalidate()
  end
end)
kind("run", 50000, function(n) for _ = 1, n do rl.run { timeout = 0, mode = "default" } end end)
kind("notification", 30000, each(function(i)
  local token = rl.notifications:observe("news", function() end)
  rl.notifications:post("news", i)
  token:invalidate()
end))
kind("condition", 30000, function(n)
  for _ = 1, n do
    local condition = rl.condition()
    local task = rl.task(function() condition:wait() end)
    condition:broadcast()
    task:await()
  end
end)
kind("channel", 30000, function(n)
  for i = 1, n do
    local channel = rl.channel(1)
    rl.task(function() channel:send(i) channel:close() end)
    assert(channel:receive() == i)
  end
end)
kind("group", 20000, function(n)
  for _ = 1, n do
    local group = rl.group()
    group:task(rl.sleep, 0)
    group:wait()
  end
end)
kind("error", 50000, function(n)
  rl.on_error(function() end)
  for i = 1, n do
    rl.after(0, error, { i })
    if i % 100 == 0 then rl.sleep(0) end
  end
  rl.sleep(0)
end)
kind("memory stream", 20000, function(n)
  local net = require "runloop.net"
  for _ = 1, n do
    local a, b = net.memory()
    a:write "text\n"
    assert(b:read_line() == "text")
    a:close()
    b:close()
  end
end)
kind("stream", 10000, function(n)
  local net = require "runloop.net"
  for _ = 1, n do
    local a, b = net.pair()
    a:write "text\n"
    assert(b:read_line() == "text")
    a:close()
    b:close()
  end
end)
kind("connection", 4000, function(n)
  local net = require "runloop.net"
  local server = assert(net.serve("127.0.0.1:0", function(stream) stream:write(stream:read_line(), "\n") end))
  local where = "127.0.0.1:" .. server:port()
  for _ = 1, n do
    local stream = assert(net.connect(where))
    stream:write "text\n"
    assert(stream:read_line() == "text")
    stream:close()
  end
  server:close()
end)
kind("JSON", 30000, function(n)
  local json = require "runloop.json"
  for i = 1, n do assert(json.decode(json.encode { i, { text = "x" .. i } })[1] == i) end
end)
kind("process", 300, function(n)
  local process = require "runloop.process"
  for _ = 1, n do assert(process.run { "true" }) end
end)
kind("file read", 5000, function(n)
  local fs = require "runloop.fs"
  for _ = 1, n do assert(fs.read "/proc/self/stat") end
end)
kind("rl.blocking", 500, function(n) for i = 1, n do assert(rl.blocking(function(i) return i end, i) == i) end end)
kind("message port", 3000, function(n)
  local own = tostring(rl.time()):gsub("%.", "")
  for i = 1, n do
    local server = assert(rl.message_port { name = "stays." .. own .. "." .. i % 7, callback = function(_, _, data) return data end })
    rl.current():add(server)
    local remote = assert(rl.remote_port(server:name()))
    assert(remote:request(1, "x") == "x")
    remote:invalidate()
    server:invalidate()
    settle(i)
  end
end)

-- Threads -------------------------------------------------------------------------------------------------------------------

kind("thread", 800, function(n)
  for _ = 1, n / 8 do
    local threads = {}
    for j = 1, 8 do threads[j] = rl.thread(function(j) return j end, j) end
    for j = 1, 8 do assert(select(2, assert(threads[j]:join())) == j) end
  end
end)
kind("thread that fails", 800, function(n)
  for _ = 1, n do assert(rl.thread(function() error { text = "wanted" } end):join() == false) end
end)

local function with_server(fn)
  local server = rl.thread(function() rl.current():add(rl.port {}) return rl.run() end)
  fn(server:loop())
  server:loop():perform(rl.stop)
  assert(server:join())
end

kind("request to a thread", 16000, function(n)
  with_server(function(loop)
    for i = 1, n do
      assert(loop:perform { function(i) return i end, i, wait = true } == i)
      loop:perform { print, after = 1000 }:cancel()
    end
  end)
end)
kind("object for a thread", 30000, function(n)
  with_server(function(loop)
    for i = 1, n do
      local port, source = rl.port {}, rl.source {}
      assert(loop:perform { function(port, source) port:send { data = source } return source end, port, source, wait = true } == source)
    end
  end)
end)

-- Measuring -----------------------------------------------------------------------------------------------------------------

local function resident()
  for line in io.lines "/proc/self/status" do
    local size = line:match "VmRSS:%s*(%d+)"
    if size then return tonumber(size) * 1024 end
  end
end

-- Sizes settle after some rounds: of Lua's tables, the allocator's and the pools'.
local function measure(act, count)
  local before
  for round = 1, 4 do
    act(count // 4)
    rl.sleep(0.01)
    collectgarbage()
    collectgarbage()
    if round == 1 then before = resident() end
  end
  return resident() - before
end

local name, count = arg[1], tonumber(arg[2])
if not name then
  for _, name in ipairs(kinds) do print(("%-24s %d"):format(name, seconds[name])) end
  os.exit()
end
local act = kinds[name] or error("no such kind: " .. name)
act(math.min(1000, math.max(8, seconds[name] // 10)))
print(math.max(0, measure(act, count or seconds[name])))
os.exit()
