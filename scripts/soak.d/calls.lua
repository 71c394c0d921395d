-- See the script `calls` beside this file. `rlhost calls.lua COUNT [NAME]`: makes only the calls whose names contain
-- NAME.

local rl, net = require "runloop", require "runloop.net"
local crypto, encoding = require "runloop.crypto", require "runloop.encoding"
local url, zlib = require "runloop.url", require "runloop.zlib"
local socket = require "runloop.socket"

local COUNT <const>, ONLY <const> = tonumber(arg[1]) or 100000, arg[2] or ""
-- Kilobytes by which a process may grow.
local LIMIT <const> = 64

local rows = {}

-- `share`: the fraction of COUNT for which the call is made. It is smaller for calls that take longer.
local function call(name, share, fn) rows[#rows + 1] = { name = name, share = share, fn = fn } end

-- The call is made in a task that is cancelled while it waits.
local function cancel(name, share, fn)
  rows[#rows + 1] = { name = name .. ", cancelled", share = share, fn = fn, is_cancelled = true }
end

-- Futures and what waits for them -----------------------------------------------------------------------------------
local never = rl.future()

call("future", 1, function(i)
  local future = rl.future()
  future:complete(i, {})
  assert(future:await() == i and future:is_done() and not future:fail "late")
end)
call("future that fails", 1, function(i)
  local future = rl.future()
  future:fail(i % 2 == 0 and { i } or "text " .. i)
  pcall(future.await, future)
end)
call("future awaited", 1, function(i)
  local future = rl.future()
  local task = rl.task(future.await, future)
  future:complete(i)
  assert(task:await() == i)
end)
call("future:await(0)", 1, function() rl.future():await(0) end)
call("future timed out", 0.2, function() rl.future():await(1e-6) end)
call("task:await(0)", 1, function()
  local task = rl.task(rl.sleep, 100)
  task:await(0)
  task:cancel()
end)
call("first_of, all_of, settle_all", 0.3, function(i)
  local one, other = rl.future(), rl.future()
  one:complete(i)
  rl.first_of(one, other)
  other:complete(i)
  rl.all_of(one, other)
  local failed = rl.future()
  failed:fail(i)
  rl.settle_all { one, failed }
end)
cancel("future:await", 1, function() never:await() end)
cancel("future:await(seconds)", 1, function() never:await(100) end)
cancel("await of a future of its own", 1, function() rl.future():await() end)
cancel("task:await", 1, function() rl.task(rl.sleep, 0):await() end)
cancel("task:await(seconds)", 1, function() rl.task(rl.sleep, 0):await(50) end)
cancel("first_of", 0.5, function() rl.first_of(never, rl.future()) end)
cancel("all_of", 0.5, function() rl.all_of(never, rl.future()) end)
cancel("settle_all", 0.5, function() rl.settle_all { never, rl.future() } end)

-- Backoff, mutexes, pools, tasks ------------------------------------------------------------------------------------
local locked = rl.mutex()
locked:lock()
local kept = rl.pool { setup = function() return {} end, on_close = function() end }
local failing = rl.pool { setup = function() error "no" end }

call("backoff", 1, function()
  local backoff = rl.backoff { first = 0, most = 0, tries = 2 }
  for _ = 1, 3 do backoff:wait() end
  backoff:reset()
end)
call("mutex", 1, function()
  local mutex = rl.mutex()
  local held <close> = mutex:lock()
  pcall(mutex.lock, mutex)
end)
call("mutex waited for", 0.5, function()
  local mutex = rl.mutex()
  local held = mutex:lock()
  local task = rl.task(function() mutex:lock():unlock() end)
  held:unlock()
  task:await()
end)
call("mutex with places", 1, function()
  local mutex = rl.mutex(2)
  local one = mutex:lock()
  mutex:lock(0)
  mutex:lock(0)
  one:unlock()
  one:unlock()
end)
call("rl.task with options", 1, function(i)
  rl.task { function(a) return a end, i, name = "n" .. i % 10, keeps_alive = i % 2 == 0 }:await()
end)
call("call of a pool with setup", 0.1, function(i) kept:run(function(state, a) state[1] = a return a end, i) end)
call("call of a pool that fails", 0.03, function()
  pcall(kept.run, kept, function() error { 1 } end)
  pcall(failing.run, failing, print)
end)
call("pool:map", 0.02, function() kept:map({ 1, 2, 3 }, function(_, value) return value end) end)
cancel("backoff:wait", 1, function() rl.backoff { first = 5 }:wait() end)
cancel("mutex:lock", 1, function() locked:lock() end)
cancel("mutex:lock(seconds)", 1, function() locked:lock(50) end)
cancel("a task that holds a mutex", 1, function()
  local held <close> = rl.mutex():lock()
  rl.sleep(50)
end)
cancel("rl.timeout", 0.5, function() rl.timeout(50, rl.sleep, 50) end)
cancel("a group", 0.3, function()
  local group <close> = rl.group()
  group:task(rl.sleep, 50)
  group:wait()
end)
cancel("pool:run", 0.02, function() kept:run(function() require "runloop".sleep(0.0001) end) end)
cancel("pool:map", 0.01, function() kept:map({ 1, 2 }, function() end) end)

-- Errors and values -------------------------------------------------------------------------------------------------
call("rl.inspect", 1, function(i)
  local broken = setmetatable({}, { __tostring = function() error "broken" end })
  rl.inspect({ i, { a = "x" }, broken }, { width = 20, colors = i % 2 == 0 })
end)
call("rl.locals", 0.5, function(i)
  rl.task(function()
    rl.locals.a, rl.locals.b = i, {}
    rl.task(function()
      for _ in pairs(rl.locals) do end
      rl.sleep(0)
    end):await()
    rl.locals.a = nil
  end):await()
end)
call("rl.traceback", 0.3, function()
  local task = rl.task(function(none) return none.field end)
  local _, problem = pcall(task.await, task)
  rl.traceback(problem)
  task:traceback()
end)
call("errors through waits", 0.1, function(i)
  local function nest(n)
    if n == 0 then error { i } end
    return (rl.task(nest, n - 1):await())
  end
  pcall(nest, 5)
  pcall(rl.timeout, 1, error, "text " .. i)
end)
cancel("rl.locals", 0.5, function()
  rl.locals.a = {}
  rl.sleep(50)
end)

-- Streams -----------------------------------------------------------------------------------------------------------
local near, far = net.memory { high_water = 1 << 30 }

local function read(bytes, method, ...)
  near:write(bytes)
  near:flush()
  return assert(far[method](far, ...))
end

-- Calls the function with both ends of two memory streams, and closes them.
local function with_streams(fn)
  local from, input = net.memory()
  local output, to = net.memory()
  local streams <close> = setmetatable({ from, input, output, to },
    { __close = function(all) for _, stream in ipairs(all) do stream:abort() end end })
  from:write "some text"
  fn(from, input, output, to)
end

call("read_frame", 1, function()
  read(string.pack(">c1 I4", "D", 8) .. "abcd", "read_frame", ">c1 I4", { adjust = -4 })
end)
call("read_frame refused", 0.5, function()
  with_streams(function(_, input) assert(select(3, input:read_frame ">I4") == "EMSGSIZE") end)
end)
call("words", 1, function() read("a b  c\td\n", "read_line", { words = true }) end)
call("skip", 1, function()
  read("abcd\r\n", "read_exactly", 4, { skip = "\r\n" })
  read("abcdxx", "read_exactly", 4, { skip = 2 })
end)
call("read_until with a list", 1, function(i)
  read("a;b,", "read_until", { ";", "," })
  read("", "read_until", { "x" .. i % 100, "," })
end)
call("read_until with patterns", 0.2, function(i)
  read("key=val\n", "read_until", "(%w+)=(%w+)\n", { pattern = true })
  read("key" .. i .. "\n", "read_until", { "y" .. i .. "\n" }, { pattern = true })
  pcall(far.read_until, far, "[" .. i, { pattern = true })
end)
call("reads that time out", 0.5, function()
  far:read_frame("I4", { timeout = 0 })
  far:read_line { words = true, timeout = 0 }
  far:read_exactly(4, { skip = "x", timeout = 0 })
  far:read_until({ "a" }, { timeout = 0 })
  far:read_until("a", { pattern = true, timeout = 0 })
end)
call("pieces", 1, function(i)
  near:write("a", i, "b", "c")
  near:queue(i, 1.5, "x", "y", "z", "1", "2", "3", "4", "5")
  near:flush()
  far:read(1 << 20)
end)
call("net.copy through stages", 0.05, function()
  with_streams(function(from, input, output)
    from:finish()
    assert(net.copy(input, output, { through = { zlib.compressor(), zlib.decompressor() } }) == 9)
  end)
end)
call("net.copy that fails", 0.05, function(i)
  with_streams(function(_, input, output)
    pcall(net.copy, input, output, { through = function()
      if i % 2 == 0 then error "no" end
      return nil, "no", "EBADMSG"
    end })
  end)
end)
cancel("read_frame", 1, function() far:read_frame(">I4", { adjust = -4, timeout = 50 }) end)
cancel("words", 1, function() far:read_line { words = true } end)
cancel("skip", 1, function() far:read_exactly(4, { skip = "\r\n" }) end)
cancel("read_until with a list", 1, function() far:read_until { "a", "b" } end)
cancel("read_until with patterns", 1, function() far:read_until("a", { pattern = true, timeout = 50 }) end)
cancel("net.copy", 0.05, function()
  with_streams(function(_, input, output) net.copy(input, output, { through = zlib.compressor() }) end)
end)
cancel("net.copy in a stage", 0.05, function()
  with_streams(function(_, input, output) net.copy(input, output, { through = function() rl.sleep(50) end }) end)
end)

-- Codecs ------------------------------------------------------------------------------------------------------------
for _, name in ipairs { "sha256", "md5", "sha3-256", "blake2b512" } do
  call(name, 1, function(i)
    crypto.hash(name, "x" .. i, i % 2 == 0 and "hex" or nil)
    crypto.hmac(name, "key", "x" .. i)
  end)
end
call("wrong arguments of crypto", 0.1, function(i)
  pcall(crypto.hash, "none" .. i, "x")
  pcall(crypto.hmac, "sha256", "key")
  pcall(crypto.ed25519_sign, "short", "x")
end)
call("hasher", 1, function(i)
  local hasher = crypto.hasher("sha256", { key = "k" .. i }):update("a", "b")
  if i % 2 == 0 then hasher:digest "hex" end
end)
call("pbkdf2", 0.03, function(i) crypto.pbkdf2("sha256", "password", "salt" .. i, 1, 32) end)
call("random, equal", 1, function() assert(not crypto.equal(crypto.random(20), crypto.random(20, "hex"))) end)
call("ed25519", 0.03, function()
  local seed = crypto.random(32)
  local public = crypto.ed25519_public(seed)
  assert(crypto.ed25519_verify(public, "text", crypto.ed25519_sign(seed, "text")))
  assert(not crypto.ed25519_verify(public, "text", "short"))
end)
for _, form in ipairs { "hex", "base64", "base64url", "base32" } do
  call(form, 1, function(i)
    assert(encoding.decode(encoding.encode("text" .. i, form), form, { lenient = i % 2 == 0 }))
    encoding.decode("*" .. i, form)
  end)
end
call("url", 1, function(i)
  local u = url.parse("http://user:p@ex" .. i % 1000 .. ".com:81/a/../b?q=1#f")
  u.path, u.query = "/x" .. i, nil
  url.join(u, "../y?z#" .. i)
  u.port = -1
  pcall(tostring, u)
  url.parse "http://a b/"
  url.parse("http://b\u{fc}cher" .. i % 1000 .. ".example/\u{e4}")
  url.parse_query(url.query { a = i, b = { 1, 2 }, c = "x y" })
end)
call("zlib", 0.2, function(i)
  assert(zlib.decompress(zlib.compress("text" .. i, { level = i % 10, format = i % 2 == 0 and "gzip" or "zlib" })))
  zlib.decompress("damaged" .. i)
  zlib.decompress(zlib.compress(("x"):rep(100)), { max = 10 })
  local packed, unpacked = zlib.compressor(), zlib.decompressor()
  packed "x"
  unpacked "\31"
end)
cancel("pbkdf2", 0.02, function() crypto.pbkdf2("sha256", "password", "salt", 10, 32) end)

-- runloop.socket ----------------------------------------------------------------------------------------------------
local master = assert(socket.bind("127.0.0.1", 0))
local host, port = master:getsockname()
local client = assert(socket.connect(host, port))
local peer = assert(master:accept())

call("socket:receive", 0.5, function()
  peer:send "line\nabc"
  assert(client:receive() == "line" and client:receive(3) == "abc")
  client:settimeout(0)
  client:receive("*l", "prefix")
  client:settimeout(nil)
end)
call("socket.select", 0.2, function() socket.select({ client }, { client }, 0) end)
call("socket.connect", 0.02, function()
  local one = assert(socket.connect(host, port))
  assert(master:accept()):close()
  one:receive()
  one:close()
  socket.connect("127.0.0.1", 1)
end)
call("socket.udp", 0.05, function()
  local one = socket.udp()
  one:setsockname("127.0.0.1", 0)
  one:sendto("x", one:getsockname())
  assert(one:receive() == "x")
  one:close()
end)
cancel("socket:receive", 0.5, function() client:receive() end)
cancel("socket:accept", 0.3, function() master:accept() end)
cancel("socket.select", 0.2, function() socket.select({ client }, nil, 50) end)
cancel("socket.sleep", 0.5, function() socket.sleep(50) end)

-- Bridges -----------------------------------------------------------------------------------------------------------
if pcall(require, "runloop.luv") then
  local uv = require "luv"
  call("timer of luv", 0.2, function(i)
    local future, timer = rl.future(), uv.new_timer()
    timer:start(0, 0, function()
      if i % 2 == 0 then rl.sleep(0) end
      timer:close()
      future:complete()
    end)
    future:await()
  end)
  call("connection of luv", 0.02, function()
    local server, one, future = uv.new_tcp(), uv.new_tcp(), rl.future()
    server:bind("127.0.0.1", 0)
    server:listen(1, function()
      local other = uv.new_tcp()
      server:accept(other)
      other:close()
      server:close()
    end)
    one:connect("127.0.0.1", server:getsockname().port, function()
      one:read_start(function()
        one:close()
        future:complete()
      end)
    end)
    future:await()
  end)
  cancel("uv.run", 0.2, function()
    local timer = uv.new_timer()
    local closing <close> = setmetatable({}, { __close = function() timer:close() end })
    timer:start(50000, 0, print)
    uv.run()
  end)
end
local has_cqueues, bridge = pcall(require, "runloop.cqueues")
if has_cqueues then
  local cqueues = require "cqueues"
  call("bridge:call", 0.2, function(i) assert(bridge:call(function(a) return a end, i) == i) end)
  call("bridge:call that waits or fails", 0.05, function()
    bridge:call(cqueues.sleep, 0)
    pcall(bridge.call, bridge, error, "x")
  end)
  call("bridge:await", 0.1, function() bridge:call(bridge.await, bridge, rl.sleep, 0) end)
  cancel("bridge:call", 0.1, function() bridge:call(cqueues.sleep, 0.0001) end)
end

-- Measuring ---------------------------------------------------------------------------------------------------------
local function status(name)
  for line in io.lines "/proc/self/status" do
    local number = line:match("^" .. name .. ":%s*(%d+)")
    if number then return tonumber(number) end
  end
end

-- The number of open descriptors. Pipes do not count, since this function itself opens one, for the output of `ls`.
local function descriptors()
  local pipe <close> = assert(io.popen(("ls -l /proc/%d/fd"):format(status "Pid")))
  local count = 0
  for line in pipe:lines() do
    if not line:find "pipe:" then count = count + 1 end
  end
  return count
end

local function settle(seconds)
  rl.sleep(seconds)
  collectgarbage()
  collectgarbage()
end

local function act(row, count)
  for i = 1, count do
    local task = row.is_cancelled and rl.task(row.fn)
    if not task then row.fn(i) end
    if task and i % 3 == 0 then rl.sleep(0) end
    if task then task:cancel() end
    if i % 100 == 0 then rl.sleep(0) end
  end
end

-- Returns the kilobytes by which the process has grown in the round in which it grew least: a leak grows in each.
local function grow(row, count)
  local least = math.huge
  for _ = 1, 5 do
    local before = status "VmRSS"
    act(row, count)
    settle(0.01)
    -- The loop returns malloc's free memory to the system, once a second before a long sleep.
    if status "VmRSS" - before > LIMIT then settle(1.2) end
    least = math.min(least, status "VmRSS" - before)
    if least <= LIMIT then break end
  end
  return least
end

-- Threads that wait for work end by themselves.
local function has_more_threads(than)
  for _ = 1, 100 do
    if status "Threads" <= than then return false end
    rl.sleep(0.1)
  end
  return true
end

local bad, busiest = 0, 0
for _, row in ipairs(rows) do
  if row.name:find(ONLY, 1, true) then
    local count = math.max(20, math.floor(COUNT * row.share))
    act(row, math.max(20, count // 5))
    settle(0.01)
    busiest = math.max(busiest, status "Threads")
    local before = descriptors()
    local grown = grow(row, count)
    local more = descriptors() - before
    local is_bad = grown > LIMIT or more > 0 or has_more_threads(busiest)
    if is_bad then bad = bad + 1 end
    print(("%-42s %7d times %5d kB %3d descriptors%s"):format(row.name, count, grown, more, is_bad and "  BAD" or ""))
    io.flush()
  end
end
os.exit(bad == 0)
