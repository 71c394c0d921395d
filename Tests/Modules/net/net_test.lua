-- The rules of runloop.net; in virtual time where the kernel is not needed.

local rl, net = require "runloop", require "runloop.net"
local t = require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raises, soon = support.raises, support.soon

t.describe("units", function()
  t.it("are found in whatever pieces the bytes arrive", function()
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

  t.it("end with the stream, however many earlier reads did not wait", function()
    for count = 1, 40 do
      local a, b <close> = net.pair()
      b:write(("x"):rep(100))
      for _ = 1, count do t.equal(a:read(1), "x") end
      a:close()
      while a:buffered() > 0 do a:read() end
      t.equal(select(3, a:read(1, { timeout = 5 })), "EBADF")
    end
  end)

  t.it("may lack their end mark only in the last line", function()
    local a, b <close> = net.memory()
    a:write "abc"
    a:close()
    t.equal({ b:read_exactly(10) }, { nil, "end of input after 3 of 10 bytes", "EOF" })
    t.equal({ b:read_until "\n" }, { nil, "end of input after 3 bytes, before the end was found", "EOF" })
    t.equal(b:read_line(), "abc")
    t.equal({ b:read_line() }, { nil })
    t.equal({ b:read_exactly(1) }, { nil })
  end)

  t.it("end the loops of lines and chunks at the end of input, and other errors are raised", function()
    local a, b = net.memory()
    a:write("1\n2\n3\n", ("x"):rep(100), "\n")
    a:close()
    local lines = {}
    raises("line longer than 50 bytes", function()
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

t.describe("a read that does not succeed consumes nothing", function()
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
    t.equal({ b:read_line { max = 10 } }, { nil, "line longer than 10 bytes", "EMSGSIZE" })
    t.equal({ b:read_until("\n", { max = 19 }) }, { nil, "the end is not within 19 bytes", "EMSGSIZE" })
    t.equal({ b:read_all { max = 5, timeout = 1 } },
      { nil, "more than 5 bytes before the end of input", "EMSGSIZE" })
    t.equal(b:read_line { max = 20 }, ("x"):rep(20))
    a:close()
  end)

  t.it("when a second reader comes, which gets an error that names the first", function()
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

  t.it("queue never waits, and aborts a stream that has too many bytes", function()
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

  t.it("write sends numbers as tostring makes them", function()
    local a, b <close> = net.memory()
    a:write(1, " ", 1.5, " ", 2.0, " ", math.mininteger, " ", 1e100, " ", 0 / 0 ~= 0 / 0 and "" or "", "\n")
    t.equal(b:read_line(), "1 1.5 2.0 " .. math.mininteger .. " 1e+100 ")
    t.equal(a:write(), true)
    raises("stream:write: argument #2 must be a string or a number, got nothing", a.write, a, "x", nil)
    a:close()
  end)

  t.it("the input continues after finish, and the output after the end of input", function()
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

t.describe("at the end of a stream,", function()
  t.it("close sends all written bytes, even if input is unread", function()
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

  t.it("abort resets the connection", function()
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

  t.it("a write ends when its stream is aborted, and aborts it when it is cancelled", function()
    for _, cancels in ipairs { false, true } do
      local a, b = net.memory()
      local task = rl.task(function() return { a:write(("x"):rep(1 << 20)) } end)
      rl.sleep(0)
      a:abort()
      if cancels then
        task:cancel()
        -- A task that takes the place of the cancelled one sleeps for its full time.
        local began = rl.now()
        rl.task(function() rl.sleep(1) end):await()
        t.equal(rl.now() - began, 1)
        t.equal(select("#", pcall(task.await, task)), 2)
      else
        t.equal(task:await(), { nil, "ECANCELED: the stream was aborted (memory)", "ECANCELED" })
      end
      b:close()
    end
    local unreachable = net.stream { host = "127.0.0.1", port = 9 }
    rl.current():add(unreachable)
    unreachable:write "x"
    t.equal({ unreachable:flush() }, { nil, "ECONNREFUSED: connection refused (127.0.0.1:9)", "ECONNREFUSED" })
  end)

  t.it("a read ends when its stream is closed", function()
    local a, b = net.memory()
    local task = rl.task(function() return { b:read() } end)
    rl.sleep(0)
    b:close()
    t.equal(task:await(), { nil, "ECANCELED: the stream was closed (memory)", "ECANCELED" })
    t.equal({ b:read() }, { nil, "EBADF: the stream is closed (memory)", "EBADF" })
    t.equal({ b:write "x" }, { nil, "EPIPE: the output was finished (memory)", "EPIPE" })
    a:close()
  end)

  t.it("a stream without references is closed when it is collected", function()
    local a, b = net.memory()
    b = nil
    collectgarbage()
    collectgarbage()
    t.equal({ a:read { timeout = 1 } }, { nil })
    a:close()
  end)

  t.it("a silent client is dropped at its time limit", function()
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
  t.it("a callback that waits delays only its own stream", function()
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

  t.it("stop aborts the connections that remain at its time limit", function()
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
  t.it("data that arrives in another mode stays in the kernel", function()
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
