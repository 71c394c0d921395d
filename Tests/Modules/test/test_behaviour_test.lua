-- Tests of the guarantees that the runner gives to tests.

local rl = require "runloop"
local t = require "runloop.test"

t.describe("values", function()
  local function differs(a, b, message)
    local raised = t.error(function() t.equal(a, b) end)
    t.equal(raised.message, message)
    return raised.details
  end

  t.it("are equal if their contents are equal", function()
    local cyclic, other = { 1 }, { 1 }
    cyclic.self, other.self = cyclic, other
    t.equal(cyclic, other)
    t.equal({ a = { b = { 0 / 0 } } }, { a = { b = { 0 / 0 } } })
    t.equal(1, 1.0)
    t.equal(setmetatable({ 1 }, {}), { 1 })
    local meta = { __eq = function(a, b) return a.id == b.id end }
    t.equal(setmetatable({ id = 1, x = 1 }, meta), setmetatable({ id = 1, x = 2 }, meta))
  end)

  t.it("are shown with readable differences", function()
    differs(9, 10, "expected 10, got 9")
    differs("1", 1, 'expected 1, got "1" (a string)')
    differs(nil, false, "expected false, got nil")
    differs(0.1 + 0.2, 0.3, "expected 0.3, got 0.30000000000000004")
    t.equal(differs({ 1, 2, 3, 4 }, { 1, 3, 4 }, "the tables differ"), { "[2]: not expected: got 2" })
    t.equal(differs({ 1, 3 }, { 1, 2, 3 }, "the tables differ"), { "[2]: missing: expected 2" })
    t.equal(differs({ x = { 1 } }, { x = 1 }, "the tables differ"), { ".x: expected 1, got {1}" })
    t.equal(differs({ ["a b"] = 1 }, { ["a b"] = 2 }, "the tables differ"), { '["a b"]: expected 2, got 1' })
    t.equal(#differs(rl.modes, {}, "the tables differ"), 5)
    local many = {}
    for i = 1, 40 do many["k" .. i] = i end
    t.equal(differs(many, {}, "the tables differ")[13], "… and 28 more differences")
  end)

  t.it("are compared and shown at a depth of 3,000 tables", { real_time = true }, function()
    local function deep(value)
      for _ = 1, 3000 do value = { n = value } end
      return value
    end
    local details = t.error(function() t.equal(deep(1), deep(2)) end).details
    t.equal(#details, 1)
    t.truthy(details[1]:find "n: expected 2, got 1$")
  end)

  t.it("are the same only if they are one object", function()
    local table = {}
    t.equal(t.same(table, table), table)
    t.equal(t.error(function() t.same({}, {}) end).message, "expected the same table, got another one that is equal")
    t.error(function() t.same(1, 2) end, "expected the same as 2, got 1")
  end)

  t.it("are checked by t.truthy and t.falsy", function()
    t.equal(t.truthy(0), 0)
    t.equal(t.falsy(false), false)
    t.error(function() t.truthy(nil, "the door") end, "the door: expected a true value, got nil")
    t.error(function() t.falsy(0) end, "expected nil or false, got 0")
  end)

  t.it("that a function raises are compared by t.error", function()
    t.equal(t.error(function() error { code = 7 } end, { code = 7 }), { code = 7 })
    t.equal(t.error(function() error("plain [text", 0) end, "plain [text"), "plain [text")
    t.error(setmetatable({}, { __call = function() error("called", 0) end }), "called")
    t.error(function() t.error(function() end) end, "expected an error, none was raised")
    t.error(function() t.error(function() rl.sleep(1) error "late" end, "early") end, "another message")
  end)
end)

t.describe("time", function()
  t.it("begins at 0 and passes for every clock alike", function()
    t.equal(rl.now(), 0)
    local unix, clock, date = os.time(), os.clock(), rl.time()
    rl.sleep(3600)
    t.equal({ rl.now(), os.time() - unix, os.clock() - clock }, { 3600, 3600, 3600 })
    t.truthy(math.abs(rl.time() - date - 3600) < 1e-3)
    t.equal(os.date("%H:%M", os.time()), os.date "%H:%M")
  end)

  t.it("stands still while Lua runs", function()
    local before = rl.now()
    local sum = 0
    for i = 1, 100000 do sum = sum + i end
    t.equal(rl.now(), before)
  end)

  t.it("moves only by hand while it is held", function()
    local journal = t.journal { times = true }
    local held <close> = rl.clock:hold()
    rl.after(10, function() journal "ten" end)
    rl.after(20, function()
      rl.sleep(5)
      journal "twenty and five"
    end)
    t.equal(rl.clock:next(), 10)
    journal:equal { "10 ten" }
    rl.clock:advance(15)
    journal:equal { "10 ten", "25 twenty and five" }
    t.equal(rl.clock:next(), nil)
    rl.clock:release()
    rl.sleep(1)
  end)

  t.it("does not jump while a descriptor is watched, but can be advanced by hand", function()
    local program <close> = t.spawn { "sleep", "30" }
    local start = rl.now()
    rl.sleep(0.02)
    t.truthy(rl.now() - start < 10)
    rl.clock:advance(3600)
    t.truthy(rl.now() >= 3600)
  end)

  t.it("is shared by threads", function()
    local thread = rl.thread(function()
      local loop = require "runloop"
      loop.sleep(7200)
      return loop.now(), os.clock()
    end)
    rl.sleep(3600)
    t.equal({ thread:join() }, { true, 7200, 7200 })
    t.equal(rl.now(), 7200)
  end)

  t.it("is real if the test asks for it", { real_time = true }, function()
    t.error(function() rl.clock:advance(1) end, "this test runs in real time")
    local start = rl.now()
    rl.sleep(0.01)
    t.truthy(rl.now() > start)
  end)
end)

t.describe("a simulated day", function()
  for _, name in ipairs { "once", "again" } do
    t.it("passes for timers and tasks that wait for each other, " .. name, function()
      local journal = t.journal { times = true }
      local minutes = 0
      local timer <close> = rl.every(60, function() minutes = minutes + 1 end)
      local worker = rl.task(function()
        for hour = 1, 24 do
          rl.sleep(3600)
          journal("hour", hour, "minute", minutes)
        end
        return "done"
      end)
      local watcher = rl.task(function() return worker:await() end)
      journal(watcher:await())
      t.equal(minutes, 1440)
      t.equal(#journal, 25)
      t.equal({ journal[1], journal[24], journal[25] },
        { "3600 hour 1 minute 60", "86400 hour 24 minute 1440", "86400 done" })
    end)
  end
end)

t.describe("t.eventually", function()
  t.it("waits until something is true", function()
    local value
    rl.after(3, function() value = "here" end)
    t.equal(t.eventually(function() return value end), "here")
    t.truthy(rl.now() < 3.1)
  end)

  t.it("reports the last error", function()
    local raised = t.error(function() t.eventually(function() error("not yet", 0) end, { within = 2, every = 0.5 }) end)
    t.equal({ raised.message, raised.details }, { "not true within 2 s", { "the last error was: not yet" } })
  end)
end)

t.describe("hooks", function()
  local journal = {}
  t.before_each(function() journal = { "outer before" } end)
  t.after_each(function() t.equal(journal[#journal], "inner after") end)
  t.describe("of a group and an inner group", function()
    t.before_each(function() rl.sleep(60) journal[#journal + 1] = "inner before" end)
    t.after_each(function() journal[#journal + 1] = "inner after" end)
    t.it("run from the outer to the inner group, and may wait", function()
      t.equal(journal, { "outer before", "inner before" })
    end)
  end)
end)

t.describe("programs of t.spawn", function()
  t.it("communicate through pipes", function()
    local cat <close> = t.spawn { "cat" }
    cat:write "one\ntwo\n"
    t.equal(cat:wait_for "(%a+)\n", "one")
    t.equal(cat:wait_for("two", { plain = true }), "two")
    cat:close_input()
    t.equal(cat:wait(), 0)
    t.equal(cat:output(), "one\ntwo\n")
    t.equal({ cat:write "three" }, { nil, "EPIPE: its standard input is closed", "EPIPE" })
  end)

  t.it("take more input than a pipe holds", function()
    local count <close> = t.spawn { "wc", "-c" }
    t.equal(count:write(("x"):rep(300000)), true)
    count:close_input()
    t.equal(count:wait_for "%d+", "300000")
    t.equal(count:wait(), 0)
  end)

  t.it("have standard errors, environments and directories", function()
    local shell <close> = t.spawn { "sh", "-c", "echo $COLOUR$HOME; pwd; echo bad >&2; exit 3",
      env = { COLOUR = "red", HOME = false },
      directory = "/" }
    t.equal(shell:wait_for("bad", { from = "errors" }), "bad")
    t.equal(shell:wait(), 3)
    t.equal({ shell:output(), shell:errors() }, { "red\n/\n", "bad\n" })
  end)

  t.it("get terminals and signals", function()
    local shell <close> = t.spawn { "sh", "-c", "stty size; echo ready; exec sleep 60",
      terminal = { rows = 10, columns = 33 } }
    shell:wait_for "10 33"
    shell:wait_for "ready"
    shell:write "\3"
    t.equal({ shell:wait() }, { 130, "INT" })
    local sleeper <close> = t.spawn { "sleep", "60" }
    t.truthy(sleeper:is_running())
    t.equal(sleeper:signal "TERM", true)
    t.equal({ sleeper:wait() }, { 143, "TERM" })
    t.equal({ sleeper:signal(9) }, { nil, "ESRCH: it has ended", "ESRCH" })
  end)

  t.it("that cannot start raise an error with the reason", function()
    t.error(function() t.spawn { "/no/such/program" } end, "cannot start '/no/such/program': ENOENT: no such file")
    t.error(function() t.spawn { terminal = true } end, "t.spawn: which program?")
    t.error(function() t.spawn { "true", colour = 1 } end, "unknown field 'colour'")
  end)

  t.it("raise an error with a readable report if the output is not the expected one", function()
    local shell <close> = t.spawn { "sh", "-c", "echo hello; exit 2" }
    local raised = t.error(function() shell:wait_for "bye" end)
    t.equal(raised.message, 'sh did not write "bye": it ended without')
    t.equal(raised.details, { 'since the last match it wrote "hello\\n"', "its exit status is 2" })
  end)
end)

t.it("wrong calls raise errors that name the function and the argument", function()
  t.error(function() t.it("inside", print) end, "t.it: a test cannot define tests while it runs")
  t.error(function() t.eventually(1) end, "t.eventually: argument #1 must be a function, got 1")
  t.error(function() t.eventually(print, { withn = 1 }) end, "t.eventually: unknown option 'withn'")
  t.error(function() t.expect(print, -1) end, "t.expect: argument #2 must be how many times, got -1")
  t.error(function() rl.clock.advance(1) end, "rl.clock:advance: call it with a colon")
  t.error(function() rl.clock:advance(-1) end, "must be a number of seconds, 0 or more, got -1")
  t.error(function() t.journal(1) end, "t.journal: argument #1")
end)

t.it("--list prints one line for each test, without control characters", { real_time = true }, function()
  local fs, process = require "runloop.fs", require "runloop.process"
  local directory = assert(fs.temporary_directory())
  fs.write(directory .. "/x_test.lua", [[
    local t = require "runloop.test"
    t.it("two\nlines\27[31m", function() end)
    t.it("other", function() end)]])
  local result = process.run { t.rlhost, "test", "--list", "x_test.lua", directory = directory }
  fs.remove(directory, { recursive = true })
  t.equal(result.output, "x_test.lua: two lines?[31m\nx_test.lua: other\n")
end)
