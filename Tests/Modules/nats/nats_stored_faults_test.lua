-- runloop.nats: streams, buckets and leases when something fails: cuts, silence, restarts, kills.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, await = buses.connect, buses.await

local function fake() return nats.fake { latency = 0.0001, jetstream = true } end

-- Publishing ----------------------------------------------------------------------------------------------------------

t.it("publish repeats a message until it is acknowledged, and it is stored once", function()
  local server = fake()
  local bus = connect(server)
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  for after = 1, 400, 7 do
    local before = s:info().messages
    server:drop(after)
    local stored = t.truthy(s:publish("s.a", "x"))
    t.equal(stored.duplicate, false)
    t.equal(stored.seq, before + 1)
    server._drop_after = nil
    t.equal(s:info().messages, before + 1)
  end
  t.equal(bus:stats().requests, 0)
end)

t.it("publish takes the answer of another program for no acknowledgement", function()
  local server = fake()
  local bus = connect(server)
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  local answer
  bus:subscribe("other", { keeps_alive = false }, function(m) m:respond(answer) end)
  local form = { nil, "EPROTO: stream s: the answer has the wrong form", "EPROTO" }
  for text, expected in pairs { ["done"] = { nil, "EPROTO: stream s: the answer is not JSON", "EPROTO" },
    ['{"done":true}'] = form, ['{"stream":5,"seq":1}'] = form, ['{"stream":"s","seq":"1"}'] = form,
    ['{"error":"full"}'] = form } do
    answer = text
    local stored, reason, code = s:publish("other", "x")
    t.equal({ stored, reason, code }, expected)
  end
end)

t.it("answers in a wrong form are refusals", function()
  local bus = connect(fake())
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  local answer
  local part = '"config":{"name":"S","subjects":["s.>"],"ack_policy":"none"},"state":{"last_seq":0}'
  local request = bus._request
  function bus._request(_, what, subject, ...)
    if not subject:find("$JS.API.", 1, true) then return request(bus, what, subject, ...) end
    return { data = answer, subject = subject }
  end
  local calls = { function() return bus:stream "s" end, function() return bus:stream("s", { subjects = { "s.>" } }) end,
    function() return bus:bucket("b", {}) end, function() return bus:lease("l", { timeout = 1 }) end,
    function() return s:info() end, function() return s:update { max_age = 5 } end,
    function() return s:consumer "c" end, function() return s:consumer("c", { ack_wait = 5 }) end,
    function() return s:consumer() end }
  for _, text in ipairs { "{}", "[]", '{"config":5,"state":{}}', '{"config":{},"state":{}}', '{"error":5}',
    '{"config":{"name":7,"ack_policy":"none"},"name":"c","state":{"last_seq":0}}', '{"name":5,' .. part .. "}",
    '{"config":{"name":"s","ack_policy":"none","ack_wait":"x"},"name":"c","state":{"last_seq":0}}',
    '{"config":{"name":"s","subjects":[5],"ack_policy":"none"},"name":"c","state":{"last_seq":0}}' } do
    answer = text
    for index, call in ipairs(calls) do
      local result, reason, code = call()
      t.equal({ result, code }, { nil, "EPROTO" }, text .. " " .. index)
      t.truthy(reason:find("the answer has the wrong form", 1, true), reason)
    end
  end
  bus._request = nil
end)

t.it("consumers and watches deliver messages whose headers look like a status", { real_time = true }, function()
  local real = t.server "nats"
  local bus = connect(real:url())
  local s, b = t.truthy(bus:stream("s", { subjects = { "s.>" } })), t.truthy(bus:bucket("b", {}))
  local c, w = t.truthy(s:consumer("c", {})), t.truthy(b:watch ">")
  t.equal(w:receive(5), nil)
  for _, status in ipairs { "404 No Messages", "409 Consumer Deleted", "100" } do
    local head = "NATS/1.0 " .. status .. "\r\n\r\n"
    for subject, sub in pairs { ["s.a"] = c, ["$KV.b.k"] = w } do
      bus._link:put(subject, nil, head, "data")
      local got = t.truthy(sub:receive(5))
      t.equal(got.data or got.value, "data")
    end
  end
  t.equal(b:put("k", "next"), 4)
  t.equal(t.truthy(w:receive(5)).value, "next")
end)

t.it("publish repeats a message that is answered with the number 0 or a conflict", function()
  local server = fake()
  local bus = connect(server)
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  bus._link.info.cluster = "c"
  local take, answers = server._store.take, { '{"stream":"s","seq":0,"duplicate":true}',
    '{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}' }
  function server._store.take(store, message)
    local answer = message.subject == "s.a" and table.remove(answers, 1)
    if not answer then return take(store, message) end
    return server:_deliver(message.reply, { subject = message.reply, data = answer })
  end
  t.equal(t.truthy(s:publish("s.a", "1")).seq, 1)
  t.equal(#answers, 0)
end)

t.it("publish repeats a message after each second without an answer", function()
  local server = fake()
  local bus = connect(server)
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  server:stall(4.5)
  local began = rl.now()
  local stored = t.truthy(s:publish("s.a", "x", { id = "1" }))
  t.truthy(math.abs(rl.now() - began - 4.5) < 0.1)
  t.equal(stored, { stream = "s", seq = 1, duplicate = false })
  t.truthy(bus:flush())
  local count = 0
  for _, line in ipairs(server:received()) do if line:find "^HPUB s.a " then count = count + 1 end end
  t.equal(count, 5)
  t.equal(s:info().messages, 1)
  t.equal(bus:stats().late_answers, 4)
end)

t.it("publish succeeds over the restart of a server, or ends at its time limit", function()
  local server = fake()
  local bus = connect(server, { max_offline = 0 })
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  server:stop()
  local first = rl.task(function() return s:publish("s.a", "1", { timeout = 20 }) end)
  local second = rl.task(function() return s:publish("s.a", "2", { timeout = 2 }) end)
  t.equal({ second:await(10) }, { nil, "timed out" })
  server:start()
  t.equal(t.truthy(first:await(30)).seq, 1)
  t.equal(s:info().messages, 1)
end)

t.it("a removal succeeds although its first answer was lost", function()
  local server = fake()
  local bus = connect(server)
  local s = t.truthy(bus:stream("s", {}))
  local c = t.truthy(s:consumer("c", {}))
  server:drop(1)
  t.equal(c:remove(), true)
  server:drop(1)
  t.equal(s:remove(), true)
  t.equal(select(3, s:remove()), "ENOENT")
end)

t.it("a slow network does not count as a loss", function()
  local bus = connect(nats.fake { latency = 1.5, jetstream = true }, { timeout = 60 })
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  t.equal(t.truthy(s:publish("s.a", "1")).seq, 1)
  t.equal(s:info().messages, 1)
end)

-- Consumers -----------------------------------------------------------------------------------------------------------

t.it("a consumer continues after cuts and restarts, and loses nothing", function()
  local server = fake()
  local bus, other = connect(server), connect(server)
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" }, retention = "workqueue" }))
  local by = {}
  t.truthy(s:consumer("w", { ack_wait = 5, keeps_alive = false, concurrency = 3, max_deliver = 1000 }, function(m)
    rl.sleep(0.01)
    by[m.data] = (by[m.data] or 0) + 1
  end))
  local producer = t.truthy(other:stream "s")
  for i = 1, 60 do
    t.truthy(producer:publish("s.a", tostring(i)))
    if i % 7 == 0 then server:drop(i * 13) end
    if i % 20 == 0 then
      server:stop()
      rl.sleep(1)
      server:start()
    end
  end
  await(function() return s:info() and s:info().messages == 0 end, "all is acknowledged")
  for i = 1, 60 do t.truthy(by[tostring(i)], "message " .. i .. " was handled") end
end)

t.it("a consumer asks again when heartbeats are missing", function()
  local server = fake()
  local bus = connect(server, { ping = 3600 })
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  local c = t.truthy(s:consumer("w", {}))
  local waits = rl.task(function() return c:receive() end)
  rl.sleep(1)
  -- The server drops the request without an answer.
  local consumer = server._store.streams.s.consumers.w
  consumer.asked[1].timer:invalidate()
  consumer.asked = {}
  rl.sleep(1)
  t.truthy(connect(server):stream "s"):publish("s.a", "1")
  t.equal(waits:status(), "waiting")
  t.equal(t.truthy(waits:await(20)).data, "1")
end)

t.it("a consumer that the server has lost without a notice is reported", function()
  local server, events = fake(), {}
  local bus = connect(server, { ping = 3600, on_event = function(_, event, details)
    if event == "refused" then events[#events + 1] = details.subject end
  end })
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  local c, own = t.truthy(s:consumer("w", {})), t.truthy(s:consumer(nil))
  s:publish("s.a", "1")
  t.equal(t.truthy(own:receive(1)):ack(1), true)
  local waits = rl.task(function() return (function() c:receive() return select(3, c:receive()) end)() end)
  local goes_on = rl.task(function() return own:receive() end)
  rl.sleep(1)
  for name, consumer in pairs(server._store.streams.s.consumers) do
    for _, request in ipairs(consumer.asked) do request.timer:invalidate() end
    if consumer.alarm then consumer.alarm:invalidate() end
    server._store.streams.s.consumers[name] = nil
  end
  s:publish("s.a", "2")
  t.equal(t.truthy(goes_on:await(20)).data, "2")
  t.equal(waits:await(20), "ENOENT")
  t.equal(events, { "s.w" })
  -- The server has restarted: the next connection shows at once that the consumer is gone.
  t.equal(t.truthy(s:consumer("w", {})):invalidate(), nil)
  local again = t.truthy(s:consumer("w", {}))
  local late = rl.task(function()
    again:receive()
    again:receive()
    return select(3, again:receive())
  end)
  rl.sleep(1)
  server:stop()
  server._store.streams.s.consumers.w = nil
  server:start()
  t.equal(late:await(5), "ENOENT")
end)

t.it("a consumer asks again after its question has expired, or was refused", function()
  local server = fake()
  local bus = connect(server)
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  local c = t.truthy(s:consumer("w", { max_waiting = 1 }))
  local d = t.truthy(s:consumer "w")
  local one = rl.task(function() return c:receive() end)
  local two = rl.task(function() return d:receive() end)
  rl.sleep(100)
  s:publish("s.a", "1")
  s:publish("s.a", "2")
  await(function() return one:status() == "done" end, "the first has a message")
  c:invalidate()
  t.truthy(two:await(60))
end)

t.it("slow work is handled without a second delivery", function()
  local bus = connect(fake())
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  for i = 1, 30 do s:publish("s.a", tostring(i)) end
  local seen, most, done, c = {}, 0, rl.future(), nil
  c = t.truthy(s:consumer("w", { ack_wait = 3, batch = 8, keeps_alive = false }, function(m)
    seen[#seen + 1] = m.data .. "/" .. m.delivered
    most = math.max(most, c and c:stats().unanswered or 0)
    rl.sleep(2)
    if #seen == 30 then done:complete() end
  end))
  done:await(100)
  for i = 1, 30 do t.equal(seen[i], i .. "/1") end
  t.truthy(most <= 8, most)
end)

t.it("a consumer that a restart has removed receives again", function()
  local server = fake()
  local bus = connect(server, { on_event = function() end })
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" } }))
  local own, named = t.truthy(s:consumer(nil)), t.truthy(s:consumer("w", {}))
  s:publish("s.a", "1")
  t.equal(t.truthy(own:receive(1)):ack(1), true)
  server:stop()
  server._store.streams.s.consumers = {}
  server:start()
  local waits = rl.task(function() return select(3, named:receive()) end)
  t.equal(waits:await(60), "ENOENT")
  s:publish("s.a", "2")
  t.equal(t.truthy(own:receive(60)).data, "2")
end)

-- Buckets -------------------------------------------------------------------------------------------------------------

t.it("a watch continues over cuts and restarts, without gap or repetition", function()
  local server = fake()
  local bus, other = connect(server), connect(server)
  local b = t.truthy(bus:bucket("b", { history = 64 }))
  local writer = t.truthy(other:bucket "b")
  local seen = {}
  for i = 1, 5 do t.truthy(writer:put("k", tostring(i))) end
  t.truthy(b:watch("k", { keeps_alive = false }, function(entry) if entry then seen[#seen + 1] = entry.value end end))
  for i = 6, 60 do
    if i % 5 == 0 then server:drop(i * 11) end
    if i % 19 == 0 then
      server:stop()
      rl.sleep(0.5)
      server:start()
    end
    t.truthy(writer:put("k", tostring(i)))
  end
  await(function() return seen[#seen] == "60" end, "the last change has come")
  for i = 5, 60 do t.equal(seen[i - 4], tostring(i)) end
  t.equal(#seen, 56)
end)

t.it("a watch repeats no entry that comes while it begins again", function()
  local server = fake()
  local bus, other = connect(server), connect(server)
  local b, writer = t.truthy(bus:bucket "b" or bus:bucket("b", {})), t.truthy(other:bucket "b")
  local seen = {}
  writer:put("k", "1")
  local w = t.truthy(b:watch("k", { keeps_alive = false }, function(entry)
    if entry then seen[#seen + 1] = entry.value end
  end))
  rl.sleep(1)
  -- The watch asks for the stream's state, gets the entry, and then the answer without it.
  local take = server._store.take
  function server._store.take(store, message)
    local is_question = message.subject == "$JS.API.STREAM.INFO.KV_b"
    if not is_question then return take(store, message) end
    server._store.take = take
    local deliver, answer = server._deliver, nil
    server._deliver = function(_, _, held) answer = held end
    take(store, message)
    server._deliver = deliver
    writer:put("k", "2")
    return deliver(server, message.reply, answer)
  end
  w:_connected()
  rl.sleep(5)
  t.equal(seen, { "1", "2" })
end)

t.it("a watch continues with a bucket that was made again", function()
  local server = fake()
  local bus = connect(server)
  local b = t.truthy(bus:bucket("b", {}))
  for i = 1, 10 do b:put("k", tostring(i)) end
  local w = t.truthy(b:watch "k")
  t.equal(w:receive(1).value, "10")
  server:stop()
  server._store.streams = {}
  server:start()
  -- A new bus is faster than one that has to wait before it connects again.
  t.truthy(connect(server):bucket("b", {})):put("k", "new")
  t.equal(t.truthy(w:receive(60)).value, "new")
end)

t.it("a watch asks again for entries that a server skips when a key is purged", function()
  local server = fake()
  local bus = connect(server)
  local b = t.truthy(bus:bucket("b", { history = 3 }))
  b:put("a", "1")
  local seen = {}
  t.truthy(b:watch(">", { keeps_alive = false }, function(entry)
    if entry then seen[#seen + 1] = entry.key .. entry.revision end
  end))
  rl.sleep(0.1)
  -- Two changes are not delivered, and the consumer skips them, as may happen with nats-server 2.9.10.
  local stored = server._store.streams.KV_b
  local _, consumer = next(stored.consumers)
  local asked = consumer.asked
  consumer.asked = {}
  b:put("a", "2")
  b:put("c", "3")
  consumer.next, consumer.pending, consumer.asked = stored.last + 1, 0, asked
  b:remove("x", { purge = true })
  rl.sleep(1)
  t.equal(seen, { "a1", "a2", "c3", "x4" })
end)

-- Leases --------------------------------------------------------------------------------------------------------------

t.it("a lease ends at two thirds of its time, before others may take it", function()
  local server = fake()
  local holder, taker = connect(server), connect(server)
  local lost_at
  local a = t.truthy(holder:lease("l", { ttl = 6, on_lost = function() lost_at = rl.now() end }))
  local waits = rl.task(function()
    local b = taker:lease("l", { ttl = 6 })
    return b, rl.now()
  end)
  rl.sleep(10)
  t.equal(a:is_valid(), true)
  server:stop()
  local stopped_at = rl.now()
  rl.sleep(4.1)
  t.equal(a:is_valid(), false)
  t.truthy(lost_at - stopped_at <= 4.01)
  local _, text = a:run(print)
  t.truthy(text:find("the lease was lost: it was not renewed for", 1, true), text)
  server:start()
  local b, taken_at = waits:await(60)
  t.truthy(b and b:is_valid())
  t.truthy(taken_at > lost_at)
  t.truthy(b:epoch() > a:epoch())
end)

t.it("a lease survives a short loss of the connection", function()
  local server = fake()
  local holder, taker = connect(server), connect(server)
  local a = t.truthy(holder:lease("l", { ttl = 6 }))
  local waits = rl.task(function() return taker:lease("l") end)
  for _ = 1, 20 do
    rl.sleep(1.7)
    server:drop()
    t.equal(a:is_valid(), true)
  end
  t.equal(waits:status(), "waiting")
  waits:cancel()
end)

t.it("a lease never has two holders when processes are cut off", function()
  math.randomseed(17)
  local server = fake()
  local count, most, epochs = 0, 0, {}
  local function contend(bus)
    while bus:is_open() do
      local lease = bus:lease("l", { ttl = 1 })
      if lease then
        epochs[#epochs + 1] = lease:epoch()
        lease:run(function()
          local _ <close> = setmetatable({}, { __close = function() count = count - 1 end })
          count = count + 1
          most = math.max(most, count)
          rl.sleep(math.random() * 4)
        end)
        if math.random() < 0.5 then lease:invalidate() end
      end
    end
  end
  for _ = 1, 4 do
    local bus = connect(server)
    rl.task { contend, bus, keeps_alive = false }
  end
  for _ = 1, 100 do
    rl.sleep(math.random() * 2)
    local what = math.random(4)
    if what == 1 then server:stall(math.random() * 2) end
    if what == 2 then server:drop() end
    if what == 3 and #server._clients > 0 then server._clients[math.random(#server._clients)].stream:abort() end
    if what == 4 then
      server:stop()
      rl.sleep(math.random())
      server:start()
    end
  end
  t.equal(most, 1)
  t.truthy(#epochs > 10, #epochs)
  for i = 2, #epochs do t.truthy(epochs[i] > epochs[i - 1]) end
end)

-- Every call that waits -----------------------------------------------------------------------------------------------

-- For each name: a call that waits for the server. The call gets the results of `prepare`.
local CALLS = {
  ["bus:stream"] = function(all) return all.bus:stream("s") end,
  ["bus:stream, made"] = function(all) return all.bus:stream("other", {}) end,
  ["bus:bucket"] = function(all) return all.bus:bucket("b") end,
  ["bus:lease"] = function(all) return all.bus:lease("new", { timeout = 1 }) end,
  ["bus:lease, held"] = function(all) return all.bus:lease("held", { timeout = 1 }) end,
  ["stream:publish"] = function(all) return all.stream:publish("s", "x") end,
  ["stream:info"] = function(all) return all.stream:info() end,
  ["stream:update"] = function(all) return all.stream:update { max_age = 10 } end,
  ["stream:purge"] = function(all) return all.stream:purge() end,
  ["stream:remove"] = function(all) return all.stream:remove() end,
  ["stream:consumer"] = function(all) return all.stream:consumer("new", {}) end,
  ["stream:consumer, its own"] = function(all) return all.stream:consumer() end,
  ["consumer:receive"] = function(all) return all.consumer:receive(1) end,
  ["consumer:messages"] = function(all) return all.consumer:messages()() end,
  ["consumer:remove"] = function(all) return all.consumer:remove() end,
  ["message:ack"] = function(all) return all.message:ack(1) end,
  ["bucket:get"] = function(all) return all.bucket:get "k" end,
  ["bucket:get, stale"] = function(all) return all.bucket:get("k", { stale = true }) end,
  ["bucket:put"] = function(all) return all.bucket:put("k", "x") end,
  ["bucket:put, new"] = function(all) return all.bucket:put("n", "x", { revision = 0 }) end,
  ["bucket:remove"] = function(all) return all.bucket:remove "k" end,
  ["bucket:keys"] = function(all) return all.bucket:keys() end,
  ["bucket:history"] = function(all) return all.bucket:history "k" end,
  ["bucket:watch"] = function(all) return all.bucket:watch ">" end,
  ["watch:receive"] = function(all) return all.watch:receive(1) end,
  ["watch:entries"] = function(all) return all.watch:entries()() end,
}
-- These two calls wait without a limit.
local ENDLESS = { ["consumer:messages"] = true, ["watch:entries"] = true }

-- Returns a table with everything that the calls need; the fake in it handles nothing for the next 300 seconds.
local function prepare()
  local server = fake()
  local bus, other = connect(server, { ping = 3600 }), connect(server, { ping = 3600 })
  local all = { bus = bus, server = server }
  all.stream = t.truthy(bus:stream("s", {}))
  all.bucket = t.truthy(bus:bucket("b", {}))
  all.bucket:put("k", "1")
  all.consumer = t.truthy(all.stream:consumer("w", { batch = 1, ack_wait = 3600 }))
  all.stream:publish("s", "1")
  all.message = t.truthy(all.consumer:receive(1))
  all.watch = t.truthy(all.bucket:watch "k")
  t.truthy(all.watch:receive(1))
  t.truthy(other:lease("held", { ttl = 3600 }))
  server:stall(300)
  return all
end

t.it("each waiting call that is cancelled leaves nothing behind", function()
  for name, call in pairs(CALLS) do
    local all = prepare()
    local before = all.bus:stats()
    local task = rl.task(function() call(all) end)
    t.equal(task:status(), "waiting", name)
    rl.sleep(0.1)
    task:cancel()
    local after = all.bus:stats()
    t.equal({ name, after.requests }, { name, before.requests })
    -- A cancelled removal has nevertheless ended the consumer in the client.
    t.truthy(after.subscriptions <= before.subscriptions, name)
    all.bus:close()
  end
end)

t.it("each call ends at its time limit when no server answers", function()
  for name, call in pairs(CALLS) do
    if not ENDLESS[name] then
      local all = prepare()
      local before, began = all.bus:stats(), rl.now()
      local none, text = call(all)
      t.equal({ name, none, text }, { name, nil, "timed out" })
      t.truthy(rl.now() - began <= 21, name)
      local after = all.bus:stats()
      t.equal({ name, after.requests }, { name, before.requests })
      t.truthy(after.subscriptions <= before.subscriptions, name)
      all.bus:close()
    end
  end
end)

-- Real servers --------------------------------------------------------------------------------------------------------

t.it("publish, consumers and watches survive kills of a real server", { real_time = true, timeout = 40 }, function()
  local real = t.server "nats"
  local bus, other = connect(real:url()), connect(real:url())
  local s = t.truthy(bus:stream("s", { subjects = { "s.>" }, retention = "workqueue" }))
  local by, count = {}, 0
  t.truthy(s:consumer("w", { ack_wait = 1, keeps_alive = false, max_deliver = 100 }, function(m)
    if not by[m.data] then count = count + 1 end
    by[m.data] = true
  end))
  local b = t.truthy(bus:bucket("b", {}))
  local w = t.truthy(b:watch "k")
  local producer = t.truthy(other:stream "s")
  for round = 1, 3 do
    local tasks = {}
    for i = 1, 20 do
      tasks[i] = rl.task(function() return producer:publish("s.a", round .. "." .. i, { timeout = 30 }) end)
    end
    if round < 3 then
      real:kill()
      real:restart()
    end
    for i = 1, 20 do t.truthy(tasks[i]:await()) end
    t.truthy(b:put("k", tostring(round)))
    t.equal(t.truthy(w:receive(15)).value, tostring(round))
  end
  await(function() return count == 60 end, "all are handled")
end)

t.it("a process that was stopped loses its lease", { real_time = true, timeout = 30 }, function()
  local real = t.server "nats"
  local bus = connect(real:url())
  local program <close> = t.spawn { t.rlhost, "-e", ([[
    local rl = require "runloop"
    local bus = assert(require "runloop.nats".connect %q)
    local lease = assert(bus:lease("l", { ttl = 1, on_lost = function() print "lost" rl.stop() end }))
    print "held"
    print(lease:run(function()
      while true do
        rl.sleep(0.01)
        if not lease:is_valid() then print "worked without a lease" end
      end
    end))]]):format(real:url()) }
  program:wait_for "held"
  program:signal "STOP"
  local taken = t.truthy(bus:lease("l", { ttl = 1, timeout = 10 }))
  program:signal "CONT"
  program:wait_for "the lease was lost: it was not renewed for"
  t.falsy(program:output():find("worked without", 1, true))
  t.equal(taken:is_valid(), true)
end)
