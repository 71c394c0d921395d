-- postgres.fake: the same cases against the fake and against a real server, and the failures that only a fake has.

local t = require "runloop.test"
local rl = require "runloop"
local postgres = require "runloop.postgres"
local json = require "runloop.json"
local net = require "runloop.net"

local server = t.resource(function() return t.server "postgres" end)

local function open(where, options)
  local db = t.truthy(postgres.open(where, options))
  t.finally(function() db:close() end)
  return db
end

local pack = table.pack

-- Answers some statements as PostgreSQL does.
local ANSWERS = {
  ["select 1 as a, 2.5::float8 as b, 'x' as c, true as d, null as e"] = function()
    return { { a = 1, b = 2.5, c = "x", d = true }, columns = { "a", "b", "c", "d", "e" } }
  end,
  ["select $1::int + 1"] = function(p) return { { math.tointeger(p[1]) + 1 }, columns = { "?column?" } } end,
  ["select $1::text as a, $2::text as b"] = function(p)
    return { { a = p[1], b = p[2] }, columns = { "a", "b" } }
  end,
  ["select $1::bytea as a"] = function(p) return { { a = postgres.bytes(p[1]) } } end,
  ["select '[1,null]'::jsonb as a"] = function() return { { a = { 1, json.null } } } end,
  ["select i from generate_series(1, 1000) i"] = function()
    local rows = { columns = { "i" } }
    for i = 1, 1000 do rows[i] = { i = i } end
    return rows
  end,
  ["select 1 where false"] = function() return { columns = { "?column?" } } end,
  ["create temporary table f (i int)"] = function() return 0 end,
  ["insert into f values (1), (2), ($1)"] = function() return 3 end,
  ["delete from f"] = function() return 3 end,
  ["select frob"] = function() return nil, 'column "frob" does not exist', "42703" end,
  ["select 1/0"] = function() return nil, "division by zero", "22012" end,
  ["select pg_sleep(60)"] = function()
    rl.sleep(60)
    return { { pg_sleep = "" } }
  end,
}

local function answer(text, parameters)
  local fn = ANSWERS[text]
  if not fn then return nil, "the test does not know: " .. text end
  return fn(parameters)
end

-- Cases of both. `start()` returns what postgres.open takes.
local function cases(start)
  t.it("answers with rows, values and counts", function()
    local db = open(start(), { size = 1 })
    for _ = 1, 3 do
      t.equal(db:row "select 1 as a, 2.5::float8 as b, 'x' as c, true as d, null as e",
        { a = 1, b = 2.5, c = "x", d = true })
      t.equal(db:value("select $1::int + 1", 41), 42)
      t.equal(db:row("select $1::text as a, $2::text as b", "it's", nil), { a = "it's" })
    end
    t.equal(db:value("select $1::bytea as a", postgres.bytes "\0\255"), "\0\255")
    t.equal(db:value "select '[1,null]'::jsonb as a", { 1, json.null })
    t.equal({ db:query "select 1 where false" }, { {}, { "?column?" } })
    t.equal(math.type(db:value "select 1 as a, 2.5::float8 as b, 'x' as c, true as d, null as e"), "integer")
    local own <close> = t.truthy(db:connection())
    t.equal(own:execute "create temporary table f (i int)", 0)
    t.equal(own:execute("insert into f values (1), (2), ($1)", 3), 3)
    t.equal(own:execute "delete from f", 3)
  end)

  t.it("returns rows one by one, also in a transaction", function()
    local db = open(start())
    local sum = 0
    for row in db:rows "select i from generate_series(1, 1000) i" do sum = sum + row.i end
    local tx <close> = t.truthy(db:begin())
    for row in tx:rows "select i from generate_series(1, 1000) i" do sum = sum + row.i end
    t.equal(sum, 2 * 500500)
    t.equal(tx:commit(), true)
  end)

  t.it("runs batches and scripts up to the first failure", function()
    local db = open(start())
    t.equal(db:batch { { "select $1::int + 1", 1 }, "select 1 where false" }, { { { ["?column?"] = 2 } }, {} })
    local _, message, code, details = db:batch { "select 1/0", { "select $1::int + 1", 1 } }
    t.equal({ message, code }, { "EINVAL: division by zero (22012)", "EINVAL" })
    t.equal({ details.code, details.index }, { "22012", 1 })
    t.equal(select(3, db:script "select 1 where false; select frob"), "EINVAL")
    t.equal(db:value("select $1::int + 1", 1), 2)
  end)

  t.it("refuses the statements that a server refuses", function()
    local db = open(start())
    local nothing, message, code, details = db:value "select frob"
    t.equal({ nothing, message }, { nil, 'EINVAL: column "frob" does not exist (42703)' })
    t.equal({ code, details.code }, { "EINVAL", "42703" })
    t.error(function() db:value("select $1::int + 1", 1, 2) end, "the statement has 1 parameter, got 2")
    t.equal(select(3, db:query "select 1 where false; select 1 where false"), "EINVAL")
    t.equal(select(3, db:query ""), "EINVAL")
    local tx <close> = t.truthy(db:begin())
    t.equal(select(3, tx:value "select 1/0"), "EINVAL")
    t.equal(select(4, tx:value("select $1::int + 1", 1)).code, "25P02")
    t.equal(select(3, tx:commit()), "EINVAL")
    local other <close> = t.truthy(db:begin())
    local inner <close> = t.truthy(other:begin())
    t.equal(select(3, inner:value "select 1/0"), "EINVAL")
    t.equal(inner:rollback(), true)
    t.equal(other:value("select $1::int + 1", 1), 2)
    t.equal(other:commit(), true)
  end)

  t.it("ends a statement that is cancelled", function()
    local db = open(start(), { size = 1 })
    t.equal(pack(db:value { "select pg_sleep(60)", timeout = 0.05 }), { nil, "timed out", n = 2 })
    t.equal(db:value("select $1::int + 1", 1), 2)
    t.equal(db:stats().connections, 1)
  end)

  t.it("sends notifications", function()
    local db = open(start())
    local s <close> = t.truthy(db:subscribe { "jobs", 'odd "name"' })
    t.equal(db:publish('odd "name"', "one"), true)
    t.equal(db:publish("jobs", "two"), true)
    t.equal({ s:receive(5) }, { "one", 'odd "name"' })
    t.equal({ s:receive(5) }, { "two", "jobs" })
  end)
end

t.describe("a fake", function() cases(function() return postgres.fake(answer) end) end)
t.describe("a real server", function() cases(function() return server():url() end) end)

t.it("a database notices that a fake has cut an idle connection, also if no time passes", function()
  local fake = postgres.fake(answer)
  local db = open(fake)
  t.equal(db:value("select $1::int + 1", 1), 2)
  fake:stop()
  t.equal(select(3, db:value("select $1::int + 1", 1)), "ECONNREFUSED")
  db:close()
end)

t.it("a database makes no connection for each task that gives up", { real_time = true }, function()
  local fake, count, live = postgres.fake(answer), 0, 0
  -- A server that answers slowly on all but the first connection.
  local server <close> = t.truthy(net.serve("127.0.0.1:0", function(stream)
    count, live = count + 1, live + 1
    if count > 1 then rl.sleep(0.2) end
    local target <close> = t.truthy(fake:connect())
    rl.first_of({ rl.task(net.copy, stream, target), rl.task(net.copy, target, stream) })
    live = live - 1
  end))
  local db = open("host=127.0.0.1 user=a sslmode=disable port=" .. server:address():match "%d+$", { size = 3 })
  local tx <close> = t.truthy(db:begin())
  for _ = 1, 30 do
    local task = rl.task(function() return db:value("select $1::int + 1", 1) end)
    rl.sleep(0.002)
    task:cancel()
  end
  t.equal(db:value("select $1::int + 1", 1), 2)
  t.eventually(function() return db:stats().idle == 2 end)
  -- Cancelling the statement of a task that already has a connection takes one more connection.
  t.truthy(count <= 3 + db:stats().cancelled, count)
  db:close()
  t.eventually(function() return live == 0 end)
end)

t.describe("the failures of a fake", function()
  t.it("end calls as a network does, in virtual time", function()
    local fake = postgres.fake(answer, { latency = 0.01 })
    local db = open(fake, { timeout = 30, size = 2 })
    local began = rl.now()
    t.equal({ db:value "select pg_sleep(60)" }, { nil, "timed out" })
    -- The difference of two floats may be a little less than the time between them.
    t.truthy(rl.now() - began >= 29.999, rl.now() - began)
    t.eventually(function() return db:stats().in_use == 0 end)
    fake:stall(20)
    t.equal(db:value("select $1::int + 1", 1), 2)
    fake:drop(20)
    local nothing, message, code = db:value("select $1::int + 1", 1)
    t.equal({ nothing, code }, { nil, "ECONNRESET" })
    t.truthy(message:find("it may have happened", 1, true), message)
    t.equal(db:value("select $1::int + 1", 1), 2)
    fake:stop()
    t.eventually(function() return db:stats().connections == 0 end)
    t.equal(select(3, db:value("select $1::int + 1", 1)), "ECONNREFUSED")
    fake:start()
    t.eventually(function() return db:value("select $1::int + 1", 1) == 2 end)
  end)

  t.it("in the middle of a batch end the batch", { timeout = 60 }, function()
    local fake = postgres.fake(answer, { latency = 0.001 })
    local db = open(fake, { size = 2 })
    local batch = { "select 1 where false", { "select $1::int + 1", 1 }, { "select $1::int + 1", 2, max = 1000 } }
    local answered, refused = 0, 0
    for bytes = 1, 200, 7 do
      fake:drop(bytes)
      for _ = 1, 3 do
        local results, message, code = db:batch(batch)
        if results then answered = answered + 1 else refused = refused + 1 end
        t.truthy(results and #results == 3 or code == "ECONNRESET" or code == "ECONNREFUSED", message)
      end
      local task = rl.task(function() return db:batch(batch) end)
      rl.sleep(bytes / 50000)
      task:cancel()
      rl.sleep(1.5)
    end
    t.truthy(answered > 10 and refused > 10, answered)
    t.eventually(function() return db:stats().in_use == 0 end)
  end)

  t.it("after a whole answer leave its result", { timeout = 60 }, function()
    local fake = postgres.fake(answer)
    local db = open(fake, { size = 1 })
    local whole = 0
    for bytes = 1, 150 do
      t.eventually(function() return db:value("select $1::int + 1", 1) == 2 end)
      fake:drop(bytes)
      local results, message, code = db:batch { { "select $1::int + 1", 1 } }
      if results then whole = whole + 1 else t.equal({ bytes, code }, { bytes, "ECONNRESET" }, message) end
    end
    t.truthy(whole > 10 and whole < 140, whole)
  end)

  t.it("include a wrong password, and the fake lists received statements", function()
    local fake = postgres.fake(answer, { password = "p" })
    local stream = t.truthy(fake:connect())
    stream:write((">I4 I4"):pack(16, 196608), "user\0a\0\0")
    t.equal(stream:read_exactly(9), "R" .. (">I4 I4"):pack(8, 3))
    stream:write("p", (">I4"):pack(10), "wrong\0")
    t.truthy(stream:read_all():find("28P01", 1, true))
    local db = open(fake)
    db:value("select $1::int + 1", 41)
    local list = fake:received()
    t.equal(list[#list], { "select $1::int + 1", "41" })
    t.truthy(tostring(fake):find "fake of PostgreSQL %(%d clients, made at .-postgres_fake_test.lua:%d+%)")
  end)

  t.it("include errors in the script, and invalid calls raise errors", function()
    t.error(function() postgres.fake() end, "postgres.fake: argument #1 must be a function")
    t.error(function() postgres.fake(answer, { pasword = "x" }) end, "postgres.fake: unknown field 'pasword'")
    t.error(function() postgres.fake(answer, { bandwidth = 0 }) end, "postgres.fake: field 'bandwidth'.*got 0")
    local fake = postgres.fake(function(text) if text == "a" then error "mine" end end)
    t.error(function() fake:drop "x" end, "fake:drop: argument #1 must be an integer")
    t.error(function() fake:stall() end, "fake:stall: argument #1 must be a number of seconds")
    t.error(function() fake.stop() end, "fake:stop: call it with a colon")
    local db = open(fake)
    t.truthy(select(2, db:query "a"):find "mine")
    t.truthy(select(2, db:query "b"):find "neither rows nor a count")
    t.equal(select(3, db:copy("copy a from stdin", function() end)), "EPROTO")
  end)
end)
