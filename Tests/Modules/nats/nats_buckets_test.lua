-- runloop.nats: buckets and leases. The same cases run against nats.fake, in virtual time, and against a real server.

local rl = require "runloop"
local t = require "runloop.test"
local json = require "runloop.json"
local nats = require "runloop.nats"
local buses = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/buses.lua")
local connect = buses.connect

local last = 0

-- Returns a name that no other case has: all cases share a real server.
local function unique()
  last = last + 1
  return "b" .. last
end

local function make(bus, settings)
  local name = unique()
  settings = settings or {}
  settings.storage = "memory"
  return t.truthy(bus:bucket(name, settings)), name
end

-- Waits for a condition, with a limit.
local function await(condition, what)
  for _ = 1, 1000 do
    if condition() then return end
    rl.sleep(0.01)
  end
  t.equal(what, "came true")
end

-- Returns a list of texts for entries, and the function that fills it.
local function collect()
  local list = {}
  return list, function(entry)
    list[#list + 1] = entry and ("%s=%s %s%s"):format(entry.key, entry.value, entry.operation,
      entry.initial and " initial" or "") or "current"
  end
end

local function bucket_cases(start)
  t.it("a full bucket replaces the oldest value of a key", function()
    local b = make(connect(start()), { max_bytes = 1000 })
    t.truthy(b:put("a", ("x"):rep(200)))
    t.truthy(b:put("b", ("x"):rep(400)))
    t.equal(select(3, b:put("c", ("x"):rep(400))), "ENOSPC")
    t.truthy(b:put("b", ("y"):rep(200)))
    t.equal((b:get "b"), ("y"):rep(200))
    t.equal(#t.truthy(b:history "b"), 1)
  end)

  t.it("a bucket gets and puts values, optionally only at a revision", function()
    local bus = connect(start())
    local b = make(bus, { history = 5 })
    t.equal({ b:get "a/b" }, {})
    t.equal({ b:get("a/b", { stale = true }) }, {})
    t.equal(b:put("a/b", "one"), 1)
    t.equal(b:put("x.y-z_=", ""), 2)
    t.equal({ b:get "a/b" }, { "one", 1 })
    t.equal({ b:get("a/b", { stale = true }) }, { "one", 1 })
    t.equal({ b:get "x.y-z_=" }, { "", 2 })
    t.equal({ b:put("a/b", "two", { revision = 0 }) },
      { nil, "EEXIST: the key a/b exists, at revision 1", "EEXIST", { err_code = 10071,
        description = "wrong last sequence: 1" } })
    t.equal({ select(2, b:put("a/b", "two", { revision = 5 })) }, { "EAGAIN: the key a/b is at revision 1, not 5",
      "EAGAIN", { err_code = 10071, description = "wrong last sequence: 1" } })
    t.equal(b:put("a/b", "two\0\255", { revision = 1 }), 3)
    t.equal({ b:get("a/b", { revision = 1 }) }, { "one", 1 })
    t.equal({ b:get("a/b", { revision = 2 }) }, {})
    t.equal({ b:get "a/b" }, { "two\0\255", 3 })
    t.equal(b:remove "a/b", 4)
    t.equal({ b:get "a/b" }, {})
    t.equal({ b:get("a/b", { stale = true }) }, {})
    t.equal(select(3, b:remove("a/b", { revision = 3 })), "EAGAIN")
    t.equal(b:put("a/b", "three", { revision = 0 }), 5)
    t.equal(b:keys(), { "a/b", "x.y-z_=" })
    t.equal(b:keys "x.*", { "x.y-z_=" })
    t.equal(b:keys "none", {})
    local operations = {}
    for i, entry in ipairs(b:history "a/b") do
      operations[i] = ("%s %s %d"):format(entry.operation, entry.value, entry.revision)
      t.equal(entry.key, "a/b")
      t.truthy(math.abs(entry.time - rl.time()) < 3600)
    end
    t.equal(operations, { "put one 1", "put two\0\255 3", "remove  4", "put three 5" })
    t.equal(b:remove("a/b", { purge = true }), 6)
    t.equal(#b:history "a/b", 1)
    t.equal(b:history("a/b")[1].operation, "purge")
    t.equal(b:history "none", {})
  end)

  t.it("a bucket is made or opened if its settings are equal, and an error names those that differ", function()
    local bus, name = connect(start()), unique()
    local none, text, code = bus:bucket(name)
    t.equal({ none, text, code }, { nil, "ENOENT: there is no bucket " .. name, "ENOENT" })
    t.equal(t.truthy(bus:bucket(name, { history = 2, storage = "memory" })):name(), name)
    t.truthy(bus:bucket(name))
    t.truthy(bus:bucket(name, { history = 2, storage = "memory" }))
    none, text, code = bus:bucket(name, { history = 3, storage = "memory" })
    t.equal({ none, text, code }, { nil, ("EEXIST: bucket %s exists with other settings: history is 2, not 3")
      :format(name), "EEXIST" })
    t.truthy(bus:stream("KV_" .. name)):remove()
    t.equal(select(3, t.truthy(make(bus)):get "a"), nil)
  end)

  t.it("a bucket reads from any replica, or only from the leader if the stream requires it", function()
    local bus, name = connect(start()), unique()
    -- Makes a bucket's stream with the settings that an old client uses.
    local made = t.truthy(bus:request("$JS.API.STREAM.CREATE.KV_" .. name, json.encode { name = "KV_" .. name,
      subjects = { "$KV." .. name .. ".>" }, retention = "limits", storage = "memory", num_replicas = 1, max_age = 0,
      max_msgs_per_subject = 1, discard = "new", allow_rollup_hdrs = true, deny_delete = true, max_consumers = -1,
      max_msgs = -1, max_bytes = -1, max_msg_size = -1, duplicate_window = 120000000000 }))
    t.equal(json.decode(made.data).error, nil)
    local b = t.truthy(bus:bucket(name))
    t.equal(b:put("a", "1"), 1)
    t.equal({ b:get("a", { stale = true }) }, { "1", 1 })
    t.equal({ b:get("b", { stale = true }) }, {})
    -- Only the leader knows for certain that a bucket was deleted.
    local other, there = make(bus)
    t.truthy(bus:stream("KV_" .. there)):remove()
    t.equal(select(3, other:get("a", { stale = true })), "ENOENT")
  end)

  t.it("a bucket removes entries after `ttl`, and refuses entries that are too large", function()
    local bus = connect(start())
    local b = make(bus, { ttl = 0.5 })
    t.truthy(b:put("a", "1"))
    t.equal(b:get "a", "1")
    await(function() return b:get "a" == nil end, "the key is gone")
    local small = make(bus, { max_bytes = 1000 })
    t.truthy(small:put("a", ("x"):rep(500)))
    t.equal(select(3, small:put("b", ("x"):rep(700))), "ENOSPC")
  end)

  t.it("a watch reports existing entries, then their end, then changes", function()
    local bus = connect(start())
    local b = make(bus, { history = 3 })
    b:put("k.a", "1")
    b:put("k.a", "2")
    b:put("k.b", "3")
    b:put("gone", "4")
    b:remove "gone"
    b:put("other", "5")
    local list, add = collect()
    local w <close> = t.truthy(b:watch(">", { keeps_alive = false }, add))
    await(function() return list[#list] == "current" end, "the watch is current")
    t.equal(w:is_current(), true)
    t.equal(list, { "k.a=2 put initial", "k.b=3 put initial", "other=5 put initial", "current" })
    b:put("k.a", "6")
    b:remove "k.b"
    b:remove("other", { purge = true })
    await(function() return #list == 7 end, "the changes have come")
    t.equal({ table.unpack(list, 5) }, { "k.a=6 put", "k.b= remove", "other= purge" })
    local some <close> = t.truthy(b:watch "k.*")
    t.equal(some:receive(5).value, "6")
    t.equal(select(2, some:receive(0.05)), "timed out")
    t.equal(some:is_current(), true)
    b:put("k.c", "7")
    local entry = t.truthy(some:receive(5))
    t.equal({ entry.key, entry.value, entry.operation, entry.initial, entry.revision }, { "k.c", "7", "put", nil, 10 })
    some:invalidate()
    t.equal(select(3, some:receive(1)), "ENOTCONN")
    t.equal(some:is_valid(), false)
    -- The watch of an empty set is current at once.
    local empty, add_none = collect()
    local none <close> = t.truthy(b:watch("none.*", { keeps_alive = false }, add_none))
    await(function() return empty[1] == "current" end, "the empty watch is current")
    t.equal(none:is_current(), true)
  end)

  t.it("a watch iterates over a thousand entries and their changes", function()
    local bus = connect(start())
    local b = make(bus)
    local tasks = {}
    for i = 1, 1000 do tasks[i] = rl.task(function() return b:put("k" .. i, tostring(i)) end) end
    for i = 1, 1000 do t.truthy(tasks[i]:await()) end
    t.equal(#b:keys(), 1000)
    local w <close> = t.truthy(b:watch ">")
    local count = 0
    for entry in w:entries() do
      count = count + 1
      t.equal(entry.key, "k" .. entry.value)
      if count == 1000 then break end
    end
    b:put("k1", "1")
    t.equal(t.truthy(w:receive(5)).initial, nil)
  end)

  t.it("a watch ends when its bucket is removed, or its bus is closed", { timeout = 40 }, function()
    local where = start()
    local bus, other = connect(where, { on_event = function() end }), connect(where)
    local b, name = make(bus)
    local w = t.truthy(b:watch ">")
    local waits = rl.task(function() return select(3, w:receive()) end)
    rl.sleep(0.05)
    t.truthy(t.truthy(other:stream("KV_" .. name)):remove())
    t.equal(waits:await(30), "ENOENT")
    local second = t.truthy(make(bus):watch ">")
    waits = rl.task(function() return select(3, second:receive()) end)
    rl.sleep(0.01)
    bus:close()
    t.equal(waits:await(5), "ENOTCONN")
    t.equal(select(3, b:get "a"), "ENOTCONN")
    t.equal(select(3, b:put("a", "b")), "ENOTCONN")
    t.equal(select(3, b:keys()), "ENOTCONN")
    t.equal(select(3, b:watch ">"), "ENOTCONN")
    t.equal(select(3, bus:bucket "a"), "ENOTCONN")
    t.equal(select(3, bus:lease "a"), "ENOTCONN")
  end)
end

local function lease_cases(start)
  t.it("a lease has one holder at a time", function()
    local where, name = start(), unique()
    local one, two = connect(where, { name = "first" }), connect(where)
    local a = t.truthy(one:lease(name))
    t.equal({ a:is_valid(), a:name() }, { true, name })
    local none, text, code, holder = two:lease(name, { timeout = 0.1 })
    t.equal({ none, text, code }, { nil, "timed out", "EBUSY" })
    t.equal({ holder.name, math.type(holder.pid), type(holder.host) }, { "first", "integer", "string" })
    t.equal(select(3, two:lease(name, { timeout = 0 })), "EBUSY")
    local waits = rl.task(function() return two:lease(name) end)
    rl.sleep(0.1)
    local before = rl.now()
    a:invalidate()
    local b = t.truthy(waits:await(4))
    t.truthy(rl.now() - before < 2)
    t.equal({ a:is_valid(), b:is_valid() }, { false, true })
    t.truthy(b:epoch() > a:epoch())
    t.equal({ a:run(print) }, { nil, "the lease was lost: it was released", "ECONNRESET" })
    b:invalidate()
    local c <close> = t.truthy(one:lease(name, { timeout = 1 }))
    t.truthy(c:epoch() > b:epoch())
  end)

  t.it("a lease is renewed while it is held, and ends with its bus", function()
    local where, name = start(), unique()
    local one, two = connect(where), connect(where)
    local a = t.truthy(one:lease(name, { ttl = 1 }))
    rl.sleep(2.5)
    t.equal(a:is_valid(), true)
    t.equal(select(3, two:lease(name, { ttl = 1, timeout = 0.5 })), "EBUSY")
    local lost = 0
    local b = t.truthy(one:lease(name .. "x", { ttl = 1, on_lost = function() lost = lost + 1 end }))
    one:close()
    t.equal({ a:is_valid(), b:is_valid() }, { false, false })
    rl.sleep(0.01)
    t.equal(lost, 1)
    local before = rl.now()
    t.truthy(two:lease(name, { ttl = 1 })):invalidate()
    t.truthy(rl.now() - before < 0.9)
  end)

  t.it("a lease runs functions, and cancels them when it is lost", function()
    local where, name = start(), unique()
    local bus = connect(where)
    local lost = rl.future()
    local a = t.truthy(bus:lease(name, { ttl = 1, on_lost = function(lease) lost:complete(lease) end }))
    t.equal({ a:run(function(...) return ..., 3 end, 1, nil) }, { 1, 3 })
    t.error(function() a:run(error, "oops", 0) end, "oops")
    local closed
    local work = rl.task(function()
      return a:run(function()
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        rl.sleep(60)
      end)
    end)
    -- Another client writes the entry, so the next renewal finds another revision.
    t.truthy(t.truthy(bus:bucket "rl_leases"):put(name, '{"host":"x","pid":1,"name":"thief","ttl":1}'))
    local none, text, code = work:await(5)
    t.equal({ none, text, code }, { nil, "the lease was lost: another process has taken it", "ECONNRESET" })
    t.equal({ closed, lost:await(1), a:is_valid() }, { true, a, false })
    -- When the caller is cancelled, its work ends, but the lease is kept.
    local b = t.truthy(bus:lease(name, { ttl = 1 }))
    closed = false
    work = rl.task(function()
      b:run(function()
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        rl.sleep(60)
      end)
    end)
    work:cancel()
    t.equal({ closed, b:is_valid() }, { true, true })
    b:invalidate()
  end)

  t.it("a wait for a lease frees its place when it is cancelled", function()
    local where, name = start(), unique()
    local bus = connect(where)
    local a <close> = t.truthy(bus:lease(name))
    local before = bus:stats().subscriptions
    local waits = rl.task(function() bus:lease(name) end)
    rl.sleep(0.2)
    waits:cancel()
    rl.sleep(0.05)
    t.equal(bus:stats().subscriptions, before)
    t.equal(a:is_valid(), true)
  end)
end

t.describe("with the fake", function()
  local function start() return nats.fake { latency = 0.0001, jetstream = true } end
  bucket_cases(start)
  lease_cases(start)
end)

t.describe("with a server", { real_time = true }, function()
  local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)
  local function start() return server():url() end
  bucket_cases(start)
  lease_cases(start)
end)

t.it("wrong arguments raise errors that name the call", function()
  local bus = connect(nats.fake { jetstream = true })
  local b = t.truthy(bus:bucket("b", {}))
  for _, key in ipairs { "", ".a", "a.", "a..b", "a b", "a*", "a.>", "a:b", "ä", ("x"):rep(201) } do
    for _, call in ipairs { "get", "put", "remove", "history" } do
      t.error(function() b[call](b, key, "x") end, "bucket:" .. call .. ": the key")
    end
  end
  t.error(function() b:watch "a b" end, "bucket:watch: the key")
  t.error(function() b:watch ">.a" end, "bucket:watch: the key")
  t.error(function() b:keys "a*" end, "bucket:keys: the key")
  t.error(function() b:get(1) end, "bucket:get: argument #1 must be a key")
  t.error(function() b:get("a", { revision = 0 }) end, "revision")
  t.error(function() b:get("a", { revision = 1, stale = true }) end, "either 'revision' or 'stale'")
  t.error(function() b:put("a", 1) end, "bucket:put: argument #2")
  t.error(function() b:put("a", "b", { revision = -1 }) end, "revision")
  t.error(function() b:remove("a", { purge = 1 }) end, "purge")
  t.error(function() b:watch("a", {}, 1) end, "bucket:watch: argument #3")
  t.error(function() b:watch("a", { order = "x" }) end, "order")
  t.error(function() b.get("a", "b") end, "call it with a colon")
  t.error(function() bus:bucket "a.b" end, "bus:bucket: argument #1 must be a name")
  t.error(function() bus:bucket("a", { history = 65 }) end, "history")
  t.error(function() bus:bucket("a", { ttl = 0 }) end, "ttl")
  t.error(function() bus:bucket("a", { storage = "disk" }) end, '"file" or "memory"')
  t.error(function() bus:lease "a b" end, "bus:lease: the key")
  t.error(function() bus:lease("a", { ttl = 0.5 }) end, "field 'ttl' must be a number from 1 to 3600")
  t.error(function() bus:lease("a", { bucket = "a.b" }) end, "bus:lease: field 'bucket' must be a name")
  t.error(function() bus:lease("a", { on_lost = 1 }) end, "on_lost")
  local lease <close> = t.truthy(bus:lease "a")
  t.error(function() lease:run(1) end, "lease:run: argument #1 must be a function")
  local w <close> = t.truthy(b:watch("a", { keeps_alive = false }, print))
  t.error(function() w:receive() end, "its entries go to its function")
end)
