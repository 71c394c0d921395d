-- Programs that run in the virtual time of the test that started them: t.spawn { t.rlhost, …, virtual_time = true }.

local rl = require "runloop"
local net = require "runloop.net"
local t = require "runloop.test"

local function script(text, options)
  local all = { t.rlhost, "-e", text, virtual_time = true }
  for name, value in pairs(options or {}) do all[name] = value end
  return t.spawn(all)
end
local LONG = { within = 1e6 }

t.describe("a program in virtual time", function()
  t.it("waits an hour in no time, and shows the test's time", { starts_at = "2026-03-01 00:00:00" }, function()
    rl.sleep(100)
    local p <close> = script("rl.after(3600, function() "
      .. "print(rl.now(), os.time() - math.tointeger(tonumber(os.getenv 'START')), os.clock()) end)",
      { env = { START = os.time() } })
    local now, passed, clock = p:wait_for("(%S+)\t(%S+)\t(%S+)\n", LONG)
    t.equal({ tonumber(now), tonumber(passed), tonumber(clock), rl.now() }, { 3700, 3600, 3700, 3700 })
    t.equal(p:wait(), 0)
  end)

  t.it("takes turns with the test's own timers", function()
    local p <close> = script "rl.every(1000, function() print(rl.now()) end)"
    local seen = {}
    local timer <close> = rl.every(700, function() seen[#seen + 1] = string.format("test %d", rl.now() // 1) end)
    for _ = 1, 3 do
      local date = p:wait_for("(%d+)%.0\n", LONG)
      seen[#seen + 1] = "program " .. date
    end
    t.equal(seen, { "test 700", "program 1000", "test 1400", "program 2000", "test 2100", "test 2800", "program 3000" })
  end)

  t.it("answers before a time-out if its answer is in time, and after it if not", function()
    local p <close> = script [[
      local net = require "runloop.net"
      for line in net.input():lines() do rl.sleep(tonumber(line)) print("after " .. line) io.flush() end]]
    p:write "2\n"
    t.equal(p:wait_for("after (%d+)", { within = 2.5 }), "2")
    t.equal(rl.now(), 2)
    p:write "7200\n"
    t.error(function() p:wait_for("after 7200", { within = 7199 }) end, "not within 7199 s")
    t.equal(rl.now(), 7201)
    p:wait_for("after 7200", { within = 1.5 })
    t.equal(rl.now(), 7202)
  end)

  t.it("serves another program over a real connection, and only their waits take time", function()
    local server <close> = script [[
      local net = require "runloop.net"
      local listener = net.serve(0, function(stream) for line in stream:lines() do rl.sleep(60) stream:write(line:upper(), "\n") end end)
      print(listener:port()) io.flush()]]
    local port = server:wait_for "(%d+)\n"
    local client <close> = script([[
      local net = require "runloop.net"
      local stream = assert(net.connect(tonumber(os.getenv "PORT")))
      for i = 1, 5 do stream:write("line ", i, "\n") print(stream:read_line(), rl.now()) end io.flush()]], { env = { PORT = port } })
    client:wait(LONG)
    t.equal(client:errors(), "")
    t.equal(client:output(), "LINE 1\t60.0\nLINE 2\t120.0\nLINE 3\t180.0\nLINE 4\t240.0\nLINE 5\t300.0\n")
    -- The test itself is a client, too.
    local stream <close> = assert(net.connect(tonumber(port)))
    stream:write "x\n"
    t.equal({ stream:read_line { timeout = 61 }, rl.now() }, { "X", 360 })
  end)

  t.it("starts programs that are in virtual time, too", function()
    local p <close> = script([[
      local process = require "runloop.process"
      local inner = process.start { os.getenv "RLHOST", "-e", "rl.sleep(86400) print('inner', rl.now())", output = "pipe" }
      print(inner.output:read_line()) print("outer", rl.now() >= 86400) io.flush()]], { env = { RLHOST = t.rlhost } })
    p:wait { within = 1e6 }
    t.equal(p:errors(), "")
    t.equal((p:output():gsub("%d+%.%d+", "N")), "inner\tN\nouter\ttrue\n")
    t.truthy(rl.now() < 86410, rl.now())
  end)

  t.it("lets real time pass while it waits for a real event, and none while it computes", function()
    local p <close> = script [[
      local process, start = require "runloop.process", rl.now()
      local limit = tonumber(io.open("/proc/uptime"):read "n") + 0.2
      repeat local file = io.open "/proc/uptime" local now = file:read "n" file:close() until now >= limit
      print("computed", rl.now() - start) io.flush() start = rl.now()
      process.run { "sleep", "0.2" }
      print("ran", rl.now() - start) io.flush()]]
    t.equal(p:wait_for("computed\t(%S+)\n", LONG), "0.0")
    local took = tonumber(p:wait_for("ran\t(%S+)\n", LONG))
    t.truthy(took >= 0.1 and took < 100, took)
  end)

  t.it("is notified when the wall clock is set", { starts_at = "2026-03-01 00:00:00" }, function()
    local p <close> = script "rl.at(rl.time() + 86400, function() print(rl.now()) end) print 'ready' io.flush()"
    p:wait_for "ready"
    rl.sleep(10)
    rl.clock:set_time(rl.time() + 86400)
    t.equal(tonumber(p:wait_for("(%S+)\n", LONG)), 10)
  end)

  t.it("can have a terminal", function()
    local p <close> = script("io.write 'name? ' io.flush() "
      .. "local net = require 'runloop.net' local name = net.input():read_line() "
      .. "rl.sleep(30) print('hello ' .. name, rl.now())", { terminal = true })
    p:wait_for "name%? "
    rl.sleep(5)
    p:write "Ada\n"
    t.equal({ p:wait_for("hello (%a+)%s+(%S+)", LONG) }, { "Ada", "35.0" })
    p:wait()
  end)

  t.it("follows a clock that is held", function()
    local held <close> = rl.clock:hold()
    local p <close> = script "rl.every(1, function() print(rl.now()) io.flush() end) print 'ready' io.flush()"
    p:wait_for("ready", LONG)
    rl.clock:advance(3)
    t.equal(p:output(), "ready\n1.0\n2.0\n3.0\n")
    rl.clock:settle()
    t.equal(rl.now(), 3)
  end)

  t.it("may end before it begins, and must be rlhost", function()
    local p <close> = t.spawn { t.rlhost, "--version", virtual_time = true }
    t.equal(p:wait(LONG), 0)
    for _, words in ipairs { { "sh", "-c", "exit 3" }, { "/bin/cat" } } do
      words.virtual_time = true
      t.error(function() t.spawn(words) end, "field 'virtual_time' works with rlhost only, and '[^']+' is ")
    end
    -- A script whose first line names rlhost counts as rlhost.
    local path = os.tmpname()
    local file <close> = io.open(path, "w")
    file:write("#!/usr/bin/env -S ", t.rlhost, "\nrequire 'runloop'.sleep(3600) os.exit(4)\n")
    file:close()
    os.execute("chmod +x " .. path)
    local q <close> = t.spawn { path, virtual_time = true }
    t.equal(q:wait(LONG), 4)
    os.remove(path)
    local before = rl.now()
    rl.sleep(3600)
    t.equal(rl.now(), before + 3600)
  end)

  t.it("is killed with the test, and data on its way does not delay the end", function()
    local p <close> = script "rl.every(1, function() end)"
    rl.sleep(5)
    p:kill()
    rl.sleep(3600)
    t.equal(rl.now(), 3605)
  end)

  t.it("runs in real time if its test does", { real_time = true }, function()
    local p <close> = script "rl.sleep(0.05) print(os.getenv 'RLHOST_TEST_CLOCK')"
    p:wait()
    t.equal(p:output(), "nil\n")
    t.error(function() script("", { virtual_time = 1 }) end, "field 'virtual_time' must be a boolean, got a number")
  end)
end)

t.it("a test releases its programs when they and their output have ended", function()
  local kept = setmetatable({}, { __mode = "k" })
  local running <close> = t.spawn { "cat" }
  for index = 1, 20 do
    local program = t.spawn { "sh", "-c", "echo out; echo err >&2", terminal = index % 2 == 0 }
    program:wait()
    t.truthy(program:output():find "out")
    kept[program] = true
  end
  t.eventually(function()
    collectgarbage()
    return next(kept) == nil
  end)
  t.truthy(running:is_running())
end)
