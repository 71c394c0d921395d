-- runloop.sqlite: transactions and connections that several tasks use, that end in odd orders, and that nobody closes.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local sqlite = require "runloop.sqlite"

-- A query that takes far longer than any test.
local SLOW = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 1e12) select count(*) from c"

-- Returns a directory that goes with the test.
local function directory()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

-- Opens a new database with a table.
local function open(options, path)
  path = path or directory() .. "/x.db"
  local db = t.truthy(sqlite.open(path, options))
  t.finally(function() db:close(0.1) end)
  t.equal(db:script "create table if not exists n (i integer)", true)
  return db, path
end

t.describe("a transaction", function()
  t.it("continues for other tasks when the statement of one is cancelled", { real_time = true }, function()
    local db = open()
    local tx <close> = t.truthy(db:begin())
    local slow = rl.task(function() return tx:value(SLOW) end)
    rl.sleep(0.02)
    local quick = rl.task(function() return tx:value "select 42" end)
    rl.sleep(0.02)
    slow:cancel()
    t.equal(quick:await(), 42)
    -- Leaving a loop early closes its cursor while other statements of the transaction run.
    tx:execute(("insert into n values (1)%s"):format((", (1)"):rep(999)))
    for _ in tx:rows "select i from n" do break end
    slow = rl.task(function() return tx:value(SLOW) end)
    rl.sleep(0.02)
    slow:cancel()
    t.equal(tx:value "select 43", 43)
  end)

  t.it("refuses statements after its commit, of savepoints and of waiting tasks as well", function()
    local db = open()
    local tx = t.truthy(db:begin())
    local inner = t.truthy(tx:begin())
    local commit = rl.task(function() return tx:commit() end)
    local late = rl.task(function() return select(3, tx:execute "insert into n values (1)") end)
    t.equal(commit:await(), true)
    t.equal(late:await(), "ENOTCONN")
    local _, message, code = inner:execute "insert into n values (2)"
    t.equal(code, "ENOTCONN")
    t.truthy(message:find("the transaction is over (committed", 1, true), message)
    t.equal({ select(3, inner:commit()) }, { "ENOTCONN" })
    -- The savepoints of both transactions have the same name: ending the first object must not touch the second
    -- savepoint.
    local next_tx = t.truthy(db:begin())
    local next_inner = t.truthy(next_tx:begin())
    next_inner:execute "insert into n values (3)"
    getmetatable(inner).__close(inner)
    rl.sleep(0.05)
    t.equal(next_inner:commit(), true)
    t.equal(next_tx:commit(), true)
    t.equal(db:query "select i from n", { { i = 3 } })
  end)

  t.it("that only reads refuses to write, also on the only connection", function()
    for _, options in ipairs { { path = ":memory:" }, { size = 1 } } do
      local db = open({ size = options.size }, options.path)
      do
        local tx <close> = t.truthy(db:begin { read_only = true })
        t.equal(select(3, tx:execute "insert into n values (1)"), "EROFS")
        t.equal(select(3, tx:script "insert into n values (1)"), "EROFS")
        t.equal(tx:value "select count(*) from n", 0)
      end
      t.equal(db:execute "insert into n values (1)", 1)
      local tx = t.truthy(db:begin { read_only = true })
      t.equal(tx:commit(), true)
      t.equal(db:execute "insert into n values (1)", 1)
    end
  end)

  t.it("begins within its time limit while another process has the lock", { real_time = true }, function()
    local db, path = open { wait = 60 }
    local other = open({}, path)
    local tx = t.truthy(other:begin())
    t.equal(table.pack(db:begin { timeout = 0.05 }), { nil, "timed out", n = 2 })
    tx:rollback()
    t.equal(db:begin { timeout = 5 }:rollback(), true)
  end)

  t.it("and a connection make savepoints by begin without options", function()
    local db = open()
    local tx <close> = t.truthy(db:begin())
    t.error(function() tx:begin { read_only = true } end, "tx:begin: unknown field 'read_only'")
    tx:rollback()
    local own = t.truthy(db:connection())
    t.error(function() own:begin { timeout = 1 } end, "connection:begin: unknown field 'timeout'")
    own:close()
    t.equal({ own:query "select 1" }, { nil, "ENOTCONN: the connection is closed", "ENOTCONN" })
  end)
end)

t.it("time limits apply to rows and to batches as a whole", { real_time = true }, function()
  local db = open()
  t.error(function()
    for _ in db:rows { SLOW, timeout = 0.02 } do t.fail "a row" end
  end, "timed out")
  t.equal({ db:batch { "insert into n values (1)", SLOW, timeout = 0.02 } }, { nil, "timed out" })
  t.equal(db:value "select count(*) from n", 0)
  t.error(function() db:batch { "select 1", { SLOW, timeout = 1 } } end, "entry 2 has a timeout")
  t.error(function() db:batch { "select 1", time = 1 } end, "unknown field 'time'")
end)

t.it("a call that times out at the lock of another process does nothing later", { real_time = true },
  function()
    local db, path = open { wait = 60 }
    local other = open({}, path)
    for round = 1, 20 do
      local tx = t.truthy(other:begin())
      t.equal({ db:execute { "insert into n values ($1)", -round, timeout = 0.01 } }, { nil, "timed out" })
      tx:rollback()
      t.equal(db:execute("insert into n values ($1)", round), 1)
    end
    t.equal(db:value "select count(*) from n where i < 0", 0)
  end)

t.it("the error for a batch names the entry that is wrong", function()
  local db = open()
  t.error(function() db:batch { "select 1", { "select $1, $2", 1 } } end,
    "db:batch: entry 2: the statement has 2 parameters, got 1", true)
  t.error(function() db:batch { "select 1", "select 1 as a, 2 as a" } end,
    "db:batch: entry 2: two columns are called 'a'", true)
  t.error(function() db:batch { { "select $1", {} } } end, "db:batch: entry 1: parameter 1 must be", true)
  t.equal(db:value "select 1 as a, 2 as a", 1)
end)

t.it("calls that were cancelled do not count as waiting", { real_time = true }, function()
  local db = open { size = 1, max_waiting = 2 }
  local tx <close> = t.truthy(db:begin())
  local function wait() return rl.task(function() return db:execute "insert into n values (1)" end) end
  local one, two = wait(), wait()
  rl.sleep(0.01)
  local full = wait()
  t.equal(select(3, full:await()), "ENOBUFS")
  one:cancel()
  two:cancel()
  rl.sleep(0.01)
  local three = wait()
  rl.sleep(0.01)
  t.equal(tx:commit(), true)
  t.equal(three:await(), 1)
end)

t.it("a database that is collected closes its connections", { real_time = true, leaks = false }, function()
  local folder = directory()
  local path = folder .. "/collected.db"
  local function use()
    local db = t.truthy(sqlite.open(path))
    t.equal(db:script "create table if not exists n (i)", true)
    t.equal(db:value "select count(*) from n", 0)
  end
  use()
  -- An error in a finalizer or in its task would fail the test.
  for _ = 1, 3 do
    collectgarbage()
    rl.sleep(0.02)
  end
  -- The last connection removes the log.
  t.eventually(function() return not fs.stat(path .. "-wal") end)
end)

t.it("a statement of a transaction keeps its connection when other waits end in the same pass", function()
  local db <close> = assert(sqlite.open(":memory:", { wait = 0.1 }))
  db:execute "create table t (x)"
  local tx = assert(db:begin())
  local late = rl.task(db.value, db, "select 1")
  rl.sleep(0)
  local done
  rl.after(0.1, function()
    done = { tx:execute "insert into t values (1)" }
  end)
  rl.sleep(0.2)
  t.equal(done, { 1 })
  t.equal(select(3, late:await()), "EAGAIN")
  t.truthy(tx:rollback())
end)

t.it("a script must not contain statements that end a transaction", function()
  local db = open()
  for text, word in pairs {
    ["insert into n values (1); commit; begin; insert into n values (2)"] = "commit",
    ["insert into n values (1); \xEF\xBB\xBF \v-- a\n /* ; */ END; savepoint a"] = "end",
    ["insert into n values (1); rollback"] = "rollback",
  } do
    local nothing, message, code = db:script(text)
    t.equal({ nothing, code }, { nil, "EINVAL" })
    t.truthy(message:find("must not contain '" .. word .. "'", 1, true), message)
  end
  local own = t.truthy(db:connection())
  t.equal(select(3, own:script "insert into n values (1); commit"), "EINVAL")
  t.equal(select(3, own:batch { "insert into n values (1)", "commit", "select nothing" }), "EINVAL")
  own:close()
  t.equal(db:script "create trigger tr after insert on n begin select 1; select 2; end; insert into n values (9)", true)
  t.equal(db:query("select i from n"), { { i = 9 } })
end)

t.it("a transaction that a failure has ended takes no more statements", function()
  local db = open()
  t.equal(db:script "create table u (i integer unique); insert into u values (1)", true)
  local tx <close> = t.truthy(db:begin())
  t.equal(tx:execute "insert into n values (1)", 1)
  t.equal(select(3, tx:execute "insert or rollback into u values (1)"), "EEXIST")
  for _, done in ipairs {
    { tx:execute "insert into n values (2)" }, { tx:batch { "insert into n values (2)" } },
    { tx:script "insert into n values (2)" }, { tx:value "select 1" }, { tx:begin() }, { tx:commit() },
  } do
    t.equal(done[3], "ENOTCONN")
    t.truthy(done[2]:find("rolled back, as a statement in it has failed", 1, true))
  end
  t.truthy(tostring(tx):find "^transaction %(rolled back at ")
  local again <close> = t.truthy(db:begin())
  t.equal(select(3, again:execute "insert or rollback into u values (1)"), "EEXIST")
  t.equal(again:rollback(), true)
  t.equal(db:value "select count(*) from n", 0)
end)

t.it("a change that returns rows is committed before they are returned", function()
  local db = open()
  t.equal(db:script [[create table parent (i integer primary key);
    create table child (p references parent deferrable initially deferred)]], true)
  for _, call in ipairs { db.value, db.row, db.query } do
    t.equal(select(3, call(db, "insert into child values (7) returning p")), "CONSTRAINT")
  end
  t.equal(select(3, db:query { "insert into n values (10), (11) returning i, 'long'", max = 3 }), "EMSGSIZE")
  t.equal(select(3, db:row { "insert into n values (10) returning i, 'long'", max = 3 }), "EMSGSIZE")
  t.equal(db:value "select (select count(*) from child) + (select count(*) from n)", 0)
  t.equal(db:value "insert into n values (10), (11) returning i", 10)
  t.equal(db:value "select count(*) from n", 2)
end)

t.it("the first call after a change of the schema has the new columns", function()
  local db = open()
  db:script "create table t (a, b); insert into t values (1, 2)"
  local function row() return db:row "select * from t" end
  t.equal({ row(), row() }, { { a = 1, b = 2 }, { a = 1, b = 2 } })
  db:script "alter table t add column c default 3"
  t.equal(row(), { a = 1, b = 2, c = 3 })
  db:script "alter table t rename column a to z"
  t.equal(row(), { z = 1, b = 2, c = 3 })
  db:script "alter table t drop column z"
  t.equal(row(), { b = 2, c = 3 })
  t.equal(db:query { "select * from t", lists = true }, { { 2, 3 } })
  db:script "create table u (d); insert into u values (4)"
  local function both() return db:row "select * from t, u" end
  t.equal({ both(), both() }, { { b = 2, c = 3, d = 4 }, { b = 2, c = 3, d = 4 } })
  db:script "alter table u rename column d to c"
  for _ = 1, 2 do t.error(both, "db:row: two columns are called 'c'") end
  db:script "alter table u rename column c to e"
  t.equal(both(), { b = 2, c = 3, e = 4 })
end)
