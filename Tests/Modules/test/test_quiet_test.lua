-- The clock jumps past finished work, and past programs that can only wait; and it waits for programs that work.

local rl = require "runloop"
local net = require "runloop.net"
local process = require "runloop.process"
local fs = require "runloop.fs"
local socket = require "socket"
local t = require "runloop.test"

-- Defines a test whose clock jumps for hours, and which takes less real time than any of its waits would.
local function at_once(body)
  return function()
    local began = socket.gettime()
    body()
    t.truthy(socket.gettime() - began < 5, socket.gettime() - began)
    t.truthy(rl.now() >= 3600, rl.now())
  end
end

-- A directory for this test alone.
local function directory()
  local path = assert(fs.temporary_directory())
  t.finally(function() os.execute("rm -r '" .. path .. "'") end)
  return path
end

t.describe("the clock does not wait for", function()
  for _, kind in ipairs { "127.0.0.1", "[::1]", "unix" } do
    t.it("a connection that was reset, " .. kind, at_once(function()
      local address = kind == "unix" and "unix:" .. directory() .. "/socket" or kind .. ":0"
      local listener <close> = assert(net.serve(address, function(stream) rl.sleep(1) stream:abort() end))
      if kind ~= "unix" then address = kind .. ":" .. listener:port() end
      local stream <close> = assert(net.connect(address))
      rl.sleep(3600)
      stream:read()
      rl.sleep(3600)
    end))
  end

  t.it("a socket of a C module that was reset", at_once(function()
    local listener = assert(socket.bind("127.0.0.1", 0))
    local client = assert(socket.connect("127.0.0.1", (select(2, listener:getsockname()))))
    local server = listener:accept()
    client:send "x"
    server:setoption("linger", { on = true, timeout = 0 })
    server:close()
    listener:close()
    local port = rl.on_readable(client, function(port) port:invalidate() end)
    rl.sleep(3600)
    port:invalidate()
    client:close()
  end))

  t.it("a connection whose other end is closed", at_once(function()
    local listener <close> = net.serve("127.0.0.1:0", function(stream) stream:write "x" stream:close() end)
    local stream <close> = net.connect("127.0.0.1:" .. listener:port())
    rl.sleep(3600)
    t.equal(stream:read_all(), "x")
  end))
end)

t.describe("the clock jumps beside", function()
  t.it("a process that may send a signal", at_once(function()
    local handler = process.on_signal("TERM", print)
    rl.sleep(3600)
    handler:invalidate()
  end))

  t.it("a process that may change a directory", at_once(function()
    local watcher = assert(fs.watch(os.getenv "HOME" or "/", print))
    rl.sleep(3600)
    watcher:invalidate()
  end))

  t.it("a program that reads our pipe", at_once(function()
    local p <close> = t.spawn { "cat" }
    for i = 1, 3 do
      rl.sleep(3600)
      p:write "hello\n"
      p:wait_for "hello"
      t.equal(rl.now() // 3600, i)
    end
  end))

  t.it("programs that wait for each other", at_once(function()
    local p <close> = t.spawn { "sh", "-c", "cat | cat | (cat; echo end)" }
    rl.sleep(3600)
    p:write "hello\n"
    p:wait_for "hello"
    rl.sleep(3600)
    p:close_input()
    p:wait_for "end"
  end))

  t.it("a program behind io.popen", at_once(function()
    local p <close> = io.popen("cat >/dev/null", "w")
    rl.sleep(3600)
  end))

  t.it("a program in virtual time that blocks", at_once(function()
    local p <close> = t.spawn { t.rlhost, "-e", "for l in io.lines() do print(l, rl.now()) io.flush() end",
      virtual_time = true }
    for i = 1, 2 do
      rl.sleep(3600)
      p:write "a\n"
      t.equal(p:wait_for "a\t(%S+)\n", 3600.0 * i .. "")
    end
  end))

  local function fifo()
    local path = directory() .. "/fifo"
    os.execute("mkfifo " .. path)
    return path, assert(io.open(path, "r+"))
  end

  t.it("a FIFO with both ends here", at_once(function()
    local _, file = fifo()
    local stream <close> = assert(net.open(file))
    local reader = rl.task(function() return stream:read_line() end)
    rl.sleep(3600)
    file:write "hey\n"
    file:flush()
    t.equal(reader:await(), "hey")
    file:close()
  end))

  t.it("a thread that reads a FIFO of this process", at_once(function()
    local path, file = fifo()
    local th = rl.thread(function(path)
      local file <close> = io.open(path)
      return file:read "l"
    end, path)
    rl.sleep(3600)
    file:write "hey\n"
    file:flush()
    t.equal(select(2, th:join()), "hey")
    file:close()
  end))
end)

t.describe("the clock waits for", function()
  t.it("a program that sleeps", function()
    local p <close> = t.spawn { "sh", "-c", "sleep 0.2; echo x" }
    p:wait_for("x", { within = 3 })
  end)

  t.it("a program that another one waits for", function()
    local p <close> = t.spawn { "sh", "-c", "read line; (sleep 0.2; echo x) | cat" }
    rl.sleep(3600)
    p:write "\n"
    p:wait_for("x", { within = 3 })
  end)

  t.it("a further thread of a program", function()
    local p <close> = t.spawn { t.rlhost, "-e",
      "local th = rl.thread(function() os.execute 'sleep 0.2' print 'x' io.flush() end) "
      .. "io.read() th:join()" }
    p:wait_for("x", { within = 5 })
    p:close_input()
    p:wait()
  end)
end)

t.it("output of a program over TCP arrives at each of its moments", function()
  local dates = {}
  local listener <close> = net.serve("127.0.0.1:0", function(stream)
    for _ in stream:lines() do dates[#dates + 1] = rl.now() end
  end)
  local p <close> = t.spawn { t.rlhost, "-e",
    "local stream = require 'runloop.net'.connect('127.0.0.1:" .. listener:port() .. "') "
    .. "for i = 1, 60 do stream:write(i, '\\n') rl.sleep(1) end", virtual_time = true }
  p:wait { within = 1000 }
  t.equal(#dates, 60)
  for i = 2, 60 do t.equal(dates[i] - dates[i - 1], 1) end
end)

t.it("a jump beside many idle connections is short", function()
  local listener <close> = net.serve("127.0.0.1:0", function(stream) stream:read() end)
  local streams, tasks = {}, {}
  for i = 1, 200 do
    streams[i] = net.connect("127.0.0.1:" .. listener:port())
    tasks[i] = rl.task(function() streams[i]:read() end)
  end
  rl.sleep(1)
  local began = socket.gettime()
  for _ = 1, 200 do rl.sleep(1) end
  t.truthy(socket.gettime() - began < 5, socket.gettime() - began)
  for i = 1, 200 do
    streams[i]:close()
    tasks[i]:cancel()
  end
  rl.sleep(1)
end)
