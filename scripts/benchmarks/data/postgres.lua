-- Makes the tables that the programs beside this file read. Prints the processor time in microseconds of a prepared
-- select by key and of a row of four columns, and the kB by which reading rows has made the process grow.

local postgres = require "runloop.postgres"
local db <close> = assert(postgres.open(arg[1]))
local n, count = math.tointeger(arg[2]), math.tointeger(arg[3])

local function measure(label, calls, fn)
  local before = os.clock()
  fn()
  print(label, (os.clock() - before) / calls * 1e6)
end

local function memory()
  for line in io.lines "/proc/self/status" do
    local kilobytes = line:match "^VmRSS:%s+(%d+)"
    if kilobytes then return tonumber(kilobytes) end
  end
end

assert(db:script(([[
  drop table if exists things, rows;
  create table things (id int primary key, text text);
  insert into things select i, 'text' from generate_series(1, 1000) i;
  create table rows as select i, 'text ' || i as text, i * 0.5::float8 as half, i %% 2 = 0 as even
    from generate_series(1, %d) i;
  analyze]]):format(count)))

local function selects(calls)
  for i = 1, calls do assert(db:value("select text from things where id = $1", i % 1000 + 1) == "text") end
end
selects(n // 10)
measure("select by key, one after the other", n, function() selects(n) end)

for _ in db:rows "select * from rows limit 1000" do end
collectgarbage()
local before, most, found = memory(), 0, 0
measure("a row of 4 columns by rows()", count, function()
  for _ in db:rows("select * from rows limit $1::int", count) do
    found = found + 1
    if found % 10000 == 0 then most = math.max(most, memory()) end
  end
end)
assert(found == count)
print("kB more memory while it reads rows", most - before)
