local rl = require "runloop"
local net = require "runloop.net"
local process = require "runloop.process"
local fs = require "runloop.fs"
local t = require "runloop.test"

local function real() local f <close> = io.open "/proc/uptime" return f:read "n" end
local function at_once(body)
  return function()
    local began = real()
    body()
    t.truthy(real() - began < 3, real() - began)
    t.truthy(rl.now() >= 3600, rl.now())
  end
end

t.describe("what is over brings nothing:", function()
  for _, address in ipairs { "127.0.0.1:0", "[::1]:0", "unix" } do
    t.it("a connection that was reset, " .. address, at_once(function()
      local path = os.tmpname()
      os.remove(path)
      local l <close> = assert(net.serve(address == "unix" and "unix:" .. path or address, function(a) rl.sleep(1) a:abort() end))
      local s <close> = assert(net.connect(address == "unix" and "unix:" .. path or address:gsub(":0$", ":" .. (l:port() or ""))))
      rl.sleep(3600)
      s:read()
      rl.sleep(3600)
      os.remove(path)
    end))
  end
  t.it("one that is only half closed", at_once(function()
    local l <close> = net.serve("127.0.0.1:0", function(a) a:write "x" a:close() end)
    local s <close> = net.connect("127.0.0.1:" .. l:port())
    rl.sleep(3600)
  end))
end)

t.describe("who owes nothing:", function()
  t.it("a signal", at_once(function()
    local h = process.on_signal("TERM", print)
    rl.sleep(3600)
    h:invalidate()
  end))
  t.it("a watch", at_once(function()
    local w = assert(fs.watch("/tmp/w", print))
    rl.sleep(3600)
    w:invalidate()
  end))
  t.it("cat", at_once(function()
    local p <close> = t.spawn { "cat" }
    rl.sleep(3600)
    p:write "hello\n"
    p:wait_for "hello"
    rl.sleep(3600)
    t.equal(rl.now() // 1, 7200)
  end))
  t.it("a pipeline", at_once(function()
    local p <close> = t.spawn { "sh", "-c", "cat | cat | (cat; echo end)" }
    rl.sleep(3600)
    p:write "hello\n"
    p:wait_for "hello"
    rl.sleep(3600)
    p:close_input()
    p:wait_for "end"
  end))
  t.it("popen", at_once(function()
    local p <close> = io.popen("cat >/dev/null", "w")
    rl.sleep(3600)
  end))
  t.it("a blocking rlhost", at_once(function()
    local p <close> = t.spawn { t.rlhost, "-e", "for l in io.lines() do print(l, rl.now()) io.flush() end", virtual_time = true }
    rl.sleep(3600)
    p:write "a\n"
    t.equal(p:wait_for "a\t(%S+)\n", "3600.0")
    rl.sleep(3600)
    p:write "b\n"
    t.equal(p:wait_for "b\t(%S+)\n", "7200.0")
  end))
  t.it("a fifo with both ends here", at_once(function()
    local path = os.tmpname()
    os.remove(path)
    os.execute("mkfifo " .. path)
    local f = assert(io.open(path, "r+"))
    local s = assert(net.open(f))
    local reader = rl.task(function() return s:read_line() end)
    rl.sleep(3600)
    f:write "hey\n" f:flush()
    t.equal(reader:await(), "hey")
    s:close() f:close()
    os.remove(path)
  end))
  t.it("a thread that reads a fifo", at_once(function()
    local path = os.tmpname()
    os.remove(path)
    os.execute("mkfifo " .. path)
    local f = assert(io.open(path, "r+"))
    local th = rl.thread(function(path) local f = io.open(path, "r") local l = f:read "l" f:close() return l end, path)
    rl.sleep(3600)
    f:write "hey\n" f:flush()
    t.equal(select(2, th:join()), "hey")
    f:close()
    os.remove(path)
  end))
end)
t.it("a works program is waited for", function()
  local p <close> = t.spawn { "sh", "-c", "sleep 0.3; echo x" }
  p:wait_for("x", { within = 3 })
end)
t.it("200 sleeps beside 200 connections", function()
  local socket = require "socket"
  local l <close> = net.serve("127.0.0.1:0", function(a) a:read() end)
  local s = {}
  for i = 1, 200 do s[i] = net.connect("127.0.0.1:" .. l:port()) end
  local r = {}
  for i = 1, 200 do r[i] = rl.task(function() s[i]:read() end) end
  rl.sleep(1)
  local began, c = socket.gettime(), 0
  for i = 1, 200 do rl.sleep(1) end
  print("200 took", socket.gettime() - began)
  for i = 1, 200 do s[i]:close() r[i]:cancel() end
  rl.sleep(1)
end)
