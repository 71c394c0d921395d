-- Errors of tasks that the script has dropped.

local process = require "runloop.process"
local t = require "runloop.test"

t.describe("the error of a dropped task", { timeout = 60 }, function()
  -- The program is small and idle: neither Lua's own collections nor those for a large state would find the task. After
  -- the collection for the first error, the host delays the collection for the second one.
  t.it("is reported soon in a sleeping loop, also after earlier ones", function()
    local done = assert(process.run { t.rlhost, "-", input = [[
      local rl = require "runloop"
      local count, all = 0, rl.future()
      local function fail()
        rl.task(function() error("dropped " .. count + 1, 0) end)
      end
      rl.on_error(function(problem)
        count = count + 1
        print(problem)
        if count == 5 then all:complete(true) else rl.after(0, fail) end
      end)
      fail()
      print(all:await(20))
    ]] })
    t.equal(done.output, "dropped 1\ndropped 2\ndropped 3\ndropped 4\ndropped 5\ntrue\n", done.errors)
  end)
end)

t.it("failed tasks that were awaited take no memory, even without a pass of the loop", { timeout = 60 }, function()
  local done = assert(process.run { t.rlhost, "-", input = [[
    local rl = require "runloop"
    local function resident()
      collectgarbage()
      for line in io.lines "/proc/self/status" do
        local size = line:match "^VmRSS:%s*(%d+) kB"
        if size then return tonumber(size) end
      end
    end
    local function fail()
      local group = rl.group()
      group:task(error, "no")
      pcall(group.wait, group)
    end
    for _ = 1, 30000 do fail() end
    local before = resident()
    for _ = 1, 90000 do fail() end
    print(resident() - before)
  ]] })
  t.truthy(tonumber(done.output) < 2000, done.output .. done.errors)
end)
