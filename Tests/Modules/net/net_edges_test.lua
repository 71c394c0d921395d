-- Errors of runloop.net and related modules, and state that must survive them: misuse while a task waits, closed
-- objects, dead peers.

local rl, net, process = require "runloop", require "runloop.net", require "runloop.process"
local t = require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raises, problem_of = support.raises, support.problem_of

-- Returns two streams that are closed at the end of the test.
local function pair(make)
  local a, b = (make or net.pair)()
  t.finally(function() a:close() b:close() end)
  return a, b
end

t.describe("streams", function()
  t.it("stay usable when start_tls is called while a task reads", function()
    local a, b = pair()
    local reader = rl.task(function() return b:read() end)
    rl.sleep(0)
    raises("stream:start_tls: one reader at a time", b.start_tls, b, {})
    reader:cancel()
    rl.sleep(0)
    a:write "hello"
    t.equal(b:read_exactly(5), "hello")
  end)

  t.it("name the called function in errors", function()
    local a, b = pair()
    local reader = rl.task(function() return b:read() end)
    rl.sleep(0)
    raises("net.copy: one reader at a time", net.copy, b, a)
    raises("stream:lines: one reader at a time", function() for _ in b:lines() do end end)
    raises("stream:lines: one reader at a time", b:lines { max = 10 })
    raises("stream:chunks: one reader at a time", function() for _ in b:chunks() do end end)
    raises("stream:chunks: one reader at a time", b:chunks { timeout = 1 })
    reader:cancel()
    t.equal(problem_of(function() b:lines(5) end), "stream:lines: argument #1 must be an options table, got 5")
    t.truthy(problem_of(function() b:lines { foo = 1 } end):find "^stream:lines: unknown field 'foo'")
    t.equal(problem_of(function() b:chunks { max = 0 } end),
      "stream:chunks: field 'max' must be an integer, 1 or more, got 0")
  end)

  t.it("raise errors of their iterators with a position", function()
    local a, b = pair()
    b:set_timeout(0.02)
    for _, name in ipairs { "lines", "chunks" } do
      local _, message = pcall(function() for _ in b[name](b) do end end)
      t.truthy(message:find "net_edges_test.lua:%d+: timed out$", message)
    end
    a:close()
  end)

  t.it("return nil for an address that does not exist", function()
    local a, b = pair()
    t.equal({ a:address(), a:peer(), b:address() }, {})
  end)

  t.it("enforce the limit of read_exactly", function()
    local a, b = pair()
    a:write "abc"
    local value, _, code = b:read_exactly(3, { max = 2, timeout = 0.05 })
    t.equal({ value, code }, { nil, "EMSGSIZE" })
    t.equal(b:read_exactly(3, { max = 3 }), "abc")
  end)

  t.it("enforce the limit of read_until as soon as the text cannot arrive within it", function()
    local function code_of(bytes, text, max)
      local a, b = pair()
      a:write(bytes)
      local options = { max = max, timeout = 0.05 }
      return select(3, b:read_until(text, options)) or select(2, b:read_until(text, options))
    end
    for _, case in ipairs {
      { "abc", "END", 2, "EMSGSIZE" }, { "abc", "\n", 2, "EMSGSIZE" }, { "abE", "END", 1, "EMSGSIZE" },
      { "aENE", "END", 2, "EMSGSIZE" },
      { "abE", "END", 2, "timed out" }, { "abEN", "END", 2, "timed out" }, { "ab", "END", 2, "timed out" },
    } do
      t.equal(code_of(case[1], case[2], case[3]), case[4], case[1])
    end
    local a, b = pair()
    a:write "abEN"
    rl.after(0.01, function() a:write "D" end)
    t.equal(b:read_until("END", { max = 2 }), "ab")
  end)

  t.it("in memory have no options of TCP, and return an error", function()
    local a = pair(net.memory)
    for _, name in ipairs { "set_nodelay", "set_keepalive" } do
      local _, _, code = a[name](a, true)
      t.equal(code, "EOPNOTSUPP", name)
    end
  end)

  t.it("that could not connect show their address", function()
    local refused
    local stream = net.stream { host = "127.0.0.1", port = 9, on_error = function() refused = true end }
    rl.current():add(stream)
    t.eventually(function() return refused end)
    t.truthy(tostring(stream):find "127.0.0.1:9", tostring(stream))
  end)

  t.it("own the file that was opened with owns = true", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write "first "
    local stream = assert(net.open(file, { owns = true }))
    t.equal(io.type(file), "closed file")
    stream:write "second"
    stream:flush()
    stream:close()
    local back <close> = assert(io.open(path))
    t.equal(back:read "a", "first second")
    os.remove(path)
  end)

  t.it("lose no data if the peer has left before a copy begins", function()
    local a, b = pair()
    local c, d = pair()
    a:write "abc"
    d:abort()
    rl.sleep(0.01)
    local count, _, code = net.copy(b, c)
    t.equal({ count, code }, { nil, "EPIPE" })
    t.equal(b:read { timeout = 1 }, "abc")
  end)
end)

t.describe("listeners and sockets", function()
  t.it("keep their address when they are closed", function()
    local listener = assert(net.listener { port = 0, host = "127.0.0.1" })
    local port = listener:port()
    listener:close()
    t.equal({ listener:port(), listener:address() }, { port, "127.0.0.1:" .. port })
    local _, message = listener:accept()
    t.equal(message, "EBADF: the listener is closed (127.0.0.1:" .. port .. ")")
  end)

  t.it("do not call their function when another process checks whether they are alive", function()
    local path, calls = os.tmpname(), 0
    os.remove(path)
    local listener <close> = assert(net.serve("unix:" .. path, function() calls = calls + 1 end))
    local _, _, code = net.serve("unix:" .. path, print)
    t.equal(code, "EADDRINUSE")
    local client <close> = assert(net.connect("unix:" .. path))
    t.equal(client:read(), nil)
    t.equal(calls, 1)
  end)

  t.it("end a wait for a datagram when the socket is closed", function()
    local socket = net.datagram { host = "127.0.0.1", port = 0 }
    local address = socket:address()
    local task = rl.task(function() return socket:receive() end)
    rl.sleep(0)
    socket:close()
    t.equal({ task:await() }, { nil, "ECANCELED: the socket was closed (" .. address .. ")", "ECANCELED" })
  end)

  t.it("name the peer that has refused a datagram", function()
    local socket <close> = net.datagram { peer = "127.0.0.1:9" }
    socket:send "x"
    local _, message = socket:receive(1)
    t.equal(message, "ECONNREFUSED: connection refused (127.0.0.1:9)")
  end)
end)

t.describe("outside the network", function()
  t.it("a group reports later errors of its tasks", function()
    local group = rl.group()
    group:task(function()
      rl.sleep(0.01)
      error("first", 0)
    end)
    group:task(function()
      pcall(rl.sleep, 1)
      error("second", 0)
    end)
    t.equal({ pcall(group.wait, group) }, { false, "first" })
    rl.sleep(0.05)
  end)

  t.it("signals of faults cannot be handled", function()
    for _, name in ipairs { "SEGV", "BUS", "ILL", "FPE" } do
      raises("process.on_signal: " .. name .. " reports a fault", process.on_signal, name, print)
    end
  end)

  t.it("process.set_directory rejects a name with a NUL", function()
    raises("process.set_directory: argument #1 contains a NUL", process.set_directory, "/tmp\0b")
  end)

  t.it("json.null crosses to other threads", function()
    local json = require "runloop.json"
    local thread = rl.thread(function(value) return require "runloop.json".encode(value) end, { 1, json.null })
    t.equal({ thread:join() }, { true, "[1,null]" })
  end)

  t.it("loop:inspect lists signals as signals", function()
    local handler <close> = process.on_signal("HUP", print)
    local kinds = {}
    for _, entry in ipairs(rl.current():inspect().modes.default) do kinds[entry.kind] = entry.name end
    t.equal(kinds.signal, "HUP")
  end)
end)

t.describe("as in other libraries,", function()
  t.it("a connection continues when a stream that has borrowed it is closed", function()
    local a, b = pair()
    local borrowed = assert(net.open(a:fd()))
    borrowed:write "from there "
    borrowed:close()
    rl.sleep(0.02)
    b:write "for a"
    t.equal(a:read { timeout = 1 }, "for a")
    a:write "from here"
    t.equal(b:read_exactly(20, { timeout = 1 }), "from there from here")
  end)

  t.it("a read returns an error, not the end, after a write has met a reset", function()
    local server <close> = assert(net.serve({ host = "127.0.0.1", port = 0 }, function(stream)
      rl.sleep(0.05)
      stream:abort()
    end))
    local client <close> = assert(net.connect(server:address()))
    local done, code
    repeat done, _, code = client:write(("x"):rep(100000)) until not done
    t.equal(code, "ECONNRESET")
    t.equal(select(3, client:read()), "ECONNRESET")
    t.equal({ client:read_all() }, { nil, "ECONNRESET: connection reset by peer (" .. server:address() .. ")",
      "ECONNRESET" })
  end)

  t.it("lines returns a function that can be called line by line", function()
    local a, b = pair()
    a:write "1\n[2]\n"
    a:finish()
    local following = b:lines()
    t.equal(following(), "1")
    local json = require "runloop.json"
    local values = {}
    for value in json.lines(b) do values[#values + 1] = value end
    t.equal(values, { { 2 } })
  end)

  t.it("a signal's function that waits is not called again meanwhile", { real_time = true }, function()
    local journal = {}
    local handler <close> = process.on_signal("USR1", function(_, count)
      journal[#journal + 1] = "begin " .. count
      rl.sleep(0.1)
      journal[#journal + 1] = "end"
    end)
    for _ = 1, 3 do
      process.run { "kill", "-USR1", tostring(process.id()) }
      rl.sleep(0.02)
    end
    t.eventually(function() return #journal == 4 end)
    t.equal(journal, { "begin 1", "end", "begin 2", "end" })
  end)
end)

t.describe("many tasks that wait for the output of one stream", function()
  for _, way in ipairs { "write", "flush" } do
    t.it("are cancelled in the same time each, in " .. way, { real_time = true, timeout = 120 }, function()
      local function cost(count)
        local a, b = net.pair()
        a:queue(("x"):rep(4000000))
        local tasks = {}
        for i = 1, count do
          tasks[i] = rl.task(function() if way == "write" then a:write "y" else a:flush() end end)
        end
        collectgarbage()
        local start = os.clock()
        for _, task in ipairs(tasks) do task:cancel() end
        local seconds = os.clock() - start
        a:abort()
        b:abort()
        return seconds
      end
      -- If the cost of a task grew with the number of tasks, eight times as many tasks would take 64 times as long.
      support.scales(cost, 4000, 32000, 24)
    end)
  end

  t.it("are woken in their order, also behind tasks that wait for a higher mark", function()
    local a, b = net.pair()
    local order = {}
    a:queue(("x"):rep(4000000))
    local tasks = {}
    local function wait(name, fn) tasks[name] = rl.task(function() fn() order[#order + 1] = name end) end
    for i = 1, 50 do wait("flush " .. i, function() a:flush() end) end
    for i = 1, 50 do wait("write " .. i, function() a:write "y" end) end
    for i = 1, 50 do if i % 5 ~= 0 then tasks["write " .. i]:cancel() tasks["flush " .. i]:cancel() end end
    b:read_exactly(4000050)
    for i = 5, 50, 5 do
      tasks["write " .. i]:await()
      tasks["flush " .. i]:await()
    end
    t.equal({ #order, order[1] }, { 20, "write 5" })
    local last = { write = 0, flush = 0 }
    for _, name in ipairs(order) do
      local way, number = name:match "(%a+) (%d+)"
      t.equal(tonumber(number), last[way] + 5)
      last[way] = tonumber(number)
    end
    a:close()
    b:close()
  end)
end)

t.it("opened descriptors are named by their own number, not by that of a duplicate", function()
  local process = require "runloop.process"
  local result = assert(process.run { "/bin/sh", "-c", [[exec "$0" -e "$1" | true]], t.rlhost, [[
    local rl, net = require "runloop", require "runloop.net"
    local output = net.output()
    local function problem()
      while true do
        for _, call in ipairs { output.write, output.flush } do
          local is_good, problem = call(output, call == output.write and "x" or nil)
          if not is_good then return problem end
        end
        rl.sleep(0.01)
      end
    end
    io.stderr:write(problem(), "\n", tostring(output):match "^[^,]*", "\n", tostring(net.open(2)):match "^[^,]*")
  ]], timeout = 10 })
  t.equal(result.errors, 'EPIPE: broken pipe (output)\nstream "output" (output\nstream (descriptor 2')
  -- The text of a socket shows its peer.
  local listener <close> = assert(net.serve("127.0.0.1:0", function() end))
  local client <close> = assert(net.connect(listener:address()))
  local other <close> = assert(net.open(client:fd(), { name = "other" }))
  t.truthy(tostring(other):find('stream "other" (' .. listener:address(), 1, true), tostring(other))
end)

t.it("a Unix socket's name that is too long returns an error", function()
  local http = require "runloop.http"
  local longest, path = ("/tmp/"):rep(2) .. ("x"):rep(97), "/tmp/" .. ("x"):rep(103)
  local datagram <close> = assert(net.datagram { host = "127.0.0.1", port = 0 })
  local function told() end
  for _, prefix in ipairs { "", "@" } do
    local name = prefix == "" and path or "@" .. path
    local expected = { nil,
      ("ENAMETOOLONG: file name too long: the path of a socket has at most 107 bytes, this one 108 (unix:%s)")
        :format(name),
      "ENAMETOOLONG" }
    t.equal({ net.serve("unix:" .. name, told) }, expected)
    t.equal({ http.serve("unix:" .. name, told) }, expected)
    t.equal({ net.listener { path = name } }, expected)
    t.equal({ net.connect("unix:" .. name) }, expected)
    t.equal({ net.datagram { path = name } }, expected)
    t.equal({ net.datagram { peer = "unix:" .. name } }, expected)
    t.equal({ datagram:send("x", "unix:" .. name) }, expected)
    t.equal({ http.websocket("ws://host/", { unix = name }) }, expected)
    t.equal({ http.get("http://host/", { unix = name }) },
      { nil, ("ENAMETOOLONG: file name too long: the path of a socket has at most 107 bytes (unix:%s, http://host/)")
        :format(name), "ENAMETOOLONG" })
    local failed
    local stream = net.stream { path = name, on_error = function(_, ...) failed = { nil, ... } end }
    rl.current():add(stream)
    rl.sleep(0.01)
    t.equal(failed, expected)
    t.equal(select(3, net.connect("unix:" .. prefix .. longest)), prefix == "" and "ENOENT" or "ECONNREFUSED")
  end
end)

t.it("a lack of descriptors is not reported as an unknown name, or as the lack of a terminal", { real_time = true },
  function()
    local host <close> = t.spawn { "/bin/sh", "-c", [[ulimit -n 64; exec "$0" -e "$1"]], t.rlhost, terminal = true, [[
    local net, terminal = require "runloop.net", require "runloop.terminal"
    -- The first use loads libraries.
    assert(terminal.open()):close()
    local files = {}
    repeat
      local file = io.open "/dev/null"
      files[#files + 1] = file
    until not file
    print(net.resolve "nowhere.invalid")
    print(net.connect "nowhere.invalid:9")
    print(terminal.open())
    print "end"
  ]] }
    host:wait_for "nil\tEMFILE: too many open files %(nowhere.invalid%)\tEMFILE"
    host:wait_for "nil\tEMFILE: too many open files %(nowhere.invalid%)\tEMFILE"
    host:wait_for "nil\tEMFILE: too many open files %(/dev/tty%)\tEMFILE"
    host:wait_for "end"
    t.equal(host:wait(), 0)
end)
