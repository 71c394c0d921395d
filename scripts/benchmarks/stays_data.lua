-- The rows of stays.lua for databases, servers, and values of tests.

return function(kind, each)
  local function sqlite() return require "runloop.sqlite".open ":memory:" end
  kind("sqlite database", 500, each(function()
    local db = assert(sqlite())
    db:close()
  end), "sqlite.Database")
  kind("sqlite statements", 20000, function(n)
    local db = assert(sqlite())
    db:execute "create table t (i integer primary key, text)"
    for i = 1, n do
      assert(db:execute("insert or replace into t values ($1, $2)", i % 10, "text"))
      db:row("select * from t where i = $1 and " .. i % 500 .. " > -1", i % 10)
    end
    db:close()
  end, "")
  kind("sqlite transactions", 10000, function(n)
    local db = assert(sqlite())
    for i = 1, n do
      local tx = assert(db:begin())
      tx:value("select $1", i)
      tx:rollback()
    end
    db:close()
  end, "sqlite.Transaction")
  kind("sqlite connections", 500, function(n)
    local db = assert(sqlite())
    for _ = 1, n do
      local own = assert(db:connection())
      own:value "select 1"
      own:close()
    end
    db:close()
  end, "sqlite.Connection")
  -- Answers OK to each command, as a Redis without data might.
  local net, server = require "runloop.net", nil
  local function redis()
    server = server or assert(net.serve("127.0.0.1:0", { keeps_alive = false }, function(stream)
      for bytes in function() return stream:read() end do
        local answers = {}
        for word in bytes:gmatch "%*%d+\r\n%$%d+\r\n(%u+)" do
          local is_push = word:find "SUBSCRIBE"
          answers[#answers + 1] = is_push and ">3\r\n+subscribe\r\n+x\r\n:1\r\n" or "+OK\r\n"
        end
        stream:write(table.concat(answers))
      end
    end))
    return assert(require "runloop.redis".open("127.0.0.1:" .. server:port()))
  end
  kind("redis database", 500, each(function() redis():close() end), "redis.Database")
  kind("redis calls", 20000, function(n)
    local db = redis()
    for i = 1, n do assert(db:call("SET", "key" .. i % 100, i)) end
    db:close()
  end, "")
  kind("redis transactions", 5000, function(n)
    local db = redis()
    for i = 1, n do
      local tx <close> = assert(db:begin { watch = "key" .. i % 10 })
      tx:queue("SET", "key", i)
    end
    db:close()
  end, "redis.Transaction")
  kind("redis connections", 500, function(n)
    local db = redis()
    for _ = 1, n do
      local own <close> = assert(db:connection())
      own:call "PING"
    end
    db:close()
  end, "redis.Connection")
  kind("redis subscriptions", 2000, function(n)
    local db = redis()
    local kept <close> = assert(db:subscribe "kept")
    for _ = 1, n do assert(db:subscribe("x", { keeps_alive = false }, function() end)):invalidate() end
    db:close()
  end, "redis.Subscription")
  kind("redis fakes", 300, function(n)
    local rl, module = require "runloop", require "runloop.redis"
    for _ = 1, n do
      local db = assert(module.open(module.fake()))
      db:call("SET", "a", 1, "EX", 1)
      local task = rl.task(function() return db:call("BLPOP", "q", 0) end)
      assert(db:call("GET", "a") == "1")
      task:cancel()
      db:close()
    end
  end, "redis.Fake")
  local function nats()
    local module = require "runloop.nats"
    return assert(module.connect(module.fake()))
  end
  kind("nats bus", 500, each(function() nats():close() end), "nats.Bus nats.Fake")
  kind("nats requests", 10000, function(n)
    local bus = nats()
    bus:subscribe("a", { keeps_alive = false }, function(m) m:respond "b" end)
    for i = 1, n do
      if i % 2 == 0 then assert(bus:request "a") else assert(not bus:request "nobody") end
    end
    bus:close()
  end, "nats.Message")
  kind("nats subscriptions", 5000, function(n)
    local bus = nats()
    for i = 1, n do
      local s <close> = bus:subscribe("a." .. i, { keeps_alive = false }, function() end)
      bus:publish("a." .. i)
    end
    bus:close()
  end, "nats.Subscription")
  local function stores()
    local module = require "runloop.nats"
    return assert(module.connect(module.fake { jetstream = true }))
  end
  kind("nats streams", 2000, function(n)
    local bus = stores()
    local stream = assert(bus:stream("s", { max_messages = 10 }))
    local consumer = assert(stream:consumer("c", {}))
    for i = 1, n do
      assert(stream:publish("s", "data", { id = i % 10 == 0 and "same" or nil }))
      local m = consumer:receive(0.05)
      if m then m:ack() end
    end
    bus:close()
  end, "nats.Stream nats.StoredMessage")
  kind("nats consumers", 500, function(n)
    local bus = stores()
    local stream = assert(bus:stream("s", {}))
    for _ = 1, n do assert(stream:consumer(nil, { keeps_alive = false }, print)):invalidate() end
    bus:close()
  end, "nats.Consumer")
  kind("nats buckets", 1000, function(n)
    local bus = stores()
    for i = 1, n do
      local bucket = assert(bus:bucket("b", {}))
      assert(bucket:put("k" .. i % 10, "v"))
      assert(bucket:get("k" .. i % 10))
      bucket:watch(">"):invalidate()
    end
    bus:close()
  end, "nats.Bucket nats.Watch")
  kind("nats leases", 500, function(n)
    local bus = stores()
    for i = 1, n do assert(bus:lease("l" .. i % 10)):invalidate() end
    bus:close()
  end, "nats.Lease")
  kind("nats ports", 500, function(n)
    local rl = require "runloop"
    local bus = nats()
    for i = 1, n do
      local port = assert(rl.message_port { name = "p" .. i % 10, via = bus, keeps_alive = false, modes = "common",
        callback = function(_, _, data) return data end })
      local remote = assert(rl.remote_port("p" .. i % 10, { via = bus }))
      assert(remote:request(1, "x") == "x")
      port:invalidate()
    end
    bus:close()
  end, "nats.MessagePort nats.RemotePort")
  kind("nats pools", 300, function(n)
    local rl = require "runloop"
    local bus = nats()
    for i = 1, n do
      local worker = rl.worker { name = "w" .. i % 10, via = bus, keeps_alive = false,
        functions = { twice = function(x) return 2 * x end } }
      local pool <close> = rl.pool { name = "w" .. i % 10, via = bus }
      assert(pool:run("twice", i) == 2 * i)
      worker:invalidate()
    end
    bus:close()
  end, "nats.Worker nats.Pool")
  kind("connections of runloop.socket", 2000, function(n)
    local socket = require "runloop.socket"
    local master = assert(socket.bind("127.0.0.1", 0))
    local host, port = master:getsockname()
    for i = 1, n do
      local client = assert(socket.connect(host, port))
      local server = assert(master:accept())
      client:send "line\n"
      assert(server:receive() == "line")
      if i % 2 == 0 then client:close() end
      server:close()
    end
    master:close()
  end, "")
  kind("datagram sockets of runloop.socket", 10000, function(n)
    local socket = require "runloop.socket"
    for i = 1, n do
      local made = socket.udp4()
      if i % 2 == 0 then made:close() end
    end
  end, "")
  kind("timers of luv", 10000, function(n)
    local rl = require "runloop"
    require "runloop.luv"
    local uv = require "luv"
    for i = 1, n do
      local timer = uv.new_timer()
      timer:start(0, 0, function() timer:close() end)
      if i % 100 == 0 then rl.sleep(0.002) end
    end
  end, "luv.Bridge")
  kind("coroutines of cqueues", 10000, function(n)
    local rl, bridge = require "runloop", require "runloop.cqueues"
    for i = 1, n do
      bridge:wrap(rl.now)
      if i % 100 == 0 then assert(bridge:call(function() return i end) == i) end
    end
  end, "cqueues.Bridge")
  kind("looks at GLib", 10000, function(n)
    local rl, bridge = require "runloop", require "runloop.glib"
    for i = 1, n do
      bridge:set_keeps_alive(i % 2 == 0)
      if i % 100 == 0 then rl.sleep(0) end
    end
    bridge:set_keeps_alive(nil)
  end, "glib.Bridge")
  kind("file lock", 20000, each(function()
    assert(require "runloop.fs".lock("/tmp/rlhost-stays.lock", { timeout = 0 })):close()
  end), "fs.Lock")
  kind("counter", 50000, each(function(i)
    require "runloop.metrics".counter("stays_total", "A counter.", { "n" }):add(1, i % 100)
  end), "metrics.Counter")
  kind("gauge", 50000, each(function(i)
    require "runloop.metrics".gauge("stays", "A gauge."):set(i)
  end), "metrics.Gauge")
  kind("histogram", 50000, each(function(i)
    require "runloop.metrics".histogram("stays_seconds", "A histogram."):observe(i)
  end), "metrics.Histogram")
  -- All rows share one server; without PostgreSQL there are no rows.
  local postgres
  local function database()
    postgres = postgres or require "runloop.test".server "postgres"
    return assert(require "runloop.postgres".open(postgres:url()))
  end
  kind("postgres database", 100, each(function() database():close() end), "postgres.Database", "test")
  kind("postgres fakes", 100, each(function()
    local module = require "runloop.postgres"
    local db = assert(module.open(module.fake(function() return 1 end)))
    assert(db:execute "insert" == 1)
    db:close()
  end), "postgres.Fake")
  kind("postgres statements", 5000, function(n)
    local db = database()
    for i = 1, n do db:row("select $1::int as i, " .. i % 300 .. " as k", i) end
    db:close()
  end, "", "test")
  kind("postgres cancelled", 300, function(n)
    local db = database()
    for _ = 1, n do db:value { "select pg_sleep(1)", timeout = 0.002 } end
    db:close()
  end, "", "test")
  kind("postgres transactions", 2000, function(n)
    local db = database()
    for i = 1, n do
      local tx = assert(db:begin())
      tx:value("select $1::int", i)
      tx:rollback()
    end
    db:close()
  end, "postgres.Transaction", "test")
  kind("postgres subscriptions", 1000, function(n)
    local db = database()
    local first <close> = assert(db:subscribe("first", { keeps_alive = false }))
    for _ = 1, n do assert(db:subscribe("x", { keeps_alive = false }, function() end)):invalidate() end
    first:invalidate()
    db:close()
  end, "postgres.Subscription", "test")
  kind("postgres connections", 100, function(n)
    local db = database()
    for _ = 1, n do
      local own = assert(db:connection())
      own:value "select 1"
      own:close()
    end
    db:close()
  end, "postgres.Connection", "test")
  kind("server of tests", 20, function(n)
    local t = require "runloop.test"
    for _ = 1, n do t.server { "sh", "-c", "echo up; exec sleep 60", ready = "up" }:close() end
  end, "test.Server", "test")
  kind("spy", 20000, function(n)
    local t = require "runloop.test"
    for i = 1, n do assert(t.spy()(i) == nil) end
  end, "test.Spy", "test")
  kind("journal", 20000, function(n)
    local t = require "runloop.test"
    for _ = 1, n do t.journal() end
  end, "test.Journal", "test")
  kind("generator", 10000, function(n)
    local t = require "runloop.test"
    for _ = 1, n do t.gen.list(t.gen.integer(0, 9)) end
  end, "test.Generator", "test")
end
