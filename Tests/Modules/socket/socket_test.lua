-- runloop.socket: equal to lua-socket, call by call; and libraries that were written for it.

local rl, net, process = require "runloop", require "runloop.net", require "runloop.process"
local t = require "runloop.test"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local support = dofile(here .. "../../Support/support.lua")
local socket = require "runloop.socket"
local problem_of = support.problem_of
local REAL = { real_time = true }

-- Debian installs libraries that are declared for Lua 5.1 in a separate folder.
local OLD = ";/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/?/init.lua"

-- Runs `fn` with our module under the names of LuaSocket.
local function installed(fn)
  return function()
    package.path = package.path .. OLD
    socket.install()
    if not package.searchpath("ltn12", package.path) then return t.skip "lua-socket is not installed" end
    fn()
  end
end

local function library(name)
  local is_there, found = pcall(require, name)
  if not is_there then t.skip(name .. " is not installed") end
  return found
end

t.it("runloop.socket returns the same results as lua-socket", REAL, function()
  local program = here .. "calls.lua"
  local theirs = process.run { "lua5.4", program }
  if not theirs or theirs.code ~= 0 then return t.skip "lua5.4 or lua-socket is not installed" end
  local rlhost = require "runloop.fs".real_path "/proc/self/exe"
  local ours = process.run { rlhost, "-e", 'require"runloop.socket".install()', program }
  local line, count = ours.output:gmatch "[^\n]+", 0
  for expected in theirs.output:gmatch "[^\n]+" do
    t.equal(line(), expected)
    count = count + 1
  end
  t.truthy(count > 300)
end)

-- A master and a connection to it.
local function pair()
  local master = assert(socket.bind("127.0.0.1", 0))
  local host, port = master:getsockname()
  local client = assert(socket.connect(host, port))
  local server = assert(master:accept())
  master:close()
  return client, server
end

t.it("calls wait in their tasks, side by side", REAL, function()
  local a, b = pair()
  local order = {}
  local reader = rl.task(function()
    local line = b:receive()
    order[#order + 1] = line
  end)
  local other = rl.task(function()
    socket.sleep(0.02)
    order[#order + 1] = "other"
    a:send "line\n"
  end)
  rl.all_of(reader, other)
  t.equal(order, { "other", "line" })
  a:close()
  b:close()
end)

t.it("receive loses nothing when its task is cancelled", REAL, function()
  for _, pattern in ipairs { "*l", "*a", 100 } do
    for _, limit in ipairs { false, 5 } do
      local a, b = pair()
      if limit then b:settimeout(limit) end
      local task = rl.task(function() b:receive(pattern) end)
      a:send "half"
      rl.sleep(0.02)
      task:cancel()
      rl.sleep(0)
      a:send " a line\nrest"
      a:close()
      t.equal(b:receive(), "half a line")
      t.equal(b:receive "*a", "rest")
      b:close()
    end
  end
end)

t.it("errors name the line of the script", function()
  local client <close> = socket.tcp()
  for _, value in ipairs { false, 5 } do
    t.error(function() client.receive(value) end, "socket_test.lua:%d+: calling 'receive' on bad self")
  end
  t.error(function() socket.select({ 5 }) end, "socket_test.lua:%d+: attempt to index a number value")
end)

t.it("calls never wait with a time limit of 0", REAL, function()
  local a, b = pair()
  local results = {}
  b:settimeout(0)
  local done = rl.future()
  rl.perform(function()
    results[1] = { b:receive() }
    results[2] = a:getpeername() ~= nil
    done:complete()
  end)
  done:await()
  t.equal(results, { { nil, "timeout", "" }, true })
  b:settimeout(1)
  local fine, problem = coroutine.wrap(function() return pcall(b.receive, b) end)()
  t.falsy(fine)
  t.truthy(tostring(problem):find("coroutine", 1, true), problem)
  a:close()
  b:close()
end)

t.it("send waits for the reader of large data", REAL, function()
  local a, b = pair()
  local text = ("0123456789abcdef"):rep(1 << 18)
  local sender = rl.task(function()
    local last, problem = a:send(text)
    a:close()
    return last, problem
  end)
  t.equal(#b:receive "*a", #text)
  t.equal(sender:await(), #text)
  b:close()
  -- With a time limit, the result is the index of the last sent byte. The caller continues after this byte. The
  -- kernel's buffers may have 10 MB.
  text = text:rep(4)
  a, b = pair()
  a:settimeout(0.01)
  local first, tries = 1, 0
  local reader = rl.task(function()
    while tries == 0 do rl.sleep(0.01) end
    return b:receive "*a"
  end)
  while first <= #text do
    local last, problem, partial = a:send(text, first)
    if not last then t.equal(problem, "timeout") end
    first, tries = (last or partial) + 1, tries + 1
  end
  a:close()
  t.truthy(tries > 1)
  t.truthy(reader:await() == text)
  b:close()
end)

t.it("waiting tasks return when their socket is closed", REAL, function()
  local master = assert(socket.bind("127.0.0.1", 0))
  local waiter = rl.task(function() return { master:accept() } end)
  rl.sleep(0.01)
  master:close()
  t.equal(waiter:await(), { nil, "closed" })
  local udp = socket.udp4()
  waiter = rl.task(function() return { udp:receive() } end)
  rl.sleep(0.01)
  udp:close()
  t.equal(waiter:await(), { nil, "closed" })
  local a, b = pair()
  waiter = rl.task(function() return { b:receive() } end)
  rl.sleep(0.01)
  b:close()
  t.equal(waiter:await(), { nil, "closed", "" })
  a:close()
end)

t.it("socket.unix makes sockets at paths", REAL, function()
  socket.install()
  local unix = require "socket.unix"
  local path = os.tmpname()
  os.remove(path)
  local master = unix()
  t.equal(master:bind(path), 1)
  t.equal(master:listen(), 1)
  local client = unix.stream()
  t.equal(client:connect(path), 1)
  local server = master:accept()
  t.truthy(tostring(server):find "^unixstream{client}: ")
  client:send "over a path\n"
  t.equal(server:receive(), "over a path")
  for _, each in ipairs { client, server, master } do each:close() end
  os.remove(path)
  t.equal({ unix():connect(path) }, { nil, "No such file or directory" })
  local to = unix.dgram()
  t.equal(to:bind(path), 1)
  local from = unix.dgram()
  t.equal(from:sendto("message", path), 7)
  t.equal(to:receive(), "message")
  to:close()
  from:close()
  os.remove(path)
  t.equal({ unix():bind(("x"):rep(200)) }, { nil, "path too long" })
end)

t.it("select accepts other objects with a descriptor", REAL, function()
  local a, b = net.pair()
  local object = { getfd = function() return b:fd() end }
  t.equal({ socket.select({ object }, nil, 0) }, { {}, {}, "timeout" })
  rl.after(0.01, function() a:write "x" end)
  local readable = socket.select({ object }, nil, 1)
  t.equal(readable[1], object)
  t.equal(readable[object], 1)
  a:close()
  b:close()
end)

-- Libraries ----------------------------------------------------------------------------------------------------------
t.it("select in a task with keeps_alive = false does not keep the program running", REAL, function()
  local rlhost = require "runloop.fs".real_path "/proc/self/exe"
  local result = process.run { rlhost, timeout = 20, "-e", [[
    local rl, socket = require "runloop", require "runloop.socket"
    local first, second = socket.bind("127.0.0.1", 0), socket.bind("127.0.0.1", 0)
    rl.task { function() socket.select({ first, second }, nil, 600) end, keeps_alive = false }
    print "end"
  ]] }
  t.equal({ result.output, result.code }, { "end\n", 0 })
end)

t.it("redis-lua runs over runloop.socket", REAL, installed(function()
  local redis = library "redis"
  local server = t.server "redis"
  local client = redis.connect("127.0.0.1", server:port())
  t.equal(client:ping(), true)
  client:set("name", "a\r\nb")
  t.equal(client:get "name", "a\r\nb")
  local start, last, gap = rl.now(), rl.now(), 0
  local timer = rl.every(0.05, function()
    gap, last = math.max(gap, rl.now() - last), rl.now()
  end)
  local tasks = {}
  for i = 1, 20 do
    tasks[i] = rl.task(function() return redis.connect("127.0.0.1", server:port()):blpop("none", 1) end)
  end
  rl.all_of(tasks)
  timer:invalidate()
  t.truthy(rl.now() - start < 5, "one after the other")
end))

t.it("socket.http runs over runloop.socket", REAL, installed(function()
  local http, ltn12 = library "socket.http", library "ltn12"
  local server = require "runloop.http".serve("127.0.0.1:0", function(request)
    if request.method == "POST" then return "got " .. #request:body() end
    rl.sleep(0.3)
    return "at " .. request.path
  end)
  local url = "http://" .. server:address()
  local start = rl.now()
  local tasks = {}
  for i = 1, 20 do
    tasks[i] = rl.task(function()
      local body, status = http.request(url .. "/" .. i)
      t.equal(status, 200)
      return body
    end)
  end
  local bodies = { rl.all_of(tasks) }
  t.equal(bodies[20], "at /20")
  t.truthy(rl.now() - start < 3)
  local parts = {}
  local _, status = http.request { url = url, method = "POST", source = ltn12.source.string(("x"):rep(5000)),
    headers = { ["content-length"] = 5000 }, sink = (ltn12.sink.table(parts)) }
  t.equal(status, 200)
  t.equal(table.concat(parts), "got 5000")
  server:close()
end))

-- Serves a script of lines: the server's answer to each line of the client that begins with a certain word.
local function talk(greeting, answers)
  local said = {}
  local listener = net.serve("127.0.0.1:0", function(stream)
    stream:write(greeting, "\r\n")
    for line in stream:lines() do
      said[#said + 1] = line
      local answer = answers[line:match "^%a+"]
      if type(answer) == "function" then answer = answer(stream, said) end
      if answer then stream:write(answer, "\r\n") end
      if line == "QUIT" then break end
    end
  end)
  return listener, said
end

t.it("socket.smtp runs over runloop.socket", REAL, installed(function()
  local smtp = library "socket.smtp"
  local listener, said = talk("220 ready", {
    EHLO = "250 hello", MAIL = "250 ok", RCPT = "250 ok", QUIT = "221 bye",
    DATA = function(stream, all)
      stream:write "354 go on\r\n"
      all[#all + 1] = (stream:read_until "\r\n.\r\n")
      return "250 taken"
    end,
  })
  local done, problem = smtp.send { from = "<a@example.org>", rcpt = { "<b@example.org>", "<c@example.org>" },
    server = "127.0.0.1", port = listener:port(),
    source = smtp.message { headers = { subject = "greeting" }, body = "hello" } }
  t.equal(done, 1, problem)
  local all = table.concat(said, "\n")
  t.truthy(all:find("RCPT TO:<c@example.org>", 1, true))
  t.truthy(all:find("Subject: greeting", 1, true))
  listener:close()
end))

t.it("socket.ftp runs over runloop.socket", REAL, installed(function()
  local ftp = library "socket.ftp"
  local data = net.serve("127.0.0.1:0", function(stream) stream:write "the file\n" end)
  local listener = talk("220 ready", {
    USER = "331 password", PASS = "230 in", TYPE = "200 ok", QUIT = "221 bye", CWD = "250 ok",
    EPSV = function() return ("229 here (|||%d|)"):format(data:port()) end,
    PASV = function() return ("227 here (127,0,0,1,%d,%d)"):format(data:port() // 256, data:port() % 256) end,
    RETR = function() return "150 follows\r\n226 done" end,
  })
  t.equal(ftp.get(("ftp://u:p@127.0.0.1:%d/file;type=i"):format(listener:port())), "the file\n")
  listener:close()
  data:close()
end))

-- A certificate for 127.0.0.1 and localhost.
local function certificate()
  local base = os.tmpname()
  local made = process.run { "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", base .. ".key",
    "-out", base .. ".crt", "-days", "2", "-subj", "/CN=localhost",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1" }
  if not made or made.code ~= 0 then t.skip "openssl is not installed" end
  return base .. ".crt", base .. ".key"
end

t.it("ssl.https runs over runloop.socket", REAL, installed(function()
  local https = library "ssl.https"
  local crt, key = certificate()
  local options = { tls = { certificate = crt, key = key } }
  local server = require "runloop.http".serve({ host = "127.0.0.1", port = 0 }, options,
    function(request) return "secret " .. request.path end)
  local url = "https://localhost:" .. server:address():match ":(%d+)$"
  local body, status = https.request(url .. "/x")
  t.equal(status, 200, status)
  t.equal(body, "secret /x")
  local parts, done = {}, nil
  done, status = https.request { url = url, verify = "peer", cafile = crt,
    sink = (require "ltn12".sink.table(parts)) }
  t.equal({ done, status }, { 1, 200 })
  t.equal(table.concat(parts), "secret /")
  local other = certificate()
  done = https.request { url = url, verify = "peer", cafile = other }
  t.equal(done, nil)
  server:close()
end))

t.it("ssl.wrap makes servers and clients of TLS", REAL, installed(function()
  local ssl = require "ssl"
  local crt, key = certificate()
  local a, b = pair()
  local server = rl.task(function()
    local secure = assert(ssl.wrap(b, { mode = "server", protocol = "any", certificate = crt, key = key }))
    assert(secure:dohandshake())
    secure:send(secure:receive():upper() .. "\n")
    secure:close()
  end)
  local secure = assert(ssl.wrap(a, { mode = "client", protocol = "tlsv1_2", verify = "peer", cafile = crt }))
  secure:sni "localhost"
  secure:settimeout(0)
  local done, problem
  repeat
    done, problem = secure:dohandshake()
    if not done then
      t.equal(problem, "wantread")
      rl.sleep(0.001)
    end
  until done
  secure:settimeout(5)
  secure:send "over tls\n"
  t.equal(secure:receive(), "OVER TLS")
  t.equal({ secure:receive() }, { nil, "closed", "" })
  secure:close()
  server:await()
end))

t.it("ssl rejects wrong options, and calls that it does not offer", installed(function()
  local ssl = require "ssl"
  t.equal(problem_of(ssl.loadcertificate), "ssl.loadcertificate: not offered by runloop.socket")
  t.equal({ ssl.newcontext { mode = "client", protocol = "sslv2" } }, { nil, "invalid protocol (sslv2)" })
  t.equal({ ssl.newcontext { mode = "both", protocol = "any" } }, { nil, "invalid mode (both)" })
  for _, verify in ipairs { "pear", 5, { "peer", "pear" } } do
    local problem = ("invalid verify option (%s)"):format(verify == 5 and 5 or "pear")
    t.equal({ ssl.newcontext { mode = "client", protocol = "any", verify = verify } }, { nil, problem })
  end
  t.equal({ ssl.newcontext { mode = "client", protocol = "any", alpn = 5 } }, { nil, "invalid ALPN parameter" })
  t.equal(problem_of(function() return ssl.config.protocols end), "ssl.config: not offered by runloop.socket")
  t.truthy(problem_of(ssl.newcontext):find "table expected, got no value")
  local context = select(2, ssl.newcontext { mode = "client", protocol = "any", cafile = "/nowhere" })
  t.truthy(context:find "^error loading CA locations %(/nowhere: No such file")
end))

t.it("rlhost -W warns of parameters of ssl that protect nothing here", function()
  local rlhost = require "runloop.fs".real_path "/proc/self/exe"
  local result = process.run { rlhost, "-W", "-e", [[
    require "runloop.socket".install()
    local ssl = require "ssl"
    for _ = 1, 2 do
      assert(ssl.newcontext { mode = "client", protocol = "any", verify = { "peer" }, ciphers = "HIGH", depth = 3 })
    end
  ]] }
  t.equal(result.errors, "Lua warning: ssl.newcontext: parameter 'ciphers' has no effect in runloop.socket\n"
    .. "Lua warning: ssl.newcontext: parameter 'depth' has no effect in runloop.socket\n")
end)

t.it("copas runs over runloop.socket", REAL, installed(function()
  -- This module refuses to be required after socket.http.
  package.loaded["socket.http"] = nil
  local copas = library "copas"
  local master = assert(require "socket".bind("127.0.0.1", 0))
  local _, port = master:getsockname()
  copas.addserver(master, function(client)
    client = copas.wrap(client)
    client:send("echo " .. client:receive() .. "\n")
  end)
  local answers = {}
  for i = 1, 3 do
    copas.addthread(function()
      local raw = require "socket".tcp()
      raw:settimeout(0)
      copas.connect(raw, "127.0.0.1", port)
      local client = copas.wrap(raw)
      client:send(i .. "\n")
      answers[i] = client:receive()
      raw:close()
    end)
  end
  local ticks = 0
  local timer = rl.every(0.005, function() ticks = ticks + 1 end)
  for _ = 1, 200 do
    if answers[3] and ticks > 3 then break end
    copas.step(0.02)
  end
  copas.step(0.05)
  timer:invalidate()
  t.equal(answers, { "echo 1", "echo 2", "echo 3" })
  t.truthy(ticks > 3)
  master:close()
end))

t.it("lua-soap runs over runloop.socket", REAL, installed(function()
  local client = library "soap.client"
  local server = require "runloop.http".serve("127.0.0.1:0", function(request)
    local name = request:body():match "<name[^>]*>(%a+)</name>" or "?"
    return ([[<?xml version="1.0"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
<soap:Body><greetResponse><answer>hello %s</answer></greetResponse></soap:Body></soap:Envelope>]]):format(name)
  end)
  local _, method, entries = client.call {
    url = "http://" .. server:address() .. "/", soapaction = "greet", method = "greet",
    entries = { { tag = "name", "world" } } }
  t.equal(method, "greetResponse")
  t.equal(entries[1][1], "hello world")
  server:close()
end))
