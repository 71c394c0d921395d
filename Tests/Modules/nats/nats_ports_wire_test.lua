-- Message ports over a bus: the same cases with a holder in Lua and with one in Python: docs/examples/nats.

local rl = require "runloop"
local t = require "runloop.test"
local process = require "runloop.process"
local json = require "runloop.json"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, await = buses.connect, buses.await

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Modules/nats/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local EXAMPLES = ROOT .. "/docs/examples/nats/"

-- Cases of all holders. `start(name, url)` returns a program that holds the port.
local function cases(start)
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  local function hold(name)
    local program = start(name, server():url())
    t.finally(function() program:kill() end)
    program:wait_for("ready", { within = 15 })
    return program
  end

  t.it("answers requests and handles messages", function()
    hold "a"
    local remote = t.truthy(rl.remote_port("a", { via = connect(server():url()) }))
    t.equal({ remote:request(1, "hello"), remote:request(9, "?") }, { "HELLO", "" })
    t.equal({ remote:request(3, "boom") }, { nil, "transport error: its callback raised an error: boom" })
    for i = 1, 500 do t.equal(remote:send(4, tostring(i)), true) end
    t.equal({ remote:flush(10), remote:unacknowledged() }, { true, 0 })
    local host, pid = remote:host()
    t.equal({ type(host), math.type(pid) }, { "string", "integer" })
  end)

  t.it("writes the documented headers, and refuses wrong ones", function()
    hold "b"
    local bus = connect(server():url())
    local function ask(headers, data)
      local m = t.truthy(bus:request("rl.port.b", data or "x", { headers = headers }))
      return { m.headers["Rl-Id"], m.headers["Rl-Kind"], m.data }
    end
    t.equal(ask { ["Rl-Id"] = "1", ["Rl-Kind"] = "request" }, { "1", "reply", "X" })
    t.equal(ask { ["Rl-Id"] = "1", ["Rl-Kind"] = "send" }, { "1", "done", "" })
    t.equal(ask { ["Rl-Id"] = "-2147483648", ["Rl-Kind"] = "send" }, { "-2147483648", "done", "" })
    t.equal(ask {}, { "0", "reply", "" })
    t.equal(ask { ["Rl-Id"] = "2147483648" }, { "0", "failure", "Rl-Id is not an integer of 32 bits" })
    t.equal(ask { ["Rl-Id"] = "1x" }, { "0", "failure", "Rl-Id is not an integer of 32 bits" })
    t.equal(ask { ["Rl-Id"] = "7", ["Rl-Kind"] = "reply" },
      { "7", "failure", "Rl-Kind is neither request nor send" })
    local here = json.decode(t.truthy(bus:request "rl.who.b").data)
    t.equal({ type(here.host), math.type(here.pid) }, { "string", "integer" })
    t.equal(select(2, bus:request("rl.who.b", "none of its messages", { timeout = 0.3 })), "timed out")
  end)

  t.it("handles several messages at a time, reports which ones it has, and holds 256", function()
    local program = hold "c"
    local bus, other = connect(server():url()), connect(server():url())
    local remote = t.truthy(rl.remote_port("c", { via = bus }))
    local slow = rl.task(function() return remote:request(2, "4.5") end)
    program:wait_for("got 2", { within = 5 })
    t.equal(remote:request(1, "quick"), "QUICK")
    for _ = 1, 255 do t.equal(remote:send(2, "4.5"), true) end
    await(function() return select(2, program:output():gsub("got 2", "")) == 256 end, "it has 256")
    t.equal({ t.truthy(rl.remote_port("c", { via = other })):request(1, "x") }, { nil, "transport error: busy" })
    t.equal(slow:await(30), "slept 4.5")
    t.equal({ remote:flush(20), remote:request(1, "x") }, { true, "X" })
  end)

  t.it("counts as lost after it was killed", function()
    local program = hold "d"
    local bus = connect(server():url())
    local remote = t.truthy(rl.remote_port("d", { via = bus }))
    local request = rl.task(function() return remote:request(2, "60") end)
    program:wait_for("got 2", { within = 5 })
    program:kill()
    t.equal({ request:await(20) }, { nil, "became invalid" })
    t.equal({ t.truthy(rl.remote_port("d", { via = bus })):request(1, "") }, { nil, "invalid" })
  end)

  t.it("whose answer is too long gives the sender an error", function()
    hold "e"
    local remote = t.truthy(rl.remote_port("e", { via = connect(server():url()) }))
    t.equal(#remote:request(5, ("x"):rep(300000)), 900000)
    local _, reason = remote:request(5, ("x"):rep(400000))
    t.truthy(reason:find "^transport error: the answer is too long: ", reason)
  end)
end

t.describe("a holder in Lua", { real_time = true, timeout = 40 }, function()
  cases(function(name, url) return t.spawn { t.rlhost, EXAMPLES .. "ports.lua", "hold", name, url } end)

  t.it("is asked by the example ports.lua", function()
    local server = t.server "nats"
    local holder = t.spawn { t.rlhost, EXAMPLES .. "ports.lua", "hold", "a", server:url() }
    holder:wait_for("ready", { within = 15 })
    local out = t.truthy(process.run { t.rlhost, EXAMPLES .. "ports.lua", "ask", "a", "1", "hello", server:url() })
    t.equal(out.output, "HELLO\n")
    out = t.truthy(process.run { t.rlhost, EXAMPLES .. "ports.lua", "where", "a", server:url() })
    t.equal(out.output, io.open "/proc/sys/kernel/hostname":read "l" .. "\t" .. holder:pid() .. "\n")
    out = t.truthy(process.run { t.rlhost, EXAMPLES .. "ports.lua", "ask", "nobody", "1", "x", server:url() })
    t.equal(out.output, "nil\tinvalid\n")
    holder:kill()
  end)
end)

t.describe("a holder in Python", { real_time = true, timeout = 40 }, function()
  local is_there
  t.before_each(function()
    if is_there == nil then is_there = process.run { "python3", "-c", "import nats" }.code == 0 end
    if not is_there then t.skip "nats.py is not installed (pip install nats-py)" end
  end)
  cases(function(name, url) return t.spawn { "python3", EXAMPLES .. "port_holder.py", name, url } end)
end)
