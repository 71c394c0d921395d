-- rl.worker and rl.pool over a bus when something fails: lost connections, messages of others, random histories, and
-- misuse.

local rl = require "runloop"
local t = require "runloop.test"
local json = require "runloop.json"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, problem_of = buses.connect, buses.problem_of

local function fake_pair(functions, pool_options, bus_options)
  local fake = nats.fake { latency = 0.001, jetstream = true }
  local far, near = connect(fake), connect(fake, bus_options)
  local worker = t.truthy(rl.worker { via = far, name = "p", functions = functions, keeps_alive = false })
  local all = { via = near, name = "p" }
  for field, value in pairs(pool_options or {}) do all[field] = value end
  local pool = t.truthy(rl.pool(all))
  t.finally(function()
    pool:close()
    worker:invalidate()
  end)
  return pool, worker, { fake = fake, near = near, far = far }
end

t.it("after a lost connection a call may have run, and a stored call continues with one result", function()
  local count = 0
  local functions = { f = function() rl.sleep(1) count = count + 1 return count end }
  local pool, _, its = fake_pair(functions)
  rl.after(0.5, function() its.fake:drop() end)
  t.truthy(problem_of(pool.run, pool, "f"):find "pool:run: pool p: the connection was lost: f may have run$")
  rl.sleep(5)
  t.equal({ count, pool:run "f" }, { 1, 2 })
  local stored = t.truthy(rl.pool { via = its.near, name = "p", durable = true })
  rl.after(0.5, function() its.fake:drop() end)
  t.equal(stored:run "f", 3)
  -- The server is away when the function ends.
  rl.after(0.5, function() its.fake:stop() end)
  rl.after(4, function() its.fake:start() end)
  t.equal(stored:run "f", 4)
  rl.sleep(30)
  t.equal(count, 4)
  t.equal(its.near:stream("RL_POOL_p"):info().messages, 0)
end)

t.it("a stored job is removed if its caller is cancelled while it is being stored", function()
  local count = 0
  local pool, _, its = fake_pair({ f = function() count = count + 1 end }, { durable = true })
  its.fake:stall(2)
  local task = rl.task(function() pool:run "f" end)
  rl.sleep(0.5)
  task:cancel()
  rl.sleep(20)
  t.truthy(count <= 1)
  t.equal(its.near:stream("RL_POOL_p"):info().messages, 0)
  t.equal(its.near:stats().requests, 0)
end)

t.it("calls without a connection wait for it within their time limit", function()
  local pool, _, its = fake_pair({ f = function() return 1 end }, { timeout = 3 })
  its.fake:stop()
  rl.sleep(0.1)
  rl.after(1, function() its.fake:start() end)
  t.equal(pool:run "f", 1)
  its.fake:stop()
  rl.sleep(0.1)
  local began = rl.now()
  t.truthy(problem_of(pool.run, pool, "f"):find "f did not end within 3 s$")
  t.truthy(rl.now() - began < 4)
end)

t.it("a call that waits for a connection can be cancelled, and ends when its pool is closed", function()
  local count = 0
  local pool, _, its = fake_pair({ f = function() count = count + 1 end })
  its.fake:stop()
  rl.sleep(0.1)
  local cancelled = rl.task(function() pool:run "f" end)
  local waiting = rl.task(function() pool:run "f" end)
  rl.sleep(0.05)
  cancelled:cancel()
  t.equal(problem_of(cancelled.await, cancelled), "cancelled")
  pool:close()
  t.truthy(problem_of(waiting.await, waiting, 1):find "pool:run: pool p: the pool was closed$")
  its.fake:start()
  rl.sleep(5)
  t.equal({ count, its.near:stats().requests }, { 0, 0 })
end)

t.it("a job that comes before its worker is complete is done", function()
  local bus = connect(nats.fake { latency = 0.001 })
  local pool = t.truthy(rl.pool { via = bus, name = "p" })
  -- The job is sent after the worker's subscription, before the server has confirmed the subscription.
  local making = rl.task(rl.worker, { via = bus, name = "p", functions = { f = function() return 1 end } })
  rl.sleep(0)
  t.equal(pool:run "f", 1)
  making:await():invalidate()
  pool:close()
end)

t.it("a worker or a port that is made while its bus is drained is refused", function()
  local fake = nats.fake { latency = 0.1 }
  local bus = connect(fake)
  bus:subscribe("a", { keeps_alive = false }, function() rl.sleep(1) end)
  bus:publish "a"
  bus:flush()
  local worker = rl.task(rl.worker, { via = bus, name = "p", functions = { f = print } })
  local port = rl.task(rl.message_port, { via = bus, name = "p", callback = print })
  rl.sleep(0.05)
  t.equal(bus:drain(), true)
  for _, task in ipairs { worker, port } do t.equal(select(3, task:await()), "ENOTCONN") end
end)

t.it("malformed messages and answers are ignored", function()
  local pool, worker, its = fake_pair { f = function() return 1 end }
  local bus = its.near
  for _, text in ipairs { "", "{]", "[]", "1", '{"name":"f"}', '{"name":"f","timeout":"x","values":[]}',
    '{"name":"f","timeout":1,"values":7}', '{"name":1,"timeout":1,"values":[]}', ("["):rep(5000),
    '{"name":"f","timeout":1,"values":[1],"nils":[2]}', '{"name":"f","timeout":1,"values":[1],"nils":["x"]}',
    '{"name":"f","timeout":1,"values":{"1":2}}', '{"name":"f","timeout":1e999,"values":[]}' } do
    local answer = t.truthy(bus:request("rl.pool.p.run", text), text)
    local decoded = json.decode(answer.data)
    t.truthy(decoded.failure == "wrong" or decoded.values, answer.data)
    bus:publish("rl.pool.p.run", text)
    bus:publish("rl.pool.p.cancel", text)
    bus:publish("rl.pool.p.who", text, { reply = "nowhere" })
  end
  for _, time in ipairs { "-1", "-1e308", "0" } do
    local data = t.truthy(bus:request("rl.pool.p.run", '{"name":"f","timeout":' .. time .. ',"values":[]}')).data
    t.equal(json.decode(data).failure, "late")
  end
  for _, time in ipairs { "1e308", "9223372036854775807", "1e-9" } do
    t.truthy(bus:request("rl.pool.p.run", '{"name":"f","timeout":' .. time .. ',"values":[]}'))
  end
  t.equal(pool:run "f", 1)
  worker:invalidate()
  rl.sleep(0.1)
  local text = ""
  bus:subscribe("rl.pool.p.run", { keeps_alive = false }, function(m) m:respond(text) end)
  for _, one in ipairs { "", "{]", "[]", '{"values":1}', '{"values":[1],"nils":[2]}' } do
    text = one
    t.truthy(problem_of(pool.run, pool, "f"):find("the answer has the wrong form", 1, true))
  end
  for _, one in ipairs { '{"failure":"unknown","names":7}', '{"failure":"error","error":7,"host":[]}',
    '{"failure":7,"error":null}', '{"failure":"unknown","names":[1,[]]}' } do
    text = one
    t.truthy(#problem_of(pool.run, pool, "f") > 5)
  end
end)

t.it("malformed stored messages become dead letters", function()
  local pool, _, its = fake_pair({ f = function() return 1 end }, { durable = true })
  local stream = t.truthy(its.near:stream "RL_POOL_p")
  for _, headers in ipairs { {}, { ["Rl-Job"] = "x", ["Rl-Reply"] = "a b" } } do
    t.truthy(stream:publish("rl.pool.p.durable", "rubbish", { headers = headers }))
  end
  t.equal(pool:run "f", 1)
  rl.sleep(5)
  t.equal({ stream:info().messages, its.near:stream("RL_DEAD"):info().messages }, { 0, 2 })
end)

t.it("arguments and results that are too long are refused", function()
  local pool, _, its = fake_pair { f = function(n) return ("x"):rep(n) end }
  local long = ("x"):rep(1 << 20)
  t.truthy(problem_of(pool.run, pool, "f", long)
    :find "pool:run: the arguments have %d+ bytes as JSON; the server takes")
  t.truthy(problem_of(pool.run, pool, "f", 1 << 20):find "pool:run: pool p: the answer is too long")
  local stored = t.truthy(rl.pool { via = its.near, name = "p", durable = true })
  t.truthy(problem_of(stored.run, stored, "f", 1 << 20):find "the result is too long")
  t.equal(#pool:run("f", 1000000), 1000000)
  t.error(function() pool:run("f", table.unpack({}, 1, 201)) end, "argument #202 cannot go to another machine: at most")
end)

t.it("10,000 cancelled calls leave no request and no task behind", { timeout = 60 }, function()
  local pool, worker, its = fake_pair { f = function() rl.sleep(3600) end }
  for _ = 1, 100 do
    local tasks = {}
    for i = 1, 100 do tasks[i] = rl.task(function() pool:run "f" end) end
    rl.sleep(0.01)
    for i = 1, 100 do tasks[i]:cancel() end
  end
  rl.sleep(30)
  t.equal({ its.near:stats().requests, next(pool._calls), next(worker._tasks), next(worker._cancelled) }, { 0 })
  t.truthy(tostring(worker):find "0 running")
end)

t.it("calls wait while a worker has as many jobs as it takes", { timeout = 60 }, function()
  local pool, _, its = fake_pair { f = function() rl.sleep(0.01) return 1 end }
  local other = t.truthy(rl.pool { via = its.far, name = "p" })
  local tasks = {}
  for i = 1, 600 do tasks[i] = rl.task(function() return (i % 2 == 0 and pool or other):run "f" end) end
  local sum = 0
  for i = 1, 600 do sum = sum + tasks[i]:await() end
  t.equal(sum, 600)
end)

t.it("an error that is not a string is raised as a text", function()
  local odd = setmetatable({ code = 1 }, { __tostring = function() return "E1" end })
  local pool = fake_pair { f = function() error(odd) end, n = function() error() end,
    b = function() error(true) end }
  t.truthy(problem_of(pool.run, pool, "f"):find "^E1\n")
  t.truthy(problem_of(pool.run, pool, "n"):find "^nil\n")
  t.truthy(problem_of(pool.run, pool, "b"):find "^true\n")
end)

t.it("an invalid worker leaves no subscription, also if its last job ends later", function()
  local pool, worker, its = fake_pair { f = function() rl.sleep(1) return 1 end }
  local task = rl.task(function() return pool:run "f" end)
  rl.sleep(0.5)
  worker:invalidate()
  t.truthy(its.far:stats().subscriptions > 0)
  t.equal(task:await(), 1)
  rl.sleep(1)
  t.equal(its.far:stats().subscriptions, 0)
end)

t.it("a pool without settings accepts the existing stream; given settings must be equal", function()
  local fake = nats.fake { jetstream = true }
  local bus = connect(fake)
  local function durable(value) return rl.pool { via = bus, name = "p", durable = value } end
  t.truthy(durable { ack_wait = 5 })
  t.truthy(durable(true))
  t.truthy(durable { max_deliver = 9 })
  t.truthy(durable { ack_wait = 5, replicas = 1 })
  local none, text, code = durable { ack_wait = 7 }
  t.equal({ none, code }, { nil, "EEXIST" })
  t.truthy(text:find("ack_wait is 5, not 7", 1, true), text)
end)

t.it("a worker finds its stream again after that was removed and made again", function()
  local pool, _, its = fake_pair({ f = function() return 1 end }, { durable = true }, { on_event = function() end })
  t.equal(pool:run "f", 1)
  t.truthy(its.near:stream("RL_POOL_p"):remove())
  rl.sleep(10)
  local again = t.truthy(rl.pool { via = its.near, name = "p", durable = true })
  t.equal(again:run "f", 1)
end)

t.it("calls on a closed bus raise at once, and so do those that wait for a place in a closed pool", function()
  local pool, _, its = fake_pair { f = function() rl.sleep(1) end }
  local tasks = {}
  for i = 1, 300 do tasks[i] = rl.task(function() return problem_of(pool.run, pool, "f") end) end
  rl.sleep(0.5)
  its.near:close()
  for i = 1, 300 do
    local text = tasks[i]:await(1)
    t.truthy(text:find("the connection was lost: f may have run", 1, true)
      or text:find("ENOTCONN: the connection to NATS is closed", 1, true), text)
  end
  t.truthy(problem_of(pool.run, pool, "f")
    :find "pool:run: pool p: ENOTCONN: the connection to NATS is closed %(closed by the script%)$")
  local other = t.truthy(rl.pool { via = its.far, name = "p" })
  for i = 1, 300 do tasks[i] = rl.task(function() return problem_of(other.run, other, "f") end) end
  rl.sleep(0.5)
  other:close()
  for i = 1, 300 do t.truthy(tasks[i]:await(1):find "closed$") end
end)

t.it("a dead letter that was stored late has the job's error, and the caller gets it, too", function()
  local pool, _, its = fake_pair({ f = function() error("broken", 0) end }, { durable = { max_deliver = 1 },
    timeout = 300 })
  local other = t.truthy(its.near:stream("RL_DEAD", { subjects = { "elsewhere" } }))
  local task = rl.task(function() return problem_of(pool.run, pool, "f") end)
  rl.sleep(1)
  t.truthy(other:remove())
  local text = task:await(250)
  t.truthy(text:find("broken", 1, true), text)
  local letters = t.truthy(its.near:stream "RL_DEAD"):consumer(nil, { filter = "rl.dead.pool.p" })
  t.equal(t.truthy(letters:receive(5)).headers["Rl-Error"], "broken")
  letters:invalidate()
end)

t.it("a result that cannot cross makes a dead letter at once: the function is not called again", function()
  local count = 0
  local pool = fake_pair({ f = function() count = count + 1 return print end }, { durable = true })
  t.truthy(problem_of(pool.run, pool, "f"):find("result #1 cannot go to the caller", 1, true))
  rl.sleep(60)
  t.equal(count, 1)
end)

t.it("a job stays in its stream until it can become a dead letter", function()
  local pool, _, its = fake_pair({ f = function() error("bad", 0) end }, { durable = { max_deliver = 1 } })
  local other = t.truthy(its.near:stream("RL_DEAD", { subjects = { "elsewhere" } }))
  local task = rl.task(function() return problem_of(pool.run, pool, "f") end)
  rl.sleep(5)
  t.equal(its.near:stream("RL_POOL_p"):info().messages, 1)
  t.truthy(other:remove())
  t.truthy(#task:await(40) > 0)
  rl.sleep(1)
  t.equal({ its.near:stream("RL_POOL_p"):info().messages, its.near:stream("RL_DEAD"):info().messages }, { 0, 1 })
end)

t.it("pools and workers that are dropped leave no memory behind", { timeout = 60 }, function()
  local fake = nats.fake()
  local bus = connect(fake)
  local functions = { f = function() end }
  local function make()
    local worker = rl.worker { via = bus, name = "p", functions = functions }
    rl.pool { via = bus, name = "p" }
    worker:invalidate()
  end
  local function use()
    collectgarbage()
    collectgarbage()
    return collectgarbage "count" * 1024
  end
  -- The growth of a table happens once and does not count, so the test compares the least of several batches.
  local least = math.huge
  for batch = 0, 4 do
    local before = use()
    for _ = 1, 200 do make() end
    rl.sleep(1)
    fake._received = {}
    if batch > 0 then least = math.min(least, (use() - before) / 200) end
  end
  t.truthy(least < 32, least)
  t.equal(bus:stats().subscriptions, 0)
end)

-- Runs a random sequence of faults: connections break and return, the server stops and starts, workers end and begin,
-- callers give up.
local function history(random)
  local fake = nats.fake { latency = 0.001, jetstream = true }
  local far, near, workers = {}, {}, {}
  local begun, wrong, late = {}, {}, 0
  local function work(id, seconds, ends)
    begun[id] = (begun[id] or 0) + 1
    if rl.now() > ends + 0.01 then late = late + 1 end
    rl.sleep(seconds)
    return id
  end
  local function start(index)
    workers[index] = rl.worker { via = far[index], name = "p", functions = { work = work }, concurrency = 3,
      keeps_alive = false }
  end
  for index = 1, 3 do
    far[index], near[index] = connect(fake), connect(fake)
    start(index)
  end
  local pools = {}
  for index = 1, 3 do
    pools[index] = t.truthy(rl.pool { via = near[index], name = "p", timeout = 6,
      durable = index == 1 and { ack_wait = 1, max_deliver = 20 } or nil })
  end
  local function call(id)
    local index = random(3)
    rl.sleep(random() * 20)
    local arguments = { pools[index].run, pools[index], "work", id, random() * 2, rl.now() + 6 }
    local fine, answer
    if random(4) == 1 then
      fine, answer = select(2, rl.timeout(random() * 3, pcall, table.unpack(arguments)))
      if answer == nil then return end
    else
      fine, answer = pcall(table.unpack(arguments))
    end
    local is_known = fine and answer == id
    for _, text in ipairs { "nobody works there", "work is gone", "connection was lost", "did not end within",
      "timed out" } do
      if not fine and tostring(answer):find(text, 1, true) then is_known = true end
    end
    if not is_known then wrong[#wrong + 1] = tostring(answer) end
    if index ~= 1 and (begun[id] or 0) > 1 then wrong[#wrong + 1] = "done twice" end
  end
  local tasks = {}
  for id = 1, 60 do tasks[id] = rl.task(call, id) end
  for _ = 1, 20 do
    rl.sleep(random() * 2)
    local what, index = random(5), random(3)
    if what == 1 then fake:drop(random(2) == 1 and random(2000) or nil) end
    if what == 2 then
      fake:stop()
      rl.sleep(random() * 2)
      fake:start()
    end
    if what >= 3 then
      workers[index]:invalidate()
      if what == 4 then rl.sleep(random() * 2) end
      start(index)
    end
  end
  for id = 1, 60 do tasks[id]:await(60) end
  rl.sleep(60)
  t.equal({ wrong, late }, { {}, 0 })
  for index = 1, 3 do
    t.equal({ near[index]:stats().requests, tostring(workers[index]):match "%d+ running" }, { 0, "0 running" })
    workers[index]:invalidate()
    pools[index]:close()
  end
  t.equal(near[1]:stream("RL_POOL_p"):info().messages, 0)
  for index = 1, 3 do
    near[index]:close()
    far[index]:close()
  end
end

t.it("random histories: each call ends, no plain job is done twice, nothing is left", { timeout = 120 }, function()
  history(math.random)
end)

t.it("a job that waits in an ending worker begins elsewhere within its time, or never", function()
  local fake, late = nats.fake { latency = 0.001 }, {}
  local near, far = connect(fake), connect(fake)
  local function start()
    return rl.worker { via = far, name = "p", keeps_alive = false, functions = { f = function(seconds, ends)
      if rl.now() > ends + 0.01 then late[#late + 1] = rl.now() - ends end
      rl.sleep(seconds)
    end } }
  end
  local worker = start()
  local pool = t.truthy(rl.pool { via = near, name = "p", timeout = 1 })
  local tasks = {}
  for index = 1, 3 do tasks[index] = rl.task(pcall, pool.run, pool, "f", 0.6, rl.now() + 1) end
  rl.sleep(0.3)
  fake:stop()
  rl.sleep(0.1)
  worker:invalidate()
  rl.after(1, function() fake:start() end)
  worker = start()
  for index = 1, 3 do tasks[index]:await(10) end
  rl.sleep(10)
  t.equal(late, {})
  worker:invalidate()
  pool:close()
end)

t.it("rl.why shows what a call waits for, and inspect shows the worker", function()
  local pool = fake_pair { f = function() rl.sleep(10) end }
  local task = rl.task(function() pool:run "f" end)
  rl.sleep(0.1)
  local why = rl.why()
  t.truthy(why:find('f of pool p of nats "fake"', 1, true), why)
  local found
  for _, item in ipairs(rl.current():inspect().modes.default) do
    if item.kind == "worker" then found = item end
  end
  t.equal(found and found.name, "p")
  task:cancel()
end)

t.it("a pool with another prefix has other workers", function()
  local fake = nats.fake()
  local one, two = connect(fake, { prefix = "rl.eu" }), connect(fake)
  local worker <close> = t.truthy(rl.worker { via = one, name = "p", functions = { f = function() return 1 end } })
  local here <close> = rl.pool { via = one, name = "p" }
  t.equal(here:run "f", 1)
  local other <close> = rl.pool { via = two, name = "p" }
  t.error(function() other:run "f" end, "nobody works there")
  t.truthy(worker:is_valid())
end)

t.describe("misuse", function()
  local function worker(options)
    local all = { via = connect(nats.fake()), name = "p", functions = { f = print } }
    for field, value in pairs(options) do all[field] = value end
    return function() rl.worker(all) end
  end
  t.each({
    { { name = "a b" }, "field 'name' must be a name of 1 to 100" },
    { { name = "" }, "field 'name'" },
    { { name = "a.b" }, "field 'name'" },
    { { name = ("x"):rep(101) }, "field 'name'" },
    { { name = 1 }, "field 'name'" },
    { { functions = {} }, "field 'functions' has no function" },
    { { functions = { print } }, "a name in field 'functions'" },
    { { functions = { [""] = print } }, "a name in field 'functions' must be a string of 1 byte or more" },
    { { functions = { f = 1 } }, "field 'functions.f' must be a function, got 1" },
    { { functions = print }, "a table" },
    { { concurrency = 0 }, "field 'concurrency' must be an integer, 1 or more, got 0" },
    { { concurrency = 1.5 }, "integer" },
    { { via = 1 }, "field 'via' must be a bus, as nats.connect returns it, got 1" },
    { { durable = true }, "unknown field" },
    { { order = "x" }, "field 'order' must be an integer" },
    { { modes = 1 }, "field 'modes'" },
    { { keeps_alive = 1 }, "field 'keeps_alive' must be a boolean" },
  }, "rl.worker rejects %s", function(options, text)
    t.error(worker(options), "rl.worker: .*" .. text:gsub("[.]", "%%."))
  end)

  t.it("rl.worker raises an error without a table, or without a required field", function()
    t.error(function() rl.worker() end, "rl.worker: an options table is expected, got nothing")
    t.error(function() rl.worker { name = "x" } end, "rl.worker: field 'via' must be a bus")
    t.error(function() rl.worker { via = connect(nats.fake()), name = "x" } end, "rl.worker: .*functions")
    t.error(function() rl.worker { via = connect(nats.fake()), functions = { f = print } } end, "rl.worker: .*name")
  end)

  t.it("a refused rl.worker takes no jobs", function()
    local bus = connect(nats.fake())
    local count = bus:stats().subscriptions
    for _, modes in ipairs { 1, { 1 }, { "a", print } } do
      t.error(function() rl.worker { via = bus, name = "p", functions = { f = print }, modes = modes } end, "modes")
    end
    t.equal(bus:stats().subscriptions, count)
  end)

  local function pool(options)
    local all = { via = connect(nats.fake { jetstream = true }), name = "p" }
    for field, value in pairs(options) do all[field] = value end
    return function() rl.pool(all) end
  end
  t.each({
    { { name = "a b" }, "field 'name' must be a name of 1 to 100" },
    { { via = 1 }, "field 'via' must be a bus" },
    { { timeout = 0 }, "field 'timeout' must be a number of seconds, more than 0" },
    { { timeout = -1 }, "field 'timeout'" },
    { { timeout = 0 / 0 }, "field 'timeout'" },
    { { threads = 2 }, "unknown field 'threads'" },
    { { durable = 1 }, "field 'durable'" },
    { { durable = { ack = 1 } }, "field 'durable': unknown field 'ack'" },
    { { durable = { ack_wait = 0 } }, "field 'durable': field 'ack_wait' must be a number from 0.1 to 86400" },
    { { durable = { replicas = 9 } }, "field 'durable': field 'replicas'" },
    { { durable = { max_deliver = 0 } }, "field 'durable': field 'max_deliver'" },
  }, "rl.pool rejects %s", function(options, text) t.error(pool(options), "rl.pool: .*" .. text:gsub("[.]", "%%.")) end)

  t.it("pools reject wrong arguments, and closed buses no longer take pools and workers", function()
    local one = t.truthy(rl.pool { via = connect(nats.fake()), name = "p" })
    t.error(function() one:run() end, "argument #1 must be the name of a function of the workers, got nothing")
    t.error(function() one:map("x", "f") end, "pool:map: argument #1 must be a list")
    t.error(function() one:map({}, print) end, "pool:map: argument #2 must be the name of a function of the workers")
    t.error(function() one.run("f") end, "pool:run: call it with a colon, on a pool")
    one:close()
    one:close()
    t.error(function() one:run "f" end, "pool:run: pool p is closed")
    t.equal(select(3, rl.pool { via = connect(nats.fake()), name = "p", durable = true }), "ENOTSUP")
    local closed = t.truthy(nats.connect(nats.fake()))
    closed:close()
    t.equal(select(3, rl.pool { via = closed, name = "p" }), "ENOTCONN")
    t.equal(select(3, rl.worker { via = closed, name = "p", functions = { f = print } }), "ENOTCONN")
  end)
end)
