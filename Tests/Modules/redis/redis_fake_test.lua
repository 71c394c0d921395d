-- redis.fake: the same cases against the fake, in virtual time, and against a real server; random commands, whose
-- answers are equal in bytes; and the failures that only a fake has.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local redis = require "runloop.redis"
local json = require "runloop.json"

-- With this setting the server checks 500 times a second, not ten times, which clients have waited long enough.
local server = t.resource(function() return t.server("redis", { arguments = { "--hz", "500" } }) end)

local function open(where, options)
  local db = t.truthy(redis.open(where, options))
  t.finally(function() db:close() end)
  return db
end

local pack = table.pack

-- Cases of both. `start()` returns what redis.open takes.
local function cases(start)
  t.it("keeps strings, hashes, lists, sets and sorted sets", function()
    local db = open(start())
    t.equal(db:call("SET", "a", 1, "EX", 100), "OK")
    t.equal(db:call("INCR", "a"), 2)
    t.equal(db:call("TTL", "a"), 100)
    t.equal(pack(db:call("GET", "none")), { nil, n = 1 })
    t.equal(db:call("MGET", "a", "none"), { "2", json.null })
    db:call("HSET", "h", "x", 1, "y", 2.5)
    t.equal(db:call("HGETALL", "h"), { x = "1", y = "2.5" })
    db:call("RPUSH", "l", "a", "b", "c")
    t.equal(db:call("LRANGE", "l", 1, -1), { "b", "c" })
    db:call("SADD", "s", "one", "one")
    t.equal(db:call("SMEMBERS", "s"), { "one" })
    db:call("ZADD", "z", 2.5, "m", 1, "n")
    t.equal(db:call("ZRANGE", "z", 0, -1, "WITHSCORES"), { { "n", 1 }, { "m", 2.5 } })
    t.equal(math.type(db:call("ZSCORE", "z", "n")), "float")
    local _, message, code, details = db:call("LPUSH", "a", 1)
    t.equal({ message, code, details.code }, {
      "EINVAL: Operation against a key holding the wrong kind of value (WRONGTYPE)", "EINVAL", "WRONGTYPE" })
    t.equal(select(3, db:call("FROB", 1)), "EINVAL")
  end)

  t.it("removes keys at the end of their time to live", function()
    local db = open(start())
    db:call("SET", "a", 1, "PX", 60)
    db:call("HSET", "h", "x", 1)
    db:call("PEXPIRE", "h", 60)
    t.equal(db:call("EXISTS", "a", "h"), 2)
    rl.sleep(0.08)
    t.equal(db:call("EXISTS", "a", "h"), 0)
    t.equal(db:call("TTL", "a"), -2)
    t.equal(db:call("HSETNX", "h", "y", 1), 1)
  end)

  t.it("serves blocked clients in turn", function()
    local db = open(start())
    local tasks = {}
    for i = 1, 3 do
      tasks[i] = rl.task(function() return db:call("BLPOP", "q", "r", 10) end)
      t.eventually(function() return select(2, db:call("CLIENT", "LIST"):gsub("cmd=blpop", "")) == i end)
    end
    local moved = rl.task(function() return db:call("BLMOVE", "m", "q", "LEFT", "RIGHT", 10) end)
    t.eventually(function() return db:call("CLIENT", "LIST"):find("cmd=blmove", 1, true) end)
    local least = rl.task(function() return db:call("BZPOPMIN", "z", 10) end)
    t.eventually(function() return db:call("CLIENT", "LIST"):find("cmd=bzpopmin", 1, true) end)
    db:call("RPUSH", "r", 1)
    db:call("RPUSH", "m", 2)
    db:batch { { "RPUSH", "q", 3, 4 } }
    db:call("ZADD", "z", 5, "five")
    t.equal(tasks[1]:await(), { "r", "1" })
    t.equal(tasks[2]:await(), { "q", "2" })
    t.equal(tasks[3]:await(), { "q", "3" })
    t.equal(moved:await(), "2")
    t.equal(least:await(), { "z", "five", 5 })
    t.equal(db:call("LRANGE", "q", 0, -1), { "4" })
    t.equal(pack(db:call("BLPOP", "none", 0.05)), { nil, n = 1 })
    t.equal(pack(db:call("BLMOVE", "none", "q", "LEFT", "LEFT", 0.05)), { nil, n = 1 })
  end)

  t.it("keeps an element for the next client if the waiting one has left", function()
    local db = open(start())
    local task = rl.task(function() return db:call("BLPOP", "q", 0) end)
    t.eventually(function() return db:call("CLIENT", "LIST"):find("cmd=blpop", 1, true) end)
    task:cancel()
    t.eventually(function() return not db:call("CLIENT", "LIST"):find("cmd=blpop", 1, true) end)
    db:call("RPUSH", "q", 1)
    t.equal(db:call("LLEN", "q"), 1)
  end)

  t.it("runs a transaction only if its watched keys have not changed", function()
    local db = open(start())
    local tx <close> = t.truthy(db:begin { watch = "a" })
    tx:queue("INCR", "a")
    tx:queue("LPUSH", "a", 1)
    tx:queue("GET", "none")
    local answers, problems = tx:commit()
    t.equal({ answers[1], problems[2].details.code, answers[3] }, { 1, "WRONGTYPE" })
    local other <close> = t.truthy(db:begin { watch = { "a", "b" } })
    db:call("INCR", "b")
    other:queue("SET", "a", 9)
    t.equal(pack(other:commit()), { nil, "EAGAIN: a watched key has changed", "EAGAIN", n = 3 })
    t.equal(db:call("GET", "a"), "1")
    local timed <close> = t.truthy(db:begin { watch = "c" })
    timed:call("SET", "d", 1, "PX", 20)
    local late <close> = t.truthy(db:begin { watch = "d" })
    rl.sleep(0.04)
    late:queue("SET", "e", 1)
    t.equal(select(3, late:commit()), "EAGAIN")
  end)

  t.it("publishes to channels and patterns", function()
    local db = open(start())
    local s <close> = t.truthy(db:subscribe { "a", "b" })
    local p <close> = t.truthy(db:subscribe("n*s", { pattern = true }))
    t.equal(db:call("PUBLISH", "b", "one"), 1)
    t.equal(db:call("PUBLISH", "news", "two"), 1)
    t.equal(db:call("PUBLISH", "none", "three"), 0)
    t.equal({ s:receive(5) }, { "one", "b" })
    t.equal({ p:receive(5) }, { "two", "news" })
    t.equal(select(2, s:receive(0.01)), "timed out")
    local gap
    local back <close> = t.truthy(db:subscribe("c", { on_gap = function(seconds) gap = seconds end }))
    t.equal(db:call("CLIENT", "KILL", "TYPE", "pubsub"), 1)
    t.eventually(function() return gap ~= nil end)
    db:call("PUBLISH", "c", "four")
    t.equal({ back:receive(5) }, { "four", "c" })
  end)

  t.it("scans all keys that are not removed meanwhile", function()
    local db = open(start())
    local list = {}
    for i = 1, 300 do list[i] = { "SET", "user:" .. i, i } end
    db:batch(list)
    db:call("SADD", "user:set", 1)
    local found, count = {}, 0
    for key in db:rows("SCAN", "MATCH", "user:*", "TYPE", "string") do
      if not found[key] then count = count + 1 end
      found[key] = true
      db:call("DEL", "user:set")
      db:call("SET", "other:" .. key, 1)
    end
    t.equal(count, 300)
    db:call("HSET", "h", "x", 1, "y", 2)
    db:call("ZADD", "z", 3.5, "m")
    local pairs_of = {}
    for field, value in db:rows("HSCAN", "h") do pairs_of[field] = value end
    for field, value in db:rows("ZSCAN", "z", "MATCH", "[a-z]") do pairs_of[field] = value end
    t.equal(pairs_of, { x = "1", y = "2", m = "3.5" })
  end)

  t.it("has numbered databases and names of clients", function()
    local where = start()
    local db, third = open(where), open(where, { database = 3, name = "third" })
    third:call("SET", "only", 3)
    t.equal(db:call("GET", "only"), nil)
    t.truthy(third:call("CLIENT", "LIST"):find("name=third", 1, true))
    t.equal(third:call("CLIENT", "GETNAME"), "third")
    t.equal(db:call "FLUSHDB", "OK")
    t.equal(third:call "DBSIZE", 1)
    t.equal(db:call "FLUSHALL", "OK")
    t.equal(third:call "DBSIZE", 0)
    t.equal(select(3, redis.open(where, { database = 99 })), "EINVAL")
  end)
end

t.describe("a fake of Redis", function() cases(redis.fake) end)

t.describe("a real server of Redis", { real_time = true }, function()
  cases(function()
    local url = server():url()
    local db <close> = t.truthy(redis.open(url))
    db:call "FLUSHALL"
    return url
  end)
end)

-- Equal answers -------------------------------------------------------------------------------------------------------

-- Reads one answer, and returns its bytes; the elements of a set are sorted, as servers order them in their own way.
local function read_answer(stream, is_sorted)
  local line = t.truthy(stream:read_line { max = 1 << 20 })
  local mark, count = line:sub(1, 1), tonumber(line:match "^.(%-?%d+)\r?$")
  line = line:gsub("\r$", "")
  if mark == "$" and count >= 0 then return line .. "\n" .. stream:read_exactly(count + 2) end
  if not ("*~%>"):find(mark, 1, true) or count < 0 then return line .. "\n" end
  local pieces = {}
  for i = 1, mark == "%" and 2 * count or count do pieces[i] = read_answer(stream, is_sorted) end
  if mark == "%" then
    for i = 1, count do pieces[i] = pieces[i] .. table.remove(pieces, i + 1) end
  end
  if is_sorted or mark == "~" or mark == "%" then table.sort(pieces) end
  return line .. "\n" .. table.concat(pieces)
end

local function encode(words)
  local pieces = { "*" .. #words .. "\r\n" }
  for i, word in ipairs(words) do pieces[i + 1] = "$" .. #tostring(word) .. "\r\n" .. word .. "\r\n" end
  return table.concat(pieces)
end

local UNORDERED = { SMEMBERS = true, SUNION = true, SINTER = true, SDIFF = true, KEYS = true, HKEYS = true,
  HGETALL = true, HVALS = true, SPOP = true }

-- The words of commands, where small letters stand for random words. k: key; v: value; n: small integer; f: half;
-- m: member; s: bound of scores; x: bound of names; d: side; g: pattern.
local SHAPES = {
  "SET k v", "SET k n", "SET k v NX", "SET k v XX GET", "SET k v EX 100", "SET k v KEEPTTL", "SET k v EX 0",
  "SET k v GET", "SET k v EX 1 PX 1", "SET k v FROB", "GET k", "GETSET k v", "GETDEL k", "SETNX k v", "SETEX k 100 v",
  "PSETEX k 100000 v", "SETEX k -1 v", "GETEX k EX 100", "GETEX k PERSIST", "GETEX k", "MGET k k k", "MSET k v k v",
  "MSET k v k", "MSETNX k v k v", "APPEND k v", "STRLEN k", "GETRANGE k n n", "SETRANGE k n v", "SETRANGE k 3 v",
  "INCR k", "DECR k", "INCRBY k n", "DECRBY k n", "INCRBY k v", "SET e f", "INCRBYFLOAT e f", "INCRBYFLOAT e v",
  "SET k 9223372036854775807", "SET k -9223372036854775808", "DECRBY k -9223372036854775808", "INCRBYFLOAT e inf",
  "DEL k k", "UNLINK k", "EXISTS k k k", "TYPE k", "EXPIRE k 100", "EXPIRE k 200 NX", "EXPIRE k 50 GT",
  "EXPIRE k 50 LT", "EXPIRE k 1 XX GT", "EXPIRE k 1 GT LT", "EXPIRE k 1 FROB", "EXPIRE k -1", "PEXPIRE k 100000",
  "EXPIREAT k 1", "EXPIRE k 9223372036854775807", "TTL k", "PERSIST k", "RENAME k k", "RENAMENX k k", "KEYS g",
  "DBSIZE", "TOUCH k k", "FLUSHDB", "FLUSHALL SYNC", "FLUSHDB NOW", "RANDOMKEY k", "HSET k m v", "HSET k m v m n",
  "HSET k m", "HMSET k m v", "HSETNX k m v", "HGET k m", "HMGET k m m m", "HGETALL k", "HDEL k m m", "HLEN k",
  "HEXISTS k m", "HKEYS k", "HVALS k", "HINCRBY k m n", "HINCRBYFLOAT k m f", "HSTRLEN k m", "LPUSH k v",
  "RPUSH k v v v", "LPUSHX k v", "RPUSHX k v", "LPOP k", "RPOP k", "LPOP k n", "RPOP k 2", "LPOP k 0", "LPOP k 1 1",
  "LLEN k", "LRANGE k n n", "LRANGE k 0 -1", "LRANGE k a b", "LINDEX k n", "LINDEX k x", "LSET k n v", "LREM k n v",
  "LTRIM k n n", "LINSERT k BEFORE v v", "LINSERT k AFTER v v", "LINSERT k FROB v v", "LPOS k v", "LPOS k v RANK n",
  "LPOS k v COUNT 0", "LPOS k v COUNT 2 RANK -1 MAXLEN 3", "LMOVE k k d d", "LMOVE k k FROB d", "RPOPLPUSH k k",
  "LMPOP 2 k k d", "LMPOP 2 k k d COUNT 2", "LMPOP 0 k d", "LMPOP 1 k d COUNT 0", "BLPOP k k 0.001", "BRPOP k 0.001",
  "BLMOVE k k d d 0.001", "BRPOPLPUSH k k 0.001", "BLMPOP 0.001 1 k d", "BLPOP k -1", "BLPOP k x", "SADD k m m",
  "SREM k m m", "SCARD k", "SISMEMBER k m", "SMISMEMBER k m m", "SMEMBERS k", "SMOVE k k m", "SINTER k k",
  "SUNION k k k", "SDIFF k k", "SINTERSTORE k k k", "SUNIONSTORE k k k", "SDIFFSTORE k k k", "SINTERCARD 2 k k",
  "SINTERCARD 2 k k LIMIT 1", "SINTERCARD 3 k k", "SINTERCARD 0 k", "SINTERCARD 1 k LIMIT -1", "SPOP none",
  "SRANDMEMBER none", "SRANDMEMBER none 2", "SPOP k 0", "SPOP k 100", "ZADD k f m", "ZADD k f m f m", "ZADD k NX f m",
  "ZADD k XX CH f m f m", "ZADD k GT CH f m", "ZADD k LT f m", "ZADD k INCR f m", "ZADD k XX INCR f m",
  "ZADD k NX XX f m", "ZADD k NX GT f m", "ZADD k INCR f m f m", "ZADD k f", "ZADD k inf m", "ZADD k INCR -inf m",
  "ZADD k x m", "ZINCRBY k f m", "ZREM k m m", "ZSCORE k m", "ZMSCORE k m m", "ZCARD k", "ZRANK k m", "ZREVRANK k m",
  "ZCOUNT k s s", "ZLEXCOUNT lex x x", "ZRANGE k n n", "ZRANGE k 0 -1 WITHSCORES", "ZRANGE k 0 -1 REV WITHSCORES",
  "ZRANGE k s s BYSCORE", "ZRANGE k s s BYSCORE REV LIMIT 1 2", "ZADD lex 0 m 0 m", "ZRANGE lex x x BYLEX",
  "ZRANGE k x x BYLEX WITHSCORES", "ZRANGE k 0 1 LIMIT 0 1", "ZRANGE k a b", "ZREVRANGE k n n WITHSCORES",
  "ZRANGEBYSCORE k s s", "ZRANGEBYSCORE k s s WITHSCORES LIMIT 0 2", "ZREVRANGEBYSCORE k s s", "ZRANGEBYSCORE k x y",
  "ZRANGEBYLEX lex x x", "ZRANGEBYLEX k y y", "ZREVRANGEBYLEX lex x x LIMIT 0 -1", "ZREMRANGEBYRANK k n n",
  "ZREMRANGEBYSCORE k s s", "ZREMRANGEBYLEX lex x x", "ZPOPMIN k", "ZPOPMAX k 2", "ZPOPMIN k 0", "ZPOPMIN k -1",
  "ZPOPMIN k 1 1", "BZPOPMIN k k 0.001", "BZPOPMAX k 0.001", "ZMPOP 2 k k MIN", "ZMPOP 1 k MAX COUNT 2",
  "ZMPOP 1 k FROB", "BZMPOP 0.001 2 k k MIN", "MULTI", "MULTI", "EXEC", "EXEC", "EXEC", "DISCARD", "WATCH k",
  "UNWATCH", "PING", "PING v", "PING v v", "ECHO v", "GET", "FROB k v", "CLIENT FROB", "CLIENT", "CLIENT SETNAME",
  "CLIENT GETNAME", "CLIENT SETNAME v", "PUBLISH k v", "PUBSUB NUMPAT", "PUBSUB NUMSUB k", "SELECT 0", "SELECT 99",
  "SELECT x", "AUTH v", "AUTH v v", "AUTH default v", "HELLO 4", "HELLO x", "SCAN x", "SCAN 0 COUNT 0",
  "SCAN 0 FROB 1", "SSCAN none 0", "HSCAN k x",
}

local function pick(list) return list[math.random(#list)] end

local WORDS = {
  k = function() return pick { "a", "b", "c", "d" } end,
  v = function() return pick { "x", "y", "", "a\r\nb", "10", "7", ("long"):rep(30) } end,
  n = function() return tostring(math.random(-3, 3)) end,
  f = function() return pick { "1", "0.5", "-2.5", "3", "1e3", "100.25" } end,
  m = function() return pick { "one", "two", "three", "four", "5" } end,
  s = function() return pick { "-inf", "+inf", "(1", "0.5", "3", "(100.25", "-2.5" } end,
  x = function() return pick { "-", "+", "[one", "(three", "[two", "(5" } end,
  d = function() return pick { "LEFT", "RIGHT", "left" } end,
  g = function() return pick { "*", "[ab]", "?", "[^a]", "a*", "\\a", "[a-c]" } end,
}

local function random_command()
  local words = {}
  for word in pick(SHAPES):gmatch "%S+" do words[#words + 1] = WORDS[word] and #words > 0 and WORDS[word]() or word end
  return words
end

-- Sends commands to two servers, and compares their answers.
local function compare(real, fake, commands)
  local bytes = {}
  for i, words in ipairs(commands) do bytes[i] = encode(words) end
  real:write(table.concat(bytes))
  fake:write(table.concat(bytes))
  local log = {}
  for i, words in ipairs(commands) do
    log[i] = table.concat(words, " ")
    -- The answers of a transaction may be sets.
    local is_sorted = UNORDERED[words[1]] or words[1] == "EXEC"
    local expected, got = read_answer(real, is_sorted), read_answer(fake, is_sorted)
    if expected ~= got then t.equal(got, expected, table.concat(log, "\n")) end
  end
end

-- Sequences of commands; RUNS=1000 tries more of them.
local RUNS = tonumber(os.getenv "RUNS" or "100")
-- Commands that do not change the state of a connection.
local LAST = { { "DISCARD" }, { "UNWATCH" }, { "SELECT", "0" }, { "CLIENT", "SETNAME", "" } }

t.describe("a fake and a server", function()
  for version = 2, 3 do
    t.it("answer with equal bytes, in version " .. version .. " of the protocol", function()
      local real, fake = t.truthy(net.connect(server():address())), t.truthy(redis.fake():connect())
      for _, stream in ipairs { real, fake } do
        stream:write(encode { "HELLO", version })
        read_answer(stream)
      end
      for _ = 1, RUNS do
        local commands = { { "FLUSHALL" } }
        for i = 2, 40 do commands[i] = random_command() end
        for _, words in ipairs(LAST) do commands[#commands + 1] = words end
        compare(real, fake, commands)
      end
    end)
  end
end)

-- Failures ------------------------------------------------------------------------------------------------------------

t.describe("a fake in virtual time", function()
  t.it("refuses clients while it is stopped, and keeps its keys", function()
    local fake = redis.fake()
    local db = open(fake)
    db:call("SET", "a", 1)
    fake:stop()
    t.eventually(function() return db:stats().connections == 0 end)
    t.equal(select(3, db:call("GET", "a")), "ECONNREFUSED")
    fake:start()
    t.eventually(function() return db:call("GET", "a") == "1" end)
    t.equal(select(3, redis.open(redis.fake { password = "p" })), "EAUTH")
    t.truthy(open(redis.fake { password = "p" }, { password = "p" }):call "PING")
    t.equal(select(3, redis.open(redis.fake { password = "p" }, { user = "eve", password = "p" })), "EAUTH")
  end)

  t.it("cuts connections, also in the middle of an answer", function()
    local fake = redis.fake { latency = 0.01 }
    local db = open(fake)
    db:call("SET", "a", ("x"):rep(1000))
    fake:drop(500)
    local nothing, message, code = db:call("GET", "a")
    t.equal({ nothing, code }, { nil, "ECONNRESET" })
    t.truthy(message:find("it may have happened", 1, true), message)
    t.equal(#db:call("GET", "a"), 1000)
    local task = rl.task(function() return select(3, db:call("BLPOP", "q", 0)) end)
    t.eventually(function() return db:call("CLIENT", "LIST"):find("cmd=blpop", 1, true) end)
    fake:drop()
    t.equal(task:await(), "ECONNRESET")
  end)

  t.it("that cuts off a log-in makes redis.open return an error", function()
    local fake = redis.fake()
    fake:drop(5)
    t.equal({ redis.open(fake) }, { nil, "ECONNRESET: the connection was lost while it was made", "ECONNRESET" })
  end)

  t.it("answers nothing during a stall", function()
    local fake = redis.fake()
    local db = open(fake, { timeout = 5 })
    fake:stall(60)
    local began = rl.now()
    t.equal(pack(db:call("SET", "a", 1)), { nil, "timed out", n = 2 })
    t.equal(rl.now() - began, 5)
    rl.sleep(60)
    t.equal(db:call("GET", "a"), "1")
    t.equal(fake:received()[#fake:received()], { "GET", "a" })
  end)

  t.it("needs no real time for an hour", function()
    local db = open(redis.fake { latency = 0.05, bandwidth = 1e6 })
    db:call("SET", "a", 1, "EX", 3600)
    rl.sleep(3590)
    t.equal(db:call("GET", "a"), "1")
    rl.sleep(10)
    t.equal(db:call("GET", "a"), nil)
    local began = rl.now()
    t.equal(db:call("BLPOP", "q", 600), nil)
    t.truthy(rl.now() - began >= 600)
    db:call("SET", "b", 1)
    local when = rl.time() // 1 + 100 | 0
    db:call("EXPIREAT", "b", when)
    t.equal(db:call("EXPIRETIME", "b"), when)
  end)

  t.it("answers in the modes of a nested run", function()
    local db = open(redis.fake())
    local found
    local timer = rl.timer { delay = 0, modes = { "modal" }, callback = function()
      found = { db:call "PING", db:call("BLPOP", "q", 1), db:call "PING" }
      rl.stop()
    end }
    rl.current():add(timer, "modal")
    rl.run { mode = "modal", timeout = 50 }
    t.equal(found, { "PONG", nil, "PONG" })
  end)

  t.it("raises errors for invalid calls", function()
    t.error(function() redis.fake { pasword = "x" } end, "redis.fake: unknown field 'pasword'.*password")
    t.error(function() redis.fake { latency = "x" } end, "redis.fake: field 'latency' must be a number of seconds")
    for _, number in ipairs { 0, -1, 0 / 0 } do
      t.error(function() redis.fake { bandwidth = number } end, "redis.fake: field 'bandwidth' must be a number")
    end
    t.error(function() redis.fake { latency = -1 } end, "redis.fake: field 'latency' must be a number of seconds")
    local fake = redis.fake()
    t.error(function() fake:drop "x" end, "fake:drop: argument #1 must be an integer")
    t.error(function() fake:stall() end, "fake:stall: argument #1 must be a number of seconds")
    t.error(function() fake.stop() end, "fake:stop: call it with a colon")
    t.truthy(tostring(fake):find "fake of Redis %(0 clients, made at .-redis_fake_test.lua:%d+%)")
  end)

  t.it("refuses bytes that are not a command", function()
    local fake = redis.fake()
    local stream = t.truthy(fake:connect())
    stream:write "PING\r\n"
    t.equal(stream:read_line(), "-ERR Protocol error: the fake takes arrays of strings")
    t.equal(stream:read_line(), nil)
    local other = t.truthy(fake:connect())
    other:write(encode { "SUBSCRIBE", "a" }, encode { "GET", "b" }, encode { "PING" }, encode { "RESET" })
    t.equal(read_answer(other), "*3\n$9\nsubscribe\r\n$1\na\r\n:1\n")
    t.truthy(read_answer(other):find("^%-ERR Can't execute 'get'"))
    t.equal(read_answer(other), "*2\n$4\npong\r\n$0\n\r\n")
    t.equal(read_answer(other), "+RESET\n")
  end)
end)

t.it("wrong TLS settings return or raise an error", function()
  t.equal(pack(redis.open("rediss://127.0.0.1:1", { tls = { ca = "/nowhere" } })),
    { nil, "ENOENT: no such file or directory (/nowhere)", "ENOENT", n = 3 })
  t.error(function() redis.open("rediss://127.0.0.1:1", { tls = { cs = "a" } }) end,
    "redis.open: field 'tls': unknown field 'cs'")
  t.error(function() redis.open(redis.fake(), { tls = { ca = 5 } }) end, "redis.open: field 'tls': .*'ca' must be")
end)
