-- Assertions, and callbacks that a test expects.

local system = ...
local rl = require "runloop"
local values = require "runloop.test.values"

local error, type, pcall, getmetatable = error, type, pcall, getmetatable
local pairs, tostring, rawequal = pairs, tostring, rawequal
local rawget, tointeger = rawget, math.tointeger
local format, find, pack, unpack = string.format, string.find, table.pack, table.unpack

--- Adds the assertions to the test library.
return function(t, core)

  local fail, misuse, check_argument = core.fail, core.misuse, core.check_argument
  local here, Skip = core.here, core.Skip

  -- Assertions --------------------------------------------------------------------------------------------------------

  --- Fails unless both values are equal. Tables are equal if they hold equal values under equal keys. The message
  --- begins with `note`.
  function t.equal(actual, expected, note)
    if values.equal(actual, expected) then return actual end
    local message, details = values.difference(actual, expected)
    fail(message, details, note)
  end

  --- Fails unless both are the same table, function or other object, or are equal strings, numbers or booleans.
  function t.same(actual, expected, note)
    if rawequal(actual, expected) then return actual end
    if values.equal(actual, expected) and type(actual) == type(expected) and type(actual) ~= "number" then
      fail(format("expected the same %s, got another one that is equal", type(actual)), nil, note)
    end
    fail(format("expected the same as %s, got %s", values.show(expected), values.show(actual)), nil, note)
  end

  --- Fails if the value is nil or false.
  function t.truthy(value, note)
    if value then return value end
    fail("expected a true value, got " .. tostring(value), nil, note)
  end

  --- Fails unless the value is nil or false.
  function t.falsy(value, note)
    if not value then return value end
    fail("expected nil or false, got " .. values.show(value), nil, note)
  end

  --- Calls a function, and fails unless it raises an error; returns the error. If `expected` is a string, the message
  --- must contain it, as a pattern or as plain text; any other value must be equal to the error value.
  function t.error(body, expected, note)
    local meta = getmetatable(body)
    if not (type(meta) == "table" and rawget(meta, "__call")) then
      check_argument(body, "function", "t.error", 1, "a function to call")
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
      fail("the error has another message", { "expected " .. values.show(expected), "got      " .. values.show(text) },
        note)
    end
    if values.equal(raised, expected) then return raised end
    local message, details = values.difference(raised, expected)
    fail("another error: " .. message, details, note)
  end

  local EVENTUALLY = { within = "a number of seconds", every = "a number of seconds" }
  local function is_pause(value, name)
    return type(value) == "number" and (value > 0 or value == 0 and name == "within")
  end

  --- Calls a function again and again until it returns a true value, and returns its results. An error counts as "not
  --- yet". Fails after `within` seconds (5). The calls are `every` seconds apart (0.01).
  function t.eventually(body, options)
    check_argument(body, "function", "t.eventually", 1, "a function")
    check_argument(options, "table or nil", "t.eventually", 2, "a table like {within = 1, every = 0.1}")
    core.check_options(options, EVENTUALLY, "t.eventually", is_pause)
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

  -- Callbacks ---------------------------------------------------------------------------------------------------------

  local function is_met(current)
    for _, expectation in pairs(current.expectations) do
      if expectation.calls < expectation.wanted then return false end
    end
    return true
  end
  core.is_met = is_met

  local function times(n) return n == 1 and "once" or n == 0 and "never" or n .. " times" end

  --- Wraps a function that must run exactly `n` times (1) in this test. The test does not end before the function has
  --- run that often, as long as anything can still happen.
  function t.expect(body, n)
    if type(body) == "number" and n == nil then body, n = nil, body end
    check_argument(body, "function or nil", "t.expect", 1, "a function")
    if n == nil then n = 1 end
    if type(n) ~= "number" or not tointeger(n) or n < 0 then
      misuse("t.expect: argument #2 must be how many times, got " .. core.describe_value(n))
    end
    local current = core.current
    if not current then misuse("t.expect: only a test can expect a call") end
    local expectation = { wanted = n, calls = 0, where = here() }
    current.expectations[#current.expectations + 1] = expectation
    return function(...)
      expectation.calls = expectation.calls + 1
      if expectation.calls > n then
        fail(n == 0 and format("a callback ran that must not run (expected at %s)", expectation.where)
          or format("a callback that must run %s ran once more (expected at %s)", times(n), expectation.where))
      end
      if core.current == current and is_met(current) then system.unpark() end
      if body then return body(...) end
    end
  end

  --- Returns the expectations that are not met, as texts for the runner.
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

end
