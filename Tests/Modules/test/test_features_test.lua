-- Shared set-up of tests, and helpers to write them.

local rl = require "runloop"
local t = require "runloop.test"

local events = {}
local function note(what) events[#events + 1] = what end

t.describe("a group", function()
  local n, program, timer = 0, nil, nil

  t.before_all(function()
    note "before all"
    program = t.spawn { "cat" }
    timer = rl.every(1, function() n = n + 1 end)
  end)
  t.after_all(function()
    note "after all"
    timer:invalidate()
    program:close_input()
    t.equal(program:wait(), 0)
  end)

  local inner = t.resource(function()
    note "made"
    return { source = rl.source { perform = print } }
  end, function(value)
    note "freed"
    value.source:invalidate()
  end)

  t.it("keeps the objects that before_all has made", { leaks = false }, function()
    program:write "one\n"
    t.equal(program:wait_for "(%a+)\n", "one")
    rl.current():add(inner().source)
    t.equal(inner(), inner())
  end)

  t.it("keeps them for the next test", function()
    program:write "two\n"
    t.equal(program:wait_for "(%a+)\n", "two")
    rl.clock:advance(3)
    t.truthy(n >= 3)
    t.equal(events, { "before all", "made" })
  end)
end)

t.it("a group frees its objects after its last test", function()
  t.equal(events, { "before all", "made", "after all", "freed" })
end)

t.each({ { 1, 2, 3 }, { 2, 2, 4 } }, "%d + %d = %d", function(a, b, sum) t.equal(a + b, sum) end)
t.each({ zero = 0, one = 1 }, "number", function(value) t.truthy(value) end)
t.each({ { word = "level" }, { word = "noon" } }, "$word", function(case) t.equal(case.word:reverse(), case.word) end)

t.describe("spies and stubs", function()
  t.it("record their calls", function()
    local spy = t.spy(function(a, b) return a + b end)
    t.equal(spy(1, 2), 3)
    spy(3, 4)
    t.equal(spy:count(), 2)
    spy:equal { { 1, 2 }, { 3, 4 } }
    spy:called_with(3, 4)
    t.error(function() spy:called_with(5) end, "it was never called with {5}")
    t.error(function() spy:equal { { 1, 2 } } end, "the calls differ")
    t.equal(spy.calls[1].results[1], 3)
    spy:clear()
    t.equal(spy:count(), 0)
  end)

  t.it("are real functions", function()
    local rl = require "runloop"
    local spy = t.spy()
    t.equal(type(spy), "function")
    t.falsy(getmetatable(spy))
    local every = rl.every(2, spy, "every")
    local made = {
      rl.observe("before_waiting", spy), rl.source { perform = spy, modes = "common" },
      rl.port { callback = spy, modes = "common" },
      rl.timer { delay = 1, callback = spy, modes = "common" },
    }
    rl.after(1, spy, "after")
    rl.perform(spy, "perform")
    made[2]:signal()
    made[3]:send { data = "message" }
    made[#made + 1] = rl.notifications:observe("news", spy)
    rl.notifications:post "news"
    rl.task(spy, "task"):await()
    require "runloop.process".on_signal("USR1", spy):invalidate()
    rl.sleep(2)
    every:invalidate()
    local seen = {}
    for _, call in ipairs(spy.calls) do
      for i = 1, call.n do
        local value = call[i]
        if type(value) == "userdata" then value = tostring(value):match "^%a+"
        elseif type(value) == "table" then value = value.data or value.name end
        if value ~= nil then seen[value] = true end
      end
    end
    for _, item in ipairs(made) do item:invalidate() end
    local kinds = { "observer", "source", "port", "timer", "after", "every", "perform", "task", "message",
      "before_waiting", "news" }
    for _, what in ipairs(kinds) do
      t.truthy(seen[what], what)
    end
    local sorted = { 3, 1, 2 }
    table.sort(sorted, t.spy(function(a, b) return a > b end))
    t.equal(sorted, { 3, 2, 1 })
    t.equal((("ab"):gsub(".", t.spy(string.upper))), "AB")
    t.equal(coroutine.wrap(t.spy(function(a) return coroutine.yield(a) end))(5), 5)
    t.error(t.spy(error), nil)
    t.error(function() rl.after(1, {}) end, "rl.after: argument #2 must be a function, got a table")
    t.error(function() spy.count() end, "spy:count: a spy is expected as self; call it with a colon")
    spy.calls = {}
    t.equal(spy:count(), 0)
  end)

  t.it("do not change other functions", function()
    t.spy()
    t.error(function() local _ = print.x end, "attempt to index a function value")
    t.error(function() print.x = 1 end, "attempt to index a function value")
    local before = debug.getmetatable(print)
    debug.setmetatable(print, { __index = { twice = function(f, x) return f(f(x)) end } })
    local spy = t.spy(function(x) return x * 2 end)
    t.equal({ spy(4), spy:count(), math.abs:twice(-3) }, { 8, 1, 3 })
    t.equal({ spy:twice(3), spy.nothing }, { 12 })
    -- A library that does not know about spies may replace `__index` like this.
    debug.getmetatable(print).__index = { thrice = function(f, x) return f(f(f(x))) end }
    t.equal({ t.spy():count(), spy:count(), spy:thrice(1) }, { 0, 3, 8 })
    debug.setmetatable(print, before)
  end)

  local library = { value = 1, ask = function() return "real" end }
  local real = library.ask
  t.it("replace a field of a table", function()
    local stub = t.stub(library, "ask", function() return "false" end)
    t.stub(library, "value", 2)
    t.equal({ library.ask(7), library.value }, { "false", 2 })
    stub:called_with(7)
  end)
  t.it("and restore it after the test", function() t.equal({ library.ask, library.value }, { real, 1 }) end)

  t.it("reject invalid arguments", function()
    t.error(function() t.spy(1) end, "t.spy: argument #1 must be a function, got 1")
    t.error(function() t.stub(1, "x") end, "t.stub: argument #1 must be a table, got 1")
    t.error(function() t.finally() end, "t.finally: argument #1 must be a function, got nothing")
    t.error(function() t.resource() end, "t.resource: argument #1 must be a function, got nothing")
    t.error(function() t.each {} end, "t.each: argument #2 must be a name, got nothing")
  end)

  local order = {}
  t.it("a test may have clean-up functions", function()
    t.finally(function() order[#order + 1] = 1 end)
    t.finally(function() order[#order + 1] = 2 end)
  end)
  t.it("clean-up functions run after their test, the last one first", function() t.equal(order, { 2, 1 }) end)
end)

t.describe("properties", function()
  t.it("pass for all values", function()
    local runs = 0
    t.forall({ t.gen.integer(), t.gen.string "ab" }, function(a, s)
      runs = runs + 1
      assert(a >= -1000 and a <= 1000 and not s:find "[^ab]")
    end, { runs = 50 })
    t.equal(runs, 50)
  end)

  t.it("that fail are reported with the simplest values", function()
    local raised = t.error(function()
      t.forall({ t.gen.list(t.gen.integer(0, 1000)) }, function(list)
        for _, value in ipairs(list) do assert(value < 100, "too large") end
      end)
    end)
    t.truthy(raised.message:find "too large")
    t.equal(raised.details[1], "argument 1: {100}")
  end)

  t.it("shrink the fields of records", function()
    local raised = t.error(function()
      t.forall(t.gen.record { name = t.gen.string("xyz", { min = 1 }), age = t.gen.integer(0, 200) }, function(person)
        return #person.name < 3 or person.age < 18
      end)
    end)
    t.equal(raised.details[1], 'argument 1: {age = 18, name = "xxx"}')
  end)

  t.it("shrink values as far as a filter allows", function()
    local function smallest(generator, holds)
      return t.error(function() t.forall(generator, holds) end).details[1]
    end
    local function below(limit) return function(value) return value < limit end end
    for _ = 1, 10 do
      t.equal(smallest(t.gen.integer(0, 1000):filter(function(x) return x % 2 == 0 end), below(501)), "argument 1: 502")
      t.equal(smallest(t.gen.integer(0, 5000):filter(function(x)
        return x % 20 == 7
      end), below(1001)), "argument 1: 1007")
    end
    local long = t.gen.string("ab", { max = 12 }):filter(function(s) return #s % 3 == 0 end)
    t.equal(smallest(long, function(s) return #s < 5 end), 'argument 1: "aaaaaa"')
  end)

  t.it("report the values if a callback fails, or if the test does not end", function()
    local base = os.tmpname()
    local name = base .. "_test.lua"
    t.finally(function() os.remove(name) os.remove(base) end)
    local file = assert(io.open(name, "w"))
    file:write [[
      local rl, t = require "runloop", require "runloop.test"
      t.it("fails in a callback", function()
        t.forall(t.gen.integer(700, 700), function(x)
          rl.after(0, function() assert(x < 500, "too many") end)
          rl.sleep(1)
        end)
      end)
      t.it("never ends", function() t.forall({ t.gen.constant "a", t.gen.constant(5) }, function() rl.condition():wait() end) end)
      t.it("fails afterwards", function()
        t.forall(t.gen.integer(700, 700), print)
        error "behind it"
      end)
    ]]
    file:close()
    local p <close> = t.spawn { t.rlhost, "test", "--seed", "5", name }
    local text = p:wait_for_end_of_output { within = 20 }
    t.equal(select(2, text:gsub("argument 1: 700", "")), 1, text)
    t.truthy(text:find("too many.-argument 1: 700%s+%-%-seed 5 makes the same values"), text)
    t.truthy(text:find 'argument 1: "a"%s+argument 2: 5', text)
  end)

  t.it("make strings of an empty alphabet, if these may be empty", function()
    t.forall(t.gen.string "", function(s) return s == "" end)
    t.forall(t.gen.string("", { max = 3 }), function(s) return s == "" end)
    t.forall(t.gen.string("x", { min = 4, max = 4 }), function(s) return s == "xxxx" end)
  end)

  t.it("reject invalid arguments", function()
    t.error(function() t.gen.string("", { min = 1 }) end, "no string of 1 characters can be made of an empty alphabet")
    t.error(function() t.gen.string("a", { min = 5, max = 1 }) end, "t.gen.string: 'min' %(5%) is above 'max' %(1%)")
    t.error(function() t.gen.string(5) end, "t.gen.string: argument #1 must be a string, got 5")
    t.error(function() t.gen.list(t.gen.boolean(), 5) end, "t.gen.list: the options must be a table, got 5")
    t.error(function() t.gen.number("a") end, "t.gen.number: two finite numbers are expected")
    t.error(function() t.gen.number(1, 0) end, "t.gen.number: two finite numbers are expected")
    t.error(function() t.gen.record(5) end, "t.gen.record: a table of generators is expected, got 5")
    t.error(function() t.gen.boolean():map(5) end, "generator:map: argument #1 must be a function, got 5")
    t.error(function() t.gen.boolean().filter(print) end, "generator:filter: a generator is expected, got")
    t.error(function()
      t.forall(t.gen.boolean(), t.gen.boolean(), print)
    end, "several generators are given as an array")
    t.error(function() t.forall({}, print) end, "t.forall: argument #1 must be an array of generators")
    t.error(function() t.forall({ 1 }, print) end, "t.forall: a generator is expected, got 1")
    t.error(function() t.forall(t.gen.boolean(), print, { run = 1 }) end, "unknown option 'run'")
  end)
end)

t.describe("programs", function()
  t.it("can be awaited in several ways", function()
    local p <close> = t.spawn { "sh", "-c", "echo b; sleep 0.05; echo a; echo e >&2" }
    t.equal({ p:wait_for { "a", "(b)" } }, { 2, "b" })
    t.equal(p:wait_for_end_of_output(), "\na\n")
    t.equal(p:wait(), 0)
    t.equal(p:wait_for_end_of_output { from = "errors" }, "e\n")
    t.error(function() p:wait_for {} end, "must be a pattern, or an array of them")
    t.error(function() p:screen() end, "process:screen: it has no terminal")
  end)

  t.it("show the screen of a terminal", function()
    local p <close> = t.spawn { "sh", "-c", [[printf 'one\r\ntwo\033[1;1HO\033[2;10Hw\314\210\033[5;1Hlast\033[K']],
      terminal = { rows = 5, columns = 12 } }
    t.equal(p:wait(), 0)
    local screen = p:screen()
    t.equal(screen:text(), "One\ntwo      w\u{308}\n\n\nlast")
    t.equal({ screen:find "st" }, { 5, 3 })
    t.equal({ screen.row, screen.column }, { 5, 5 })
  end)

  t.it("have an alternate screen, and scroll", function()
    local p <close> = t.spawn { "sh", "-c", [[printf 'before\033[?1049hinside\033[?1049l\r\n1\r\n2\r\n3\r\n4']],
      terminal = { rows = 3, columns = 10 } }
    p:wait()
    t.equal(p:screen():text(), "2\n3\n4")
  end)

  t.it("are not hung up when they close their terminal", function()
    local p <close> = t.spawn { "sh", "-c", "echo a; exec <&- >&- 2>&-; sleep 0.05; exit 4", terminal = true }
    p:wait_for "a"
    t.equal(p:wait(), 4)
  end)

  t.it("raise an error with the directory if they cannot start", function()
    t.error(function() t.spawn { "ls", directory = "/nope" } end, "cannot start 'ls' in '/nope': ENOENT")
  end)
end)

t.it("a failed assert reports the values of the names in its line", { fails = "on purpose" }, function()
  local basket = { apples = 2 }
  assert(basket.apples == 3)
end)
