-- docs/examples/nats: queue.lua, settings.lua and leader.lua against a real server.

local t = require "runloop.test"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local REAL = { real_time = true, timeout = 40 }

local server = t.resource(function() return t.server "nats" end, function(server) server:stop() end)

local function start(name, ...)
  local program = t.spawn { t.rlhost, ROOT .. "/docs/examples/nats/" .. name, ... }
  t.finally(function() program:kill() end)
  return program
end

t.it("queue.lua: another worker gets the job of a killed one, and all continue after a restart of the server", REAL,
  function()
    local feeder = start("queue.lua", "feed", "3", server():url())
    t.equal(feeder:wait { within = 10 }, 0, feeder:errors())
    local first = start("queue.lua", "work", server():url())
    local job = first:wait_for("begin\t(job %d)\tdelivered 1", { within = 10 })
    first:kill()
    local second = start("queue.lua", "work", server():url())
    second:wait_for("begin\t" .. job .. "\tdelivered 2", { within = 15 })
    server():kill()
    server():restart()
    feeder = start("queue.lua", "feed", "1", server():url())
    t.equal(feeder:wait { within = 10 }, 0, feeder:errors())
    second:wait_for("done\tjob 1", { within = 15 })
  end)

t.it("settings.lua: shows the settings of other programs", REAL, function()
  t.equal(start("settings.lua", "color", "red", server():url()):wait { within = 10 }, 0)
  local program = start("settings.lua", "", "", server():url())
  program:wait_for("color\tred\nready", { within = 10 })
  t.equal(start("settings.lua", "color", "blue", server():url()):wait { within = 10 }, 0)
  program:wait_for("color\tblue", { within = 10 })
end)

t.it("leader.lua: one process leads, and one that was stopped reports that it has lost the lease", REAL, function()
  local first = start("leader.lua", "first", server():url())
  first:wait_for("first\tleads", { within = 10 })
  local second = start("leader.lua", "second", server():url())
  second:wait_for("second\twaits", { within = 10 })
  first:signal "STOP"
  second:wait_for("second\tleads", { within = 10 })
  local before = first:output()
  first:signal "CONT"
  first:wait_for("first\tthe lease was lost", { within = 10 })
  t.truthy(first:output():sub(#before + 1):find "^first\tthe lease was lost")
end)

t.it("thumbs.lua: workers share the work, and a stored job survives the kill of its worker", REAL, function()
  local first = start("thumbs.lua", "work", server():url())
  first:wait_for("ready", { within = 10 })
  local made = start("thumbs.lua", "make", "3", server():url())
  t.equal(made:wait { within = 10 }, 0, made:errors())
  t.equal(made:output(), "picture-1-200.png\npicture-2-200.png\npicture-3-200.png\n")
  made = start("thumbs.lua", "keep", "2", server():url())
  first:wait_for("done\tpicture%-3.-begin\tpicture%-1", { within = 10 })
  first:kill()
  local second = start("thumbs.lua", "work", server():url())
  second:wait_for("ready", { within = 10 })
  t.equal(made:wait { within = 20 }, 0, made:errors())
  t.equal(made:output(), "picture-1-200.png\npicture-2-200.png\n")
end)
