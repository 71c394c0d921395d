-- runloop.nats: the same cases against nats.fake, in virtual time, and against a real server.

local rl = require "runloop"
local t = require "runloop.test"
local net = require "runloop.net"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect = buses.connect

-- Cases of both servers. `start()` returns what nats.connect takes.
local function cases(start)
  t.it("publishes and receives", function()
    local bus = connect(start())
    local s = bus:subscribe "a.*.c"
    t.equal(bus:publish("a.b.c", "one"), true)
    t.equal(bus:publish("a.b.d", "no"), true)
    t.equal(bus:publish("a.x.c", nil, { reply = "back" }), true)
    local m = t.truthy(s:receive(5))
    t.equal({ m.subject, m.data, m.reply }, { "a.b.c", "one" })
    m = t.truthy(s:receive(5))
    t.equal({ m.subject, m.data, m.reply }, { "a.x.c", "", "back" })
    t.equal(select(2, s:receive(0.05)), "timed out")
    t.equal(s:stats(), { received = 2, handled = 2, dropped = 0, pending = 0, pending_bytes = 0 })
    t.equal(bus:flush(5), true)
    t.equal({ bus:unconfirmed() }, { 0, 0 })
  end)

  t.it("sends and receives headers, also several of a name", function()
    local bus = connect(start())
    local s = bus:subscribe "h"
    bus:publish("h", "body", { headers = { One = "1", ["A-B"] = { "x", "y: z" } } })
    bus:publish("h", "plain")
    local m = t.truthy(s:receive(5))
    t.equal(m.headers, { One = "1", ["A-B"] = { "x", "y: z" } })
    t.equal(m.data, "body")
    t.equal(s:receive(5).headers, nil)
  end)

  t.it("answers requests, and reports at once that nobody subscribes to the subject", function()
    local bus = connect(start())
    bus:subscribe("echo", { keeps_alive = false }, function(m)
      m:respond("re: " .. m.data, { headers = { N = "1" } })
    end)
    local m = t.truthy(bus:request("echo", "hello"))
    t.equal({ m.data, m.headers.N }, { "re: hello", "1" })
    local began = rl.now()
    local none, text, code = bus:request("nobody", "", { timeout = 60 })
    t.equal({ none, text, code }, { nil, "ENOENT: nobody answers on nobody", "ENOENT" })
    t.truthy(rl.now() - began < 5)
    t.equal(bus:stats().requests, 0)
    local s = bus:subscribe "one.way"
    bus:publish "one.way"
    m = t.truthy(s:receive(5))
    t.error(function() m:respond "x" end, "message:respond: the sender expects no answer")
  end)

  t.it("removes requests that are cancelled", function()
    local bus = connect(start())
    local s = bus:subscribe "slow"
    local tasks = {}
    for i = 1, 1000 do
      tasks[i] = rl.task(function() return bus:request("slow", "x", { timeout = 60 }) end)
    end
    t.equal(bus:stats().requests, 1000)
    local asked = {}
    for i = 1, 1000 do asked[i] = t.truthy(s:receive(5)) end
    for i = 1, 1000 do tasks[i]:cancel() end
    t.equal(bus:stats().requests, 0)
    for i = 1, 1000 do asked[i]:respond "late" end
    t.equal(bus:flush(5), true)
    t.equal(bus:stats().late_answers, 1000)
    t.equal(select(2, bus:request("slow", "x", { timeout = 0.05 })), "timed out")
    t.equal(bus:stats().requests, 0)
  end)

  t.it("gathers the answers of several subscribers", function()
    local bus = connect(start())
    for i = 1, 3 do
      bus:subscribe("all", { keeps_alive = false }, function(m) m:respond(tostring(i)) end)
    end
    local sum, count = 0, 0
    for m in bus:gather("all", "?", { timeout = 0.2 }) do sum, count = sum + m.data, count + 1 end
    t.equal({ sum, count }, { 6, 3 })
    count = 0
    for _ in bus:gather("all", "?", { timeout = 60, most = 2 }) do count = count + 1 end
    t.equal(count, 2)
    for _ in bus:gather("all", "?", { timeout = 60 }) do break end
    for _ in bus:gather("nobody", "?", { timeout = 60 }) do t.equal("an answer", nil) end
    t.equal(bus:stats().requests, 0)
  end)

  t.it("gives each message of a queue group to one member", function()
    local where = start()
    local one, two = connect(where), connect(where)
    local a = one:subscribe("jobs", { queue = "workers" })
    local b = two:subscribe("jobs", { queue = "workers" })
    one:flush(5)
    two:flush(5)
    for i = 1, 100 do one:publish("jobs", tostring(i)) end
    one:flush(5)
    two:flush(5)
    local first, second = a:stats().received, b:stats().received
    t.equal(first + second, 100)
    t.truthy(first > 0 and second > 0)
  end)

  t.it("calls a subscription's function in order, or for several messages at a time", function()
    local bus = connect(start())
    local order, running, most = {}, 0, 0
    local function work(m)
      running = running + 1
      most = math.max(most, running)
      rl.sleep(0.001)
      running = running - 1
      order[#order + 1] = m.data
    end
    local one = bus:subscribe("w", { keeps_alive = false }, work)
    for i = 1, 20 do bus:publish("w", tostring(i)) end
    t.equal(one:drain(5), true)
    t.equal(one:is_valid(), false)
    t.equal(most, 1)
    t.equal(table.concat(order, " "), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20")
    local four <close> = bus:subscribe("w", { keeps_alive = false, concurrency = 4 }, work)
    for i = 1, 20 do bus:publish("w", tostring(i)) end
    t.equal(four:drain(5), true)
    t.equal(most, 4)
    t.equal(four:stats().handled, 20)
  end)

  t.it("continues after an error in a function", function()
    local bus = connect(start())
    local before, seen, done = nil, nil, rl.future()
    before = rl.on_error(function(err, info) seen = tostring(err) .. " in " .. tostring(info.where) end)
    t.finally(function() rl.on_error(before) end)
    bus:subscribe("e", { keeps_alive = false }, function(m)
      if m.data == "bad" then error "oops" end
      done:complete(m.data)
    end)
    bus:publish("e", "bad")
    bus:publish("e", "good")
    t.equal(done:await(5), "good")
    t.truthy(seen:find("oops", 1, true))
    t.truthy(seen:find('subscription of "e"', 1, true), seen)
  end)

  t.it("reports each error in a function at once, also while garbage is kept", function()
    local bus, errors = connect(start()), 0
    local before = rl.on_error(function() errors = errors + 1 end)
    collectgarbage "stop"
    t.finally(function()
      collectgarbage "restart"
      rl.on_error(before)
    end)
    bus:subscribe("e", { keeps_alive = false }, function(m) error(m.data) end)
    for i = 1, 20 do
      bus:publish("e", "oops")
      local limit = rl.now() + 5
      repeat rl.sleep(0.001) until errors >= i or rl.now() > limit
      t.equal(errors, i)
    end
  end)

  t.it("ends a subscription after `max` messages", function()
    local bus = connect(start())
    local s = bus:subscribe("m", { max = 2 })
    for i = 1, 5 do bus:publish("m", tostring(i)) end
    bus:flush(5)
    t.equal({ s:receive(1).data, s:receive(1).data }, { "1", "2" })
    t.equal(s:receive(1), nil)
    t.equal(s:is_valid(), false)
    t.equal(bus:stats().subscriptions, 0)
  end)

  t.it("drops messages beyond the limit of a subscription, and reports that once", function()
    local events = {}
    local bus = connect(start(), { on_event = function(_, event, details)
      if event == "slow" then events[#events + 1] = details.subject end
    end })
    local s = bus:subscribe("many", { max_pending = 10 })
    for _ = 1, 25 do bus:publish("many", "x") end
    bus:flush(5)
    t.equal(s:stats(), { received = 10, handled = 0, dropped = 15, pending = 10, pending_bytes = 10 })
    t.equal(events, { "many" })
    for _ = 1, 10 do t.truthy(s:receive(1)) end
    for _ = 1, 11 do bus:publish("many", "x") end
    bus:flush(5)
    t.equal(events, { "many", "many" })
  end)

  t.it("refuses messages that are too large, and sends nothing", function()
    local bus = connect(start())
    local none, text, code = bus:publish("big", ("x"):rep((1 << 20) + 1))
    t.equal({ none, text, code },
      { nil, "EMSGSIZE: a message of 1048577 bytes; the server takes 1048576", "EMSGSIZE" })
    t.equal(select(3, bus:request("big", ("x"):rep((1 << 20) + 1))), "EMSGSIZE")
    local s = bus:subscribe "big"
    t.equal(bus:publish("big", ("x"):rep(1 << 20)), true)
    t.equal(#t.truthy(s:receive(5)).data, 1 << 20)
    t.equal(bus:status(), "connected")
  end)

  t.it("names the ended subscription in the error", function()
    local bus = connect(start())
    local s = bus:subscribe "d.*"
    local waiting = rl.task(function() return s:receive(60) end)
    s:invalidate()
    local over = { nil, 'ENOTCONN: the subscription of "d.*" has ended', "ENOTCONN" }
    t.equal({ waiting:await() }, over)
    t.equal({ s:receive(60) }, over)
    t.equal(bus:status(), "connected")
  end)

  t.it("handles all received messages in drain before it closes", function()
    local bus = connect(start())
    local handled = 0
    bus:subscribe("d", function() rl.sleep(0.001) handled = handled + 1 end)
    for _ = 1, 20 do bus:publish("d", "x") end
    t.equal(bus:drain(5), true)
    t.equal(handled, 20)
    t.equal(bus:status(), "closed")
    t.equal({ bus:publish("d", "x") }, { nil, "ENOTCONN: the connection to NATS is closed (drained)", "ENOTCONN" })
    t.equal(select(3, bus:request("d", "x")), "ENOTCONN")
    t.equal(select(3, bus:flush()), "ENOTCONN")
    t.equal(bus:server(), nil)
  end)

  t.it("serves a subscription in its own mode only", function()
    local bus = connect(start())
    local got = {}
    local s = bus:subscribe("modal", { modes = {} }, function(m) got[#got + 1] = m.data .. rl.current():mode() end)
    bus:publish("modal", "1")
    bus:flush(5)
    rl.sleep(0.01)
    t.equal(got, {})
    rl.current():add(s, "private")
    local ended = rl.future()
    rl.after(0, function()
      bus:publish("modal", "2")
      rl.current():run { mode = "private", timeout = 0.3 }
      ended:complete()
    end)
    ended:await(5)
    t.equal(got, { "1private", "2private" })
    s:invalidate()
  end)

  t.it("answers a request that waits in a private mode", function()
    local bus = connect(start())
    bus:subscribe("q", { modes = { "common", "private" } }, function(m) m:respond "yes" end)
    bus:flush(5)
    local got, ended = nil, rl.future()
    rl.after(0, function()
      rl.timer { delay = 0.001, modes = "private", callback = function()
        local m = bus:request("q", "?")
        got = m and m.data
        rl.stop()
      end }
      rl.current():run { mode = "private", timeout = 5 }
      ended:complete()
    end)
    ended:await(8)
    t.equal(got, "yes")
    bus:close()
  end)

  t.it("waiting tasks get ENOTCONN when the bus is closed", function()
    local bus = connect(start())
    local s = bus:subscribe "x"
    local request = rl.task(function() return select(3, bus:request("x", "?", { timeout = 60 })) end)
    local receive = rl.task(function() return select(3, s:receive()) end)
    bus:close()
    t.equal({ request:await(), receive:await() }, { "ENOTCONN", "ENOTCONN" })
    t.equal(s:is_valid(), false)
  end)
end

t.describe("a bus of the fake", function()
  cases(function() return nats.fake { latency = 0.0001 } end)
end)

t.describe("a bus of a server", { real_time = true }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  cases(function() return server():url() end)
end)

t.it("virtual time passes beside an idle bus, but not during calls to a real server", function()
  local server = t.server "nats"
  local bus = connect(server:url())
  local began = rl.now()
  rl.sleep(3600)
  t.equal(select(3, bus:request("nobody", "x", { timeout = 60 })), "ENOENT")
  local s = bus:subscribe "a"
  bus:publish("a", "one")
  t.equal(t.truthy(s:receive(5)).data, "one")
  t.equal({ bus:request("a", "x", { timeout = 0.1 }) }, { nil, "timed out" })
  s:invalidate()
  rl.sleep(3600)
  t.equal(bus:flush(5), true)
  t.truthy(rl.now() - began < 7300, rl.now() - began)
end)
