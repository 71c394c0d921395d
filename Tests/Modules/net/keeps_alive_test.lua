-- Streams, sockets and tasks with keeps_alive = false: the loop serves them, but does not keep running for their sake.

local rl = require "runloop"
local net = require "runloop.net"
local process = require "runloop.process"
local t = require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local REAL = { real_time = true }
local HEAD = 'local rl, net = require "runloop", require "runloop.net"\n'

-- Runs a script as a program. Returns the program's output and status, and the seconds that it took.
local function run(script)
  local start = rl.now()
  local result = assert(process.run { t.rlhost, "-e", HEAD .. script, timeout = 20 })
  return result.output, result.code or result.signal, rl.now() - start, result.errors
end

-- A script that has to end by itself, at once.
local function ends(script, output)
  local printed, status, seconds, errors = run(script)
  t.equal({ printed, status, errors }, { output or "", 0, "" })
  t.truthy(seconds < 5, "it took " .. seconds .. " s")
end

t.describe("the program does not stay alive for", REAL, function()
  t.it("a stream that a task reads", function()
    ends([[
      local a, b = net.pair()
      b:set_keeps_alive(false)
      rl.task(function() b:read() end)
      print(rl.why():match "served[^\n]*:")
      keep = a]], "served, but it does not keep the loop running:\n")
  end)

  t.it("closed streams, for whose peers the host waits a while", function()
    ends([[
      local server = assert(net.serve(0, function(stream) stream:read_all() end))
      local stream = assert(net.connect(server:port()))
      stream:write "text"
      stream:close()
      server:close()
      rl.sleep(0.02)
      print(rl.why():match "[^\n]*")]], "nothing keeps the loop alive\n")
  end)

  t.it("streams, listeners and sockets with keeps_alive = false", function()
    ends [[
      server = assert(net.serve(0, { keeps_alive = false }, function(stream) stream:read() end))
      c = assert(net.connect(server:port(), { keeps_alive = false }))
      rl.task(function() c:read() end)
      l = net.listener { port = 0, keeps_alive = false, on_data = print }
      rl.current():add(l)
      m = net.listener { port = 0, keeps_alive = false }
      rl.task(m.accept, m)
      d = net.datagram { port = 0, keeps_alive = false, on_message = print }
      rl.current():add(d)
      e = net.datagram { port = 0, keeps_alive = false }
      rl.task(e.receive, e)
      s = net.stream { host = "localhost", port = server:port(), keeps_alive = false, on_data = print }
      rl.current():add(s)
      local x, y = net.pair()
      o = net.open(x:fd(), { keeps_alive = false, on_data = print })
      keep = y]]
  end)

  t.it("a connection of such a listener that its peer keeps open", function()
    ends [[
      server = assert(net.serve(0, { keeps_alive = false }, function(stream) stream:read() end))
      c = assert(net.connect(server:port(), { keeps_alive = false }))
      rl.sleep(0.05)]]
  end)

  t.it("a read with a time limit of such a stream, also if the option was changed during it", function()
    ends [[
      local a, b = net.pair()
      b:set_keeps_alive(false)
      rl.task(function() b:read { timeout = 60 } end)
      rl.task(function() a:read { timeout = 60 } end)
      a:set_keeps_alive(false)]]
  end)

  t.it("a connection that is being made in the background", function()
    ends [[
      rl.task { function() net.connect("192.0.2.1:9", { keeps_alive = false }) end, keeps_alive = false }
      rl.task { function() net.connect "192.0.2.1:9" end, keeps_alive = false }
      rl.task(net.connect, "192.0.2.1:9", { keeps_alive = false })]]
  end)

  t.it("an object for which a background task waits", function()
    ends([[
      local process = require "runloop.process"
      local a, b = net.pair()
      local c, d = net.pair()
      local l, u = net.listener { port = 0 }, net.datagram { port = 0 }
      keep = { a, b, c, d, l, u }
      local function background(...) return rl.task { keeps_alive = false, ... } end
      background(rl.sleep, 60)
      background(rl.wait_readable, a:fd())
      background(rl.wait_readable, a:fd(), 60)
      background(function() b:read() end)
      background(function() c:write(("x"):rep(1 << 23)) end)
      background(function() l:accept() end)
      background(function() u:receive(60) end)
      background(function() rl.condition():wait(60) end)
      background(rl.timeout, 60, function() rl.sleep(60) end)
      background(rl.first_of, function() rl.sleep(60) end, function() rl.sleep(61) end)
      background(rl.all_of, function() rl.sleep(60) end, function() rl.sleep(61) end)
      background(rl.settle_all, { function() rl.sleep(60) end })
      background(function() local g <close> = rl.group() g:task(rl.sleep, 60) g:wait() end)
      background(function() rl.blocking(function() require "runloop".sleep(60) end) end)
      background(function() process.run { "sleep", "60" } end)
      background(function() process.wait_signal "USR1" end)
      background(function() rl.thread { function() require "runloop".sleep(60) end, keeps_alive = false }:join() end)
      print "made"]], "made\n")
  end)

  t.it("a background request to a server that does not answer", function()
    local server <close> = assert(net.serve(0, function(stream) stream:read_all() end))
    local script = [[
      rl.task { function() require "runloop.http".get "http://127.0.0.1:%d/" end, keeps_alive = false }
      rl.sleep(0.1)]]
    ends(script:format(server:port()))
  end)
end)

t.describe("the program stays alive for", REAL, function()
  t.it("a stream whose option was changed back, and a task without the option", function()
    ends([[
      local a, b = net.pair()
      b:set_keeps_alive(false)
      b:set_keeps_alive(true)
      rl.task(function() print(b:read_line()) end)
      rl.task { function() rl.sleep(0.05) a:write "x\n" end, keeps_alive = true }]], "x\n")
  end)

  t.it("a task that a background task has started", function()
    ends([[
      rl.task { function()
        rl.task(function() rl.sleep(0.05) print "done" end)
        rl.sleep(60)
      end, keeps_alive = false }]], "done\n")
  end)

  t.it("another reader of a stream that a background task has read", function()
    ends([[
      local a, b = net.pair()
      local first = rl.task { function() b:read() end, keeps_alive = false }
      first:cancel()
      rl.task(function() print(b:read()) end)
      rl.task(function() rl.sleep(0.05) a:write "x" end)]], "x\n")
  end)

  t.it("bytes that were written to a stream that was closed", function()
    local received = 0
    local done = rl.condition()
    local server <close> = assert(net.serve(0, function(stream)
      rl.sleep(0.2)
      for chunk in stream:chunks() do received = received + #chunk end
      done:signal()
    end))
    local script = [[
      local s = assert(net.connect(%d, { keeps_alive = false }))
      s:queue(("x"):rep(1 << 23))
      s:close()]]
    local task = rl.task(ends, script:format(server:port()))
    t.truthy(done:wait(10))
    task:await()
    t.equal(received, 1 << 23)
  end)
end)

t.describe("the loop waits for an answer", REAL, function()
  local CLIENT = [[
    local near, far = net.pair()
    near:set_keeps_alive(false)
    far:set_keeps_alive(false)
    rl.task { function()
      for line in far:lines() do rl.sleep(0.05) far:write(line:upper(), "\n") end
    end, keeps_alive = false }
    local answered = rl.condition()
    local answer
    rl.task { function() for line in near:lines() do answer = line answered:signal() end end, keeps_alive = false }
    local function ask(text) near:write(text, "\n") answered:wait() return answer end ]]

  t.it("that the main chunk awaits, and the program ends after it", function()
    ends(CLIENT .. [[print(ask "one") print(ask "two")]], "ONE\nTWO\n")
  end)

  t.it("that a script, a test or a thread awaits", function()
    ends([[print(rl.thread(function() local net, rl = require "runloop.net", require "runloop" ]]
      .. CLIENT:gsub("\n", " ") .. [[ return ask "three" end):join())]], "true\tTHREE\n")
    local near, far = net.pair()
    near:set_keeps_alive(false)
    local came = rl.condition()
    rl.task { function() came:signal(near:read_line()) end, keeps_alive = false }
    rl.task { function() rl.sleep(0.01) far:write "x\n" end, keeps_alive = false }
    t.equal(came:wait(), true)
    near:close()
    far:close()
  end)

  t.it("that tasks await in future:await, also one of several", function()
    local future = CLIENT:gsub("local answered.*", "") .. [[
      local futures = {}
      rl.task { function()
        for line in near:lines() do table.remove(futures, 1):complete(line) end
      end, keeps_alive = false }
      local function ask(text)
        futures[#futures + 1] = rl.future()
        near:write(text, "\n")
        return futures[#futures]
      end ]]
    ends(future .. [[rl.task(function() print(ask "one":await()) end)]], "ONE\n")
    ends(future .. [[rl.task(function() print(rl.first_of(ask "one", ask "two")) end)]], "1\tONE\n")
    ends(future .. [[rl.task(function() print(rl.all_of(ask "one", ask "two")) end)]], "ONE\tTWO\n")
    ends(future .. [[rl.task { function() print(ask "one":await()) end, keeps_alive = false }]])
  end)

  t.it("but not for a task that waits for something else", function()
    ends(CLIENT .. [[rl.task(function() print(ask "never") end)]])
  end)

  t.it("and the program ends with status 13 if no task or stream can bring the answer", function()
    local _, status, _, errors = run [[
      rl.timer { interval = 1, modes = "common", keeps_alive = false, callback = function() end }
      rl.task { function() rl.channel():receive() end, keeps_alive = false }
      rl.condition():wait()]]
    t.equal(status, 13)
    t.truthy(errors:find("nothing is left that could wake it", 1, true), errors)
  end)

  t.it("and a nested run does not wait for streams while the main chunk runs", function()
    ends(CLIENT .. [[print(rl.run { timeout = 3 })]], "finished\n")
  end)
end)

t.describe("when the loop is done, background tasks", REAL, function()
  t.it("are cancelled, newest first, and close their variables", function()
    ends([[
      local function closing(name) return setmetatable({}, { __close = function(_, err) print(name, err) end }) end
      for i = 1, 3 do
        rl.task { function(a, b) local c <close> = closing(a .. b) rl.sleep(60) end, "task ", i, keeps_alive = false }
      end
      print "end"]], "end\ntask 3\tcancelled\ntask 2\tcancelled\ntask 1\tcancelled\n")
  end)

  t.it("may start work that keeps the program alive", function()
    ends([[
      rl.task { function()
        pcall(rl.sleep, 60)
        rl.task(function() rl.sleep(0.05) print "afterwards" end)
        pcall(rl.sleep, 60)
        print "not before the end"
      end, keeps_alive = false }]], "afterwards\nnot before the end\n")
  end)

  t.it("report their errors", function()
    local _, status, _, errors = run [[
      rl.task { function() pcall(rl.sleep, 60) error "after all" end, keeps_alive = false, name = "worker" }]]
    t.equal(status, 1)
    t.truthy(errors:find("after all", 1, true) and errors:find('in task "worker" made at', 1, true), errors)
  end)

  t.it("are cancelled in threads, too", function()
    ends([[
      print(rl.thread(function()
        local rl = require "runloop"
        rl.task { function()
          local c <close> = setmetatable({}, { __close = function() print "closed" end })
          rl.sleep(60)
        end, keeps_alive = false }
      end):join())]], "closed\ntrue\n")
  end)
end)

t.describe("rl.task with a table", function()
  t.it("passes arguments, also nil, and has a name", function()
    local task = rl.task { function(...) rl.sleep(0.01) return select("#", ...), ... end, 1, nil, 3, name = "worker" }
    t.equal(task:name(), "worker")
    t.truthy(tostring(task):find('^task "worker" %(waiting in rl.sleep, made at '), tostring(task))
    t.equal(table.pack(task:await()), { 3, 1, nil, 3, n = 4 })
    t.equal(rl.task(function() end):name(), "")
  end)

  t.it("names a wrong argument in an error", function()
    local function problem(text, ...) support.raises(text, rl.task, ...) end
    problem("rl.task: the first element must be a function, got nothing", {})
    problem("rl.task: the first element must be a function, got 1", { 1 })
    problem("rl.task: unknown field 'keep_alive' (did you mean 'keeps_alive'?)", { print, keep_alive = false })
    problem("rl.task: field 'keeps_alive' must be a boolean, got 1", { print, keeps_alive = 1 })
    problem("rl.task: field 'name' must be a string, got a table", { print, name = {} })
    problem("rl.task: after a table of options no further argument is expected", { print }, 1)
    problem("rl.task: argument #1 must be a function", 1)
  end)

  t.it("names a wrong option of streams in an error", function()
    support.raises("net.connect: field 'keeps_alive' must be a boolean, got 1", net.connect, 1, { keeps_alive = 1 })
    support.raises("field 'keeps_alive' must be a boolean, got 1", net.serve, 0, { keeps_alive = 1 }, print)
    support.raises("field 'keeps_alive' must be a boolean, got 1", net.listener, { port = 0, keeps_alive = 1 })
    support.raises("field 'keeps_alive' must be a boolean, got 1", net.stream, { port = 9, keeps_alive = 1 })
    support.raises("field 'keeps_alive' must be a boolean, got 1", net.datagram, { port = 0, keeps_alive = 1 })
    support.raises("net.open: field 'keeps_alive' must be a boolean, got 1", net.open, 1, { keeps_alive = 1 })
    local a, b = net.memory()
    support.raises("stream:set_keeps_alive: argument #1 must be a boolean, got nothing", a.set_keeps_alive, a)
    a:close()
    b:close()
  end)
end)

t.describe("at the end of a test", function()
  local closed = {}
  local kept

  t.it("background tasks do not count as leaks", function()
    for i = 1, 2 do
      rl.task { function()
        local c <close> = setmetatable({}, { __close = function() closed[#closed + 1] = i end })
        rl.sleep(1e6)
      end, keeps_alive = false }
    end
    local a, b = net.memory()
    rl.task { function()
      local x <close> = a
      local y <close> = b
      a:read()
    end, keeps_alive = false }
  end)

  t.it("they are cancelled, newest first", function() t.equal(closed, { 2, 1 }) end)

  t.it("an open background stream is a leak", { fails = "it leaves a stream" }, function()
    kept = { net.memory() }
    rl.task { function() kept[1]:read() end, keeps_alive = false }
  end)

  t.it("and their errors fail the test", { fails = "its task raises" }, function()
    rl.task { function() pcall(rl.sleep, 60) error "after all" end, keeps_alive = false }
  end)
end)
