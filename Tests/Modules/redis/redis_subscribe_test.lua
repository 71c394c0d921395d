-- runloop.redis: subscriptions, and connections that are idle for long.

local t = require "runloop.test"
local rl = require "runloop"
local redis = require "runloop.redis"

local shared = t.resource(function() return t.server "redis" end)

local function open(options, where)
  local db = t.truthy(redis.open(where or shared():url(), options))
  t.finally(function() db:close() end)
  return db
end

t.describe("a subscription", function()
  t.it("begins after the server's confirmation, and gets each message once and in order", function()
    local db = open()
    local got = {}
    local s <close> = t.truthy(db:subscribe("jobs", function(text, channel) got[#got + 1] = channel .. text end))
    for i = 1, 500 do t.equal(db:call("PUBLISH", "jobs", i), 1) end
    t.eventually(function() return #got == 500 end)
    for i = 1, 500 do t.equal(got[i], "jobs" .. i) end
    t.equal(s:stats(), { received = 500, dropped = 0, pending = 0 })
    t.truthy(tostring(s):find("subscription (jobs, open, made at", 1, true))
  end)

  t.it("without a function is read by receive", { real_time = true }, function()
    local db = open()
    local s <close> = t.truthy(db:subscribe { "a", "b" })
    t.equal(table.pack(s:receive(0.01)), { nil, "timed out", n = 2 })
    db:call("PUBLISH", "a", "1")
    db:call("PUBLISH", "b", "\0\r\n")
    t.equal({ s:receive(1) }, { "1", "a" })
    t.equal({ s:receive(1) }, { "\0\r\n", "b" })
    local task = rl.task(function()
      local list = {}
      for text, channel in s:messages() do list[#list + 1] = channel .. text end
      return list
    end)
    for i = 1, 3 do db:call("PUBLISH", "a", i) end
    rl.sleep(0.05)
    s:invalidate()
    t.equal(task:await(), { "a1", "a2", "a3" })
    t.equal(select(3, s:receive()), "ENOTCONN")
    t.eventually(function() return db:call("PUBLISH", "a", 1) == 0 end)
  end)

  t.it("of a pattern returns the channel of each message", function()
    local db = open()
    local s <close> = t.truthy(db:subscribe("news.*", { pattern = true }))
    local exact <close> = t.truthy(db:subscribe "news.*")
    t.equal(db:call("PUBLISH", "news.de", "x"), 1)
    t.equal({ s:receive(1) }, { "x", "news.de" })
    t.equal(exact:stats().received, 0)
  end)

  t.it("shares its connection and its channel with other subscriptions", function()
    local db = open()
    local before = db:stats().connections
    local first, second = t.truthy(db:subscribe "a"), t.truthy(db:subscribe "a")
    t.equal(db:stats().connections, before + 1)
    t.equal(db:call("PUBLISH", "a", 1), 1)
    t.equal({ first:receive(1) }, { "1", "a" })
    t.equal({ second:receive(1) }, { "1", "a" })
    first:invalidate()
    t.equal(db:call("PUBLISH", "a", 2), 1)
    t.equal({ second:receive(1) }, { "2", "a" })
    second:invalidate()
    t.equal(db:stats().connections, before)
  end)

  t.it("gives its function one message at a time", { real_time = true }, function()
    local db = open()
    local inside, most, count = 0, 0, 0
    local s <close> = t.truthy(db:subscribe("a", function()
      inside = inside + 1
      most = math.max(most, inside)
      rl.sleep(0.002)
      inside, count = inside - 1, count + 1
    end))
    for i = 1, 20 do db:call("PUBLISH", "a", i) end
    t.eventually(function() return count == 20 end)
    t.equal(most, 1)
    t.equal(s:stats().pending, 0)
  end)

  t.it("drops messages beyond its limit, and counts them", { real_time = true }, function()
    local db = open()
    local s <close> = t.truthy(db:subscribe("a", { max_pending = 3 }))
    for i = 1, 10 do db:call("PUBLISH", "a", i) end
    t.eventually(function() return s:stats().dropped == 7 end)
    t.equal(s:stats(), { received = 3, dropped = 7, pending = 3 })
    t.equal({ s:receive(1) }, { "1", "a" })
  end)

  t.it("survives an error in its function", { real_time = true }, function()
    local program = t.spawn { t.rlhost, "-e", ([[
      local rl, redis = require "runloop", require "runloop.redis"
      rl.on_error(function(err) print("error " .. tostring(err):match "on purpose") end)
      local db, s = assert(redis.open %q), nil
      s = assert(db:subscribe("fail", function(text)
        if text == "2" then s:invalidate() else error "on purpose" end
      end))
      db:call("PUBLISH", "fail", 1)
      db:call("PUBLISH", "fail", 2)]]):format(shared():url()) }
    t.equal(program:wait(), 0)
    t.equal(program:output(), "error on purpose\n")
  end)

  t.it("calls its function in its own mode only", { real_time = true }, function()
    local db = open()
    local got = {}
    local s <close> = t.truthy(db:subscribe("a", { modes = "modal" }, function(text) got[#got + 1] = text end))
    db:call("PUBLISH", "a", 1)
    rl.sleep(0.05)
    t.equal({ #got, s:stats().pending }, { 0, 1 })
    rl.run { mode = "modal", timeout = 0.05 }
    t.equal(got, { "1" })
  end)

  t.it("subscribes again after a restart, and reports the gap", { real_time = true, timeout = 30 }, function()
    local server = t.server "redis"
    local db = open(nil, server:url())
    local gap
    local s <close> = t.truthy(db:subscribe({ "a", "b" }, { on_gap = function(seconds) gap = seconds end }))
    local p <close> = t.truthy(db:subscribe("n*", { pattern = true }))
    for _ = 1, 2 do
      gap = nil
      server:kill()
      rl.sleep(0.1)
      t.equal(select(3, db:subscribe "c"), "ECONNREFUSED")
      server:restart()
      t.eventually(function() return gap end, { within = 8 })
      t.truthy(gap > 0 and gap < 8)
      t.eventually(function() return db:call("PUBLISH", "b", "again") == 1 end)
      t.equal({ s:receive(1) }, { "again", "b" })
      db:call("PUBLISH", "nn", "x")
      t.equal({ p:receive(1) }, { "x", "nn" })
    end
  end)

  t.it("ends with its database, and when its task is cancelled", { real_time = true }, function()
    local db = open()
    local s = t.truthy(db:subscribe "a")
    local task = rl.task(function() return s:receive() end)
    rl.sleep(0)
    db:close()
    t.equal(select(3, task:await()), "ENOTCONN")
    t.equal(select(3, db:subscribe "a"), "ENOTCONN")
    local other = open()
    for _ = 1, 20 do
      local attempt = rl.task(function() return other:subscribe "a" end)
      rl.sleep(0)
      attempt:cancel()
    end
    t.eventually(function() return other:call("PUBLISH", "a", 1) == 0 end)
    t.equal(other:stats().connections, 1)
  end)

  t.it("raises errors for wrong arguments", function()
    local db = open()
    local function wrong(text, fn, ...)
      local arguments = table.pack(...)
      t.error(function() fn(table.unpack(arguments, 1, arguments.n)) end, text)
    end
    wrong("db:subscribe: argument #1", db.subscribe, db)
    wrong("db:subscribe: argument #1", db.subscribe, db, {})
    wrong("db:subscribe: argument #1", db.subscribe, db, { "a", {} })
    wrong("db:subscribe: unknown field 'patern'", db.subscribe, db, "a", { patern = true })
    wrong("db:subscribe: argument #3", db.subscribe, db, "a", {}, 5)
    local s <close> = t.truthy(db:subscribe("a", function() end))
    wrong("the function of this subscription gets the messages", s.receive, s)
    wrong("subscription:receive: argument #1", s.receive, s, "x")
    wrong("subscription:stats: call it with a colon", s.stats)
  end)
end)

t.it("idle connections are closed after a while", { real_time = true }, function()
  local db = open { idle = 0.1 }
  local tasks = {}
  for i = 1, 5 do tasks[i] = rl.task(function() return db:call("BLPOP", "none", 0.02) end) end
  for i = 1, 5 do tasks[i]:await() end
  t.equal(db:stats().connections, 6)
  t.eventually(function() return db:stats().connections == 1 end)
  t.equal(db:call "PING", "PONG")
end)
