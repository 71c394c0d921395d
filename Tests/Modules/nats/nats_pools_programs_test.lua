-- rl.worker and rl.pool over a bus with real programs: killed and stopped workers and servers, shutdown, permissions.

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect, pool_of, problem_of = buses.connect, buses.pool_of, buses.problem_of

t.describe("real programs", { real_time = true, timeout = 60 }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  local folder = t.resource(function() return t.truthy(fs.temporary_directory()) end,
    function(path) fs.remove(path, { recursive = true }) end)

  -- A worker in a separate process. A job of this worker takes at most `longest` seconds.
  local function start(name, where, longest)
    local path = folder() .. "/worker.lua"
    t.truthy(fs.write(path, [[
      local rl, nats = require "runloop", require "runloop.nats"
      local bus = assert(nats.connect(arg[1], { retry = true }))
      local function wait(seconds)
        print "begin" io.flush()
        rl.sleep(math.min(seconds, tonumber(arg[4])))
        print "end" io.flush()
        return "by " .. arg[3]
      end
      assert(rl.worker { via = bus, name = arg[2], functions = { wait = wait } })
      print "ready" io.flush()
    ]]))
    local program = t.spawn { t.rlhost, path, where or server():url(), name, "worker", longest or 600 }
    t.finally(function() program:kill() end)
    program:wait_for("ready", { within = 20 })
    return program
  end

  local function has_begun(program, times)
    t.eventually(function() return select(2, program:output():gsub("begin", "")) >= (times or 1) end, { within = 20 })
  end

  t.it("a call ends with an error when its worker gets SIGKILL or SIGSTOP", function()
    local waits = {}
    for i, how in ipairs { "KILL", "STOP" } do
      local bus, name = connect(server():url()), "gone_" .. how
      local program, pool = start(name), pool_of(bus, name)
      local task = rl.task(function() return problem_of(pool.run, pool, "wait", 600) end)
      has_begun(program)
      program:signal(how)
      -- Both waits run at the same time.
      waits[i] = rl.task(function()
        local began = rl.now()
        t.truthy(task:await(25):find("the worker that had wait is gone: it may have been done", 1, true))
        -- docs/machines.md promises an error within 3 seconds if the pool's only worker is killed, else within 8
        -- seconds. The limits here are higher, since the machine may be busy.
        t.truthy(rl.now() - began < (how == "KILL" and 10 or 20))
      end)
    end
    rl.all_of(waits[1], waits[2])
  end)

  t.it("a stored job is delivered to another worker when its worker is killed", function()
    local bus, name = connect(server():url()), "stored"
    local first, pool = start(name), pool_of(bus, name, { durable = { ack_wait = 2 } })
    local task = rl.task(function() return pool:run("wait", 1) end)
    has_begun(first)
    first:kill()
    start(name)
    t.equal(task:await(40), "by worker")
  end)

  t.it("a job that kills its workers becomes a dead letter in the end", function()
    local bus, name = connect(server():url()), "deadly"
    local pool = pool_of(bus, name, { durable = { ack_wait = 1, max_deliver = 2 } })
    local task = rl.task(function() return problem_of(pool.run, pool, "wait", 600) end)
    for _ = 1, 2 do
      local program = start(name)
      has_begun(program)
      program:kill()
    end
    start(name)
    t.truthy(task:await(40):find("the worker has ended during each of 2 deliveries", 1, true))
  end)

  t.it("a stored job is done, and both sides continue, after the server was killed and started", function()
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

  t.it("a job that outlasts the shutdown is lost, and a stored one is returned", function()
    local bus, waits = connect(server():url()), {}
    for i, durable in ipairs { false, true } do
      local name = "limit" .. (durable and "_stored" or "")
      local program, pool = start(name), pool_of(bus, name, { durable = durable })
      local task = rl.task(function() return select(2, pcall(pool.run, pool, "wait", durable and 8 or 600)) end)
      has_begun(program)
      program:signal "TERM"
      -- Both shutdowns run at the same time.
      waits[i] = rl.task(function()
        program:wait { within = 20 }
        t.truthy(not program:output():find "end")
        if durable then start(name, nil, 0.1) end
        local answer = task:await(40)
        t.truthy(answer == "by worker" or answer:find("the worker that had wait is gone", 1, true), answer)
        t.equal(answer == "by worker", durable)
      end)
    end
    rl.all_of(waits[1], waits[2])
  end)

  t.it("the permissions of docs/machines.md are enough, and other subjects are refused by name", function()
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

  t.it("a server without log-in on another machine causes one warning", function()
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
      local _, count = program:errors():gsub("requires no log%-in", "")
      t.equal(count, host == "0.0.0.0" and 1 or 0, program:errors())
    end
  end)
end)
