-- Message ports over a bus: wrong arguments, memory, inspection, nested runs, threads.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, hold, reach, warnings = buses.connect, buses.hold, buses.reach, buses.warnings

local function fake(options)
  options = options or {}
  options.latency = 0.0001
  return nats.fake(options)
end

t.it("wrong arguments raise errors that name the call", function()
  local bus = connect(fake { jetstream = true })
  local port, remote = hold(bus, "p", function() end), reach(bus, "p")
  local function make(field, value)
    return function()
      local options = { name = "x", via = bus, callback = print }
      options[field] = value
      rl.message_port(options)
    end
  end
  for _, case in ipairs {
    { make("via", 1), "rl.message_port: field 'via' must be a bus, as nats.connect returns it, got 1" },
    { make("via", port), "rl.message_port: field 'via' must be a bus, as nats.connect returns it, got a mess" },
    { make("callback", nil), "rl.message_port: field 'callback' is missing (" },
    { make("callback", 1), "rl.message_port: field 'callback' must be a function, got 1" },
    { make("name", nil), "rl.message_port: field 'name' is missing (a string)" },
    { make("name", 7), "rl.message_port: field 'name' must be a string, got 7" },
    { make("calback", print), "rl.message_port: unknown field 'calback' (did you mean 'callback'?)" },
    { make("order", 1.5), "rl.message_port: field 'order' must be an integer, got 1.5" },
    { make("on_invalidate", {}), "rl.message_port: field 'on_invalidate' must be a function, got a table" },
    { make("keeps_alive", 1), "rl.message_port: field 'keeps_alive' must be a boolean, got 1" },
    { make("modes", 1), "rl.message_port: field 'modes' must be a mode or a list of modes, got 1" },
    { make("holders", "two"), "rl.message_port: field 'holders' must be \"one\" or \"many\", got \"two\"" },
    { make("durable", 1), "rl.message_port: field 'durable' must be a boolean or a table, got 1" },
    { make("durable", { max_age = -1 }), "field 'durable'" },
    { make("durable", { ack_wait = 0 }),
      "rl.message_port: field 'durable': field 'ack_wait' must be a number from 0.1 to 86400" },
    { make("durable", { replicas = 6 }),
      "rl.message_port: field 'durable': field 'replicas' must be an integer from 1 to 5, got 6" },
    { make("durable", { max_deliver = 0 }), "field 'max_deliver' must be an integer, 1 or more, got 0" },
    { make("durable", { age = 1 }), "rl.message_port: field 'durable': unknown field 'age'" },
    { function() rl.remote_port(7, { via = bus }) end, "rl.remote_port: argument #1 must be a string, got 7" },
    { function() rl.remote_port("x", { via = {} }) end, "rl.remote_port: field 'via' must be a bus, as" },
    { function() rl.remote_port("x", { via = bus, holders = "one" }) end, "rl.remote_port: unknown field 'holders'" },
    { function() rl.remote_port("x", { via = bus, durable = "y" }) end, "rl.remote_port: field 'durable' must be a" },
    { function() remote:request("x", "") end,
      "remote_port:request: argument #1 must be an integer from -2147483648 to 2147483647, got \"x\"" },
    { function() remote:request(1 << 31, "") end, "remote_port:request: argument #1 must be an integer from" },
    { function() remote:request(1.0, "") end, "remote_port:request: argument #1 must be an integer from" },
    { function() remote:request(1) end, "remote_port:request: argument #2 must be a string, got nothing" },
    { function() remote:request(1, "", 1) end, "remote_port:request: argument #3 must be a table, got 1" },
    { function() remote:request(1, "", { reply_timeout = 0 / 0 }) end,
      "remote_port:request: field 'reply_timeout' must be a number of seconds" },
    { function() remote:request(1, "", { send_timeout = -1 }) end, "remote_port:request: field 'send_timeout' must" },
    { function() remote:request(1, "", { timeout = 1 }) end, "remote_port:request: unknown field 'timeout'" },
    { function() remote:request(1, "", { reply_mode = "common" }) end,
      "remote_port:request: field 'reply_mode' must be the name of one mode, not of all common ones" },
    { function() remote:request(1, "", { reply_mode = 1 }) end, "remote_port:request: field 'reply_mode' must be" },
    { function() remote:send("x", "") end, "remote_port:send: argument #1 must be an integer from" },
    { function() remote:send(1, nil) end, "remote_port:send: argument #2 must be a string, got nothing" },
    { function() remote:send(1, "", { timeout = "x" }) end, "remote_port:send: field 'timeout' must be a number of" },
    { function() remote:flush "x" end, "remote_port:flush: argument #1 must be a number of seconds, 0 or more, got" },
    { function() port:set_name "y" end, "message_port:set_name: a port over a bus keeps its name; make another port" },
    { function() rl.thread(print, port) end, "cannot send" },
    { function() rl.thread(print, remote) end, "cannot send" },
    { function() remote.flush() end, "remote_port:flush: call it with a colon, on a remote_port" },
    { function() port.invalidate() end, "message_port:invalidate: call it with a colon, on a message_port" },
  } do
    local fine, message = pcall(case[1])
    if fine or not tostring(message):find(case[2], 1, true) then t.equal(message, case[2]) end
  end
  t.equal({ remote:request(1, ""), remote:unacknowledged() }, { "", 0 })
end)

t.it("message_port and remote_port reject invalid names", function()
  local bus = connect(fake())
  for _, name in ipairs { "", ".", "a.", ".a", "a..b", "a b", "a*", ">", "ä", "a/b", "a\0", ("x"):rep(101) } do
    local text = 'EINVAL: a name over a bus has 1 to 100 bytes: letters, digits, "_" and "-", in words with "." '
      .. "between them"
    t.equal({ rl.message_port { name = name, via = bus, callback = print } }, { nil, text, "EINVAL" })
    t.equal({ rl.remote_port(name, { via = bus }) }, { nil, text, "EINVAL" })
  end
  t.truthy(rl.message_port { name = ("x"):rep(100), via = bus, callback = print })
end)

t.it("ports of this machine are not changed by a bus", function()
  local name = "nats.ports." .. os.time() .. math.random(1e9)
  local port = t.truthy(rl.message_port { name = name, callback = function(_, _, data) return data end })
  rl.current():add(port)
  local remote = t.truthy(rl.remote_port(name))
  t.equal(remote:request(1, "x"), "x")
  t.error(function() rl.message_port { name = name, callback = print, holders = "one" } end,
    "rl.message_port: unknown field 'holders'")
  t.error(function() rl.remote_port(name, { durable = true }) end,
    "rl.remote_port: field 'durable' needs field 'via', a bus of runloop.nats")
  t.error(function() rl.remote_port(name, { holders = "one" }) end, "rl.remote_port: unknown field 'holders'")
  t.error(function() rl.remote_port(name, 5) end, "rl.remote_port: an options table is expected, got 5")
  t.equal(rl.remote_port(name, {}), remote)
  remote:invalidate()
  port:invalidate()
end)

t.it("ended calls and dropped ports leave no memory behind", { timeout = 60 }, function()
  local server = fake()
  local holder, bus = connect(server), connect(server)
  hold(holder, "m", function(_, id, data) return id == 2 and rl.sleep(0.001) or data end)
  local go
  hold(holder, "stuck", function() go:await() end)
  local function used()
    -- The memory for messages that the fake has received belongs to the test, not to the ports.
    server._received = {}
    for _ = 1, 3 do collectgarbage() end
    return collectgarbage "count" * 1024
  end
  local cases = {
    requests = function(n)
      local remote = reach(bus, "m")
      for _ = 1, n do assert(remote:request(1, "x")) end
    end,
    sends = function(n)
      local remote = reach(bus, "m")
      for _ = 1, n do assert(remote:send(1, "x")) end
      assert(remote:flush())
    end,
    cancelled = function(n)
      local remote = reach(bus, "stuck")
      for _ = 1, n // 100 do
        go = rl.future()
        local tasks = {}
        for i = 1, 100 do tasks[i] = rl.task(function() return remote:request(1, "x") end) end
        for i = 1, 100 do tasks[i]:cancel() end
        go:complete()
        rl.sleep(0.01)
      end
    end,
    late = function(n)
      local remote = reach(bus, "m")
      for _ = 1, n do remote:request(2, "x", { reply_timeout = 0 }) end
      rl.sleep(1)
    end,
    remotes = function(n)
      for i = 1, n do reach(bus, "m" .. i) end
    end,
    ["remotes that were used"] = function(n)
      for i = 1, n // 10 do reach(bus, "u" .. i):request(1, "") end
    end,
    ports = function(n)
      for i = 1, n // 10 do hold(holder, "port" .. i, print):invalidate() end
    end,
  }
  for name, fn in pairs(cases) do
    local n, least = 1000, math.huge
    fn(n)
    -- Lua's blocks come and go in pieces of 64 kB: a leak shows in each round.
    for _ = 1, 3 do
      local before = used()
      fn(n)
      least = math.min(least, (used() - before) / n)
    end
    t.truthy(least < 32, ("%s: %.1f bytes each"):format(name, least))
  end
  t.equal({ bus:stats().requests, bus:stats().subscriptions, bus._held_calls }, { 0, 0, 0 })
end)

t.it("an idle port costs nothing, and keeps no program running", function()
  local server = fake()
  local bus = connect(server)
  hold(connect(server), "i", function() end)
  local remote = reach(bus, "i")
  t.equal({ remote:send(1, ""), remote:flush() }, { true, true })
  rl.sleep(5)
  local before = rl.current():stats().passes
  local received = #server:received()
  rl.sleep(9)
  t.truthy(rl.current():stats().passes - before < 20)
  t.truthy(#server:received() - received < 6, "only pings of the buses")
end)

t.it("inspect and rl.why list ports and waits", function()
  local server, go = fake(), rl.future()
  local bus = connect(server, { name = "the sender" })
  hold(bus, "see", function() go:await() end)
  local remote = reach(bus, "see")
  local task = rl.task { function()
    local answer = remote:request(1, "")
    return answer
  end, name = "asker" }
  for _ = 1, 3 do remote:send(1, "") end
  rl.sleep(0.01)
  local why = rl.why()
  t.truthy(why:find('remote_port "see" of nats "fake"', 1, true), why)
  local text = rl.inspect(rl.current():inspect())
  t.truthy(text:find("message_port", 1, true), text)
  t.truthy(text:find("via NATS, 4 under way", 1, true), text)
  t.truthy(tostring(remote):find '^remote_port "see" %(via NATS, 3 unacknowledged, made at ', tostring(remote))
  go:complete()
  t.equal({ task:await(), remote:flush() }, { "", true })
end)

t.it("discover finds a port", function()
  local server = fake()
  local bus = connect(server)
  local port = hold(bus, "org.found", function() end)
  t.equal(reach(bus, "org.found"):request(1, ""), "")
  local found = t.truthy(nats.discover(bus, { name = "org.found" }))
  t.equal({ #found, found[1].name, found[1].stats.endpoints[1].subject, found[1].stats.endpoints[1].num_requests },
    { 1, "org_found", "rl.port.org.found", 1 })
  port:invalidate()
  t.equal(#t.truthy(nats.discover(bus, { name = "org.found" })), 0)
end)

t.it("messages keep the program alive until they are handled", { real_time = true }, function()
  local server = t.server "nats"
  local script = ([[
    local rl, nats = require "runloop", require "runloop.nats"
    local bus = assert(nats.connect %q)
    local port = assert(rl.message_port { name = "k", via = bus, modes = "common", keeps_alive = false,
      callback = function(_, id) rl.sleep(0.3) print("handled", id) end })
    local remote = assert(rl.remote_port("k", { via = bus }))
    assert(remote:send(1, ""))
    print "end"
  ]]):format(server:url())
  local program = t.spawn { t.rlhost, "-e", script }
  t.equal(program:wait { within = 10 }, 0)
  t.equal(program:output(), "end\nhandled\t1\n")
end)

t.it("nested runs in one mode give each call its own answer", function()
  local server = fake()
  local modes = { "common", "quiet" }
  local there = connect(server)
  hold(there, { name = "n", modes = modes }, function(_, id, data)
    rl.sleep(id)
    return data
  end)
  local bus, order, ended = connect(server), {}, 0
  local remote = reach(bus, "n")
  local all = rl.future()
  local function ask(id)
    local answer = remote:request(id, "answer " .. id, { reply_mode = "quiet" })
    order[#order + 1] = answer
    ended = ended + 1
    if ended == 3 then all:complete() end
  end
  -- The inner runs wait for longer than the outer one, and receive its answer.
  rl.timer { delay = 0.1, modes = modes, callback = function() ask(2) end }
  rl.timer { delay = 0.2, modes = modes, callback = function() ask(3) end }
  rl.timer { delay = 0.3, modes = modes, callback = function() ask(1) end }
  all:await(30)
  t.equal(order, { "answer 1", "answer 3", "answer 2" })
end)

t.it("a callback can wait in a run for an answer of its own port", function()
  local server = fake()
  local modes = { "common", "inner" }
  local bus = connect(server)
  local remote
  hold(bus, { name = "self", modes = modes }, function(_, id, data)
    if id == 0 then return data end
    return remote:request(id - 1, data .. id, { reply_mode = "inner" })
  end)
  remote = reach(bus, "self")
  t.equal(remote:request(5, "x"), "x54321")
end)

t.it("a call that is cancelled in any wait leaves nothing behind", function()
  local server, go = fake(), rl.future()
  local bus = connect(server)
  hold(connect(server), "c", function() go:await() return "late" end)
  local remote = reach(bus, "c")
  local first = rl.task(function() return remote:send(1, "first") end)
  first:cancel()
  for _ = 2, 256 do remote:send(1, "", { timeout = 0 }) end
  local tasks = {
    rl.task(function() return remote:request(1, "") end),
    rl.task(function() return remote:send(1, "") end),
    rl.task(function() return remote:flush() end),
    rl.task(function() return remote:request(1, "", { send_timeout = 60 }) end),
  }
  rl.sleep(0.01)
  for _, task in ipairs(tasks) do
    t.equal(task:status(), "waiting")
    task:cancel()
  end
  t.equal(remote:unacknowledged(), 256)
  go:complete()
  t.equal({ remote:flush(5), remote:unacknowledged(), remote:request(1, "") }, { true, 0, "late" })
  local gone = rl.task(function() return rl.remote_port("c", { via = bus }):host() end)
  gone:cancel()
  rl.sleep(1)
  t.equal({ bus:stats().requests, bus._held_calls }, { 0, 0 })
end)

t.it("a port can be invalidated in its callback, and while calls wait", function()
  local server, warned = fake(), warnings()
  local bus, there = connect(server), connect(server)
  local port
  port = hold(there, { name = "v", modes = "later" }, function(p, _, data)
    p:invalidate()
    return data
  end)
  local remote = reach(bus, "v")
  local tasks = {}
  for i = 1, 5 do tasks[i] = rl.task(function() return remote:request(i, tostring(i)) end) end
  rl.sleep(0.01)
  rl.current():add(port, "default")
  -- The first request is answered; the later ones find no receiver, and this ends the port.
  t.equal(tasks[1]:await(5), "1")
  for i = 2, 5 do
    local answer, reason = tasks[i]:await(5)
    t.truthy(answer == nil and (reason == "invalid" or reason == "became invalid"), reason)
  end
  t.equal({ remote:is_valid(), #warned, port:is_valid() }, { false, 0, false })
  remote = reach(bus, "w")
  hold(there, "w", function() remote:invalidate() return "x" end)
  t.equal({ remote:request(1, "") }, { nil, "became invalid" })
  remote:invalidate()
  t.equal({ remote:send(1, ""), remote:is_valid() }, { nil, false })
end)

t.it("unexpected, repeated and malformed answers are ignored", function()
  local server, warned = fake(), warnings()
  local bus, there = connect(server), connect(server)
  there:subscribe("rl.port.odd", { keeps_alive = false }, function(m)
    local kind = m.data
    if kind == "twice" then m:respond("1") m:respond("2") end
    if kind == "strange" then m:respond("s", { headers = { ["Rl-Kind"] = "strange", ["Rl-Id"] = "x" } }) end
    if kind == "many" then m:respond("m", { headers = { ["Rl-Kind"] = { "failure", "done" } } }) end
    if kind == "control" then m:respond("a\27[31m\nb", { headers = { ["Rl-Kind"] = "failure" } }) end
    if kind == "long" then m:respond(("x"):rep(5000), { headers = { ["Rl-Kind"] = "failure" } }) end
  end)
  there:subscribe("rl.who.odd", { keeps_alive = false }, function(m) m:respond "nonsense" end)
  there:flush()
  local remote = reach(bus, "odd")
  t.equal({ remote:request(1, "twice"), remote:request(1, "strange"), remote:request(1, "many") }, { "1", "s", "m" })
  local _, reason = remote:request(1, "control")
  t.equal(reason:find "[\27\n]", nil)
  _, reason = remote:request(1, "long")
  t.equal(#reason, #"transport error: " + 1000)
  t.equal({ remote:host() }, { nil, "EPROTO: the process that holds the port does not report its place", "EPROTO" })
  t.equal({ remote:request(1, "none", { reply_timeout = 30 }) }, { nil, "reply timed out" })
  t.equal(#warned, 0)
end)

t.it("messages with odd headers are handled, and an error that cannot be shown is reported as such", function()
  local server, warned = fake { jetstream = true }, warnings()
  local bus, there = connect(server), connect(server)
  local before
  before = rl.on_error(function() end)
  t.finally(function() rl.on_error(before) end)
  local port = hold(there, { name = "x", modes = "later" }, function()
    error(setmetatable({}, { __tostring = function() error "no" end }))
  end)
  local function ask()
    return bus:request("rl.port.x", "x", { timeout = 5, headers = { ["Rl-Kind"] = "request" } })
  end
  rl.current():add(port, "default")
  t.equal(ask().data, "its callback raised an error: an error that cannot be shown")
  rl.current():remove(port, "default")
  -- A header whose name has a blank, which runloop.nats never writes.
  bus._link:send("HPUB rl.port.x back 35 36\r\nNATS/1.0\r\nOdd Name: 1\r\nRl-Id: 3\r\n\r\nx\r\n")
  local waits = rl.task(ask)
  rl.sleep(0.1)
  local back = bus:subscribe "back"
  hold(bus, "x", function(_, id) return "second " .. id end)
  port:invalidate()
  t.equal({ back:receive(5).data, waits:await().data }, { "second 3", "second 0" })
  hold(there, { name = "d", durable = { max_deliver = 1 } }, function() error("bad", 0) end)
  bus._link:send("HPUB rl.durable.d 35 36\r\nNATS/1.0\r\nOdd Name: 1\r\nRl-Id: 3\r\n\r\nx\r\n")
  rl.sleep(5)
  t.equal(#warned, 1)
  t.equal(bus:stream "RL_DEAD":info().messages, 1)
end)

t.it("each thread has a bus of its own", { real_time = true }, function()
  local server = t.server "nats"
  local url = server:url()
  local thread = rl.thread(function(address)
    local run, client = require "runloop", require "runloop.nats"
    local bus = assert(client.connect(address))
    local port
    port = assert(run.message_port { name = "t", via = bus, modes = "common", callback = function(_, id, data)
      if id == 0 then run.after(0.05, function() port:invalidate() end) end
      return data:upper()
    end })
  end, url)
  local bus = connect(url)
  local answer
  for _ = 1, 500 do
    answer = reach(bus, "t"):request(1, "x")
    if answer then break end
    rl.sleep(0.01)
  end
  t.equal(answer, "X")
  t.equal(reach(bus, "t"):request(0, "end"), "END")
  t.equal(thread:join(), true)
  t.error(function() rl.thread(function() return bus end) end, "cannot")
end)
