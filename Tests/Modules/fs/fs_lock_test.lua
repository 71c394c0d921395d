-- fs.lock: exclusion between tasks, threads and processes; holders; processes that end; files that are replaced.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local REAL = { real_time = true, timeout = 30 }

local function place()
  local directory = assert(fs.temporary_directory())
  local gone = setmetatable({}, { __close = function() fs.remove(directory, { recursive = true }) end })
  return directory .. "/x.lock", gone
end

t.it("a lock makes its file with mode 0600, and keeps the file and its bytes", function()
  local path <const>, gone <close> = place()
  local lock = assert(fs.lock(path))
  t.equal(fs.stat(path).mode & 511, 384)
  t.equal(tostring(lock), "lock (" .. path .. ")")
  lock:close()
  lock:close()
  t.equal(tostring(lock), "lock (" .. path .. ", closed)")
  assert(fs.write(path, "4711\n"))
  fs.lock(path):close()
  t.equal(fs.read(path), "4711\n")
end)

t.it("a lock excludes tasks of one thread in virtual time, as a channel does", function()
  local path <const>, gone <close> = place()
  local seen, began = {}, rl.now()
  local function work(name, seconds)
    return rl.task(function()
      local lock <close> = assert(fs.lock(path))
      table.insert(seen, ("%s %g"):format(name, math.floor((rl.now() - began) * 1000 + 0.5) / 1000))
      rl.sleep(seconds)
    end)
  end
  rl.all_of(work("a", 10), work("b", 20), work("c", 30))
  t.equal(seen, { "a 0", "b 10", "c 30" })
end)

t.it("fs.lock returns an error with the holder, at once or after the timeout", function()
  local path <const>, gone <close> = place()
  local lock <close> = assert(fs.lock(path))
  local text = ("EBUSY: held by process %d (%s)"):format(process.id(), path)
  t.equal({ fs.lock(path, { timeout = 0 }) }, { nil, text, "EBUSY" })
  local began = rl.now()
  t.equal({ fs.lock(path, { timeout = 3 }) }, { nil, text, "EBUSY" })
  t.equal(math.floor(rl.now() - began + 0.5), 3)
end)

t.it("several tasks can share a lock, and then an exclusive lock is refused", function()
  local path <const>, gone <close> = place()
  local one, two = assert(fs.lock(path, { shared = true })), assert(fs.lock(path, { shared = true, timeout = 0 }))
  t.equal(select(3, fs.lock(path, { timeout = 0 })), "EBUSY")
  one:close()
  t.equal(select(3, fs.lock(path, { timeout = 0 })), "EBUSY")
  two:close()
  local alone <close> = assert(fs.lock(path, { timeout = 0 }))
  t.equal(select(3, fs.lock(path, { timeout = 0, shared = true })), "EBUSY")
end)

t.it("a lock is free after its collection, and after its task was cancelled", function()
  local path <const>, gone <close> = place()
  do assert(fs.lock(path)) end
  collectgarbage()
  collectgarbage()
  assert(fs.lock(path, { timeout = 0 })):close()
  local holder = rl.task(function()
    local lock <close> = assert(fs.lock(path))
    rl.sleep(60)
  end)
  rl.sleep(1)
  local waits = rl.task(fs.lock, path)
  rl.sleep(1)
  waits:cancel()
  holder:cancel()
  rl.sleep(1)
  assert(fs.lock(path, { timeout = 0 })):close()
end)

t.it("a lock excludes flock(1), and virtual time does not jump while flock has it", function()
  local path <const>, gone <close> = place()
  local holder = process.start { "flock", path, "sh", "-c", "echo has it; sleep 0.4", output = "pipe" }
  t.equal(holder.output:read_line(), "has it")
  local _, text = fs.lock(path, { timeout = 0 })
  t.truthy(text:find "held by process %d+ " or text:find "held by another process", text)
  local began = rl.now()
  local lock <close> = assert(fs.lock(path, { timeout = 3600 }))
  t.truthy(rl.now() - began < 60, rl.now() - began)
  t.equal(process.run { "flock", "--nonblock", path, "true" }.code, 1)
  holder:wait()
end)

local LEAVES_PROGRAMS = { real_time = true, leaks = false }
t.it("programs do not inherit a lock, and the end of its process by any signal frees it", LEAVES_PROGRAMS, function()
  local path <const>, gone <close> = place()
  for _, signal in ipairs { "KILL", "TERM", "SEGV" } do
    local script = ([[
      local fs, process = require "runloop.fs", require "runloop.process"
      lock = assert(fs.lock(%q))
      process.start { "sleep", "1", detached = true }
      print "locked"
      io.stdout:flush()
      require "runloop".sleep(60)]]):format(path)
    local program = process.start { t.rlhost, "-e", script, output = "pipe", errors = "null" }
    t.equal(program.output:read_line(), "locked")
    local _, text = fs.lock(path, { timeout = 0 })
    t.equal(text, ("EBUSY: held by process %d (%s)"):format(program:pid(), path))
    local waits = rl.task(fs.lock, path, { timeout = 10 })
    rl.sleep(0.05)
    program:signal(signal)
    local _, lock = nil, waits:await()
    t.truthy(lock)
    lock:close()
    program:wait()
  end
end)

t.it("a lock excludes other threads", REAL, function()
  local path <const>, gone <close> = place()
  local threads = {}
  for i = 1, 3 do
    threads[i] = rl.thread(function(path)
      local fs, rl = require "runloop.fs", require "runloop"
      for _ = 1, 30 do
        local lock <close> = assert(fs.lock(path))
        local n = tonumber(fs.read(path)) or 0
        rl.sleep(0)
        local file <close> = assert(io.open(path, "r+"))
        file:write(n + 1)
      end
    end, path)
  end
  for _, thread in ipairs(threads) do thread:join() end
  t.equal(fs.read(path), "90")
end)

t.it("a file that is replaced during the wait is opened again by its name", REAL, function()
  local path <const>, gone <close> = place()
  local first = assert(fs.lock(path))
  local waits = rl.task(fs.lock, path)
  rl.sleep(0.05)
  fs.write(path .. ".new", "new")
  fs.rename(path .. ".new", path)
  first:close()
  local lock <close> = waits:await()
  t.equal(select(3, fs.lock(path, { timeout = 0 })), "EBUSY")
end)

t.it("fs.lock returns errors of the system, and raises errors for misuse", function()
  t.equal({ fs.lock "/no/such/x.lock" },
    { nil, "ENOENT: no such file or directory (/no/such/x.lock)", "ENOENT" })
  local lock <close> = assert(fs.lock "/tmp")
  support.raises("fs.lock: argument #1 must be a path, got 5", fs.lock, 5)
  support.raises("fs.lock: unknown field 'timeuot' (did you mean 'timeout'?)", fs.lock, "/tmp/x", { timeuot = 1 })
  support.raises("timeout", fs.lock, "/tmp/x", { timeout = -1 })
  support.raises("lock:close: call it with a colon", lock.close, 5)
end)

t.it("a lock is freed at the end of the thread that holds it", REAL, function()
  local path <const>, gone <close> = place()
  assert(rl.thread(function(path) lock = assert(require "runloop.fs".lock(path)) end, path):join(5))
  assert(fs.lock(path, { timeout = 0 })):close()
end)
