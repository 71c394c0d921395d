-- Makes, uses and drops many objects of a kind, and prints by how many bytes the process has grown since the thousandth
-- object.
--
--   rlhost stays.lua KIND COUNT
--   rlhost stays.lua               the kinds, one a line: name, how many take about a second, what they need, and the
--   classes of docs/lua
--                                  whose objects they make, separated by tabs
--
-- In a test, rlhost test stays.lua, the variables STAYS_KIND and STAYS_COUNT have the same meaning.

local rl = require "runloop"
local kinds, seconds, classes, needs = {}, {}, {}, {}

-- `of`: the classes of the reference (docs/lua) whose objects the row makes, if any; without "runloop.". `need`:
-- "terminal", "test" or "virtual time" if the row works only there.
local function kind(name, count, body, of, need)
  kinds[#kinds + 1] = name
  kinds[name], seconds[name], classes[name], needs[name] = body, count, of or "", need or "-"
end

-- The loop drops messages of ended objects when it runs.
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
end), "Timer")
kind("timer that fires", 100000, function(n)
  for _ = 1, n / 100 do
    for _ = 1, 100 do rl.after(0, function() end) end
    rl.sleep(0)
  end
end)
kind("task", 100000, function(n)
  for i = 1, n do assert(rl.task(function() rl.sleep(0) return i end):await() == i) end
end, "Task")
kind("task that fails", 50000, function(n)
  for i = 1, n do
    local task = rl.task(function() rl.sleep(0) error { i } end)
    pcall(task.await, task)
  end
end)
kind("task that is cancelled", 50000, function(n)
  for _ = 1, n do
    rl.task(function() local c <close> = setmetatable({}, { __close = function() end }) rl.sleep(60) end):cancel()
  end
end)
kind("task in the background", 50000, function(n)
  for i = 1, n do
    local task = rl.task { function(number) rl.sleep(0) return number end, i, name = "worker", keeps_alive = false }
    if i % 2 == 0 then assert(task:await() == i) else task:cancel() end
  end
end)
kind("tasks, many at once", 100000, function(n)
  for _ = 1, n / 500 do
    local tasks = {}
    for i = 1, 500 do tasks[i] = rl.task(rl.sleep, 0.001) end
    rl.all_of(tasks)
  end
end)
kind("rl.timeout", 50000, function(n)
  for i = 1, n do assert(rl.timeout(10, function() rl.sleep(0) return i end)) end
end)
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
end), "Source")
kind("observer", 60000, each(function(i)
  local observer = rl.observer { activities = "exit", callback = function() end }
  if i % 2 == 0 then
    rl.current():add(observer)
    observer:invalidate()
  end
end), "Observer")
kind("request", 100000, function(n)
  for _ = 1, n / 100 do
    for i = 1, 100 do rl.perform(function() end, i) end
    rl.perform(print):cancel()
    rl.sleep(0)
  end
end, "Request")
kind("port", 60000, each(function(i)
  local port = rl.port { callback = function() end }
  if i % 2 == 0 then
    rl.current():add(port)
    port:send { data = i }
    port:invalidate()
  end
end), "Port")
kind("descriptor port", 30000, each(function(i)
  local file = io.open "/dev/null"
  local port = rl.fd_port { fd = file, callback = function() end }
  if i % 2 == 0 then rl.current():add(port) end
  port:invalidate()
  file:close()
end), "FDPort")
local modes = 0
kind("mode", 20000, function(n)
  for _ = 1, n do
    modes = modes + 1
    local mode = "mode " .. modes
    local timer = rl.after(60, print)
    rl.current():add(timer, mode)
    rl.run { mode = mode, timeout = 0 }
    timer:invalidate()
  end
end)
kind("mode of a request", 20000, function(n)
  for _ = 1, n do
    modes = modes + 1
    rl.perform { print, modes = "mode " .. modes }:cancel()
  end
end)
kind("mode of a source", 20000, function(n)
  for _ = 1, n do
    modes = modes + 1
    local source = rl.source { modes = { "default", "mode " .. modes }, perform = print }
    source:invalidate()
  end
end)
kind("run", 50000, function(n) for _ = 1, n do rl.run { timeout = 0, mode = "default" } end end)
kind("notification", 30000, each(function(i)
  local token = rl.notifications:observe("news", function() end)
  rl.notifications:post("news", i)
  token:invalidate()
end), "Notifications NotificationObserver")
kind("condition", 30000, function(n)
  for _ = 1, n do
    local condition = rl.condition()
    local task = rl.task(function() condition:wait() end)
    condition:broadcast()
    task:await()
  end
end, "Condition")
kind("future", 30000, function(n)
  for i = 1, n do
    local future = rl.future()
    local task = rl.task(future.await, future)
    local other = rl.task(future.await, future)
    future:await(0)
    other:cancel()
    if i % 2 == 0 then future:complete(i, "more") else future:fail { i } end
    pcall(task.await, task)
    pcall(rl.first_of, future, rl.future())
  end
end, "Future")
kind("future without an answer", 30000, function(n)
  for _ = 1, n do
    local future = rl.future()
    local task = rl.task(rl.first_of, future, rl.future())
    task:cancel()
  end
end)
kind("backoff", 30000, function(n)
  for i = 1, n do
    local backoff = rl.backoff { first = i % 2 == 0 and 9 or 0 }
    local task = rl.task(backoff.wait, backoff)
    task:cancel()
    if i % 500 == 0 then rl.sleep(0) end
  end
end, "Backoff")
kind("mutex", 30000, function(n)
  for i = 1, n do
    local mutex = rl.mutex(i % 2 == 0 and 2 or nil)
    local held = mutex:lock()
    local tasks = {}
    for j = 1, 3 do tasks[j] = rl.task(function() local place <close> = mutex:lock() rl.sleep(0) end) end
    tasks[2]:cancel()
    held:unlock()
    tasks[3]:await()
    if i % 3 == 0 then mutex:lock() end   -- dropped
  end
end, "Mutex Held")
kind("lock of a mutex", 100000, function(n)
  local mutex, places = rl.mutex(), rl.mutex(3)
  for _ = 1, n do
    local held <close> = mutex:lock()
    local place <close> = places:lock()
  end
end)
kind("values of tasks", 50000, function(n)
  for i = 1, n do
    local task = rl.task(function()
      rl.locals.number = i
      rl.after(0, function() rl.locals.number = nil end)
      rl.perform(function() rl.locals.other = i end)
      rl.sleep(0)
    end)
    task:await()
  end
end)
kind("channel", 30000, function(n)
  for i = 1, n do
    local channel = rl.channel(1)
    rl.task(function() channel:send(i) channel:close() end)
    assert(channel:receive() == i)
  end
end, "Channel")
kind("group", 20000, function(n)
  for _ = 1, n do
    local group = rl.group()
    group:task(rl.sleep, 0)
    group:wait()
  end
end, "Group")
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
end, "net.Stream")
kind("stream in the background", 10000, function(n)
  for _ = 1, n do
    local a <close>, b = require "runloop.net".pair()
    b:set_keeps_alive(false)
    local reader = rl.task { b.read_line, b, { timeout = 60 }, keeps_alive = false }
    a:write "text\n"
    assert(reader:await() == "text")
    b:close()
  end
end)
kind("frame", 100000, function(n)
  local a <close>, b = require "runloop.net".memory()
  for i = 1, n do
    a:write(">", i, "; ", string.pack("<I2", 6), "value ", "three\r\nsome words here\r\nkey=")
    assert(select(2, b:read_until { ",", "; " }) == 2 and b:read_frame "<I2" == "value ")
    assert(b:read_exactly(5, { skip = "\r\n" }) == "three" and select("#", b:read_line { words = true }) == 3)
    if i % 10 == 0 then assert(select(2, b:read_until("k(e)y=", { pattern = true })) == 1) else b:read_until "=" end
  end
  b:close()
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
end, "net.Listener")
kind("JSON", 30000, function(n)
  local json = require "runloop.json"
  for i = 1, n do assert(json.decode(json.encode { i, { text = "x" .. i } })[1] == i) end
end)
kind("hasher", 100000, each(function(i)
  local crypto = require "runloop.crypto"
  local hasher = crypto.hasher("sha256", i % 2 == 0 and { key = "k" } or nil):update "x"
  if i % 3 > 0 then assert(#hasher:digest "hex" == 64) end
end), "crypto.Hasher")
kind("compression, also of stages that are dropped", 5000, each(function(i)
  local zlib = require "runloop.zlib"
  local stage = i % 2 == 0 and zlib.compressor { level = 1 } or zlib.decompressor()
  stage(i % 2 == 0 and "x" or zlib.compress "some text")
  if i % 3 == 0 and i % 2 == 0 then stage() end
end))
kind("digests, URLs and base64", 100000, each(function(i)
  local crypto, url, encoding = require "runloop.crypto", require "runloop.url", require "runloop.encoding"
  assert(crypto.equal(crypto.hmac("sha1", "k" .. i, "x"), crypto.hmac("SHA1", "k" .. i, "x")))
  assert(not encoding.decode(encoding.encode("x" .. i, "base64") .. "*", "base64"))
  local u = assert(url.parse(("https://h%d.example/%d?q#f"):format(i, i)))
  u.port = 8443
  assert(url.join(u, "../x") == ("https://h%d.example:8443/x"):format(i) and not url.parse "http://a b/")
end))
kind("process", 300, function(n)
  local process = require "runloop.process"
  for _ = 1, n do assert(process.run { "true" }) end
end, "process.Program")
kind("file read", 5000, function(n)
  local fs = require "runloop.fs"
  for _ = 1, n do assert(fs.read "/proc/self/stat") end
end)
kind("rl.blocking", 500, function(n) for i = 1, n do assert(rl.blocking(function(i) return i end, i) == i) end end)
kind("message port", 3000, function(n)
  local own = tostring(rl.time()):gsub("%.", "")
  for i = 1, n do
    local server = assert(rl.message_port { name = "stays." .. own .. "." .. i % 7,
      callback = function(_, _, data) return data end })
    rl.current():add(server)
    local remote = assert(rl.remote_port(server:name()))
    assert(remote:request(1, "x") == "x")
    remote:invalidate()
    server:invalidate()
    settle(i)
  end
end, "MessagePort RemotePort")

kind("debounced function", 20000, each(function(i)
  local call, calls = rl.debounce(60, print)
  call(i)
  calls:invalidate()
end), "Calls")
kind("pool", 60, function(n)
  for _ = 1, n do
    local pool <close> = rl.pool { threads = 1 }
    assert(pool:run(function() return 1 end) == 1)
  end
end, "Pool")
kind("call of a pool with setup", 500, function(n)
  local pool <close> = rl.pool { setup = function() return { 0 } end }
  for _ = 1, n do pool:run(function(state) state[1] = state[1] + 1 end) end
  for i = 1, n / 10 do rl.timeout(i % 2 * 1e-5, pool.run, pool, print) end
end)
kind("datagram", 5000, function(n)
  local net = require "runloop.net"
  for _ = 1, n do
    local here = assert(net.datagram { host = "127.0.0.1", port = 0 })
    here:close()
  end
end, "net.Datagram")
kind("signal", 5000, each(function()
  local process = require "runloop.process"
  local signal = process.on_signal("SIGUSR1", print)
  signal:invalidate()
end), "process.Signal")
kind("job", 5000, each(function()
  local schedule = require "runloop.schedule"
  schedule.cron("* * * * *", print):invalidate()
end), "schedule.Job")
kind("watcher", 1000, function(n)
  local fs = require "runloop.fs"
  local directory = assert(fs.temporary_directory "stays")
  for _ = 1, n do assert(fs.watch(directory, print)):invalidate() end
  fs.remove(directory)
end, "fs.Watcher")
kind("logger", 20000, function(n)
  local log = require "runloop.log"
  for i = 1, n do log.with({ number = i }, "stays"):debug "nobody sees it" end
end, "log.Logger")

-- HTTP
-- ---------------------------------------------------------------------------------------------------------------------

-- Calls `fn` with runloop.http and the address of a server. The server's answer depends on the path of the request.
local function with_http(fn)
  local http = require "runloop.http"
  local server = assert(http.serve("127.0.0.1:0", function(request)
    if request.path == "/parts" then
      local bytes = 0
      for part in request:parts() do bytes = bytes + #part:read() end
      return http.json { bytes }
    elseif request.path == "/events" then
      local events = request:events()
      events:send { data = "1" }
      events:close()
    elseif request.path == "/socket" then
      local socket = assert(request:websocket())
      for text in socket:messages() do socket:send(text) end
    elseif request.path == "/pieces" then
      local response = request:respond { status = 200 }
      response:write "piece"
      response:finish()
    else
      return "text"
    end
  end))
  fn(http, "http://" .. server:address())
  server:close()
end

kind("HTTP request", 5000, function(n)
  with_http(function(http, base)
    local client = http.client()
    for _ = 1, n do assert(assert(client:get(base .. "/")).body == "text") end
    client:close()
  end)
end, "http.Server http.Incoming http.Answer")
kind("HTTP client", 2000, function(n)
  with_http(function(http, base)
    for _ = 1, n do
      local client = http.client()
      assert(client:get(base .. "/"))
      client:close()
    end
  end)
end, "http.Client")
kind("HTTP answer in pieces", 3000, function(n)
  with_http(function(http, base)
    for _ = 1, n do
      local answer = assert(http.open { url = base .. "/pieces" })
      assert(answer:read_all() == "piece")
      answer:close()
    end
  end)
end, "http.OpenAnswer http.Response")
kind("HTTP parts", 3000, function(n)
  with_http(function(http, base)
    local body = '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\ntext\r\n--b--\r\n'
    for _ = 1, n do
      local answer = assert(http.post(base .. "/parts", body,
        { headers = { ["content-type"] = "multipart/form-data; boundary=b" } }))
      assert(answer:json()[1] == 4)
    end
  end)
end, "http.Part")
kind("HTTP events", 3000, function(n)
  with_http(function(http, base)
    for _ = 1, n do
      local answer = assert(http.open { url = base .. "/events" })
      for event in answer:events() do assert(event.data == "1") end
      answer:close()
    end
  end)
end, "http.Events")
kind("WebSocket", 2000, function(n)
  with_http(function(http, base)
    for _ = 1, n do
      local socket = assert(http.websocket(base:gsub("^http", "ws") .. "/socket"))
      socket:send "text"
      assert(socket:receive() == "text")
      socket:close()
    end
  end)
end, "http.WebSocket")
kind("HTTP routes", 10000, each(function()
  local http = require "runloop.http"
  http.routes():get("/item/:id", function() return "text" end)
end), "http.Routes")

-- Terminals and tests
-- -------------------------------------------------------------------------------------------------------

kind("terminal", 1000, function(n)
  local terminal = require "runloop.terminal"
  for _ = 1, n do
    local screen = assert(terminal.open())
    screen:on_key(print):invalidate()
    screen:close()
  end
end, "terminal.Terminal terminal.KeyHandler", "terminal")
kind("progress", 1000, function(n)
  local terminal = require "runloop.terminal"
  for _ = 1, n do terminal.progress { total = 10 }:finish() end
end, "terminal.Progress")
kind("spawned program", 200, function(n)
  local t = require "runloop.test"
  for _ = 1, n do
    local program = t.spawn { "true" }
    program:wait()
  end
end, "test.Process test.Screen", "test")
kind("clock", 20000, function(n)
  for _ = 1, n do rl.clock:settle() end
end, "test.Clock", "virtual time")
dofile(debug.getinfo(1, "S").source:match "^@(.*/)" .. "stays_data.lua")(kind, each)

-- Threads
-- -------------------------------------------------------------------------------------------------------------------

kind("thread", 800, function(n)
  for _ = 1, n / 8 do
    local threads = {}
    for j = 1, 8 do threads[j] = rl.thread(function(j) return j end, j) end
    for j = 1, 8 do assert(select(2, assert(threads[j]:join())) == j) end
  end
end, "Thread Loop")
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
      assert(loop:perform { function(port, source)
        port:send { data = source }
        return source
      end, port, source, wait = true } == source)
    end
  end)
end)

-- Measuring
-- -----------------------------------------------------------------------------------------------------------------

local function resident()
  for line in io.lines "/proc/self/status" do
    local size = line:match "VmRSS:%s*(%d+)"
    if size then return tonumber(size) * 1024 end
  end
end

local function grow(act, count)
  local before = resident()
  act(count)
  rl.sleep(0.01)
  collectgarbage()
  collectgarbage()
  -- The loop returns malloc's free memory to the system, once a second before a long sleep.
  if resident() - before >= 8 * count then rl.sleep(1.2) end
  return resident() - before
end

-- Returns the growth of the process in the round in which it grew least. The sizes of tables, of the allocator and of
-- the pools settle after some rounds, whereas a leak grows in each round. If the process grows by less than eight bytes
-- for each object, there is no second round.
local function measure(act, count)
  local least = math.huge
  for _ = 1, 4 do
    least = math.min(least, grow(act, count))
    if least < 8 * count then break end
  end
  return math.max(0, least)
end

local function run(name, count)
  local act = kinds[name] or error("no such kind: " .. name)
  act(math.min(1000, math.max(8, seconds[name] // 10)))
  print(measure(act, count or seconds[name]))
end

local name = os.getenv "STAYS_KIND"
if name then
  local options = { real_time = needs[name] ~= "virtual time", timeout = 600, leaks = false }
  require "runloop.test".it(name, options, function() run(name, tonumber(os.getenv "STAYS_COUNT")) end)
elseif arg[1] then
  run(arg[1], tonumber(arg[2]))
  os.exit()
else
  for _, name in ipairs(kinds) do print(name, seconds[name], needs[name], classes[name]) end
end
