-- The rules of runloop.net, in virtual time where nothing needs the kernel.

local rl, net = require "runloop", require "runloop.net"
local t = require "runloop.test"

local function raises(pattern, fn, ...)
  local failed, message = pcall(fn, ...)
  t.falsy(failed, "no error")
  t.truthy(tostring(message):find(pattern, 1, true), "expected '" .. pattern .. "' in: " .. tostring(message))
end

-- Within five real seconds.
local function soon(check) t.eventually(function() return (pcall(check)) end) end

t.describe("units", function()
  t.it("are found however the bytes come", function()
    for _, chunk in ipairs { 1, 2, 3, 7, 1000 } do
      local a, b <close> = net.memory { latency = 0.001, chunk = chunk }
      a:write("one\r\ntwo\n\n", "12345", "head: x\r\n\r\nbody", "rest")
      a:close()
      t.equal(b:read_line(), "one")
      t.equal(b:read_line(), "two")
      t.equal(b:read_line(), "")
      t.equal(b:read_exactly(5), "12345")
      t.equal(b:read_until "\r\n\r\n", "head: x")
      t.equal(b:peek(4), "body")
      t.equal(b:read_exactly(4), "body")
      t.equal(b:read_all(), "rest")
      t.equal(b:read_all(), "")
      t.equal(select("#", b:read()), 1)
    end
  end)

  t.it("the last line may lack its end; other units may not", function()
    local a, b <close> = net.memory()
    a:write "abc"
    a:close()
    t.equal({ b:read_exactly(10) }, { nil, "EOF: end of input after 3 of 10 bytes", "EOF" })
    t.equal({ b:read_until "\n" }, { nil, "EOF: end of input after 3 bytes, before the end was found", "EOF" })
    t.equal(b:read_line(), "abc")
    t.equal({ b:read_line() }, { nil })
    t.equal({ b:read_exactly(1) }, { nil })
  end)

  t.it("lines and chunks end at the end, and raise what is refused", function()
    local a, b = net.memory()
    a:write("1\n2\n3\n", ("x"):rep(100), "\n")
    a:close()
    local lines = {}
    raises("EMSGSIZE: line longer than 50 bytes", function()
      for line in b:lines { max = 50 } do lines[#lines + 1] = line end
    end)
    t.equal(lines, { "1", "2", "3" })
    for line in b:lines() do lines[#lines + 1] = #line end
    t.equal(lines, { "1", "2", "3", 100 })
    b:close()
    local c, d <close> = net.memory()
    c:write "abc"
    c:close()
    local all = {}
    for chunk in d:chunks() do all[#all + 1] = chunk end
    t.equal(all, { "abc" })
  end)
end)

t.describe("a read that does not succeed takes nothing", function()
  t.it("when the time is over", function()
    local a, b <close> = net.memory()
    a:write "hal"
    local start = rl.now()
    t.equal({ b:read_line { timeout = 30 } }, { nil, "timed out" })
    t.equal(rl.now() - start, 30)
    a:write "f\nnext"
    t.equal(b:read_line(), "half")
    t.equal({ b:read_exactly(5, { timeout = 0 }) }, { nil, "timed out" })
    t.equal(b:read(), "next")
    b:set_timeout(2)
    t.equal({ b:read() }, { nil, "timed out" })
    a:close()
  end)

  t.it("when it is cancelled", function()
    local a, b <close> = net.memory { latency = 0.01 }
    local task = rl.task(function() return b:read_exactly(6) end)
    a:write "abc"
    rl.sleep(0.1)
    task:cancel()
    t.equal(task:status(), "cancelled")
    t.equal(b:buffered(), 3)
    a:write "def"
    t.equal(b:read_exactly(6), "abcdef")
    a:close()
  end)

  t.it("when it meets its limit", function()
    local a, b <close> = net.memory()
    a:write(("x"):rep(20), "\n")
    t.equal({ b:read_line { max = 10 } }, { nil, "EMSGSIZE: line longer than 10 bytes", "EMSGSIZE" })
    t.equal({ b:read_until("\n", { max = 19 }) }, { nil, "EMSGSIZE: the end is not within 19 bytes", "EMSGSIZE" })
    t.equal({ b:read_all { max = 5, timeout = 1 } },
      { nil, "EMSGSIZE: more than 5 bytes before the end of input", "EMSGSIZE" })
    t.equal(b:read_line { max = 20 }, ("x"):rep(20))
    a:close()
  end)

  t.it("when a second reader comes, which raises and says who is first", function()
    local a, b <close> = net.memory()
    local task = rl.task(function() return b:read_line() end)
    raises("one reader at a time: the task made at", function() b:read() end)
    raises("waits in stream:read_line at", function() b:read() end)
    a:write "x\n"
    t.equal(task:await(), "x")
    a:close()
  end)
end)

t.describe("writing", function()
  t.it("waits while the peer is slow, and keeps its order", function()
    local a, b <close> = net.memory { latency = 0.01, high_water = 1000 }
    local done = {}
    for i = 1, 5 do
      rl.task(function()
        for _ = 1, 10 do a:write(tostring(i):rep(60000), "\n") end
        done[#done + 1] = i
      end)
    end
    rl.sleep(1)
    t.equal(done, {})
    local lines = {}
    for _ = 1, 50 do
      local line = b:read_line()
      lines[line:sub(1, 1)] = (lines[line:sub(1, 1)] or 0) + 1
      t.equal(line, line:sub(1, 1):rep(60000))
    end
    t.equal(lines, { ["1"] = 10, ["2"] = 10, ["3"] = 10, ["4"] = 10, ["5"] = 10 })
    rl.sleep(0.1)
    t.equal(#done, 5)
    a:close()
  end)

  t.it("queue never waits, and aborts what is too much", function()
    local listener <close> = assert(net.listener { port = 0, host = "127.0.0.1", max_queue = 100000 })
    local client = assert(net.connect("127.0.0.1:" .. listener:port()))
    local server = assert(listener:accept(1))
    local refused, message, code
    for _ = 1, 1000 do
      local waiting
      waiting, message, code = server:queue(("x"):rep(50000))
      if not waiting then refused = true break end
    end
    t.truthy(refused)
    t.equal(code, "ENOBUFS")
    t.truthy(message:find("more than 100000 bytes wait for a peer that does not read", 1, true), message)
    t.equal(server:is_open(), false)
    client:abort()
  end)

  t.it("numbers are written as tostring makes them", function()
    local a, b <close> = net.memory()
    a:write(1, " ", 1.5, " ", 2.0, " ", math.mininteger, " ", 1e100, " ", 0 / 0 ~= 0 / 0 and "" or "", "\n")
    t.equal(b:read_line(), "1 1.5 2.0 " .. math.mininteger .. " 1e+100 ")
    t.equal(a:write(), true)
    raises("stream:write: argument #2 must be a string or a number, got nil", a.write, a, "x", nil)
    a:close()
  end)

  t.it("half-close: the input goes on after finish, and the output after the end of input", function()
    local a, b <close> = net.memory()
    a:write "question"
    a:finish()
    t.equal(b:read_all(), "question")
    t.equal({ a:write "more" }, { nil, "EPIPE: the output was finished (memory)", "EPIPE" })
    b:write "answer"
    b:close()
    t.equal(a:read_all(), "answer")
    a:close()
  end)
end)

t.describe("the end", function()
  t.it("close sends what was written, whatever was not read", function()
    local listener <close> = assert(net.listener { port = 0 })
    local client = assert(net.connect(listener:port()))
    local server = assert(listener:accept(1))
    client:write(("q"):rep(100000))
    server:read(1)
    server:write(("a"):rep(500000))
    server:close()
    t.equal(#client:read_all(), 500000)
    client:close()
  end)

  t.it("abort is a reset", function()
    local listener <close> = assert(net.listener { port = 0, host = "127.0.0.1" })
    local client = assert(net.connect("127.0.0.1:" .. listener:port()))
    local server = assert(listener:accept(1))
    server:abort()
    local bytes, message, code = client:read()
    t.equal({ bytes, code }, { nil, "ECONNRESET" })
    t.truthy(message:find("ECONNRESET: connection reset by peer (127.0.0.1:", 1, true), message)
    client:close()
    local a, b = net.memory { latency = 0.01 }
    a:write "lost"
    a:abort()
    t.equal({ b:read() }, { nil, "ECONNRESET: connection reset by peer (memory)", "ECONNRESET" })
    b:close()
  end)

  t.it("a read that waits ends when the stream is closed", function()
    local a, b = net.memory()
    local task = rl.task(function() return { b:read() } end)
    rl.sleep(0)
    b:close()
    t.equal(task:await(), { nil, "ECANCELED: the stream was closed (memory)", "ECANCELED" })
    t.equal({ b:read() }, { nil, "EBADF: the stream is closed (memory)", "EBADF" })
    t.equal({ b:write "x" }, { nil, "EPIPE: the output was finished (memory)", "EPIPE" })
    a:close()
  end)

  t.it("what nobody has any more is closed when it is collected", function()
    local a, b = net.memory()
    b = nil
    collectgarbage()
    collectgarbage()
    t.equal({ a:read { timeout = 1 } }, { nil })
    a:close()
  end)

  t.it("a silent client is dropped after 30 s", function()
    local client, server = net.memory { latency = 0.05 }
    local task = rl.task(function()
      local bytes, message = server:read { timeout = 30 }
      server:close()
      return message
    end)
    rl.sleep(29.9)
    t.truthy(server:is_open())
    rl.sleep(0.2)
    t.equal({ client:read() }, { nil })
    t.equal(task:await(), "timed out")
    client:close()
  end)
end)

t.describe("callbacks", function()
  t.it("one that waits holds back its own stream", function()
    local a, b = net.memory()
    local loop, log = rl.current(), {}
    local listener = assert(net.listener { port = 0,
      on_data = function(stream, bytes)
        log[#log + 1] = "begin " .. bytes
        rl.sleep(0.1)
        log[#log + 1] = "end " .. bytes
      end,
      on_end = function() log[#log + 1] = "over" end })
    loop:add(listener, "common")
    local client = assert(net.connect(listener:port()))
    client:write "1"
    rl.sleep(0.05)
    client:write "2"
    rl.sleep(0.05)
    client:close()
    soon(function() t.equal(log, { "begin 1", "end 1", "begin 2", "end 2", "over" }) end)
    soon(function() t.equal(listener:connections(), 0) end)
    listener:close()
    a:close()
    b:close()
  end)

  t.it("a handler that returns closes its stream, one that raises aborts it", function()
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

  t.it("a connection that is reset under lines() is nobody's mistake", function()
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

  t.it("stop aborts what is left when the time is over", function()
    local closed
    local server = assert(net.serve("127.0.0.1:0", function(stream)
      local guard <close> = setmetatable({}, { __close = function() closed = true end })
      rl.sleep(1000)
    end))
    local client = assert(net.connect(server:address()))
    soon(function() t.equal(server:connections(), 1) end)
    t.equal({ server:stop(0.2) }, { nil, "timed out" })
    soon(function() t.truthy(closed) end)
    t.equal(select(3, client:read()), "ECONNRESET")
    client:close()
  end)
end)

t.describe("modes", function()
  t.it("what arrives in another mode stays in the kernel", function()
    local loop, log = rl.current(), {}
    local listener = assert(net.listener { port = 0, on_connection = function(stream)
      for line in stream:lines() do log[#log + 1] = line end
    end })
    loop:add(listener)
    local client = assert(net.connect(listener:port()))
    client:write "first\n"
    soon(function() t.equal(log, { "first" }) end)
    rl.after(0.2, function() loop:stop() end)
    local timer = rl.timer { delay = 0.2, callback = function() loop:stop() end }
    loop:add(timer, "modal")
    rl.after(0, function()
      client:write "second\n"
      loop:run { mode = "modal" }
      t.equal(log, { "first" })
      log.checked = true
    end)
    soon(function() t.equal(log[2], "second") end)
    t.truthy(log.checked)
    client:close()
    listener:stop()
  end)
end)

t.describe("listeners", function()
  t.it("accept with a time limit", function()
    local listener <close> = assert(net.listener { port = 0 })
    t.equal({ listener:accept(0.05) }, { nil, "timed out" })
    local client = assert(net.connect(listener:port()))
    local server = assert(listener:accept(1))
    server:write "x"
    t.equal(client:read(), "x")
    client:close()
    server:close()
  end)

  t.it("replace a stale Unix socket, and not a live one", function()
    local path = os.tmpname()
    os.remove(path)
    local first = assert(net.listener { path = path })
    local second, message, code = net.listener { path = path }
    t.equal({ second, message, code }, { nil, "EADDRINUSE: address already in use (unix:" .. path .. ")", "EADDRINUSE" })
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

t.describe("names and connecting", function()
  t.it("all addresses and reasons are told", function()
    t.equal({ net.connect "localhost:9" }, { nil,
      "ECONNREFUSED: connection refused (127.0.0.1:9), connection refused ([::1]:9)", "ECONNREFUSED" })
    t.equal({ net.connect "unix:/nothing/there" },
      { nil, "ENOENT: no such file or directory (unix:/nothing/there)", "ENOENT" })
  end)

  t.it("numbers and localhost need nobody's answer", function()
    t.equal(net.resolve "127.0.0.1", { "127.0.0.1" })
    t.equal(net.resolve("localhost", { family = "ipv4" }), { "127.0.0.1" })
    t.equal(net.resolve("::1", { family = "ipv6" }), { "::1" })
  end)
end)

t.describe("memory", function()
  t.it("has latency and bandwidth, in virtual time", function()
    local a, b = net.memory { latency = 0.05, bandwidth = 1000 }
    local start = rl.now()
    a:write(("x"):rep(500))
    t.equal(#b:read_exactly(500), 500)
    t.truthy(math.abs(rl.now() - start - 0.55) < 1e-6, tostring(rl.now() - start))
    a:close()
    b:close()
  end)

  t.it("an hour of a server and its clients takes no time", function()
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

t.describe("misuse", function()
  t.it("is told by name", function()
    raises("net.serve: argument #1 must be a port from 0 to 65535, got 99999", net.serve, 99999, print)
    raises("net.serve: the last argument must be a function", net.serve, 0)
    raises("net.listener: unknown field 'prot'", net.listener, { port = 0, prot = 1 })
    raises("net.listener: field 'backlog' must be an integer, 1 or more, got \"x\"", net.listener, { port = 0, backlog = "x" })
    raises("net.listener: give either on_connection, or on_data", net.listener, { port = 0, on_connection = print, on_data = print })
    raises("net.connect: \"abc\" names no port", net.connect, "abc")
    raises("net.connect: \"::1:80\": an IPv6 address with a port is written \"[::1]:80\"", net.connect, "::1:80")
    raises("net.connect: unknown field 'time' (did you mean 'name'?)", net.connect, "localhost:1", { time = 1 })
    raises("net.stream: field 'port' is missing", net.stream, {})
    raises("net.memory: field 'latency' must be a number of seconds, 0 or more, got -1", net.memory, { latency = -1 })
    raises("net.open: argument #1 must be a descriptor", net.open, "x")
    raises("net.resolve: argument #1 must be a host's name", net.resolve, 1)
    raises("net.copy: argument #1 must be a stream", net.copy, 1, 2)
    local a, b = net.memory()
    raises("stream:read: argument #1 must be an integer, 1 or more, got 0", a.read, a, 0)
    raises("stream:read_exactly: argument #1 must be an integer, 0 or more, got nothing", a.read_exactly, a)
    raises("stream:read_until: argument #1 must be a string that is not empty, got \"\"", a.read_until, a, "")
    raises("stream:read_line: an options table is expected, got 5", a.read_line, a, 5)
    raises("stream:read_line: field 'timeout' must be a number of seconds, 0 or more, got \"x\"", a.read_line, a, { timeout = "x" })
    raises("stream:set_timeout: argument #1 must be a number of seconds, 0 or more, got -1", a.set_timeout, a, -1)
    raises("stream:read: a stream is expected as self", a.read, 1)
    a:close()
    b:close()
    local idle = net.stream { port = 1 }
    raises("stream:read: it has not begun to connect: add it to a loop first", idle.read, idle)
    t.equal({ net.open(9999) }, { nil, "EBADF: bad file descriptor (descriptor 9999)", "EBADF" })
  end)
end)

t.describe("datagrams", function()
  t.it("are sent and received, and never queued", function()
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

  t.it("go to a function, which holds back those that follow while it waits", function()
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

  t.it("join groups", function()
    local socket <close> = assert(net.datagram { host = "*", port = 0 })
    local joined, message = socket:join("239.1.2.3", "lo")
    t.truthy(joined or message:find "^E", message)
    t.equal(select(3, socket:join "not an address"), "EINVAL")
    t.equal(socket:broadcast(true), true)
  end)
end)
