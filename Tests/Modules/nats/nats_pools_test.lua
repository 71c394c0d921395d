-- rl.worker and rl.pool over a bus: the same cases against nats.fake, in virtual time, and against a real server.

local rl = require "runloop"
local t = require "runloop.test"
local json = require "runloop.json"
local nats = require "runloop.nats"
local process = require "runloop.process"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, pool_of, problem_of = buses.connect, buses.pool_of, buses.problem_of

local number = 0
-- Each test has its own pool: the server keeps the streams of all tests.
local function new_name()
  number = number + 1
  return "pool_" .. number
end

local function work(bus, name, functions, options)
  local all = { via = bus, name = name, functions = functions, keeps_alive = false }
  for field, value in pairs(options or {}) do all[field] = value end
  local worker = t.truthy(rl.worker(all))
  t.finally(function() worker:invalidate() end)
  return worker
end

local function cases(start, is_fake)
  -- Makes two buses, a pool and a worker.
  -- Returns the pool, the worker, and { near, far, name }.
  local function pair(functions, options, pool_options)
    local where, name = start(), new_name()
    local far, near = connect(where), connect(where)
    local worker = work(far, name, functions, options)
    return pool_of(near, name, pool_options), worker, { near = near, far = far, name = name }
  end

  for _, durable in ipairs { false, true } do
    local kind = durable and " (durable)" or ""

    t.it("calls functions by name, with exact values" .. kind, function()
      local pool = pair({
        same = function(...) return select("#", ...), ... end, add = function(a, b) return a + b end,
        nothing = function() end,
        types = function(...)
          local list = {}
          for i = 1, select("#", ...) do list[i] = math.type((select(i, ...))) or type((select(i, ...))) end
          return list
        end,
      }, nil, { durable = durable })
      t.equal(pool:run("add", 1, 2), 3)
      t.equal(table.pack(pool:run "nothing"), { n = 0 })
      t.equal(table.pack(pool:run("same", nil, "ä\0\n", nil)), { n = 4, 3, nil, "ä\0\n" })
      t.equal(table.pack(pool:run("same", json.null, false)), { n = 3, 2, json.null, false })
      local big = { math.maxinteger, math.mininteger, 0.1, 1e300, -0.0, 5e-324 }
      t.equal({ pool:run("same", table.unpack(big)) }, { 6, table.unpack(big) })
      t.equal(pool:run("types", 1, 1.0, "1", true, {}, nil),
        { "integer", "float", "string", "boolean", "table", "nil" })
      t.equal({ pool:run("same", { a = { 1, { b = "c" } }, d = {} }) }, { 1, { a = { 1, { b = "c" } }, d = {} } })
    end)

    t.it("raises the errors of functions, with traceback, host and process" .. kind, function()
      local function deep() error("no such file a.png", 0) end
      local pool = pair({ fail = function() deep() end, odd = function() error { code = 404, path = "a" } end,
        bytes = function() error("\xff", 0) end, loop = function() local x = {} x.x = x error(x) end },
        nil, { durable = durable and { max_deliver = 1 } })
      local text = problem_of(pool.run, pool, "fail")
      t.truthy(text:find("^no such file a.png\n\tin fail of pool pool_%d+, process " .. process.id() .. " on "), text)
      t.truthy(text:find("\nstack traceback of the worker:\n.*nats_pools_test.lua:%d+: in "), text)
      t.truthy(not text:find("xpcall", 1, true), text)
      local _, err = problem_of(pool.run, pool, "odd")
      t.equal({ err.code, err.path, err.pid, type(err.traceback), type(err.host) },
        { 404, "a", process.id(), "string", "string" })
      t.truthy(problem_of(pool.run, pool, "bytes"):find "\\x[fF][fF]")
      t.truthy(problem_of(pool.run, pool, "loop"):find "process %d+ on ")
    end)

    t.it("rejects values that cannot be sent, with their position, and unknown names" .. kind, function()
      local pool = pair({ resize = function() return 1, { x = { print } } end, rotate = function() end },
        nil, { durable = durable and { max_deliver = 1 } })
      for _, case in ipairs {
        { "argument #1 must be the name of a function of the workers, got a function", print },
        { "argument #2 cannot go to another machine: a function cannot be written", "resize", print },
        { "argument #4 cannot go to another machine: a function cannot be written (at .a[2])", "resize", 1, nil,
          { a = { 1, print } } },
        { "argument #2 cannot go to another machine: a string is not UTF-8", "resize", "\xff" },
        { "argument #2 cannot go to another machine: not a number (nan)", "resize", 0 / 0 },
        { "argument #2 cannot go to another machine: an infinite number", "resize", math.huge },
        { "argument #3 cannot go to another machine: a table has", "resize", 1, { 1, a = 2 } },
      } do
        local text = problem_of(function() pool:run(table.unpack(case, 2, 6)) end)
        t.truthy(text:find("nats_pools_test.lua:%d+: pool:run: ") and text:find(case[1], 1, true), text)
      end
      local text = problem_of(pool.run, pool, "resize")
      t.truthy(text:find("result #2 cannot go to the caller: a function cannot be written (at .x[1])", 1, true), text)
      text = problem_of(pool.run, pool, "resise")
      t.truthy(text:find("have no function 'resise' (did you mean 'resize'?)", 1, true), text)
    end)

    t.it("maps a list in order, and ends at the first error" .. kind, function()
      local running, most = 0, 0
      local pool, worker = pair({
        double = function(n, ...)
          running = running + 1
          most = math.max(most, running)
          rl.sleep(0.001 * (n % 3))
          running = running - 1
          return n * 2 + (select("#", ...) > 1 and ... or 0)
        end,
        show = function(...) return table.concat({ ... }, " ") end,
        fail = function(n) if n == 3 then error("three", 0) end rl.sleep(60) end,
      }, { concurrency = 8 }, { durable = durable and { max_deliver = 1 } })
      local list, wanted = {}, {}
      for i = 1, durable and 40 or 400 do list[i], wanted[i] = i, i * 2 end
      t.equal(pool:map(list, "double"), wanted)
      t.truthy(most > 1 and most <= 8, tostring(most))
      t.equal(pool:map({ 1, 2 }, "double", 100), { 102, 104 })
      t.equal(pool:map({}, "double"), {})
      -- The position is the last argument, so a map without further arguments passes (value, position), as local pools
      -- do.
      t.equal(pool:map({ "a", "b" }, "show"), { "a 1", "b 2" })
      t.equal(pool:map({ "a", "b" }, "show", 50), { "a 50 1", "b 50 2" })
      local began = rl.now()
      t.truthy(problem_of(pool.map, pool, { 1, 2, 3, 4 }, "fail"):find "^three\n")
      t.truthy(rl.now() - began < 10)
      t.eventually(function() return tostring(worker):find "0 running" end, { within = 5 })
    end)

    t.it("cancelling the caller cancels the worker's task" .. kind, function()
      local ended, began
      local pool, worker = pair({ wait = function()
        began = rl.now()
        local _ <close> = setmetatable({}, { __close = function() ended = rl.now() end })
        rl.sleep(600)
      end }, nil, { durable = durable })
      for _, how in ipairs { "cancel", "timeout", "close" } do
        began, ended = nil, nil
        local task = rl.task(function()
          if how == "timeout" then return rl.timeout(0.3, pool.run, pool, "wait") end
          return pcall(pool.run, pool, "wait")
        end)
        t.eventually(function() return began end, { within = 5 })
        local at = rl.now()
        if how == "cancel" then task:cancel() end
        if how == "close" then pool:close() end
        if how == "timeout" then
          task:await()
          at = rl.now()
        end
        t.eventually(function() return ended end, { within = 5 })
        -- The promise: 0.1 s.
        if is_fake then t.truthy(ended - at < 0.1, ended - at) end
      end
      t.eventually(function() return tostring(worker):find "0 running" end, { within = 5 })
      t.error(function() pool:run "wait" end, "pool:run: pool .* is closed")
    end)

    t.it("ends a call at its time limit, also in the worker" .. kind, function()
      local ended, began = 0, 0
      local pool = pair({ wait = function()
        began = began + 1
        local _ <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
        rl.sleep(60)
      end }, nil, { durable = durable, timeout = 0.5 })
      -- The second job waits for the first one, and reaches its time limit before it could begin.
      local second = rl.task(function()
        rl.sleep(0.1)
        return problem_of(pool.run, pool, "wait")
      end)
      local text = problem_of(pool.run, pool, "wait")
      t.truthy(text:find("wait did not end within 0.5 s", 1, true) or text:find("timed out", 1, true), text)
      second:await()
      t.eventually(function() return ended == began end, { within = 5 })
      rl.sleep(0.5)
      t.truthy(began <= 2)
    end)
  end

  t.it("a call without a worker fails", function()
    local where, name = start(), new_name()
    local bus = connect(where)
    local pool = pool_of(bus, name)
    t.error(function() pool:run "f" end, "nats_pools_test.lua:%d+: pool:run: pool " .. name .. ": nobody works there")
    local stored = pool_of(bus, name, { durable = true, timeout = 0.5 })
    t.error(function() stored:run "f" end, "f did not end within 0.5 s")
    -- A job whose caller no longer waits is not run later.
    local count = 0
    work(connect(where), name, { f = function() count = count + 1 return "done" end })
    rl.sleep(0.5)
    t.equal({ count, pool:run "f", stored:run "f", count }, { 0, "done", "done", 2 })
  end)

  t.it("a stored job waits for its worker", function()
    local where, name = start(), new_name()
    local pool = pool_of(connect(where), name, { durable = true })
    local task = rl.task(function() return pool:run("f", 20) end)
    rl.sleep(0.3)
    work(connect(where), name, { f = function(n) return n + 1 end })
    t.equal(task:await(5), 21)
    t.equal(pool:run("f", 1), 2)
  end)

  t.it("a worker that began before the stream was made takes stored jobs", function()
    local pool = pair({ f = function(n) return n + 1 end }, nil, { durable = { ack_wait = 5, max_deliver = 2 } })
    t.equal(pool:run("f", 1), 2)
  end)

  t.it("a job that always fails becomes a dead letter in the end", function()
    local calls = 0
    local pool, _, its = pair({ f = function() calls = calls + 1 error("try " .. calls, 0) end }, nil,
      { durable = { max_deliver = 2 } })
    local text = problem_of(pool.run, pool, "f", "argument")
    t.equal(calls, 2)
    t.truthy(text:find "^try 2\n", text)
    local letters = t.truthy(its.near:stream "RL_DEAD"):consumer(nil, { filter = "rl.dead.pool." .. its.name })
    local letter = t.truthy(letters:receive(5))
    t.equal({ letter.subject, letter.headers["Rl-Error"] }, { "rl.dead.pool." .. its.name, "try 2" })
    t.equal(json.decode(letter.data).values, { "argument" })
    letter:ack()
    letters:invalidate()
    t.eventually(function() return its.near:stream("RL_POOL_" .. its.name):info().messages == 0 end, { within = 5 })
  end)

  t.it("waiting jobs go to another worker when theirs ends, and running ones end first", function()
    local where, name = start(), new_name()
    local one, two, near = connect(where), connect(where), connect(where)
    local got = {}
    local function worker(bus, label)
      return work(bus, name, { f = function(n)
        rl.sleep(0.3)
        got[#got + 1] = label .. n
        return label
      end })
    end
    local first = worker(one, "first")
    local pool, tasks = pool_of(near, name), {}
    for i = 1, 4 do tasks[i] = rl.task(function() return pool:run("f", i) end) end
    rl.sleep(0.1)
    worker(two, "second")
    first:invalidate()
    first:invalidate()
    local count = { first = 0, second = 0 }
    for i = 1, 4 do
      local label = tasks[i]:await(10)
      count[label] = count[label] + 1
    end
    t.equal(count, { first = 1, second = 3 })
    t.equal({ first:is_valid(), #got }, { false, 4 })
  end)

  t.it("has no more jobs at a time than its concurrency", function()
    for _, concurrency in ipairs { 1, 3 } do
      local running, most = 0, 0
      local pool, _, its = pair({ f = function()
        running = running + 1
        most = math.max(most, running)
        rl.sleep(0.01)
        running = running - 1
      end }, { concurrency = concurrency })
      local stored = pool_of(its.near, its.name, { durable = true })
      local tasks = {}
      for i = 1, 20 do tasks[i] = rl.task(function() return (i % 2 == 0 and pool or stored):run "f" end) end
      rl.all_of(tasks)
      t.equal(most, concurrency)
    end
  end)

  t.it("is found by discovery, with its counts", function()
    local pool, worker, its = pair { f = function() end, g = function() error "no" end }
    pool:run "f"
    pcall(pool.run, pool, "g")
    local list = t.truthy(nats.discover(its.near, { name = its.name }))
    local endpoint = list[1].stats.endpoints[1]
    t.equal({ #list, list[1].pid, endpoint.name, endpoint.num_requests, endpoint.num_errors, endpoint.data.running },
      { 1, process.id(), "run", 2, 1, 0 })
    t.truthy(endpoint.last_error:find "no$")
    worker:invalidate()
    its.near:flush(5)
    t.eventually(function() return #nats.discover(its.near, { name = its.name }) == 0 end, { within = 5 })
  end)
end

t.describe("with the fake", function()
  cases(function() return nats.fake { latency = 0.0001, jetstream = true } end, true)
end)

t.describe("with a server", { real_time = true, timeout = 30 }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  cases(function() return server():url() end)
end)
