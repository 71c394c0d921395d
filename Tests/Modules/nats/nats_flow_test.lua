-- Recordings of several processes that ask each other over NATS: headers, arrows, clocks, `rlhost trace --via`.

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local nats = require "runloop.nats"
local process = require "runloop.process"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect = buses.connect

local REAL = { real_time = true, timeout = 120 }

local place = assert(fs.temporary_directory())
t.after_all(function() fs.remove(place, { recursive = true }) end)

local function write(name, text)
  assert(fs.write(place .. "/" .. name, text))
  return place .. "/" .. name
end

-- Returns the events of a recording in Chrome's format.
local function events(path) return json.decode(assert(fs.read(path))) end

-- Returns the messages of a recording by number: the place where each was sent, and all places where it arrived.
local function messages(list)
  local left, came = {}, {}
  for _, event in ipairs(list) do
    local at = event.args and event.args.at
    if at == "departs" then left[event.id] = event end
    if at == "arrives" then
      came[event.id] = came[event.id] or {}
      table.insert(came[event.id], event)
    end
  end
  return left, came
end

-- A process that answers requests to "work". Before it answers such a request, it sends a request to "deep". The
-- process answers requests to "deep" as well.
local SERVER = [[
local rl, nats = require "runloop", require "runloop.nats"
local bus = assert(nats.connect(%d, { name = %q, expose = { "trace" } }))
bus:subscribe("%s.deep", function(m) m:respond("deep " .. (m.headers and "headers" or "none")) end)
bus:subscribe("%s.work", { concurrency = 4 }, function(m)
  if m.data == "die" then os.exit(3) end
  m:respond(assert(bus:request("%s.deep")).data)
end)
assert(bus:flush())
print "ready"
]]

local function serve(real, name, trace)
  local path = write(name .. ".lua", SERVER:format(real:port(), name, name, name, name))
  local words = { t.rlhost, path }
  if trace then table.insert(words, 2, "--trace=" .. trace) end
  local one = t.spawn(words)
  t.finally(function()
    one:signal(9)
    one:wait()
  end)
  one:wait_for("ready", { within = 30 })
  return one
end

t.it("messages have no trace headers while only the last moments are recorded", function()
  local bus = connect(nats.fake())
  local got
  bus:subscribe("a", { keeps_alive = false }, function(m)
    got = m.headers
    m:respond "b"
  end)
  t.equal(bus:request("a").headers, nil)
  t.equal(got, nil)
end)

t.it("scripts do not see the recorder's headers, but those of others", REAL, function()
  local real = t.server "nats"
  local bus = connect(real:port(), { expose = { "trace" } })
  assert(rl.trace.start(place .. "/headers.json"))
  t.finally(rl.trace.stop)
  local raw = connect(real:port())
  local seen = {}
  bus:subscribe("h", function(m)
    seen[#seen + 1] = m.headers or "none"
    m:respond("x", { headers = { Own = "1" } })
  end)
  local parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
  t.equal(t.truthy(bus:request("h")).headers, { Own = "1" })
  t.truthy(bus:request("h", "", { headers = { A = "1", Authorization = "Bearer s3cret" } }))
  t.truthy(bus:request("h", "", { headers = { traceparent = parent } }))
  t.truthy(raw:request("h", "", { headers = { traceparent = parent, ["Rl-Flow"] = "rubbish" } }))
  t.truthy(raw:request("h", "", { headers = { ["Rl-Flow"] = { "1", "2" } } }))
  t.equal(seen[1], "none")
  t.equal(seen[2], { A = "1", Authorization = "Bearer s3cret" })
  t.equal(seen[3], { traceparent = parent })
  t.equal(seen[4].traceparent, parent)
  t.equal(#seen, 5)
  t.equal(rl.trace.stop(), place .. "/headers.json")
  local text = assert(fs.read(place .. "/headers.json"))
  t.truthy(text:find('"name":"h"', 1, true))
  t.falsy(text:find("s3cret", 1, true) or text:find("Authorization", 1, true))
end)

t.it("trace headers follow W3C's format, with one trace for all requests of a callback", REAL, function()
  local real = t.server "nats"
  local bus = connect(real:port(), { expose = { "trace" } })
  assert(rl.trace.start(place .. "/wire.json"))
  t.finally(rl.trace.stop)
  -- A client that knows nothing of the headers: it sends and reads the bytes of the protocol itself.
  local net = require "runloop.net"
  local stream = assert(net.connect { host = "127.0.0.1", port = real:port() })
  stream:write 'CONNECT {"verbose":false,"headers":true}\r\nSUB outer 1\r\nSUB inner 2\r\nPING\r\n'
  repeat until t.truthy(stream:read_line { timeout = 10 }) == "PONG"
  bus:subscribe("middle", function(m)
    bus:publish("plain", "x")
    t.truthy(bus:request("inner", "", { timeout = 10 }))
    m:respond "done"
  end)
  local asked = rl.task { function() return bus:request("outer", "", { timeout = 10 }) end }
  local function message()
    local head = t.truthy(stream:read_line { timeout = 10 })
    local reply, first, size = head:match "^HMSG %S+ %d+ (%S+) (%d+) (%d+)"
    return t.truthy(reply, head), t.truthy(stream:read_exactly(tonumber(size) + 2)):sub(1, tonumber(first))
  end
  local reply, block = message()
  local trace, span, mark = block:match
    "^NATS/1%.0\r\ntraceparent: 00%-(%x+)%-(%x+)%-01\r\nRl%-Flow: (%x+) %x+\r\n\r\n$"
  t.equal({ #t.truthy(trace, block), #span, span }, { 32, 16, mark })
  stream:write("PUB " .. reply .. " 2\r\nok\r\n")
  t.equal(asked:await().data, "ok")
  -- Requests that the handler of "middle" sends belong to the trace of the message that it has received.
  local given = "NATS/1.0\r\ntraceparent: 00-" .. ("ab"):rep(16) .. "-" .. ("cd"):rep(8) .. "-01\r\nRl-Flow: "
    .. ("cd"):rep(8) .. " 00000000000000ff\r\n\r\n"
  stream:write(("SUB answers 3\r\nHPUB middle answers %d %d\r\n%s\r\n"):format(#given, #given, given))
  reply, block = message()
  t.truthy(block:find("traceparent: 00-" .. ("ab"):rep(16) .. "-", 1, true), block)
  stream:write("PUB " .. reply .. " 2\r\nok\r\n")
  local head = t.truthy(stream:read_line { timeout = 10 })
  local first = t.truthy(head:match "^HMSG answers 3 (%d+) ", head)
  block = t.truthy(stream:read_exactly(tonumber(first) + 4 + 2))
  t.truthy(block:find "^NATS/1%.0\r\nRl%-Flow: %x+ %x+\r\n\r\ndone\r\n$", block)
  stream:close()
  t.equal(rl.trace.stop(), place .. "/wire.json")
end)

t.it("trace headers do not make a message too large", function()
  local fake = nats.fake { max_payload = 100 }
  local bus = connect(fake, { expose = { "trace" } })
  bus:subscribe("a", { keeps_alive = false }, function(m) m:respond(m.data) end)
  t.equal(t.truthy(bus:request("a", ("x"):rep(100))).data, ("x"):rep(100))
end)

t.it("a recording joins a request, the callback that answers and the answer, also in three processes", REAL, function()
  local real = t.server "nats"
  local one = serve(real, "one", place .. "/one.pftrace")
  local two = serve(real, "two", place .. "/two.json")
  local client = write("client.lua", ([[
    local nats = require "runloop.nats"
    local bus <close> = assert(nats.connect(%d))
    for _ = 1, 5 do
      assert(bus:request("one.work").data == "deep none")
      assert(bus:request("two.work").data == "deep none")
    end
  ]]):format(real:port()))
  t.equal(process.run { t.rlhost, "--trace=" .. place .. "/client.pftrace", client }.code, 0)
  one:signal "TERM"
  two:signal "TERM"
  one:wait() two:wait()
  local run = process.run { t.rlhost, "trace", place .. "/client.pftrace", place .. "/one.pftrace",
    place .. "/two.json", "-o", place .. "/all.json" }
  t.equal({ run.code, run.errors }, { 0, "" })
  local list = events(place .. "/all.json")
  local left, came = messages(list)
  local lanes, answered = {}, 0
  for _, event in ipairs(list) do
    if event.name == "thread_name" then lanes[event.tid] = event.args.name:match "^%w+" end
  end
  for id, event in pairs(left) do
    t.equal(#t.truthy(came[id], event.args.by), 1)
    local there = came[id][1]
    t.equal(there.args.by, event.args.by)
    -- All processes share one clock, so the only error is the recorder's precision.
    t.truthy(there.ts - event.ts > -20, there.ts - event.ts)
    local name = event.args.by
    if name == "one.work" and lanes[event.tid] == "client" then
      t.equal(lanes[there.tid], "one")
      answered = answered + 1
    end
  end
  t.equal(answered, 5)
  -- Requests are spans.
  local spans = 0
  for _, event in ipairs(list) do
    if event.ph == "b" and event.cat == "nats" then spans = spans + 1 end
  end
  t.equal(spans, 20)
end)

t.it("a recording joins sends of ports and jobs of pools, stored ones, too", REAL, function()
  local real = t.server { "nats-server", "-js", "-sd", "{directory}/store", "-p", "{port}", "-a", "127.0.0.1",
    ready = "tcp" }
  local far, near = connect(real:port(), { expose = { "trace" } }), connect(real:port(), { expose = { "trace" } })
  assert(rl.trace.start(place .. "/ports.json"))
  t.finally(rl.trace.stop)
  t.truthy(rl.message_port { name = "inbox", via = far, modes = "common", callback = function(_, _, data)
    return data
  end })
  far:subscribe("deep", { keeps_alive = false }, function(m) m:respond "d" end)
  local remote = t.truthy(rl.remote_port("inbox", { via = near }))
  t.equal(remote:send(1, "x"), true)
  t.equal(remote:flush(10), true)
  t.equal(remote:request(2, "y"), "y")
  local worker <close> = t.truthy(rl.worker { via = far, name = "thumbs", keeps_alive = false, functions = {
    resize = function(n) return n, far:request("deep").data end } })
  local pool <close> = t.truthy(rl.pool { via = near, name = "thumbs" })
  t.equal({ pool:run("resize", 3) }, { 3, "d" })
  local stored <close> = t.truthy(rl.pool { via = near, name = "thumbs", durable = true })
  t.equal({ stored:run("resize", 4) }, { 4, "d" })
  t.equal(rl.trace.stop(), place .. "/ports.json")
  local left, came = messages(events(place .. "/ports.json"))
  local counts = {}
  for id, event in pairs(left) do
    local name = event.args.by
    counts[name] = (counts[name] or 0) + (came[id] and 1 or 0)
  end
  -- A call is followed by its answer. For a stored job, the worker handles only the job itself.
  t.equal({ counts["rl.port.inbox"], counts["rl.pool.thumbs.run"] }, { 4, 2 })
  t.truthy(counts["rl.pool.thumbs.durable"] >= 1)
  t.equal(counts["deep"], 4)
end)

t.it("a recording has spans of the calls of ports and pools", function()
  local fake = nats.fake()
  local far, near = connect(fake), connect(fake)
  rl.on_error(function() end)
  local port = buses.hold(far, "inbox", function(_, id, data)
    if id == 2 then error "refused" end
    rl.sleep(id)
    return data
  end)
  local worker <close> = t.truthy(rl.worker { via = far, name = "thumbs", keeps_alive = false,
    functions = { f = function() end } })
  local pool, remote = buses.pool_of(near, "thumbs"), buses.reach(near, "inbox")
  assert(rl.trace.start(place .. "/spans.json"))
  t.finally(rl.trace.stop)
  t.equal(remote:request(0, "x"), "x")
  t.equal({ remote:send(0, "y"), remote:flush() }, { true, true })
  t.equal(select("#", pool:run "f"), 0)
  t.equal(remote:request(2, "x"), nil)
  t.equal({ remote:request(8, "x", { reply_timeout = 0.5 }) }, { nil, "reply timed out" })
  local cancelled = rl.task(function() remote:request(8, "x") end)
  rl.sleep(0.5)
  cancelled:cancel()
  rl.sleep(0.1)
  t.equal(rl.trace.stop(), place .. "/spans.json")
  port:invalidate()
  rl.sleep(9)
  local open, seen = {}, {}
  for _, event in ipairs(events(place .. "/spans.json")) do
    if event.cat == "nats" and event.ph == "b" then open[event.id] = event end
    if event.cat == "nats" and event.ph == "e" then
      t.equal(t.truthy(open[event.id]).name, event.name)
      seen[#seen + 1], open[event.id] = event.name .. (event.args and event.args.failed and " failed" or ""), nil
    end
  end
  t.equal(seen, { "rl.port.inbox", "rl.port.inbox", "rl.pool.thumbs.run", "rl.port.inbox failed",
    "rl.port.inbox failed", "rl.port.inbox failed" })
  t.equal(open, {})
end)

-- Recordings of two processes on different machines, written by hand. The clocks differ by `shift` seconds, and each
-- message takes `delay` seconds.
local function recording(name, identity, machine, shift, sends, receives)
  local lines = { ('[\n{"ph":"M","pid":1,"name":"rlhost_format","args":{"format":2,"identity":%d,"machine":"0x%016x",'
    .. '"host":"%s","zero_us":1000.000}},'):format(identity, machine, name),
    ('{"ph":"M","pid":1,"name":"process_name","args":{"name":"%s.lua"}}'):format(name) }
  local function add(list, ph, at)
    for id, time in pairs(list) do
      lines[#lines + 1] = (',{"ph":"%s","pid":1,"tid":0,"ts":%.3f,"cat":"flow","name":"message","id":"0x%016x",'
        .. '"args":{"at":"%s","by":"x","kind":"nats"}}'):format(ph, (1000 + time + shift) * 1e6, id, at)
    end
  end
  add(sends, "s", "departs")
  add(receives, "f", "arrives")
  return write(name .. ".json", table.concat(lines, "\n") .. "\n]\n")
end

local function joined(...)
  local run = process.run { t.rlhost, "trace", "-o", place .. "/joined.json", ... }
  t.equal({ run.code, run.errors }, { 0, "" })
  local left, came = messages(events(place .. "/joined.json"))
  local backwards = 0
  for id, event in pairs(left) do
    for _, there in ipairs(came[id] or {}) do backwards = math.max(backwards, event.ts - there.ts) end
  end
  run = process.run { t.rlhost, "trace", "-o", place .. "/joined.html", ... }
  t.equal(run.code, 0)
  return left, came, backwards
end

t.it("joined recordings align clocks that differ by hours by the smallest round trip", REAL, function()
  local a = recording("a", 1, 11, 0, { [0x100000001] = 1, [0x100000002] = 2 },
    { [0x200000001] = 1.010, [0x200000002] = 2.300 })
  local b = recording("b", 2, 22, 7200.5, { [0x200000001] = 1.006, [0x200000002] = 2.2 },
    { [0x100000001] = 1.004, [0x100000002] = 2.1 })
  local left, came, backwards = joined(a, b)
  t.equal(backwards, 0)
  -- The round trip of 8 ms bounds the error at 4 ms.
  local trip = came["0x0000000100000001"][1].ts - left["0x0000000100000001"].ts
  t.truthy(trip > 0 and trip < 8000, trip)
end)

t.it("joined recordings tell equal pids apart, and keep the times of processes of one machine", REAL, function()
  local a = recording("a", 1, 11, 0, { [0x100000001] = 1 }, {})
  local c = recording("c", 3, 11, 0, {}, { [0x100000001] = 1.5 })
  local left, came = joined(a, c)
  t.equal(came["0x0000000100000001"][1].ts - left["0x0000000100000001"].ts, 500000.0)
  t.truthy(came["0x0000000100000001"][1].tid ~= left["0x0000000100000001"].tid)
end)

t.it("joined recordings trust messages more than equal clock numbers", REAL, function()
  local a = recording("a", 1, 11, 0, { [0x100000001] = 1 }, { [0x200000001] = 1.010 })
  local b = recording("b", 2, 11, -30, { [0x200000001] = 1.006 }, { [0x100000001] = 1.004 })
  local _, _, backwards = joined(a, b)
  t.equal(backwards, 0)
end)

t.it("arrows of joined recordings point backwards by at most the displayed error if clocks drift", REAL, function()
  -- Between the two round trips, the clock of b loses a second.
  local a = recording("a", 1, 11, 0, { [0x100000001] = 1, [0x100000002] = 100 },
    { [0x200000001] = 1.010, [0x200000002] = 100.010 })
  local b = recording("b", 2, 22, 5, { [0x200000001] = 1.006, [0x200000002] = 99.006 },
    { [0x100000001] = 1.004, [0x100000002] = 99.004 })
  local _, _, backwards = joined(a, b)
  t.truthy(backwards > 100000 and backwards < 500000, backwards)
  local page = assert(fs.read(place .. "/joined.html"))
  t.truthy(#page > 1000)
end)

t.it("joined recordings align clocks by the time of day, as far as messages in one direction allow", REAL,
  function()
    local a = recording("a", 1, 11, 0, { [0x100000001] = 1 }, {})
    local b = recording("b", 2, 22, -500, {}, { [0x100000001] = 1.2 })
    local _, _, backwards = joined(a, b)
    t.equal(backwards, 0)
    local alone = recording("c", 3, 33, 0, {}, {})
    joined(a, alone)
  end)

-- Runs `rlhost trace --via`.
local function via(real, ...)
  return process.run { t.rlhost, "trace", "--via", "nats://127.0.0.1:" .. real:port(), ... }
end

t.it("rlhost trace --via collects the last moments of all processes with these names", REAL, function()
  local real = t.server "nats"
  serve(real, "one")
  serve(real, "two")
  local bus = connect(real:port(), { name = "asker", expose = { "trace" } })
  local done = rl.now() + 1.2
  -- A loop records when it has run for a second.
  repeat
    t.truthy(bus:request "one.work")
    t.truthy(bus:request "two.work")
    rl.sleep(0.02)
  until rl.now() > done
  local run = via(real, "one", "two", "-o", place .. "/last.json")
  t.equal({ run.code, run.errors, run.output }, { 0, "", place .. "/last.json\n" })
  local list = events(place .. "/last.json")
  local lanes = {}
  for _, event in ipairs(list) do
    if event.name == "thread_name" then lanes[event.args.name:match "^%w+"] = true end
  end
  t.equal(lanes, { one = true, two = true })
  t.truthy(next((messages(list))))
end)

t.it("rlhost trace --via records the next seconds, and names a process that ends meanwhile", REAL, function()
  local real = t.server "nats"
  local one = serve(real, "one")
  local two = serve(real, "two")
  local bus = connect(real:port(), { name = "asker" })
  local run = rl.task { via, real, "one", "two", "1.5", "-o", place .. "/next.json" }
  rl.sleep(0.3)
  local asking = rl.task { function()
    while true do
      bus:request("one.work", "")
      rl.sleep(0.02)
    end
  end }
  rl.sleep(0.6)
  two:signal(9)
  two:wait()
  local result = run:await()
  asking:cancel()
  t.equal(result.code, 1)
  t.truthy(result.errors:find "^rlhost: trace: two %(.+:%d+%): its recording is missing: ENOENT: ", result.errors)
  t.equal(result.output, place .. "/next.json\n")
  t.truthy(next((messages(events(place .. "/next.json")))))
end)

t.it("rlhost trace --via has one recording of a process with several buses", REAL, function()
  local real = t.server "nats"
  local path = write("several.lua", ([[
    local rl, nats = require "runloop", require "runloop.nats"
    local function serve()
      local bus = assert(nats.connect(%d, { name = "several", expose = { "trace" } }))
      bus:subscribe("several.work", function(m) m:respond "done" end)
      assert(bus:flush())
      rl.every(0.02, function() end)
      return bus
    end
    rl.thread(function()
      bus = serve()
      print "ready"
    end)
    bus = serve()
  ]]):format(real:port()))
  local one = t.spawn { t.rlhost, path }
  t.finally(function()
    one:signal(9)
    one:wait()
  end)
  one:wait_for("ready", { within = 30 })
  local run = via(real, "several", "0.3", "-o", place .. "/several.json")
  t.equal({ run.code, run.errors }, { 0, "" })
  local lanes = {}
  for _, event in ipairs(events(place .. "/several.json")) do
    if event.name == "thread_name" then lanes[#lanes + 1] = event.args.name end
  end
  t.equal(#lanes, 2)
end)

t.it("rlhost trace --via ends early with Control-C, and writes the recording so far", REAL, function()
  local real = t.server "nats"
  serve(real, "one")
  local one = t.spawn { t.rlhost, "trace", "--via", "nats://127.0.0.1:" .. real:port(), "one", "600", "-o",
    place .. "/early.html" }
  rl.sleep(2)
  one:signal "INT"
  t.equal(one:wait { within = 60 }, 0)
  t.equal(one:errors(), "rlhost: trace: interrupted: the recordings end here\n")
  t.equal(one:output(), place .. "/early.html\n")
end)

t.it("rlhost trace --via needs no large messages", REAL, function()
  local real = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] = [[
    port: {port}
    max_payload: 2048
  ]] } }
  serve(real, "one")
  rl.sleep(1.2)
  local run = via(real, "one", "0.2", "-o", place .. "/small.html")
  t.equal({ run.code, run.errors }, { 0, "" })
end)

t.it("rlhost trace --via reports missing processes", REAL, function()
  local real = t.server "nats"
  local run = via(real, "nobody", "-o", place .. "/x.html")
  t.equal({ run.code, run.errors }, { 69,
    'rlhost: trace: no process answers to "nobody"; it needs a bus with this name and expose = { "trace" }\n' })
  run = process.run { t.rlhost, "trace", "--via", "127.0.0.1:1", "x", "-o", place .. "/x.html" }
  t.equal(run.code, 69)
  t.truthy(run.errors:find "^rlhost: trace: ECONNREFUSED: ", run.errors)
  for _, case in ipairs {
    { { "--via" }, "'--via' needs an address" },
    { { "--via", "x" }, "it needs the name of a process: rlhost trace --via URL NAME -o FILE.html" },
    { { "--via", "x", "5" }, "it needs the name of a process: rlhost trace --via URL NAME -o FILE.html" },
    { { "--via", "x", "a" }, "it needs a file to write: rlhost trace --via URL NAME -o FILE.html" },
    { { "--via", "x", "a", "0", "-o", "x.html" }, "the number of seconds is at most 3600, and not '0'" },
    { { "--via", "x", "a", "-1", "-o", "x.html" }, "unknown option '-1'; 'rlhost trace --help' lists them" },
    { { "--via", "x", "a", "4000", "-o", "x.html" }, "the number of seconds is at most 3600, and not '4000'" },
    { { "--via", "x", "a", "-o", "x.txt" }, "a recording's file ends in .html, .pftrace or .json, not as 'x.txt'" },
    { { "--ca", "x", "a.json", "-o", "x.html" }, "'--ca' needs '--via', the address of a server" },
  } do
    run = process.run { t.rlhost, "trace", table.unpack(case[1]) }
    t.equal({ run.code, run.output, run.errors }, { 64, "", "rlhost: trace: " .. case[2] .. "\n" })
  end
end)

t.it("malformed requests for recordings get an error or no answer", function()
  local bus = connect(nats.fake(), { name = "own", expose = { "trace" } })
  local function ask(subject, question)
    local message, problem = bus:request(subject, type(question) == "string" and question or json.encode(question),
      { timeout = 0.1 })
    return message and message.data or problem
  end
  for _, rubbish in ipairs { "", "x", "7", '{"op":"begin"}', '{"op":"begin","names":"own"}',
    '{"op":"begin","names":["other"]}', '{"op":"begin","names":[{}]}' } do
    t.equal(ask("rl.trace", rubbish), "timed out", rubbish)
  end
  t.equal(ask("rl.trace", "[]"), "-ENOENT: there is no such recording")
  local long = json.decode(ask("rl.trace", { op = "begin", names = { "own" }, seconds = 1e9 }))
  t.equal(long.problem, "EINVAL: a recording takes at most 3600 s")
  local own = "rl.trace." .. long.id
  t.equal(ask(own, { op = "piece", session = 9, at = 0 }), "-ENOENT: there is no such recording")
  t.equal(ask(own, { op = "melt" }), "-ENOENT: there is no such recording")
end)

t.it("a wrong word in expose raises an error", function()
  for _, case in ipairs {
    { { "trace", "all" }, "nats.connect: field 'expose' must be a list of \"stats\" and \"trace\"" },
    { { trace = true }, "nats.connect: field 'expose' must be a list" },
    { "trace", "nats.connect: field 'expose' must be a table" },
  } do
    t.error(function() nats.connect(nats.fake(), { expose = case[1] }) end, case[2])
  end
end)
