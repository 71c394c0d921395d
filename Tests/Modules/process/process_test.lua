-- runloop.process: programs that the script waits for, programs that run beside the script, and terminals.

local rl = require "runloop"
local process = require "runloop.process"
local net = require "runloop.net"
local t = require "runloop.test"

local function sh(text) return { "sh", "-c", text } end
local REAL = { real_time = true }

t.describe("process.run", function()
  t.it("returns output, errors and status", REAL, function()
    local result = assert(process.run(sh "echo out; echo wrong >&2; exit 3"))
    t.equal({ result.code, result.signal, result.output, result.errors, result.truncated },
      { 3, nil, "out\n", "wrong\n", false })
    t.equal(process.shell("exit 0").code, 0)
    t.equal(process.run(sh "kill -KILL $$").signal, "KILL")
  end)

  t.it("writes more input than a pipe holds, and continues if the program stops reading", REAL, function()
    local text = ("0123456789"):rep(100000)
    t.equal(#process.run { "cat", input = text }.output, #text)
    t.equal(process.run { "head", "-c", "3", input = text }.output, "012")
    t.equal(process.run { "wc", "-c", input = "" }.output:match "%d+", "0")
  end)

  t.it("returns an error with the name of the program if it cannot be started", REAL, function()
    t.equal({ process.run { "frobnicate" } }, { nil, "ENOENT: no such program: frobnicate", "ENOENT" })
    t.equal({ process.run { "pwd", directory = "/nowhere" } },
      { nil, "ENOENT: no such file or directory (/nowhere)", "ENOENT" })
    t.equal({ process.run { "true", directory = "/etc/passwd" } },
      { nil, "ENOTDIR: not a directory (/etc/passwd)", "ENOTDIR" })
    t.equal({ process.run { "true", directory = "" } }, { nil, "ENOENT: no such file or directory", "ENOENT" })
    t.equal(select(3, process.run { "/etc/passwd" }), "EACCES")
    local script = os.tmpname()
    io.open(script, "w"):write("#!/no/interpreter\n"):close()
    os.execute("chmod +x " .. script)
    t.equal({ process.run { script } }, { nil, ("ENOENT: the interpreter of %s is missing"):format(script), "ENOENT" })
    os.remove(script)
    t.equal({ process.run { "cat", input = "x", output = "/nowhere/file" } },
      { nil, "ENOENT: no such file or directory (/nowhere/file)", "ENOENT" })
  end)

  t.it("ends a program that takes too long, and its children, and returns its output", REAL, function()
    local result, problem = process.run { "sh", "-c", "echo before; sleep 60 & sleep 60", timeout = 0.2 }
    t.equal({ problem, result.signal, result.output, result.timed_out }, { "timed out", "TERM", "before\n", true })
    result = process.run { "sh", "-c", "trap '' TERM; sleep 60", timeout = 0.1, grace = 0.1 }
    t.equal(result.signal, "KILL")
  end)

  t.it("does not wait for a grandchild that holds the output, and reports that", REAL, function()
    local began = rl.now()
    local result = process.run(sh "sleep 20.0625 & echo done")
    t.equal({ result.code, result.output, result.truncated }, { 0, "done\n", true })
    t.truthy(rl.now() - began < 10)
    os.execute "pkill -f '[s]leep 20[.]0625'"
  end)

  t.it("limits the output that it keeps", REAL, function()
    local result = process.run { "sh", "-c", "head -c 1000000 /dev/zero", max_output = 10 }
    t.equal({ #result.output, result.truncated, result.code }, { 10, true, 0 })
  end)

  t.it("sets the environment and the directory", REAL, function()
    local result = process.run { "sh", "-c", "echo $A-$HOME; pwd", environment = { A = "1", HOME = false },
      directory = "/tmp" }
    t.equal(result.output, "1-\n/tmp\n")
    t.equal(process.run { "/usr/bin/env", clean_environment = true, environment = { X = 2 } }.output, "X=2\n")
  end)

  t.it("joins errors to output, and redirects both to files and streams", REAL, function()
    t.equal(process.run { "sh", "-c", "echo a; echo b >&2", errors = "output" }.output, "a\nb\n")
    local name = os.tmpname()
    t.equal(process.run { "echo", "x", output = name }.output, nil)
    local file <close> = assert(io.open(name))
    t.equal(file:read "a", "x\n")
    file:seek "set"
    t.equal(process.run { "cat", input = "null" }.output, "")
    os.remove(name)
  end)

  t.it("returns an error if the input is a stream with buffered bytes", REAL, function()
    local near, far = net.pair()
    near:write "line\nrest"
    t.equal(far:read_line(), "line")
    local result, problem, code = process.run { "cat", input = far }
    t.equal({ result, code }, { nil, "EINVAL" })
    t.truthy(problem:find "has buffered 4 bytes", problem)
    t.equal(far:read(), "rest")
    near:write "more"
    near:finish()
    t.equal(process.run { "cat", input = far }.output, "more")
    near:close()
    far:close()
    t.error(function() process.run { "cat", input = far } end,
      "process.run: input: this stream has no descriptor: it is closed, or of net.memory")
    local memory <close> = net.memory()
    t.error(function() process.run { "cat", input = memory } end, "this stream has no descriptor")
  end)

  t.it("keeps a stream's descriptor when the stream is closed or collected", REAL, function()
    local function start(options)
      options[1], options[2], options[3] = "sh", "-c", "sleep 0.1; echo out"
      return assert(process.start(options))
    end
    for _, part in ipairs { "close", "abort", "forget" } do
      local near, far = net.pair()
      local program = start { output = near }
      if part == "forget" then near = nil collectgarbage() collectgarbage() else near[part](near) end
      t.equal({ far:read_all { timeout = 5 } }, { "out\n" }, part)
      t.equal({ program:wait() }, { "exit", 0 }, part)
      far:close()
    end
    -- inetd passes connections in this way.
    local handed
    local server <close> = assert(net.serve("127.0.0.1:0", function(stream)
      stream:write "hello\n"
      handed = start { input = stream, output = stream }
    end))
    local client <close> = assert(net.connect(server:address()))
    t.equal(client:read_all { timeout = 5 }, "hello\nout\n")
    handed:wait()
    -- After a failed start, the stream still belongs to the script.
    local near, far = net.pair()
    t.equal(select(3, process.start { "/nowhere/at/all", output = near }), "ENOENT")
    near:close()
    t.equal({ far:read_line { timeout = 5 } }, {})
    far:close()
  end)

  t.it("gives a program connections that block, and copies from them still wait for nothing", REAL, function()
    local near, far = net.pair()
    local program = assert(process.start { "sh", "-c", "cat; head -c 1000000 /dev/zero", input = near, output = near })
    rl.sleep(0.1)
    far:write "more"
    far:finish()
    t.equal(far:read_exactly(4), "more")
    near:close()
    rl.sleep(0.1)
    t.equal(#far:read_all { timeout = 5 }, 1000000)
    t.equal({ program:wait() }, { "exit", 0 })
    far:close()
    local holder
    near, far = net.pair()
    local from, to = net.pair()
    holder = assert(process.start { "sleep", "60", input = near })
    local copy = rl.task(net.copy, near, from)
    far:write "text"
    t.equal(to:read_exactly(4), "text")
    far:close()
    t.equal(copy:await(), 4)
    holder:stop()
    for _, stream in ipairs { near, from, to } do stream:close() end
  end)

  t.it("gives a program a connection of runloop.socket that blocks", REAL, function()
    local socket = require "runloop.socket"
    local listener = assert(socket.bind("127.0.0.1", 0))
    local _, port = listener:getsockname()
    local far = rl.task(net.connect, "127.0.0.1:" .. port)
    local near = assert(listener:accept())
    near:send "head\n"
    local program = assert(process.start { "sh", "-c", "head -c 9000000 /dev/zero", output = near })
    near:close()
    rl.sleep(0.2)
    local count = 0
    far = far:await()
    for bytes in far:chunks() do count = count + #bytes end
    t.equal({ count, program:wait() }, { 9000005, "exit", 0 })
    far:close()
    listener:close()
  end)

  t.it("writes what the script has written before, ahead of the program's output", REAL, function()
    local near, far = net.pair()
    near:write "head\n"
    assert(process.start { "echo", "body", output = near }):wait()
    near:close()
    t.equal(far:read_all { timeout = 5 }, "head\nbody\n")
    far:close()
    -- A slow peer.
    near, far = net.pair()
    near:queue(("h"):rep(1 << 20))
    local reader = rl.task(far.read_all, far, { timeout = 5 })
    assert(process.start { "echo", "body", output = near }):wait()
    near:close()
    t.equal(reader:await():sub(-7), "hhbody\n")
    far:close()
    local path = os.tmpname()
    local file <close> = io.open(path, "w+")
    file:write "head\n"
    assert(process.start { "echo", "body", output = file }):wait()
    t.equal(file:seek "end", 10)
    file:seek "set"
    t.equal(file:read "l", "head")
    local rest = process.start { "cat", input = file, output = "pipe" }
    t.equal(rest.output:read_all { timeout = 5 }, "body\n")
    rest:wait()
    local script = [[
      local process, net = require "runloop.process", require "runloop.net"
      io.write "1 "
      process.start { "printf", "2 " }:wait()
      net.output():write "3 "
      process.start { "printf", "4" }:wait()]]
    t.equal(process.run { t.rlhost, "-e", script }.output, "1 2 3 4")
    process.run { t.rlhost, "-e", script, output = path }
    t.equal(io.open(path):read "a", "1 2 3 4")
    os.remove(path)
  end)

  t.it("runs many programs at once, and leaves no descriptor and no zombie", REAL, function()
    local tasks = {}
    for i = 1, 100 do tasks[i] = rl.task(function() return process.run(sh("echo " .. i .. "; exit " .. i % 7)) end) end
    for i = 1, 100 do
      local result = tasks[i]:await()
      t.equal({ result.output, result.code }, { i .. "\n", i % 7 })
    end
    t.equal(io.popen("ps --ppid " .. process.id() .. " -o stat= | grep -c Z"):read "n", 0)
  end)

  t.it("ends the program when it is cancelled", REAL, function()
    local task = rl.task(process.run, sh "sleep 4711")
    rl.sleep(0.1)
    task:cancel()
    t.eventually(function() return not os.execute "pgrep -f '[s]leep 4711' > /dev/null" end, { within = 5 })
  end)
end)

t.describe("a program that process.start has started", function()
  t.it("has streams for input and output", REAL, function()
    local program = assert(process.start { "cat", input = "pipe", output = "pipe", name = "echo" })
    t.equal({ program:is_running(), program:name(), program:pid() > 1 }, { true, "echo", true })
    program.input:write "line\n"
    t.equal(program.output:read_line(), "line")
    program.input:finish()
    t.equal({ program:wait() }, { "exit", 0 })
    t.equal({ program:wait(0) }, { "exit", 0 })
    t.equal(program.output:read(), nil)
    program.output:close()
    t.equal(tostring(program):match "^program \"echo\" %(%d+, exit 0, made at .*process_test.lua:%d+%)$" ~= nil, true)
  end)

  t.it("reports its end to a callback, and wait returns at its time limit", REAL, function()
    local how = {}
    local program = assert(process.start { "sleep", "0.2", on_exit = function(_, kind, value)
      how = { kind, value }
    end })
    t.equal({ program:wait(0.01) }, { nil, "timed out" })
    program:wait()
    t.equal(how, { "exit", 0 })
  end)

  t.it("calls its functions in the modes to which it was added", REAL, function()
    local seen = {}
    local function told(what)
      return function(_, value) if value then seen[#seen + 1] = what .. rl.current():mode() end end
    end
    local program = assert(process.start { "echo", "x", modes = "dialogue", on_output = told "output in ",
      on_exit = told "end in " })
    rl.sleep(0.2)
    t.equal(seen, {})
    for _ = 1, 200 do if #seen == 2 then break end rl.current():run { mode = "dialogue", timeout = 0.02 } end
    t.equal(seen, { "output in dialogue", "end in dialogue" })
    t.falsy(program:is_running())
    local other = assert(process.start { "true", modes = { "dialogue" }, on_exit = told "other in " })
    rl.current():add(other, "default")
    t.truthy(rl.current():contains(other, "default"))
    for _ = 1, 200 do if #seen == 3 then break end rl.sleep(0.01) end
    t.equal(seen[3], "other in default")
    t.error(function() process.start { "true", modes = { 1 } } end,
      "process.start: field 'modes' must be names of modes, got 1 in it")
    t.error(function() process.start { "true", modes = {} } end,
      "process.start: field 'modes' must name at least one mode")
    t.error(function() process.run { "true", modes = "default" } end, "process.run: unknown field 'modes'")
  end)

  t.it("can be awaited in any mode, and calls its functions in its own", REAL, function()
    local seen = {}
    local function told(what)
      return function(_, value) if value then seen[#seen + 1] = what .. rl.current():mode() end end
    end
    local program = assert(process.start { "sh", "-c", "echo x; exit 3", modes = "dialogue",
      on_output = told "output in ", on_exit = told "end in " })
    t.equal({ program:wait(10) }, { "exit", 3 })
    t.equal({ program:is_running(), program:wait(0) }, { false, "exit", 3 })
    rl.sleep(0.02)
    t.equal(seen, {})
    rl.current():run { mode = "dialogue", timeout = 10 }
    t.equal(seen, { "output in dialogue", "end in dialogue" })
    -- A program that has ended long ago.
    local other = assert(process.start { "true", modes = "dialogue" })
    t.eventually(function()
      return not os.execute("kill -0 " .. other:pid())
        or io.open("/proc/" .. other:pid() .. "/stat"):read "a":find " Z "
    end)
    t.equal({ other:wait(10) }, { "exit", 0 })
    t.falsy(rl.current():contains(other, "dialogue"))
  end)

  t.it("delivers all of its output before its end, also to a function that waits", REAL, function()
    local function log_of(fields)
      local log, over = {}, rl.condition()
      local function note(name)
        return function(_, bytes)
          rl.sleep(0.02)
          log[#log + 1] = bytes and name .. " " .. #bytes or name .. " is over"
          log[name] = (log[name] or 0) + #(bytes or "")
        end
      end
      fields.on_output = note "output"
      fields.on_errors = not fields.terminal and note "errors" or nil
      function fields.on_exit(_, _, status)
        log[#log + 1] = "exit " .. status
        over:signal()
      end
      local program = assert(process.start(fields))
      t.truthy(over:wait(20))
      return log, program
    end
    local log = log_of(sh "head -c 200000 /dev/zero; head -c 3 /dev/zero >&2; exit 4")
    t.equal({ log[#log], log.output, log.errors }, { "exit 4", 200000, 3 })
    t.equal(log[#log - 1], "output is over")
    log = log_of { "sh", "-c", "head -c 30000 /dev/zero; exit 6", terminal = {} }
    t.equal({ log[#log], log.output }, { "exit 6", 30000 })
    -- The call does not wait for other programs that hold its output and still write.
    local others, program = log_of(sh "while echo x; do :; done & sleep 0.1; exit 5")
    t.equal({ others[#others], program:is_running() }, { "exit 5", false })
    program:signal "KILL"
    program.output:abort()
    program.errors:abort()
    rl.sleep(0.1)
  end)

  t.it("reports its end although a function for its output fails", REAL, function()
    local ends, problem
    rl.on_error(function(err) problem = err end)
    local program = assert(process.start { "echo", "x", on_exit = function(_, _, status) ends = status end,
      on_output = function() rl.sleep(0.05) error "no more" end })
    program:wait()
    t.eventually(function() return ends == 0 end)
    t.truthy(problem:find "no more$", problem)
  end)

  t.it("delivers output as it arrives, and all of it before its end", REAL, function()
    local seen, over = {}, rl.condition()
    local program = assert(process.start { "sh", "-c", "head -c 300000 /dev/zero; echo wrong >&2; exit 4",
      on_output = function(p, bytes) seen[#seen + 1] = bytes and #bytes or "end of output" end,
      on_errors = function(p, bytes) seen.errors = (seen.errors or "") .. (bytes or "; end") end,
      on_exit = function(p, how, status)
        seen[#seen + 1] = status
        over:signal()
      end })
    t.truthy(over:wait(10))
    local total = 0
    for _, each in ipairs(seen) do if type(each) == "number" then total = total + each end end
    t.equal({ total - 4, seen[#seen - 1], seen[#seen], seen.errors }, { 300000, "end of output", 4, "wrong\n; end" })
    t.error(function() program.output:read() end, "its input goes to on_data")
  end)

  t.it("delivers earlier output before its end, even if another program holds the pipe", REAL, function()
    local text = ""
    local program = assert(process.start { "sh", "-c", "sleep 30.0625 & echo $!; exit 0",
      on_output = function(_, bytes) text = text .. (bytes or "over") end })
    t.equal({ program:wait(10) }, { "exit", 0 })
    local other = text:match "^(%d+)\n$"
    t.truthy(other, text)
    t.equal(program:signal "KILL", true)
    rl.sleep(0.2)
    t.equal(text, other .. "\nover")
  end)

  t.it("answers is_running by asking the system", REAL, function()
    local ends
    local program = assert(process.start { "true", on_exit = function(_, how) ends = how end })
    local limit = os.clock() + 10
    while program:is_running() and os.clock() < limit do end
    t.equal({ program:is_running(), program:wait(0) }, { false, "exit", 0 })
    rl.sleep(0)
    t.equal(ends, "exit")
  end)

  t.it("is not hung up when it closes its terminal, and may open it again", REAL, function()
    local text = ""
    local program = assert(process.start {
      "sh", "-c", "exec <&- >&- 2>&-; sleep 0.1; echo back >/dev/tty; exit 7", terminal = {},
      on_output = function(_, bytes) text = text .. (bytes or "over") end })
    t.equal({ program:wait(10) }, { "exit", 7 })
    t.equal(text, "back\r\nover")
  end)

  t.it("ends with its group, by SIGTERM and then SIGKILL", REAL, function()
    local program = assert(process.start(sh "trap 'exit 5' TERM; while :; do sleep 0.05; done"))
    rl.sleep(0.1)
    t.equal({ program:stop(5) }, { "exit", 5 })
    program = assert(process.start(sh "trap '' TERM; while :; do sleep 0.05; done"))
    rl.sleep(0.1)
    t.equal({ program:stop(0.1) }, { "signal", "KILL" })
    program = assert(process.start { "sleep", "60" })
    t.equal({ program:stop() }, { "signal", "TERM" })
    t.equal({ program:signal "TERM" }, { nil, "ESRCH: it has ended (sleep 60)", "ESRCH" })
  end)

  t.it("can be ended while it is stopped by a signal", REAL, function()
    local program = assert(process.start(sh "kill -STOP $$; exit 1"))
    rl.sleep(0.1)
    t.equal({ program:stop(2) }, { "signal", "TERM" })
  end)

  t.it("has a terminal whose size can change, if the option is set", REAL, function()
    local program = assert(process.start { "sh", "-c", "read -p 'name? ' x; stty size; read y; stty size",
      terminal = { rows = 10, columns = 33 } })
    t.equal(program.input:read_until("? ", { timeout = 10 }), "name")
    program.input:write "Ada\n"
    t.truthy(program.output:read_until("10 33", { timeout = 10 }))
    program:resize(20, 50)
    program.input:write "\n"
    t.truthy(program.output:read_until("20 50", { timeout = 10 }))
    t.equal({ program:wait(10) }, { "exit", 0 })
    program.input:close()
  end)

  t.it("is ended in the background by <close>", REAL, function()
    local kept
    do
      local program <close> = assert(process.start { "sleep", "60" })
      kept = program
    end
    t.equal({ kept:wait(5) }, { "signal", "TERM" })
  end)

  t.it("has methods that raise errors for wrong arguments", function()
    t.error(function() process.run "ls" end,
      'process.run: argument #1 must be a table such as { "ls", "%-l" }, got "ls"')
    t.error(function() process.run {} end, "the first word must be the program")
    t.error(function() process.run { "ls", {} } end, "word 2 must be a string, got a table")
    t.error(function() process.run { "a\0b" } end, "word 1 contains a NUL")
    t.error(function() process.run { "x", timeot = 3 } end, "unknown field 'timeot' %(did you mean 'timeout'%?%)")
    t.error(function() process.run { "x", timeout = -1 } end,
      "field 'timeout' must be a number of seconds, 0 or more, got %-1")
    t.error(function() process.run { "x", environment = { ["a=b"] = "c" } } end, "'a=b' cannot be a variable's name")
    t.error(function() process.start { "x", input = {} } end, 'input must be "pipe", "inherit", "null", a path')
    t.error(function() process.start { "x", terminal = { rows = 0 } } end, "rows must be an integer from 1 to 65535")
    t.error(function()
      process.start { "x", terminal = {}, output = "pipe" }
    end, "a program with a terminal has that as its output")
    t.error(function() process.start { "x", timeout = 1 } end, "unknown field 'timeout'")
    t.error(function() process.start { "x", on_output = print, output = "null" } end,
      'process.start: on_output: it needs a pipe, and cannot be used with output = "null"')
    t.error(function() process.start { "x", on_errors = print, terminal = {} } end,
      "on_output gets everything that a program writes to its terminal")
    t.error(function() process.start { "x", on_output = 1 } end, "field 'on_output' must be a function, got 1")
    t.error(function() process.run { "x", on_output = print } end, "unknown field 'on_output'")
    t.error(function() process.shell(5) end, "process.shell: argument #1 must be a string, got 5")
    t.error(function() process.set_directory(5) end, "must be a string")
    t.equal(select(3, process.set_directory "/nowhere"), "ENOENT")
  end)
end)
