-- runloop.redis: the calls, their refusals, and what happens at the edges: cancelled tasks, servers that end,
-- are silent or send nonsense.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local redis = require "runloop.redis"
local json = require "runloop.json"

-- Tests that do not change the server's data share this server.
local shared = t.resource(function() return t.server "redis" end)

-- Opens a database on an empty server; it is closed with the test.
local function open(options, where)
  local db = t.truthy(redis.open(where or shared():url(), options))
  t.finally(function() db:close() end)
  if not where then t.equal(db:call "FLUSHALL", "OK") end
  return db
end

-- Calls a function and returns its results as a list with their number.
local pack = table.pack

-- Serves bytes to each connection: first the answer to HELLO, then the result of `answer` for each received piece.
local function impostor(answer)
  local server = t.truthy(net.serve("127.0.0.1:0", function(stream)
    local bytes = stream:read()
    stream:write "%1\r\n+server\r\n+redis\r\n"
    while true do
      bytes = stream:read()
      if not bytes then return end
      local text = answer(bytes)
      if not text then return stream:close() end
      stream:write(text)
    end
  end))
  t.finally(function() server:stop(0) end)
  return "127.0.0.1:" .. server:port()
end

t.describe("calls", function()
  t.it("return values of the server's kinds", function()
    local db = open()
    t.equal(db:call("SET", "a", 1, "EX", 60), "OK")
    t.equal(db:call("GET", "a"), "1")
    t.equal(db:call("INCR", "a"), 2)
    t.equal(math.type(db:call("INCR", "a")), "integer")
    t.equal(pack(db:call("GET", "none")), { nil, n = 1 })
    t.equal(db:call("HSET", "h", "x", 1, "y", 2.5), 2)
    t.equal(db:call("HGETALL", "h"), { x = "1", y = "2.5" })
    t.equal(db:call("MGET", "a", "none"), { "3", json.null })
    t.equal(db:call("ZADD", "z", 1.5, "m"), 1)
    t.equal(db:call("ZSCORE", "z", "m"), 1.5)
    t.equal(db:call("SMEMBERS", "none"), {})
    t.equal(redis.null, json.null)
  end)

  t.it("keep every byte", function()
    local db = open()
    for _, value in ipairs { "", "a\0b", "\r\n$5\r\n", ("x"):rep(300000), "ü" } do
      db:call("SET", value, value)
      t.equal(db:call("GET", value), value)
    end
    for _, number in ipairs { 0, math.maxinteger, math.mininteger, 0.1, 1e300, -2.5 } do
      db:call("SET", "n", number)
      local text = db:call("GET", "n")
      t.equal(math.tointeger(text) or tonumber(text), number)
    end
  end)

  t.it("of many tasks share one connection, and each gets its own answer", function()
    local db = open()
    local tasks = {}
    for i = 1, 500 do
      tasks[i] = rl.task(function()
        db:call("SET", "k" .. i, i)
        return db:call("GET", "k" .. i)
      end)
    end
    for i = 1, 500 do t.equal(tasks[i]:await(), tostring(i)) end
    t.equal(db:stats().connections, 1)
  end)

  t.it("run in batches that return problems next to the answers", function()
    local db = open()
    local answers, problems = db:batch { { "SET", "a", 1 }, { "LPUSH", "a", 1 }, { "GET", "none" }, { "GET", "a" } }
    t.equal({ answers[1], answers[2], answers[3], answers[4] }, { "OK", nil, nil, "1" })
    t.equal({ problems[2].code, problems[2].details.code }, { "EINVAL", "WRONGTYPE" })
    t.equal(problems[3], nil)
    t.equal(pack(db:batch { { "PING" } }), { { "PONG" }, n = 1 })
  end)

  t.it("run scripts by their digest", function()
    local db = open()
    local text = "return { KEYS[1], ARGV[1], ARGV[2] }"
    t.equal(db:script(text, { "k" }, "v", 2), { "k", "v", "2" })
    db:call("SCRIPT", "FLUSH")
    t.equal(db:script(text, { "k" }, "v", 2), { "k", "v", "2" })
    t.equal(pack(db:script "return false"), { nil, n = 1 })
    local _, message, code, details = db:script "return redis.error_reply('MINE no')"
    t.equal({ message, code, details.code }, { "EPROTO: no (MINE)", "EPROTO", "MINE" })
  end)

  t.it("iterate over the keys of SCAN", function()
    local db = open()
    local list = {}
    for i = 1, 500 do list[i] = { "SET", "user:" .. i, i } end
    db:batch(list)
    db:call("SET", "other", 1)
    local found, count = {}, 0
    for key in db:rows("SCAN", "MATCH", "user:*") do
      if not found[key] then count = count + 1 end
      found[key] = true
    end
    t.equal(count, 500)
    db:call("HSET", "h", "x", 1, "y", 2)
    db:call("SADD", "s", "one")
    db:call("ZADD", "z", 3, "m")
    local function all(...)
      local result = {}
      for a, b in db:rows(...) do result[a] = b or true end
      return result
    end
    t.equal(all("HSCAN", "h"), { x = "1", y = "2" })
    t.equal(all("sscan", "s"), { one = true })
    t.equal(all("ZSCAN", "z"), { m = "3" })
    t.error(function() all("SSCAN", "h") end, "EINVAL: .*WRONGTYPE")
  end)

  t.it("that block have separate connections", function()
    local db = open { size = 3 }
    local tasks = {}
    for i = 1, 5 do tasks[i] = rl.task(function() return db:call("BLPOP", "q", 10) end) end
    rl.sleep(0.05)
    t.equal(db:call "PING", "PONG")
    t.equal(db:stats().waiting, 2)
    for i = 1, 5 do db:call("RPUSH", "q", i) end
    local sum = 0
    for i = 1, 5 do sum = sum + tasks[i]:await()[2] end
    t.equal(sum, 15)
    t.equal(pack(db:call("BLPOP", "q", 0.05)), { nil, n = 1 })
    t.equal(pack(db:call("XREAD", "BLOCK", 20, "STREAMS", "s", "$")), { nil, n = 1 })
    t.truthy(db:stats().connections <= 4)
  end)

  t.it("use a Unix socket, and choose a database", function()
    local db = open(nil, "unix:" .. shared():directory() .. "/socket")
    local other = open { database = 3, name = "third" }
    other:call("SET", "only", 3)
    t.equal(db:call("GET", "only"), nil)
    t.equal(other:name(), "third")
    t.truthy(other:call("CLIENT", "LIST"):find("name=third", 1, true))
    local by_url = open(nil, shared():url():gsub("/0$", "/3"))
    t.equal(by_url:call("GET", "only"), "3")
    t.truthy(tostring(by_url):find("open, made at", 1, true))
  end)

  t.it("begin after the commands of setup", function()
    local db = open { setup = { { "SELECT", 5 }, { "SET", "a", 7 }, { "GET", "none" } } }
    t.equal(db:call("CLIENT", "INFO"):match "db=(%d+)", "5")
    local nothing, _, code = redis.open(shared():url(), { setup = { { "FROB" } } })
    t.equal({ nothing, code }, { nil, "EINVAL" })
  end)
end)

t.describe("a transaction", function()
  t.it("runs its commands without others between them", function()
    local db = open()
    db:call("SET", "a", 1)
    local tx <close> = t.truthy(db:begin { watch = "a" })
    t.equal(tx:call("GET", "a"), "1")
    t.equal(tx:queue("INCR", "a"), true)
    tx:queue("LPUSH", "a", 1)
    tx:queue("GET", "none")
    t.equal(db:call("GET", "a"), "1")
    local answers, problems = tx:commit()
    t.equal({ answers[1], answers[2], answers[3] }, { 2 })
    t.equal(problems[2].code, "EINVAL")
    local nothing, message, code = tx:call "PING"
    t.equal({ nothing, code }, { nil, "ENOTCONN" })
    t.truthy(message:find("the transaction is over %(committed at .-redis_test.lua:%d+%)"), message)
  end)

  t.it("is refused if a watched key has changed, and nothing is done", function()
    local db = open()
    local tx <close> = t.truthy(db:begin { watch = { "a", "b" } })
    db:call("SET", "b", 1)
    tx:queue("SET", "a", 1)
    t.equal(pack(tx:commit()), { nil, "EAGAIN: a watched key has changed", "EAGAIN", n = 3 })
    t.equal(db:call("EXISTS", "a"), 0)
  end)

  t.it("that is not committed does nothing, and its connection watches nothing afterwards", function()
    local db = open { size = 1 }
    do
      local tx <close> = t.truthy(db:begin { watch = "a" })
      tx:queue("SET", "a", 1)
    end
    local tx <close> = t.truthy(db:begin())
    db:call("SET", "a", 5)
    tx:queue("GET", "a")
    t.equal(tx:commit(), { "5" })
    t.equal(tx:rollback(), nil)
    local third <close> = t.truthy(db:begin())
    t.equal(third:rollback(), true)
  end)

  t.it("with a wrong command does nothing", function()
    local db = open()
    local tx <close> = t.truthy(db:begin())
    tx:queue("SET", "a", 1)
    tx:queue("FROB")
    t.equal(select(3, tx:commit()), "EINVAL")
    t.equal(db:call("EXISTS", "a"), 0)
  end)

  t.it("of a hundred tasks that increment a key loses nothing", { timeout = 60 }, function()
    local db = open { size = 20 }
    db:call("SET", "n", 0)
    local tasks = {}
    for i = 1, 100 do
      tasks[i] = rl.task(function()
        repeat
          local tx <close> = assert(db:begin { watch = "n" })
          tx:queue("SET", "n", tx:call("GET", "n") + 1)
          local answers, problem, code = tx:commit()
          assert(answers or code == "EAGAIN", problem)
        until answers
      end)
    end
    for i = 1, 100 do tasks[i]:await() end
    t.equal(db:call("GET", "n"), "100")
    t.truthy(db:stats().connections <= 21)
  end)
end)

t.it("a connection that a task has taken keeps its state", function()
  local db = open { size = 1 }
  do
    local own <close> = t.truthy(db:connection())
    t.equal(own:call("SELECT", 4), "OK")
    own:call("SET", "mine", 1)
    t.equal(own:batch { { "GET", "mine" } }, { "1" })
    t.equal(own:script("return ARGV[1]", {}, 2), "2")
    for key in own:rows "SCAN" do t.equal(key, "mine") end
    do
      local tx <close> = t.truthy(own:begin())
      tx:queue("INCR", "mine")
      t.equal(tx:commit(), { 2 })
    end
    t.error(function() own:call("SUBSCRIBE", "x") end, "use subscribe")
  end
  t.equal(db:call("EXISTS", "mine"), 0)
  local own = t.truthy(db:connection())
  t.equal(own:call("EXISTS", "mine"), 0)
  own:close()
  t.equal(select(3, own:call "PING"), "ENOTCONN")
end)

t.describe("refusals", function()
  t.it("have one of the common codes, and Redis's own in the details", function()
    local db = open()
    db:call("SET", "a", "text")
    for code, words in pairs {
      WRONGTYPE = { "LPUSH", "a", 1 }, ERR = { "FROB" }, NOSCRIPT = { "EVALSHA", ("0"):rep(40), 0 },
    } do
      local result = pack(db:call(table.unpack(words)))
      t.equal({ result[1], result[3], result[4].code, result.n }, { nil, "EINVAL", code, 4 })
      t.equal(result[2]:sub(1, 8), "EINVAL: ")
    end
    db:call("ACL", "SETUSER", "poor", "on", ">secret", "+ping", "+hello", "+get")
    local poor = open({ user = "poor", password = "secret" }, shared():address())
    t.equal(poor:call "PING", "PONG")
    t.equal(select(3, poor:call("SET", "a", 1)), "EACCES")
  end)

  t.it("of a wrong password do not contain the password", function()
    local server = t.server("redis", { arguments = { "--requirepass", "secret" } })
    local port = server:port()
    local function refusal(...)
      local result = pack(redis.open(...))
      t.equal(result[3], "EAUTH", result[2])
      t.equal(tostring(result[2]):find "wr0ng", nil)
      return result
    end
    refusal("redis://:wr0ng@127.0.0.1:" .. port)
    refusal(port, { password = "wr0ng" })
    refusal(port)
    local db <close> = t.truthy(redis.open("redis://:secret@127.0.0.1:" .. port))
    t.equal(db:call "PING", "PONG")
    t.equal((db:name() .. tostring(db)):find "secret", nil)
    t.error(function() redis.open "user:wr0ng@host" end, '^[^0]*got "host"')
  end)

  t.it("of a missing server are returned at once", function()
    local nothing, _, code = redis.open "127.0.0.1:1"
    t.equal({ nothing, code }, { nil, "ECONNREFUSED" })
    t.equal(select(3, redis.open "unix:/nowhere/at/all"), "ENOENT")
  end)

  t.it("return an error for too large an answer, and the next call works", function()
    local db = open { max = 1000 }
    db:call("SET", "a", ("x"):rep(2000))
    t.equal(select(3, db:call("GET", "a")), "EMSGSIZE")
    t.equal(db:call "PING", "PONG")
  end)

  t.it("raise an error if the call is wrong", function()
    local db = open()
    local function wrong(text, fn, ...)
      local arguments = pack(...)
      t.error(function() fn(table.unpack(arguments, 1, arguments.n)) end, text)
    end
    wrong("db:call: argument #1 must be a command, got nothing", db.call, db)
    wrong("db:call: argument #1", db.call, db, 5)
    wrong("db:call: argument #3 must be a string or a number, got nothing", db.call, db, "SET", "a", nil)
    wrong("db:call: argument #2", db.call, db, "GET", true)
    wrong("db:call: argument #2", db.call, db, "GET", {})
    wrong("db:call: call it with a colon", db.call, "GET")
    wrong("db:query: redis databases have call%(%), not query%(%)", db.query, db, "x")
    wrong("db:value: redis databases have call%(%), not value%(%)", db.value, db)
    for name, instead in pairs {
      SELECT = "connection", watch = "begin", MULTI = "begin", EXEC = "begin", DISCARD = "begin", AUTH = "connection",
      HELLO = "connection", SUBSCRIBE = "subscribe", PSUBSCRIBE = "subscribe", QUIT = "close", RESET = "connection",
      MONITOR = "connection",
    } do wrong(instead, db.call, db, name) end
    wrong("CLIENT REPLY needs a connection of its own", db.call, db, "client", "reply", "OFF")
    wrong("REPLCONF needs a connection of its own", db.call, db, "replconf", "ack", 1)
    wrong("db:batch: argument #1", db.batch, db)
    wrong("must have an entry", db.batch, db, {})
    wrong("db:batch: entry 1 must be a list of words, got \"PING\"", db.batch, db, { "PING" })
    wrong("db:batch: entry 2: argument #2", db.batch, db, { { "PING" }, { "GET", nil, 1 } })
    wrong("db:batch: entry 1: BLPOP blocks", db.batch, db, { { "BLPOP", "a", 1 } })
    wrong("db:script: argument #1", db.script, db)
    wrong("db:script: argument #2", db.script, db, "return 1", "k")
    wrong("db:script: key 1", db.script, db, "return 1", { {} })
    wrong("db:script: argument #3", db.script, db, "return 1", {}, false)
    wrong("db:rows: argument #1 must be SCAN", db.rows, db, "KEYS")
    wrong("db:rows: argument #2", db.rows, db, "HSCAN")
    wrong("db:begin: unknown field 'wach'", db.begin, db, { wach = "a" })
    wrong("db:close: argument #1", db.close, db, -1)
    wrong("redis.open: argument #1", redis.open)
    wrong("redis.open: argument #1", redis.open, "http://x")
    wrong("redis.open: argument #1", redis.open, "redis://host/abc")
    wrong("redis.open: unknown field 'sise'", redis.open, "localhost:1", { sise = 1 })
    wrong("redis.open: setup: entry 1", redis.open, "localhost:1", { setup = { "PING" } })
    local tx <close> = t.truthy(db:begin())
    wrong("tx:queue: argument #1", tx.queue, tx)
    wrong("tx:queue: EXEC", tx.queue, tx, "EXEC")
    wrong("tx:call: SELECT", tx.call, tx, "SELECT", 1)
  end)
end)

t.describe("cancelled calls", function()
  t.it("leave the connection usable, and their answers go to no other call", { timeout = 60 }, function()
    local db = open()
    local list = {}
    for i = 1, 1000 do list[i] = { "SET", "k" .. i, i } end
    db:batch(list)
    for i = 1, 1000 do
      local task = rl.task(function() return db:call("GET", "k" .. i) end)
      if i % 3 == 0 then rl.sleep(0) end
      task:cancel()
      if i % 10 == 0 then t.equal(db:call("GET", "k" .. i), tostring(i)) end
    end
    for i = 1, 1000 do t.equal(db:call("GET", "k" .. i), tostring(i)) end
    local stats = db:stats()
    t.equal({ stats.connections, stats.lost }, { 1, 0 })
    t.truthy(stats.cancelled > 0)
  end)

  local REAL = { timeout = 60, real_time = true }
  t.it("close their connections if they block, within the limit of connections", REAL, function()
    local db = open { size = 4 }
    for i = 1, 60 do
      local task = rl.task(function() return db:call("BLPOP", "q", 5) end)
      rl.sleep(i % 3 * 0.002)
      task:cancel()
      t.truthy(db:stats().connections <= 5)
    end
    -- Connections that were being opened for cancelled calls become idle. The server may still have to read commands on
    -- connections that are closed: these commands would pop the value.
    t.eventually(function() return db:stats().in_use == 0 end)
    t.eventually(function()
      local _, count = db:call("CLIENT", "LIST"):gsub("\n", "")
      return count == db:stats().connections
    end)
    db:call("RPUSH", "q", "x")
    t.equal(db:call("BLPOP", "q", 1), { "q", "x" })
    t.eventually(function() return db:stats().in_use == 0 end)
  end)

  t.it("close the connection of their transaction", function()
    local db = open { size = 1 }
    local task = rl.task(function()
      local tx <close> = assert(db:begin { watch = "a" })
      tx:call("BLPOP", "q", 5)
    end)
    rl.sleep(0.05)
    task:cancel()
    local tx <close> = t.truthy(db:begin())
    tx:queue "PING"
    t.equal(tx:commit(), { "PONG" })
  end)
end)

t.describe("a server that", { timeout = 60 }, function()
  t.it("was killed is refused at once, and found again", { real_time = true }, function()
    local server = t.server "redis"
    local db = open({ size = 2 }, server:url())
    db:call("SET", "a", 1)
    local task = rl.task(function() return db:call("BLPOP", "q", 0) end)
    do
      local _ <close> = t.truthy(db:begin())
    end
    rl.sleep(0.05)
    server:kill()
    t.equal(select(3, task:await()), "ECONNRESET")
    t.eventually(function() return db:stats().connections == 0 end)
    t.equal(select(3, db:call("GET", "a")), "ECONNREFUSED")
    t.equal(select(3, db:call("BLPOP", "q", 1)), "ECONNREFUSED")
    server:restart()
    rl.sleep(1)
    t.equal(db:call("GET", "a"), "1")
    t.equal(db:call("BLPOP", "q", 0.01), nil)
    t.truthy(db:stats().lost >= 1)
  end)

  t.it("is silent ends calls at their time limit, and no answer goes to another call", { real_time = true }, function()
    local server = t.server "redis"
    local db = open({ timeout = 0.1 }, server:url())
    db:call("SET", "a", 1)
    server:pause()
    t.equal(pack(db:call("GET", "a")), { nil, "timed out", n = 2 })
    t.equal(pack(db:batch { { "GET", "a" } }), { nil, "timed out", n = 2 })
    server:resume()
    t.equal(db:call("ECHO", "b"), "b")
    server:pause()
    t.equal(select(3, redis.open(server:url(), { connect_timeout = 0.1 })), "ETIMEDOUT")
    server:resume()
  end)

  t.it("sends invalid data loses its connection", { real_time = true }, function()
    local text
    local address = impostor(function() return text end)
    local db = open({ timeout = 0.2 }, address)
    for _, nonsense in ipairs { "frob\r\n", "$-5\r\n", "*1\n\r\n", "$1\r\nabc\r\n", ("*1\r\n"):rep(70), ":1\r\n:2\r\n",
      "+a\0b\r\n", "\0", "$99999999999999999999\r\n" } do
      text = nonsense
      local answer, message, code = db:call "PING"
      local is_refusal = code == "EPROTO" or code == "ECONNRESET" or code == "EMSGSIZE"
      t.truthy(answer or is_refusal or message == "timed out", message)
      rl.sleep(0.01)
    end
    text = "+a\0b\r\n"
    t.equal(db:call "PING", "a\0b")
    text = nil
    t.equal(select(3, db:call "PING"), "ECONNRESET")
  end)

  t.it("sends random bytes causes answers or refusals", { real_time = true }, function()
    local pieces = { "+OK\r\n", ":1\r\n", "$3\r\nabc\r\n", "*2\r\n", "%1\r\n", "_\r\n", "$-1\r\n", "-ERR x\r\n",
      "#t\r\n", ",1.5\r\n", "|1\r\n", ">1\r\n", "~1\r\n", "(12\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n", "\0",
      "\r\n", "*", "9" }
    local address = impostor(function()
      local list = {}
      for i = 1, math.random(1, 12) do
        list[i] = math.random() < 0.9 and pieces[math.random(#pieces)] or string.char(math.random(0, 255))
      end
      local text = table.concat(list)
      return text:sub(1, math.random(1, #text))
    end)
    local db = open({ timeout = 0.02 }, address)
    local kinds = {}
    for _ = 1, 150 do
      local answer, message, code = db:call "PING"
      local kind = message == "timed out" and message or code or answer ~= nil and "answer" or "nil"
      kinds[kind] = (kinds[kind] or 0) + 1
    end
    t.truthy(kinds.answer and kinds.EPROTO, "no answer, or no refusal")
  end)
end)

t.it("a transaction ends with its connection", { real_time = true }, function()
  local own = t.server "redis"
  local db <close> = t.truthy(redis.open(own:url()))
  local tx, connection = t.truthy(db:begin { watch = "k" }), t.truthy(db:connection())
  tx:queue("SET", "k", 1)
  own:kill()
  t.eventually(function() return db:stats().lost >= 2 end)
  local nothing, message, code = tx:commit()
  t.equal({ nothing, code }, { nil, "ENOTCONN" })
  t.truthy(message:find("the transaction is over (the connection was lost", 1, true), message)
  t.equal(select(3, tx:call("GET", "k")), "ENOTCONN")
  t.equal(select(3, tx:queue("GET", "k")), "ENOTCONN")
  t.equal(select(2, connection:call("GET", "k")), "ENOTCONN: the connection is closed")
  t.equal(db:stats().in_use, 0)
end)

t.it("one lost connection makes the database check the shared one before its next use", { real_time = true }, function()
  local server = t.server "redis"
  local db = open({}, server:url())
  local id = db:call("CLIENT", "ID")
  local function blocked()
    local task = rl.task(function() return (select(3, db:call("BLPOP", "nothing", 0))) end)
    rl.sleep(0.05)
    return task
  end
  local task = blocked()
  t.equal(db:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), 1)
  t.equal({ task:await(), db:call("CLIENT", "ID") }, { "ECONNRESET", id })
  task = blocked()
  server:kill()
  -- The connection of all tasks is lost at the same moment, so PING is not sent.
  t.equal({ task:await(), (select(3, db:call "PING")) }, { "ECONNRESET", "ECONNREFUSED" })
end)

t.it("a restart of the server between two calls fails neither of them, in virtual time as well", function()
  local server = t.server "redis"
  local db = open({}, server:url())
  do
    local own <close> = t.truthy(db:begin())
    t.equal(own:rollback(), true)
  end
  for _ = 1, 3 do
    server:restart()
    t.equal(db:call("SET", "a", "1"), "OK")
    server:restart()
    local tx <close> = t.truthy(db:begin { watch = "a" })
    t.equal(tx:rollback(), true)
  end
end)

t.it("keys and groups may be called BLOCK and STREAMS", function()
  local db = open()
  t.equal(db:call("XGROUP", "CREATE", "block", "block", "$", "MKSTREAM"), "OK")
  t.equal(pack(db:call("XREADGROUP", "GROUP", "block", "block", "STREAMS", "block", ">")), { nil, n = 1 })
  t.equal(pack(db:call("XREAD", "COUNT", 1, "STREAMS", "block", "0")), { nil, n = 1 })
  -- Neither of the two calls needed another connection.
  t.equal(db:stats().connections, 1)
end)

t.it("more calls than max_waiting get an error at once", { real_time = true }, function()
  local db <close> = t.truthy(redis.open(shared():url(), { size = 1, max_waiting = 1 }))
  local own = t.truthy(db:connection())
  local task = rl.task(function() return db:call("BLPOP", "none", 0.01) end)
  rl.sleep(0.01)
  t.equal(select(3, db:connection()), "ENOBUFS")
  own:close()
  t.equal(task:await(), nil)
  t.error(function() db:call("SYNC") end, "SYNC needs a connection of its own")
end)

t.it("calls work in a nested run of another mode", function()
  local db = open()
  db:call("SET", "a", 7)
  local found, other
  local timer = rl.timer { delay = 0, modes = { "modal" }, callback = function()
    found = db:call("GET", "a")
    other = db:call("BLPOP", "q", 0.01)
    rl.stop()
  end }
  rl.current():add(timer, "modal")
  rl.run { mode = "modal", timeout = 5 }
  t.equal({ found, other }, { "7" })
end)

t.it("a call keeps the program alive, but an idle database does not", { real_time = true }, function()
  local program = t.spawn { t.rlhost, "-e", ([[
    local rl, redis = require "runloop", require "runloop.redis"
    local db = assert(redis.open %q)
    rl.task(function() print(db:call("BLPOP", "none", 0.2)) end)]]):format(shared():url()) }
  t.equal(program:wait(), 0)
  t.equal(program:output(), "nil\n")
end)

t.it("close waits for running calls, ends blocked ones, and refuses new ones", { real_time = true }, function()
  local db = open { name = "orders" }
  local task = rl.task(function() return db:call("BLPOP", "q", 60) end)
  rl.sleep(0.05)
  t.equal(db:close(0.1), true)
  t.equal(select(3, task:await()), "ECONNRESET")
  t.equal(pack(db:call "PING"), { nil, "ENOTCONN: the database is closed (orders)", "ENOTCONN", n = 3 })
  t.equal({ db:is_open(), db:close() }, { false, true })
end)

t.it("an idle database beside a real server does not hold the clock", function()
  local db = open()
  local connection <close> = t.truthy(db:connection())
  t.equal(connection:call("SET", "a", 1), "OK")
  local began = rl.now()
  rl.sleep(3600)
  t.equal({ db:call("GET", "a"), connection:call("GET", "a") }, { "1", "1" })
  local late = rl.task(function() return db:call("BLPOP", "none", 0.2) end)
  t.equal(pack(late:await()), { nil, n = 1 })
  rl.sleep(3600)
  t.equal(db:call "PING", "PONG")
  t.truthy(rl.now() - began < 7300)
end)
