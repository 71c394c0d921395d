-- Test doubles: functions that record their calls, and replace others: t.spy and t.stub.

local type, pairs, select = type, pairs, select
local setmetatable, getmetatable, rawequal = setmetatable, getmetatable, rawequal
local rawget, error = rawget, error
local format, pack, unpack = string.format, table.pack, table.unpack
local debug_getmetatable, debug_setmetatable = debug.getmetatable, debug.setmetatable
local values = require "runloop.test.values"

local doubles = {}

function doubles.add(t, core)

  local misuse, describe_value, fail = core.misuse, core.describe_value, core.fail

  -- A spy is a function, so it can stand wherever a function is expected, in C as in Lua. The spy's record is in this
  -- table; `spy.calls` reaches it through the metatable that all functions of a state share.
  local notes = setmetatable({}, { __mode = "k" })

  local Spy = {}

  local function notes_of(spy, name)
    return notes[spy] or misuse(name .. ": a spy is expected as self; call it with a colon")
  end

  --- Returns how often the spy was called.
  function Spy:count() return #notes_of(self, "spy:count").calls end

  -- Returns the arguments of calls in the form in which they are compared.
  local function arguments_of(calls)
    local all = {}
    for i, call in pairs(calls) do all[i] = { unpack(call, 1, call.n) } end
    return all
  end

  --- Fails unless the spy was called exactly like this: an array with the arguments of each call.
  function Spy:equal(expected, note)
    local actual = arguments_of(notes_of(self, "spy:equal").calls)
    core.check_argument(expected, "table", "spy:equal", 1, "an array with the arguments of each call")
    if values.equal(actual, expected) then return end
    local message, details = values.difference(actual, expected)
    fail(message == "the tables differ" and "the calls differ" or message, details, note)
  end

  --- Fails unless at least one call had these arguments.
  function Spy:called_with(...)
    local expected, all = { ... }, arguments_of(notes_of(self, "spy:called_with").calls)
    for _, arguments in pairs(all) do if values.equal(arguments, expected) then return end end
    local details = {}
    for i, arguments in pairs(all) do details[i] = format("call %d: %s", i, values.show(arguments)) end
    fail(format("it was never called with %s", values.show(expected)),
      #details > 0 and details or { "it was not called" })
  end

  --- Forgets the recorded calls.
  function Spy:clear() notes_of(self, "spy:clear").calls = {} end

  -- Indexing a function that is not a spy raises the same error as in plain Lua, or does what the tested code has
  -- defined.
  local function refuse() error("attempt to index a function value", 3) end

  local function with_spies(metatable)
    local index, new_index = rawget(metatable, "__index"), rawget(metatable, "__newindex")
    function metatable.__index(fn, key)
      local noted = notes[fn]
      if noted then
        local value = noted[key]
        if value == nil then value = Spy[key] end
        if value ~= nil or index == nil then return value end
      end
      if index == nil then refuse() end
      if type(index) == "function" then return index(fn, key) end
      return index[key]
    end
    function metatable.__newindex(fn, key, value)
      local noted = notes[fn]
      if noted then noted[key] = value
      elseif new_index == nil then refuse()
      elseif type(new_index) == "function" then return new_index(fn, key, value)
      else new_index[key] = value end
    end
    return metatable
  end

  -- The `__index` that `with_spies` has put into the metatable of functions. If tested code replaces the metatable or
  -- its `__index`, the next spy puts ours back.
  local ours

  local function new(does)
    local present = debug_getmetatable(refuse)
    if not ours or not present or not rawequal(rawget(present, "__index"), ours) then
      -- `__metatable` hides the table from code that checks whether a function can do more than be called.
      local completed = with_spies(present or { __metatable = false })
      ours = completed.__index
      debug_setmetatable(refuse, completed)
    end
    local noted = { calls = {}, does = does, where = core.here() }
    local function spy(...)
      local call = pack(...)
      noted.calls[#noted.calls + 1] = call
      if not noted.does then return end
      call.results = pack(noted.does(...))
      return unpack(call.results, 1, call.results.n)
    end
    notes[spy] = noted
    return spy
  end

  --- Returns a function that records its calls in `calls`, and calls `fn` if it is given.
  function t.spy(fn)
    if fn ~= nil and type(fn) ~= "function" and not (getmetatable(fn) and getmetatable(fn).__call) then
      misuse("t.spy: argument #1 must be a function, got " .. describe_value(fn))
    end
    return new(fn)
  end

  --- Replaces a field of a table by a spy until the test is over. The spy calls `fn` if it is given. A value that is
  --- not a function takes the place of the field as it is.
  function t.stub(table, key, ...)
    core.check_argument(table, "table", "t.stub", 1, "a table")
    if key == nil then misuse "t.stub: argument #2 must be the name of a field, got nothing" end
    if not core.current then misuse "t.stub: only a test can replace a value" end
    local before, value = rawget(table, key), ...
    if select("#", ...) == 0 or type(value) == "function" and not notes[value] then value = new(value) end
    table[key] = value
    t.finally(function() if rawequal(rawget(table, key), value) then table[key] = before end end)
    return value
  end

end

return doubles
