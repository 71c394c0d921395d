-- Message ports over a bus: the same cases with nats.fake, in virtual time, and with a real server.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, hold, reach, warnings = buses.connect, buses.hold, buses.reach, buses.warnings

-- Keeps the errors of callbacks; returns the list.
local function errors()
  local list, before = {}, nil
  before = rl.on_error(function(err) list[#list + 1] = tostring(err) end)
  t.finally(function() rl.on_error(before) end)
  return list
end

local function matches(text, pattern)
  if not tostring(text):find(pattern) then t.equal(text, pattern) end
end

-- Cases of both servers. `start()` returns what nats.connect takes.
local function cases(start)
  t.it("a port answers requests and handles messages, in order", function()
    local where, got = start(), {}
    local port = hold(connect(where), "org.example.echo", function(port, id, data, delivered)
      got[#got + 1] = id .. data
      t.equal({ port:name(), delivered }, { "org.example.echo" })
      if id == 5 then return end
      return data:upper()
    end)
    local remote = reach(connect(where), "org.example.echo")
    t.equal(remote:request(7, "a\0b"), "A\0B")
    t.equal(remote:request(5, "x"), "")
    t.equal(remote:send(-1 << 31, "z"), true)
    for i = 1, 600 do t.equal(remote:send(i, "."), true) end
    t.truthy(remote:unacknowledged() > 0)
    t.equal({ remote:flush(10), remote:unacknowledged() }, { true, 0 })
    t.equal(#got, 603)
    t.equal({ got[3], got[4], got[603] }, { "-2147483648z", "1.", "600." })
    t.equal({ port:is_valid(), remote:is_valid(), port:name(), remote:name(), port:order() },
      { true, true, "org.example.echo", "org.example.echo", 0 })
    matches(tostring(port), '^message_port "org.example.echo" %(via NATS, made at ')
    matches(tostring(remote), '^remote_port "org.example.echo" %(via NATS, made at ')
  end)

  t.it("rl.remote_port returns the same object for the same name while it is valid", function()
    local bus = connect(start())
    local remote = reach(bus, "same")
    t.equal(reach(bus, "same") == remote, true)
    t.equal(reach(bus, "other") == remote, false)
    remote:invalidate()
    t.equal(reach(bus, "same") == remote, false)
    t.equal({ remote:is_valid(), remote:request(1, "") }, { false, nil, "invalid" })
  end)

  t.it("a port handles other messages while a callback waits", function()
    local where, order = start(), {}
    hold(connect(where), "c", function(_, id, data)
      if id == 2 then rl.sleep(0.2) end
      return data:upper()
    end)
    local remote, tasks = reach(connect(where), "c"), {}
    for i, id in ipairs { 2, 1, 2, 1 } do
      tasks[i] = rl.task(function()
        t.equal(remote:request(id, "x" .. i), "X" .. i)
        order[#order + 1] = i
      end)
    end
    for _, task in ipairs(tasks) do task:await() end
    t.equal(table.concat(order, " "), "2 4 1 3")
  end)

  t.it("a sender gets the failure of a callback", function()
    local where, failures, warned = start(), errors(), warnings()
    hold(connect(where), "f", function(_, id)
      if id == 1 then error("boom", 0) end
      if id == 2 then return 42 end
      if id == 3 then error({ "a table" }) end
      if id == 4 then error(rl.cancelled, 0) end
      return "fine"
    end)
    local remote = reach(connect(where), "f")
    t.equal({ remote:request(1, "") }, { nil, "transport error: its callback raised an error: boom" })
    local wrong = "the callback of a message port must return a string or nil, not 42"
    t.equal({ remote:request(2, "") }, { nil, "transport error: " .. wrong })
    matches(select(2, remote:request(3, "")), "^transport error: its callback raised an error: table: ")
    t.equal({ remote:request(4, "") }, { nil, "transport error: its callback was cancelled" })
    t.equal(remote:request(5, ""), "fine")
    t.equal(remote:send(1, ""), true)
    t.equal({ remote:flush(5) }, { nil, "transport error: its callback raised an error: boom" })
    t.equal(warned, { 'rlhost: warning: remote port "f": message 1 could not be handled: its callback raised an '
      .. "error: boom\n" })
    t.equal({ remote:flush(5), remote:unacknowledged() }, { true, 0 })
    -- Errors of tasks are found with the next collection of garbage.
    while #failures < 5 do
      collectgarbage()
      rl.sleep(0.01)
    end
    table.sort(failures)
    t.equal({ failures[1], failures[2], failures[3], failures[4] }, { "boom", "boom", "cancelled", failures[4] })
    t.equal(table.concat(failures, "|"):find(wrong, 1, true) ~= nil, true)
  end)

  t.it("a call returns \"invalid\" within 100 ms if there is no holder", function()
    local bus = connect(start())
    local began = rl.now()
    t.equal({ reach(bus, "nobody"):request(1, "x") }, { nil, "invalid" })
    local remote = reach(bus, "nobody")
    t.equal({ remote:send(1, "x") }, { nil, "invalid" })
    t.equal({ remote:unacknowledged(), remote:is_valid() }, { 0, false })
    t.equal({ remote:flush() }, { nil, "invalid" })
    remote = reach(bus, "nobody")
    t.equal(remote:is_valid(), true)
    while remote:is_valid() do rl.sleep(0.001) end
    t.equal({ reach(bus, "nobody"):host() }, { nil, "invalid" })
    t.truthy(rl.now() - began < 5)
  end)

  t.it("remote:host returns the host and process of a holder", function()
    local where = start()
    hold(connect(where), "h", function() end)
    local remote = reach(connect(where), "h")
    local pid = math.tointeger(io.open "/proc/self/stat":read "n")
    t.equal({ remote:host() }, { io.open "/proc/sys/kernel/hostname":read "l", pid })
    t.equal(remote:process(), pid)
  end)

  t.it("requests have time limits for room in the port and for the answer", function()
    local where, go = start(), rl.future()
    hold(connect(where), "l", function(_, id, data)
      if id == 1 then go:await() end
      return data
    end)
    local remote = reach(connect(where), "l")
    t.equal({ remote:request(1, "", { reply_timeout = 0.02 }) }, { nil, "reply timed out" })
    t.equal({ remote:request(1, "", { reply_timeout = 0 }) }, { nil, "reply timed out" })
    t.equal(remote:request(2, "mine", { reply_timeout = 1e9 }), "mine")
    for _ = 3, 256 do t.equal(remote:send(1, ""), true) end
    t.equal(remote:unacknowledged(), 254)
    t.equal({ remote:send(2, "", { timeout = 0 }) }, { nil, "send timed out" })
    t.equal({ remote:send(2, "", { timeout = 0.02 }) }, { nil, "send timed out" })
    t.equal({ remote:request(2, "", { send_timeout = 0.02 }) }, { nil, "send timed out" })
    t.equal({ remote:flush(0.02) }, { nil, "reply timed out" })
    local waits = rl.task(function() return remote:request(2, "late") end)
    local cancelled = rl.task(function() return remote:send(2, "never") end)
    t.equal(remote:unacknowledged(), 255)
    cancelled:cancel()
    t.equal(remote:unacknowledged(), 254)
    go:complete()
    t.equal(waits:await(5), "late")
    t.equal({ remote:flush(5), remote:unacknowledged() }, { true, 0 })
  end)

  t.it("a request with reply_mode runs the loop in that mode only", function()
    local where = start()
    hold(connect(where), { name = "m", modes = { "common", "quiet" } }, function(_, id, data)
      if id == 2 then rl.sleep(0.3) end
      return data:upper()
    end)
    local remote, ticks = reach(connect(where), "m"), 0
    local timer <close> = rl.every(0.01, function() ticks = ticks + 1 end)
    local ended = rl.future()
    rl.after(0, function()
      ticks = 0
      local slow = remote:request(2, "slow", { reply_mode = "quiet" })
      ended:complete(slow, ticks, select(2, remote:request(2, "", { reply_mode = "quiet", reply_timeout = 0.02 })))
    end)
    t.equal({ ended:await(10) }, { "SLOW", 0, "reply timed out" })
    t.equal(remote:request(2, "x"), "X")
  end)

  t.it("a port keeps messages for a mode that does not run", function()
    local where, got = start(), {}
    local port = hold(connect(where), { name = "held", modes = "private" }, function(_, _, data)
      got[#got + 1] = data
      return "done"
    end)
    local remote = reach(connect(where), "held")
    local request = rl.task(function() return remote:request(1, "a") end)
    rl.sleep(3.5)
    t.equal({ request:status(), #got }, { "waiting", 0 })
    rl.current():add(port, "default")
    t.equal({ request:await(5), got[1] }, { "done", "a" })
  end)

  t.it("a request waits for as long as a holder works", function()
    local where = start()
    hold(connect(where), "slow", function()
      rl.sleep(4.5)
      return "done"
    end)
    local bus = connect(where)
    t.equal(reach(bus, "slow"):request(1, ""), "done")
    t.equal(bus:stats().requests, 0)
  end)

  t.it("sent messages end as invalid when the only holder has ended", function()
    local where, warned, go = start(), warnings(), rl.future()
    local holder = connect(where, { name = "the holder" })
    hold(holder, "gone", function() go:await() end)
    local remote, began = reach(connect(where), "gone"), rl.now()
    local flush
    local request = rl.task(function() return remote:request(1, "") end)
    for _ = 1, 3 do t.equal(remote:send(1, ""), true) end
    flush = rl.task(function() return remote:flush() end)
    rl.sleep(0.1)
    holder:close()
    t.equal({ request:await(10) }, { nil, "became invalid" })
    go:complete()
    t.equal({ flush:await(1) }, { nil, "became invalid" })
    t.truthy(rl.now() - began < 4)
    t.equal({ remote:is_valid(), remote:unacknowledged() }, { false, 3 })
    t.equal({ remote:request(1, "") }, { nil, "invalid" })
    t.equal(warned, { 'rlhost: warning: remote port "gone": became invalid; 3 messages are not known to have been '
      .. "handled\n" })
  end)

  t.it("an invalidated port gives its waiting messages to other holders", function()
    local where, ended = start(), 0
    local bus = connect(where)
    local first = hold(bus, { name = "give", modes = "private", on_invalidate = function(port)
      ended = ended + (port:is_valid() and 100 or 1)
    end }, function() return "first" end)
    local remote = reach(connect(where), "give")
    local request = rl.task(function() return remote:request(1, "") end)
    rl.sleep(0.1)
    hold(connect(where), "give", function() return "second" end)
    t.equal(request:status(), "waiting")
    first:invalidate()
    first:invalidate()
    t.equal(request:await(5), "second")
    t.equal({ ended, first:is_valid() }, { 1, false })
  end)

  t.it("a port answers the message whose callback invalidates it", function()
    local where = start()
    hold(connect(where), "last", function(port, _, data)
      port:invalidate()
      return ("bye"):rep(#data)
    end)
    local remote = reach(connect(where), "last")
    t.equal(#remote:request(1, ("x"):rep(100000)), 300000)
    t.equal({ remote:request(1, "") }, { nil, "invalid" })
  end)

  t.it("a message that is too large is refused with its size and the limit", function()
    local where = start()
    hold(connect(where), "big", function(_, _, data) return data .. data end)
    local remote = reach(connect(where), "big")
    local _, reason = remote:request(1, ("x"):rep(1 << 20))
    local size, most = reason:match
      "^transport error: the message has (%d+) bytes with its headers; the server takes (%d+)$"
    t.equal(most, "1048576")
    t.truthy(math.tointeger(size) > 1 << 20 and math.tointeger(size) < (1 << 20) + 100)
    matches(select(2, remote:send(1, ("x"):rep(1 << 20))), "^transport error: the message has 10486%d%d bytes with ")
    t.equal(remote:unacknowledged(), 0)
    _, reason = remote:request(1, ("x"):rep(600000))
    matches(reason, "^transport error: the answer is too long: EMSGSIZE: a message of 12000%d%d bytes; the server "
      .. "takes 1048576")
    t.equal(#remote:request(1, ("x"):rep(500000)), 1000000)
  end)

  t.it("a port accepts messages of other clients, and refuses wrong headers", function()
    local where, got = start(), {}
    hold(connect(where), "foreign", function(_, id, data)
      got[#got + 1] = id .. data
      return "answer"
    end)
    local bus = connect(where)
    local m = t.truthy(bus:request("rl.port.foreign", "plain"))
    t.equal({ m.data, m.headers["Rl-Kind"], m.headers["Rl-Id"] }, { "answer", "reply", "0" })
    m = t.truthy(bus:request("rl.port.foreign", "s", { headers = { ["Rl-Id"] = "-5", ["Rl-Kind"] = "send" } }))
    t.equal({ m.data, m.headers["Rl-Kind"], m.headers["Rl-Id"] }, { "", "done", "-5" })
    t.equal(bus:publish("rl.port.foreign", "no answer"), true)
    for _, headers in ipairs { { ["Rl-Id"] = "x" }, { ["Rl-Id"] = "2147483648" }, { ["Rl-Id"] = "1.0" },
      { ["Rl-Id"] = { "1", "2" } }, { ["Rl-Kind"] = "reply" }, { ["Rl-Kind"] = { "send", "send" } } } do
      m = t.truthy(bus:request("rl.port.foreign", "wrong", { headers = headers }))
      t.equal(m.headers["Rl-Kind"], "failure")
      matches(m.data, "^Rl%-%u%l+ is n")
    end
    t.equal(got, { "0plain", "-5s", "0no answer" })
  end)

  t.it("a remote port accepts answers without headers from holders in other programs", function()
    local where = start()
    local bus = connect(where)
    bus:subscribe("rl.port.simple", { keeps_alive = false }, function(m)
      m:respond(m.data == "fail" and "no" or m.data:upper(),
        { headers = m.data == "fail" and { ["Rl-Kind"] = "failure" } or nil })
    end)
    bus:flush(5)
    local remote = reach(connect(where), "simple")
    t.equal(remote:request(1, "a"), "A")
    t.equal({ remote:send(1, "b"), remote:flush(5) }, { true, true })
    t.equal({ remote:request(1, "fail") }, { nil, "transport error: no" })
  end)

  t.it("a port holds 256 messages, and answers that it is busy beyond", function()
    local where, go = start(), rl.future()
    hold(connect(where), "busy", function() go:await() return "done" end)
    local one, two = connect(where), connect(where)
    local first, second = reach(one, "busy"), reach(two, "busy")
    for _ = 1, 256 do t.equal(first:send(1, ""), true) end
    one:flush(5)
    t.equal({ second:request(1, "") }, { nil, "transport error: busy" })
    go:complete()
    t.equal({ first:flush(5), second:request(1, "") }, { true, "done" })
  end)

  t.it("the subjects of a port have the prefix of its bus", function()
    local where = start()
    hold(connect(where, { prefix = "my.rl" }), "p", function() return "mine" end)
    t.equal(reach(connect(where, { prefix = "my.rl" }), "p"):request(1, ""), "mine")
    t.equal({ reach(connect(where), "p"):request(1, "") }, { nil, "invalid" })
    t.equal(connect(where):request("my.rl.port.p", "").data, "mine")
  end)

  t.it("a port ends with its bus", function()
    local where, ended = start(), rl.future()
    local bus = connect(where)
    local go = rl.future()
    local port = hold(bus, { name = "e", on_invalidate = function() ended:complete "ended" end }, function()
      go:await()
    end)
    local other = connect(where)
    local remote = reach(other, "e")
    local request = rl.task(function() return remote:request(1, "") end)
    rl.sleep(0.05)
    other:close()
    t.equal({ request:await(5) }, { nil, "became invalid" })
    t.equal({ remote:is_valid(), remote:request(1, "") }, { false, nil, "invalid" })
    bus:close()
    go:complete()
    t.equal({ ended:await(5), port:is_valid() }, { "ended", false })
    t.equal(select(3, rl.message_port { name = "e", via = bus, callback = print }), "ENOTCONN")
    t.equal(select(3, rl.remote_port("e", { via = bus })), "ENOTCONN")
  end)
end

t.describe("with the fake", function()
  cases(function() return nats.fake { latency = 0.0001 } end)
end)

t.describe("with a server", { real_time = true }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  cases(function() return server():url() end)
end)
