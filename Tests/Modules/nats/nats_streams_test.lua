-- runloop.nats: streams and consumers. The same cases run against nats.fake, in virtual time, and a real server.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect = buses.connect

local last = 0

-- Returns a name that no other case has: all cases share a real server.
local function unique()
  last = last + 1
  return "s" .. last
end

-- Returns a stream with a subject for all words below its name, and that name.
local function make(bus, settings)
  local name = unique()
  settings = settings or {}
  settings.subjects = settings.subjects or { name .. ".>" }
  settings.storage = settings.storage or "memory"
  return t.truthy(bus:stream(name, settings)), name
end

local function publish(stream, subject, ...)
  for _, data in ipairs { ... } do t.truthy(stream:publish(subject, data)) end
end

-- Waits for a condition, with a limit.
local function await(condition, what)
  for _ = 1, 1000 do
    if condition() then return end
    rl.sleep(0.01)
  end
  t.equal(what, "came true")
end

-- Collects the errors that rl.on_error receives in a list.
local function catch()
  local list, before = {}, nil
  before = rl.on_error(function(err) list[#list + 1] = tostring(err) end)
  t.finally(function() rl.on_error(before) end)
  return list
end

local function cases(start)
  t.it("a stream is made, or opened if its settings are equal, and the error names those that differ", function()
    local bus, name = connect(start()), unique()
    local none, text, code, refusal = bus:stream(name)
    t.equal({ none, text, code }, { nil, "ENOENT: there is no stream " .. name, "ENOENT" })
    t.equal(refusal, { err_code = 10059, description = "stream not found" })
    local one = t.truthy(bus:stream(name, { subjects = { name .. ".a", name .. ".b" }, max_messages = 10 }))
    t.equal(one:name(), name)
    t.truthy(bus:stream(name))
    t.truthy(bus:stream(name, { subjects = { name .. ".b", name .. ".a" }, max_messages = 10 }))
    none, text, code = bus:stream(name, { subjects = { name .. ".a" }, max_messages = 11 })
    t.equal({ none, text, code }, { nil, ("EEXIST: stream %s exists with other settings: subjects is %s.a %s.b, not "
      .. "%s.a; max_messages is 10, not 11"):format(name, name, name, name), "EEXIST" })
    t.equal(select(3, bus:stream(name .. "x", { subjects = { "x" }, replicas = 3 })), "ENOTSUP")
    t.equal(one:remove(), true)
    t.equal(select(3, bus:stream(name)), "ENOENT")
    t.equal(select(3, one:info()), "ENOENT")
    t.equal(select(3, one:publish(name .. ".a", "x", { timeout = 5 })), "ENOENT")
  end)

  t.it("a stream stores published messages, and recognizes repetitions by their ids", function()
    local bus = connect(start())
    local s, name = make(bus)
    t.equal(s:publish(name .. ".a", "1"), { stream = name, seq = 1, duplicate = false })
    t.equal(s:publish(name .. ".b", "2", { id = "two" }), { stream = name, seq = 2, duplicate = false })
    t.equal(s:publish(name .. ".b", "2", { id = "two" }), { stream = name, seq = 2, duplicate = true })
    t.equal(s:publish(name .. ".a", "3", { after = 2 }).seq, 3)
    local none, text, code, refusal = s:publish(name .. ".a", "3", { after = 2 })
    t.equal({ none, text, code },
      { nil, "EAGAIN: the last message of the stream " .. name .. " is 3, not 2", "EAGAIN" })
    t.equal(refusal.err_code, 10071)
    none, text, code = s:publish("elsewhere." .. name, "x", { timeout = 5 })
    t.equal({ none, text, code }, { nil, ("ENOENT: the stream %s does not take the subject elsewhere.%s (it takes "
      .. "%s.>)"):format(name, name, name), "ENOENT" })
    local info = t.truthy(s:info())
    t.equal({ info.messages, info.first, info.last, info.replicas, info.consumers }, { 3, 1, 3, 1, 0 })
    t.equal(s:purge(name .. ".a"), 2)
    t.equal(s:info().messages, 1)
    t.equal(s:purge(), 1)
    t.equal(s:info().messages, 0)
    t.equal(s:remove(), true)
    none, text, code, refusal = s:publish(name .. ".a", "4", { timeout = 5 })
    t.equal({ none, text, code }, { nil, "ENOENT: there is no stream " .. name, "ENOENT" })
    t.equal(refusal, { err_code = 10059, description = "stream not found" })
  end)

  t.it("streams, subjects and consumers may have names in capitals", function()
    local bus = connect(start())
    for _, name in ipairs { "ORDERS", "INFO", "MSG" } do
      local s = make(bus, { subjects = { name } })
      local capital = t.truthy(bus:stream(name, { subjects = { name .. ".>" }, storage = "memory" }))
      t.truthy(capital:publish(name .. ".A", "1"))
      local c <close> = t.truthy(capital:consumer("CREATE", {}))
      t.equal(t.truthy(c:receive(5)):ack(5), true)
      t.equal(c:remove(), true)
      t.equal(capital:info().consumers, 0)
      t.equal(capital:remove(), true)
      s:remove()
    end
  end)

  t.it("a stream may not have subjects of other streams, also after an update", function()
    local bus = connect(start())
    local s, name = make(bus, { subjects = { "over.a.*" } })
    t.equal(s:info().first, 0)
    for _, subject in ipairs { "over.a.b", "over.*.x", "over.>", ">" } do
      local none, text, code = bus:stream(name .. "x", { subjects = { subject }, storage = "memory" })
      t.equal({ none, text, code }, { nil, "EEXIST: stream " .. name .. "x: subjects overlap with an existing stream",
        "EEXIST" })
    end
    local other, own = make(bus, { subjects = { "over.b.*", "over.a", "over.a.b.c" } })
    t.equal({ other:update { subjects = { "over.*.c" } } }, { nil, "EEXIST: stream " .. own
      .. ": subjects overlap with an existing stream", "EEXIST",
      { err_code = 10065, description = "subjects overlap with an existing stream" } })
    s:remove()
    t.equal(other:update { subjects = { "over.*.c" } }, true)
    other:remove()
  end)

  t.it("a stream remembers ids no longer than messages", function()
    local bus = connect(start())
    local s = make(bus)
    local none, text, code = s:update { max_age = 60, duplicates = 61 }
    t.equal({ none, code }, { nil, "EPROTO" })
    t.truthy(text:find("duplicates window can not be larger then max age", 1, true), text)
    t.equal(s:update { max_age = 60 }, true)
    t.error(function() s:publish("x", "", { timeout = 31 }) end, "more than half of the 60 seconds")
  end)

  t.it("a stream with retention \"interest\" keeps only messages for which a consumer exists", function()
    local bus = connect(start())
    local s, name = make(bus, { retention = "interest", max_messages = 1 })
    for seq = 1, 2 do
      t.equal(s:publish(name .. ".a", "x", { id = "id" .. seq }), { stream = name, seq = seq, duplicate = false })
      t.equal(s:info().messages, 0)
    end
    t.equal(t.truthy(s:publish(name .. ".a", "x", { id = "id1" })).duplicate, true)
    local first, second = t.truthy(s:consumer("first", {})), t.truthy(s:consumer("second", {}))
    publish(s, name .. ".a", "3")
    t.equal(t.truthy(first:receive(5)):ack(5), true)
    t.equal(select(3, s:publish(name .. ".a", "4")), "ENOSPC")
    t.equal(second:remove(), true)
    await(function() return s:info().messages == 0 end, "an empty stream")
  end)

  t.it("a consumer that begins at a number beyond the last message gets the next message", function()
    local bus = connect(start())
    local s, name = make(bus)
    publish(s, name .. ".a", "1", "2")
    local c <close> = t.truthy(s:consumer("c", { deliver = 9 }))
    publish(s, name .. ".a", "3")
    t.equal(t.truthy(c:receive(5)).seq, 3)
  end)

  t.it("a consumer's filter must be part of a subject of the stream, or have one as its part", function()
    local bus = connect(start())
    local s = t.truthy(bus:stream("s", { subjects = { "a.*", "b.*.c" } }))
    for _, filter in ipairs { ">", "*.*", "a.>", "a.*", "a.x", "b.*.c", "b.>", "b.x.c", "b.*.*" } do
      t.truthy(s:consumer(nil, { filter = filter })):remove()
    end
    for _, filter in ipairs { "*", "a", "*.x", "a.x.y", "a.*.*", "a.x.>", "b.*", "b.*.x", "c", "c.>" } do
      t.equal(select(3, s:consumer(nil, { filter = filter })), "EPROTO", filter)
    end
    t.equal(s:info().first, 0)
    s:purge()
    t.equal(s:info().first, 1)
  end)

  t.it("the consumers of a work queue may not have overlapping filters", function()
    local bus = connect(start())
    local s, name = make(bus, { retention = "workqueue" })
    local one = t.truthy(s:consumer("one", { filter = name .. ".*" }))
    for filter, number in pairs { [name .. ".>"] = 10100, [name .. ".a"] = 10100, [1] = 10099 } do
      local none, _, _, refusal = s:consumer("two", { filter = filter ~= 1 and filter or nil })
      t.equal({ none, refusal.err_code }, { nil, number })
    end
    local two = t.truthy(s:consumer("two", { filter = name .. ".a.*" }))
    one:invalidate()
    two:invalidate()
  end)

  t.it("a stream counts the bytes of its messages as the server does", function()
    local bus = connect(start())
    for storage, more in pairs { file = 34, memory = 16 } do
      local s, name = make(bus, { storage = storage })
      t.truthy(s:publish(name .. ".a", "12345", { id = "1" }))
      local head = ("NATS/1.0\r\nNats-Msg-Id: 1\r\nNats-Expected-Stream: %s\r\n\r\n"):format(name)
      t.equal(s:info().bytes, #name + 2 + #head + 5 + more, storage)
      local _, text = s:update { retention = "workqueue" }
      t.truthy(text:find "can not change retention policy$", text)
    end
  end)

  t.it("a full stream removes the oldest message, or refuses the new one", function()
    local bus = connect(start())
    local s, name = make(bus, { max_messages = 2 })
    publish(s, name .. ".a", "1", "2", "3")
    t.equal(s:info().first, 2)
    t.equal(s:update { max_messages = 3 }, true)
    publish(s, name .. ".a", "4")
    t.equal(s:info().messages, 3)
    t.equal(select(3, s:update { retention = "interest" }), "EPROTO")
    local none, problem, why = s:update { replicas = 3 }
    t.equal({ none, problem, why }, { nil, ("ENOTSUP: stream %s: 3 replicas need a cluster of servers"):format(name),
      "ENOTSUP" })
    t.equal(s:info().replicas, 1)
    for settings, words in pairs {
      [{ retention = "workqueue", max_messages = 2 }] = "maximum messages exceeded",
      [{ retention = "workqueue", max_bytes = 500 }] = "maximum bytes exceeded",
    } do
      local work, subject = make(bus, settings)
      local none, text, code, refusal
      for _ = 1, 4 do none, text, code, refusal = work:publish(subject .. ".a", ("x"):rep(150)) end
      t.equal({ none, text, code }, { nil, "ENOSPC: stream " .. subject .. ": " .. words, "ENOSPC" })
      t.equal(refusal.err_code, 10077)
    end
  end)

  t.it("a consumer gets a message again until it is acknowledged", function()
    local bus = connect(start())
    local s, name = make(bus)
    publish(s, name .. ".a", "1", "2", "3", "4")
    t.equal(select(3, s:consumer "w"), "ENOENT")
    local c <close> = t.truthy(s:consumer("w", { ack_wait = 0.5, max_deliver = 3 }))
    local one = t.truthy(c:receive(5))
    t.equal({ one.subject, one.data, one.delivered, one.seq, one.stream, one.reply }, { name .. ".a", "1", 1, 1, name })
    t.truthy(math.abs(one.time - rl.time()) < 3600)
    t.equal(one:ack(5), true)
    t.error(function() one:ack() end, "message:ack: the message was answered already, by ack")
    t.error(function() one:nak() end, "answered already")
    local two, three, four = c:receive(5), c:receive(5), c:receive(5)
    t.equal(two:nak(), true)
    local again = t.truthy(c:receive(5))
    t.equal({ again.data, again.delivered }, { "2", 2 })
    t.equal(again:ack(), true)
    t.equal(three:term "useless", true)
    t.equal(four:working(), true)
    t.equal(four:working(), true)
    -- The fourth message is never acknowledged, so it is delivered three times.
    again = t.truthy(c:receive(5))
    t.equal({ again.data, again.delivered }, { "4", 2 })
    again = t.truthy(c:receive(5))
    t.equal({ again.data, again.delivered }, { "4", 3 })
    t.equal(select(2, c:receive(1)), "timed out")
    t.equal(c:stats().received, 7)
  end)

  t.it("a message is acknowledged when the function returns, and delivered again after an error", function()
    local bus, errors = connect(start()), catch()
    local s, name = make(bus, { retention = "workqueue" })
    publish(s, name .. ".a", "good", "bad", "own")
    local seen, done = {}, rl.future()
    local c = t.truthy(s:consumer("w", { keeps_alive = false }, function(m, consumer)
      seen[#seen + 1] = m.data .. m.delivered
      if m.data == "bad" and m.delivered == 1 then error("oops", 0) end
      if m.data == "own" then m:term() end
      if #seen == 4 then done:complete(consumer) end
    end))
    t.equal(done:await(10), c)
    t.equal(seen, { "good1", "bad1", "own1", "bad2" })
    t.equal(errors, { "oops" })
    await(function() return s:info().messages == 0 end, "the work queue is empty")
    t.equal(c:stats(), { received = 4, handled = 4, pending = 0, unanswered = 0 })
    c:invalidate()
    t.equal(c:is_valid(), false)
    publish(s, name .. ".a", "later")
    local other <close> = t.truthy(s:consumer "w")
    t.equal(t.truthy(other:receive(5)).data, "later")
  end)

  t.it("a function that works long keeps its message, and is cancelled at its time limit", function()
    local bus, errors = connect(start()), catch()
    local s, name = make(bus)
    publish(s, name .. ".a", "slow", "waits")
    local seen, done = {}, rl.future()
    t.truthy(s:consumer("w", { ack_wait = 0.5, keeps_alive = false, batch = 2 }, function(m)
      seen[#seen + 1] = m.data .. m.delivered
      if m.data == "slow" then rl.sleep(1.3) else done:complete() end
    end))
    done:await(10)
    t.equal(seen, { "slow1", "waits1" })
    local ended
    local limited = t.truthy(s:consumer("l", { time_limit = 0.2, max_deliver = 1, keeps_alive = false }, function()
      local _ <close> = setmetatable({}, { __close = function() ended = true end })
      rl.sleep(60)
    end))
    await(function() return #errors == 2 end, "two calls were cancelled")
    t.truthy(ended)
    t.truthy(errors[1]:find("was cancelled after 0.2 s (time_limit)", 1, true), errors[1])
    limited:invalidate()
  end)

  t.it("a consumer begins at the given message, and filters by subject", function()
    local bus = connect(start())
    local s, name = make(bus)
    publish(s, name .. ".a", "1", "2")
    publish(s, name .. ".b", "3")
    rl.sleep(0.05)
    local middle = rl.time()
    rl.sleep(0.05)
    publish(s, name .. ".a", "4")
    local function first(options, seconds)
      local c <close> = t.truthy(s:consumer(nil, options))
      local m = c:receive(seconds or 5)
      return m and m.data
    end
    t.equal(first(), "1")
    t.equal(first { deliver = "all", filter = name .. ".b" }, "3")
    t.equal(first { deliver = "last" }, "4")
    t.equal(first { deliver = 2 }, "2")
    t.equal(first { deliver = { since = middle } }, "4")
    t.equal(first({ deliver = "new" }, 0.2), nil)
    await(function() return s:info().consumers == 0 end, "the consumers are gone")
    local c <close> = t.truthy(s:consumer(nil, { deliver = "new" }))
    rl.after(0.05, function() publish(s, name .. ".a", "5") end)
    t.equal(t.truthy(c:receive(5)).data, "5")
  end)

  t.it("an existing consumer is opened if the settings are equal, and the error names those that differ", function()
    local bus = connect(start())
    local s, name = make(bus)
    t.truthy(s:consumer("w", { ack_wait = 7, filter = name .. ".a" })):invalidate()
    t.truthy(s:consumer("w", { ack_wait = 7 })):invalidate()
    t.truthy(s:consumer "w"):invalidate()
    local none, text, code = s:consumer("w", { ack_wait = 8, filter = name .. ".b", concurrency = 2 })
    t.equal({ none, text, code }, { nil, ("EEXIST: the consumer w of stream %s exists with other settings: filter is "
      .. "%s.a, not %s.b; ack_wait is 7, not 8"):format(name, name, name), "EEXIST" })
    local c = t.truthy(s:consumer "w")
    t.equal(c:remove(), true)
    t.equal(select(3, s:consumer "w"), "ENOENT")
    t.equal(select(3, c:receive(1)), "ENOTCONN")
  end)

  t.it("consumers of one name share the messages of a stream", function()
    local where = start()
    local one, two = connect(where), connect(where)
    local s, name = make(one, { retention = "workqueue" })
    local count, by = 0, {}
    local function work(bus)
      t.truthy(t.truthy(bus:stream(name)):consumer("w", { batch = 2, concurrency = 2, keeps_alive = false }, function(m)
        rl.sleep(0.005)
        by[m.data], count = (by[m.data] or 0) + 1, count + 1
      end))
    end
    work(one)
    work(two)
    for i = 1, 40 do publish(s, name .. ".a", tostring(i)) end
    await(function() return count == 40 end, "all are handled")
    for i = 1, 40 do t.equal(by[tostring(i)], 1) end
  end)

  t.it("an invalidated consumer returns the messages that it has not begun", function()
    local where = start()
    local one, two = connect(where), connect(where)
    local s, name = make(one)
    for i = 1, 10 do publish(s, name .. ".a", tostring(i)) end
    local entered = rl.future()
    local c = t.truthy(s:consumer("w", { keeps_alive = false, ack_wait = 60 }, function()
      entered:complete()
      rl.sleep(0.1)
    end))
    entered:await(5)
    await(function() return c:stats().pending == 9 end, "the rest waits here")
    one:close()
    local other = t.truthy(t.truthy(two:stream(name)):consumer "w")
    local got = {}
    for _ = 1, 9 do got[#got + 1] = t.truthy(other:receive(5)).delivered end
    t.equal(#got, 9)
    t.equal(math.max(table.unpack(got)), 2)
  end)

  t.it("an event reports that a consumer or its stream was removed", { timeout = 80 }, function()
    local events = {}
    local where = start()
    local bus = connect(where, { on_event = function(_, event, details)
      if event == "refused" then events[#events + 1] = details end
    end })
    local other = connect(where)
    local s, name = make(bus)
    local c = t.truthy(s:consumer("w", {}))
    local waits = rl.task(function() return c:receive(40) end)
    rl.sleep(0.05)
    t.truthy(t.truthy(t.truthy(other:stream(name)):consumer "w"):remove())
    local none, text, code = waits:await(38)
    t.equal({ none, code }, { nil, "ENOENT" })
    t.truthy(text:find("consumer w of stream " .. name, 1, true), text)
    t.equal({ #events, events[1].code, events[1].subject }, { 1, "ENOENT", name .. ".w" })
    t.equal(c:is_valid(), false)
    -- A consumer that ends with its object is made again, as long as the stream exists.
    local own = t.truthy(s:consumer(nil))
    publish(s, name .. ".a", "1", "2")
    t.equal(own:receive(5).data, "1")
    t.truthy(t.truthy(t.truthy(other:stream(name)):consumer(own:name())):remove())
    t.equal(own:receive(5):ack(), true)
    publish(s, name .. ".a", "3")
    local seen = {}
    await(function()
      local m = own:receive(0.1)
      if m then seen[m.data] = true end
      return seen["3"]
    end, "the next message comes")
    waits = rl.task(function() return select(3, own:receive(20)) end)
    s:remove()
    t.equal(waits:await(18), "ENOENT")
  end)

  t.it("a wait that is cancelled or timed out frees its place", function()
    local bus = connect(start())
    local s, name = make(bus)
    local c = t.truthy(s:consumer("w", {}))
    t.equal(select(2, c:receive(0.02)), "timed out")
    local waits = rl.task(function() return c:receive() end)
    rl.sleep(0.02)
    waits:cancel()
    publish(s, name .. ".a", "1")
    t.equal(t.truthy(c:receive(5)).data, "1")
    local tasks = {}
    for i = 1, 100 do tasks[i] = rl.task(function() return s:publish(name .. ".a", tostring(i)) end) end
    for i = 1, 100 do tasks[i]:cancel() end
    t.equal(bus:stats().requests, 0)
    t.truthy(s:publish(name .. ".a", "after"))
    local stored, text = s:publish(name .. ".a", "x", { timeout = 0 })
    t.truthy(stored or text == "timed out", text)
    t.equal(bus:stats().requests, 0)
  end)

  t.it("waits and calls end with ENOTCONN when the bus is closed", function()
    local bus = connect(start())
    local s, name = make(bus)
    local c = t.truthy(s:consumer("w", {}))
    local waits = rl.task(function() return select(3, c:receive()) end)
    rl.sleep(0.02)
    bus:close()
    t.equal(waits:await(1), "ENOTCONN")
    t.equal(select(3, s:publish(name .. ".a", "x")), "ENOTCONN")
    t.equal(select(3, s:info()), "ENOTCONN")
    t.equal(select(3, s:consumer("w", {})), "ENOTCONN")
    t.equal(select(3, bus:stream(name)), "ENOTCONN")
  end)
end

t.describe("with the fake", function()
  cases(function() return nats.fake { latency = 0.0001, jetstream = true } end)
end)

t.describe("with a server", { real_time = true }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  cases(function() return server():url() end)
end)

t.it("a server without JetStream is reported with ENOTSUP", { real_time = true }, function()
  local real = t.server { "nats-server", "-a", "127.0.0.1", "-p", "{port}", ready = "tcp" }
  for _, bus in ipairs { connect(nats.fake()), connect(real:address()) } do
    local none, text, code = bus:stream("a", {})
    t.equal({ none, code }, { nil, "ENOTSUP" })
    t.truthy(text:find("stores nothing: start it with -js", 1, true), text)
    t.equal(select(3, bus:bucket "a"), "ENOTSUP")
    t.equal(select(3, bus:lease "a"), "ENOTSUP")
  end
end)

t.it("wrong arguments raise errors that name the call", function()
  local bus = connect(nats.fake { jetstream = true })
  local s = t.truthy(bus:stream("s", {}))
  for _, name in ipairs { "", "a.b", "a b", "a*", ("x"):rep(101) } do
    t.error(function() bus:stream(name) end, "bus:stream: argument #1 must be a name of")
    t.error(function() s:consumer(name) end, "stream:consumer: argument #1 must be a name of")
  end
  t.error(function() bus:stream(1) end, "bus:stream: argument #1")
  t.error(function() bus:stream("a", 1) end, "bus:stream: argument #2 must be a table")
  t.error(function() bus:stream("a", { subject = "b" }) end, "subjects")
  t.error(function() bus:stream("a", { subjects = {} }) end, "names no subject")
  t.error(function() bus:stream("a", { subjects = { "a b" } }) end, "bus:stream: the subject")
  t.error(function() bus:stream("a", { retention = "work" }) end, '"interest" or "limits" or "workqueue"')
  t.error(function() bus:stream("a", { storage = "disk" }) end, '"file" or "memory"')
  t.error(function() bus:stream("a", { replicas = 6 }) end, "replicas")
  t.error(function() bus:stream("a", { max_messages = 0 }) end, "max_messages")
  t.error(function() s:publish("a b", "x") end, "stream:publish: the subject")
  t.error(function() s:publish("s", 1) end, "stream:publish: argument #2")
  t.error(function() s:publish("s", "x", { timeout = 61 }) end, "more than half of the 120 seconds")
  t.error(function() s:publish("s", "x", { id = "" }) end, "field 'id' is empty")
  t.error(function() s:publish("s", "x", { id = "a\nb" }) end, "line break")
  t.error(function() s:publish("s", "x", { after = -1 }) end, "after")
  t.error(function() s:publish("s", "x", { headers = { ["a b"] = "c" } }) end, "header")
  for _, list in ipairs { { "a", nil, "b" }, { x = "a" }, { "a", x = "b" } } do
    t.error(function() s:publish("s", "x", { headers = { h = list } }) end, "'h' must be a list without holes")
  end
  t.error(function() s:update() end, "stream:update: argument #1")
  t.error(function() s:purge "a b" end, "stream:purge: the subject")
  t.error(function() s:consumer("c", 1) end, "stream:consumer")
  t.error(function() s:consumer("c", {}, 1) end, "stream:consumer: argument #3 must be a function")
  t.error(function() s:consumer("c", { deliver = "first" }) end, '"all" or "last" or "new"')
  t.error(function() s:consumer("c", { deliver = 0 }) end, "deliver")
  t.error(function() s:consumer("c", { deliver = {} }) end, "since")
  for _, since in ipairs { 1 / 0, 0 / 0, 2 ^ 63, -1 } do
    t.error(function() s:consumer("c", { deliver = { since = since } }) end, "field 'since' must be a number")
  end
  t.error(function() s:consumer("c", { ack_wait = 0 }) end, "ack_wait")
  t.error(function() s:consumer("c", { concurrency = 0 }) end, "concurrency")
  t.error(function() s:consumer("c", { batch = 0 }) end, "batch")
  t.error(function() s:consumer("c", { order = 1.5 }) end, "order")
  t.error(function() s:consumer("c", { modes = 1 }) end, "modes")
  t.equal(s:info().consumers, 0)
  local c = t.truthy(s:consumer("c", {}))
  t.error(function() c:receive(-1) end, "consumer:receive: argument #1")
  t.error(function() c.receive() end, "call it with a colon")
  local with = t.truthy(s:consumer("d", { keeps_alive = false }, function() end))
  t.error(function() with:receive() end, "its messages go to its function")
  s:publish("s", "x")
  local m = t.truthy(c:receive(1))
  t.error(function() m:ack(-1) end, "message:ack: argument #1")
  t.error(function() m:nak "x" end, "message:nak: argument #1")
  t.error(function() m:nak(1 / 0) end, "message:nak: argument #1 must be a number of seconds, at most 3155760000")
  t.error(function() m:nak(math.maxinteger) end, "message:nak: argument #1")
  t.error(function() m:term(1) end, "message:term: argument #1")
  t.error(function() m:term "a\nb" end, "line break")
end)
