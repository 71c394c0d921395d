-- Redis and PostgreSQL when connections are cut at a random byte, stall or are refused: each call ends once, with an
-- answer or a refusal, and none is sent twice. `scripts/soak data` runs many rounds.

local t = require "runloop.test"
local rl = require "runloop"
local redis = require "runloop.redis"
local postgres = require "runloop.postgres"

local ROUNDS = tonumber(os.getenv "RLHOST_ROUNDS") or 8
local KNOWN = { ECONNRESET = true, ECONNREFUSED = true, EAGAIN = true, ["timed out"] = true }
-- The number of calls that ended in each of these ways.
local outcomes = { answered = 0, refused = 0 }

-- Cuts, stalls or stops a fake.
local function harm(fake)
  local what = math.random(4)
  if what == 1 then fake:drop() elseif what == 2 then fake:drop(math.random(200)) end
  if what == 3 then fake:stall(math.random() * 3) end
  if what == 4 then
    fake:stop()
    rl.sleep(math.random() * 0.2)
    fake:start()
  end
end

-- Lets five tasks count up by `add(db)` while a fake fails. Returns how many calls were answered, and how many were
-- made.
local function play(fake, db, add)
  local answered, started, tasks = 0, 0, {}
  for i = 1, 5 do
    tasks[i] = rl.task(function()
      for _ = 1, 10 do
        started = started + 1
        local value, message, code = add(db)
        local how = value and "answered" or "refused"
        outcomes[how] = outcomes[how] + 1
        if value then answered = answered + 1 else t.truthy(KNOWN[code or message], message) end
        rl.sleep(math.random() * 0.5)
      end
    end)
  end
  for _ = 1, 6 do
    rl.sleep(math.random())
    harm(fake)
  end
  for i = 1, 5 do tasks[i]:await() end
  fake:start()
  return answered, started
end

-- `open()` returns a fake and a database; `count(db)` returns how often the fake has counted.
local function rounds(open, add, count)
  for _ = 1, ROUNDS do
    local fake, db = open()
    local answered, started = play(fake, db, add)
    local counted
    t.eventually(function()
      counted = count(db)
      return counted
    end)
    t.truthy(counted >= answered and counted <= started, counted)
    t.eventually(function() return db:stats().in_use == 0 end)
    db:close()
    -- A fake that still stalls has a timer for at most three seconds.
    rl.sleep(4)
  end
end

local LONG = { timeout = 10 + ROUNDS }

t.it("each call of Redis gets one answer or one refusal over random cuts", LONG, function()
  rounds(function()
    local fake = redis.fake { latency = math.random() * 0.02 }
    return fake, t.truthy(redis.open(fake, { timeout = 1 }))
  end, function(db)
    if math.random(4) > 1 then return db:call("INCR", "n") end
    local answers, message, code = db:batch { { "INCR", "n" } }
    if not answers then return nil, message, code end
    return answers[1], message
  end, function(db) return (db:call("INCRBY", "n", 0)) end)
end)

t.it("each call of PostgreSQL gets one answer or one refusal over random cuts", LONG, function()
  local total
  rounds(function()
    total = 0
    local fake = postgres.fake(function(sql)
      if sql:find "add" then total = total + 1 end
      return { { n = total } }
    end, { latency = math.random() * 0.02 })
    return fake, t.truthy(postgres.open(fake, { timeout = 1, size = 3 }))
  end, function(db)
    local how = math.random(4)
    if how > 2 then return db:value("select add($1)", 1) end
    if how == 2 then
      local answers, message, code = db:batch { "select add(2)" }
      return answers and answers[1], message, code
    end
    local tx <close>, message, code = db:begin()
    if not tx then return nil, message, code end
    local value, problem, kind = tx:value "select add(3)"
    if not value then return nil, problem, kind end
    return tx:commit()
  end, function(db) return db:value "select 1" and total end)
end)

t.after_all(function()
  if os.getenv "RLHOST_ROUNDS" then
    print(("sum\trounds\t%d\nsum\tcalls answered\t%d\nsum\tcalls refused\t%d"):format(2 * ROUNDS, outcomes.answered,
      outcomes.refused))
  end
end)
