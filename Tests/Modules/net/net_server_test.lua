-- The rules of runloop.net's servers, names, pairs in memory and datagrams; in virtual time where the kernel is not
-- needed.

local rl, net = require "runloop", require "runloop.net"
local t = require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raises, soon = support.raises, support.soon

t.describe("listeners", function()
  t.it("close a stream when its handler returns, and abort it when that raises", function()
    local errors = {}
    rl.on_error(function(err) errors[#errors + 1] = tostring(err) end)
    local server = assert(net.serve("127.0.0.1:0", function(stream)
      if stream:read_line() == "fail" then error "failed" end
      stream:write "bye\n"
    end))
    local client = assert(net.connect(server:address()))
    client:write "leave\n"
    t.equal(client:read_all(), "bye\n")
    client:close()
    client = assert(net.connect(server:address()))
    client:write "fail\n"
    local _, _, code = client:read()
    t.equal(code, "ECONNRESET")
    client:close()
    t.equal(#errors, 1)
    t.truthy(errors[1]:find "failed", errors[1])
    t.equal(server:stop(1), true)
    rl.on_error(nil)
  end)

  t.it("a connection that is reset during lines() is not reported as an error", function()
    local errors = 0
    rl.on_error(function() errors = errors + 1 end)
    local server = assert(net.serve("127.0.0.1:0", function(stream)
      for _ in stream:lines() do end
    end))
    for _ = 1, 20 do
      local client = assert(net.connect(server:address()))
      client:write "half a line"
      client:flush()
      client:abort()
    end
    soon(function() t.equal(server:connections(), 0) end)
    t.equal(server:stop(1), true)
    t.equal(errors, 0)
    rl.on_error(nil)
  end)

  t.it("continue when a connection fails, and report an error of its function",
    function()
      local errors = {}
      rl.on_error(function(err) errors[#errors + 1] = err end)
      local handlers = {
        lines = function(stream) for _ in stream:lines() do end end,
        short = function(stream) for _ in stream:lines { max = 3 } do end end,
        chunks = function(stream) for _ in stream:chunks { timeout = 0.02 } do end end,
        asserted = function(stream) assert(stream:read_line { timeout = 0 }) end,
        group = function(stream)
          local group <close> = rl.group()
          group:task(function() for _ in stream:lines() do end end)
          group:wait()
        end,
      -- A task that the handler does not await starts another task, which reads.
        beside = function(stream)
          rl.task(function() rl.task(function() for _ in stream:lines() do end end) end)
          rl.sleep(0.5)
        end,
        own = function(stream)
          local _, problem = stream:read_line()
          error("a greeting: " .. problem)
        end,
        other = function(stream)
          local here = net.pair()
          assert(here:read { timeout = 0.02 })
          stream:write "?"
        end,
      }
      local server = assert(net.serve("127.0.0.1:0", function(stream)
        local handler = handlers[stream:read_line()]
        stream:set_timeout(0.02)
        handler(stream)
      end))
      for _, name in ipairs { "lines", "short", "chunks", "asserted", "group", "beside", "own", "other" } do
        local client <close> = assert(net.connect(server:address()))
        client:write(name, "\n", name == "short" and "long" or "")
        t.equal(select(3, client:read { timeout = 5 }), "ECONNRESET", name)
      end
      t.equal(server:stop(1), true)
      t.equal(#errors, 2)
      t.truthy(errors[1]:find "a greeting: timed out$", errors[1])
      t.truthy(errors[2]:find "timed out$", errors[2])
      rl.on_error(nil)
  end)

  t.it("return nil from accept at its time limit", function()
    local listener <close> = assert(net.listener { port = 0 })
    t.equal({ listener:accept(0.05) }, { nil, "timed out" })
    local client = assert(net.connect(listener:port()))
    local server = assert(listener:accept(1))
    server:write "x"
    t.equal(client:read(), "x")
    client:close()
    server:close()
  end)

  t.it("replace a stale Unix socket, but not a live one", function()
    local path = os.tmpname()
    os.remove(path)
    local first = assert(net.listener { path = path })
    local second, message, code = net.listener { path = path }
    t.equal({ second, message, code }, { nil, "EADDRINUSE: address already in use (unix:" .. path .. ")",
      "EADDRINUSE" })
    first:close()
    t.equal(io.open(path), nil)
    local third = assert(net.listener { path = path })
    local client = assert(net.connect("unix:" .. path))
    local server = assert(third:accept(1))
    t.equal(server:credentials().pid, client:credentials().pid)
    t.truthy(client:credentials().uid >= 0)
    client:close()
    server:close()
    third:close()
  end)

  t.it("accept no more than max_connections", function()
    local open, most = 0, 0
    local server = assert(net.serve("127.0.0.1:0", { max_connections = 2 }, function(stream)
      open = open + 1
      most = math.max(most, open)
      stream:read()
      open = open - 1
    end))
    local clients = {}
    for i = 1, 6 do clients[i] = assert(net.connect(server:address())) end
    rl.sleep(0.1)
    t.equal({ open, most }, { 2, 2 })
    for i = 1, 6 do
      clients[i]:close()
      rl.sleep(0.02)
    end
    soon(function() t.equal({ open, most, server:connections() }, { 0, 2, 0 }) end)
    server:close()
  end)
end)

t.describe("host names and connecting", function()
  t.it("the error names all addresses and reasons", function()
    t.equal({ net.connect "localhost:9" }, { nil,
      "ECONNREFUSED: connection refused (127.0.0.1:9), connection refused ([::1]:9)", "ECONNREFUSED" })
    t.equal({ net.connect "unix:/nothing/there" },
      { nil, "ENOENT: no such file or directory (unix:/nothing/there)", "ENOENT" })
  end)

  t.it("numeric addresses and localhost need no name server", function()
    t.equal(net.resolve "127.0.0.1", { "127.0.0.1" })
    t.equal(net.resolve("localhost", { family = "ipv4" }), { "127.0.0.1" })
    t.equal(net.resolve("::1", { family = "ipv6" }), { "::1" })
  end)
end)

t.describe("a stream in memory", function()
  t.it("has latency and bandwidth, in virtual time", function()
    local a, b = net.memory { latency = 0.05, bandwidth = 1000 }
    local start = rl.now()
    a:write(("x"):rep(500))
    t.equal(#b:read_exactly(500), 500)
    t.truthy(math.abs(rl.now() - start - 0.55) < 1e-6, tostring(rl.now() - start))
    a:close()
    b:close()
  end)

  t.it("delivers written bytes also while a task only yields its turns", function()
    local a, b <close> = net.memory()
    local got
    rl.task(function() got = b:read() end)
    a:write "x"
    for _ = 1, 200 do rl.sleep(0) end
    t.equal(got, "x")
    a:close()
  end)

  t.it("simulates an hour of a server and its clients in no time", function()
    local start, answers = rl.now(), 0
    for i = 1, 10 do
      local client, server = net.memory { latency = 0.05 }
      rl.task(function()
        for line in server:lines() do server:write("re: ", line, "\n") end
        server:close()
      end)
      rl.task(function()
        while rl.now() - start < 3600 do
          client:write("message\n")
          t.equal(client:read_line(), "re: message")
          answers = answers + 1
          rl.sleep(60)
        end
        client:close()
      end)
    end
    rl.sleep(3700)
    t.truthy(answers >= 590, answers)
  end)
end)

t.describe("unix datagrams", { real_time = true }, function()
  t.it("are as long as the kernel allows, and abstract names may have any bytes", function()
    local directory = os.tmpname()
    os.remove(directory)
    local a, b = assert(net.datagram { path = directory .. "a" }), assert(net.datagram { path = directory .. "b" })
    for _, length in ipairs { 150000, 10, 65536, 70000 } do
      assert(a:send(("x"):rep(length), "unix:" .. directory .. "b"))
      t.equal(#b:receive(10), length)
    end
    a:close()
    b:close()
    local name = "unix:@" .. directory .. "\0more"
    local server <close> = assert(net.serve(name, function(stream) stream:write "hello" end))
    t.equal(server:address(), name)
    local client <close> = assert(net.connect(server:address()))
    t.equal(client:read(5), "hello")
  end)
end)

t.describe("misuse", function()
  t.it("raises errors that name the function", function()
    raises("net.serve: argument #1 must be a port from 0 to 65535, got 99999", net.serve, 99999, print)
    raises("net.serve: the last argument must be a function", net.serve, 0)
    raises("net.listener: unknown field 'prot'", net.listener, { port = 0, prot = 1 })
    raises("net.listener: field 'backlog' must be an integer, 1 or more, got \"x\"", net.listener,
      { port = 0, backlog = "x" })
    raises("net.listener: give either on_connection, or on_data", net.listener,
      { port = 0, on_connection = print, on_data = print })
    raises("net.connect: \"abc\" names no port", net.connect, "abc")
    raises("net.connect: \"::1:80\": an IPv6 address with a port is written \"[::1]:80\"", net.connect, "::1:80")
    raises("net.connect: \"::1\" names no port", net.connect, "::1")
    raises("net.connect: \"localhost:80:90\" names no port", net.connect, "localhost:80:90")
    raises("net.connect: unknown field 'time' (did you mean 'timeout'?)", net.connect, "localhost:1", { time = 1 })
    raises("net.stream: field 'port' or 'path' is missing", net.stream, {})
    raises("net.memory: field 'latency' must be a number of seconds, 0 or more, got -1", net.memory, { latency = -1 })
    raises("net.open: argument #1 must be a descriptor", net.open, "x")
    raises("net.resolve: argument #1 must be a host's name", net.resolve, 1)
    raises("net.copy: argument #1 must be a stream", net.copy, 1, 2)
    local a, b = net.memory()
    raises("stream:read: argument #1 must be an integer, 1 or more, got 0", a.read, a, 0)
    raises("stream:read_exactly: argument #1 must be an integer, 0 or more, got nothing", a.read_exactly, a)
    raises("stream:read_until: argument #1 must be a string that is not empty, got \"\"", a.read_until, a, "")
    raises("stream:read_line: an options table is expected, got 5", a.read_line, a, 5)
    raises("stream:read_line: field 'timeout' must be a number of seconds, 0 or more, got \"x\"", a.read_line, a,
      { timeout = "x" })
    raises("stream:set_timeout: argument #1 must be a number of seconds, 0 or more, got -1", a.set_timeout, a, -1)
    raises("stream:read: a stream is expected as self", a.read, 1)
    a:close()
    b:close()
    local idle = net.stream { port = 1 }
    raises("stream:read: it has not begun to connect: add it to a loop first", idle.read, idle)
    raises("net.open: field 'on_data' must be a function", net.open, 0, { on_data = 1 })
    t.equal({ net.open(9999) }, { nil, "EBADF: bad file descriptor (descriptor 9999)", "EBADF" })
  end)
end)

t.describe("a datagram socket", function()
  t.it("sends and receives datagrams, and queues none", function()
    local a <close> = assert(net.datagram { host = "127.0.0.1", port = 0 })
    local b <close> = assert(net.datagram { host = "127.0.0.1", port = 0 })
    t.equal({ a:receive(0.01) }, { nil, "timed out" })
    t.equal(b:send("hello", a:address()), true)
    local data, from = a:receive(1)
    t.equal({ data, from }, { "hello", b:address() })
    t.equal(a:send("", from), true)
    t.equal((b:receive(1)), "")
    local task = rl.task(function() return a:receive() end)
    rl.sleep(0)
    b:send("\0\255", a:address())
    t.equal((task:await()), "\0\255")
    t.equal(select(3, a:send(("x"):rep(70000), b:address())), "EMSGSIZE")
    local c <close> = assert(net.datagram { peer = a:address() })
    c:send "to the peer"
    t.equal((a:receive(1)), "to the peer")
    t.equal(select(3, a:send("x")), "EDESTADDRREQ")
  end)

  t.it("on all interfaces answers in both families", function()
    local four <close> = assert(net.datagram { host = "127.0.0.1", port = 0 })
    local hosts = { "*" }
    -- A machine may lack one of the address families.
    local six = net.datagram { host = "::1", port = 0 }
    if six then hosts[2] = "::" end
    for _, host in ipairs(hosts) do
      local server <close> = assert(net.datagram { host = host, port = 0 })
      local port = server:address():match "%d+$"
      t.equal(four:send("asked", "127.0.0.1:" .. port), true)
      local data, from = server:receive(1)
      t.equal({ data, from }, { "asked", four:address() })
      t.equal({ server:send("answered", from) }, { true })
      t.equal({ four:receive(1) }, { "answered", "127.0.0.1:" .. port })
      -- A port without a host belongs to this machine.
      t.equal(server:send("by its port", tonumber(four:address():match "%d+$")), true)
      t.equal((four:receive(1)), "by its port")
      if six then
        t.equal(six:send("asked", "[::1]:" .. port), true)
        t.equal({ server:receive(1) }, { "asked", six:address() })
        t.equal(server:send("answered", six:address()), true)
        t.equal((six:receive(1)), "answered")
      end
      local fixed <close> = assert(net.datagram { host = host, port = 0, peer = four:address() })
      t.equal(fixed:send "to the peer", true)
      t.equal((four:receive(1)), "to the peer")
    end
    if not six then return end
    local function refusal(place)
      return { nil, "EAFNOSUPPORT: an address of a family other than the socket's (" .. place .. ")", "EAFNOSUPPORT" }
    end
    t.equal({ six:send("x", four:address()) }, refusal(four:address()))
    t.equal({ four:send("x", six:address()) }, refusal(six:address()))
    t.equal({ net.datagram { host = "127.0.0.1", port = 0, peer = six:address() } }, refusal(six:address()))
    -- If the name has addresses of both families, the peer's family is used.
    local near <close> = assert(net.datagram { port = 0, peer = six:address() })
    t.equal(near:send "as the peer", true)
    t.equal({ six:receive(1) }, { "as the peer", near:address() })
    six:close()
  end)

  t.it("calls a function for one datagram at a time, also if it waits", function()
    local got, loop = {}, rl.current()
    local socket = assert(net.datagram { host = "127.0.0.1", port = 0, on_message = function(_, data, from)
      got[#got + 1] = "begin " .. data
      rl.sleep(0.01)
      got[#got + 1] = "end " .. data
    end })
    loop:add(socket, "common")
    local other <close> = assert(net.datagram { peer = socket:address() })
    other:send "1"
    other:send "2"
    soon(function() t.equal(got, { "begin 1", "end 1", "begin 2", "end 2" }) end)
    socket:close()
  end)

  t.it("joins a multicast group, and may broadcast", function()
    local socket <close> = assert(net.datagram { host = "*", port = 0 })
    local joined, message = socket:join("239.1.2.3", "lo")
    t.truthy(joined or message:find "^E", message)
    t.equal(select(3, socket:join "not an address"), "EINVAL")
    t.equal(socket:broadcast(true), true)
  end)
end)
