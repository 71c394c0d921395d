-- runloop.postgres: limits of time and number, sessions that end in odd orders, and databases that nobody closes.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local postgres = require "runloop.postgres"

local server = t.resource(function() return t.server "postgres" end)

-- Opens a database; it is closed with the test.
local function open(options, where)
  local db = t.truthy(postgres.open(where or server():url(), options))
  t.finally(function() db:close(0.1) end)
  return db
end

local REAL = { real_time = true, timeout = 60 }

t.describe("a time limit", function()
  t.it("applies to each wait of rows, and to a batch as a whole", REAL, function()
    local db = open()
    t.error(function()
      for _ in db:rows { "select pg_sleep(30)", timeout = 0.05 } do t.fail "a row" end
    end, "timed out")
    t.equal({ db:batch { "create table late (x int)", "select pg_sleep(30)", timeout = 0.05 } }, { nil, "timed out" })
    t.equal(db:value "select to_regclass('late')::text", nil)
    t.error(function() db:batch { "select 1", { "select 1", timeout = 1 } } end, "entry 2 has a timeout")
    t.error(function() db:batch { "select 1", time = 1 } end, "unknown field 'time'")
  end)

  t.it("of a database applies to begin, commit and publish as well", REAL, function()
    local own = t.server "postgres"
    local db = open({ timeout = 0.2, size = 6 }, own:url())
    local tx, connection = t.truthy(db:begin()), t.truthy(db:connection())
    own:pause()
    local function late(fn, ...)
      local done, nothing, message = rl.timeout(10, fn, ...)
      t.equal({ done, nothing, message }, { true, nil, "timed out" })
    end
    late(db.begin, db)
    late(db.begin, db, { timeout = 0.1 })
    late(tx.commit, tx)
    late(connection.begin, connection)
    late(db.publish, db, "a", "b")
    own:resume()
    t.eventually(function() return db:value "select 1" == 1 end)
  end)

  t.it("a cancelled task leaves the queue of waiting tasks", REAL, function()
    local db = open { size = 1, max_waiting = 2 }
    local own = t.truthy(db:connection())
    local function wait() return rl.task(function() return db:value "select 1" end) end
    local one, two = wait(), wait()
    rl.sleep(0.01)
    t.equal(select(3, db:value "select 1"), "ENOBUFS")
    one:cancel()
    two:cancel()
    local three = wait()
    rl.sleep(0.01)
    own:close()
    t.equal(three:await(), 1)
  end)
end)

t.describe("a batch", function()
  t.it("with a wrong entry raises an error that names the entry", function()
    local db = open()
    t.error(function() db:batch { "select 1", { "select $1::int", 1, 2 } } end,
      "db:batch: entry 2: the statement has 1 parameter, got 2", true)
    t.error(function() db:batch { "select 1", "select 1 as a, 2 as a" } end,
      "db:batch: entry 2: two columns are called 'a'", true)
    t.error(function() db:batch { { "select $1::int", {} } } end, "db:batch: entry 1: parameter 1 must be", true)
    t.equal({ select(3, db:batch { { "select repeat('x', 100)", max = 50 } }) }, { "EMSGSIZE", { index = 1 } })
  end)
end)

t.it("the limit of a row applies to each row of rows, in a transaction as well", function()
  local db = open()
  local tx <close> = t.truthy(db:begin())
  for _, one in ipairs { db, tx } do
    local rows = 0
    for _ in one:rows { "select repeat('x', 100) from generate_series(1, 1000)", max = 150 } do rows = rows + 1 end
    t.equal(rows, 1000)
    t.error(function()
      for _ in one:rows { "select repeat('x', 100) from generate_series(1, 3)", max = 50 } do t.fail "a row" end
    end, "EMSGSIZE")
  end
end)

t.describe("a connection", function()
  t.it("that a task has taken has one transaction at a time", function()
    local own <close> = t.truthy(open():connection())
    local tx = t.truthy(own:begin())
    t.equal({ select(3, own:begin()) }, { "EINVAL", { code = "25001" } })
    t.error(function() tx:begin { read_only = true } end, "tx:begin: unknown field 'read_only'")
    t.equal(tx:rollback(), true)
    t.equal(own:begin():commit(), true)
    own:close()
    t.equal({ own:query "select 1" }, { nil, "ENOTCONN: the connection is closed", "ENOTCONN" })
  end)

  t.it("that was opened for a task whose time is over is closed when the server is lost", REAL, function()
    local own = t.server "postgres"
    local db = open({ size = 2 }, own:url())
    -- Waits until the first check of idle connections is over.
    rl.sleep(0.1)
    local held = t.truthy(db:connection())
    local task = rl.task(function() return db:value "select 1" end)
    rl.sleep(0.001)
    task:cancel()
    t.eventually(function() return db:stats().idle == 1 end)
    own:restart()
    t.eventually(function() return db:stats().idle == 0 end)
    t.equal(db:value "select 1", 1)
    held:close()
  end)

  t.it("that a server ends gives an error with the server's reason, and is counted", REAL, function()
    local db = open()
    local tx = t.truthy(db:begin())
    local _, message, code, details = tx:execute "select pg_terminate_backend(pg_backend_pid())"
    t.equal({ code, details.code }, { "ECONNRESET", "57P01" })
    t.truthy(message:find("(57P01); during select pg_terminate_backend", 1, true), message)
    t.equal({ select(3, tx:commit()) }, { "ENOTCONN" })
    t.equal(db:stats().lost, 1)
  end)
end)

t.it("a database that is collected closes its connections", { real_time = true, leaks = false }, function()
  local db = open()
  local function others()
    return db:value "select count(*) from pg_stat_activity where application_name = 'collected'"
  end
  local function use()
    local one = t.truthy(postgres.open(server():url() .. "?application_name=collected"))
    t.equal(one:value "select 1", 1)
    t.equal(others(), 1)
  end
  use()
  t.eventually(function()
    collectgarbage()
    return others() == 0
  end)
end)

t.it("rows raise an error if there is no connection", REAL, function()
  local db = open { size = 1, wait = 0.05 }
  do
    local tx <close> = t.truthy(db:begin())
    t.error(function() for _ in db:rows "select 1" do end end, "EAGAIN: no connection was free")
    t.truthy(tx)
  end
  db:close()
  t.error(function() for _ in db:rows "select 1" do end end, "ENOTCONN: the database is closed")
end)

t.it("a session whose connection was lost gives its place back", REAL, function()
  local db, killer = open { size = 2, wait = 0.2 }, open()
  for _, use in ipairs {
    function() return t.truthy(db:begin()) end,
    function() return t.truthy(db:connection()) end,
    function()
      local tx = t.truthy(db:begin())
      return t.truthy(tx:begin()), tx
    end,
    function()
      local own = t.truthy(db:connection())
      return t.truthy(own:begin()), own
    end,
  } do
    for _ = 1, 3 do
      local session, outer = use()
      local _ <close> = outer
      local _ <close> = session
      killer:value("select pg_terminate_backend($1)", session:value "select pg_backend_pid()")
      rl.sleep(0.02)
      t.equal(select(3, session:value "select 1"), "ECONNRESET")
      t.equal(select(3, session:value "select 1"), "ENOTCONN")
      if session.rollback then t.equal(select(3, session:rollback()), "ENOTCONN") end
    end
    t.equal(db:stats().in_use, 0)
  end
end)

t.it("too many parameters are refused, and the connection stays", function()
  local db = open { size = 1 }
  local many = { "select 1" }
  for i = 2, 65537 do many[i] = 1 end
  t.equal({ select(3, db:value(many)) }, { "EINVAL", { code = "54023" } })
  t.equal(db:stats().lost, 0)
end)

t.it("calls after the first ones have the same results, although they take fewer steps", REAL, function()
  local db = open { size = 1 }
  local places, values = {}, {}
  for i = 1, 40 do places[i], values[i] = "$" .. i .. "::int", i end
  local CASES <const> = {
    { "value", "select " .. table.concat(places, "+"), n = 42, table.unpack(values) },
    { "value", "select $1::boolean", false }, { "value", "select $1::int", nil, n = 3 },
    { "value", "select 1 where false" },
    { "row", "select 1 as a, null as b where $1", true }, { "row", "select 1 where $1", false },
    { "query", "select 1 as a, 2 as b where $1", true }, { "query", "select 1 as a, 2 as a where $1", true },
    { "execute", "select generate_series(1, $1::int)", 3 }, { "execute", "create temporary table if not exists x ()" },
    { "execute", "begin" }, { "value", "select 1 / $1::int", 0 }, { "value", "select $1::int", 1, 2 },
    { "value", "select $1::int", "x" },
  }
  for _, case in ipairs(CASES) do
    local kind, first = case[1], nil
    for turn = 1, 4 do
      local calls = db:stats().calls
      local answer = table.pack(pcall(db[kind], db, table.unpack(case, 2, case.n or #case)))
      first = first or answer
      t.equal(answer, first, case[2] .. " " .. turn)
      t.equal(db:stats().calls, calls + 1, case[2])
    end
  end
  for turn = 1, 4 do
    t.equal(db:value("select $1::text", "x"), "x")
    if turn > 2 then t.error(function() db:value("select $1::text", {}) end, "parameter 1 must be a string") end
  end
end)

t.it("a prepared call is cancelled, and loses its connection, as an unprepared one", REAL, function()
  local db = open { size = 1 }
  for _ = 1, 3 do t.equal(db:execute("select pg_sleep($1)", 0), 0) end
  local sleeper = rl.task(function() return db:execute("select pg_sleep($1)", 60) end)
  rl.sleep(0.05)
  local killer = open()
  killer:execute "select pg_terminate_backend(pid) from pg_stat_activity where query like 'select pg_sleep($1)'"
  t.equal(select(3, sleeper:await()), "ECONNRESET")
  t.equal({ db:stats().lost, db:stats().in_use }, { 1, 0 })
  for _ = 1, 3 do t.equal(db:execute("select pg_sleep($1)", 0), 0) end
  local other = rl.task(function() return db:execute("select pg_sleep($1)", 60) end)
  rl.sleep(0.05)
  other:cancel()
  t.equal(db:value "select 1", 1)
  t.equal({ db:stats().lost, db:stats().cancelled }, { 1, 1 })
end)

t.it("a connection on which a script has called listen does not keep notifications", { real_time = true }, function()
  local db, other = open { size = 1 }, open()
  t.equal(db:execute "listen noise", 0)
  local function memory()
    collectgarbage()
    return tonumber(fs.read "/proc/self/statm":match "%d+ (%d+)") * 4096
  end
  local function notify()
    other:execute "select pg_notify('noise', repeat('a', 7000) || g) from generate_series(1, 1000) g"
    t.equal(db:value("select $1::int", 5), 5)
  end
  notify()
  local before = memory()
  for _ = 1, 3 do notify() end
  t.truthy(memory() - before < 8e6, memory() - before)
  t.equal(db:stats().connections, 1)
end)

t.it("a coroutine of the script's own, in which no call may wait, keeps no connection", REAL, function()
  local db = open { size = 2, wait = 1 }
  -- The task has returned without an error, so its transaction goes on.
  local tx <close> = t.truthy(rl.task(function() return db:begin() end):await())
  for i = 1, 5 do
    coroutine.resume(coroutine.create(function() return db:value("select $1::int", i) end))
    t.equal(db:value("select $1::int", i), i)
  end
  t.equal(tx:value "select 3", 3)
  t.equal(tx:commit(), true)
  t.eventually(function() return db:stats().in_use == 0 end)
end)
