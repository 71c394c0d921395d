-- runloop.nats when something fails: lost connections, silent servers, rubbish, refused log-ins, misuse.

local rl = require "runloop"
local t = require "runloop.test"
local net = require "runloop.net"
local json = require "runloop.json"
local nats = require "runloop.nats"
local process = require "runloop.process"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect = buses.connect

-- Returns a list, and the option that appends the events of a bus to the list.
local function listen()
  local events = {}
  return events, function(_, event, details)
    events[#events + 1] = event
    events[event] = details
  end
end

-- Serves each connection by a function, which gets the stream after INFO.
local function server(info, fn)
  local listener = t.truthy(net.serve(0, { keeps_alive = false }, function(stream)
    stream:write("INFO " .. json.encode(info) .. "\r\n")
    fn(stream)
  end))
  t.finally(function() listener:close() end)
  return listener:port()
end

t.it("a bus connects again, and keeps subscriptions and messages published meanwhile", function()
  local fake, events, on_event = nats.fake(), listen()
  local bus = connect(fake, { on_event = on_event })
  local s = bus:subscribe("a", { max = 4 })
  bus:publish("a", "1")
  t.equal(s:receive(1).data, "1")
  bus:flush()
  fake:stop()
  rl.sleep(1)
  t.equal(bus:status(), "reconnecting")
  t.equal(bus:server(), nil)
  t.equal(bus:publish("a", "2"), true)
  t.equal(bus:publish("a", "3"), true)
  t.equal({ bus:unconfirmed() }, { 2, 2 })
  rl.sleep(3600)
  fake:start()
  t.equal(s:receive(20).data, "2")
  t.equal(s:receive(1).data, "3")
  t.equal(bus:status(), "connected")
  bus:publish("a", "4")
  bus:publish("a", "5")
  t.equal(s:receive(1).data, "4")
  t.equal(s:receive(1), nil)
  t.equal(events, { "disconnected", "reconnected", disconnected = events.disconnected,
    reconnected = events.reconnected })
  t.equal({ events.disconnected.messages, events.disconnected.bytes }, { 0, 0 })
  t.truthy(events.reconnected.seconds > 3600)
  t.equal(bus:stats().reconnects, 1)
end)

t.it("a bus reports messages that may be lost, or sends them again with republish", function()
  for _, republish in ipairs { false, true } do
    local fake, events, on_event = nats.fake(), listen()
    local bus, other = connect(fake, { on_event = on_event, republish = republish }), connect(fake)
    local s = other:subscribe "a"
    other:flush()
    bus:flush()
    fake:stall(5)
    for i = 1, 10 do bus:publish("a", "message " .. i) end
    rl.sleep(1)
    t.equal({ bus:unconfirmed() }, { 10, 91 })
    -- The client's descriptor is closed, while the listening one stays open.
    fake._clients[1].stream:abort()
    rl.sleep(0.01)
    t.equal({ events.disconnected.messages, events.disconnected.bytes }, { 10, 91 })
    rl.sleep(20)
    t.equal(events.reconnected.republished, republish and 10 or 0)
    for i = 1, republish and 10 or 0 do t.equal(s:receive(1).data, "message " .. i) end
    t.equal(select(2, s:receive(1)), "timed out")
  end
end)

t.it("a lost connection ends requests under way with ECONNRESET, and sends none twice", function()
  local fake = nats.fake()
  local bus = connect(fake)
  local s = bus:subscribe "a"
  local request = rl.task(function() return bus:request("a", "?", { timeout = 60 }) end)
  t.truthy(s:receive(1))
  fake:drop()
  local none, text, code = request:await()
  t.equal({ none, code }, { nil, "ECONNRESET" })
  t.truthy(text:find "^ECONNRESET: the connection to fake was lost")
  t.equal(select(2, s:receive(30)), "timed out")
  t.equal(bus:stats().requests, 0)
end)

t.it("gather reports that answers were lost with a connection", function()
  local fake = nats.fake()
  local bus, other = connect(fake), connect(fake)
  local s = other:subscribe("all", { keeps_alive = false }, function(m) m:respond "one" end)
  other:flush()
  local count = 0
  local gathering = rl.task(function()
    for _ in bus:gather("all", "?", { timeout = 60 }) do count = count + 1 end
  end)
  rl.sleep(1)
  fake:drop()
  local done, problem = pcall(gathering.await, gathering)
  t.falsy(done)
  t.truthy(problem:find "^ECONNRESET: the connection to fake was lost", problem)
  t.equal({ count, s:is_valid(), bus:stats().requests }, { 1, true, 0 })
end)

t.it("a bus without a connection keeps at most max_offline bytes", function()
  local fake = nats.fake()
  local bus, none = connect(fake, { max_offline = 200 }), connect(fake, { max_offline = 0 })
  fake:stop()
  rl.sleep(0.1)
  t.equal(bus:publish("a", ("x"):rep(100)), true)
  t.equal(select(3, bus:publish("a", ("x"):rep(100))), "ENOBUFS")
  t.equal(select(3, none:publish("a", "x")), "ENOTCONN")
  local before = bus:stats().offline_bytes
  t.equal(select(2, bus:request("a", "x", { timeout = 0.1 })), "timed out")
  t.equal(bus:stats().offline_bytes, before)
end)

t.it("a closed bus sends waiting messages for up to two seconds", function()
  local fake = nats.fake { bandwidth = 100000 }
  local bus, other = connect(fake), connect(fake)
  local s = other:subscribe "a"
  other:flush()
  for _ = 1, 20 do bus:publish("a", ("x"):rep(50000)) end
  bus:close()
  t.equal(bus:status(), "closed")
  local count = 0
  while s:receive(30) do count = count + 1 end
  t.truthy(count >= 3 and count <= 6, count)
end)

t.it("the event of a closed bus has the number of messages that still waited for a connection", function()
  local fake, events, on_event = nats.fake(), listen()
  local bus, idle = connect(fake, { on_event = on_event }), connect(fake)
  fake:stop()
  rl.sleep(1)
  for _ = 1, 5 do assert(bus:publish("a", "12345")) end
  local task = rl.task(bus.request, bus, "a", "x")
  bus:close()
  t.equal(select(3, task:await()), "ENOTCONN")
  rl.sleep(0.1)
  t.equal(events.closed, { reason = "closed by the script", messages = 5, bytes = 25 })
  idle:close()
end)

t.it("a closed bus warns of waiting messages if there is no on_event", { real_time = true }, function()
  local program = t.spawn { t.rlhost, "-e", [[
    local rl, nats = require "runloop", require "runloop.nats"
    local fake = nats.fake()
    local bus = assert(nats.connect(fake))
    fake:stop()
    rl.sleep(0.1)
    assert(bus:publish("a", "12345"))
    bus:close()]] }
  program:wait()
  t.equal(program:errors(), "rlhost: warning: nats: messages that waited for a connection and were not sent: 1 "
    .. "(5 bytes; closed by the script)\n")
end)

t.it("a bus finds a silent server by its pings", function()
  local fake, events, on_event = nats.fake(), listen()
  local bus = connect(fake, { on_event = on_event, ping = 1, timeout = 2 })
  fake:stall(60)
  rl.sleep(2.9)
  t.equal(bus:status(), "connected")
  rl.sleep(0.2)
  t.equal(bus:status(), "reconnecting")
  t.equal(events.disconnected.code, "ETIMEDOUT")
  rl.sleep(90)
  t.equal(bus:status(), "connected")
end)

t.it("a bus gives up reconnecting only if the option limits it", function()
  local fake, events, on_event = nats.fake(), listen()
  local bus = connect(fake, { on_event = on_event, reconnect = { tries = 3 } })
  local never = connect(fake, { reconnect = false })
  fake:stop()
  rl.sleep(10)
  t.equal(bus:status(), "closed")
  t.equal(events.closed.reason, "gave up after 3 tries")
  t.equal(never:status(), "closed")
end)

t.it("a bus tries a refused log-in twice, then seldom", function()
  local fake = nats.fake { password = "secret" }
  local none, text, code = nats.connect(fake, { user = "u", password = "wrong" })
  t.equal({ none, text, code }, { nil, "EAUTH: fake says: Authorization Violation", "EAUTH" })
  local count = 0
  local bus = connect(fake, { password = "secret", on_event = function(_, event)
    if event == "refused" then count = count + 1 end
  end })
  fake._password = "other"
  fake:drop()
  rl.sleep(5)
  t.equal(count, 2)
  rl.sleep(60)
  t.truthy(count >= 6 and count <= 9, tostring(count))
  fake._password = "secret"
  rl.sleep(20)
  t.equal(bus:status(), "connected")
end)

t.each({
  { "an unknown verb", "HELLO\r\n" }, { "a long line", ("x"):rep(70000) },
  { "a size above max_payload", "MSG a 2 99999999\r\n" }, { "a message without its end", "MSG a 2 3\r\nabcdef\r\n" },
  { "a bad INFO", "INFO {]\r\n" },
  { "an HMSG with sizes that contradict", "HMSG a 2 9 4\r\nabcd\r\n" },
}, "drops a connection with %s", function(_, rubbish)
  local fake, events, on_event = nats.fake(), listen()
  local bus = connect(fake, { on_event = on_event })
  bus:subscribe "a"
  fake._clients[1].stream:queue(rubbish)
  rl.sleep(1)
  t.truthy(events.disconnected.reason:find "^protocol error: ", events.disconnected.reason)
  t.truthy(#events.disconnected.reason <= 60)
  rl.sleep(20)
  t.equal(bus:status(), "connected")
end)

-- Servers pass headers on without reading them.
t.each({
  { "headers without a version", "HMSG a 2 4 7\r\nabcddat\r\n" },
  { "headers that do not end", "HMSG a 2 8 11\r\nNATS/1.0dat\r\n" },
  { "a broken line of a recorder", "HMSG a 2 16 19\r\nabcRl-Flow: 12\r\ndat\r\n" },
  { "headers of no bytes", "HMSG a 2 0 3\r\ndat\r\n" },
}, "a message with %s comes without headers, and the connection stays", function(_, text)
  local fake, events, on_event = nats.fake(), listen()
  local bus = connect(fake, { on_event = on_event })
  local s = bus:subscribe "a"
  fake._clients[1].stream:queue(text)
  local message = t.truthy(s:receive(1))
  t.equal({ message.data, message.headers }, { "dat" })
  bus:publish("a", "next")
  t.equal(s:receive(1).data, "next")
  t.equal(#events, 0)
end)

t.it("connect refuses a server that does not speak NATS", function()
  local port = t.truthy(net.serve(0, { keeps_alive = false }, function(stream) stream:write "220 hello\r\n" end))
  t.finally(function() port:close() end)
  t.equal({ nats.connect(port:port()) }, { nil, "EPROTO: protocol error: 220 hello", "EPROTO" })
  local long = t.truthy(net.serve(0, { keeps_alive = false }, function(stream) stream:write(("x"):rep(70000)) end))
  t.finally(function() long:close() end)
  t.equal({ nats.connect(long:port()) }, { nil, "EPROTO: protocol error: line longer than 65536 bytes", "EPROTO" })
  t.equal(select(3, nats.connect "127.0.0.1:1"), "ECONNREFUSED")
  local _, text, code = nats.connect "127.0.0.1:1,127.0.0.1:2"
  t.equal(code, "ECONNREFUSED")
  t.truthy(text:find("127.0.0.1:1: ECONNREFUSED", 1, true) and text:find("127.0.0.1:2: ECONNREFUSED", 1, true), text)
end)

t.it("a bus sends no secret in clear to other machines", { real_time = true }, function()
  local got = {}
  local info = { server_id = "x", version = "2.9.10", headers = true, max_payload = 1000 }
  local port = server(info, function(stream)
    got[#got + 1] = stream:read_line() or "nothing"
    stream:write "PONG\r\n"
    stream:read_line()
  end)
  -- 0.0.0.0 leads to this machine, but counts as the address of another one.
  local where = "0.0.0.0:" .. port
  for option, what in pairs { password = "password", token = "token" } do
    local none, text, code = nats.connect(where, { [option] = "hidden" })
    t.equal({ none, text, code }, { nil, "EACCES: the " .. what .. " would go unencrypted to " .. where
      .. "; use tls:// or insecure = true", "EACCES" })
  end
  t.equal(select(3, nats.connect("nats://u:hidden@" .. where)), "EACCES")
  rl.sleep(0.1)
  t.equal(got, { "nothing", "nothing", "nothing" })
  local bus = connect(where, { password = "hidden", insecure = true })
  t.truthy(got[4]:find '"pass":"hidden"')
  bus:close()
  t.equal(select(3, nats.connect("tls://127.0.0.1:" .. port)), "TLS")
  rl.sleep(0.1)
end)

t.it("a bus moves to another server when its server announces its end", function()
  local one, two = nats.fake(), nats.fake()
  local events, on_event = listen()
  local bus = connect({ one, two }, { on_event = on_event })
  local first = #one._clients == 1 and one or two
  local second = first == one and two or one
  local s = bus:subscribe "a"
  bus:flush()
  first._clients[1].stream:queue 'INFO {"ldm":true}\r\n'
  rl.sleep(1)
  t.equal(events[1], "lame duck")
  t.equal({ #first._clients, #second._clients }, { 0, 1 })
  bus:publish("a", "x")
  t.equal(s:receive(1).data, "x")
  t.equal(#events, 1)
end)

-- Connects a bus to a server of a cluster, which announces its end. `published(stream, subject)` is called when the bus
-- publishes at the other server. Returns the bus, its events, and a table: `old` is the old server's stream, and
-- `has_left` is set when the bus ends its subscription there.
local function leave(published)
  local info = { server_id = "x", version = "2.9.10", headers = true, max_payload = 1000, cluster = "pair" }
  local its = { has_left = false }
  local function serve(stream, fn)
    for line in stream:lines() do
      if line:find "^PING" then stream:write "PONG\r\n" end
      if line:find "^UNSUB 2" then its.has_left = true end
      fn(stream, line)
    end
  end
  local first = server(info, function(stream)
    its.old = stream
    serve(stream, function() end)
  end)
  local second = server(info, function(stream)
    serve(stream, function(_, line) if line:find "^PUB" then published(stream, line:match "^PUB (%S+)") end end)
  end)
  local events, on_event = listen()
  local bus = connect("127.0.0.1:" .. first, { on_event = on_event })
  its.subscription = bus:subscribe "a"
  bus:flush()
  its.old:write('INFO {"ldm":true,"connect_urls":["127.0.0.1:' .. second .. '"]}\r\n')
  return bus, events, its
end

t.it("a bus that moves takes what the new server sent to the old one before", function()
  local passed = rl.future()
  local bus, _, its = leave(function(stream, subject)
    stream:write("MSG " .. subject .. " 1 0\r\n\r\n")
    passed:complete(subject)
  end)
  rl.sleep(0.5)
  t.equal(its.has_left, false)
  its.old:write "MSG a 2 4\r\nlate\r\n"
  its.old:write("MSG " .. passed:await(1) .. " 1 0\r\n\r\n")
  t.equal(t.truthy(its.subscription:receive(1)).data, "late")
  rl.sleep(0.5)
  t.equal({ its.has_left, bus:stats().late_answers }, { true, 0 })
end)

t.it("a bus moves without an event when it may not publish to its own inbox", function()
  local bus, events, its = leave(function(stream, subject)
    stream:write(('-ERR \'Permissions Violation for Publish to "%s"\'\r\n'):format(subject))
  end)
  rl.sleep(0.5)
  t.equal({ its.has_left, bus:status(), #events, events[1] }, { true, "connected", 1, "lame duck" })
end)

-- Starts two real servers that form a cluster. SIGUSR2 makes a server end gently.
local function pair()
  local ports, routes, servers = {}, {}, {}
  for i = 1, 2 do
    local listener = t.truthy(net.serve("127.0.0.1:0", function() end))
    ports[i] = listener:port()
    listener:invalidate()
    routes[i] = '"nats-route://127.0.0.1:' .. ports[i] .. '"'
  end
  for i = 1, 2 do
    servers[i] = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] = ([[
listen: "127.0.0.1:{port}"
lame_duck_duration: "30s"
lame_duck_grace_period: "1s"
cluster { name: pair, listen: "127.0.0.1:%d", routes: [ %s ] }
]]):format(ports[i], table.concat(routes, ", ")) } }
  end
  return servers
end

t.it("no request fails when a real server announces its end", { real_time = true, timeout = 30 }, function()
  local servers = pair()
  local events, on_event = listen()
  local where = servers[1]:address() .. "," .. servers[2]:address()
  local bus, other = connect(where, { on_event = on_event }), connect(servers[2]:address())
  other:subscribe("echo", { keeps_alive = false }, function(m) m:respond(m.data) end)
  other:flush()
  -- The servers connect to each other twice, and close one of the two: messages on it are lost.
  local through, tries, answers = connect(servers[1]:address()), 0, 0
  while answers < 20 and tries < 400 do
    answers = through:request("echo", "?", { timeout = 0.5 }) and answers + 1 or 0
    rl.sleep(0.02)
    tries = tries + 1
  end
  through:close()
  local first = bus:server().address == servers[1]:address() and servers[1] or servers[2]
  local count, is_over = 0, false
  local asking = rl.task(function()
    while not is_over do
      count = count + 1
      t.equal(t.truthy(bus:request("echo", tostring(count), { timeout = 10 })).data, tostring(count))
    end
  end)
  t.equal(process.run { "kill", "-USR2", tostring(first:pid()) }.code, 0)
  tries = 0
  while (events[1] ~= "lame duck" or bus:server().address == first:address()) and tries < 1000 do
    rl.sleep(0.01)
    tries = tries + 1
  end
  t.equal(events, { "lame duck", ["lame duck"] = { server = first:address() } })
  local before = count
  while count < before + 20 do rl.sleep(0.01) end
  is_over = true
  asking:await()
  first:kill()
end)

t.it("a refused log-in and a refused subject return errors", { real_time = true }, function()
  local real = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] = [[
listen: "127.0.0.1:{port}"
authorization { users = [ { user: u, password: p, permissions: { publish: { deny: "no.>" } } } ] }
]] } }
  local where = real:address()
  t.equal(select(3, nats.connect(where)), "EAUTH")
  t.equal(select(3, nats.connect(where, { user = "u", password = "q" })), "EAUTH")
  local events, on_event = listen()
  local bus = connect("nats://u:p@" .. where, { on_event = on_event })
  local _, text, code = bus:request("no.way", "x", { timeout = 5 })
  t.equal(code, "EACCES")
  t.truthy(text:find("no.way", 1, true))
  t.equal(events.refused.subject, "no.way")
  local done, problem = pcall(function() for _ in bus:gather("no.way", "x", { timeout = 5 }) do end end)
  t.falsy(done)
  t.truthy(tostring(problem):find "^EACCES: the server refuses no.way", problem)
  t.equal(bus:status(), "connected")
end)

t.it("a call that waits for messages ends when the server refuses its subject", { real_time = true }, function()
  local real = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] = [[
listen: "127.0.0.1:{port}"
authorization { users = [
  { user: u, password: p, permissions: { subscribe: { deny: "no.>" } } }
  { user: deaf, password: p, permissions: { subscribe: "ok.>" } }
] }
]] } }
  local bus = connect("nats://u:p@" .. real:address(), { on_event = function() end })
  local s = bus:subscribe "no.way"
  local reason = 'EACCES: the server refuses no.way: Permissions Violation for Subscription to "no.way"'
  t.equal({ s:receive(5) }, { nil, reason, "EACCES" })
  t.equal({ s:receive() }, { nil, reason, "EACCES" })
  t.equal(s:is_valid(), true)
  t.truthy(bus:publish("no.way", "x"))
  local fine = bus:subscribe "yes"
  bus:publish("yes", "1")
  t.equal(t.truthy(fine:receive(5)).data, "1")
  local deaf = connect("nats://deaf:p@" .. real:address(), { on_event = function() end })
  for _ = 1, 2 do
    local none, text, code = deaf:request("ask", "x", { timeout = 5 })
    t.equal({ none, code }, { nil, "EACCES" })
    t.truthy(text:find "^EACCES: the server refuses _INBOX%.%w+%.%*: ", text)
  end
  t.equal(deaf:stats().requests, 0)
  t.truthy(deaf:publish("yes", "2"))
  t.equal(t.truthy(fine:receive(5)).data, "2")
end)

t.it("a bus survives kills of a real server", { real_time = true, timeout = 30 }, function()
  local real = t.server "nats"
  local bus = connect(real:url(), { max_offline = 1 << 20 })
  local s = bus:subscribe "a"
  bus:flush()
  for i = 1, 3 do
    real:kill()
    local tries = 0
    while bus:status() == "connected" and tries < 500 do rl.sleep(0.01) tries = tries + 1 end
    bus:publish("a", tostring(i))
    real:restart()
    t.equal(t.truthy(s:receive(15)).data, tostring(i))
  end
end)

t.it("a bus keeps no program running, and publishes waiting messages before the end", { real_time = true }, function()
  local real = t.server "nats"
  local bus = connect(real:url())
  local s = bus:subscribe "end"
  bus:flush()
  local program <close> = t.spawn { t.rlhost, "-e", ([[
    local bus = assert(require "runloop.nats".connect %q)
    bus:subscribe("x", { keeps_alive = false }, print)
    bus:subscribe "y"
    for i = 1, 1000 do bus:publish("end", tostring(i)) end]]):format(real:url()) }
  t.equal(program:wait { within = 5 }, 0, program:errors())
  for i = 1, 1000 do t.equal(t.truthy(s:receive(5)).data, tostring(i)) end
end)

t.it("wrong arguments raise errors that name the call", function()
  local bus = connect(nats.fake())
  for _, subject in ipairs { "", ".a", "a.", "a..b", "a b", "a\r\nPUB b", "a.*", "a.>", ("x"):rep(256) } do
    t.error(function() bus:publish(subject) end, "bus:publish: the subject")
    t.error(function() bus:request(subject) end, "bus:request: the subject")
  end
  t.error(function() bus:subscribe ">.a" end, "before its end")
  t.error(function() bus:subscribe("a", { queue = "a b" }) end, "bus:subscribe")
  t.error(function() bus:subscribe("a", { concurrency = 0 }) end, "concurrency")
  for _, headers in ipairs { { ["a:b"] = "x" }, { ["a b"] = "x" }, { a = "x\r\nb: y" }, { a = 1 }, { "x" } } do
    t.error(function() bus:publish("a", "x", { headers = headers }) end, "bus:publish: ")
  end
  t.error(function() bus:publish("a", 5) end, "argument #2 must be a string")
  t.error(function() bus:publish("a", "x", { replyto = "b" }) end, "unknown field")
  for _, number in ipairs { 0, -1, 0 / 0, "1" } do
    t.error(function() nats.fake { bandwidth = number } end,
      "nats.fake: field 'bandwidth' must be a number")
  end
  t.error(function() nats.fake { latency = -1 } end, "nats.fake: field 'latency' must be a number of seconds")
  t.truthy(tostring(nats.fake { password = "hidden" }):find "^fake of NATS %(0 clients, made at .*%)$")
  t.error(function() nats.connect({}) end, "names no server")
  t.error(function() nats.connect("http://a") end, "a server must be")
  t.error(function() nats.connect("nats://u:hidden@a:b") end, "a server must be")
  t.error(function() nats.connect(1, { ping = -1 }) end, "ping")
  t.error(function() nats.connect(1, { tiemout = 1 }) end, "timeout")
  t.error(function() nats.connect(nats.fake(), { tls = { cs = "a" } }) end,
    "nats.connect: field 'tls': unknown field 'cs'")
  t.error(function() nats.connect(nats.fake(), { tls = { ca = 5 } }) end, "nats.connect: field 'tls': .*'ca' must be")
  t.equal(select(3, nats.connect(nats.fake(), { tls = { ca = "/no/such/file" } })), "ENOENT")
  for _, field in ipairs { "name", "user", "password", "token" } do
    t.error(function() nats.connect(nats.fake(), { [field] = "hidden\xff" }) end,
      "nats%.connect: field '" .. field .. "' is not UTF%-8$")
  end
  for _, where in ipairs { "nats://u:hidden@:x", "nats://u:hidden%FF@a:4222", "nats://hidden%ff@a:4222" } do
    t.falsy(t.error(function() nats.connect(where) end, "a server must be"):find "hidden")
  end
end)
