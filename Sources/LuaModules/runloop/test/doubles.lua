-- Functions that note how they are called, and take the places of others: t.spy and t.stub.

local type, pairs, select = type, pairs, select
local setmetatable, getmetatable, rawequal, rawget = setmetatable, getmetatable, rawequal, rawget
local format, pack, unpack = string.format, table.pack, table.unpack
local values = require "runloop.test.values"

local doubles = {}

function doubles.add(t, core)

local misuse, describe_value, fail = core.misuse, core.describe_value, core.fail

local Spy = { __name = "spy" }
Spy.__index = Spy

function Spy:__call(...)
  local call = pack(...)
  self.calls[#self.calls + 1] = call
  if not self.does then return end
  call.results = pack(self.does(...))
  return unpack(call.results, 1, call.results.n)
end

local function check(self, name)
  if getmetatable(self) ~= Spy then misuse(name .. ": a spy is expected as self; call it with a colon") end
  return self
end

--- How often it was called.
function Spy:count() return #check(self, "spy:count").calls end

-- The arguments of its calls, as they are compared.
local function arguments_of(self)
  local all = {}
  for i, call in pairs(self.calls) do all[i] = { unpack(call, 1, call.n) } end
  return all
end

--- Fails unless it was called just so: an array with the arguments of each call.
function Spy:equal(expected, note)
  check(self, "spy:equal")
  core.check_argument(expected, "table", "spy:equal", 1, "an array with the arguments of each call")
  local actual = arguments_of(self)
  if values.equal(actual, expected) then return end
  local message, details = values.difference(actual, expected)
  fail(message == "the tables differ" and "the calls differ" or message, details, note)
end

--- Fails unless some call had these arguments.
function Spy:called_with(...)
  check(self, "spy:called_with")
  local expected, all = { ... }, arguments_of(self)
  for _, arguments in pairs(all) do if values.equal(arguments, expected) then return end end
  local details = {}
  for i, arguments in pairs(all) do details[i] = format("call %d: %s", i, values.show(arguments)) end
  fail(format("it was never called with %s", values.show(expected)), #details > 0 and details or { "it was not called" })
end

--- Forgets its calls.
function Spy:clear() check(self, "spy:clear").calls = {} end

function Spy:__tostring() return format("spy (%d calls, made at %s)", #self.calls, self.where) end

local function new(does)
  return setmetatable({ calls = {}, does = does, where = core.here() }, Spy)
end

--- A function that notes its calls in `calls`, and calls another one if it gets one.
function t.spy(fn)
  if fn ~= nil and type(fn) ~= "function" and not (getmetatable(fn) and getmetatable(fn).__call) then
    misuse("t.spy: argument #1 must be a function, got " .. describe_value(fn))
  end
  return new(fn)
end

--- Puts a spy in the place of a table's field until the test is over: one that does what `fn` does, or nothing. Another value
--- is put there as it is.
function t.stub(table, key, ...)
  core.check_argument(table, "table", "t.stub", 1, "a table")
  if key == nil then misuse "t.stub: argument #2 must be the name of a field, got nothing" end
  if not core.current then misuse "t.stub: only a test can put something in another's place" end
  local before, value = rawget(table, key), ...
  if select("#", ...) == 0 or type(value) == "function" then value = new(value) end
  table[key] = value
  t.finally(function() if rawequal(rawget(table, key), value) then table[key] = before end end)
  return value
end

end

return doubles
