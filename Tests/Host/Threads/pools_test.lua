-- rl.pool{ setup = … }: threads that keep state between calls, such as a connection.

local rl = require "runloop"
local t = require "runloop.test"

local REAL = { real_time = true, timeout = 30 }

-- A connection that counts its requests.
local function setup() return { asked = 0 } end

local function ask(connection, word)
  connection.asked = connection.asked + 1
  return word, connection.asked
end

local function directory()
  local fs = require "runloop.fs"
  return setmetatable({ path = assert(fs.temporary_directory()) },
    { __close = function(self) fs.remove(self.path, { recursive = true }) end })
end

local function read(path) return require("runloop.fs").read(path) end

t.describe("a pool with setup", function()
  t.it("keeps the result of setup, and passes it to functions as the first argument", REAL, function()
    local pool <close> = rl.pool { setup = setup }
    t.equal({ pool:run(ask, "a") }, { "a", 1 })
    t.equal({ pool:run(ask, "b") }, { "b", 2 })
    t.equal(table.pack(pool:run(function(_, ...) return select("#", ...), ... end, 1, nil, nil)), { n = 4, 3, 1 })
    t.equal(pool:run(function(connection) return connection.asked end), 2)
    t.truthy(tostring(pool):find "1 of 1 threads")
    t.equal(pool:map({ "x", "y", "z" }, function(connection, value, position)
      connection.asked = connection.asked + 1
      return value .. position .. connection.asked
    end), { "x13", "y24", "z35" })
  end)

  t.it("has a state for each thread", REAL, function()
    local pool <close> = rl.pool {
      threads = 3, setup = function() return { tostring(require("runloop").this_thread()) .. tostring({}) } end,
    }
    local seen, count = {}, 0
    for _, name in ipairs(pool:map({ 1, 2, 3, 4, 5, 6 }, function(state)
      os.execute "sleep 0.1"
      return state[1]
    end)) do
      if not seen[name] then count = count + 1 end
      seen[name] = true
    end
    t.equal(count, 3)
  end)

  t.it("serves one function at a time per thread, in order", REAL, function()
    local pool <close> = rl.pool { threads = 1, setup = function() return {} end }
    local group <close> = rl.group()
    local results = {}
    for i = 1, 5 do
      group:task(function()
        results[i] = pool:run(function(state, i)
          local rl = require "runloop"
          assert(not state.busy, "two at once")
          state.busy = true
          rl.sleep(0.01)
          state.busy = false
          state.order = (state.order or "") .. i
          return state.order
        end, i)
      end)
    end
    group:wait()
    t.equal(results, { "1", "12", "123", "1234", "12345" })
  end)

  t.it("raises the error of setup, and tries again with the next run", REAL, function()
    local place <close> = directory()
    local pool <close> = rl.pool { setup = load(([[
      local path = %q
      local file = io.open(path)
      if file then file:close() return "connected" end
      error({ code = "no database" })
    ]]):format(place.path .. "/there")) }
    local ok, err = pcall(pool.run, pool, function(state) return state end)
    t.equal({ ok, err }, { false, { code = "no database" } })
    t.falsy(pcall(pool.run, pool, print))
    assert(require("runloop.fs").write(place.path .. "/there", ""))
    t.equal(pool:run(function(state) return state end), "connected")
    t.equal({ pcall(pool.run, pool, function() error("mine", 0) end) }, { false, "mine" })
    t.equal(pool:run(function(state) return state end), "connected")
  end)

  t.it("does not interrupt a function for which no task waits any more", REAL, function()
    local pool <close> = rl.pool { setup = setup }
    local function slow(connection)
      os.execute "sleep 0.3"
      connection.asked = connection.asked + 100
      return "dropped"
    end
    t.equal({ rl.timeout(0.1, pool.run, pool, slow) }, { nil, "timed out" })
    local task = rl.task(pool.run, pool, slow)
    rl.sleep(0.05)
    task:cancel()
    t.equal(task:status(), "cancelled")
    local began = rl.now()
    local word, asked = pool:run(ask, "next")
    t.equal(word, "next")
    t.truthy(asked == 101 or asked == 201, asked)
    t.truthy(rl.now() - began > 0.1, "it waits until the function has ended")
  end)

  t.it("completes queued calls when it is closed, then calls on_close on the thread", REAL, function()
    local place <close> = directory()
    local path = place.path .. "/log"
    local pool = rl.pool {
      setup = load(("return { path = %q, asked = 0 }"):format(path)),
      on_close = function(state)
        local file = assert(io.open(state.path, "a"))
        file:write("closed after ", state.asked, "\n")
        file:close()
      end,
    }
    local tasks = {}
    for i = 1, 3 do
      tasks[i] = rl.task(pool.run, pool, function(state, i)
        os.execute "sleep 0.05"
        state.asked = state.asked + 1
        return i
      end, i)
    end
    local mapped = rl.task(pool.map, pool, { 5, 6, 7 }, function(_, value) return value * 2 end)
    pool:close()
    t.error(function() pool:run(print) end, "pool:run: the pool is closed")
    t.error(function() pool:map({ 1 }, print) end, "pool:map: the pool is closed")
    t.equal({ rl.all_of(tasks) }, { 1, 2, 3 })
    t.equal(mapped:await(), { 10, 12, 14 })
    t.eventually(function() return read(path) == "closed after 3\n" end, { within = 5 })
    pool:close()
    t.truthy(tostring(pool):find ", closed,")
    local unused <close> = rl.pool { setup = setup, on_close = setup }
  end)

  -- The runner lets the pool end; otherwise the runner would report the pool's thread as left behind.
  for _, options in ipairs { REAL, { timeout = 30 } } do
    t.it("completes an abandoned function at the end of a test, if it is closed", options, function()
      local pool <close> = rl.pool { setup = setup }
      t.equal({ rl.timeout(0.005, pool.run, pool, function() require "runloop".sleep(0.05) end) }, { nil, "timed out" })
    end)
  end

  t.it("calls on_close at the end of the program, and when it is dropped", REAL, function()
    local process = require "runloop.process"
    local script = [[
      local rl = require "runloop"
      local function new() return rl.pool {
        setup = function() return { "state" } end,
        on_close = function(state) os.execute "sleep 0.3" print("closed", state[1]) end,
      } end
      pool = new()
      print(pool:run(function(state) return state[1] end))
    ]]
    local done = assert(process.run { t.rlhost, "-e", script })
    t.equal({ done.output .. done.errors, done.code }, { "state\nclosed\tstate\n", 0 })
    done = assert(process.run { t.rlhost, "-e",
      script .. "pool = nil collectgarbage() collectgarbage() rl.sleep(1) print 'after'" })
    t.equal({ done.output .. done.errors, done.code }, { "state\nclosed\tstate\nafter\n", 0 })
  end)

  t.it("waits for on_close for at most two seconds at the end of the program", REAL, function()
    local process = require "runloop.process"
    local began = rl.now()
    local done = assert(process.run { t.rlhost, "-e", [[
      local rl = require "runloop"
      local pool = rl.pool {
        name = "slow", setup = function() return 1 end, on_close = function() while true do end end,
      }
      pool:run(function() end)
      kept = pool
    ]] })
    t.truthy(rl.now() - began < 6)
    t.truthy(done.errors:find 'these threads did not stop within 2 s: slow', done.errors)
  end)

  t.it("lets on_close wait at the end of the program, and reports its error", REAL, function()
    local process = require "runloop.process"
    local script = [[
      local rl = require "runloop"
      pool = rl.pool { setup = function() return 1 end, on_close = function()
        require("runloop").sleep(0.05)
        print "closed"
        error("not " .. "well", 0)
      end }
      pool:run(function() end)
    ]]
    for _, last in ipairs { "", "pool:close()", "pool:close() rl.sleep(0)" } do
      local done = assert(process.run { t.rlhost, "-e", script .. last })
      t.equal({ done.output, done.code }, { "closed\n", 1 }, last)
      t.truthy(done.errors:find "^rlhost: not well\n", done.errors)
      t.truthy(done.errors:find 'in thread "pool" made at', done.errors)
    end
    local done = assert(process.run { t.rlhost, "-e", [[
      local rl = require "runloop"
      pool = rl.pool { setup = function() end, on_close = function() require("runloop").future():await() end }
      pool:run(function() end)
    ]] })
    t.equal(done.code, 1)
    t.truthy(done.errors:find "^rlhost: the thread's function never ended", done.errors)
    t.truthy(done.errors:find "\nit still waits in future:await", done.errors)
  end)

  t.it("ends its thread after on_close, whatever the state keeps in the loop", REAL, function()
    local process = require "runloop.process"
    local done = assert(process.run { t.rlhost, "-e", [[
      local rl = require "runloop"
      local pool = rl.pool { setup = function() return require("runloop").every(60, function() end) end,
        on_close = function() print "closed" end }
      pool:run(function() end)
      pool:close()
    ]] })
    t.equal({ done.output, done.errors, done.code }, { "closed\n", "", 0 })
  end)

  t.it("says which value cannot be sent", REAL, function()
    local one = coroutine.create(print)
    for _, options in ipairs { {}, { setup = setup } } do
      local pool <close> = rl.pool(options)
      local run, map = pool.run, pool.map
      local function refused(fn, ...)
        local fine, err = pcall(fn, pool, ...)
        t.falsy(fine)
        return (err:gsub("^.-_test%.lua:%d+: ", "at the call: "))
      end
      t.equal(refused(run, function() return one end), "at the call: pool:run: cannot send upvalue 'one': a coroutine")
      t.equal(refused(run, type, 1, one), "at the call: pool:run: cannot send argument #3: a coroutine")
      t.equal(refused(run, type, one, nil), "at the call: pool:run: cannot send argument #2: a coroutine")
      t.equal(refused(map, { 1, 2, { one } }, type),
        "at the call: pool:map: cannot send element 3 of the list → field [1]: a coroutine")
      t.equal(refused(map, { 1, 2, 3, 4, 5 }, function() return one end),
        "at the call: pool:map: cannot send upvalue 'one': a coroutine")
    end
  end)

  t.it("rejects invalid arguments", function()
    t.error(function() rl.pool { setup = 5 } end, "rl.pool: field 'setup' must be a function, got 5")
    t.error(function() rl.pool { setup = setup, on_close = {} } end,
      "rl.pool: field 'on_close' must be a function, got a table")
    local coroutine = coroutine.create(print)
    t.error(function() rl.pool { setup = function() return coroutine end } end,
      "rl.pool: field 'setup' must be a function that can be copied: cannot send upvalue 'coroutine'")
    t.error(function() rl.pool { on_close = setup } end, "rl.pool: field 'on_close' needs field 'setup'")
    t.error(function() rl.pool { stup = setup } end, "rl.pool: unknown field 'stup' (did you mean 'setup'?)")
    t.error(function() rl.pool { threads = 0, setup = setup } end,
      "rl.pool: field 'threads' must be an integer, 1 or more, got 0")
  end)
end)
