-- Message ports over a bus when something fails: the cells of the table of promises in docs/message-ports.md.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, hold, reach, warnings = buses.connect, buses.hold, buses.reach, buses.warnings
local await = buses.await

local function fake(options)
  options = options or {}
  options.latency = options.latency or 0.0001
  return nats.fake(options)
end

-- Ends the connection of a bus in the way in which killing its process would.
local function kill(server, bus)
  for _, client in ipairs { table.unpack(server._clients) } do
    if client.fields.name == bus._options.name then client.stream:abort() end
  end
end

-- Holders that die while they work ------------------------------------------------------------------------------------

t.it("a sender notices within 3 s that the only holder was killed, and within 8 s that one of several was", function()
  for _, others in ipairs { 0, 1, 3 } do
    for after = 0, 5, 0.7 do
      local server, go = fake(), rl.future()
      warnings()
      local victim = connect(server, { name = "victim", reconnect = false })
      hold(victim, "p", function() go:await() end)
      local remote = reach(connect(server, { name = "sender" }), "p")
      local request = rl.task(function() return remote:request(1, "x") end)
      rl.sleep(0.01)
      for _ = 1, others do hold(connect(server, { name = "other" }), "p", function(_, _, data) return data end) end
      rl.sleep(after)
      t.equal(request:status(), "waiting")
      kill(server, victim)
      local killed = rl.now()
      t.equal({ request:await(20) }, { nil, "became invalid" })
      t.truthy(rl.now() - killed <= (others == 0 and 3 or 8), "after " .. rl.now() - killed .. " s")
      -- The other messages are still delivered.
      if others > 0 then
        t.equal(remote:request(1, "y"), "y")
        t.equal({ remote:is_valid(), remote:send(1, ""), remote:flush() }, { true, true, true })
      else
        t.equal(remote:is_valid(), false)
      end
      go:complete()
    end
  end
end)

t.it("a call returns \"invalid\" within 100 ms if there is no holder", function()
  local server = fake { latency = 0.02 }
  local bus = connect(server)
  for _, use in ipairs { "send", "request" } do
    local remote, began = reach(bus, "nobody"), rl.now()
    t.equal({ remote[use](remote, 1, "x") }, { nil, "invalid" })
    t.truthy(rl.now() - began <= 0.1)
  end
  -- A holder whose loop does not run still counts as a receiver.
  hold(connect(server), { name = "p", modes = "another" }, function() end)
  t.equal({ reach(bus, "p"):send(1, "x") }, { true })
end)

t.it("a warning names a message that a lost holder had, although another holder continues", function()
  local server, go, warned = fake(), rl.future(), warnings()
  local victim = connect(server, { name = "victim", reconnect = false })
  hold(victim, "p", function() go:await() end)
  local remote = reach(connect(server, { name = "sender" }), "p")
  t.equal(remote:send(7, "x"), true)
  rl.sleep(0.01)
  hold(connect(server, { name = "other" }), "p", function() end)
  kill(server, victim)
  t.equal({ remote:flush() }, { nil, "became invalid" })
  t.equal(warned, { 'rlhost: warning: remote port "p": message 7 could not be handled: became invalid\n' })
  t.equal({ remote:is_valid(), remote:unacknowledged(), remote:flush() }, { true, 0, true })
  go:complete()
end)

t.it("a sender asks holders no questions about quick answers", function()
  local server = fake()
  hold(connect(server), "p", function(_, id)
    if id == 2 then rl.sleep(0.9) end
  end)
  local remote = reach(connect(server), "p")
  for i = 1, 300 do t.equal(remote:send(i, "x"), true) end
  t.equal(remote:flush(), true)
  for _ = 1, 5 do t.equal(remote:request(2, ""), "") end
  for _, line in ipairs(server:received()) do t.equal(line:find "^H?PUB rl%.who", nil) end
end)

t.it("questions that were not delivered do not count: a cut ends calls after two pings", function()
  local server = fake()
  hold(connect(server, { name = "holder", ping = 3600 }), "p", function() rl.sleep(3) return "late" end)
  local bus = connect(server, { name = "sender" })
  local remote = reach(bus, "p")
  -- The connection stalls for less than two ping intervals, so it is kept, and the answer comes late.
  local request = rl.task(function() return remote:request(1, "x") end)
  rl.sleep(0.5)
  server:stall(15)
  t.equal({ request:await(40) }, { "late" })
  -- The connection stalls for longer than before.
  request = rl.task(function() return remote:request(1, "x") end)
  rl.sleep(0.5)
  server:stall(60)
  local began = rl.now()
  t.equal({ request:await(40) }, { nil, "became invalid" })
  t.truthy(rl.now() - began > 9 and rl.now() - began <= 30, rl.now() - began)
  t.equal(remote:is_valid(), false)
  rl.sleep(60)
  t.equal(reach(bus, "p"):request(1, "x"), "late")
end)

t.it("an idle port survives lost connections; calls under way become invalid", function()
  local server, warned = fake(), warnings()
  hold(connect(server), "p", function(_, id)
    if id == 2 then rl.sleep(0.5) end
    return "yes"
  end)
  local bus = connect(server)
  local remote = reach(bus, "p")
  t.equal(remote:request(1, ""), "yes")
  server:drop()
  rl.sleep(1)
  t.equal(remote:request(1, ""), "yes")
  server:stop()
  rl.sleep(0.01)
  local waits = rl.task(function() return remote:request(1, "") end)
  local limited = rl.task(function() return remote:request(1, "", { send_timeout = 0.5 }) end)
  t.equal({ limited:await() }, { nil, "send timed out" })
  server:start()
  -- The request also waits if the holder reconnects later than the sender.
  t.equal(waits:await(20), "yes")
  local request = rl.task(function() return remote:request(2, "") end)
  t.equal(remote:send(2, ""), true)
  server:drop()
  t.equal({ request:await() }, { nil, "became invalid" })
  t.equal({ remote:is_valid(), remote:unacknowledged(), reach(bus, "p") == remote }, { false, 1, false })
  t.equal(warned, { 'rlhost: warning: remote port "p": became invalid; 1 messages are not known to have been '
    .. "handled\n" })
  rl.sleep(1)
end)

-- One holder ----------------------------------------------------------------------------------------------------------

t.it("a port with a lease has one holder, and the error for others names it", function()
  local server, ended = fake { jetstream = true }, 0
  local one, two = connect(server, { name = "one" }), connect(server)
  local first = hold(one, { name = "a.b", holders = "one", on_invalidate = function() ended = ended + 1 end },
    function() return "first" end)
  local pid = math.tointeger(io.open "/proc/self/stat":read "n")
  local host = io.open "/proc/sys/kernel/hostname":read "l"
  local options = { name = "a.b", holders = "one", via = two, callback = print }
  t.equal({ rl.message_port(options) },
    { nil, ('EADDRINUSE: process %d on %s has the name "a.b"'):format(pid, host), "EADDRINUSE" })
  first:invalidate()
  t.equal(ended, 1)
  local second = t.truthy(rl.message_port(options))
  second:invalidate()
  -- A killed holder has lost the lease when the lease's time is over.
  warnings()
  t.truthy(hold(one, { name = "a.b", holders = "one" }, function() end))
  local began = rl.now()
  kill(server, one)
  server._is_stopped = true
  rl.sleep(4)
  server._is_stopped = false
  options.modes = "common"
  options.callback = function() return "third" end
  t.equal(t.truthy(rl.message_port(options)):is_valid(), true)
  t.truthy(rl.now() - began < 12, rl.now() - began)
  t.equal(reach(two, "a.b"):request(1, ""), "third")
end)

t.it("a port ends when its lease is lost", function()
  local server, warned, ended = fake { jetstream = true }, warnings(), rl.future()
  local bus = connect(server)
  local port = hold(bus, { name = "l", holders = "one", on_invalidate = function() ended:complete "ended" end },
    function() end)
  server:stop()
  t.equal(ended:await(10), "ended")
  t.equal(port:is_valid(), false)
  t.equal(#warned, 1)
  t.truthy(warned[1]:find('^rlhost: warning: message port "l": the lease was lost: it was not renewed for'), warned[1])
end)

-- Stored --------------------------------------------------------------------------------------------------------------

t.it("a durable port stores messages for a holder that comes later, in order", function()
  local server, got = fake { jetstream = true }, {}
  local bus = connect(server)
  local remote = reach(bus, "d", { durable = true })
  t.equal(reach(bus, "d", { durable = true }) == remote, true)
  t.equal(reach(bus, "d") == remote, false)
  for i = 1, 600 do t.equal(remote:send(i, "m" .. i), true) end
  t.equal({ remote:flush(10), remote:unacknowledged(), remote:is_valid() }, { true, 0, true })
  hold(connect(server), { name = "d", durable = true }, function(_, id, data, delivered)
    got[#got + 1] = data
    t.equal({ "m" .. id, 1 }, { data, delivered })
  end)
  await(function() return #got == 600 end, "all have come")
  for i = 1, 600 do t.equal(got[i], "m" .. i) end
  await(function() return bus:stream "RL_PORT_d":info().messages == 0 end, "all are acknowledged")
  t.error(function() remote:request(1, "") end, "remote_port:request: a durable port sends no answers; use send")
end)

t.it("a durable port buffers 256 messages without a network, then waits, and stores each once, in order", function()
  local server, got = fake { jetstream = true }, {}
  local bus = connect(server)
  local remote = reach(bus, "d", { durable = true })
  for i = 1, 50 do t.equal(remote:send(i, "x"), true) end
  server:stop()
  for i = 51, 256 do t.equal(remote:send(i, "x", { timeout = 0 }), true) end
  t.truthy(remote:unacknowledged() >= 206)
  while remote:send(257, "x", { timeout = 0 }) do end
  t.equal({ remote:send(257, "x", { timeout = 5 }) }, { nil, "send timed out" })
  t.equal({ remote:flush(1) }, { nil, "reply timed out" })
  local last = rl.task(function() return remote:send(258, "x") end)
  server:start()
  t.equal({ last:await(30), remote:flush(30), remote:unacknowledged() }, { true, true, 0 })
  local seen = {}
  hold(connect(server), { name = "d", durable = true }, function(_, id)
    t.equal(seen[id] and id ~= 257, nil)
    seen[id], got[#got + 1] = true, id
  end)
  await(function() return got[#got] == 258 end, "all have come")
  for i = 1, 256 do t.equal(got[i], i) end
end)

t.it("a durable port stores each message once over cuts at any byte", function()
  local server, counts, last = fake { jetstream = true }, {}, 0
  local remote = reach(connect(server), "d", { durable = true })
  hold(connect(server), { name = "d", durable = { ack_wait = 5 } }, function(_, id, _, delivered)
    counts[id] = (counts[id] or 0) + 1
    if counts[id] > 1 then t.truthy(delivered > 1) end
  end)
  for cut = 1, 2000, 37 do
    server:drop(cut)
    last = last + 1
    t.equal(remote:send(last, "x"), true)
    t.equal(remote:flush(60), true)
    server._drop_after = nil
  end
  await(function()
    for i = 1, last do if not counts[i] then return false end end
    return true
  end, "all have come")
  t.equal(server._store.streams.RL_PORT_d.last, last)
end)

t.it("a message goes to another holder when its holder is killed, and becomes a dead letter in the end", function()
  local server, warned = fake { jetstream = true }, warnings()
  local settings, go, deliveries = { ack_wait = 2, max_deliver = 3 }, rl.future(), {}
  local remote = reach(connect(server, { name = "sender" }), "k", { durable = true })
  t.equal({ remote:send(5, "work"), remote:flush() }, { true, true })
  for i = 1, 3 do
    local victim = connect(server, { name = "victim" .. i, reconnect = false })
    hold(victim, { name = "k", durable = settings }, function(_, _, _, delivered)
      deliveries[#deliveries + 1] = delivered
      go:await()
    end)
    await(function() return #deliveries == i end, "it was delivered")
    kill(server, victim)
  end
  t.equal(deliveries, { 1, 2, 3 })
  local bus = connect(server, { name = "last" })
  hold(bus, { name = "k", durable = settings }, function() deliveries[4] = true end)
  await(function() return #warned == 1 end, "it was put away")
  t.equal(warned, { 'rlhost: warning: message port "k": a message goes to rl.dead.port.k after 4 deliveries: the '
    .. "holder's process has ended during each of 3 deliveries\n" })
  local m = t.truthy(bus:stream "RL_DEAD":consumer(nil, {}):receive(5))
  t.equal({ m.subject, m.data, m.headers["Rl-Id"], m.headers["Rl-Kind"], m.headers["Rl-Error"] },
    { "rl.dead.port.k", "work", "5", "send", "the holder's process has ended during each of 3 deliveries" })
  t.equal({ #deliveries, bus:stream "RL_PORT_k":info().messages }, { 3, 0 })
  go:complete()
end)

t.it("a message becomes a dead letter, with the error, if its callback fails each time", function()
  local server, warned, errors = fake { jetstream = true }, warnings(), 0
  local before
  before = rl.on_error(function() errors = errors + 1 end)
  t.finally(function() rl.on_error(before) end)
  local bus = connect(server)
  local remote = reach(connect(server), "e", { durable = true })
  hold(bus, { name = "e", durable = { max_deliver = 2 } }, function(_, id)
    if id == 1 then error("line one\nline two", 0) end
    if id == 2 then return 42 end
  end)
  t.equal({ remote:send(1, "a"), remote:send(2, "b"), remote:send(3, "c"), remote:flush() }, { true, true, true, true })
  await(function() return #warned == 2 end, "they were put away")
  local dead, by = t.truthy(bus:stream "RL_DEAD"):consumer(nil, {}), {}
  for _ = 1, 2 do
    local m = t.truthy(dead:receive(5))
    by[m.data] = m.headers["Rl-Error"]
    m:ack()
  end
  t.equal(by, { a = "line one line two", b = "the callback of a message port must return a string or nil, not 42" })
  await(function() return bus:stream "RL_PORT_e":info().messages == 0 end, "nothing is left")
  await(function()
    collectgarbage()
    return errors == 4
  end, "each failure is an error")
end)

t.it("stored messages with wrong headers become dead letters", function()
  local server, warned = fake { jetstream = true }, warnings()
  local bus = connect(server)
  hold(bus, { name = "w", durable = true }, function() t.equal("called", nil) end)
  t.truthy(bus:stream "RL_PORT_w":publish("rl.durable.w", "x", { headers = { ["Rl-Id"] = "no" } }))
  await(function() return #warned == 1 end, "it was put away")
  t.truthy(warned[1]:find "Rl%-Id is not an integer of 32 bits")
  t.equal(bus:stream "RL_PORT_w":info().messages, 0)
end)

t.it("a durable port accepts equal settings, and the error names those that differ", function()
  local server = fake { jetstream = true }
  local bus = connect(server)
  local port = hold(bus, { name = "s", durable = { max_age = 60, ack_wait = 3, max_deliver = 2 } }, function() end)
  t.truthy(reach(bus, "s", { durable = { max_age = 60 } }))
  port:invalidate()
  local _, text, code = rl.message_port { name = "s", via = bus, callback = print, durable = { max_age = 61 } }
  t.equal({ text, code }, { "EEXIST: stream RL_PORT_s exists with other settings: max_age is 60, not 61; duplicates "
    .. "is 60, not 61", "EEXIST" })
  _, text, code = rl.message_port { name = "s", via = bus, callback = print, durable = { max_age = 60, ack_wait = 4 } }
  t.equal({ text, code },
    { "EEXIST: the consumer port of stream RL_PORT_s exists with other settings: ack_wait is 3, not 4", "EEXIST" })
  t.equal(select(3, rl.message_port { name = "s", via = connect(fake()), callback = print, durable = true }), "ENOTSUP")
  t.equal(select(3, rl.remote_port("s", { via = connect(fake()), durable = true })), "ENOTSUP")
end)

t.it("a port gets no message of another port whose stream would have the same name", function()
  local bus = connect(fake { jetstream = true })
  local remote = reach(bus, "a.b", { durable = true })
  t.equal(remote:send(1, "for a.b"), true)
  t.equal(remote:flush(10), true)
  local refused = { nil, "EEXIST: stream RL_PORT_a_b exists with other settings: subjects is rl.durable.a.b, not "
    .. "rl.durable.a_b", "EEXIST" }
  t.equal({ rl.message_port { name = "a_b", via = bus, callback = print, durable = true, modes = "common" } }, refused)
  t.equal({ rl.remote_port("a_b", { via = bus, durable = true }) }, refused)
  t.equal(bus:stream("RL_PORT_a_b"):info().messages, 1)
end)

t.it("a durable port makes its stream again after that was removed", function()
  local server = fake { jetstream = true }
  local bus = connect(server)
  local remote = reach(bus, "r", { durable = true })
  t.equal({ remote:send(1, "x"), remote:flush() }, { true, true })
  t.equal(bus:stream "RL_PORT_r":remove(), true)
  t.equal({ remote:send(2, "y"), remote:flush(30) }, { true, true })
  t.equal(bus:stream "RL_PORT_r":info().messages, 1)
end)

-- Real servers and processes ------------------------------------------------------------------------------------------

-- Starts a program whose port answers in capitals; it answers id 2 after a while.
local function start_holder(url, options)
  local program = t.spawn { t.rlhost, "-e", ([[
    local rl = require "runloop"
    local bus = assert(require "runloop.nats".connect %q)
    rl.on_error(function(err) print("error", err) end)
    assert(rl.message_port { name = "p", via = bus, modes = "common", %s callback = function(port, id, data, delivered)
      print("got " .. id, data, delivered)
      io.flush()
      if id == 2 then rl.sleep(60) end
      return data:upper()
    end })
    print "ready"
    io.flush()]]):format(url, options or "") }
  program:wait_for "ready"
  return program
end

local REAL = { real_time = true, timeout = 60 }

t.it("a call ends when its holder is killed, alone and beside another one", REAL, function()
  local url, warned = t.server "nats":url(), warnings()
  local bus = connect(url)
  local first <close> = start_holder(url)
  local remote = reach(bus, "p")
  t.equal(remote:request(1, "a"), "A")
  local request = rl.task(function() return remote:request(2, "") end)
  first:wait_for "got 2"
  first:signal "KILL"
  local began = rl.now()
  t.equal({ request:await(30) }, { nil, "became invalid" })
  local alone = rl.now() - began
  t.equal({ remote:is_valid(), remote:request(1, "") }, { false, nil, "invalid" })
  local second <close> = start_holder(url)
  local other <close> = start_holder(url)
  remote = reach(bus, "p")
  local requests = {}
  for i = 1, 20 do requests[i] = rl.task(function() return remote:request(2, tostring(i)) end) end
  await(function() return second:output():find "got 2" and other:output():find "got 2" end, "both have some")
  rl.sleep(0.5)
  local had = select(2, second:output():gsub("got 2", ""))
  second:signal "KILL"
  began = rl.now()
  local ended = 0
  for _, task in ipairs(requests) do rl.task(function()
    local answer, reason = task:await()
    t.equal({ answer, reason }, { nil, "became invalid" })
    ended = ended + 1
  end) end
  await(function() return ended == had end, "those of the killed one have ended")
  t.equal({ remote:is_valid(), remote:request(1, "b") }, { true, "B" })
  print(("became invalid %.1f s after the kill of the only holder, %.1f s after that of one of two"):format(alone,
    rl.now() - began))
  rl.sleep(3)
  t.equal(ended, had)
  other:signal "KILL"
  await(function() return ended == 20 end, "all have ended")
  t.equal(#warned, 0)
end)

t.it("a holder may be stopped for a short time, and counts as lost after a long one", REAL, function()
  local url = t.server "nats":url()
  local holder <close> = start_holder(url)
  local remote = reach(connect(url), "p")
  t.equal(remote:request(1, "a"), "A")
  holder:signal "STOP"
  local request = rl.task(function() return remote:request(1, "b") end)
  rl.sleep(3.2)
  t.equal(request:status(), "waiting")
  holder:signal "CONT"
  t.equal(request:await(10), "B")
  holder:signal "STOP"
  request = rl.task(function() return remote:request(1, "c") end)
  t.equal({ request:await(30) }, { nil, "became invalid" })
  -- "became invalid" means that the request may have been handled; here it was.
  holder:signal "CONT"
  holder:wait_for "got 1\tc"
  t.equal(remote:request(1, "d"), "D")
end)

t.it("calls end when the server is killed, and work again after its start", REAL, function()
  local real, warned = t.server "nats", warnings()
  local holder <close> = start_holder(real:url())
  local bus = connect(real:url())
  local remote = reach(bus, "p")
  local request = rl.task(function() return remote:request(2, "") end)
  holder:wait_for "got 2"
  real:kill()
  t.equal({ request:await(30) }, { nil, "became invalid" })
  real:restart()
  remote = reach(bus, "p")
  await(function()
    if not remote:is_valid() then remote = reach(bus, "p") end
    return remote:request(1, "again") == "AGAIN"
  end, "it answers again")
  t.equal(#warned, 0)
end)

t.it("stored messages survive a killed worker and a killed server", REAL, function()
  local real = t.server "nats"
  local bus = connect(real:url())
  local remote = reach(bus, "p", { durable = true })
  local durable = "durable = { ack_wait = 1 },"
  for i = 10, 29 do t.equal(remote:send(i, "m"), true) end
  t.equal(remote:flush(20), true)
  real:kill()
  t.equal(remote:send(30, "m"), true)
  real:restart()
  t.equal(remote:flush(30), true)
  local first <close> = start_holder(real:url(), durable)
  first:wait_for "got 30\tm\t1"
  t.equal({ remote:send(2, "slow"), remote:flush(20) }, { true, true })
  first:wait_for "got 2\tslow\t1"
  first:signal "KILL"
  local second <close> = start_holder(real:url(), durable)
  second:wait_for "got 2\tslow\t2"
  for i = 10, 30 do t.truthy(first:output():find("got " .. i .. "\tm\t1", 1, true)) end
end)

t.it("a user without rights to the subjects of a port is refused", REAL, function()
  local real = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] = [[
listen: "127.0.0.1:{port}"
authorization { users = [
  { user: all, password: p }
  { user: some, password: p, permissions: { publish: { deny: ["rl.port.secret", "rl.port.deep.>"] },
    subscribe: { deny: ["rl.port.secret", "$SRV.>"] } } }
] }
]] } }
  local function as(user)
    return connect(real:address(), { user = user, password = "p", on_event = function() end })
  end
  local all, some = as "all", as "some"
  hold(all, "secret", function() return "secret" end)
  hold(some, "open", function() return "open" end)
  t.equal({ reach(all, "secret"):request(1, ""), reach(some, "open"):request(1, "") }, { "secret", "open" })
  local refused = "EACCES: the server refuses rl.port.secret: Permissions Violation for "
  t.equal({ reach(some, "secret"):request(1, "") },
    { nil, "transport error: " .. refused .. 'Publish to "rl.port.secret"' })
  t.equal({ reach(some, "secret"):send(1, ""), reach(some, "secret"):flush(5) },
    { true, nil, "transport error: " .. refused .. 'Publish to "rl.port.secret"' })
  local _, text, code = rl.message_port { name = "secret", via = some, callback = print }
  t.equal(code, "EACCES")
  t.equal(text:sub(1, #refused), refused)
  -- The port "open" has two subscriptions, and nine for discovery.
  t.equal(some:stats().subscriptions, 11)
end)
