-- runloop.sqlite: databases in memory, whose only connection all tasks share, and many loops over rows.

local t = require "runloop.test"
local rl = require "runloop"
local sqlite = require "runloop.sqlite"

local COUNT = 1000

-- Opens a database in memory with a table of 1000 rows.
local function open(options)
  local db = t.truthy(sqlite.open(":memory:", options))
  t.finally(function() db:close(0.1) end)
  t.equal(db:script("create table n (i integer primary key); insert into n "
    .. "with recursive c(i) as (select 1 union all select i + 1 from c where i < 1000) select i from c"), true)
  return db
end

t.it("all calls share one database in memory, and its rows do not hold up other calls", function()
  local db = open { wait = 0.1 }
  local rows = 0
  for row in db:rows "select i from n order by i" do
    rows = rows + 1
    if row.i % 100 == 0 then
      t.equal(db:execute("update n set i = -i where i = $1", row.i), 1)
      local tx <close> = t.truthy(db:begin())
      t.equal(tx:execute("insert into n values ($1)", 5000 + row.i), 1)
      for inner in tx:rows "select i from n where i > 0" do if inner.i > 400 then break end end
      t.equal(row.i == 500 and tx:rollback() or tx:commit(), true)
    end
    if row.i == 999 then break end
  end
  t.equal({ rows, db:value "select count(*) from n" }, { 999, COUNT + 8 })
  for _ in db:rows "insert into n select i + 10000 from n where i > 0 returning i" do rows = rows + 1 end
  t.truthy(rows > 999 + 256)
  t.equal({ db:stats().connections, db:stats().in_use }, { 1, 0 })
end)

t.it("rows of a database in memory wait while another task has a transaction", { real_time = true }, function()
  local db = open { wait = 0.05 }
  local go_on = rl.future()
  local task = rl.task(function()
    local tx <close> = t.truthy(db:begin())
    go_on:await()
    t.equal(tx:commit(), true)
  end)
  t.error(function() for _ in db:rows "select i from n" do end end, "EAGAIN: no connection was free for 0.05 s")
  go_on:complete(true)
  t.truthy(task:await() == nil)
  local count = 0
  for _ in db:rows "select i from n" do count = count + 1 end
  t.equal(count, COUNT)
end)

t.it("a connection that is closed in a transaction leaves the database in memory unchanged", function()
  local db = open()
  do
    local own <close> = t.truthy(db:connection())
    t.equal(own:execute "begin", 0)
    t.equal(own:execute "delete from n", COUNT)
  end
  t.equal(db:value "select count(*) from n", COUNT)
end)

t.it("a connection refuses more than 64 loops over rows at a time", function()
  local db = open()
  local tx <close> = t.truthy(db:begin())
  local loops = {}
  for i = 1, 64 do
    local guard
    loops[i], _, _, guard = tx:rows "select i from n"
    t.finally(function() getmetatable(guard).__close(guard) end)
    t.truthy(loops[i]())
  end
  t.error(function() for _ in tx:rows "select i from n" do end end, "ENOBUFS: too many loops over rows")
  for i = 1, 64 do
    local count = 1
    for _ in loops[i] do count = count + 1 end
    t.equal(count, COUNT)
  end
  t.equal(tx:commit(), true)
end)
