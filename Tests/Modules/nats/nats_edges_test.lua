-- runloop.nats: the edges of its calls: waits that are cancelled, limits of a server, addresses, and what rl.why and
-- loop:inspect show.

local rl = require "runloop"
local t = require "runloop.test"
local net = require "runloop.net"
local json = require "runloop.json"
local nats = require "runloop.nats"

local function connect(where, options)
  local bus = t.truthy(nats.connect(where, options))
  t.finally(function() bus:close() end)
  return bus
end

-- Returns a list, and the option that appends the details of events of one kind to the list.
local function listen(kind)
  local list = {}
  return list, function(_, event, details)
    if event == kind then list[#list + 1] = details end
  end
end

-- Returns the fields of an item of this kind in the default mode.
local function item(kind)
  for _, one in ipairs(rl.current():inspect().modes.default) do if one.kind == kind then return one end end
end

t.it("inspect and rl.why list buses, subscriptions and calls that wait", function()
  local fake = nats.fake { jetstream = true }
  local bus = connect(fake, { name = "shop" })
  bus:subscribe("jobs.*", { queue = "workers", keeps_alive = false }, function() rl.sleep(60) end)
  for _ = 1, 3 do bus:publish "jobs.a" end
  bus:flush()
  rl.sleep(0)
  local one = t.truthy(item "nats")
  t.equal({ one.name, one.detail, one.next }, { "shop", "fake, connected" })
  t.truthy(one.made_at:find("nats_edges_test.lua", 1, true))
  one = t.truthy(item "subscription")
  t.equal({ one.name, one.detail }, { "jobs.*", 'queue "workers", 2 pending' })
  local consumer = t.truthy(t.truthy(bus:stream("s", {})):consumer("c", {}))
  local tasks = {
    rl.task(function() bus:request("jobs.b", "?", { timeout = 9 }) end),
    rl.task(function() for _ in bus:gather("jobs.c", "?", { timeout = 8 }) do rl.sleep(0) end end),
    rl.task(function() bus:subscribe("other"):receive(7) end),
    rl.task(function() consumer:receive() end),
  }
  local text = rl.why()
  for _, words in ipairs { 'request "jobs.b" of nats "fake"', 'request "jobs.c" of nats "fake"',
    'subscription of "other" of nats "fake"', 'consumer c of stream s of nats "fake"' } do
    t.truthy(text:find(words, 1, true), words .. " is in " .. text)
  end
  for _, task in ipairs(tasks) do task:cancel() end
  t.falsy(rl.why():find("of nats", 1, true))
end)

t.it("rl.why does not list a request that has ended", function()
  local bus = connect(nats.fake())
  local task = rl.task(function()
    bus:request("nobody", "?")
    rl.sleep(60)
  end)
  rl.sleep(1)
  t.falsy(rl.why():find("nobody", 1, true))
  task:cancel()
end)

t.it("rl.why does not list a wait that was cancelled, or a call of a pool that has ended", function()
  local bus = connect(nats.fake())
  local worker <close> = t.truthy(rl.worker { via = bus, name = "p", functions = { f = print }, keeps_alive = false })
  local pool <close> = t.truthy(rl.pool { via = bus, name = "p" })
  local s = bus:subscribe "a"
  local cancelled = rl.task(function() s:receive() end)
  rl.sleep(0.01)
  cancelled:cancel()
  rl.sleep(0.01)
  local tasks = { rl.task(function()
    pool:run "f"
    rl.sleep(1)
  end), rl.task(function()
    for _ in bus:gather("rl.pool.p.who", "", { most = 1 }) do rl.sleep(1) end
  end), rl.task(rl.sleep, 1), rl.task(rl.sleep, 1) }
  -- The calls of the tasks above are over, but this task still waits: rl.why() names its call alone.
  local waiting = rl.task(function() s:receive(1) end)
  rl.sleep(0.1)
  local text = rl.why()
  t.equal(select(2, text:gsub("rl%.sleep[^\n]* of nats", "")), 0, text)
  t.truthy(text:find 'subscription of "a" of nats "fake"', text)
  for _, task in ipairs(tasks) do task:await() end
  waiting:await()
end)

t.it("a bus that is open at the end of a test is a leak", function()
  local fs, process = require "runloop.fs", require "runloop.process"
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  t.truthy(fs.write(path .. "/left_test.lua", [[
    local nats, t = require "runloop.nats", require "runloop.test"
    t.it("leaves it open", function() nats.connect(nats.fake(), { name = "forgotten" }) end)
    t.it("closes it", function()
      local bus <close> = nats.connect(nats.fake())
      bus:publish("a", "b")
    end)
  ]]))
  local done = t.truthy(process.run { t.rlhost, "test", "left_test.lua", directory = path })
  t.equal(done.code, 1)
  t.truthy(done.output:find "\n     nats \"forgotten\" %(fake, connected, made at left_test.lua:2%)", done.output)
  t.truthy(done.output:find "\n1 passed, 1 failed", done.output)
end)

-- Cancelled waits -----------------------------------------------------------------------------------------------------

t.it("a subscription whose drain is cancelled ends, and so does a bus", function()
  local fake = nats.fake { latency = 0.1 }
  local bus = connect(fake)
  local handled = 0
  local s = bus:subscribe("d", { keeps_alive = false }, function()
    rl.sleep(1)
    handled = handled + 1
  end)
  for _ = 1, 3 do bus:publish "d" end
  bus:flush()
  local draining = rl.task(function() s:drain() end)
  rl.sleep(0.05)
  draining:cancel()
  t.equal(bus:stats().subscriptions, 0)
  rl.sleep(5)
  t.equal({ handled, s:is_valid() }, { 3, false })
  bus:subscribe("e", { keeps_alive = false }, print)
  draining = rl.task(function() bus:drain() end)
  rl.sleep(0.05)
  t.equal(bus:status(), "draining")
  draining:cancel()
  t.equal({ bus:status(), bus:stats().subscriptions }, { "closed", 0 })
end)

-- The calls that wait for a server that does not answer, by name.
local CALLS = {
  ["bus:request"] = function(bus) bus:request "s" end,
  ["bus:gather"] = function(bus) for _ in bus:gather("s", "", { timeout = 60 }) do rl.sleep(0) end end,
  ["bus:flush"] = function(bus) bus:flush() end,
  ["bus:publish"] = function(bus) repeat until not bus:publish("s", ("x"):rep(1 << 20)) end,
  ["subscription:receive"] = function(_, s) s:receive() end,
  ["subscription:messages"] = function(_, s) for _ in s:messages() do rl.sleep(0) end end,
}

t.it("a waiting call that is cancelled leaves nothing behind", function()
  for name, call in pairs(CALLS) do
    local fake = nats.fake()
    local bus = connect(fake, { ping = 3600 })
    local s = bus:subscribe "s"
    bus:flush()
    fake:stall(3600)
    local task = rl.task(function() call(bus, s) end)
    for _ = 1, 100 do if task:status() == "waiting" then break end rl.sleep(0) end
    t.equal({ name, task:status() }, { name, "waiting" })
    task:cancel()
    local stats = bus:stats()
    t.equal({ name, stats.requests, stats.subscriptions }, { name, 0, 1 })
    t.equal({ name, s:is_valid(), bus:status() }, { name, true, "connected" })
  end
end)

t.it("a call for the next message of a closed bus starts nothing", function()
  local bus = connect(nats.fake { jetstream = true })
  local c = t.truthy(t.truthy(bus:stream("s", {})):consumer("c", {}))
  bus:close()
  -- If a timer stayed, the runner would report it.
  t.equal(select(3, c:receive(1)), "ENOTCONN")
end)

t.it("a watch that begins again ends with its bus", function()
  local fake, weak = nats.fake { latency = 0.01, jetstream = true }, setmetatable({}, { __mode = "v" })
  do
    local bus = t.truthy(nats.connect(fake, { reconnect = { first = 0, most = 0 } }))
    local w = t.truthy(t.truthy(bus:bucket("b", {})):watch ">")
    weak[1] = bus
    fake:drop()
    for _, status in ipairs { "reconnecting", "connected" } do while bus:status() ~= status do rl.sleep(0.001) end end
    bus:close()
    t.equal(select(3, w:receive(1)), "ENOTCONN")
  end
  rl.sleep(30)
  collectgarbage()
  collectgarbage()
  t.equal(weak[1], nil)
end)

t.it("a connection that is made too late, or for a cancelled task, is closed", { real_time = true }, function()
  local streams = {}
  local listener = t.truthy(net.serve(0, { keeps_alive = false }, function(stream)
    streams[#streams + 1] = stream
    stream:read(1)
    streams[#streams] = false
  end))
  t.finally(function() listener:close() end)
  local function is_closed(number)
    for _ = 1, 500 do
      if streams[number] == false then return true end
      rl.sleep(0.01)
    end
  end
  local connecting = rl.task(function() nats.connect(listener:port()) end)
  for _ = 1, 500 do if streams[1] then break end rl.sleep(0.01) end
  connecting:cancel()
  t.truthy(is_closed(1))
  t.equal({ nats.connect(listener:port(), { timeout = 0.2 }) }, { nil, "timed out" })
  t.truthy(is_closed(2))
end)

t.it("connect with retry ends at its timeout", { real_time = true }, function()
  local began = rl.now()
  local none, text, code = nats.connect("127.0.0.1:1", { timeout = 0.3, retry = true })
  t.equal({ none, code }, { nil, "ECONNREFUSED" })
  t.truthy(text:find "^ECONNREFUSED: .* %(tried again for 0.3 s%)$", text)
  t.truthy(rl.now() - began < 2)
end)

t.it("connect with retry returns the last refusal at its timeout", function()
  t.equal({ nats.connect(nats.fake { password = "secret" }, { password = "guess", retry = true, timeout = 30 }) },
    { nil, "EAUTH: fake says: Authorization Violation (tried again for 30 s)", "EAUTH" })
  local stalled = nats.fake()
  stalled:stall(60)
  t.equal({ nats.connect(stalled, { retry = true, timeout = 3 }) }, { nil, "timed out" })
end)

-- Servers -------------------------------------------------------------------------------------------------------------

t.it("an event reports that a server takes no more subscriptions", { real_time = true }, function()
  local server = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
    'listen: "127.0.0.1:{port}"\nmax_subscriptions: 2\n' } }
  local events, on_event = listen "refused"
  local bus = connect(server:address(), { on_event = on_event })
  for i = 1, 3 do bus:subscribe("s" .. i) end
  bus:flush(5)
  rl.sleep(0)
  t.equal({ #events, events[1] and events[1].message, events[1] and events[1].code },
    { 2, "EPROTO: the server says: maximum subscriptions exceeded", "EPROTO" })
  t.equal(bus:status(), "connected")
end)

t.it("an event reports unconfirmed messages when a server ends after lame duck mode", function()
  local one, two = nats.fake(), nats.fake()
  local events, on_event = listen "disconnected"
  local bus = connect({ one, two }, { on_event = on_event })
  local first = #one._clients == 1 and one or two
  bus:flush()
  first:stall(3600)
  for _ = 1, 5 do bus:publish("a", "1234") end
  first._clients[1].stream:queue 'INFO {"ldm":true}\r\n'
  rl.sleep(30)
  t.equal(bus:status(), "connected")
  t.equal({ #events, events[1] and events[1].messages, events[1] and events[1].bytes }, { 1, 5, 20 })
end)

t.it("only 127.x.x.x and names of this machine count as loopback", { real_time = true }, function()
  local got = rl.future()
  local listener = t.truthy(net.serve(0, { keeps_alive = false }, function(stream)
    stream:write 'INFO {"server_id":"x","max_payload":1000}\r\n'
    got:complete(stream:read(1))
  end))
  t.finally(function() listener:close() end)
  -- 127.1 is also an address of this machine, but a name such as 127.1.example.org may lead anywhere.
  local where = "127.1:" .. listener:port()
  t.equal(select(3, nats.connect(where, { password = "x", timeout = 5 })), "EACCES")
  t.equal(got:await(5), nil)
  t.error(function() nats.connect "a:0" end, "a server must be")
  t.error(function() nats.connect "70000" end, "a server must be")
  -- A port alone means a server on this machine, whether it is given as a text or as a number.
  local _, text, code = nats.connect(tostring(listener:port()), { timeout = 5 })
  t.equal({ text, code }, { select(2, nats.connect(listener:port(), { timeout = 5 })) })
  t.truthy(code ~= "ENOENT", text)
  t.error(function() nats.connect(1, { reconnect = { first = -1 } }) end,
    "nats.connect: field 'reconnect': field 'first'")
end)

t.it("message:respond rejects an invalid reply subject that a script has set", function()
  local bus = connect(nats.fake())
  local s = bus:subscribe "a"
  bus:publish("a", "x", { reply = "b" })
  local m = t.truthy(s:receive(1))
  for _, reply in ipairs { "b 0\r\n\r\nPUB c 0\r\n", "a b", "a.*", 5 } do
    m.reply = reply
    t.error(function() m:respond "x" end, "message:respond")
  end
end)

t.it("a bus does not connect without TLS to a server that had TLS before", { real_time = true }, function()
  local info = { server_id = "x", version = "2.9.10", headers = true, max_payload = 1000 }
  local got = {}
  local listener = t.truthy(net.serve(0, { keeps_alive = false }, function(stream)
    stream:write("INFO " .. json.encode(info) .. "\r\n")
    got[#got + 1] = stream:read_line() or "nothing"
    stream:write "PONG\r\n"
    repeat until not stream:read_line()
  end))
  t.finally(function() listener:close() end)
  local bus = connect(listener:port(), { reconnect = { first = 0.01, most = 0.05 } })
  -- From here on, the bus behaves as if the first connection had been encrypted.
  bus._had_tls = true
  bus._link:lose("cut", "ECONNRESET")
  t.eventually(function() return #got > 2 end)
  t.equal(bus:status(), "reconnecting")
  for i = 2, #got do t.equal(got[i], "nothing") end
end)
