local net, fs = require "runloop.net", require "runloop.fs"
local t = require "runloop.test"

t.describe("the service manager", { real_time = true }, function()
  local manager, path

  t.before_each(function()
    local directory = assert(fs.temporary_directory())
    path = directory .. "/notify"
    manager = assert(net.datagram { path = path })
    t.finally(function()
      manager:close()
      fs.remove(directory, { recursive = true })
    end)
  end)

  local function start(script)
    local program = t.spawn { t.rlhost, "-l", "process=runloop.process", "-e", script, env = { NOTIFY_SOCKET = path } }
    t.finally(function() program:kill() end)
    return program
  end

  -- Waits for the end of a program. Returns all messages that the program has sent to the service manager.
  local function messages(program)
    program:wait()
    manager:send("END", "unix:" .. path)
    local all = {}
    while all[#all] ~= "END" do all[#all + 1] = assert(manager:receive(5)) end
    all[#all] = nil
    return all
  end

  local READY = "process.notify 'ready' print 'up' io.stdout:flush() rl.every(60, function() end) "
  local LAST = "rl.on_shutdown(function() process.notify 'the last words' end) "

  t.each({ "TERM", "INT" }, "gets STOPPING=1 before the first shutdown function, after SIG%s", function(signal)
    local program = start(LAST .. READY)
    program:wait_for "up"
    program:signal(signal)
    t.equal(messages(program), { "READY=1", "STOPPING=1", "STATUS=the last words" })
  end)

  t.it("gets STOPPING although the script has no shutdown functions", function()
    local program = start(READY)
    program:wait_for "up"
    program:signal "TERM"
    t.equal(messages(program), { "READY=1", "STOPPING=1" })
  end)

  t.it("gets STOPPING when the script calls rl.shutdown", function()
    t.equal(messages(start(LAST .. READY .. "rl.shutdown 'enough'")),
      { "READY=1", "STOPPING=1", "STATUS=the last words" })
    t.equal(messages(start(READY .. "rl.shutdown()")), { "READY=1", "STOPPING=1" })
  end)

  t.it("gets STOPPING once if the script has sent it", function()
    t.equal(messages(start(READY .. "process.notify 'stopping' rl.shutdown()")), { "READY=1", "STOPPING=1" })
    t.equal(messages(start(READY .. "process.notify 'STATUS=x\\nSTOPPING=1' rl.shutdown()")),
      { "READY=1", "STATUS=x\nSTOPPING=1" })
  end)

  t.it("gets STOPPING once if a shutdown function sends it after the host", function()
    local again = "rl.on_shutdown(function() print(process.notify 'stopping') end) "
    t.equal(messages(start(again .. READY .. "rl.shutdown()")), { "READY=1", "STOPPING=1" })
  end)

  t.it("gets nothing from a process that has not reported READY, such as a child", function()
    t.equal(messages(start(LAST .. "rl.shutdown()")), { "STATUS=the last words" })
    local script = "process.notify 'ready' process.run { %q, '-e', 'rl.shutdown()' }"
    t.equal(messages(start(script:format(t.rlhost))), { "READY=1" })
  end)
end)
