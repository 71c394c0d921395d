-- runloop.process: signals as events, and the service manager.

local rl = require "runloop"
local process = require "runloop.process"
local t = require "runloop.test"

local function sh(text) return { "sh", "-c", text } end
local REAL = { real_time = true }

t.describe("signals", function()
  local function send(name) os.execute("kill -" .. name .. " " .. process.id()) end

  t.it("are handled by the loop, not at the moment of their arrival", REAL, function()
    local count = 0
    local handler <close> = assert(process.on_signal("USR1", function(_, n) count = count + n end))
    send "USR1"
    t.equal(count, 0)
    rl.sleep(0.1)
    t.equal(count, 1)
  end)

  t.it("are kept for a mode that does not run", REAL, function()
    local count = 0
    local handler <close> = assert(process.signal { name = "USR1", callback = function() count = count + 1 end })
    rl.current():add(handler, "listening")
    send "USR1"
    rl.sleep(0.1)
    t.equal(count, 0)
    -- A signal watcher keeps no loop alive, so another item has to.
    local other <close> = rl.timer { delay = 60, callback = print }
    rl.current():add(other, "listening")
    rl.current():run { mode = "listening", timeout = 0.1 }
    t.equal(count, 1)
  end)

  t.it("are awaited by process.wait_signal, with a time limit", REAL, function()
    rl.task(function()
      rl.sleep(0.1)
      send "HUP"
    end)
    t.equal(process.wait_signal("HUP", 5), true)
    t.equal({ process.wait_signal("HUP", 0.05) }, { nil, "timed out" })
  end)

  t.it("have names, also the first and the last real-time signal", REAL, function()
    t.equal(process.run(sh "kill -34 $$").signal, "RTMIN")
    t.equal(process.run(sh "kill -36 $$").signal, "RTMIN+2")
    for _, name in ipairs { "RTMIN", "SIGRTMIN+1", "RTMAX", "RTMAX-3" } do
      assert(process.on_signal(name, print)):invalidate()
    end
    for _, name in ipairs { "RTMIN+31", "RTMAX-31", "RTMIN+", "RTMAX+1" } do
      t.error(function() process.on_signal(name, print) end, "must be the name of a signal")
    end
  end)

  t.it("are awaited in the mode that runs when the wait begins, like changes and messages", REAL, function()
    local fs, http, loop = require "runloop.fs", require "runloop.http", rl.current()
    local directory = assert(fs.temporary_directory())
    local server = http.serve("127.0.0.1:0", { modes = { "common", "dialogue" } }, function(request)
      local socket = request:websocket()
      for message in socket:messages() do socket:send(message) end
    end)
    local socket <close> = assert(http.websocket("ws://" .. server:address() .. "/"))
    local watcher <close> = assert(fs.watch(directory))
    local function in_dialogue(fn)
      local got
      loop:add(rl.timer { delay = 0.001, callback = function() got = table.pack(fn()) loop:stop() end }, "dialogue")
      loop:run { mode = "dialogue", timeout = 8 }
      return got
    end
    for _ = 1, 2 do
      t.equal(in_dialogue(function()
        local wait = rl.task(process.wait_signal, "USR1", 5)
        process.run { "kill", "-USR1", tostring(process.id()) }
        return wait:await()
      end), { true, n = 1 })
      t.equal(in_dialogue(function()
        fs.write(directory .. "/new", "x")
        return watcher:next(5)[1].path
      end), { directory .. "/new", n = 1 })
      t.equal(in_dialogue(function()
        socket:send "hello"
        return (socket:receive(5))
      end), { "hello", n = 1 })
    end
    -- The watcher has left the mode again, so nothing has changed for other code.
    t.equal({ loop:contains(watcher, "dialogue"), loop:contains(watcher, "default") }, { false, true })
    fs.write(directory .. "/new", "y")
    t.equal(watcher:next(5)[1].path, directory .. "/new")
    fs.remove(directory, { recursive = true })
    socket:close()
    server:stop(1)
  end)

  t.it("raise an error if they cannot be caught, or do not exist", function()
    t.error(function() process.on_signal("KILL", print) end, "nobody can catch KILL")
    t.error(function() process.on_signal("FOO", print) end,
      "argument #1 must be the name of a signal such as \"TERM\", got \"FOO\"")
    t.error(function() process.on_signal("HUP") end, "argument #2 must be a function, got nothing")
    t.error(function() process.signal { name = "HUP", callbak = print } end, "unknown field 'callbak'")
    t.error(function() process.wait_signal("HUP", -1) end, "argument #2 must be a number of seconds")
  end)
end)

t.describe("the service manager", function()
  t.it("receives RELOADING with the time of the monotonic clock", REAL, function()
    local path = os.tmpname()
    os.remove(path)
    local socket <close> = assert(require "runloop.net".datagram { path = path })
    local result = process.run { t.rlhost, "-e",
      [[local process = require "runloop.process" print(process.notify "reloading", process.notify "ready")]],
      environment = { NOTIFY_SOCKET = path } }
    t.equal(result.output, "true\ttrue\n", result.errors)
    local uptime = tonumber(io.open("/proc/uptime"):read "n")
    local micros = tonumber(socket:receive(5):match "^RELOADING=1\nMONOTONIC_USEC=(%d+)$")
    -- Both clocks count from the start of the machine, but one of them stands still while the machine sleeps.
    t.truthy(micros and micros > 0 and micros < (uptime + 5) * 1e6, micros)
    t.equal(socket:receive(5), "READY=1")
    os.remove(path)
  end)
end)
