-- runloop.glib: GLib's default main context, served by a run loop. The C modules beside this file are compiled for it.

local rl = require "runloop"
local t = require "runloop.test"
local process, fs = require "runloop.process", require "runloop.fs"
local rlhost = fs.real_path "/proc/self/exe"

local HERE = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local directory

t.before_all(function()
  directory = fs.temporary_directory()
  local function compile(name, ...)
    -- Without "nodelete" the end of a program unloads a module in which another thread may still run.
    return process.run { "cc", "-O1", "-shared", "-fPIC", "-Wl,-z,nodelete", "-I/usr/include/lua5.4",
      "-o", directory .. "/" .. name .. ".so", HERE .. "/modules/" .. name .. ".c", ... }
  end
  compile("glib_module", "-l:libglib-2.0.so.0", "-l:libgio-2.0.so.0", "-l:libgobject-2.0.so.0")
  compile("gtk_module", "-l:libgtk-3.so.0", "-l:libgobject-2.0.so.0")
end)
t.after_all(function() fs.remove(directory, { recursive = true }) end)

local BEGIN <const> = [[
  package.cpath = arg[1] .. "/?.so;" .. package.cpath
  local rl, bridge, glib = require "runloop", require "runloop.glib", require "glib_module"
  function report(problem) print("reported: " .. problem) end
]]

local function run(script, environment)
  if not fs.stat(directory .. "/glib_module.so") then return t.skip "there is no C compiler, or no GLib" end
  local result = process.run { rlhost, "-", directory, input = BEGIN .. script, environment = environment }
  return result.output .. result.errors, result.code
end

local REAL = { real_time = true }

t.it("timeouts of GLib run beside our timers, and let the program end", REAL, function()
  t.equal(run [[
    glib.timeout(150, function() print "theirs" end)
    rl.after(0.005, function() print "ours" end)
  ]], "ours\ntheirs\n")
end)

t.it("a timeout of GLib repeats while our timer continues", REAL, function()
  t.equal(run [[
    local theirs, ours = 0, 0
    local timer = rl.every(0.005, function() ours = ours + 1 end)
    glib.timeout(5, function()
      theirs = theirs + 1
      if theirs < 20 then return true end
      timer:invalidate()
      print(ours >= 10)
    end)
  ]], "true\n")
end)

t.it("the bridge notices sources that are made later, also by another thread", REAL, function()
  t.equal(run [[
    local hold = rl.after(2, function() print "too late" end)
    rl.after(0.01, function()
      glib.idle(function()
        print "idle"
        rl.after(0.01, function()
          glib.thread(function()
            print "from a thread"
            hold:invalidate()
          end)
        end)
      end)
    end)
  ]], "idle\nfrom a thread\n")
end)

t.it("sources run in the order of their priorities", REAL, function()
  t.equal(run [[
    glib.idle(function() print "low" end, 300)
    glib.idle(function() print "high" end, -100)
    glib.idle(function() print "middle" end, 100)
  ]], "high\nmiddle\nlow\n")
end)

t.it("a busy GLib and a busy loop take turns", REAL, function()
  t.equal(run [[
    local theirs, ours = 0, 0
    local function again()
      ours = ours + 1
      if theirs < 100 then rl.current():perform(again) end
    end
    rl.current():perform(again)
    glib.idle(function()
      theirs = theirs + 1
      return theirs < 100 or ours < 100
    end)
    rl.after(0, function() print "timer" end)
    rl.current():run()
    print(theirs >= 100, ours >= 100, math.abs(theirs - ours) < 150)
  ]], "timer\ntrue\ttrue\ttrue\n")
end)

t.it("the bridge watches descriptors, also a number that another file has later", REAL, function()
  t.equal(run [[
    local function pipe(text)
      local file = io.popen("sleep 0.02; echo " .. text)
      return file, rl.fd_port { fd = file, callback = print }:fd()
    end
    local first, fd = pipe "first"
    glib.readable(fd, function()
      print(first:read "l")
      first:close()
      local second, same = pipe "second"
      print(same == fd)
      glib.readable(same, function()
        print(second:read "l")
        second:close()
      end)
    end)
  ]], "first\ntrue\nsecond\n")
end)

t.it("GIO reads files under the loop", REAL, function()
  fs.write(directory .. "/text", "contents")
  t.equal(run [[
    bridge:set_keeps_alive(true)
    glib.load(arg[1] .. "/text", function(text)
      print(text)
      bridge:set_keeps_alive(nil)
    end)
  ]], "contents\n")
end)

t.it("any kind of source of GLib keeps the program running, unless keeps_alive is false", REAL, function()
  t.equal(run [[
    glib.on_signal(10, function() print "signal" end)
    rl.after(0.01, function() os.execute "kill -USR1 $PPID" end)
  ]], "signal\n")
  t.equal(run "bridge:set_keeps_alive(false) glib.timeout(60000, print)", "")
  t.equal(run "local id = glib.timeout(60000, print) rl.after(0.01, function() print(glib.remove(id)) end)", "true\n")
end)

t.it("the bridge works in the modes to which it is added", REAL, function()
  t.equal(run [[
    print(bridge == require "runloop.glib", bridge:is_valid(), bridge:name())
    local loop = rl.current()
    print(loop:contains(bridge, "common"))
    loop:remove(bridge, "common")
    glib.timeout(1, function() print "theirs" end)
    rl.sleep(0.02)
    print "nothing so far"
    loop:add(bridge, "mine")
    print(loop:run { mode = "mine", timeout = 1 })
    glib.timeout(5, function() print "by hand" glib.quit() end)
    bridge:invalidate()
    print(bridge:is_valid())
    rl.sleep(0.02)
    glib.run()
    print(require "runloop.glib" ~= bridge)
  ]], "true\ttrue\tglib\ntrue\nnothing so far\ntheirs\nfinished\nfalse\nby hand\ntrue\n")
end)

t.it("a main loop of GLib runs inside a callback, and our loop inside a callback of GLib", REAL, function()
  t.equal(run [[
    rl.after(0.001, function()
      glib.timeout(5, function() print "inner" glib.quit() end)
      glib.run()
      print "after the inner loop"
      glib.timeout(1, function()
        rl.after(0.005, function() print "ours, inside" end)
        rl.current():run { timeout = 0.02 }
        print "back"
      end)
    end)
  ]], "inner\nafter the inner loop\nours, inside\nback\n")
end)

t.it("a callback of GLib may start tasks, but gets an error if it waits", REAL, function()
  local output = run [[
    glib.timeout(1, function() rl.sleep(0.01) end)
    glib.timeout(5, function() rl.task(function() rl.sleep(0.001) print "task" end) end)
  ]]
  t.truthy(output:find("reported: ", 1, true) and output:find("rl.sleep", 1, true), output)
  t.truthy(output:find("task", 1, true), output)
end)

t.it("rl.why shows the descriptors and the next date for which the bridge waits", REAL, function()
  t.truthy(run [[
    glib.timeout(500, function() end)
    rl.after(0.01, function()
      print(rl.why())
      bridge:invalidate()
    end)
  ]]:find "bridge \"glib\" %(0 descriptors, next in 0%.[45]%d* s")
end)

t.it("sources that have ended leave no memory and no descriptors behind", REAL, function()
  t.equal(run [[
    local function fds() return #require "runloop.fs".list "/proc/self/fd" end
    local function work(n)
      local left = n
      for i = 1, n do glib.timeout(0, function() left = left - 1 end) end
      while left > 0 do rl.sleep(0.005) end
      collectgarbage()
      collectgarbage()
      return collectgarbage "count"
    end
    work(3000)
    local open, before = fds(), work(3000)
    local after = work(3000)
    print(after - before < 64, fds() == open)
    bridge:invalidate()
    print(fds() == open - 2)
  ]], "true\ttrue\ntrue\n")
end)

t.it("wrong arguments and a second thread raise errors", function()
  local output = run [[
    print(select(2, pcall(bridge.set_keeps_alive, bridge, 1)))
    print(select(2, pcall(bridge.set_keeps_alive)))
    rl.thread(function() print(select(2, pcall(require, "runloop.glib"))) end):join()
  ]]
  t.truthy(output:find("bridge:set_keeps_alive: argument #1 must be a boolean or nil, got 1", 1, true), output)
  t.truthy(output:find("belongs to another thread", 1, true), output)
end)

t.it("GTK draws a window while our timers run", REAL, function()
  if not fs.stat(directory .. "/gtk_module.so") then return t.skip "GTK 3 is not installed" end
  if process.run { "sh", "-c", "command -v Xvfb" }.code ~= 0 then return t.skip "Xvfb is not installed" end
  local server = process.start { "Xvfb", "-displayfd", "1", "-screen", "0", "320x200x24", output = "pipe",
    errors = "null" }
  t.finally(function()
    server:stop()
    server.output:close()
  end)
  local display = server.output:read_line { timeout = 4 }
  t.equal(run([[
    local gtk = require "gtk_module"
    assert(gtk.open(), "no display")
    local ticks, drawn = 0, nil
    local timer
    timer = rl.every(0.005, function()
      ticks = ticks + 1
      gtk.draw_again()
      if gtk.draws() >= 3 and ticks >= 5 or ticks == 600 then
        timer:invalidate()
        gtk.close()
        bridge:set_keeps_alive(false)
        print(gtk.draws() >= 3)
      end
    end)
  ]], { DISPLAY = ":" .. display }), "true\n")
end)

t.it("callbacks of lgi run under the loop", REAL, function()
  local output = run [[
    local is_there, lgi = pcall(require, "lgi")
    if not is_there then return print "no lgi" end
    local count = 0
    lgi.GLib.timeout_add(0, 5, function()
      count = count + 1
      if count == 2 then rl.task(function() rl.sleep(0.005) print "ours" end) end
      return count < 3
    end)
  ]]
  if output == "no lgi\n" then return t.skip "lgi is not installed for Lua 5.4" end
  t.equal(output, "ours\n")
end)
