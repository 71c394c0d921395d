-- runloop.postgres: calls on connections that have prepared the statement. Such calls are quick calls in real time
-- only.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local postgres = require "runloop.postgres"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }
local server = t.resource(function() return t.server "postgres" end)

-- Opens a database; it is closed with the test.
local function open(options)
  local db = t.truthy(postgres.open(server():url(), options))
  t.finally(function() db:close(0.1) end)
  return db
end

local random = math.random

-- Makes a call, and checks its answer.
local function call(db, number)
  local text, kind = tostring(number), random(6)
  if kind == 1 then
    t.equal(db:value("select $1::text", text), text)
  elseif kind == 2 then
    t.equal(db:row("select $1::text as a, $2::int as b", text, number), { a = text, b = number })
  elseif kind == 3 then
    local rows = t.truthy(db:query("select $1::int as n from generate_series(1, $2::int)", number, random(3000)))
    t.equal(rows[#rows].n, number)
  elseif kind == 4 then
    local long = text:rep(random(100000))
    t.truthy(db:value("select $1::text", long) == long, number)
  elseif kind == 5 then
    local divisor = random(0, 1)
    local answer, message = db:execute("select $1::int / $2::int", number, divisor)
    if divisor == 1 then t.equal(answer, 0) else t.truthy(message:find "division by zero", message) end
  else
    t.equal(db:value("select $1::int from pg_sleep($2)", number, random() / 500), number)
  end
end

t.it("calls of many tasks get their own answers, also if others are cancelled", REAL, function()
  local db = open { size = 3 }
  local tasks, cancelled, failed = {}, 0, nil
  for i = 1, 400 do
    tasks[i] = rl.task(function()
      for k = 1, 5 do
        local is_done, problem = pcall(call, db, i * 10 + k)
        if not is_done and rl.is_cancelled(problem) then error(problem, 0) end
        if not is_done then failed = failed or problem end
      end
    end)
    local victim = tasks[random(i)]
    if random(10) == 1 and victim:status() ~= "done" then
      cancelled = cancelled + 1
      victim:cancel()
    end
    if random(5) == 1 then rl.sleep(random() / 300) end
  end
  for _, task in ipairs(tasks) do pcall(task.await, task) end
  t.equal(failed, nil)
  t.truthy(cancelled > 5, cancelled)
  t.eventually(function() return db:stats().in_use == 0 end)
  t.truthy(db:stats().connections <= 3)
  t.equal(db:value "select 'x'", "x")
end)

t.it("a call under way counts as one that uses its connection", REAL, function()
  local db = open { size = 2, name = "orders" }
  for _ = 1, 3 do t.equal(db:value("select 1 from pg_sleep($1)", 0), 1) end
  t.equal(db:stats().in_use, 0)
  local slow = rl.task(function() return db:value("select 1 from pg_sleep($1)", 0.3) end)
  rl.sleep(0.05)
  t.truthy(rl.why():find('value "select 1 from pg_sleep($1)" of postgres "orders" (for 0.', 1, true), rl.why())
  t.equal({ db:stats().in_use, db:stats().connections }, { 1, 1 })
  t.equal(db:value "select 2", 2)
  t.equal({ db:stats().in_use, db:stats().connections }, { 1, 2 })
  t.equal(slow:await(), 1)
  t.equal({ db:stats().in_use, db:stats().connections }, { 0, 2 })
end)

t.it("a task that waits for a connection gets that of a call under way", REAL, function()
  local db = open { size = 1, wait = 5 }
  for _ = 1, 3 do t.equal(db:value("select 1 from pg_sleep($1)", 0), 1) end
  local order = {}
  local tasks = {}
  for i, seconds in ipairs { 0.1, 0, 0 } do
    tasks[i] = rl.task(function()
      db:value("select 1 from pg_sleep($1)", seconds)
      order[#order + 1] = i
    end)
  end
  for _, task in ipairs(tasks) do task:await() end
  t.equal(order, { 1, 2, 3 })
end)

t.it("a database that is closed waits for a call under way, and then refuses others", REAL, function()
  local db = open()
  for _ = 1, 3 do t.equal(db:value("select 1 from pg_sleep($1)", 0), 1) end
  local slow = rl.task(function() return db:value("select 1 from pg_sleep($1)", 0.1) end)
  local stuck = rl.task(function() return db:value("select 1 from pg_sleep($1)", 60) end)
  rl.sleep(0.02)
  t.equal(db:close(0.3), true)
  t.equal(slow:await(), 1)
  t.equal(select(3, stuck:await()), "ECONNRESET")
  t.equal(select(3, db:value("select 1 from pg_sleep($1)", 0)), "ENOTCONN")
end)

t.it("methods accept only a database", REAL, function()
  local db = open()
  for _ = 1, 3 do t.equal(db:value("select $1::int", 1), 1) end
  for _, other in ipairs { {}, { 1 }, { {} }, { io.stdout }, 5 } do
    t.error(function() db.value(other, "select $1::int", 1) end, "db:value")
  end
  t.error(function() db.value() end, "db:value")
  t.error(function() db:value() end, "argument #1 must be a text")
end)

t.it("a call in a function through which Lua cannot yield names that function", REAL, function()
  local db = open()
  for _ = 1, 3 do t.equal(db:value("select $1::text", "a"), "a") end
  local function call(text) return db:value("select $1::text", text) end
  t.error(function() return ("a"):gsub("a", call) end, "cannot wait inside a function called by 'string.gsub'")
end)

t.it("the count of changed rows may come before the end of the answer", REAL, function()
  local db = open()
  -- A warning during the commit makes the server send what it has.
  db:script [[
    create table slow (n int);
    create function warn() returns trigger language plpgsql as $$ begin
      raise warning 'committing'; perform pg_sleep(0.02); return null;
    end $$;
    create constraint trigger late after insert on slow deferrable initially deferred
      for each row execute function warn()]]
  for i = 1, 5 do t.equal(db:execute("insert into slow select $1::int from generate_series(1, 3)", i), 3) end
end)

t.it("a statement that the server prepares no longer is sent as text", REAL, function()
  local db = open()
  db:script "create table grown (n int); insert into grown values (5)"
  for i = 1, 3 do
    for _ = 1, 4 do t.equal(db:row("select * from grown").n, 5) end
    db:script(("alter table grown add column c%d int default %d"):format(i, i))
    t.equal(db:row("select * from grown")["c" .. i], i)
  end
  for _ = 1, 4 do t.equal(db:value "select 1", 1) end
  local calls = db:stats().calls
  t.equal(db:execute "deallocate all", 0)
  t.equal(db:value "select 1", 1)
  t.equal(db:stats().calls, calls + 2)
end)

t.it("calls with wrong numbers of parameters do not end the use of prepared statements", REAL, function()
  local db = open()
  for _ = 1, 3 do t.equal(db:value("select $1::int", 1), 1) end
  for _ = 1, 5 do
    t.error(function() db:value("select $1::int", 1, 2) end, "db:value: the statement has 1 parameter, got 2")
  end
  t.truthy(db:value "select count(*) from pg_prepared_statements" > 0)
end)

t.it("a call that lasts until its database is closed ends its record", REAL, function()
  local directory = assert(fs.temporary_directory())
  t.finally(function() fs.remove(directory, { recursive = true }) end)
  local file = directory .. "/trace.json"
  local result = process.run { t.rlhost, "--trace=" .. file, "-", server():url(), timeout = 30,
    -- These settings make malloc overwrite freed memory.
    environment = { GLIBC_TUNABLES = "glibc.malloc.tcache_count=0", MALLOC_PERTURB_ = "165" }, input = [[
    local rl = require "runloop"
    local db = assert(require "runloop.postgres".open(arg[1]))
    for _ = 1, 3 do db:value("select 'slow' from pg_sleep($1)", 0) end
    local task = rl.task(function() return db:value("select 'slow' from pg_sleep($1)", 0.1) end)
    rl.sleep(0.05)
    db:close()
    print(task:await())]] }
  t.equal(result.output, "slow\n")
  local begun, ended = 0, 0
  for line in io.lines(file) do
    begun = begun + select(2, line:gsub('"ph":%s*"b"', ""))
    ended = ended + select(2, line:gsub('"ph":%s*"e"', ""))
  end
  t.equal(ended, begun)
end)
