-- rl.why shows which statement or command of a database a task waits for, without its values.

local t = require "runloop.test"
local rl = require "runloop"
local postgres = require "runloop.postgres"
local redis = require "runloop.redis"
local sqlite = require "runloop.sqlite"

local function contains(text, part) t.truthy(text:find(part, 1, true), text) end

-- Returns the text of rl.why while a function waits in a task.
local function why(fn)
  local task <close> = rl.task(fn)
  rl.sleep(0.01)
  return rl.why()
end

t.it("rl.why shows the statement of a call to PostgreSQL, shortened", function()
  local fake = postgres.fake(function()
    rl.sleep(60)
    return 1
  end)
  local db <close> = t.truthy(postgres.open(fake, { name = "orders" }))
  local text = why(function() db:query("select *\n  from jobs where id = $1", "secret") end)
  contains(text, 'query "select * from jobs where id = $1" of postgres "orders" (for 0.0 s)')
  t.equal(text:find("secret", 1, true), nil)
  text = why(function() db:value { "select " .. ("x"):rep(200), timeout = 30 } end)
  contains(text, 'value "select ' .. ("x"):rep(72))
  t.equal(text:find(("x"):rep(74), 1, true), nil)
  text = why(function() db:batch { { "insert into a values ($1)", "secret" }, "select 1" } end)
  contains(text, 'batch "insert into a values ($1)" of postgres "orders"')
  local tx <close> = t.truthy(db:begin())
  contains(why(function() tx:execute "update a set b = 1" end), 'execute "update a set b = 1" of postgres "orders"')
  db:close(0)
end)

t.it("rl.why shows the command of a call to Redis", function()
  local db <close> = t.truthy(redis.open(redis.fake(), { name = "cache" }))
  local text = why(function() db:call("BLPOP", "secret", 60) end)
  contains(text, 'call "BLPOP" of redis "cache"')
  t.equal(text:find("secret", 1, true), nil)
  -- The statement is over: the next wait of the task does not show it.
  t.equal(why(function() rl.sleep(60) end):find("BLPOP", 1, true), nil)
end)

t.it("rl.why shows the loop over rows that waits for more of them", { real_time = true }, function()
  local db <close> = t.truthy(sqlite.open ":memory:")
  local slow = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 1e12) select count(*) from c"
  local text = why(function()
    local rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 600) select i, case when "
    for _ in db:rows(rows .. "i > 300 then (" .. slow .. ") end from n") do end
  end)
  contains(text, 'rows "with recursive n(i)')
end)
