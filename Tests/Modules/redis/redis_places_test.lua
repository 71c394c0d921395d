-- The places that redis.open takes.

local redis = require "runloop.redis"
local rl = require "runloop"
local t = require "runloop.test"

-- A stream to such a place would raise an error in a task of the module, and so end the program.
t.each({
  { "localhost:65536", "the port of argument #1 must be a port from 0 to 65535, got 65536" },
  { "redis://host:65536", "the port of argument #1 must be a port from 0 to 65535, got 65536" },
  { -1, "the port of argument #1 must be a port from 0 to 65535, got -1" },
  { 1.5, "the port of argument #1 must be a port from 0 to 65535, got 1.5" },
  { { host = "x" }, "the port of argument #1 must be a port from 0 to 65535, got nothing" },
  { { host = "x", port = "1" }, 'the port of argument #1 must be a port from 0 to 65535, got "1"' },
  { { host = 5, port = 1 }, "the host of argument #1 must be a name, got 5" },
  { { host = "", port = 1 }, 'the host of argument #1 must be a name, got ""' },
  { "a\0b:1", "the host of argument #1 must be a name, got" },
  { { path = "" }, 'the path of argument #1 must be a path, got ""' },
  { { path = 5 }, "the path of argument #1 must be a path, got 5" },
  { "redis://host/" .. ("9"):rep(20), "argument #1 must end with a host and the number of a database" },
}, "%s cannot be a place", function(place, text)
  t.error(function() redis.open(place) end, "redis.open: " .. text)
end)

t.it("an error in the attempt to connect reaches all calls that wait for it", function()
  local fake = redis.fake()
  local db <close> = t.truthy(redis.open(fake))
  function fake._accept()
    rl.sleep(0.1)
    error("not enough memory", 0)
  end
  fake:drop()
  rl.sleep(0.1)
  local tasks = {}
  for i = 1, 2 do tasks[i] = rl.task(function() return pcall(db.call, db, "PING") end) end
  for i = 1, 2 do t.equal({ tasks[i]:await(5) }, { false, "not enough memory" }) end
  fake._accept = nil
  t.equal(db:call "PING", "PONG")
end)
