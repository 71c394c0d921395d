-- Programs that end at the wrong moment, and other cases that libraries are known to handle wrongly.

local t = require "runloop.test"
local rl = require "runloop"
local process = require "runloop.process"
local fs = require "runloop.fs"

local REAL = { real_time = true, timeout = 60 }
local rlhost = fs.real_path "/proc/self/exe"

-- Waits until a process no longer exists, or is a zombie that another process has to reap.
local function is_gone(pid)
  local file = io.open("/proc/" .. pid .. "/stat")
  if not file then return true end
  -- The process may end between the two calls; then there is nothing to read.
  local text = file:read "a"
  file:close()
  return not text or text:match "%) (%a)" == "Z"
end
local function gone_within(pid, seconds)
  local limit = rl.now() + seconds
  while not is_gone(pid) and rl.now() < limit do rl.sleep(0.02) end
  return is_gone(pid)
end

t.describe("a lack of descriptors", function()
  t.it("returns an error at any step of a start, and leaves nothing behind", REAL, function()
    local result = process.run { "/bin/sh", "-c", [[ulimit -n 60; exec "$0" -e "$1"]], rlhost, [[
      local process = require "runloop.process"
      local options = {
        function() return process.run { "sh", "-c", "cat", input = "x" } end,
        function() return process.start { "cat", input = "pipe", output = "pipe", errors = "pipe" } end,
        function() return process.start { "cat", terminal = {} } end,
        function() return process.start { "true", on_output = function() end, dies_with_host = true } end,
      }
      local function count() local n = 0 for fd = 0, 59 do if io.open("/proc/self/fd/" .. fd) then n = n + 1 end end return n end
      for number, start in ipairs(options) do
        local warm = assert(start())
        if warm.stop then warm:stop() for _, s in pairs { warm.input or false, warm.output or false, warm.errors or false } do if s then s:abort() end end end
        require "runloop".sleep(0.05)
        local files, refused = {}, 0
        while true do
          local file = io.open "/dev/null"
          if not file then break end
          files[#files + 1] = file
        end
        for left = 0, 16 do
          if left > 0 then table.remove(files):close() end
          local program, message, code = start()
          if not program then
            if code ~= "EMFILE" or not message:find "^EMFILE: " then print(number, left, message, code) end
            refused = refused + 1
          elseif program.stop then
            program:stop()
            for _, s in pairs { program.input or false, program.output or false, program.errors or false } do if s then s:abort() end end
            require "runloop".sleep(0.02)
          end
        end
        for _, file in ipairs(files) do file:close() end
        print(number, refused > 1 and refused < 17)
      end
      local left = process.run { "sh", "-c", "ls /proc/$PPID/fd | wc -l" }.output
      print(tonumber(left) < 20 or left) ]] }
    t.equal(result.output, "1\ttrue\n2\ttrue\n3\ttrue\n4\ttrue\ntrue\n", result.errors)
  end)
end)

t.describe("a child of a program", function()
  t.it("is ended by stop although the program itself has ended, and by the end of the host", REAL, function()
    local result = process.run { rlhost, "-e", [[
      local rl, process = require "runloop", require "runloop.process"
      local function start(text)
        local program = process.start { "sh", "-c", text, output = "pipe" }
        local pid = program.output:read_line()
        program:wait()
        return program, pid
      end
      local program, pid = start "sleep 1001 & echo $!; exit 4"
      print(program:stop(1), pid)
      -- The first child ignores SIGTERM. The program of the second child is not stopped.
      program, pid = start "(trap '' TERM; sleep 1002; sleep 1003) & echo $!"
      print(program:stop(0.1), pid)
      print(0, select(2, start "sleep 1004 & echo $!"))
      local detached = process.start { "sh", "-c", "sleep 1005 & echo $!", output = "pipe", detached = true }
      print(1, detached.output:read_line()) ]] }
    local pids = {}
    for pid in result.output:gmatch "(%d+)\n" do pids[#pids + 1] = tonumber(pid) end
    t.equal(#pids, 4, result.output .. result.errors)
    for index = 1, 3 do t.truthy(gone_within(pids[index], 5), index) end
    t.falsy(is_gone(pids[4]))
    process.run { "kill", tostring(pids[4]) }
  end)

  t.it("gets the same time to end as the program itself", REAL, function()
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
      { __close = function(self) fs.remove(self.path, { recursive = true }) end })
    local file = directory.path .. "/saved"
    local words = { "sh", "-c",
      [[(trap 'sleep 0.2; echo saved > "$0"; exit 0' TERM; while :; do sleep 0.02; done) & echo begun; wait]], file }
    words.output = "pipe"
    local program = assert(process.start(words))
    program.output:read_line()
    rl.sleep(0.1)
    t.equal({ program:stop(20) }, { "signal", "TERM" })
    t.equal(fs.read(file), "saved\n")
    program.output:abort()
    fs.remove(file)
    words.output, words.timeout, words.grace = nil, 0.3, 20
    local result, problem = process.run(words)
    t.equal(problem, "timed out")
    t.equal(fs.read(file), "saved\n")
  end)
end)

t.describe("a pool", function()
  t.it("raises an error that names the called function if a value cannot be sent", REAL, function()
    local pool <close> = rl.pool { threads = 1 }
    local coroutine_here = coroutine.create(print)
    local function bad() return coroutine_here end
    for name, call in pairs {
      ["pool:run: cannot send upvalue 'coroutine_here'"] = function() pool:run(bad) end,
      ["pool:map: cannot send upvalue 'coroutine_here'"] = function() pool:map({ 1 }, bad) end,
      ["rl.blocking: cannot send upvalue 'coroutine_here'"] = function() rl.blocking(bad) end,
      ["rl.blocking: cannot send result #1"] = function()
        rl.blocking(function() return coroutine.create(print) end)
      end,
      ["rl.blocking: cannot send argument #2"] = function() rl.blocking(print, coroutine_here) end,
    } do t.error(call, name) end
    -- Errors that the called function raises are not changed.
    local value = select(2, pcall(rl.blocking, function() error { 5 } end))
    t.equal(value, { 5 })
    t.equal(select(2, pcall(rl.blocking, function() error("mine", 0) end)), "mine")
  end)
end)

t.describe("output at the end of a program", function()
  t.it("is read completely, however soon the program ends after it", REAL, function()
    for _ = 1, 10 do
      local result = process.run { "/bin/sh", "-c", "head -c 300000 /dev/zero; exit 3" }
      t.equal({ result.code, #result.output, result.truncated }, { 3, 300000, false })
    end
  end)

  t.it("can be read after the program has ended", REAL, function()
    local program <close> = assert(process.start { "/bin/sh", "-c", "echo one; echo two", output = "pipe" })
    t.equal({ program:wait() }, { "exit", 0 })
    rl.sleep(0.1)
    t.equal(program.output:read_all(), "one\ntwo\n")
    program.output:abort()
  end)

  t.it("is followed by the output of a grandchild", REAL, function()
    local program = assert(process.start { "/bin/sh", "-c", "(sleep 0.5; echo late) & exit 4", output = "pipe" })
    t.equal({ program:wait() }, { "exit", 4 })
    t.falsy(program:is_running())
    t.equal(program.output:read_line(), "late")
    t.equal(program.output:read(), nil)
    program.output:abort()
  end)

  t.it("a program that stops itself runs until its time limit", REAL, function()
    local result, reason = process.run { "/bin/sh", "-c", "echo before; kill -STOP $$; echo after", timeout = 0.5,
      grace = 5 }
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

  t.it("a program that closes its output counts as running until its end", REAL, function()
    local began = rl.now()
    local result = process.run { "/bin/sh", "-c", "echo x; exec >&- 2>&-; sleep 0.4; exit 5" }
    t.equal({ result.code, result.output }, { 5, "x\n" })
    t.truthy(rl.now() - began >= 0.4)
  end)
end)

t.describe("many programs and descriptors", function()
  t.it("a thousand programs at once end, and leave nothing behind", REAL, function()
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
    local result = process.shell('ulimit -n 4096; exec "$HOST" -e "$SCRIPT"',
      { environment = { HOST = rlhost, SCRIPT = script }, timeout = 50 })
    t.equal({ result.output, result.errors, result.code }, { "1000\t0\n", "", 0 })
  end)

  t.it("at the limit of descriptors an error is returned, and no descriptor is lost", REAL, function()
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
    local result = process.shell('ulimit -n 64; exec "$HOST" -e "$SCRIPT"',
      { environment = { HOST = rlhost, SCRIPT = script }, timeout = 50 })
    t.equal({ result.output, result.errors }, { "EMFILE\ttrue\ttrue\nagain\n\n", "" })
  end)

  t.it("programs without references are waited for as well", REAL, function()
    local pids = {}
    for i = 1, 20 do pids[i] = process.start { "/bin/true" }:pid() end
    collectgarbage()
    for _, pid in ipairs(pids) do
      t.eventually(function() return not io.open("/proc/" .. pid .. "/stat") end, { within = 20 })
    end
  end)

  t.it("the host does not wait for children that other code has started", REAL, function()
    local pipe = io.popen("exit 7")
    local programs = {}
    for i = 1, 5 do programs[i] = process.start { "/bin/true" } end
    for _, program in ipairs(programs) do program:wait() end
    t.equal({ pipe:close() }, { nil, "exit", 7 })
    t.equal({ os.execute "exit 3" }, { nil, "exit", 3 })
  end)

  t.it("programs get three descriptors, whatever files the script has open", REAL, function()
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
    local program = assert(process.start { rlhost, "-l", "process=runloop.process", "-l", "rl=runloop", "-e", script,
      output = "pipe" })
    return program, tonumber((program.output:read_line { timeout = 20 }))
  end

  t.it("ends the program when the host is killed; other programs continue", REAL, function()
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

  -- Linux sends the signal when the thread that started the program ends.
  t.it("and does not end it when the thread that has started it ends", REAL, function()
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

  t.it("and leaves no program, in whatever way the host ends", REAL, function()
    for how, status in pairs { ["os.exit(3)"] = 3, ["os.exit(4, true)"] = 4, ["error 'x'"] = 1, ["rl.stop()"] = 0,
      ["rl.shutdown()"] = 0,
      ["process.run { 'kill', tostring(process.id()) }"] = "TERM",
      ["process.run { 'kill', '-HUP', tostring(process.id()) }"] = "HUP",
      ["process.run { 'kill', '-ABRT', tostring(process.id()) }"] = "ABRT",
      ["process.run { 'kill', '-RTMIN', tostring(process.id()) }"] = "RTMIN" } do
      local program, pid = host(([[
        local a = process.start { "sleep", "1000" }
        print(a:pid()) io.stdout:flush()
        rl.after(0.1, function() %s end) ]]):format(how))
      local kind, value = program:wait(20)
      t.equal({ kind, value }, { how:find "kill" and "signal" or "exit", status }, how)
      t.truthy(gone_within(pid, 20), how)
      program.output:abort()
    end
  end)
end)

t.describe("watching", function()
  t.it("reports once that changes were lost, and continues", REAL, function()
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
      { __close = function(self) fs.remove(self.path, { recursive = true }) end })
    local watcher <close> = assert(fs.watch(directory.path, { while_writing = true }))
    local limit = tonumber(io.open("/proc/sys/fs/inotify/max_queued_events"):read "a")
    if limit > 100000 then return end
    -- The loop does not run meanwhile, so the events are not read. The kernel reports each change twice at least.
    local path = directory.path .. "/x"
    for i = 1, limit // 2 + 1000 do
      local name = path .. i % 100
      io.open(name, "w"):close()
      os.remove(name)
    end
    local rescans = 0
    local limit_date = rl.now() + 10
    repeat
      local changes = watcher:next(rescans == 0 and 8 or 0.3)
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

  -- The kernel allows a user 128 instances of inotify: all watchers of a thread share one.
  t.it("any number of watchers can watch one directory, each in its own modes", REAL, function()
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
      { __close = function(self) fs.remove(self.path, { recursive = true }) end })
    local told, watchers = {}, {}
    local function tell(name) return function(changes)
      for _, change in ipairs(changes) do told[#told + 1] = name .. change.kind .. " " .. change.path:match "[^/]*$" end
    end end
    for i = 1, 300 do watchers[i] = assert(fs.watch(directory.path, { latency = 0.01 }, tell "")) end
    io.open(directory.path .. "/first", "w"):close()
    t.eventually(function() return #told >= 300 end)
    rl.sleep(0.1)
    t.equal({ #told, told[1], told[300] }, { 300, "created first", "created first" })
    for i = 3, 300 do watchers[i]:invalidate() end
    told = {}
    -- A later watcher gets no earlier changes. A watcher without a mode gets the changes later, when it is added to
    -- one; an invalidated watcher gets none.
    local idle <close> = assert(fs.watcher { path = directory.path, latency = 0.01, callback = tell "idle: " })
    io.open(directory.path .. "/before", "w"):close()
    local late <close> = assert(fs.watch(directory.path, { latency = 0.01 }, tell "late: "))
    local writing <close> = assert(fs.watch(directory.path, { latency = 0.01, while_writing = true }, tell "writing: "))
    watchers[1]:invalidate()
    local open <close> = assert(io.open(directory.path .. "/before", "a"))
    open:write "x"
    open:flush()
    rl.sleep(0.3)
    table.sort(told)
    t.equal(told, { "created before", "writing: changed before" })
    told = {}
    rl.current():add(idle, "common")
    rl.sleep(0.3)
    t.equal(told, { "idle: created before" })
    told = {}
    open:close()
    rl.sleep(0.3)
    table.sort(told)
    t.equal(told, { "changed before", "idle: changed before", "late: changed before", "writing: changed before" })
    watchers[2]:invalidate()
  end)

  t.it("each watcher reports that changes were lost, and collection frees a watcher's memory", REAL, function()
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
      { __close = function(self) fs.remove(self.path, { recursive = true }) end })
    local limit = tonumber(io.open("/proc/sys/fs/inotify/max_queued_events"):read "a")
    if limit > 100000 then return end
    local one <close> = assert(fs.watch(directory.path))
    local other <close> = assert(fs.watch(directory.path))
    for i = 1, limit // 2 + 1000 do
      io.open(directory.path .. "/x" .. i % 100, "w"):close()
      os.remove(directory.path .. "/x" .. i % 100)
    end
    for _, watcher in ipairs { one, other } do
      local rescans = 0
      repeat
        local changes = watcher:next(rescans == 0 and 8 or 0.3)
        for _, change in ipairs(changes or {}) do if change.kind == "rescan" then rescans = rescans + 1 end end
      until not changes
      t.equal(rescans, 1)
    end
    local function descriptors() return #fs.list("/proc/self/fd") end
    local before = descriptors()
    for _ = 1, 200 do assert(fs.watcher { path = directory.path }) end
    t.truthy(descriptors() >= before + 200)
    collectgarbage()
    collectgarbage()
    t.truthy(descriptors() <= before + 2)
  end)
end)
