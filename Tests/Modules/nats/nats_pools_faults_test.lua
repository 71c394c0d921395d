-- rl.worker and rl.pool over a bus when something fails: lost connections, killed and stopped workers and servers,
-- messages of others, misuse.

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local nats = require "runloop.nats"

local function connect(where, options)
  local bus = t.truthy(nats.connect(where, options))
  t.finally(function() bus:close() end)
  return bus
end

local function problem_of(fn, ...)
  local fine, err = pcall(fn, ...)
  t.equal(fine, false)
  return tostring(err)
end

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

t.it("a lost connection: a call may have been done; a stored one goes on, and its result arrives once", function()
  local count = 0
  local functions = { f = function() rl.sleep(1) count = count + 1 return count end }
  local pool, _, its = fake_pair(functions)
  rl.after(0.5, function() its.fake:drop() end)
  t.truthy(problem_of(pool.run, pool, "f"):find "pool:run: pool p: the connection was lost: f may have been done$")
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

t.it("a stored job whose caller was cancelled while it was being stored is taken back", function()
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

t.it("calls without a connection wait for it, and the time goes on", function()
  local pool, _, its = fake_pair({ f = function() return 1 end }, { timeout = 3 })
  its.fake:stop()
  rl.sleep(0.1)
  rl.after(1, function() its.fake:start() end)
  t.equal(pool:run "f", 1)
  its.fake:stop()
  rl.sleep(0.1)
  local began = rl.now()
  t.truthy(problem_of(pool.run, pool, "f"):find "f was not done within 3 s$")
  t.truthy(rl.now() - began < 4)
end)

t.it("messages and answers that are none do no harm", function()
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
  t.equal(json.decode(bus:request("rl.pool.p.run", '{"name":"f","timeout":-1,"values":[]}').data).failure, "late")
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

t.it("stored messages that are none are dead letters", function()
  local pool, _, its = fake_pair({ f = function() return 1 end }, { durable = true })
  local stream = t.truthy(its.near:stream "RL_POOL_p")
  for _, headers in ipairs { {}, { ["Rl-Job"] = "x", ["Rl-Reply"] = "a b" } } do
    t.truthy(stream:publish("rl.pool.p.durable", "rubbish", { headers = headers }))
  end
  t.equal(pool:run "f", 1)
  rl.sleep(5)
  t.equal({ stream:info().messages, its.near:stream("RL_DEAD"):info().messages }, { 0, 2 })
end)

t.it("arguments and results that are too long", function()
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

t.it("10,000 cancelled calls leave nothing", { timeout = 60 }, function()
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

t.it("an error that has a text of its own is raised as that text", function()
  local odd = setmetatable({ code = 1 }, { __tostring = function() return "E1" end })
  local pool = fake_pair { f = function() error(odd) end, n = function() error() end,
    b = function() error(true) end }
  t.truthy(problem_of(pool.run, pool, "f"):find "^E1\n")
  t.truthy(problem_of(pool.run, pool, "n"):find "^nil\n")
  t.truthy(problem_of(pool.run, pool, "b"):find "^true\n")
end)

t.it("a worker that is invalid leaves no subscription, also when its last job has ended later", function()
  local pool, worker, its = fake_pair { f = function() rl.sleep(1) return 1 end }
  local task = rl.task(function() return pool:run "f" end)
  rl.sleep(0.5)
  worker:invalidate()
  t.truthy(its.far:stats().subscriptions > 0)
  t.equal(task:await(), 1)
  rl.sleep(1)
  t.equal(its.far:stats().subscriptions, 0)
end)

t.it("a pool without settings takes what is there; others must be equal", function()
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

t.it("a worker finds the stream again after it was removed and made again", function()
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
    t.truthy(text:find("the connection was lost: f may have been done", 1, true)
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

t.it("a result that cannot cross makes a dead letter at once: the function is not called again", function()
  local count = 0
  local pool = fake_pair({ f = function() count = count + 1 return print end }, { durable = true })
  t.truthy(problem_of(pool.run, pool, "f"):find("result #1 cannot go to the caller", 1, true))
  rl.sleep(60)
  t.equal(count, 1)
end)

t.it("pools and workers that are dropped leave nothing", { timeout = 60 }, function()
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
  for _ = 1, 100 do make() end
  rl.sleep(1)
  fake._received = {}
  local before = use()
  for _ = 1, 1000 do make() end
  rl.sleep(1)
  fake._received = {}
  local each = (use() - before) / 1000
  t.truthy(each < 64, each)
  t.equal(bus:stats().subscriptions, 0)
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

t.describe("real programs", { real_time = true, timeout = 60 }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  local folder = t.resource(function() return t.truthy(fs.temporary_directory()) end,
    function(path) fs.remove(path, { recursive = true }) end)

  -- A worker in a process of its own.
  local function start(name, where)
    local path = folder() .. "/worker.lua"
    t.truthy(fs.write(path, [[
      local rl, nats = require "runloop", require "runloop.nats"
      local bus = assert(nats.connect(arg[1], { retry = true }))
      local function wait(seconds)
        print "begin" io.flush()
        rl.sleep(seconds)
        print "end" io.flush()
        return "by " .. arg[3]
      end
      assert(rl.worker { via = bus, name = arg[2], functions = { wait = wait } })
      print "ready" io.flush()
    ]]))
    local program = t.spawn { t.rlhost, path, where or server():url(), name, "worker" }
    t.finally(function() program:kill() end)
    program:wait_for("ready", { within = 20 })
    return program
  end

  local function pool_of(bus, name, options)
    local all = { via = bus, name = name }
    for field, value in pairs(options or {}) do all[field] = value end
    local pool = t.truthy(rl.pool(all))
    t.finally(function() pool:close() end)
    return pool
  end

  local function has_begun(program, times)
    t.eventually(function() return select(2, program:output():gsub("begin", "")) >= (times or 1) end, { within = 20 })
  end

  for _, how in ipairs { "KILL", "STOP" } do
    t.it("a worker gets SIG" .. how .. ": the caller learns that it is gone", function()
      local bus, name = connect(server():url()), "gone_" .. how
      local program, pool = start(name), pool_of(bus, name)
      local task = rl.task(function() return problem_of(pool.run, pool, "wait", 600) end)
      has_begun(program)
      program:signal(how)
      local began = rl.now()
      t.truthy(task:await(25):find("the worker that had wait is gone: it may have been done", 1, true))
      -- The promise is 3 and 8 seconds; the machine may be busy.
      t.truthy(rl.now() - began < (how == "KILL" and 10 or 20))
    end)
  end

  t.it("a stored job comes to another worker when its worker is killed", function()
    local bus, name = connect(server():url()), "stored"
    local first, pool = start(name), pool_of(bus, name, { durable = { ack_wait = 2 } })
    local task = rl.task(function() return pool:run("wait", 1) end)
    has_begun(first)
    first:kill()
    start(name)
    t.equal(task:await(40), "by worker")
  end)

  t.it("a job that kills its workers is a dead letter in the end", function()
    local bus, name = connect(server():url()), "deadly"
    local pool = pool_of(bus, name, { durable = { ack_wait = 1, max_deliver = 2 } })
    local task = rl.task(function() return problem_of(pool.run, pool, "wait", 600) end)
    for _ = 1, 2 do
      local program = start(name)
      has_begun(program)
      program:kill()
    end
    start(name)
    t.truthy(task:await(40):find("its worker has ended during each of 2 deliveries", 1, true))
  end)

  t.it("the server is killed and comes back: a stored job is done, and both sides go on", function()
    local own = t.server "nats"
    t.finally(function() own:stop() end)
    local bus, name = connect(own:url()), "restart"
    local program, pool = start(name, own:url()), pool_of(bus, name, { durable = { ack_wait = 5 } })
    local task = rl.task(function() return pool:run("wait", 2) end)
    has_begun(program)
    own:kill()
    own:restart()
    t.equal(task:await(40), "by worker")
    t.equal(pool:run("wait", 0), "by worker")
    local plain = pool_of(bus, name)
    t.eventually(function() return pcall(plain.run, plain, "wait", 0) end, { within = 20 })
  end)

  t.it("a worker that gets SIGTERM ends its job first, and takes no other", function()
    local bus, name = connect(server():url()), "term"
    local program, pool = start(name), pool_of(bus, name)
    local task = rl.task(function() return pool:run("wait", 1.5) end)
    has_begun(program)
    program:signal "TERM"
    t.eventually(function() return problem_of(pool.run, pool, "wait", 0):find "nobody works there" end, { within = 10 })
    t.equal(task:await(20), "by worker")
    program:wait { within = 20 }
    t.truthy(program:output():find "end")
  end)

  t.it("a job that outlasts the shutdown is gone, and a stored one is given back", function()
    local bus = connect(server():url())
    for _, durable in ipairs { false, true } do
      local name = "limit" .. (durable and "_stored" or "")
      local program, pool = start(name), pool_of(bus, name, { durable = durable })
      local task = rl.task(function() return select(2, pcall(pool.run, pool, "wait", durable and 8 or 600)) end)
      has_begun(program)
      program:signal "TERM"
      program:wait { within = 20 }
      t.truthy(not program:output():find "end")
      if durable then start(name) end
      local answer = task:await(40)
      t.truthy(answer == "by worker" or answer:find("the worker that had wait is gone", 1, true), answer)
      t.equal(answer == "by worker", durable)
    end
  end)

  t.it("permissions: those of docs/machines.md are enough, others are refused with their subject", function()
    local own = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] = [[
      listen: "127.0.0.1:{port}"
      jetstream { store_dir: "{directory}/js" }
      authorization { users: [
        { user: caller, password: p, permissions: { publish: ["rl.pool.thumbs.>", "_INBOX.>", "$JS.API.>"],
          subscribe: "_INBOX.>" } }
        { user: worker, password: p, permissions: { publish: ["_INBOX.>", "$JS.API.>", "$JS.ACK.>", "rl.dead.pool.>"],
          subscribe: ["rl.pool.thumbs.>", "_INBOX.>", "$SRV.>"] } }
        { user: nobody, password: p, permissions: { publish: "a", subscribe: "_INBOX.>" } }
      ] }
    ]] } }
    t.finally(function() own:stop() end)
    local refused = {}
    local function log_in(user)
      return connect("nats://" .. user .. ":p@" .. own:address(), { on_event = function(_, event, details)
        if event == "refused" then refused[#refused + 1] = details.message end
      end })
    end
    local far, near, none = log_in "worker", log_in "caller", log_in "nobody"
    local worker <close> = t.truthy(rl.worker { via = far, name = "thumbs", keeps_alive = false, functions = {
      f = function(n) return n + 1 end, bad = function() error("bad", 0) end } })
    t.equal(pool_of(near, "thumbs"):run("f", 1), 2)
    local stored = pool_of(near, "thumbs", { durable = { max_deliver = 1 } })
    t.equal(stored:run("f", 2), 3)
    t.truthy(problem_of(stored.run, stored, "bad"):find "^bad\n")
    t.equal(refused, {})
    local pool = pool_of(none, "thumbs")
    t.truthy(problem_of(pool.run, pool, "f"):find "pool thumbs: EACCES: the server refuses rl.pool.thumbs.run")
    t.equal(select(3, rl.worker { via = none, name = "thumbs", functions = { f = print } }), "EACCES")
    t.equal(select(3, rl.pool { via = none, name = "thumbs", durable = true }), "EACCES")
    t.truthy(worker:is_valid())
  end)

  t.it("a server without log-in that is not on this machine is warned of, once", function()
    local path = folder() .. "/open.lua"
    t.truthy(fs.write(path, [[
      local rl, nats = require "runloop", require "runloop.nats"
      local bus = assert(nats.connect(arg[1]))
      local worker = assert(rl.worker { via = bus, name = "open", functions = { f = function() end } })
      local pool = assert(rl.pool { via = bus, name = "open" })
      pool:run "f"
      worker:invalidate()
    ]]))
    for _, host in ipairs { "127.0.0.1", "0.0.0.0" } do
      local program = t.spawn { t.rlhost, path, host .. ":" .. server():port() }
      t.equal(program:wait { within = 20 }, 0, program:errors())
      local _, count = program:errors():gsub("asks for no log%-in", "")
      t.equal(count, host == "0.0.0.0" and 1 or 0, program:errors())
    end
  end)
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
    { { functions = { f = 1 } }, "field 'functions.f' must be a function, got 1" },
    { { functions = print }, "a table" },
    { { concurrency = 0 }, "field 'concurrency' must be an integer, 1 or more, got 0" },
    { { concurrency = 1.5 }, "integer" },
    { { via = 1 }, "field 'via' must be a bus, as nats.connect returns it, got 1" },
    { { durable = true }, "unknown field" },
    { { order = "x" }, "field 'order' must be an integer" },
    { { modes = 1 }, "field 'modes'" },
    { { keeps_alive = 1 }, "field 'keeps_alive' must be a boolean" },
  }, "rl.worker %s", function(options, text) t.error(worker(options), "rl.worker: .*" .. text:gsub("[.]", "%%.")) end)

  t.it("rl.worker without a table, and without what it needs", function()
    t.error(function() rl.worker() end, "rl.worker: an options table is expected, got nothing")
    t.error(function() rl.worker { name = "x" } end, "rl.worker: field 'via' must be a bus")
    t.error(function() rl.worker { via = connect(nats.fake()), name = "x" } end, "rl.worker: .*functions")
    t.error(function() rl.worker { via = connect(nats.fake()), functions = { f = print } } end, "rl.worker: .*name")
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
  }, "rl.pool %s", function(options, text) t.error(pool(options), "rl.pool: .*" .. text:gsub("[.]", "%%.")) end)

  t.it("calls that make no sense, and refusals", function()
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
