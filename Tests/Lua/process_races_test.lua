-- Programs that end at the wrong moment, and whatever else other libraries have got wrong about them.

local t = require "runloop.test"
local rl = require "runloop"
local process = require "runloop.process"
local fs = require "runloop.fs"

local REAL = { real_time = true, timeout = 60 }
local rlhost = fs.real_path "/proc/self/exe"

-- Waits until a process is gone, or a zombie that somebody else has to wait for.
local function is_gone(pid)
  local file = io.open("/proc/" .. pid .. "/stat")
  if not file then return true end
  local state = file:read("a"):match "%) (%a)"
  file:close()
  return state == "Z"
end
local function gone_within(pid, seconds)
  local limit = rl.now() + seconds
  while not is_gone(pid) and rl.now() < limit do rl.sleep(0.02) end
  return is_gone(pid)
end

t.describe("output and the end of a program", function()
  t.it("all of the output is there, however soon the program ends behind it", REAL, function()
    for _ = 1, 10 do
      local result = process.run { "/bin/sh", "-c", "head -c 300000 /dev/zero; exit 3" }
      t.equal({ result.code, #result.output, result.truncated }, { 3, 300000, false })
    end
  end)

  t.it("what a pipe holds can be read after the program has ended", REAL, function()
    local program <close> = assert(process.start { "/bin/sh", "-c", "echo one; echo two", output = "pipe" })
    t.equal({ program:wait() }, { "exit", 0 })
    rl.sleep(0.1)
    t.equal(program.output:read_all(), "one\ntwo\n")
    program.output:abort()
  end)

  t.it("what a grandchild writes later comes later", REAL, function()
    local program = assert(process.start { "/bin/sh", "-c", "(sleep 0.5; echo late) & exit 4", output = "pipe" })
    t.equal({ program:wait() }, { "exit", 4 })
    t.falsy(program:is_running())
    t.equal(program.output:read_line(), "late")
    t.equal(program.output:read(), nil)
    program.output:abort()
  end)

  t.it("one that stops itself goes on running, until its time is up", REAL, function()
    local result, reason = process.run { "/bin/sh", "-c", "echo before; kill -STOP $$; echo after", timeout = 0.5, grace = 5 }
    t.equal(reason, "timed out")
    t.equal({ result.signal, result.output, result.timed_out }, { "TERM", "before\n", true })
    local program <close> = assert(process.start { "/bin/sh", "-c", "kill -STOP $$; echo after", output = "pipe" })
    rl.sleep(0.2)
    t.truthy(program:is_running())
    program:signal "CONT"
    t.equal(program.output:read_line(), "after")
    t.equal({ program:wait() }, { "exit", 0 })
    program.output:abort()
  end)

  t.it("one that closes its output and goes on has ended when it has ended", REAL, function()
    local began = rl.now()
    local result = process.run { "/bin/sh", "-c", "echo x; exec >&- 2>&-; sleep 0.4; exit 5" }
    t.equal({ result.code, result.output }, { 5, "x\n" })
    t.truthy(rl.now() - began >= 0.4)
  end)
end)

t.describe("many programs", function()
  t.it("a thousand at once all end, and leave nothing behind", REAL, function()
    local script = [[
      local process = require "runloop.process"
      local programs, codes = {}, 0
      for i = 1, 1000 do programs[i] = assert(process.start { "/bin/sh", "-c", "read line; exit $((" .. i .. " % 7))", input = "/dev/null" }) end
      for i, program in ipairs(programs) do
        local how, value = program:wait()
        if how == "exit" and value == i % 7 then codes = codes + 1 end
      end
      local zombies = io.popen "ps -o stat= --ppid $PPID | grep -c Z"
      print(codes, (zombies:read "l"))
      zombies:close() ]]
    local result = process.shell('ulimit -n 4096; exec "$HOST" -e "$SCRIPT"', { environment = { HOST = rlhost, SCRIPT = script }, timeout = 50 })
    t.equal({ result.output, result.errors, result.code }, { "1000\t0\n", "", 0 })
  end)

  t.it("at the limit of descriptors the answer is an error, and no descriptor is lost", REAL, function()
    local script = [[
      local process = require "runloop.process"
      local programs, message, code = {}, nil, nil
      repeat
        local program
        program, message, code = process.start { "/bin/cat", input = "pipe", output = "pipe" }
        programs[#programs + 1] = program
      until not program
      print(code, message:match "^%u+: too many open files" ~= nil, #programs > 3)
      for _, program in ipairs(programs) do program.input:close() program:wait() program.output:abort() end
      print(process.run { "echo", "again" }.output) ]]
    local result = process.shell('ulimit -n 64; exec "$HOST" -e "$SCRIPT"', { environment = { HOST = rlhost, SCRIPT = script }, timeout = 50 })
    t.equal({ result.output, result.errors }, { "EMFILE\ttrue\ttrue\nagain\n\n", "" })
  end)

  t.it("those that nobody keeps are waited for all the same", REAL, function()
    local pids = {}
    for i = 1, 20 do pids[i] = process.start { "/bin/true" }:pid() end
    collectgarbage()
    for _, pid in ipairs(pids) do
      t.eventually(function() return not io.open("/proc/" .. pid .. "/stat") end, { within = 20 })
    end
  end)

  t.it("children that are not ours are left alone", REAL, function()
    local pipe = io.popen("exit 7")
    local programs = {}
    for i = 1, 5 do programs[i] = process.start { "/bin/true" } end
    for _, program in ipairs(programs) do program:wait() end
    t.equal({ pipe:close() }, { nil, "exit", 7 })
    t.equal({ os.execute "exit 3" }, { nil, "exit", 3 })
  end)

  t.it("they get three descriptors, whatever files the script has open", REAL, function()
    local name = os.tmpname()
    local file <close> = assert(io.open(name))
    local result = process.run { "/bin/sh", "-c", "ls -l /proc/$$/fd" }
    os.remove(name)
    t.equal(result.code, 0)
    t.falsy(result.output:find(name, 1, true), result.output)
    result = process.run { "/bin/sh", "-c", "ls -l /proc/$$/fd", dies_with_host = true }
    t.falsy(result.output:find(name, 1, true), result.output)
  end)
end)

t.describe("dies_with_host", function()
  local function host(script)
    local program = assert(process.start { rlhost, "-l", "process=runloop.process", "-l", "rl=runloop", "-e", script, output = "pipe" })
    return program, tonumber((program.output:read_line { timeout = 20 }))
  end

  t.it("ends the program when the host is killed; others live on", REAL, function()
    local program, pid = host [[
      local a = process.start { "sleep", "1000", dies_with_host = true }
      local b = process.start { "sleep", "1000", detached = true }
      print(a:pid()) print(b:pid()) io.stdout:flush() ]]
    local other = tonumber(program.output:read_line())
    t.falsy(is_gone(pid))
    program:signal "KILL"
    t.equal({ program:wait() }, { "signal", "KILL" })
    t.truthy(gone_within(pid, 20))
    t.falsy(is_gone(other))
    process.run { "kill", "-KILL", tostring(other) }
    program.output:abort()
  end)

  -- Linux sends the signal when the thread ends that has started the program.
  t.it("and not when the thread ends that has started it", REAL, function()
    local program, pid = host [[
      rl.thread(function()
        local rl = require "runloop"
        local program = require "runloop.process".start { "sleep", "1000", dies_with_host = true, detached = true }
        print(program:pid())
        io.stdout:flush()
        rl.after(0.1, rl.stop)
        rl.run()
        rl.this_thread():cancel()
      end)
      rl.sleep(1000) ]]
    rl.sleep(0.5)
    t.falsy(is_gone(pid))
    program:signal "KILL"
    program:wait()
    t.truthy(gone_within(pid, 20))
    program.output:abort()
  end)

  t.it("nothing is left, whatever way the host ends", REAL, function()
    for how, status in pairs { ["os.exit(3)"] = 3, ["os.exit(4, true)"] = 4, ["error 'x'"] = 1, ["rl.stop()"] = 0, ["rl.shutdown()"] = 0,
      ["process.run { 'kill', tostring(process.id()) }"] = "TERM" } do
      local program, pid = host(([[
        local a = process.start { "sleep", "1000" }
        print(a:pid()) io.stdout:flush()
        rl.after(0.1, function() %s end) ]]):format(how))
      local kind, value = program:wait(20)
      t.equal({ kind, value }, { status == "TERM" and "signal" or "exit", status }, how)
      t.truthy(gone_within(pid, 20), how)
      program.output:abort()
    end
  end)
end)

t.describe("watching", function()
  t.it("says once that changes were lost, and goes on", REAL, function()
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
      { __close = function(self) fs.remove(self.path, { recursive = true }) end })
    local watcher <close> = assert(fs.watch(directory.path, { while_writing = true }))
    local limit = tonumber(io.open("/proc/sys/fs/inotify/max_queued_events"):read "a")
    if limit > 100000 then return end
    -- While nobody reads them: the loop does not run meanwhile. Each is told of twice at least.
    local path = directory.path .. "/x"
    for i = 1, limit // 2 + 1000 do
      local name = path .. i % 100
      io.open(name, "w"):close()
      os.remove(name)
    end
    local rescans = 0
    local limit_date = rl.now() + 10
    repeat
      local changes = watcher:next(1)
      for _, change in ipairs(changes or {}) do if change.kind == "rescan" then rescans = rescans + 1 end end
    until not changes or rl.now() > limit_date
    t.equal(rescans, 1)
    fs.write(directory.path .. "/after", "x")
    local seen
    repeat
      local changes = watcher:next(5)
      for _, change in ipairs(changes or {}) do seen = seen or change.path:match "after$" end
    until seen or not changes
    t.equal(seen, "after")
  end)
end)
