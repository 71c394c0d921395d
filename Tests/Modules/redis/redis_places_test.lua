-- The places that redis.open takes.

local redis = require "runloop.redis"
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
  { "a\0b:1", "the host of argument #1 must be a name, got" },
  { { path = 5 }, "the path of argument #1 must be a path, got 5" },
  { "redis://host/" .. ("9"):rep(20), "argument #1 must end with a host and the number of a database" },
}, "%s cannot be a place", function(place, text)
  t.error(function() redis.open(place) end, "redis.open: " .. text)
end)
