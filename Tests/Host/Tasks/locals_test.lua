-- rl.locals: values that belong to a task and are inherited by the tasks that it starts.

local rl = require "runloop"
local t = require "runloop.test"

local function all()
  local found = {}
  for name, value in pairs(rl.locals) do found[name] = value end
  return found
end

t.describe("values of rl.locals", function()
  t.it("belong to the task that sets them, and to tasks and items that it makes afterwards", function()
    t.equal(rl.locals.id, nil)
    local early = rl.task(function() rl.sleep(1) return rl.locals.id end)
    rl.locals.id = 1
    local child = rl.task(function()
      t.equal(rl.locals.id, 1)
      rl.locals.id = 2
      local grandchild = rl.task(function() rl.sleep(1) return rl.locals.id end)
      rl.locals.id = 3
      t.equal(rl.locals.id, 3)
      return grandchild:await()
    end)
    local sibling = rl.task(function() rl.sleep(1) return rl.locals.id end)
    t.equal(rl.locals.id, 1, "a child's change stays its own")
    t.equal(child:await(), 2, "a change is not seen by what exists")
    t.equal(sibling:await(), 1)
    t.equal(early:await(), nil)
    rl.locals.id = nil
    t.equal(all(), {})
  end)

  t.it("are empty at the beginning of each test", function() t.equal(all(), {}) end)

  t.it("are the task's own again after each wait", function()
    local group <close> = rl.group()
    for i = 1, 20 do
      group:task(function()
        rl.locals.number = i
        for _ = 1, 5 do
          rl.sleep(i % 3 / 100)
          t.equal(rl.locals.number, i)
        end
      end)
    end
    group:wait()
    t.equal(rl.locals.number, nil)
  end)

  t.it("are inherited by every kind of task", function()
    rl.locals.id = "x"
    local function id() rl.sleep(0) return rl.locals.id end
    t.equal({ rl.timeout(1, id) }, { true, "x" })
    t.equal({ rl.first_of(id) }, { 1, "x" })
    t.equal({ rl.all_of(id, id) }, { "x", "x" })
    t.equal(rl.settle_all { id }[1][1], "x")
    local group <close> = rl.group()
    t.equal(group:task(id):await(), "x")
    local seen = rl.future()
    local call = rl.debounce(0.1, function() seen:complete(rl.locals.id) end)
    call()
    t.equal(seen:await(), "x")
    t.equal(coroutine.wrap(function() return rl.locals.id end)(), "x", "a coroutine is part of its task")
  end)

  t.it("are inherited by callbacks of timers and requests that the task makes", function()
    local function seen(start)
      local future = rl.future()
      start(function() future:complete(rl.locals.id) end)
      rl.locals.id = "later"
      local value = future:await()
      rl.locals.id = "now"
      return value
    end
    rl.locals.id = "now"
    t.equal(seen(function(fn) rl.after(0.1, fn) end), "now")
    t.equal(seen(function(fn) rl.perform(fn) end), "now")
    t.equal(seen(function(fn) rl.perform { fn, after = 0.1 } end), "now")
    t.equal(seen(function(fn) rl.current():perform(fn) end), "now")
    t.equal(seen(function(fn) rl.at(rl.time() + 1, fn) end), "now")
    t.equal(seen(function(fn) rl.current():add(rl.timer { delay = 0.1, callback = fn }) end), "now")
    local count, last = 0, nil
    local timer = rl.every(0.1, function(timer)
      count = count + 1
      t.equal(rl.locals.id, "now", "each call begins with the same values")
      rl.locals.id = count
      last = rl.locals.id
      if count == 3 then timer:invalidate() end
    end)
    rl.sleep(1)
    t.equal({ count, last, timer:is_valid() }, { 3, 3, false })
    t.equal(rl.perform(function() end):is_valid(), true)
    rl.sleep(0)
  end)

  t.it("are not inherited by other callbacks, connections and requests", { real_time = true }, function()
    local net, http = require "runloop.net", require "runloop.http"
    local process = require "runloop.process"
    rl.locals.id = "x"
    local told = rl.channel(10)
    local source = rl.source { perform = function() told:send(rl.locals.id or "none") end }
    rl.current():add(source)
    source:signal()
    rl.current():wake_up()
    t.equal(told:receive(5), "none")
    source:invalidate()
    local server <close> = assert(net.serve("127.0.0.1:0", function(stream)
      stream:write(rl.locals.id or "none", "\n")
    end))
    local stream <close> = assert(net.connect("127.0.0.1:" .. server:port()))
    t.equal(stream:read_line(), "none")
    local web <close> = assert(http.serve("127.0.0.1:0", function() return rl.locals.id or "none" end))
    t.equal(assert(http.get("http://" .. web:address() .. "/")).body, "none")
    local signal = process.on_signal("SIGUSR1", function() told:send(rl.locals.id or "none") end)
    assert(process.run { "sh", "-c", "kill -USR1 $PPID" })
    t.equal(told:receive(5), "none")
    signal:invalidate()
    local fed <close> = net.listener { host = "127.0.0.1", port = 0,
      on_data = function(stream, data)
        told:send((rl.locals.id or "none") .. #data)
        stream:close()
      end }
    rl.current():add(fed)
    local feeder <close> = assert(net.connect("127.0.0.1:" .. fed:port()))
    feeder:write "1"
    t.equal(told:receive(5), "none1")
    t.equal(rl.blocking(function() return require("runloop").locals.id or "none" end), "none")
  end)

  t.it("are freed when their task ends", function()
    local kept = setmetatable({}, { __mode = "k" })
    for _ = 1, 10 do
      rl.task(function()
        local value = {}
        kept[value] = true
        rl.locals.value = value
        rl.after(0.1, function() end)
        rl.sleep(0.1)
      end)
    end
    rl.sleep(1)
    collectgarbage() collectgarbage()
    t.equal(next(kept), nil)
    t.equal(rl.task(function() return rl.locals.value end):await(), nil)
  end)

  t.it("can be iterated with pairs", function()
    rl.locals.a, rl.locals.b, rl.locals.c = 1, false, nil
    t.equal(all(), { a = 1, b = false })
    for name in pairs(rl.locals) do rl.locals[name] = nil end
    t.equal(all(), {})
  end)

  t.it("must have strings as names", function()
    t.error(function() rl.locals[1] = 2 end, "rl.locals: a name must be a string, got 1")
    t.error(function() rl.locals[{}] = 2 end, "rl.locals: a name must be a string, got a table")
    t.error(function() return rl.locals[true] end, "rl.locals: a name must be a string, got a boolean")
  end)
end)

t.it("log.open{ locals = … } adds values of rl.locals to each message", function()
  local fs, log = require "runloop.fs", require "runloop.log"
  local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
    { __close = function(self) fs.remove(self.path, { recursive = true }) end })
  local path = directory.path .. "/log"
  local logger <close> = assert(log.open {
    to = path, time = false, locals = { "request_id", "user" }, fields = { service = "a" },
  })
  local function lines() return (assert(fs.read(path)):gsub("%s+\n", "\n")) end
  logger:info "before"
  rl.locals.request_id, rl.locals.other = 7, "unsaid"
  logger:info("one", { n = 1 })
  rl.task(function()
    rl.locals.user = "ann"
    logger:info "two"
    logger:with { user = "logger's" }:info "three"
    logger:info("four", { request_id = "message's" })
  end):await()
  t.equal(lines(), [[
info    before service=a
info    one request_id=7 service=a n=1
info    two request_id=7 user=ann service=a
info    three request_id=7 service=a user=logger's
info    four user=ann service=a request_id=message's
]])
  local json <close> = assert(log.open { to = path .. ".json", format = "json", locals = { "request_id" } })
  json:info "said"
  t.truthy(assert(fs.read(path .. ".json")):find('"message":"said","request_id":7}', 1, true))
  t.error(function() log.open { locals = "id" } end, "log.open: field 'locals' must be a table, got \"id\"")
  t.error(function() log.open { locals = { 5 } } end, "log.open: field 'locals' must be a list of names, got 5 in it")
  t.error(function() log.open { locals = { id = "x" } } end,
    "log.open: field 'locals' must be a list of names, got \"id\" in it")
end)
