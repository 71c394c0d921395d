-- runloop.luv: luv's loop on ours.

local rl = require "runloop"
local t = require "runloop.test"
local process, fs = require "runloop.process", require "runloop.fs"
local rlhost = fs.real_path "/proc/self/exe"

-- Runs a script; returns its output, its errors and its status.
local function run(script)
  local result = process.run { rlhost, "-", input = script }
  if result.errors:find "luv is not installed" then return t.skip "lua-luv is not installed" end
  return result.output, result.errors, result.code
end

local REAL = { real_time = true }

t.it("timers of luv fire beside our timers, and let the program end", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local timer = uv.new_timer()
    timer:start(1, 0, function()
      rl.after(0.001, function() print "ours" end)
      print "theirs"
      timer:close()
    end)
  ]], "theirs\nours\n")
end)

t.it("the bridge notices handles that are made later", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    rl.after(0.01, function()
      local timer = uv.new_timer()
      timer:start(10, 0, function()
        timer:close()
        rl.after(0.01, function()
          local later = uv.new_timer()
          later:start(10, 0, function() print "later" later:close() end)
        end)
      end)
    end)
  ]], "later\n")
end)

t.it("timers of luv count from the time at which they start, however long luv's loop was idle", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local function measure(name)
      local began, timer = rl.now(), uv.new_timer()
      timer:start(100, 0, function()
        timer:close()
        print(name, rl.now() - began > 0.09)
      end)
    end
    rl.sleep(0.2)
    measure "task"
    rl.sleep(0.4)
    rl.after(0.2, function() measure "timer" end)
    local before = uv.now()
    rl.sleep(0.2)
    print("now", uv.now() - before > 100)
  ]]:gsub("\t", " "), "task true\nnow true\ntimer true\n")
end)

t.it("a callback of luv may wait, and calls of one function keep their order", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local timer, count = uv.new_timer(), 0
    timer:start(5, 5, function()
      count = count + 1
      local mine = count
      if mine == 3 then timer:close() end
      print("begin", mine)
      rl.sleep(0.03)
      print("end", mine)
    end)
    rl.sleep(0.3)
  ]]:gsub("\t", " "):gsub("begin 3\nend 3\n.*", "begin 3\nend 3\n"), "begin 1\nend 1\nbegin 2\nend 2\nbegin 3\nend 3\n")
end)

t.it("the bridge reports errors of callbacks, and continues", REAL, function()
  local output, errors = run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    rl.on_error(function(message, info) print(message, info.kind) end)
    local timer = uv.new_timer()
    timer:start(5, 0, function() timer:close() error "mine" end)
    local other = uv.new_timer()
    other:start(30, 0, function() other:close() print "goes on" end)
  ]]
  t.truthy(output:find "mine", output .. errors)
  t.truthy(output:find "goes on", output .. errors)
end)

t.it("reports name the callback, also after a wait, and its queued calls are then made", REAL, function()
  local output, errors = run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local timer, count = uv.new_timer(), 0
    rl.on_error(function(message, info) print(message, info.where) end)
    timer:start(1, 5, function()
      count = count + 1
      local mine = count
      if mine == 3 then timer:close() end
      rl.sleep(0.02)
      error("number " .. mine, 0)
    end)
  ]]
  local expected = ("number %d\ta callback of luv\n"):rep(3):format(1, 2, 3)
  t.equal(output:sub(1, #expected), expected, errors)
  local _, report = run [[
    local uv = require "luv"
    require "runloop.luv"
    local timer = uv.new_timer()
    timer:start(1, 0, function() timer:close() error "mine" end)
  ]]
  t.truthy(report:find("in a callback of luv", 1, true), report)
end)

t.it("rl.why shows the active handles of luv", REAL, function()
  local output = run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local server, timer = uv.new_tcp(), uv.new_timer()
    server:bind("127.0.0.1", 0)
    server:listen(16, function() end)
    timer:start(5000, 0, function() end)
    rl.after(0.01, function()
      print(rl.why())
      for _, item in ipairs(rl.current():inspect().modes.default) do
        if item.kind == "bridge" then print(item.name, item.detail) end
      end
      server:close()
      timer:close()
    end)
  ]]
  t.truthy(output:find 'bridge "luv" %(tcp 127%.0%.0%.1:%d+, timer, made at stdin:1%)', output)
  t.truthy(output:find "luv\ttcp 127%.0%.0%.1:%d+, timer\n", output)
end)

t.it("recordings show each turn of the bridge, and each callback until it has ended", REAL, function()
  local directory = fs.temporary_directory()
  t.finally(function() fs.remove(directory, { recursive = true }) end)
  local script = [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local timer, count = uv.new_timer(), 0
    timer:start(5, 5, function()
      count = count + 1
      if count == 3 then timer:close() end
      rl.sleep(0.001)
    end)
  ]]
  local result = process.run { rlhost, "--trace=" .. directory .. "/turns.json", "-", input = script }
  if result.errors:find "luv is not installed" then return t.skip "lua-luv is not installed" end
  local turns, strange, callbacks = 0, 0, 0
  local events = require "runloop.json".decode(assert(fs.read(directory .. "/turns.json")))
  for _, event in ipairs(events.traceEvents or events) do
    if event.name == 'bridge "luv"' then turns = turns + 1 end
    if event.cat == "stream" then strange = strange + 1 end
    if event.ph == "b" and event.name == "callback" then callbacks = callbacks + 1 end
  end
  t.equal({ strange, callbacks }, { 0, 3 })
  t.truthy(turns >= 3)
end)

t.it("the bridge gets turns beside a loop that is always busy", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local is_over, fired = false, 0
    local function again() if not is_over then rl.current():perform(again) end end
    again()
    rl.after(0.005, function()
      local timer = uv.new_timer()
      timer:start(1, 1, function()
        fired = fired + 1
        if fired == 5 then
          timer:close()
          is_over = true
          print "done"
        end
      end)
    end)
  ]], "done\n")
end)

for _, which in ipairs { "one test", "the next test" } do
  t.it("uses real time under virtual time, and is not a leak of " .. which, function()
    if not pcall(require, "runloop.luv") then return t.skip "lua-luv is not installed" end
    local uv = require "luv"
    local timer, order = uv.new_timer(), {}
    timer:start(20, 0, function()
      order[#order + 1] = "theirs"
      timer:close()
    end)
    rl.after(0.2, function() order[#order + 1] = "ours" end)
    local began = rl.now()
    rl.sleep(30)
    t.equal(table.concat(order, " "), "theirs ours")
    t.truthy(rl.now() - began >= 30)
  end)
end

t.it("uv.run in a task waits for luv while the loop runs", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local timer = uv.new_timer()
    timer:start(300, 0, function() print "fired" timer:close() end)
    rl.after(0.005, function() print "ours" end)
    print(uv.run())
    print(uv.run "nowait", uv.run "once")
    print(pcall(uv.run, "often"))
  ]]:gsub("stdin:%d+: ", ""), "ours\nfired\nfalse\nfalse\tfalse\nfalse\t"
    .. 'uv.run: argument #1 must be "default", "once" or "nowait", got "often"\n')
end)

t.it("uv.stop ends the waits in uv.run", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local count, timer = 0, uv.new_timer()
    timer:start(5, 5, function()
      count = count + 1
      if count == 3 then uv.stop() end
    end)
    print(uv.run(), count)
    uv.stop()
    print(uv.run(), count)
    rl.sleep(0.05)
    print(count > 3)
    rl.task(uv.run):cancel()
    uv.stop()
    local before = count
    print(uv.run(), count == before)
    timer:close()
    print(uv.run())
  ]], "true\t3\ntrue\t3\ntrue\ntrue\ttrue\nfalse\n")
end)

t.it("a program may end inside a callback of luv", REAL, function()
  local rlhost = require "runloop.fs".real_path "/proc/self/exe"
  for _, ending in ipairs { { "os.exit(3, true)", 3, "" }, { "error('uncaught', 0)", 1, "rlhost: uncaught\n" } } do
    local result = require "runloop.process".run { rlhost, "-e", ([[
      local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
      local timer, other = uv.new_timer(), uv.new_tcp()
      other:bind("127.0.0.1", 0)
      other:listen(1, function() end)
      timer:start(1, 0, function()
        timer:close()
        %s
      end)
      rl.sleep(1)
    ]]):format(ending[1]) }
    t.equal({ result.code, result.errors:sub(1, #ending[3]) }, { ending[2], ending[3] })
  end
end)

t.it("luv serves connections under the loop", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    local net = require "runloop.net"
    local server = uv.new_tcp()
    server:bind("127.0.0.1", 0)
    server:listen(16, function()
      local client = uv.new_tcp()
      server:accept(client)
      client:read_start(function(problem, bytes)
        if bytes then client:write(bytes:upper()) else client:close() end
      end)
    end)
    local port = server:getsockname().port
    local tasks = {}
    for i = 1, 20 do
      tasks[i] = rl.task(function()
        local stream <close> = assert(net.connect("127.0.0.1:" .. port))
        for _ = 1, 20 do
          stream:write "hello"
          assert(stream:read_exactly(5) == "HELLO")
        end
      end)
    end
    rl.all_of(tasks)
    server:close()
    print "done"
  ]], "done\n")
end)

t.it("the bridge is an item of the loop, which can be removed and added", REAL, function()
  t.equal(run [[
    local rl, bridge, uv = require "runloop", require "runloop.luv", require "luv"
    print(bridge == require "runloop.luv", bridge:is_valid(), bridge:name())
    print(rl.current():contains(bridge, "common"))
    local timer = uv.new_timer()
    timer:start(5, 0, function() print "fired" timer:close() end)
    rl.current():remove(bridge, "common")
    rl.sleep(0.03)
    print "not yet"
    rl.current():add(bridge, "common")
    rl.sleep(0.03)
    local last = uv.new_timer()
    last:start(5, 0, function() print "by hand" last:close() end)
    bridge:invalidate()
    print(bridge:is_valid())
    rl.sleep(0.02)
    uv.run()
  ]], "true\ttrue\tluv\ntrue\nnot yet\nfired\nfalse\nby hand\n")
end)

t.it("the error of require names the missing package", function()
  local errors = process.run { rlhost, "-", input = [[
    package.cpath = ""
    require "runloop.luv"
  ]] }.errors
  t.truthy(errors:find("module 'runloop.luv': luv is not installed (apt install lua-luv)", 1, true), errors)
  errors = process.run { rlhost, "-", input = [[
    package.preload.luv = function() error("libuv.so.1 is too old", 0) end
    require "runloop.luv"
  ]] }.errors
  t.truthy(errors:find "module 'runloop.luv': [^\n]*libuv.so.1 is too old", errors)
end)

t.it("the error of require names the option of the sandbox that allows luv", function()
  local result = process.run { rlhost, "--sandbox=best-effort", "-", input = 'require "runloop.luv"' }
  t.truthy(result.errors:find "module 'runloop.luv': not allowed by the sandbox: %-%-allow%-modules", result.errors)
end)
