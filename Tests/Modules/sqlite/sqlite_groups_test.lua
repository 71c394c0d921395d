-- runloop.sqlite: writes of tasks that wait at the same time share a commit, and notice nothing of each other.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local sqlite = require "runloop.sqlite"

local function directory()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

local function open(path, options)
  local db = t.truthy(sqlite.open(path or directory() .. "/x.db", options))
  t.finally(function() db:close(0.1) end)
  return db
end

-- Opens a database that has inserted a row: only statements that were prepared before share a commit.
local function prepared(options)
  local path = directory() .. "/x.db"
  local db = open(path, options)
  t.truthy(db:script "create table n (i integer)")
  t.equal(db:execute("insert into n values ($1)", 0), 1)
  return db, path
end

-- Runs each statement of a list, with its parameters, in a task of its own. Returns the results of the statements, with
-- codes in place of messages.
local function at_once(db, list)
  local tasks, results = {}, {}
  for i, one in ipairs(list) do
    tasks[i] = rl.task(function()
      local result, _, code = db[one.call or "execute"](db, table.unpack(one))
      return { result, code }
    end)
  end
  for i, task in ipairs(tasks) do results[i] = task:await() end
  return results
end

local function one_by_one(db, list)
  local results = {}
  for i, one in ipairs(list) do
    local result, _, code = db[one.call or "execute"](db, table.unpack(one))
    results[i] = { result, code }
  end
  return results
end

local SCHEMA = [[
  create table parent (id integer primary key, text);
  create table child (id integer primary key, parent integer references parent deferrable initially deferred);
  create table strict_child (id integer primary key, parent integer references parent);
  create table guarded (value integer check (value < 50), other unique);
  create trigger refuses before insert on guarded when new.value = 40 begin select raise(rollback, 'never 40'); end;
  create trigger fails before insert on guarded when new.value = 41 begin select raise(fail, 'never 41'); end;
  create table seen (sum integer);
  insert into seen values (0)]]

-- Statements that succeed, fail, undo everything, keep a part, and depend on the ones before them.
local STATEMENTS = {
  function(n) return { "insert into parent values ($1, $2)", n(8), "x" } end,
  function(n) return { "delete from parent where id = $1", n(8) } end,
  function(n) return { "insert into child (parent) values ($1)", n(8) } end,
  function(n) return { "insert into strict_child (parent) values ($1)", n(8) } end,
  function(n) return { "delete from child where parent = $1", n(8) } end,
  function(n) return { "insert into guarded values ($1, $2)", n(60), n(30) } end,
  function(n) return { "insert or rollback into guarded values ($1, $2)", n(60), n(30) } end,
  function(n) return { "insert or fail into guarded values (1, $1), (2, $2), (3, $1)", n(30), n(30) } end,
  function(n) return { "insert or ignore into guarded values ($1, $2)", n(60), n(30) } end,
  function(n) return { "replace into guarded values ($1, $2)", n(30), n(30) } end,
  function() return { "update seen set sum = sum + (select count(*) from guarded)" } end,
  function(n) return { "insert into parent values ($1, 'y') returning text, id", n(8), call = "query" } end,
  function(n) return { "with x(v) as (values ($1)) insert into guarded select v + 1, v from x", n(30) } end,
  function() return { "select count(*) from guarded", call = "value" } end,
  function() return { "insert into nowhere values (1)" } end,
}

local TABLES = { "parent", "child", "strict_child", "guarded", "seen" }

t.describe("writes that wait together", function()
  t.it("have the results of writes one after the other, whichever of them fail", function()
    for round = 1, 15 do
      local path = directory()
      -- With one connection, queries take their turns between writes, too.
      local together, alone = open(path .. "/a.db", { size = 1 }), open(path .. "/b.db", { size = 1 })
      t.truthy(together:script(SCHEMA))
      t.truthy(alone:script(SCHEMA))
      for _ = 1, 3 do
        local list = {}
        for i = 1, math.random(2, 100) do list[i] = STATEMENTS[math.random(#STATEMENTS)](math.random) end
        local got, expected = at_once(together, list), one_by_one(alone, list)
        for i, one in ipairs(list) do
          t.equal(got[i], expected[i], ("round %d, %d: %s"):format(round, i, one[1]))
        end
        for _, name in ipairs(TABLES) do
          local text = ("select * from %s order by 1, 2"):format(name):gsub("seen order by 1, 2", "seen")
          t.equal(together:query(text), alone:query(text), ("round %d: %s"):format(round, name))
        end
      end
    end
  end)

  t.it("share their commits", function()
    local db, path = prepared()
    local before = fs.stat(path .. "-wal").size
    local list = {}
    for i = 1, 200 do list[i] = { "insert into n values ($1)", i } end
    for _, result in ipairs(at_once(db, list)) do t.equal(result, { 1 }) end
    -- Each commit writes at least one page of 4,096 bytes.
    local pages = (fs.stat(path .. "-wal").size - before) / 4096
    t.truthy(pages < 100, pages)
    t.equal(db:value "select count(*) from n", 201)
  end)

  t.it("do not wait for a long one of them", { real_time = true }, function()
    local db = open()
    t.truthy(db:script "create table n (i integer)")
    local long = [[insert into n
      with recursive c(i) as (select 1 union all select i + 1 from c where i < $1) select count(*) from c]]
    t.equal(db:execute("insert into n values ($1)", 0), 1)
    t.equal(db:execute(long, 10), 1)
    local short = {}
    for i = 1, 10 do short[i] = rl.task(function() return db:execute("insert into n values ($1)", i) end) end
    local endless = rl.task(function() return db:execute(long, 1e12) end)
    for i = 1, 10 do t.equal({ short[i]:await(5) }, { 1 }) end
    t.equal(endless:status(), "waiting")
    endless:cancel()
    t.equal(db:value "select count(*) from n", 12)
  end)

  t.it("continue if one of them is cancelled", { real_time = true }, function()
    local db = open()
    t.truthy(db:script "create table n (i integer primary key)")
    t.equal(db:execute("insert into n values ($1)", 0), 1)
    for round = 1, 50 do
      local tasks = {}
      for i = 1, 40 do
        tasks[i] = rl.task(function() return db:execute("insert into n values ($1)", round * 100 + i) end)
      end
      rl.sleep(round % 10 * 0.0001)
      tasks[20]:cancel()
      for i = 1, 40 do
        if i ~= 20 then t.equal({ tasks[i]:await() }, { 1 }) end
      end
      local count = db:value("select count(*) from n where i between $1 and $1 + 99", round * 100)
      t.truthy(count == 39 or count == 40, count)
    end
  end)

  t.it("are stopped each, also if several of them are cancelled at once", { real_time = true }, function()
    local db = open()
    t.truthy(db:script "create table n (i integer)")
    local long = [[insert into n
      with recursive c(i) as (select 1 union all select i + 1 from c where i < $1) select count(*) from c]]
    t.equal(db:execute("insert into n values ($1)", 0), 1)
    t.equal(db:execute(long, 10), 1)
    for round = 1, 20 do
      local short = rl.task(function() return db:execute("insert into n values ($1)", 1) end)
      local endless = rl.task(function() return db:execute(long, 1e12) end)
      rl.sleep(round * 0.0001)
      endless:cancel()
      short:cancel()
      t.equal(rl.timeout(1.5, db.execute, db, "insert into n values ($1)", 2), true)
    end
  end)

  t.it("leave what a statement sees of its connection when they run again", function()
    local db = open()
    t.truthy(db:script "create table n (i integer primary key, last)")
    local list = {
      { "insert into n (last) values (last_insert_rowid())" },
      { "insert into n (last) values (-changes())" },
      { "insert into n (i) values ($1)", 1000 },
      { "insert or rollback into n (i) values ($1)", 1000 },
    }
    one_by_one(db, list)
    t.equal(db:execute("insert into n (i) values ($1)", 2000), 1)
    t.equal(at_once(db, list), { { 1 }, { 1 }, { nil, "EEXIST" }, { nil, "EEXIST" } })
    t.equal(db:value "select last from n where i = 2001", 2000)
    t.equal(db:value "select last from n where i = 2002", -1)
  end)

  t.it("get their own errors when the database is full", function()
    local db = open(nil, { setup = { "pragma max_page_count = 40" } })
    t.truthy(db:script "create table n (i integer primary key, text)")
    local good, list = 0, {}
    for i = 1, 60 do list[i] = { "insert into n values ($1, zeroblob($2))", i, i % 3 == 0 and 10 or 10000 } end
    t.equal(db:execute("insert into n values ($1, zeroblob($2))", 0, 1), 1)
    for _, result in ipairs(at_once(db, list)) do
      if result[1] then good = good + 1 else t.equal(result[2], "ENOSPC") end
    end
    t.truthy(good > 5 and good < 60, good)
    t.equal(db:value "select count(*) from n where i > 0", good)
    t.equal(db:execute "delete from n", good + 1)
  end)

  t.it("wait for the lock of another process, and get EAGAIN if it stays", { real_time = true }, function()
    local db, path = prepared { wait = 0.3 }
    -- SQLite treats another connection like one of another process.
    local other = t.truthy(open(path):begin())
    local list = {}
    for i = 1, 20 do list[i] = { "insert into n values ($1)", i } end
    for _, result in ipairs(at_once(db, list)) do t.equal(result[2], "EAGAIN") end
    t.equal(other:rollback(), true)
    for _, result in ipairs(at_once(db, list)) do t.equal(result, { 1 }) end
    t.equal(db:value "select count(*) from n", 21)
  end)

  t.it("need no lock that they would not need alone", { real_time = true }, function()
    local path = directory()
    local other = open(path .. "/other.db")
    t.truthy(other:script "create table m (i integer)")
    local db = open(path .. "/x.db", { wait = 0.3, setup = { { "attach $1 as other", path .. "/other.db" } } })
    t.truthy(db:script "create table n (i integer)")
    local list = {}
    for i = 1, 20 do list[i] = { i == 20 and "insert into m values ($1)" or "insert into n values ($1)", i } end
    for _, result in ipairs(at_once(db, list)) do t.equal(result, { 1 }) end
    local tx = t.truthy(other:begin())
    for i, result in ipairs(at_once(db, list)) do t.equal(result, i == 20 and { nil, "EAGAIN" } or { 1 }) end
    t.equal(tx:rollback(), true)
    t.equal(db:value "select count(*) from n", 38)
    t.equal(db:value "select count(*) from m", 1)
  end)

  t.it("raise a wrong number of parameters also while another process has the lock", { real_time = true }, function()
    local db, path = prepared { wait = 0.2 }
    local tx = t.truthy(open(path):begin())
    local tasks = {}
    for i = 1, 5 do
      tasks[i] = rl.task(function() return pcall(db.execute, db, "insert into n values ($1)") end)
    end
    for i = 1, 5 do t.truthy(select(2, tasks[i]:await()):find "1 parameter, got 0") end
    t.equal(tx:rollback(), true)
  end)
end)
