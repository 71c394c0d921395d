-- rl.future, its use as an argument of rl.first_of and others, and task:await with a time limit.

local rl = require "runloop"
local t = require "runloop.test"

local HERE = "futures_test.lua"
local function line() return debug.getinfo(2, "l").currentline end

local function matches(text, pattern) t.truthy(text:find(pattern), text) end

-- Calls the function in a task, and returns the task and a table that receives its results.
local function begin(fn, ...)
  local got = {}
  local task = rl.task(function(...) got.values = table.pack(fn(...)) end, ...)
  return task, got
end

t.describe("a future", function()
  t.it("gives its values to each waiting task, and to later calls of await", function()
    local future = rl.future()
    local order = {}
    for i = 1, 3 do
      rl.task(function()
        t.equal({ future:await() }, { "a", 2 })
        order[#order + 1] = i
      end)
    end
    t.falsy(future:is_done())
    t.equal(future:complete("a", 2), true)
    t.truthy(future:is_done())
    t.equal(order, {}, "nobody goes on while the completing task runs")
    rl.sleep(0)
    t.equal(order, { 1, 2, 3 })
    t.equal({ future:await() }, { "a", 2 })
    t.equal({ future:await(0) }, { "a", 2 })
  end)

  t.it("can be completed once only", function()
    local future = rl.future()
    t.truthy(future:complete())
    t.equal(select("#", future:await()), 0)
    t.equal({ future:complete(1), future:fail "no", future:complete() }, { false, false, false })
    t.equal(select("#", future:await()), 0)
    local failed = rl.future()
    t.truthy(failed:fail "broken")
    t.equal({ failed:complete(1), failed:fail(2) }, { false, false })
    t.error(function() failed:await() end, "broken")
  end)

  t.it("keeps nils and errors of any type as they are", function()
    local refused = rl.future()
    refused:complete(nil, "ECONNRESET: connection reset", "ECONNRESET")
    t.equal(table.pack(refused:await()), { n = 3, nil, "ECONNRESET: connection reset", "ECONNRESET" })
    local trailing = rl.future()
    trailing:complete(1, nil, nil)
    t.equal(table.pack(trailing:await()), { n = 3, 1 })
    local one = rl.future()
    one:complete(nil)
    t.equal(table.pack(one:await()), { n = 1 })
    local values = {}
    for i = 1, 200 do values[i] = i end
    local many = rl.future()
    local _, got = begin(many.await, many)
    many:complete(table.unpack(values))
    rl.sleep(0)
    t.equal(got.values.n, 200)
    t.equal(select(200, many:await()), 200)
    for _, err in ipairs { "text", 5, false, { code = 1 }, io.stdout } do
      local future = rl.future()
      local _, outcome = begin(pcall, future.await, future)
      future:fail(err)
      rl.sleep(0)
      t.truthy(rawequal(outcome.values[2], err), "while it waits: " .. tostring(err))
      t.truthy(rawequal(select(2, pcall(future.await, future)), err), "later: " .. tostring(err))
    end
    local empty = rl.future()
    empty:fail(nil)
    t.equal(table.pack(pcall(empty.await, empty)), { n = 2, false, nil })
    local absent = rl.future()
    absent:fail()
    t.equal(table.pack(pcall(absent.await, absent)), { n = 2, false, nil })
  end)

  t.it("ends a wait at its time limit, while other tasks continue to wait", function()
    local future = rl.future()
    local _, patient = begin(future.await, future)
    local _, hasty = begin(future.await, future, 0.5)
    local began = rl.now()
    rl.sleep(0.6)
    t.equal(hasty.values, { n = 2, nil, "timed out" })
    t.equal(patient.values, nil)
    t.equal({ future:await(0) }, { nil, "timed out" })
    future:complete "late"
    t.equal({ future:await(0.1) }, { "late" })
    t.truthy(rl.now() - began < 1)
    rl.sleep(0)
    t.equal(patient.values, { n = 1, "late" })
  end)

  t.it("prefers an answer that comes exactly at the time limit", function()
    local future = rl.future()
    local _, got = begin(future.await, future, 1)
    rl.after(1, function() future:complete "yes" end, { order = -1 })
    rl.sleep(2)
    t.truthy(got.values[1] == "yes" or got.values[2] == "timed out")
    local early = rl.future()
    local _, first = begin(early.await, early, 1)
    rl.sleep(1 - 1e-6)
    early:complete "yes"
    rl.sleep(1)
    t.equal(first.values, { n = 1, "yes" })
  end)

  t.it("is not changed when a waiting task is cancelled, and other tasks continue to wait", function()
    local future = rl.future()
    local tasks = {}
    for i = 1, 4 do tasks[i] = rl.task(function() return i, future:await() end) end
    tasks[2]:cancel()
    tasks[4]:cancel()
    t.equal(tasks[2]:status(), "cancelled")
    t.falsy(future:is_done())
    future:complete "x"
    tasks[3]:cancel()                     -- the task should have continued
    t.equal({ tasks[1]:await() }, { 1, "x" })
    t.equal(tasks[3]:status(), "cancelled")
  end)

  t.it("can be awaited again by a task whose wait was cancelled", function()
    local future = rl.future()
    local task = rl.task(function()
      local ok, err = pcall(future.await, future)
      t.truthy(not ok and rl.is_cancelled(err))
      return future:await()
    end)
    task:cancel()
    future:complete(5)
    t.equal(task:await(), 5)
  end)

  t.it("reports no error if it is dropped", function()
    local errors = 0
    local before = rl.on_error(function() errors = errors + 1 end)
    rl.future():fail "nobody asks"
    local kept = setmetatable({ rl.future() }, { __mode = "v" })
    collectgarbage() collectgarbage()
    rl.sleep(0.1)
    rl.on_error(before)
    t.equal(errors, 0)
    t.equal(kept[1], nil)
  end)

  t.it("lives while a task waits for it", function()
    local kept = setmetatable({ rl.future() }, { __mode = "v" })
    local task = rl.task(function() return kept[1]:await() end)
    collectgarbage() collectgarbage()
    kept[1]:complete "still there"
    t.equal(task:await(), "still there")
  end)

  t.it("completes in a callback, in a coroutine, while a task is closed, and by itself", function()
    local future = rl.future()
    coroutine.wrap(function() future:complete "in a coroutine" end)()
    t.equal(future:await(), "in a coroutine")
    local closed = rl.future()
    local task = rl.task(function()
      local _ <close> = setmetatable({}, { __close = function() closed:complete "closed" end })
      rl.sleep(60)
    end)
    task:cancel()
    t.equal(closed:await(), "closed")
    t.error(coroutine.wrap(function() rl.future():await() end), "future:await: cannot wait inside a coroutine")
    t.error(function() table.sort({ 1, 2 }, function() rl.future():await() end) end,
      "future:await: cannot wait inside a function called by")
  end)

  t.it("ends waits in every common mode, and in the mode that runs when they begin", function()
    local future, modal = rl.future(), rl.future()
    local _, got = begin(future.await, future)
    rl.perform { function() begin(modal.await, modal) end, modes = "dialogue" }
    local result
    rl.perform { function() result = modal:await() end, modes = "dialogue" }
    local timers = { rl.after(60, print), rl.after(60, print) }
    rl.current():add(timers[1], "dialogue")
    rl.run { mode = "dialogue", timeout = 0.01 }
    future:complete "common"
    modal:complete "modal"
    rl.run { mode = "dialogue", timeout = 0.01 }
    t.equal(result, "modal")
    t.equal(got.values, nil)
    rl.sleep(0)
    t.equal(got.values[1], "common")
    local event = rl.future()
    local _, tracked = begin(event.await, event)
    event:complete "tracked"
    rl.current():add(timers[2], "event_tracking")
    rl.run { mode = "event_tracking", timeout = 0.01 }
    t.equal(tracked.values, nil, "event_tracking is not a common mode yet")
    rl.current():add_common_mode "event_tracking"
    rl.run { mode = "event_tracking", timeout = 0.01 }
    t.equal(tracked.values[1], "tracked")
    for _, timer in ipairs(timers) do timer:invalidate() end
  end)

  t.it("is described with the place where it was made", function()
    local made = line() + 1
    local future = rl.future()
    matches(tostring(future), "^future %(nobody waits, made at .-" .. HERE .. ":" .. made .. "%)$")
    local waits = line() + 1
    local task = rl.task(function() future:await() end)
    matches(tostring(future), "^future %(1 waiting, ")
    local told = "waits in future:await at %S-" .. HERE .. ":" .. waits .. ", future made at %S-" .. HERE .. ":" .. made
    matches(task:traceback(), told)
    matches(rl.why(), "waiting for other tasks:\n  task made at %S-" .. HERE .. ":" .. waits .. ": " .. told)
    matches(tostring(task), "^task %(waiting in future:await")
    future:complete()
    matches(tostring(future), "^future %(done, ")
    task:await()
    t.falsy(rl.why():find "waiting for other tasks")
    local failed = rl.future()
    failed:fail "x"
    matches(tostring(failed), "^future %(failed, ")
  end)

  t.it("is named in recordings, with the place where it was made", { real_time = true }, function()
    local fs, process = require "runloop.fs", require "runloop.process"
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) },
      { __close = function(self) fs.remove(self.path, { recursive = true }) end })
    local done = assert(process.run { t.rlhost, "-e", [[
      local rl = require "runloop"
      rl.trace.start(os.getenv "RECORDING")
      local future, mutex, backoff = rl.future(), rl.mutex(), rl.backoff { first = 0 }
      local held = mutex:lock()
      rl.task(function() mutex:lock(0.01) end)
      rl.task(function() backoff:wait() end)
      rl.after(0.02, function() future:complete() end)
      rl.task(function() future:await() end)
      rl.sleep(0.05)
      rl.trace.stop()
    ]], environment = { RECORDING = directory.path .. "/recording.json" } })
    t.equal(done.code, 0)
    local text = assert(fs.read(directory.path .. "/recording.json"))
    for _, wait in ipairs { "future:await %(future", "mutex:lock %(mutex", "backoff:wait %(backoff" } do
      t.truthy(text:find('"waits_in":%s*"' .. wait .. ' made at [^"]*:3%)"'), wait)
    end
  end)

  t.it("is made by rl.future also after a script has replaced that function, or kept it in a local", function()
    local output = require "runloop.process".run { t.rlhost, "-", input = [[
      local rl = require "runloop"
      local first, mine = rl.future, function() return "mine" end
      rl.future = mine
      print(first():is_done(), rl.future == mine)
      rl.future = first
      print(first():is_done(), rl.future():is_done(), rl.future == first)
      local lock = rl.mutex
      print(lock(2), rl.mutex(2), pcall(lock, 0))
    ]] }.output
    t.equal(output, "false\ttrue\nfalse\tfalse\ttrue\n" .. [[
mutex (0 of 2 places taken, made at stdin:8)	mutex (0 of 2 places taken, made at stdin:8)	false	]]
      .. "stdin:8: rl.mutex: argument #1 must be the number of places, an integer from 1 on, got 0\n")
  end)

  t.it("belongs to its thread", function()
    local future = rl.future()
    t.error(function() rl.thread(print, future) end, "rl.thread: cannot send argument #2: future")
  end)

  t.it("rejects invalid arguments", function()
    local future = rl.future()
    t.error(function() rl.future(1) end, "rl.future: no arguments are expected")
    for _, limit in ipairs { -1, 0 / 0, "1", true, {} } do
      t.error(function() future:await(limit) end,
        "future:await: argument #1 must be a number of seconds, 0 or more, or nil for no limit, got ")
    end
    t.error(function() future.await(nil) end,
      "future:await: a future is expected as self, got nothing; call it with a colon")
    t.error(function() future.complete(5) end, "future:complete: a future is expected as self, got 5")
    t.error(function() future.fail(rl.condition()) end, "future:fail: a future is expected as self, got a condition")
    t.error(function() future.is_done "x" end, "future:is_done: a future is expected as self")
    t.error(function() future:get() end, "futures have await(), not get()")
  end)
end)

t.describe("functions that wait for several tasks or futures", function()
  t.it("take futures as well as tasks", function()
    local a, b, c = rl.future(), rl.future(), rl.future()
    rl.after(0.2, function() b:complete("b", 2) end)
    local slow = rl.task(rl.sleep, 60)
    t.equal({ rl.first_of(a, b, slow) }, { 2, "b", 2 })
    slow:cancel()
    t.falsy(a:is_done())
    rl.after(0.1, function() c:complete "c" end)
    rl.after(0.2, function() a:complete("a", "more") end)
    t.equal({ rl.all_of { a, b, c, function() return "own" end } }, { "a", "b", "c", "own" })
    local outcomes = rl.settle_all { a, rl.task(error, "no"), b }
    t.equal(outcomes[1], { ok = true, n = 2, "a", "more" })
    t.equal(outcomes[2].error, "no")
    t.equal(outcomes[3].ok, true)
  end)

  t.it("return the one that ended first, also when several have ended", function()
    local a, b = rl.future(), rl.future()
    local _, got = begin(rl.first_of, a, b)
    b:complete "b"
    a:complete "a"
    rl.sleep(0)
    t.equal(got.values, { n = 2, 2, "b" })
    t.equal({ rl.first_of(a, b) }, { 2, "b" })
    local task = rl.task(function() return "task" end)
    local late = rl.future()
    late:complete "late"
    t.equal({ rl.first_of(late, task) }, { 2, "task" })
    t.equal({ rl.first_of(late, late) }, { 1, "late" })
  end)

  t.it("raise the error of a future that fails", function()
    local a, b = rl.future(), rl.future()
    rl.after(0.1, function() b:fail { code = 7 } end)
    local ok, err = pcall(rl.all_of, a, b)
    t.equal({ ok, err }, { false, { code = 7 } })
    t.falsy(a:is_done())
    ok, err = pcall(rl.first_of, a, b)
    t.equal({ ok, err }, { false, { code = 7 } })
    local outcome = rl.settle_all { b }[1]
    t.equal({ outcome.ok, outcome.error }, { false, { code = 7 } })
  end)

  t.it("leave the futures alone when they are cancelled, or their time is over", function()
    local a, b = rl.future(), rl.future()
    for _, wait in ipairs { rl.first_of, rl.all_of } do
      local task = rl.task(wait, a, b, a)
      task:cancel()
      t.equal(task:status(), "cancelled")
    end
    local settling = rl.task(rl.settle_all, { a, b })
    settling:cancel()
    t.equal(settling:status(), "cancelled")
    t.equal({ rl.timeout(0.1, rl.first_of, a, b) }, { nil, "timed out" })
    local _, twice = begin(rl.all_of, a, a, b)
    a:complete(1)
    b:complete(2)
    rl.sleep(0)
    t.equal(twice.values, { n = 3, 1, 1, 2 })
  end)

  t.it("raise errors that name what they take", function()
    t.error(function() rl.first_of(1) end, "rl.first_of: argument #1 must be a task, a future or a function, got 1")
    t.error(function() rl.all_of(rl.future(), rl.condition()) end,
      "rl.all_of: argument #2 must be a task, a future or a function, got a condition")
    t.error(function() rl.settle_all(rl.future()) end,
      "rl.settle_all: argument #1 must be a list of tasks, futures and functions")
  end)
end)

t.describe("task:await with a time limit", function()
  t.it("returns nil and \"timed out\", and the task continues", function()
    local task = rl.task(function() rl.sleep(1) return "slow", 2 end)
    t.equal({ task:await(0.25) }, { nil, "timed out" })
    t.equal(task:status(), "waiting")
    t.equal({ task:await(0) }, { nil, "timed out" })
    t.equal({ task:await(1) }, { "slow", 2 })
    t.equal({ task:await(0) }, { "slow", 2 })
  end)

  t.it("raises the task's error", function()
    local told
    local before = rl.on_error(function(err) told = err end)
    local task = rl.task(function() rl.sleep(0.1) error "late" end)
    t.equal({ task:await(0.05) }, { nil, "timed out" })
    task = nil                            -- from here on, no task can await it
    rl.sleep(1)
    collectgarbage() collectgarbage()
    rl.sleep(1)
    rl.on_error(before)
    matches(told, "late")
  end)

  t.it("rejects invalid time limits", function()
    local task = rl.task(rl.sleep, 0)
    for _, limit in ipairs { -1, 0 / 0, "1", false } do
      t.error(function() task:await(limit) end,
        "task:await: argument #1 must be a number of seconds, 0 or more, or nil for no limit, got ")
    end
    task:await(math.huge)
  end)
end)
