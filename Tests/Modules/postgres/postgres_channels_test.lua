-- runloop.postgres: subscriptions, and copies in and out.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local postgres = require "runloop.postgres"
local json = require "runloop.json"

local server = t.resource(function() return t.server "postgres" end)

local function open(options, where)
  local db = t.truthy(postgres.open(where or server():url(), options))
  t.finally(function() db:close() end)
  return db
end

local pack = table.pack

t.describe("a subscription", function()
  t.it("gets messages that are published on its channels", function()
    local db = open()
    local s <close> = t.truthy(db:subscribe { "jobs", 'odd "name"; drop' })
    t.equal(db:publish("jobs", "one"), true)
    t.equal(db:publish('odd "name"; drop', ""), true)
    db:publish("none", "two")
    db:execute "select pg_notify('jobs', 'three')"
    t.equal({ s:receive(5) }, { "one", "jobs" })
    t.equal({ s:receive(5) }, { "", 'odd "name"; drop' })
    t.equal({ s:receive(5) }, { "three", "jobs" })
    t.equal(pack(s:receive(0.01)), { nil, "timed out", n = 2 })
    t.equal(s:stats(), { received = 3, dropped = 0, pending = 0 })
    t.equal(db:stats().connections, 2)
    s:invalidate()
    t.equal(select(3, s:receive()), "ENOTCONN")
    t.eventually(function() return db:stats().connections == 1 end)
    t.truthy(tostring(s):find "subscription %(jobs, odd .-, over, made at .-postgres_channels_test.lua:%d+%)")
  end)

  t.it("calls its function with one message at a time", function()
    local db = open()
    local got, most, inside = {}, 0, 0
    local s <close> = t.truthy(db:subscribe("a", function(text, channel)
      inside = inside + 1
      most = math.max(most, inside)
      rl.sleep(0.001)
      got[#got + 1] = channel .. text
      inside = inside - 1
    end))
    for i = 1, 20 do db:publish("a", tostring(i)) end
    t.eventually(function() return #got == 20 end)
    t.equal({ got[1], got[20], most }, { "a1", "a20", 1 })
    t.error(function() s:receive() end, "subscription:receive: the function of this subscription gets the messages")
  end)

  t.it("shares a connection with others, and ends a channel without subscribers", function()
    local db = open()
    local a <close> = t.truthy(db:subscribe "x")
    local b <close> = t.truthy(db:subscribe { "x", "y" })
    db:publish("x", "1")
    t.equal({ (a:receive(5)), (b:receive(5)) }, { "1", "1" })
    b:invalidate()
    local c <close> = t.truthy(db:subscribe "z")
    db:publish("y", "2")
    db:publish("z", "3")
    t.equal(c:receive(5), "3")
    t.equal(db:stats().connections, 2)
    local list = {}
    local other <close> = t.truthy(db:subscribe("end", { max_pending = 2 }))
    for i = 1, 4 do db:publish("end", tostring(i)) end
    t.eventually(function() return other:stats().dropped == 2 end)
    for text in other:messages() do
      list[#list + 1] = text
      if #list == 2 then other:invalidate() end
    end
    t.equal(list, { "1", "2" })
  end)

  t.it("calls its function in its own mode only", { real_time = true }, function()
    local db = open()
    local got = {}
    local s <close> = t.truthy(db:subscribe("a", { modes = "modal" }, function(text) got[#got + 1] = text end))
    db:publish("a", "1")
    t.eventually(function() return s:stats().pending == 1 end)
    t.equal(#got, 0)
    rl.run { mode = "modal", timeout = 0.05 }
    t.equal(got, { "1" })
  end)

  t.it("subscribes again after its connection was lost, and reports the gap", function()
    local db = open()
    local gap
    local s <close> = t.truthy(db:subscribe({ "a", "b" }, { on_gap = function(seconds) gap = seconds end }))
    t.truthy(db:execute [[select pg_terminate_backend(pid) from pg_stat_activity
      where query like 'listen%' and pid <> pg_backend_pid()]])
    t.eventually(function() return gap ~= nil end)
    t.truthy(gap >= 0)
    db:publish("b", "again")
    t.equal({ s:receive(5) }, { "again", "b" })
    t.equal(db:stats().lost, 1)
  end)

  t.it("subscribes again after a restart of the server", { timeout = 60 }, function()
    local own = t.server "postgres"
    local db = open(nil, own:url())
    local gaps = 0
    local s <close> = t.truthy(db:subscribe("a", { on_gap = function() gaps = gaps + 1 end }))
    own:kill()
    own:restart()
    t.eventually(function() return gaps == 1 end, { within = 20 })
    t.eventually(function() return db:publish("a", "again") end, { within = 20 })
    t.equal(s:receive(5), "again")
  end)

  t.it("that is cancelled while it begins leaves no subscription behind", function()
    local db = open()
    for _ = 1, 20 do
      local task = rl.task(function() return db:subscribe "a" end)
      rl.sleep(math.random() * 0.01)
      task:cancel()
    end
    local s <close> = t.truthy(db:subscribe "a")
    db:publish("a", "1")
    t.equal(s:receive(5), "1")
    t.eventually(function()
      return db:value "select count(*) from pg_stat_activity where backend_type = 'client backend'" <= 3
    end)
  end)

  t.it("raises an error for an invalid channel, and is refused by a closed database", function()
    local db = open()
    t.error(function() db:subscribe "" end, "db:subscribe: argument #1 must be a name of 1 to 63 bytes")
    t.error(function() db:subscribe(("x"):rep(64)) end, "must be a name of 1 to 63 bytes")
    t.error(function() db:subscribe {} end, "must be a channel or a list of them, got an empty list")
    t.error(function() db:subscribe("a", { pattern = true }) end, "db:subscribe: unknown field 'pattern'")
    t.error(function() db:subscribe("a", nil, 5) end, "db:subscribe: argument #3 must be a function")
    t.error(function() db:publish("a", 5) end, "db:publish: argument #2 must be a string")
    t.equal(select(3, db:publish("a", ("x"):rep(8000))), "EMSGSIZE")
    db:close()
    t.equal(select(3, db:subscribe "a"), "ENOTCONN")
  end)
end)

local function fresh(db)
  t.equal(db:script "drop table if exists c; create table c (i int, s text, b bytea, f float8, ok bool)", true)
end

t.describe("a copy", function()
  t.it("takes rows as lists, and texts in pieces", function()
    local db = open()
    fresh(db)
    local rows = {
      { 1, "a\tb\\c\nd\r", postgres.bytes "\0\1\255", 0.1, true }, { nil, "", nil, math.huge, false },
      { 3, "\\N", json.null, -2.5 },
    }
    local index = 0
    t.equal(db:copy("copy c from stdin", function()
      index = index + 1
      return rows[index]
    end), 3)
    t.equal(db:query { "select * from c order by f", lists = true }, {
      { 3, "\\N", nil, -2.5 }, { 1, "a\tb\\c\nd\r", "\0\1\255", 0.1, true }, { nil, "", nil, math.huge, false } })
    local pieces = { "7\tx\t\\N\t1", "\tt\n8\ty\t\\N\t", "2\tf\n" }
    t.equal(db:copy(" COPY c FROM stdin", function() return table.remove(pieces, 1) end), 2)
    t.equal(db:value "select count(*) from c", 5)
    t.equal(db:copy("copy c from stdin", function() end), 0)
  end)

  t.it("copies from a stream, and to one", function()
    local db = open()
    fresh(db)
    local near, far = net.memory()
    local writer = rl.task(function()
      for i = 1, 20000 do near:write(i, "\ttext\t\\N\t", i / 2, "\tt\n") end
      near:close()
    end)
    t.equal(db:copy("copy c from stdin", far), 20000)
    writer:await()
    local a, b = net.memory()
    local reader = rl.task(function() return b:read_all() end)
    t.equal(db:copy("copy (select i from c order by i) to stdout", a), 20000)
    a:close()
    local text = reader:await()
    t.equal({ text:sub(1, 4), select(2, text:gsub("\n", "")) }, { "1\n2\n", 20000 })
    local parts = {}
    t.equal(db:copy("copy c (i) to stdout (format csv)", function(piece)
      rl.sleep(0.001)
      parts[#parts + 1] = piece
    end), 20000)
    t.equal(select(2, table.concat(parts):gsub("\n", "")), 20000)
    t.truthy(#parts < 2000)
  end)

  t.it("is part of a transaction", function()
    local db = open()
    fresh(db)
    do
      local tx <close> = t.truthy(db:begin())
      local lines = { "1\n", "2\n" }
      t.equal(tx:copy("copy c (i) from stdin", function() return table.remove(lines) end), 2)
      t.equal(tx:value "select count(*) from c", 2)
    end
    t.equal(db:value "select count(*) from c", 0)
    local own <close> = t.truthy(db:connection())
    t.equal(own:copy("copy (select 1) to stdout", function() end), 1)
  end)

  t.it("is refused as a whole, and the connection stays usable", function()
    local db = open { size = 1 }
    fresh(db)
    local lines = { "1\n", "frob\n" }
    local function next_line() return table.remove(lines, 1) end
    local nothing, message, code, details = db:copy("copy c (i) from stdin", next_line)
    t.equal({ nothing, code, details.code }, { nil, "EINVAL", "22P02" })
    t.truthy(message:find "invalid input syntax", message)
    t.error(function() db:copy("copy c (i) from stdin", function() error "mine" end) end, "mine")
    local near, far = net.memory()
    near:write "5\n"
    near:abort()
    t.equal(select("#", db:copy("copy c (i) from stdin", far)), 3)
    t.equal(db:value "select count(*) from c", 0)
    t.equal(select(3, db:copy("delete from c", function() end)), "EINVAL")
    t.equal(select(3, db:copy("copy c to '/nowhere/x'", function() end)), "EIO")
    t.equal(select(3, db:copy("copy nowhere to stdout", function() end)), "EINVAL")
    t.equal(select(3, db:query "copy c to stdout"), "EINVAL")
    t.equal(db:value "select 1", 1)
  end)

  t.it("ends with an error of its function, or with its task, and frees its connection", function()
    local db = open { size = 1 }
    local many = "copy (select generate_series(1, 3000000)) to stdout"
    t.error(function() db:copy(many, function() error "enough" end) end, "enough")
    t.equal(db:value "select 1", 1)
    local a, b = net.memory()
    b:close()
    t.equal(select("#", db:copy(many, a)), 3)
    local task = rl.task(function() db:copy(many, function() rl.sleep(1) end) end)
    rl.sleep(0.05)
    task:cancel()
    t.equal(db:value "select 2", 2)
    local giver = rl.task(function() db:copy("copy c (i) from stdin", function() rl.sleep(100) end) end)
    rl.sleep(0.05)
    giver:cancel()
    t.equal(db:value "select 3", 3)
  end)

  t.it("raises errors for invalid calls", function()
    local db = open()
    fresh(db)
    t.error(function() db:copy(5, print) end, "db:copy: argument #1 must be a string")
    t.error(function() db:copy("copy c from stdin", 5) end, "argument #2 must be a stream or a function, got 5")
    t.error(function() db:copy("copy c from stdin", {}) end, "must be a stream to read, or a function")
    local function one(row) return function() return row end end
    t.error(function() db:copy("copy c (i) from stdin", one { 1, 2 }) end, "a row must be a list of 1 values")
    t.error(function() db:copy("copy c (s) from stdin", one { "\0" }) end, "column 1 has a zero byte")
    t.error(function() db:copy("copy c (s) from stdin", one { {} }) end, "column 1 must be a string")
    t.error(function() db:copy("copy c (s) from stdin", one(true)) end, "the source must return strings")
    t.equal(db:value "select count(*) from c", 0)
  end)
end)
