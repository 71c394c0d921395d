-- Prints the microseconds that a select by key takes when it is awaited, and those that it takes with LuaSQL in
-- `perform { wait }` on a thread. Then prints the processor time of a select while 50 tasks select, the time of an
-- insert while 100 tasks insert, and the longest callback, in ms.

local rl = require "runloop"
local sqlite = require "runloop.sqlite"
local path, n = arg[1], math.tointeger(arg[2])
local db <close> = assert(sqlite.open(path))
assert(db:script [[
  drop table if exists things; drop table if exists log;
  create table things (id integer primary key, text text);
  create table log (id integer primary key, text text);
  with recursive c(i) as (select 1 union all select i + 1 from c where i < 1000)
    insert into things select i, 'text' from c]])

local function measure(label, clock, calls, fn)
  local before = clock()
  fn()
  print(label, (clock() - before) / calls * 1e6)
end

local function selects(calls)
  for i = 1, calls do assert(db:value("select text from things where id = $1", i % 1000 + 1) == "text") end
end

local function in_tasks(tasks, fn)
  local list = {}
  for i = 1, tasks do list[i] = rl.task(fn) end
  for i = 1, tasks do list[i]:await() end
end

selects(n // 10)
measure("select by key, awaited, time", rl.now, n, function() selects(n) end)
measure("select by key by 50 tasks, CPU", os.clock, n, function() in_tasks(50, function() selects(n // 50) end) end)
measure("an insert of 1000 by 100 tasks, time", rl.now, 1000, function()
  in_tasks(100, function() for _ = 1, 10 do assert(db:execute("insert into log (text) values ($1)", "text")) end end)
end)
print("ms of the longest callback", rl.current():stats().longest_callback * 1000)

-- The same without runloop.sqlite: LuaSQL on a thread that may block.
if pcall(require, "luasql.sqlite3") then
  local thread = rl.thread(function(file)
    local loop_of, driver = require "runloop", require "luasql.sqlite3"
    local connection = driver.sqlite3():connect(file)
    function by_key(key)
      local cursor = connection:execute("select text from things where id = " .. key)
      local text = cursor:fetch()
      cursor:close()
      return text
    end
    loop_of.after(3600, function() end)
    loop_of.run()
  end, path)
  local loop = thread:loop()
  measure("select by key, awaited, by perform", rl.now, n, function()
    for i = 1, n do
      assert(loop:perform { function(key) return by_key(key) end, i % 1000 + 1, wait = true } == "text")
    end
  end)
  os.exit(0)
end
