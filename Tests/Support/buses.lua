-- Functions that several tests of runloop.nats use.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

local buses = {}

-- Returns a bus, which is closed after the test.
function buses.connect(where, options)
  local bus = t.truthy(nats.connect(where, options))
  t.finally(function() bus:close() end)
  return bus
end

-- Makes a message port over a bus, in the common modes.
function buses.hold(bus, options, callback)
  if type(options) == "string" then options = { name = options } end
  options.via, options.callback, options.modes = bus, callback, options.modes or "common"
  return t.truthy(rl.message_port(options))
end

-- Returns a remote port over a bus.
function buses.reach(bus, name, options)
  options = options or {}
  options.via = bus
  return t.truthy(rl.remote_port(name, options))
end

-- Returns a pool over a bus, which is closed after the test.
function buses.pool_of(bus, name, options)
  local all = { via = bus, name = name }
  for field, value in pairs(options or {}) do all[field] = value end
  local pool = t.truthy(rl.pool(all))
  t.finally(function() pool:close() end)
  return pool
end

-- Keeps the texts that go to standard error during the test. Returns their list.
function buses.warnings()
  local list, stderr = {}, io.stderr
  io.stderr = { write = function(_, ...) list[#list + 1] = table.concat { ... } end }
  t.finally(function() io.stderr = stderr end)
  return list
end

-- Waits for a condition, with a limit.
function buses.await(condition, what)
  for _ = 1, 3000 do
    if condition() then return end
    rl.sleep(0.01)
  end
  t.equal(what, "came true")
end

-- Returns the error that a call raises: as text, and as the raised value.
function buses.problem_of(fn, ...)
  local fine, err = pcall(fn, ...)
  t.equal(fine, false)
  return tostring(err), err
end

return buses
