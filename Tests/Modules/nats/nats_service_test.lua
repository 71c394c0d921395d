-- Discovery: expose, nats.discover, and the services that runloop.nats.service offers (ADR-32).

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local nats = require "runloop.nats"
local process = require "runloop.process"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect = buses.connect
-- Scripts have no use for this part: workers and ports use it.
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
local service = part "runloop.nats.service"

local function folder()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

local function ask(bus, subject)
  local list = {}
  for m in bus:gather(subject, "", { timeout = 0.3 }) do list[#list + 1] = json.decode(m.data) end
  return list
end

local function cases(start)
  t.it("a process that exposes itself is found, by all, by name and by id", function()
    local where = start()
    local bus, other = connect(where, { expose = { "stats" }, name = "web" }), connect(where)
    bus:flush(5)
    local list = t.truthy(nats.discover(other, { timeout = 0.5 }))
    t.equal(#list, 1)
    local one = list[1]
    t.equal({ one.name, one.pid, one.stats.type, one.stats.version },
      { "rlhost", process.id(), "io.nats.micro.v1.stats_response", "1.0.0" })
    t.equal(one.host, one.stats.endpoints[1].data.host)
    local data = one.stats.endpoints[1].data
    t.equal({ data.pid, data.name, data.script }, { process.id(), "web", arg[0]:match "[^/]+$" })
    t.truthy(data.memory > 1e6 and data.uptime > 0 and data.tasks >= 1 and data.connections >= 0)
    for _, name in ipairs { "rlhost", "rlhost." .. one.id } do
      local ping = ask(other, "$SRV.PING." .. name)
      t.equal(ping, { { name = "rlhost", id = one.id, version = "1.0.0", type = "io.nats.micro.v1.ping_response",
        metadata = { host = one.host, pid = tostring(one.pid), exposes = "stats" } } })
      t.equal(ask(other, "$SRV.INFO." .. name)[1].endpoints[1].name, "process")
    end
    t.equal(#nats.discover(other, { name = "rlhost" }), 1)
    t.equal(nats.discover(other, { name = "other" }), {})
    t.equal(ask(other, "$SRV.PING.rlhost.other"), {})
    bus:close()
    other:flush(5)
    t.equal(nats.discover(other), {})
  end)

  t.it("a process that exposes nothing is not found", function()
    local where = start()
    local _, other = connect(where, { expose = {} }), connect(where)
    other:flush(5)
    t.equal(nats.discover(other), {})
  end)

  t.it("a process that does not answer is not found, and one that exposes only traces has no numbers", function()
    local where = start()
    local bus = connect(where)
    t.equal(nats.discover(bus), {})
    connect(where, { expose = { "trace" } }):flush(5)
    local list = nats.discover(bus)
    t.equal({ #list, list[1].stats.metadata.exposes, list[1].stats.endpoints[1].data }, { 1, "trace", {} })
    connect(where, { expose = {} }):flush(5)
  end)

  t.it("services are offered, count their calls, and are withdrawn", function()
    local where = start()
    local bus, other = connect(where), connect(where)
    local running = 3
    local function offer()
      return service.offer(bus, { name = "a.b", endpoint = "port", subject = "rl.port.a.b", queue = "q",
        description = "a port", data = function() return { running = running } end })
    end
    local one, two = offer(), offer()
    for i = 1, 300 do one:count(i / 1000) end
    one:count(0.5, "it failed")
    bus:flush(5)
    local list = nats.discover(other, { name = "a.b", timeout = 0.5 })
    t.equal(#list, 2)
    local stats = list[list[1].id == one.id and 1 or 2].stats
    local endpoint = stats.endpoints[1]
    t.equal({ endpoint.num_requests, endpoint.num_errors, endpoint.last_error, endpoint.subject, endpoint.queue_group },
      { 301, 1, "it failed", "rl.port.a.b", "q" })
    t.equal(endpoint.processing_time, math.tointeger((300 * 301 / 2 / 1000 + 0.5) * 1e9 // 1))
    t.equal(endpoint.average_processing_time, endpoint.processing_time // 301)
    t.equal({ endpoint.data.longest, endpoint.data.running }, { 0.5, 3 })
    -- This is the 253rd of the last 256 durations.
    t.equal(endpoint.data.p99, 0.298)
    t.truthy(stats.started:find "^%d+%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d+Z$")
    one:withdraw()
    one:withdraw()
    bus:flush(5)
    t.equal({ #nats.discover(other), nats.discover(other)[1].id }, { 1, two.id })
    two:withdraw()
    bus:flush(5)
    t.equal(bus:stats().subscriptions, 0)
    t.equal(nats.discover(other), {})
  end)

  t.it("malformed answers are left out", function()
    local where = start()
    local bus = connect(where)
    local texts = { "", "{]", "1", "{}", '{"name":1,"id":"x"}', '{"name":"ok","id":"x","metadata":7,"endpoints":"no"}',
      '{"name":"also","id":"x","metadata":{"host":1,"pid":"12a"}}', ("["):rep(5000) }
    bus:subscribe("$SRV.STATS", { keeps_alive = false }, function(m)
      for _, text in ipairs(texts) do m:respond(text) end
    end)
    local list = nats.discover(bus)
    t.equal({ #list, list[1].name, list[2].name, list[2].pid, list[1].host }, { 2, "also", "ok" })
  end)
end

t.describe("with the fake", function() cases(function() return nats.fake { latency = 0.0001 } end) end)

t.describe("with a server", { real_time = true }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  cases(function() return server():url() end)

  t.it("a program reports what its loops do", { timeout = 30 }, function()
    local path = folder() .. "/exposed.lua"
    t.truthy(fs.write(path, [[
      local rl, nats = require "runloop", require "runloop.nats"
      local bus = assert(nats.connect(arg[1], { expose = { "stats" } }))
      rl.every(0.01, function() end)
      rl.thread { function() require "runloop".every(0.01, function() end) end, name = "second" }
      print "ready" io.flush()
    ]]))
    local program = t.spawn { t.rlhost, path, server():url() }
    t.finally(function() program:kill() end)
    program:wait_for("ready", { within = 20 })
    local bus, data = connect(server():url()), nil
    t.eventually(function()
      local list = nats.discover(bus, { name = "rlhost", timeout = 1 })
      data = list and list[1] and list[1].stats.endpoints[1].data
      return data and (data.callbacks or 0) > 60
    end, { within = 20 })
    t.truthy(data.passes > 30 and data.awake > 0 and data.awake < 1, json.encode(data))
    t.truthy(data.p99 > 0 and data.longest >= data.p99 and data.late >= 0, json.encode(data))
    t.equal(data.connections, 1)
  end)
end)

t.it("a server that refuses discovery is reported to the exposing and the asking process",
  { real_time = true }, function()
    local events = {}
    local own = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
      'listen: "127.0.0.1:{port}"\nauthorization: { users: [ { user: u, password: p, permissions: { '
      .. 'subscribe: ["_INBOX.>"], publish: ["a"] } } ] }\n' } }
    t.finally(function() own:stop() end)
    local bus = connect("nats://u:p@" .. own:address(), { expose = { "stats" }, on_event = function(_, event, details)
      events[#events + 1] = event .. " " .. (details.subject or "")
    end })
    t.equal(bus:flush(5), true)
    local none, text, code = nats.discover(bus)
    t.equal({ none, code }, { nil, "EACCES" })
    t.truthy(text:find "^EACCES: the server refuses %$SRV.STATS: ")
    t.equal(events, { "refused $SRV.>", "refused $SRV.STATS" })
  end)

t.it("questions arrive after a reconnect", function()
  local fake = nats.fake()
  connect(fake, { expose = { "stats" } })
  local other = connect(fake)
  fake:drop()
  rl.sleep(5)
  t.equal(#nats.discover(other), 1)
end)

t.it("a question without a reply is ignored, and a flood of questions reads the process seldom", function()
  local fake = nats.fake()
  local bus, other = connect(fake, { expose = { "stats" } }), connect(fake)
  other:publish "$SRV.STATS"
  for _ = 1, 100 do other:publish("$SRV.STATS", "", { reply = "nobody" }) end
  other:publish("$SRV.STATS.rlhost", "", { reply = "$SRV.STATS" })
  other:flush()
  rl.sleep(1)
  t.equal(#nats.discover(other), 1)
  t.equal(bus:status(), "connected")
end)

t.describe("misuse", function()
  t.each({
    { { "stat" }, 'a list of "stats" and "trace", got "stat"' }, { { stats = true }, 'a list of "stats" and "trace"' },
    { { 1 }, "got 1" }, { "stats", "must be a table" }, { { "stats", "x" }, 'a list of "stats" and "trace"' },
  }, "nats.connect rejects expose = %s", function(expose, text)
    t.error(function() nats.connect(nats.fake(), { expose = expose }) end, "nats.connect: field 'expose'")
    t.error(function() nats.connect(nats.fake(), { expose = expose }) end, text)
  end)

  t.it("nats.discover rejects wrong arguments, and returns refusals", function()
    local bus = connect(nats.fake())
    t.error(function() nats.discover() end, "nats.discover: argument #1 must be a bus, got nothing")
    t.error(function() nats.discover(bus, { nam = "x" }) end, "nats.discover: unknown field 'nam'")
    t.error(function() nats.discover(bus, { name = "a b" }) end, "nats.discover: field 'name' must be a name of 1 to")
    t.error(function() nats.discover(bus, { name = "" }) end, "nats.discover: field 'name'")
    t.error(function() nats.discover(bus, { timeout = -1 }) end, "nats.discover: field 'timeout'")
    bus:close()
    local none, text, code = nats.discover(bus)
    t.equal({ none, text, code },
      { nil, "ENOTCONN: the connection to NATS is closed (closed by the script)", "ENOTCONN" })
    local fake = nats.fake()
    local offline = connect(fake, { max_offline = 0 })
    fake:stop()
    rl.sleep(0.1)
    t.equal({ nats.discover(offline) }, { nil, "ENOTCONN: there is no connection to NATS now", "ENOTCONN" })
  end)
end)
