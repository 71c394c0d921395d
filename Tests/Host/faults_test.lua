-- Failures of the system at the wrong moment, or for a while: programs and jobs go on, or report what is wrong.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }
local rlhost = fs.real_path "/proc/self/exe"

-- Returns what a script prints while the n-th calls of some kind fail: "epoll_ctl:error=ENOSPC:when=2".
local function told_with(fault, script)
  local result = process.run { "strace", "-f", "-o", "/dev/null", "-e", "inject=" .. fault, rlhost, "-e", script,
    timeout = 20 }
  if not result or result.errors:find "ptrace" then t.skip "strace is missing, or may not trace" end
  t.falsy(result.timed_out, fault)
  return result.output .. result.errors
end

t.describe("a system call that fails", function()
  t.it("is repeated if it watches for a program's end", REAL, function()
    local script = [[
      local process = require "runloop.process"
      local program = process.start { "sh", "-c", "sleep 0.1; exit 3", on_exit = function(_, how, value) print("told", how, value) end }
      print(program:wait())
      print(process.run { "echo", "out" }.output)
    ]]
    for call = 2, 6 do
      for _, refusal in ipairs { "ENOSPC", "ENOMEM" } do
        local told = told_with(("epoll_ctl:error=%s:when=%d"):format(refusal, call), script)
        t.truthy(told:find("told\texit\t3\n", 1, true) and told:find("%f[%w]exit\t3\n.*\nout\n"), call .. ": " .. told)
      end
    end
  end)

  t.it("is reported with the directory if a watcher cannot list a new one", REAL, function()
    local script = [[
      local fs = require "runloop.fs"
      local directory, files = fs.temporary_directory(), {}
      local watcher = fs.watcher { path = directory, recursive = true }
      os.execute("mkdir " .. directory .. "/new")
      for i = 1, 100 do files[i] = io.open "/dev/null" end
      local changes = watcher:next(5)
      for _, file in pairs(files) do file:close() end
      fs.remove(directory, { recursive = true })
      print(#changes, changes[1].kind, changes[1].message:match "^EMFILE: too many open files")
    ]]
    local result = process.run { "sh", "-c", 'ulimit -n 40; exec "$@"', "sh", rlhost, "-e", script, timeout = 20 }
    t.equal(result.output, "1\tcreated\tEMFILE: too many open files\n", result.errors)
  end)

  t.it("ends the program and is reported if it writes the program's input", REAL, function()
    local told = told_with("write:error=EIO:when=1", [[
      local result, message, code = require "runloop.process".run { "cat", input = "hello" }
      print(result, message:match "^EIO: input/output error", code)
    ]])
    t.equal(told, "nil\tEIO: input/output error\tEIO\n")
  end)

  t.it("makes a job read the clock itself if it gets no descriptor for clock changes", REAL, function()
    local script = [[
      local rl, schedule = require "runloop", require "runloop.schedule"
      rl.sleep(0)
      local files = {}
      repeat files[#files + 1] = io.open "/dev/null" until not io.open "/dev/null"
      print(rl.at(rl.time() + 1, print) == nil)
      -- As if a minute were about to begin.
      local began = rl.now()
      function rl.time() return 1770000000 - 1770000000 % 60 + 58.5 + rl.now() - began end
      local job = schedule.cron("* * * * *", function(job, moment) print("called", moment % 60, rl.time() - moment < 1.6) job:invalidate() end)
    ]]
    local result = process.run { "/bin/sh", "-c", [[ulimit -n 60; exec "$0" -e "$1"]], rlhost, script, timeout = 30 }
    t.equal({ result.output, result.errors, result.code }, { "true\ncalled\t0\ttrue\n", "", 0 })
  end)

  t.it("is reported with the path if /dev or /proc is missing", REAL, function()
    local function told_without(directory, script)
      local result = process.run { "unshare", "-m", "sh", "-c", [[mount -t tmpfs none $2 && exec "$0" -e "$1"]], rlhost,
        script, directory, timeout = 20 }
      if not result or result.code ~= 0 then t.skip "only root may take it away" end
      return result.output
    end
    t.equal(told_without("/dev", [[print(require "runloop.process".run { "echo", "hi" })]]),
      "nil\tENOENT: no such file or directory (/dev/null)\tENOENT\n")
    local want = "nil\tENOENT: there is no /proc/self/fd, which message ports need: mount /proc\tENOENT\n"
    t.equal(told_without("/proc", [[print(rl.message_port { name = "org.example.a", callback = print })]]), want)
  end)
end)

-- Each run is in a coroutine that is deep in functions of C. Lua allows 200 nested C functions in all.
t.it("deeply nested runs and coroutines raise an error before the stack overflows", REAL, function()
  local script = [[
    local rl = require "runloop"
    local first, nest
    rl.on_error(function(problem) first = first or tostring(problem):match "[^:]*$" end)
    local function deep(n, body)
      if n == 0 then return body() end
      ("x"):gsub(".", function() deep(n - 1, body) end)
    end
    function nest(n)
      coroutine.wrap(deep)(60, function()
        rl.after(0, function() rl.stop() nest(n + 1) end)
        rl.run { timeout = 5 }
      end)
    end
    nest(1)
    print(first)
  ]]
  local result = process.run { "/bin/sh", "-c", [[ulimit -s 2048; exec "$0" -e "$1"]], rlhost, script, timeout = 30 }
  t.equal({ result.output, result.errors, result.code }, { " C stack overflow\n", "", 0 })
end)
