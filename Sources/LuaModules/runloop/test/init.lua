-- The test library: what `require "runloop.test"` gives to a test file.
--
-- Errors have the test's position: frames of this source are passed over.

local rl = require "runloop"
local values = require "runloop.test.values"
local system = ...

local error, type, pcall, select, setmetatable, getmetatable = error, type, pcall, select, setmetatable, getmetatable
local pairs, next, tostring, rawequal, tointeger = pairs, next, tostring, rawequal, math.tointeger
local format, find, concat, pack, unpack = string.format, string.find, table.concat, table.pack, table.unpack
local getinfo = debug.getinfo

local t = {}
local core = {
  --- The group that describe and it add to; nil once the file is loaded.
  group = nil,
  --- What is known of the test that runs.
  current = nil,
  --- Whether some test or group asks to run alone.
  has_only = false,
}

-- Positions and failures ----------------------------------------------------------------------------------------------

local function here()
  for level = 2, 60 do
    local info = getinfo(level, "Sl")
    if not info then return nil end
    if info.currentline > 0 and info.source ~= "=[rlhost]" then
      return info.short_src .. ":" .. info.currentline, info
    end
  end
end
core.here = here

local Failure = { __name = "failure" }
core.Failure = Failure

function Failure:__tostring()
  local text = (self.where and self.where .. ": " or "") .. self.message
  if self.details then text = text .. "\n  " .. concat(self.details, "\n  ") end
  return text
end

local function fail(message, details, note)
  if note ~= nil then message = tostring(note) .. ": " .. message end
  error(setmetatable({ message = message, details = details, where = here() }, Failure), 0)
end

local function misuse(text)
  local where = here()
  error((where and where .. ": " or "") .. text, 0)
end

local function describe_value(value)
  local kind = type(value)
  return kind == "nil" and "nothing" or kind == "string" and format("%q", value) or kind == "number" and tostring(value)
    or "a " .. kind
end

-- Groups and tests ----------------------------------------------------------------------------------------------------

local OPTIONS = { real_time = "boolean", timeout = "number", skip = "boolean or string", only = "boolean" }

local function check_options(name, options)
  for key, value in pairs(options) do
    local expected = OPTIONS[key]
    if not expected then
      misuse(format("%s: unknown option '%s' (there are: only, real_time, skip, timeout)", name, tostring(key)))
    end
    if not find(expected, type(value), 1, true) then
      misuse(format("%s: option '%s' must be a %s, got %s", name, key, expected, describe_value(value)))
    end
  end
  if options.timeout and not (options.timeout > 0) then misuse(name .. ": option 'timeout' must be more than 0") end
end

local function new_node(name, kind, title, options, body)
  if type(title) ~= "string" then
    misuse(format("%s: argument #1 must be a name, got %s", name, describe_value(title)))
  end
  if type(options) == "function" and body == nil then options, body = nil, options end
  if options ~= nil and type(options) ~= "table" then
    misuse(format("%s: argument #2 must be a function, or a table of options, got %s", name, describe_value(options)))
  end
  if body ~= nil and type(body) ~= "function" or kind == "group" and body == nil then
    misuse(format("%s: a function is expected after the name, got %s", name, describe_value(body)))
  end
  if core.current then misuse(name .. ": a test cannot define tests while it runs") end
  local parent = core.group
  if not parent then misuse(name .. ": tests are defined while their file is loaded") end
  options = options or {}
  check_options(name, options)
  local node = {
    kind = kind, name = title, parent = parent, body = body, where = here(), before = {}, after = {}, children = {},
    real_time = options.real_time, timeout = options.timeout, only = options.only, skip = options.skip or nil,
  }
  if node.skip == nil and kind == "test" and body == nil then node.skip = "not written yet" end
  if node.only then core.has_only = true end
  parent.children[#parent.children + 1] = node
  return node
end

local function define_group(name, title, options, body, set)
  local node = new_node(name, "group", title, options, body)
  if set then
    node[set] = true
    if set == "only" then core.has_only = true end
  end
  local outer = core.group
  core.group = node
  node.body()
  core.group = outer
end

--- Groups tests: `body` is called at once, and defines them.
function t.describe(name, options, body) define_group("t.describe", name, options, body) end

--- Defines a test.
function t.it(name, options, body) new_node("t.it", "test", name, options, body) end

local Skip = {}
core.Skip = Skip

--- Outside of tests: defines one that does not run. In a test: ends it as skipped, with a reason.
function t.skip(name, options, body)
  if core.current then
    if name ~= nil and type(name) ~= "string" then
      misuse("t.skip: argument #1 must be a reason, got " .. describe_value(name))
    end
    error(setmetatable({ reason = name or "" }, Skip), 0)
  end
  local node = new_node("t.skip", "test", name, options, body)
  if node.skip == nil or node.skip == "not written yet" and body then node.skip = true end
end

--- Defines a test that runs alone: of its file, only those run that are defined so.
function t.only(name, options, body)
  local node = new_node("t.only", "test", name, options, body)
  node.only = true
  core.has_only = true
end

local function hook(name, list)
  return function(body)
    if type(body) ~= "function" then
      misuse(format("%s: argument #1 must be a function, got %s", name, describe_value(body)))
    end
    if not core.group or core.current then misuse(name .. ": hooks are defined while their file is loaded") end
    local hooks = core.group[list]
    hooks[#hooks + 1] = body
  end
end

--- Has a function called before each test of the group, those of outer groups first.
t.before_each = hook("t.before_each", "before")
--- Has a function called after each test of the group, whatever its outcome; those of inner groups first.
t.after_each = hook("t.after_each", "after")

-- Assertions ----------------------------------------------------------------------------------------------------------

--- Fails unless both are equal; tables are, if they hold equal things under equal keys. `note` is put before the message.
function t.equal(actual, expected, note)
  if values.equal(actual, expected) then return actual end
  local message, details = values.difference(actual, expected)
  fail(message, details, note)
end

--- Fails unless both are the same: one table, function or other object, or equal strings, numbers and booleans.
function t.same(actual, expected, note)
  if rawequal(actual, expected) then return actual end
  if values.equal(actual, expected) and type(actual) == type(expected) and type(actual) ~= "number" then
    fail(format("expected the same %s, got another one that is equal", type(actual)), nil, note)
  end
  fail(format("expected the same as %s, got %s", values.show(expected), values.show(actual)), nil, note)
end

--- Fails for nil and false.
function t.truthy(value, note)
  if value then return value end
  fail("expected a true value, got " .. tostring(value), nil, note)
end

--- Fails for everything but nil and false.
function t.falsy(value, note)
  if not value then return value end
  fail("expected nil or false, got " .. values.show(value), nil, note)
end

--- Calls a function, and fails unless it raises an error; returns the error. A string must be found in its message, as a
--- pattern or as it is; anything else must be equal to the error value.
function t.error(body, expected, note)
  if type(body) ~= "function" then
    misuse("t.error: argument #1 must be a function to call, got " .. describe_value(body))
  end
  local fine, raised = pcall(body)
  if fine then fail("expected an error, none was raised", nil, note) end
  if getmetatable(raised) == Skip then error(raised, 0) end
  if expected == nil then return raised end
  if type(expected) == "string" and (type(raised) == "string" or type(raised) == "number" or getmetatable(raised)
    and getmetatable(raised).__tostring) then
    local text = tostring(raised)
    local valid, found = pcall(find, text, expected)
    if valid and found or find(text, expected, 1, true) then return raised end
    fail("the error has another message", { "expected " .. values.show(expected), "got      " .. values.show(text) }, note)
  end
  if values.equal(raised, expected) then return raised end
  local message, details = values.difference(raised, expected)
  fail("another error: " .. message, details, note)
end

local EVENTUALLY = { within = true, every = true }

--- Calls a function again and again until it returns a true value, and returns what it does. An error counts as "not
--- yet". Fails when `within` seconds are over (5); `every` so many it is called (0.01).
function t.eventually(body, options)
  if type(body) ~= "function" then
    misuse("t.eventually: argument #1 must be a function, got " .. describe_value(body))
  end
  if options ~= nil and type(options) ~= "table" then
    misuse("t.eventually: argument #2 must be a table like {within = 1, every = 0.1}, got " .. describe_value(options))
  end
  for name, value in pairs(options or {}) do
    if not EVENTUALLY[name] then
      misuse(format("t.eventually: unknown option '%s' (there are: every, within)", tostring(name)))
    end
    if type(value) ~= "number" or not (value >= 0) or name == "every" and value == 0 then
      misuse(format("t.eventually: option '%s' must be a number of seconds, got %s", name, describe_value(value)))
    end
  end
  local within, every = options and options.within or 5, options and options.every or 0.01
  local deadline = rl.now() + within
  while true do
    local results = pack(pcall(body))
    if results[1] and results[2] then return unpack(results, 2, results.n) end
    if not results[1] and getmetatable(results[2]) == Skip then error(results[2], 0) end
    if rl.now() >= deadline then
      local last = results[1] and "the last value was " .. values.show(results[2])
        or "the last error was: " .. tostring(results[2])
      fail(format("not true within %g s", within), { last })
    end
    rl.sleep(every)
  end
end

-- Callbacks -----------------------------------------------------------------------------------------------------------

local function is_met(current)
  for _, expectation in pairs(current.expectations) do
    if expectation.calls < expectation.wanted then return false end
  end
  return true
end
core.is_met = is_met

local function times(n) return n == 1 and "once" or n == 0 and "never" or n .. " times" end

--- Wraps a function that must run exactly `n` times (1) in this test. The test does not end before it has, as long as
--- anything can still happen.
function t.expect(body, n)
  if type(body) == "number" and n == nil then body, n = nil, body end
  if body ~= nil and type(body) ~= "function" then
    misuse("t.expect: argument #1 must be a function, got " .. describe_value(body))
  end
  if n == nil then n = 1 end
  if type(n) ~= "number" or not tointeger(n) or n < 0 then
    misuse("t.expect: argument #2 must be how many times, got " .. describe_value(n))
  end
  local current = core.current
  if not current then misuse("t.expect: only a test can expect a call") end
  local expectation = { wanted = n, calls = 0, where = here() }
  current.expectations[#current.expectations + 1] = expectation
  return function(...)
    expectation.calls = expectation.calls + 1
    if expectation.calls > n then
      fail(format("a callback that must run %s runs once more (expected at %s)", times(n), expectation.where))
    end
    if core.current == current and is_met(current) then system.unpark() end
    if body then return body(...) end
  end
end

--- What is not as expected, for the runner.
function core.unmet(current)
  local texts = {}
  for _, expectation in pairs(current.expectations) do
    if expectation.calls ~= expectation.wanted then
      texts[#texts + 1] = format("%s: expected to run %s, ran %s", expectation.where, times(expectation.wanted),
        times(expectation.calls))
    end
  end
  return texts
end

-- Programs ------------------------------------------------------------------------------------------------------------

--- The path of the rlhost that runs the tests.
t.rlhost = system.program()

--- Starts a program.
function t.spawn(options) return require "runloop.test.spawn".start(options, core) end

require "runloop.test.journal"(t, fail, misuse, describe_value)
require "runloop.test.rlclock"(core, misuse, describe_value)
require "runloop.test.clock"

package.loaded["runloop.test.core"] = core
return t
