-- Recordings have each call of a database: its text without values, its rows, how long it waited for a connection and
-- ran, and whether it failed; and each connection that was lost.

local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local process = require "runloop.process"

local HEAD = [[
local rl, out = require "runloop", ...
local postgres, redis, sqlite = require "runloop.postgres", require "runloop.redis", require "runloop.sqlite"
]]

-- Runs a script, and returns the calls and the marks in its recording. The format "again" is a recording in Perfetto's
-- format that was converted.
local function recorded(script, format)
  local path = t.truthy(fs.temporary_directory()) .. "/"
  t.finally(function() os.execute("rm -r " .. path) end)
  t.truthy(fs.write(path .. "app.lua", HEAD .. script))
  local first = format == "again" and "pftrace" or "json"
  local run = process.run { t.rlhost, "--trace=" .. path .. "a." .. first, path .. "app.lua", path }
  t.equal({ run.code, run.errors }, { 0, "" })
  if format == "again" then
    run = process.run { t.rlhost, "trace", path .. "a.pftrace", "-o", path .. "a.json" }
    t.equal({ run.code, run.errors }, { 0, "" })
  end
  local begun, calls, marks = {}, {}, {}
  for _, event in ipairs(json.decode(fs.read(path .. "a.json"))) do
    if event.cat == "mark,data" then marks[#marks + 1] = event.name end
    if event.cat == "data" and event.ph == "b" then
      begun[event.id] = event
    elseif event.ph == "e" and begun[event.id] then
      local call, arguments = begun[event.id], event.args or {}
      begun[event.id] = nil
      calls[#calls + 1] = {
        name = call.name, rows = arguments.rows, failed = arguments.failed ~= nil, waited = arguments.waited_us,
        ran = (event.ts - call.ts) / 1e6,
      }
    end
  end
  t.equal(next(begun), nil)
  return calls, marks
end

local function brief(calls)
  local lines = {}
  for i, call in ipairs(calls) do
    lines[i] = ("%s: %s"):format(call.name, call.failed and "failed" or call.rows)
  end
  return lines
end

local SQLITE = [[
local db <close> = sqlite.open(out .. "a.db", { name = "orders", size = 1 })
db:script "create table jobs (id integer primary key, text)"
db:batch { { "insert into jobs values ($1, $2)", 1, "secret" }, { "insert into jobs values ($1, $2)", 2, "secret" } }
db:query("select * from jobs where text = $1", "secret")
db:row { "select * from jobs where id = $1", 7, timeout = 5 }
db:execute "insert into nothing values (1)"
for row in db:rows "select 1 union select 2 union select 3" do end
do
  local tx <close> = db:begin()
  tx:value("select count(*) from jobs")
  tx:commit()
end
local slow = rl.task(function()
  db:value("with recursive c(n) as (select 1 union all select n + 1 from c where n < 300000) select count(*) from c")
end)
rl.sleep(0.001)
db:value "select 'waits'"
]]

for _, format in ipairs { "json", "again" } do
  t.it("a recording has the calls of SQLite, format " .. format, function()
    local calls = recorded(SQLITE, format)
    local lines = brief(calls)
    table.remove(calls, 10)
    t.equal(table.remove(lines, 10):match '^value "with recursive .*" of sqlite "orders": 1$' ~= nil, true)
    t.equal(lines, {
      'script "create table jobs (id integer primary key, text)" of sqlite "orders": 0',
      'batch "insert into jobs values ($1, $2)" of sqlite "orders": 2',
      'query "select * from jobs where text = $1" of sqlite "orders": 2',
      'row "select * from jobs where id = $1" of sqlite "orders": 0',
      'execute "insert into nothing values (1)" of sqlite "orders": failed',
      'rows "select 1 union select 2 union select 3" of sqlite "orders": 3',
      'begin of sqlite "orders": 0',
      'value "select count(*) from jobs" of sqlite "orders": 1',
      'commit of sqlite "orders": 0',
      'value "select \'waits\'" of sqlite "orders": 1',
    })
    local last = calls[#calls]
    t.truthy(last.waited and last.waited >= 1000 and last.waited / 1e6 <= last.ran + 0.01, last.waited)
  end)
end

t.it("a recording has the calls of PostgreSQL", function()
  local calls, marks = recorded [[
local fake = postgres.fake(function(sql)
  if sql:find "pause" then rl.sleep(0.02) end
  if sql:find "wrong" then return nil, "no such table", "42P01" end
  return sql:find "^select" and { { n = 1 }, { n = 2 } } or 5
end)
local db <close> = postgres.open(fake, { name = "orders", size = 1 })
local task = rl.task(function() db:execute "update pause" end)
rl.sleep(0.001)
db:query("select n from a where b = $1", "secret")
db:query "select wrong"
for row in db:rows "select n" do break end
local late = rl.task(function() db:query "select pause" end)
rl.sleep(0.005)
late:cancel()
pcall(late.await, late)
rl.sleep(0.1)
fake:drop()
rl.sleep(0.1)
]]
  local first = table.remove(calls, 1)
  t.equal({ first.name, first.rows }, { 'execute "update pause" of postgres "orders"', 5 })
  t.equal(first.waited == nil or first.waited < 10000, true)
  t.equal(calls[1].waited > 10000, true)
  t.equal(brief(calls), {
    'query "select n from a where b = $1" of postgres "orders": 2',
    'query "select wrong" of postgres "orders": failed',
    'rows "select n" of postgres "orders": 2',
    'query "select pause" of postgres "orders": failed',
  })
  t.equal(marks, { 'connection of postgres "orders" was lost' })
end)

t.it("a recording has the calls of Redis", function()
  local calls, marks = recorded [[
local fake = redis.fake()
local db <close> = redis.open(fake, { name = "cache" })
db:call("SET", "secret", 1)
db:call("RPUSH", "list", 1, 2, 3)
db:call("LRANGE", "list", 0, -1)
db:call("GET", "nothing")
db:call("GET", "list")
db:batch { { "GET", "secret" }, { "GET", "secret" }, { "GET", "nothing" } }
for key in db:rows "SCAN" do end
do
  local tx <close> = db:begin { watch = "secret" }
  tx:queue("INCR", "secret")
  tx:queue("INCR", "secret")
  tx:commit()
end
db:call("BLPOP", "list", 1)
fake:drop()
rl.sleep(0.05)
]]
  t.equal(brief(calls), {
    'call "SET" of redis "cache": 1', 'call "RPUSH" of redis "cache": 1', 'call "LRANGE" of redis "cache": 3',
    'call "GET" of redis "cache": 0', 'call "GET" of redis "cache": failed', 'batch "GET" of redis "cache": 2',
    'rows "SCAN" of redis "cache": 2', 'begin of redis "cache": 0', 'commit of redis "cache": 2',
    'call "BLPOP" of redis "cache": 2',
  })
  -- The connection of all tasks, and the connection of blocking commands.
  t.equal(marks, { 'connection of redis "cache" was lost', 'connection of redis "cache" was lost' })
end)

t.it("a call that starts as a quick one, and is made in the usual way, has one record", { real_time = true }, function()
  local server = t.server "postgres"
  local calls = recorded(([[
local db <close> = postgres.open(%q, { name = "orders", size = 1 })
local parts, values = {}, {}
for i = 1, 20 do parts[i], values[i] = "$" .. i .. "::int", 1 end
local many = "select " .. table.concat(parts, " + ")
for i = 1, 4 do
  db:value("select $1::int", 1)
  db:value(many, table.unpack(values))
  db:value("select $1::int", 1)
  pcall(db.value, db, "select $1::int", {})
end
]]):format(server:url()))
  local texts, failed = {}, 0
  for _, call in ipairs(calls) do
    local text = call.name:find " %+ " and "many" or call.name:match '"(.-)"'
    texts[text] = (texts[text] or 0) + 1
    if call.failed then failed = failed + 1 end
  end
  t.equal({ texts, failed }, { { many = 4, ["select $1::int"] = 12 }, 4 })
end)
