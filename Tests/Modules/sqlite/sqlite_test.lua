-- runloop.sqlite: the calls, their refusals, and what happens at the edges: cancelled tasks, locks, kills, full disks.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local sqlite = require "runloop.sqlite"
local json = require "runloop.json"

-- Returns a directory that is removed after the test.
local function directory()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

-- Opens a database in a fresh directory; it is closed with the test.
local function open(options, script)
  local path = directory() .. "/x.db"
  local db = t.truthy(sqlite.open(path, options))
  t.finally(function() db:close() end)
  if script then t.equal(db:script(script), true) end
  return db, path
end

-- A query of minutes.
local SLOW = [[with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000)
  select count(*) from n]]
local PEOPLE = "create table people (id integer primary key, name text unique not null, age integer check (age > 0))"

t.describe("calls", function()
  t.it("return rows, a row, a value and a count", function()
    local db = open(nil, PEOPLE)
    t.equal(db:execute("insert into people (name, age) values ($1, $2), ($3, $4)", "ada", 36, "bob", nil), 2)
    local rows, names = db:query "select * from people order by id"
    t.equal(rows, { { id = 1, name = "ada", age = 36 }, { id = 2, name = "bob" } })
    t.equal(names, { "id", "name", "age" })
    t.equal(db:row("select name from people where id = ?", 2), { name = "bob" })
    t.equal(db:value "select count(*) from people", 2)
    t.equal(db:execute "delete from people", 2)
    t.equal(db:execute "create table other (x)", 0)
    t.equal(db:execute "select 1", 0)
  end)

  t.it("return nil alone for no row and for NULL", function()
    local db = open()
    t.equal(table.pack(db:row "select 1 where 0"), { n = 1 })
    t.equal(table.pack(db:value "select 1 where 0"), { n = 1 })
    t.equal(table.pack(db:value "select null"), { n = 1 })
    t.equal(db:query "select 1 where 0", {})
  end)

  t.it("take options in the table form, with nil between parameters", function()
    local db = open()
    t.equal(db:row { "select $1 as a, $2 as b", nil, 2, nulls = true }, { a = json.null, b = 2 })
    t.equal(db:query { "select 1, 2, null, 1", lists = true }, { { 1, 2, nil, 1 } })
    t.equal(db:value { "select $1", 5 }, 5)
  end)

  t.it("keep every kind of value", function()
    local db = open()
    local texts = { "", "a\0b", "ü", ("x"):rep(100000) }
    for _, value in ipairs { 0, math.maxinteger, math.mininteger, 1.5, -0.0, math.huge, table.unpack(texts) } do
      t.equal(db:value("select $1", value), value)
      t.equal(math.type(db:value("select $1", value)), math.type(value))
    end
    t.equal(db:value("select $1", true), 1)
    t.equal(db:value("select typeof($1)", json.null), "null")
    t.equal(db:row("select typeof($1) as kind, $1 as value", sqlite.bytes "a\0b"), { kind = "blob", value = "a\0b" })
    t.equal(db:value("select json_extract($1, '$.a[1]')", sqlite.json { a = { 1, 2 } }), 2)
    t.equal(sqlite.null, json.null)
  end)

  t.it("use a numbered parameter wherever it stands", function()
    local db = open()
    t.equal(db:row("select $2 as b, $1 as a, $2 as c", 1, 2), { a = 1, b = 2, c = 2 })
    t.equal(db:row("select ?2 as b, ?1 as a", 1, 2), { a = 1, b = 2 })
  end)

  t.it("return rows one by one, and stop early", function()
    local db = open(nil, "create table n (i integer)")
    db:execute [[insert into n with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
      select i from n]]
    local sum = 0
    for row in db:rows "select i from n" do sum = sum + row.i end
    t.equal(sum, 2001000)
    for _ = 1, 20 do
      for row in db:rows("select i from n where i > $1", 5) do if row.i == 700 then break end end
    end
    t.equal(db:execute "delete from n", 2000)
    t.eventually(function() return db:stats().in_use == 0 end)
    t.error(function() for _ in db:rows "select frob" do error "not reached" end end, "no such column: frob")
  end)

  t.it("keep the parameters of rows until the last row", function()
    local text = ("x"):rep(5000)
    local db = open(nil, "create table n (text)")
    db:execute([[insert into n with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
      select $1 from n]], text)
    local count = 0
    for _ in db:rows { "select 1 from n where text = $1", text, lists = true } do
      count = count + 1
      if count % 100 == 0 then db:value("select $1", ("y"):rep(5000)) end
    end
    t.equal(count, 1000)
  end)

  t.it("run a batch as a whole", function()
    local db = open(nil, PEOPLE)
    local results = db:batch {
      { "insert into people (name) values ($1)", "ada" }, "select name from people", { "update people set age = 3" },
    }
    t.equal(results, { 1, { { name = "ada" } }, 1 })
    local nothing, message, code, details = db:batch {
      { "insert into people (name) values ('eve')" }, { "insert into people (name) values ('ada')" },
    }
    t.equal({ nothing, code, details.code, details.index }, { nil, "EEXIST", "SQLITE_CONSTRAINT_UNIQUE", 2 }, message)
    t.equal(db:value "select count(*) from people", 1)
  end)

  t.it("run a script as a whole", function()
    local db = open(nil, PEOPLE)
    t.equal(select(3, db:script "insert into people (name) values ('a'); insert into nowhere values (1)"), "EINVAL")
    t.equal(db:value "select count(*) from people", 0)
    t.equal(select(3, db:script "insert into people (name) values ('a'); commit; select 1"), "EINVAL")
    t.equal(db:execute "insert into people (name) values ('b')", 1)
  end)
end)

t.describe("refusals", function()
  t.it("have one of the common codes, and SQLite's own in the details", function()
    local db = open(nil, PEOPLE .. "; create table child (parent references people (id))")
    db:execute "insert into people (name) values ('ada')"
    for text, expected in pairs {
      ["insert into people (name) values ('ada')"] = { "EEXIST", "SQLITE_CONSTRAINT_UNIQUE" },
      ["insert into people (id, name) values (1, 'x')"] = { "EEXIST", "SQLITE_CONSTRAINT_PRIMARYKEY" },
      ["insert into people (name) values (null)"] = { "CONSTRAINT", "SQLITE_CONSTRAINT_NOTNULL" },
      ["insert into people (name, age) values ('x', -1)"] = { "CONSTRAINT", "SQLITE_CONSTRAINT_CHECK" },
      ["insert into child values (7)"] = { "CONSTRAINT", "SQLITE_CONSTRAINT_FOREIGNKEY" },
      ["selec"] = { "EINVAL", "SQLITE_ERROR" },
      ['select "frob"'] = { "EINVAL", "SQLITE_ERROR" },
      [""] = { "EINVAL", "SQLITE_ERROR" },
      ["  -- nothing\n ; /* at all */ "] = { "EINVAL", "SQLITE_ERROR" },
      ["select 1; select 2"] = { "EINVAL", "SQLITE_ERROR" },
      ["begin"] = { "EINVAL", "SQLITE_ERROR" },
      ["select load_extension('x')"] = { "EINVAL", "SQLITE_ERROR" },
    } do
      local nothing, message, code, details = db:execute(text)
      t.equal({ nothing, code, details.code }, { nil, expected[1], expected[2] }, text)
      t.equal(message:sub(1, #code + 2), code .. ": ")
    end
    t.equal(db:value "select 1 ; -- the end", 1)
  end)

  t.it("of a database that cannot be opened name the path", function()
    local path = directory()
    fs.write(path .. "/text", ("no database "):rep(100))
    local function refusal(name, options)
      local nothing, message, code = sqlite.open(name, options)
      t.equal(nothing, nil)
      return code, message
    end
    t.equal(refusal(path), "EISDIR")
    t.equal(refusal(path .. "/none/x.db"), "ENOENT")
    t.equal(refusal(path .. "/x.db", { create = false }), "ENOENT")
    t.equal(refusal(path .. "/x.db", { read_only = true }), "ENOENT")
    t.equal(refusal(path .. "/text"), "EIO")
    t.truthy(select(2, refusal(path .. "/none/x.db")):find(path .. "/none/x.db", 1, true))
  end)

  t.it("of a read-only database have a code", function()
    local first, path = open(nil, PEOPLE)
    first:execute "insert into people (name) values ('ada')"
    local db <close> = t.truthy(sqlite.open(path, { read_only = true }))
    t.equal(db:value "select name from people", "ada")
    t.equal(select(3, db:execute "delete from people"), "EROFS")
  end)

  t.it("end too much data, and name the option that helps", function()
    local db = open()
    local nothing, message, code = db:query { "select zeroblob(2000)", max = 1000, lists = true }
    t.equal({ nothing, code }, { nil, "EMSGSIZE" })
    t.truthy(message:find("use rows()", 1, true), message)
  end)

  t.it("are errors if the call is wrong", function()
    local db = open()
    local function wrong(text, fn, ...)
      local arguments = table.pack(...)
      t.error(function() fn(table.unpack(arguments, 1, arguments.n)) end, text)
    end
    wrong("db:query: the statement has 1 parameter, got 0", db.query, db, "select $1")
    wrong("db:row: the statement has 0 parameters, got 2", db.row, db, "select 1", 1, 2)
    wrong("db:query: two columns are called 'a'", db.query, db, "select 1 as a, 2 as a")
    wrong("db:query: the parameter :x has a name", db.query, db, "select :x", 1)
    wrong("db:query: parameter 1 must be", db.query, db, "select $1", {})
    wrong("parameter 2 must be a string, a number, a boolean or nil, got nan", db.query, db, "select $1, $2", 1, 0 / 0)
    wrong("db:query: argument #1 must be a text", db.query, db)
    wrong("db:query: unknown field 'timout'", db.query, db, { "select 1", timout = 1 })
    wrong("db:batch: argument #1", db.batch, db, {})
    wrong("db:batch: entry 1", db.batch, db, { 1 })
    wrong("db:script: argument #1", db.script, db)
    wrong("db:query: call it with a colon", db.query, "select 1")
    wrong("sqlite.open: argument #1", sqlite.open, 5)
    wrong("sqlite.open: unknown field 'sise'", sqlite.open, "x", { sise = 1 })
    wrong('must be "normal" or "full"', sqlite.open, "x", { synchronous = "off" })
    wrong("sqlite.bytes: argument #1", sqlite.bytes, 5)
    wrong("db:begin: unknown field", db.begin, db, { frob = 1 })
    wrong("db:close: argument #1", db.close, db, -1)
  end)
end)

t.describe("a transaction", function()
  t.it("is committed, or rolled back by <close>", function()
    local db = open(nil, PEOPLE)
    do
      local tx <close> = t.truthy(db:begin())
      tx:execute "insert into people (name) values ('ada')"
      t.equal(db:value "select count(*) from people", 0)
      t.equal(tx:value "select count(*) from people", 1)
    end
    t.equal(db:value "select count(*) from people", 0)
    local tx <close> = t.truthy(db:begin())
    t.equal(tx:execute "insert into people (name) values ('ada')", 1)
    t.equal(tx:commit(), true)
    t.equal(db:value "select count(*) from people", 1)
    local nothing, message, code = tx:value "select 1"
    t.equal({ nothing, code }, { nil, "ENOTCONN" })
    t.truthy(message:find("the transaction is over %(committed at .-sqlite_test.lua:%d+%)"), message)
  end)

  t.it("has savepoints", function()
    local db = open(nil, PEOPLE)
    local tx <close> = t.truthy(db:begin())
    tx:execute "insert into people (name) values ('a')"
    do
      local inner <close> = t.truthy(tx:begin())
      inner:execute "insert into people (name) values ('b')"
      local deep <close> = t.truthy(inner:begin())
      deep:execute "insert into people (name) values ('c')"
      t.equal(deep:commit(), true)
      t.equal(inner:value "select count(*) from people", 3)
      t.equal(inner:rollback(), true)
    end
    t.equal(tx:value "select count(*) from people", 1)
    t.equal(tx:commit(), true)
  end)

  t.it("excludes other writers, who wait in their order", function()
    local db = open(nil, "create table log (n integer)")
    local tx = t.truthy(db:begin())
    local tasks = {}
    for n = 1, 5 do
      tasks[n] = rl.task(function() return db:execute("insert into log values ($1)", n) end)
    end
    rl.sleep(0.05)
    tx:execute "insert into log values (0)"
    t.equal(tx:commit(), true)
    for n = 1, 5 do t.equal(tasks[n]:await(), 1) end
    local order = {}
    for row in db:rows "select n from log order by rowid" do order[#order + 1] = row.n end
    t.equal(order, { 0, 1, 2, 3, 4, 5 })
  end)

  t.it("raises an error if its task uses the database directly", function()
    local db = open(nil, PEOPLE)
    local tx <close> = t.truthy(db:begin())
    t.error(function() db:execute "delete from people" end, "this task has the transaction begun at")
    t.error(function() db:begin() end, "use that")
    t.equal(db:value "select 1", 1)
  end)

  t.it("that is read-only reads one state, and may not write", function()
    local db = open(nil, "create table n (i); insert into n values (1)")
    local tx <close> = t.truthy(db:begin { read_only = true })
    db:execute "update n set i = 2"
    t.equal(tx:value "select i from n", 1)
    t.equal(select(3, tx:execute "delete from n"), "EROFS")
    t.equal(db:value "select i from n", 2)
  end)

  t.it("of a cancelled or failed task is rolled back before another task gets its connection", function()
    local db = open(nil, "create table n (i integer)")
    local task = rl.task(function()
      local tx <close> = assert(db:begin())
      tx:execute "insert into n values (1)"
      tx:value(SLOW)
    end)
    rl.sleep(0.1)
    task:cancel()
    t.equal(db:execute "insert into n values (2)", 1)
    t.equal(db:value "select sum(i) from n", 2)
    t.error(function()
      local tx <close> = assert(db:begin())
      tx:execute "insert into n values (4)"
      error "on purpose"
    end, "on purpose")
    t.equal(db:execute "insert into n values (8)", 1)
    t.equal(db:value "select sum(i) from n", 10)
  end)

  t.it("of 100 tasks that add ten times loses nothing", { timeout = 60 }, function()
    local db = open(nil, "create table n (i integer); insert into n values (0)")
    local tasks = {}
    for index = 1, 100 do
      tasks[index] = rl.task(function()
        for _ = 1, 10 do
          local tx <close> = assert(db:begin { timeout = 60 })
          local i = tx:value "select i from n"
          assert(tx:execute("update n set i = $1", i + 1))
          assert(tx:commit())
        end
      end)
    end
    for _, task in ipairs(tasks) do task:await() end
    t.equal(db:value "select i from n", 1000)
  end)
end)

t.describe("a connection that a task has taken", function()
  t.it("keeps its state, and is reset when it is returned", function()
    local db = open(nil, PEOPLE)
    do
      local own <close> = t.truthy(db:connection())
      t.equal(own:execute "create temporary table mine (x)", 0)
      t.equal(own:execute "insert into mine values (1)", 1)
      t.equal(own:execute "pragma cache_size = 100", 0)
      t.equal(own:value "select x from mine", 1)
      t.equal(own:execute "begin", 0)
      own:execute "insert into people (name) values ('lost')"
    end
    t.equal(db:execute "delete from people", 0)
    t.equal(select(3, db:execute "insert into mine values (2)"), "EINVAL")
  end)
end)

t.describe("waiting", function()
  t.it("does not delay others: timers, readers and writers go on beside a long select", { real_time = true }, function()
    local db = open(nil, "create table n (i)")
    local ticks = 0
    local timer <close> = setmetatable({}, { __close = function(self) self.timer:invalidate() end })
    timer.timer = rl.every(0.01, function() ticks = ticks + 1 end)
    -- The reader's connection is open when the slow query comes.
    t.equal(db:value "select 1", 1)
    local task = rl.task(function() return db:value(SLOW) end)
    rl.sleep(0.1)
    t.equal(db:execute "insert into n values (1)", 1)
    t.equal(db:value "select count(*) from n", 1)
    t.truthy(ticks >= 5, ticks)
    t.truthy(task:status() ~= "done", task:status())
    task:cancel()
    t.eventually(function() return db:stats().in_use == 0 end)
    t.equal(db:stats().cancelled, 1)
  end)

  t.it("ends at its time limit, and does not interrupt the next statement", { real_time = true }, function()
    local db = open({ size = 2 })
    for _ = 1, 20 do
      t.equal(table.pack(db:value { SLOW, timeout = 0.01 }), { nil, "timed out", n = 2 })
      t.equal(db:value "select 42", 42)
    end
  end)

  t.it("for a long select does not delay calls of the same moment", function()
    local db = open()
    local slow <close> = rl.task(function() return db:value(SLOW) end)
    local quick = {}
    for index = 1, 200 do quick[index] = rl.task(function() return db:value("select $1", index) end) end
    for index = 1, 200 do t.equal(quick[index]:await(), index) end
    t.equal(slow:status(), "waiting")
    slow:cancel()
    t.eventually(function() return db:stats().in_use == 0 end)
  end)

  t.it("shows the statement in rl.why(), without its values", function()
    local db = open { name = "notes" }
    local slow <close> = rl.task(function() return db:value(SLOW .. " where $1 <> ''", "secret") end)
    local tx = t.truthy(db:begin())
    local second <close> = rl.task(function() return db:execute "delete from   n" end)
    rl.sleep(0.01)
    local text = rl.why()
    t.truthy(text:find('value "with recursive n(i) as (select 1 union all', 1, true), text)
    t.truthy(text:find('execute "delete from n" of sqlite "notes" (for 0.0 s)', 1, true), text)
    t.equal(text:find("secret", 1, true), nil)
    second:cancel()
    slow:cancel()
    tx:rollback()
    t.equal(rl.why():find("delete from n", 1, true), nil)
  end)

  t.it("gives each task its own answer while others are cancelled", { real_time = true, timeout = 120 }, function()
    local db = open(nil, "create table n (i integer primary key)")
    local wrong, answered = 0, 0
    local function call(round, index)
      local key = round * 100 + index
      if index % 10 == 0 and db:execute("insert into n values ($1)", key) ~= 1 then wrong = wrong + 1 end
      -- A task reads the rows that it has written before.
      local text = index % 10 == 0 and "select i from n where i = $1" or "select $1"
      if db:value(text, key) ~= key then wrong = wrong + 1 end
      answered = answered + 1
    end
    for round = 1, 100 do
      local tasks = {}
      for index = 1, 100 do tasks[index] = rl.task(call, round, index) end
      if round % 2 == 0 then rl.sleep(0) end
      for index = 1, 100 do if index % 3 == 0 then tasks[index]:cancel() end end
      for index = 1, 100 do if index % 3 ~= 0 then tasks[index]:await() end end
    end
    t.equal(wrong, 0)
    t.truthy(answered >= 6700, answered)
    t.truthy(db:stats().connections <= 4)
    t.eventually(function() return db:stats().in_use == 0 end)
  end)

  t.it("for a free connection has a limit", { real_time = true }, function()
    local db = open({ size = 2, wait = 0.1 })
    local task = rl.task(function()
      local n = db:value(SLOW)
      return n
    end)
    rl.sleep(0.05)
    local nothing, message, code = db:value "select 1"
    t.equal({ nothing, code }, { nil, "EAGAIN" })
    local text = "no connection was free for 0.1 s %(1 of 1 in use, the longest for .- by .-sqlite_test"
    t.truthy(message:find(text), message)
    task:cancel()
  end)

  t.it("for a writer passes in virtual time", function()
    local db = open { wait = 600 }
    local tx = t.truthy(db:begin())
    local task = rl.task(function() return db:execute "create table a (i)" end)
    local late = rl.task(function() return db:begin { timeout = 100 } end)
    rl.sleep(500)
    t.equal(select(3, late:await()), "EAGAIN")
    tx:commit()
    t.equal(task:await(), 0)
    tx = t.truthy(db:begin())
    local before = rl.now()
    task = rl.task(function() return db:execute "create table b (i)" end)
    t.equal(select(3, task:await()), "EAGAIN")
    t.truthy(rl.now() - before >= 599, rl.now() - before)
    tx:rollback()
  end)

  t.it("for another process's lock has a limit", { real_time = true }, function()
    local db, path = open({ wait = 0.2 }, "create table n (i)")
    local other <close> = t.truthy(sqlite.open(path, { wait = 0.2 }))
    local tx = t.truthy(other:begin())
    tx:execute "insert into n values (1)"
    t.equal(select(3, db:execute "insert into n values (2)"), "EAGAIN")
    rl.task(function() rl.sleep(0.05) tx:commit() end)
    t.equal(db:execute "insert into n values (2)", 1)
    t.equal(db:value "select count(*) from n", 2)
  end)

  t.it("ends in a nested run of another mode", function()
    local db = open()
    local found
    local timer = rl.timer { delay = 0, modes = { "modal" }, callback = function()
      found = db:value "select 7"
      rl.stop()
    end }
    rl.current():add(timer, "modal")
    rl.run { mode = "modal", timeout = 5 }
    t.equal(found, 7)
  end)
end)

t.it("each new connection runs the statements of setup", function()
  local db = open { setup = { { "pragma user_version = 7" }, "pragma cache_size = 50" }, size = 1 }
  t.equal(db:value "pragma user_version", 7)
  t.equal(db:value "pragma foreign_keys", 1)
  t.equal(db:value "pragma journal_mode", "wal")
end)

t.it("closing ends running calls, and refuses new ones", { real_time = true }, function()
  local db = open { size = 2, name = "orders" }
  local task = rl.task(function() return db:value(SLOW) end)
  rl.sleep(0.05)
  t.equal(db:close(0.1), true)
  t.equal(db:is_open(), false)
  t.equal(select(2, db:value "select 1"), "ENOTCONN: the database is closed (orders)")
  t.equal(select(3, task:await()), "ECANCELED")
  t.equal(db:close(), true)
end)

-- The thread that closes the connection needs real time.
t.it("closing refuses calls that wait for a transaction", { real_time = true }, function()
  local db = open { name = "orders" }
  local tx = t.truthy(db:begin())
  local tasks = {}
  for index = 1, 3 do tasks[index] = rl.task(function() return db:execute "create table a (i)" end) end
  rl.sleep(0)
  t.equal(db:close(0.1), true)
  for index = 1, 3 do t.equal(select(3, tasks[index]:await()), "ENOTCONN") end
  tx:rollback()
  t.eventually(function() return db:stats().connections == 0 end)
end)

t.it("other programs read the written rows, and a kill -9 loses no printed row", { real_time = true }, function()
  local path = directory() .. "/x.db"
  local script = [[
    local rl, sqlite = require "runloop", require "runloop.sqlite"
    local db = assert(sqlite.open(arg[1]))
    db:script "create table n (id integer primary key, worker)"
    for worker = 1, 10 do
      rl.task(function()
        while true do print(assert(db:row("insert into n (worker) values ($1) returning id", worker)).id) end
      end)
    end]]
  fs.write(path .. ".lua", "io.stdout:setvbuf 'line'\n" .. script)
  local program = t.spawn { t.rlhost, path .. ".lua", path }
  program:wait_for "\n100\n"
  program:kill()
  local printed = {}
  for id in program:output():gmatch "(%d+)\n" do printed[#printed + 1] = math.tointeger(id) end
  t.truthy(#printed >= 100)
  local result = process.run { "python3", "-c", [[
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("pragma integrity_check").fetchone()[0])
for row in db.execute("select id from n"): print(row[0])]], path }
  if not result then t.skip "python3 is not installed (apt install python3)" end
  local found = {}
  for id in result.output:gmatch "(%d+)\n" do found[math.tointeger(id)] = true end
  t.equal(result.output:match "^%w+", "ok", result.errors)
  for _, id in ipairs(printed) do t.truthy(found[id], id) end
end)
