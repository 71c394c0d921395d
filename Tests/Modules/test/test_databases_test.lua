-- Databases that a test leaves open are leaks, named with the place where they were opened.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local FILE = [[
local t = require "runloop.test"
local rl = require "runloop"
local sqlite, redis, postgres = require "runloop.sqlite", require "runloop.redis", require "runloop.postgres"
local function fake() return postgres.fake(function() return 1 end) end
t.describe("a group", function()
  local db
  t.before_all(function() db = sqlite.open ":memory:" end)
  t.after_all(function() db:close() end)
  local other = t.resource(function() return redis.open(redis.fake()) end, function(db) db:close() end)
  t.it("has databases of its own", function() t.equal(other():call "PING", db:value "select 'PONG'") end)
end)
t.it("closed", function()
  local a <close> = sqlite.open ":memory:"
  local b <close> = redis.open(redis.fake())
  postgres.open(fake()):close()
end)
t.it("collected", function()
  (function() sqlite.open(":memory:"):value "select 1" end)()
end)
t.it("left one", function() Left1 = sqlite.open ":memory:" end)
t.it("left two", function() Left2 = redis.open(redis.fake()) end)
t.it("left three", function() Left3 = postgres.open(fake()) end)
]]

t.it("databases that are left open are leaks, and named", { real_time = true, timeout = 60 }, function()
  local folder = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(folder, { recursive = true }) end)
  t.equal(fs.write(folder .. "/x_test.lua", FILE), true)
  local result = t.truthy(process.run { t.rlhost, "test", "x_test.lua", directory = folder })
  local output = result.output .. result.errors
  t.truthy(output:find("3 passed, 3 failed", 1, true), output)
  for line, text in pairs { [20] = 'sqlite database ":memory:"', [21] = 'redis database "fake/0"',
    [22] = 'postgres database "fake"' } do
    t.truthy(output:find(("%s (open, made at x_test.lua:%d)"):format(text, line), 1, true), output)
  end
end)

-- A segment of shared memory stays until the machine stops, and thousands of them keep every PostgreSQL from starting.
t.it("PostgreSQL leaves no shared memory, whether its test or its runner ends it", { real_time = true, timeout = 60 },
  function()
    local folder = t.truthy(fs.temporary_directory())
    t.finally(function() fs.remove(folder, { recursive = true }) end)
    t.equal(fs.write(folder .. "/x_test.lua", [[
      local t = require "runloop.test"
      t.it("a", { real_time = true, timeout = 60 }, function()
        local server = t.server("postgres", { required = true })
        local settings = server:directory() .. "/data/postmaster.pid"
        local number = assert(io.open(settings)):read "a":match "\n *%d+ +(%d+)\n"
        assert(io.open("segment", "w")):write(number, "\n"):close()
        if os.getenv "WAITS" then require "runloop".sleep(60) end
      end)]]), true)
    if not t.server "postgres" then return end
    for _, waits in ipairs { false, "yes" } do
      local runner = t.spawn { t.rlhost, "test", "x_test.lua", directory = folder, env = { WAITS = waits or nil } }
      local number
      t.eventually(function()
        local file <close> = io.open(folder .. "/segment")
        number = file and file:read "n"
        return number
      end, { within = 30 })
      if waits then runner:kill() else t.equal(runner:wait(), 0, runner:output()) end
      t.eventually(function()
        for line in io.lines "/proc/sysvipc/shm" do
          if tonumber(line:match "^ *%-?%d+ +(%d+)") == number then return false end
        end
        return true
      end, { within = 20 })
      os.remove(folder .. "/segment")
    end
  end)
