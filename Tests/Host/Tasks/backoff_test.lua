-- rl.backoff.

local rl = require "runloop"
local t = require "runloop.test"

local HERE = "backoff_test.lua"

local function matches(text, pattern) t.truthy(text:find(pattern), text) end

-- Returns how long each of the first `count` waits has lasted, to the thousandth of a second.
local function waits(backoff, count)
  local lasted = {}
  for i = 1, count do
    local began = rl.now()
    t.equal(backoff:wait(), i)
    lasted[i] = math.floor((rl.now() - began) * 1000 + 0.5) / 1000
  end
  return lasted
end

t.describe("a backoff", function()
  t.it("waits longer before each try, up to the longest wait", function()
    t.equal(waits(rl.backoff { first = 1, most = 10, factor = 2, jitter = 0 }, 6), { 1.0, 2.0, 4.0, 8.0, 10.0, 10.0 })
    t.equal(waits(rl.backoff { first = 0.5, most = 0.5, jitter = 0 }, 3), { 0.5, 0.5, 0.5 })
    t.equal(waits(rl.backoff { first = 2, factor = 1, jitter = 0 }, 3), { 2.0, 2.0, 2.0 })
    t.equal(waits(rl.backoff { first = 0, factor = math.huge, jitter = 0 }, 3), { 0.0, 0.0, 0.0 })
    t.equal(waits(rl.backoff { first = 0.1, factor = 1e300, jitter = 0 }, 5), { 0.1, 10.0, 10.0, 10.0, 10.0 })
    t.equal(waits(rl.backoff { first = 0, most = 0 }, 2), { 0.0, 0.0 })
  end)

  t.it("has the documented defaults, and random waits", function()
    local shortest, longest, different = math.huge, 0, {}
    for _ = 1, 200 do
      local first = waits(rl.backoff(), 2)
      t.truthy(first[2] <= 0.1 and first[2] >= 0.05, "the second wait")
      shortest, longest = math.min(shortest, first[1]), math.max(longest, first[1])
      different[first[1]] = true
    end
    t.truthy(shortest >= 0.025 and shortest < 0.03 and longest <= 0.05 and longest > 0.045,
      shortest .. " to " .. longest)
    local count = 0
    for _ in pairs(different) do count = count + 1 end
    t.truthy(count > 10)
    for _, lasted in ipairs(waits(rl.backoff { first = 1, most = 4, jitter = 1 }, 50)) do
      t.truthy(lasted >= 0 and lasted <= 4)
    end
  end)

  t.it("gives up after its tries, at once, until it begins again", function()
    local backoff = rl.backoff { first = 1, jitter = 0, tries = 2 }
    t.equal(waits(backoff, 2), { 1.0, 2.0 })
    local now = rl.now()
    t.equal({ backoff:wait() }, { nil, "gave up after 2 tries" })
    t.equal({ backoff:wait() }, { nil, "gave up after 2 tries" })
    t.equal(rl.now(), now)
    backoff:reset()
    t.equal(waits(backoff, 2), { 1.0, 2.0 })
    local once = rl.backoff { tries = 1 }
    once:wait()
    t.equal(select(2, once:wait()), "gave up after 1 try")
  end)

  t.it("does not count a wait that was cancelled", function()
    local backoff = rl.backoff { first = 1, jitter = 0, tries = 2 }
    for _ = 1, 3 do
      local task = rl.task(backoff.wait, backoff)
      task:cancel()
      t.equal(task:status(), "cancelled")
    end
    t.equal({ rl.timeout(0.5, backoff.wait, backoff) }, { nil, "timed out" })
    t.equal(backoff:wait(), 1)
    local task = rl.task(backoff.wait, backoff)
    backoff:reset()
    task:cancel()
    t.equal(waits(backoff, 2), { 1.0, 2.0 })
  end)

  t.it("takes its random numbers from the test's seed", { real_time = true, timeout = 60 }, function()
    local fs = require "runloop.fs"
    local directory <close> = setmetatable({ path = assert(fs.temporary_directory()) }, { __close = function(self)
      fs.remove(self.path, { recursive = true })
    end })
    assert(fs.write(directory.path .. "/seed_test.lua", [[
      local rl, t = require "runloop", require "runloop.test"
      t.it("says what it waits", function()
        local before = rl.now()
        rl.backoff():wait()
        print("waited", rl.now() - before, "random", math.random(1e9))
      end)
      t.it("says only what is random", function() print("plain", math.random(1e9)) end)
    ]]))
    local function run(seed)
      local process = require "runloop.process"
      local done = assert(process.run { t.rlhost, "test", "--seed", tostring(seed), "seed_test.lua",
        directory = directory.path })
      return done.output:match "waited\t(%S+)\trandom\t(%S+).*plain\t(%S+)"
    end
    local wait, random, plain = run(1)
    t.equal({ run(1) }, { wait, random, plain })
    t.equal(random, plain, "the wait has taken nothing from math.random")
    t.truthy(run(2) ~= wait)
  end)

  t.it("is described with the place where it was made", function()
    local backoff = rl.backoff { first = 5, jitter = 0 }
    local made = debug.getinfo(1, "l").currentline - 1
    matches(tostring(backoff), "^backoff %(0 tries, made at %S-" .. HERE .. ":" .. made .. "%)$")
    local task = rl.task(function() backoff:wait() end)
    local told = "waits in backoff:wait at %S-" .. HERE .. ":" .. made + 3 .. ", backoff made at %S-" .. HERE .. ":"
      .. made
    matches(task:traceback(), "^" .. told .. ", 5 s to go")
    matches(rl.why(), told)
    matches(tostring(task), "waiting in backoff:wait")
    task:cancel()
  end)

  t.it("rl.why names the task that waits", function()
    local backoff, net = rl.backoff { first = 5 }, require "runloop.net"
    local fd = net.pair()
    local tasks = {
      rl.task { function() backoff:wait() end, name = "connector" },
      rl.task { function() rl.wait_readable(fd:fd()) end, name = "reader" },
    }
    local text = rl.why()
    matches(text, 'task "connector" %(next in [^\n]*waits in backoff:wait')
    matches(text, 'task "reader" %(waits in rl.wait_readable')
    for _, task in ipairs(tasks) do task:cancel() end
    fd:close()
  end)

  t.it("rejects invalid fields", function()
    local wrong = {
      first = { -1, 0 / 0, "1", true }, most = { -1, 0 / 0, "x" }, factor = { 0.5, 0 / 0, -2, "2" },
      jitter = { -0.1, 1.1, 0 / 0, "x" }, tries = { 0, -1, 1.5, 0 / 0, "3", math.huge },
    }
    local expected = {
      first = "a number of seconds, 0 or more", most = "a number of seconds, 0 or more", factor = "a number, 1 or more",
      jitter = "a number from 0 to 1", tries = "an integer, 1 or more",
    }
    for field, values in pairs(wrong) do
      for _, value in ipairs(values) do
        t.error(function() rl.backoff { [field] = value } end,
          ("rl.backoff: field '%s' must be %s, got "):format(field, expected[field]))
      end
    end
    t.error(function() rl.backoff { first = 2, most = 1 } end,
      "rl.backoff: field 'most' must be at least field 'first': 2 s, got 1 s")
    t.error(function() rl.backoff { first = 20 } end,
      "rl.backoff: field 'most' must be at least field 'first': 20 s, got 10 s")
    t.error(function() rl.backoff { frist = 1 } end, "rl.backoff: unknown field 'frist' (did you mean 'first'?)")
    t.error(function() rl.backoff(5) end, "rl.backoff: an options table is expected, got 5")
    local backoff = rl.backoff()
    t.error(function() backoff.wait() end,
      "backoff:wait: a backoff is expected as self, got nothing; call it with a colon")
    t.error(function() backoff.reset {} end, "backoff:reset: a backoff is expected as self, got a table")
    t.error(function() backoff:sleep() end, "backoffs have ")
  end)
end)
