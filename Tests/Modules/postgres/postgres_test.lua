-- runloop.postgres: the calls, their refusals, and what happens at the edges: cancelled tasks, lost servers, poolers.

local t = require "runloop.test"
local rl = require "runloop"
local postgres = require "runloop.postgres"
local json = require "runloop.json"

local server = t.resource(function() return t.server "postgres" end)

local function contains(text, part) t.truthy(tostring(text):find(part, 1, true), text) end

-- Opens a database of the server; it is closed with the test.
local function open(options, where)
  local db = t.truthy(postgres.open(where or server():url(), options))
  t.finally(function() db:close() end)
  return db
end

-- Runs statements before a test; the objects that they make are dropped with the schema.
local function fresh(db)
  t.equal(db:script "drop schema if exists public cascade; create schema public", true)
  t.equal(db:script [[create table people (id serial primary key, name text unique not null,
    age int check (age > 0))]], true)
end

t.describe("calls", function()
  t.it("return rows, a row, a value and a count", function()
    local db = open()
    fresh(db)
    t.equal(db:execute("insert into people (name, age) values ($1, $2), ($3, $4)", "ada", 36, "bob", nil), 2)
    local rows, names = db:query "select * from people order by id"
    t.equal(rows, { { id = 1, name = "ada", age = 36 }, { id = 2, name = "bob" } })
    t.equal(names, { "id", "name", "age" })
    t.equal(db:row("select name from people where id = $1", 2), { name = "bob" })
    t.equal(db:value "select count(*) from people", 2)
    t.equal(db:execute "select 1", 0)
    t.equal(db:execute "create table other (x int)", 0)
    t.equal(db:execute "delete from people", 2)
  end)

  t.it("return a single nil for no row and for NULL", function()
    local db = open()
    t.equal(table.pack(db:row "select 1 where false"), { n = 1 })
    t.equal(table.pack(db:value "select 1 where false"), { n = 1 })
    t.equal(table.pack(db:value "select null"), { n = 1 })
    t.equal(db:query "select 1 where false", {})
    t.equal(db:value "select i from generate_series(1, 100000) i", 1)
  end)

  t.it("take options in the table form, with nil between parameters", function()
    local db = open()
    t.equal(db:row { "select $1::int as a, $2::int as b", nil, 2, nulls = true }, { a = json.null, b = 2 })
    t.equal(db:query { "select 1, 2, null, 1", lists = true }, { { 1, 2, nil, 1 } })
  end)

  t.it("keep the types of values", function()
    local db = open()
    for _, case in ipairs {
      { "select $1::int8", math.maxinteger }, { "select $1::int8", math.mininteger }, { "select $1::int2", -5 },
      { "select $1::float8", 0.1 }, { "select $1::float8", math.huge }, { "select $1::float8", -math.huge },
      { "select $1::float8", 1e300 }, { "select $1::bool", true }, { "select $1::bool", false },
      { "select $1::text", "a'b\\c\"ü" }, { "select $1::text", "" },
      { "select $1::timestamptz", postgres.time(1700000000.25), 1700000000.25 },
      { "select $1::timestamptz", postgres.time(-62200000000), -62200000000.0 },
      { "select $1::timestamptz", postgres.time(math.huge), math.huge },
      { "select $1::numeric", "12345678901234567890.123", "12345678901234567890.123" },
      { "select $1::jsonb", postgres.json { a = { 1, 2 } }, { a = { 1, 2 } } },
      { "select $1::json", "null", json.null },
      { "select $1::bytea", postgres.bytes "a\0b\255", "a\0b\255" },
      { "select $1", postgres.bytes "\0\1", "\0\1" },
      { "select $1::int[]", postgres.array { 1, json.null, 3 }, { 1, json.null, 3 } },
      { "select $1::text[]", postgres.array { "a,b", '"\\', "NULL", "" }, { "a,b", '"\\', "NULL", "" } },
      { "select $1::int[]", postgres.array { { 1, 2 }, { 3, 4 } }, { { 1, 2 }, { 3, 4 } } },
      { "select $1::bytea[]", postgres.array { postgres.bytes "\0z" }, { "\0z" } },
      { "select $1::float8[]", postgres.array {}, {} },
      { "select $1::interval", "1 day", "1 day" }, { "select $1::date", "2026-01-02", "2026-01-02" },
    } do
      local expected = case[3]
      if expected == nil then expected = case[2] end
      local value = db:value(case[1], case[2])
      t.equal(value, expected, case[1])
      t.equal(math.type(value), math.type(expected), case[1])
    end
    local nan = db:value("select $1::float8", 0 / 0)
    t.truthy(nan ~= nan)
    t.equal(db:value "select '2024-02-29 12:00:00.5+05:30'::timestamptz", 1709188200.5)
  end)

  t.it("return rows one by one, and stop early", function()
    local db = open { size = 2 }
    local sum = 0
    for row in db:rows "select i from generate_series(1, 20000) i" do sum = sum + row.i end
    t.equal(sum, 200010000)
    for _ = 1, 20 do
      for row in db:rows("select generate_series(1, $1::int) as i", 5000000) do if row.i == 700 then break end end
    end
    t.equal(db:value "select 1", 1)
    t.eventually(function() return db:stats().in_use == 0 end)
    t.error(function() for _ in db:rows "select frob" do error "not reached" end end, "frob")
  end)

  t.it("run a batch as a whole", function()
    local db = open()
    fresh(db)
    t.equal(db:batch {
      { "insert into people (name) values ($1)", "ada" }, "select name from people", { "update people set age = 3" },
    }, { 1, { { name = "ada" } }, 1 })
    local nothing, message, code, details = db:batch {
      { "insert into people (name) values ('eve')" }, { "insert into people (name) values ('ada')" }, "select 1",
    }
    t.equal({ nothing, code, details and details.code, details and details.index }, { nil, "EEXIST", "23505", 2 },
      message)
    t.equal(db:value "select count(*) from people", 1)
    local many = {}
    for i = 1, 2000 do many[i] = { "insert into people (name) values ($1)", ("x"):rep(500) .. i } end
    t.equal(#t.truthy(db:batch(many)), 2000)
  end)

  t.it("run a script as a whole", function()
    local db = open()
    fresh(db)
    t.equal(select(3, db:script "insert into people (name) values ('a'); insert into nowhere values (1)"), "EINVAL")
    t.equal(db:value "select count(*) from people", 0)
    t.equal(db:script "create table a (i int); insert into a values (1); select 1", true)
    t.equal(select(3, db:script "copy a from stdin"), "EINVAL")
    t.equal(db:value "select i from a", 1)
  end)

  t.it("prepare statements, and keep the last 100", function()
    local db = open { size = 1 }
    for round = 1, 4 do
      for i = 1, 150 do t.equal(db:value(("select $1::int + %d"):format(i), round), i + round) end
    end
    local named = db:value "select count(*) from pg_prepared_statements"
    t.truthy(named > 90 and named <= 100, named)
    fresh(db)
    for _ = 1, 3 do db:query "select * from people" end
    db:execute "alter table people add extra int default 7"
    db:execute "insert into people (name) values ('x')"
    t.equal(db:row "select * from people", { id = 1, name = "x", extra = 7 })
  end)
end)

t.describe("refusals", function()
  t.it("have one of the common codes, and PostgreSQL's own in the details", function()
    local db = open()
    fresh(db)
    db:script "create table child (parent int references people (id))"
    db:execute "insert into people (name) values ('ada')"
    for text, expected in pairs {
      ["insert into people (name) values ('ada')"] = { "EEXIST", "23505" },
      ["create table people (i int)"] = { "EEXIST", "42P07" },
      ["insert into people (name) values (null)"] = { "CONSTRAINT", "23502" },
      ["insert into people (name, age) values ('x', -1)"] = { "CONSTRAINT", "23514" },
      ["insert into child values (7)"] = { "CONSTRAINT", "23503" },
      ["selec"] = { "EINVAL", "42601" }, ["select frob"] = { "EINVAL", "42703" },
      ["select 1/0"] = { "EINVAL", "22012" },
      [""] = { "EINVAL", "42601" }, [" -- nothing\n ; "] = { "EINVAL", "42601" },
      ["select 1; select 2"] = { "EINVAL", "42601" },
      ["begin"] = { "EINVAL", "25001" }, ["copy people to stdout"] = { "EINVAL", "0A000" },
      ["select\0 1"] = { "EINVAL", "42601" },
    } do
      for _ = 1, 3 do
        local nothing, message, code, details = db:execute(text)
        t.equal({ nothing, code, details and details.code }, { nil, expected[1], expected[2] }, text)
        t.equal(message:sub(1, #code + 2), code .. ": ")
      end
    end
    contains(select(2, db:query "select 1; select 2"), "use script()")
    local _, _, _, details = db:execute "insert into people (name) values ('ada')"
    t.equal({ details.constraint, details.table, details.severity }, { "people_name_key", "people", "ERROR" })
    t.equal(select(4, db:query "select frob").position, 8)
  end)

  t.it("raise errors for wrong calls", function()
    local db = open()
    for _ = 1, 3 do
      t.error(function() db:query("select $1::int", 1, 2) end, "db:query: the statement has 1 parameter, got 2")
      t.error(function() db:query "select $1::int" end, "the statement has 1 parameter, got 0")
    end
    t.error(function() db:query("select $1", {}) end, "parameter 1 must be")
    t.error(function() db:query("select $1", "a\0b") end, "parameter 1 has a zero byte")
    t.error(function() db:query "select 1 as a, 2 as a" end, "two columns are called 'a'")
    t.error(function() db:query { "select 1", tmeout = 1 } end, "timeout")
    t.error(function() db:begin { isolation = "frob" } end, "isolation")
    t.error(function() postgres.open({ hots = "x" }) end, "host")
    t.error(function() postgres.open(5) end, "postgres.open: argument #1")
    t.error(function() postgres.array { print } end, "element 1")
    t.error(function() postgres.array { a = 1 } end, "must be a list")
    t.error(function() postgres.time "x" end, "postgres.time: argument #1")
    t.error(function() postgres.bytes(1) end, "postgres.bytes")
    t.error(function() db:publish("", "x") end, "1 to 63 bytes")
    t.equal(db:value "select 1", 1)
  end)

  t.it("of a server that cannot be reached are returned", function()
    local function refusal(where, options) return select(2, postgres.open(where, options)) end
    contains(refusal "postgres://127.0.0.1:1/x", "ECONNREFUSED: ")
    contains(refusal "unix:/nowhere", "ENOENT: ")
    contains(refusal "host=localhost pasword=secret", "EINVAL: ")
    t.equal(refusal("host=localhost pasword=secret"):find "secret", nil)
    contains(refusal "postgres://no.such.host.invalid/x", "ENOTFOUND: ")
    local _, _, code, details = postgres.open((server():url():gsub("/postgres$", "/nowhere")))
    t.equal({ code, details.code }, { "EPROTO", "3D000" })
  end)

  t.it("name a wrong password", function()
    local db = open()
    t.equal(db:script "drop role if exists locked; create role locked login password 'right'", true)
    local own = t.server("postgres", { files = {} })
    local hba = own:directory()
    local path
    for _, candidate in ipairs { hba .. "/data/pg_hba.conf", hba .. "/pg_hba.conf" } do
      local file = io.open(candidate)
      if file then
        file:close()
        path = candidate
      end
    end
    t.truthy(path, hba)
    local other = open(nil, own:url())
    t.equal(other:script "create role locked login password 'right'", true)
    local file = t.truthy(io.open(path, "w"))
    file:write "host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n"
    file:close()
    t.equal(other:value "select pg_reload_conf()", true)
    local url = own:url():gsub("postgres@", "locked:wrong@")
    t.eventually(function()
      local _, message, code = postgres.open(url)
      return code == "EAUTH" and not message:find "wrong"
    end)
    local _, _, code = postgres.open((own:url():gsub("postgres@", "locked@")))
    t.equal(code, "EAUTH")
    local good = t.truthy(postgres.open((own:url():gsub("postgres@", "locked:right@"))))
    t.equal(good:value "select current_user::text", "locked")
    t.equal(tostring(good):find "right", nil)
    good:close()
  end)

  t.it("of too large an answer leave the connection usable", function()
    local db = open { size = 1 }
    local _, message, code = db:query { "select repeat('x', 1000) from generate_series(1, 100000)", max = 100000 }
    t.equal(code, "EMSGSIZE", message)
    t.equal(db:value "select 1", 1)
  end)
end)

t.describe("transactions", function()
  t.it("commit, roll back, and nest", function()
    local db = open()
    fresh(db)
    do
      local tx <close> = t.truthy(db:begin())
      tx:execute "insert into people (name) values ('a')"
      local inner = t.truthy(tx:begin())
      inner:execute "insert into people (name) values ('b')"
      t.equal(select(3, inner:execute "insert into people (name) values ('b')"), "EEXIST")
      t.equal(inner:rollback(), true)
      local second = t.truthy(tx:begin())
      second:execute "insert into people (name) values ('c')"
      t.equal(second:commit(), true)
      t.equal(tx:commit(), true)
      contains(select(2, tx:query "select 1"), "ENOTCONN: the transaction is over (committed at ")
    end
    t.equal(db:value "select string_agg(name, ',' order by name) from people", "a,c")
    do
      local tx <close> = t.truthy(db:begin())
      tx:execute "delete from people"
    end
    t.equal(db:value "select count(*) from people", 2)
    pcall(function()
      local tx <close> = t.truthy(db:begin())
      tx:execute "delete from people"
      error "no"
    end)
    t.equal(db:value "select count(*) from people", 2)
    t.eventually(function() return db:stats().in_use == 0 end)
  end)

  t.it("refuse a commit after a failed statement", function()
    local db = open()
    local tx = t.truthy(db:begin())
    t.equal(select(3, tx:query "select frob"), "EINVAL")
    t.equal(select(4, tx:query "select 1").code, "25P02")
    t.equal(select(3, tx:commit()), "EINVAL")
    t.eventually(function() return db:stats().in_use == 0 end)
  end)

  t.it("have an isolation level, and can be read-only", function()
    local db = open()
    fresh(db)
    local tx <close> = t.truthy(db:begin { isolation = "serializable", read_only = true })
    t.equal(tx:value "show transaction_isolation", "serializable")
    t.equal(select(3, tx:execute "insert into people (name) values ('a')"), "EROFS")
  end)

  t.it("return rows by a cursor, between other statements", function()
    local db = open()
    fresh(db)
    local tx <close> = t.truthy(db:begin())
    local count = 0
    for row in tx:rows("select i from generate_series($1::int, $2::int) i", 1, 1000) do
      if row.i % 100 == 0 then t.equal(tx:value("select $1::int", row.i), row.i) end
      count = count + 1
    end
    t.equal(count, 1000)
    for row in tx:rows "select generate_series(1, 100000) as i" do if row.i == 300 then break end end
    for row in tx:rows "with a as (insert into people (name) values ('w') returning name) select * from a" do
      t.equal(row.name, "w")
    end
    t.equal(tx:value "select count(*) from people", 1)
    t.equal(tx:commit(), true)
    local own <close> = t.truthy(db:connection())
    count = 0
    for row in own:rows "select i from generate_series(1, 600) i" do
      count = count + own:value("select $1::int", row.i)
    end
    t.equal(count, 180300)
  end)

  t.it("refuse a transaction that conflicts with an earlier one", function()
    local db = open()
    fresh(db)
    db:execute "insert into people (name, age) values ('a', 1)"
    local one = t.truthy(db:begin { isolation = "serializable" })
    local two = t.truthy(db:begin { isolation = "serializable" })
    one:value "select sum(age) from people"
    two:value "select sum(age) from people"
    one:execute "update people set age = age + 1"
    t.equal(one:commit(), true)
    local _, _, code, details = two:execute "update people set age = age + 1"
    t.equal({ code, details.code }, { "EAGAIN", "40001" })
    t.equal(two:rollback(), true)
  end)

  t.it("let several tasks use one connection", function()
    local db = open()
    local tx <close> = t.truthy(db:begin())
    local tasks = {}
    for i = 1, 20 do tasks[i] = rl.task(function() return tx:value("select $1::int", i) end) end
    for i = 1, 20 do t.equal((tasks[i]:await()), i) end
  end)
end)

t.describe("connections", function()
  t.it("that a task has taken keep their state", function()
    local db = open { size = 1 }
    do
      local own <close> = t.truthy(db:connection())
      own:execute "set application_name = 'mine'"
      own:execute "create temporary table here (i int)"
      t.equal(own:value "show application_name", "mine")
      local tx <close> = t.truthy(own:begin())
      t.equal(tx:execute "insert into here values (1)", 1)
      t.equal(tx:commit(), true)
      t.equal(own:value "select count(*) from here", 1)
    end
    t.equal(db:value "show application_name", "rlhost")
    t.equal(db:stats().connections, 1)
  end)

  t.it("are limited, and given to waiting tasks in order", function()
    local db = open { size = 2, wait = 0.2 }
    local one, two = t.truthy(db:connection()), t.truthy(db:connection())
    local _, message, code = db:value "select 1"
    t.equal(code, "EAGAIN")
    contains(message, "2 of 2 in use")
    one:close()
    two:close()
    t.equal(db:value "select 1", 1)
  end)

  t.it("run the statements of setup", function()
    local db = open { setup = { "set statement_timeout = '50ms'", { "select set_config('my.x', $1, false)", "5" } } }
    t.equal(db:value "select current_setting('my.x')", "5")
    local _, _, code, details = db:query "select pg_sleep(5)"
    t.equal({ code, details.code }, { "ECANCELED", "57014" })
    t.equal(select(3, postgres.open(server():url(), { setup = { "selec" } })), "EINVAL")
  end)

  t.it("have a name, a description and statistics", function()
    local db = open { name = "orders" }
    t.equal(db:name(), "orders")
    t.equal(db:is_open(), true)
    contains(tostring(db), "orders")
    t.equal(db:value "select 1", 1)
    t.equal(db:stats(), { connections = 1, idle = 1, in_use = 0, waiting = 0, calls = 1, lost = 0, cancelled = 0 })
    db:close()
    t.equal(select(3, db:query "select 1"), "ENOTCONN")
    t.equal(db:is_open(), false)
  end)
end)

t.describe("cancelled calls", function()
  t.it("do not pass their answers to other calls, and open no further connections", function()
    local db = open { size = 4 }
    local watcher = open { size = 1, name = "watcher" }
    local most = 0
    for round = 1, 40 do
      local tasks = {}
      for i = 1, 8 do
        local n = round * 100 + i
        tasks[i] = rl.task(function()
          if i % 2 == 0 then
            local answer, message = db:value { "select $1::int from pg_sleep(0.02)", n, timeout = 0.001 * (i * 2) }
            return answer == n or answer == nil and message == "timed out" or message
          end
          local answer, message = db:value("select $1::int", n)
          return answer == n or message
        end)
      end
      for i = 1, 8 do t.equal((tasks[i]:await()), true) end
      local count = watcher:value
        "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
      most = math.max(most, count)
    end
    t.truthy(most <= 4 + 1, most)
    t.truthy(db:stats().cancelled > 20)
    t.eventually(function() return db:stats().in_use == 0 end)
    t.equal(watcher:value [[select count(*) from pg_stat_activity
      where query like '%pg_sleep(0%' and state = 'active' and pid <> pg_backend_pid()]], 0)
  end)

  t.it("end at once for their task", function()
    local db = open()
    local before = os.time()
    t.equal({ db:query { "select pg_sleep(60)", timeout = 0.05 } }, { nil, "timed out" })
    local task = rl.task(db.query, db, "select pg_sleep(60)")
    rl.sleep(0.05)
    task:cancel()
    t.eventually(function() return db:stats().in_use == 0 end)
    t.truthy(os.time() - before < 5)
  end)

  t.it("in a transaction leave a connection that is rolled back", function()
    local db = open { size = 1 }
    do
      local tx <close> = t.truthy(db:begin())
      t.equal({ tx:query { "select pg_sleep(60)", timeout = 0.05 } }, { nil, "timed out" })
      t.equal(select(4, tx:query "select 1").code, "25P02")
    end
    t.equal(db:value "select 5", 5)
  end)
end)

t.describe("lost connections", function()
  t.it("are replaced at once, and the next call works", { real_time = true }, function()
    local db = open { size = 2 }
    local other = open { size = 1 }
    local pid = db:value "select pg_backend_pid()"
    other:value("select pg_terminate_backend($1)", pid)
    t.eventually(function() return db:stats().connections == 0 end)
    t.truthy(db:value "select pg_backend_pid()" ~= pid)
    t.equal(db:stats().lost, 1)
  end)

  t.it("in a call return an error that it may have taken effect", function()
    local db = open { size = 2 }
    local other = open { size = 1 }
    local task = rl.task(db.query, db, "select pg_sleep(30)")
    t.eventually(function()
      return other:value [[select pg_terminate_backend(pid) from pg_stat_activity
        where query = 'select pg_sleep(30)' and state = 'active']]
    end)
    local _, message, code = task:await()
    t.equal(code, "ECONNRESET", message)
    contains(message, "it may have happened")
    t.equal(db:value "select 1", 1)
  end)

  t.it("survive a restart and a kill of the server", { timeout = 60 }, function()
    local own = t.server "postgres"
    local db = open({ size = 3 }, own:url())
    for _ = 1, 2 do
      local tx = t.truthy(db:begin())
      own:restart()
      t.truthy(own:output():find("fast shutdown", 1, true))
      t.eventually(function() return db:value "select 1" == 1 end)
      contains(select(3, tx:query "select 1") or "", "E")
      contains(select(2, tx:query "select 1"), "ENOTCONN: the transaction is over (the connection was lost")
    end
    own:kill()
    local _, _, code = db:value "select 1"
    t.truthy(code == "ECONNREFUSED" or code == "ECONNRESET", code)
    local again = select(3, db:value "select 1")
    t.equal(again, "ECONNREFUSED")
  end)

  t.it("of a silent server end calls at their time limit", function()
    local own = t.server "postgres"
    local db = open({ size = 2, timeout = 0.3 }, own:url())
    t.equal(db:value "select 1", 1)
    db:execute "select 1"
    own:pause()
    t.equal({ db:value "select 2" }, { nil, "timed out" })
    own:resume()
    t.eventually(function() return db:value "select 3" == 3 end)
  end)

  t.it("of paused servers do not use all threads that cancel statements", { timeout = 60 }, function()
    local paused = t.server "postgres"
    local silent, db = open({ size = 8 }, paused:url()), open { size = 2 }
    local tasks = {}
    for i = 1, 8 do tasks[i] = rl.task(function() return silent:value "select pg_sleep(1)" end) end
    for i = 1, 8 do tasks[i]:await() end
    paused:pause()
    for i = 1, 8 do tasks[i] = rl.task(function() return silent:value { "select 1", timeout = 0.05 } end) end
    for i = 1, 8 do t.equal({ tasks[i]:await() }, { nil, "timed out" }) end
    t.equal(select(2, db:value { "select pg_sleep(60)", timeout = 0.05 }), "timed out")
    t.eventually(function()
      return db:value "select count(*) from pg_stat_activity where query like '%sleep(60)' and state = 'active'" == 0
    end, { within = 20 })
    paused:resume()
    t.eventually(function() return silent:value "select 1" == 1 end, { within = 20 })
  end)
end)

t.describe("a pooler in transaction mode", function()
  t.it("works without an option", function()
    local pooler = t.server("pgbouncer", { server = server(), pool_mode = "transaction" })
    local dbs, tasks = {}, {}
    for i = 1, 4 do dbs[i] = open({ size = 3 }, pooler:url()) end
    for i = 1, 4 do
      for k = 1, 3 do
        tasks[#tasks + 1] = rl.task(function()
          for n = 1, 20 do
            local answer, message = dbs[i]:value("select $1::int + 1", n)
            if answer ~= n + 1 then return message end
            local tx <close> = assert(dbs[i]:begin())
            answer, message = tx:value("select $1::int + $2::int", n, k)
            if answer ~= n + k then return message end
            tx:commit()
          end
          return true
        end)
      end
    end
    for _, task in ipairs(tasks) do t.equal((task:await()), true) end
    t.equal({ dbs[1]:value { "select pg_sleep(30)", timeout = 0.1 } }, { nil, "timed out" })
    for i = 1, 20 do t.equal(dbs[1]:value("select $1::int", i), i) end
  end)
end)

t.it("an idle database beside a real server does not hold the clock", function()
  local db = open()
  t.equal(db:value "select 1", 1)
  rl.sleep(3600)
  t.equal(db:value "select 2", 2)
end)
