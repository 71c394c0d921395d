-- rl.inspect: any value as text.

local rl = require "runloop"
local t = require "runloop.test"

t.it("rl.inspect shows values as the prompt does", function()
  local CASES = {
    { nil, "nil" }, { true, "true" }, { 5, "5" }, { 2.5, "2.5" }, { math.huge, "math.huge" },
    { "a\n\"\0001\200", [["a\n\"\0001\xc8"]] },
    { {}, "{}" }, { { 1, 2, b = "x", a = { c = {} } }, '{ 1, 2, a = { c = {} }, b = "x" }' },
    { { ["end"] = 1, ["a b"] = 2, [true] = 3, [1.5] = 4 }, '{ [1.5] = 4, ["a b"] = 2, ["end"] = 1, [true] = 3 }' },
    { setmetatable({ x = 1 }, { __name = "Point" }), "Point { x = 1 }" },
    { setmetatable({}, { __name = "Point" }), "Point {}" },
    { setmetatable({ x = 1 }, { __tostring = function() return "a point" end }), "a point" },
    { setmetatable({ x = 1 }, { __index = error, __pairs = error, __len = error }), "{ x = 1 }" },
  }
  for i = 1, #CASES do t.equal(rl.inspect(CASES[i][1]), CASES[i][2]) end
  t.equal(load("return " .. rl.inspect "\0\r\n\t\"\\\255ä")(), "\0\r\n\t\"\\\255ä")
end)

t.it("rl.inspect marks cycles, and limits depth, entries and width", function()
  local cycle = { name = "c" }
  cycle.self = cycle
  t.equal(rl.inspect(cycle), '{ name = "c", self = <cycle> }')
  local nest = {}
  for _ = 1, 20 do nest = { nest } end
  t.equal(select(2, rl.inspect(nest):gsub("{ ", "")), 8)
  t.equal(rl.inspect(nest, { depth = 2 }), "{ { {…} } }")
  t.equal(rl.inspect(nest, { depth = 0 }), "{…}")
  t.equal(rl.inspect({ setmetatable({ 1 }, { __name = "Point" }) }, { depth = 1 }), "{ Point {…} }")
  t.equal(rl.inspect({ 1, 2, 3, 4 }, { entries = 2 }), "{ 1, 2, … 2 more }")
  t.equal(rl.inspect({ a = 1, b = 2 }, { width = 10 }), "{\n  a = 1,\n  b = 2\n}")
  t.equal(select(2, rl.inspect({ a = { b = "x" } }, { colors = true }):gsub("\27%[32m", "")), 1)
  t.falsy(rl.inspect({ a = { b = "x" } }):find "\27")
  local long = {}
  for i = 1, 5000 do long[i] = i end
  t.truthy(rl.inspect(long, { entries = 5000, width = 1000000 }):find " 5000 }$")
  t.truthy(rl.inspect(long):find "… 4900 more")
end)

t.it("rl.inspect returns a text for any value, and never raises an error because of it", function()
  local bad = setmetatable({}, { __tostring = function() error "no" end })
  t.truthy(rl.inspect(bad):find "^<table 0x%x+: error in __tostring: ")
  t.truthy(rl.inspect({ bad, [bad] = 1 }):find "error in __tostring")
  t.truthy(rl.inspect(setmetatable({}, { __tostring = function() return {} end })):find "error in __tostring")
  t.truthy(rl.inspect(setmetatable({}, { __metatable = 5, __name = 7 })), "{}")
  local deep = {}
  for _ = 1, 100000 do deep = { deep } end
  t.truthy(rl.inspect(deep, { depth = math.maxinteger }):find("{…}", 1, true))
  t.truthy(rl.inspect(coroutine.create(print)):find "^thread 0x")
  t.truthy(rl.inspect(print):find "^function")
  t.truthy(rl.inspect(rl.current()):find "^loop")
end)

t.it("rl.inspect rejects wrong options", function()
  t.error(function() rl.inspect(1, 5) end, "rl.inspect: argument #2 must be a table, got 5")
  t.error(function() rl.inspect(1, { dept = 5 }) end, "rl.inspect: unknown field 'dept'")
  t.error(function() rl.inspect(1, { depth = -1 }) end,
    "rl.inspect: field 'depth' must be an integer, 0 or more, got -1")
  t.error(function() rl.inspect(1, { colors = 1 }) end, "rl.inspect: field 'colors' must be a boolean, got 1")
end)

t.it("rl.traceback shows an error that is a table in 200 bytes and two levels", function()
  local function head(err) return (select(2, xpcall(error, rl.traceback, err)):match "^[^\n]*") end
  t.equal(head { code = 5, at = { x = { y = {} } } }, "{ at = { x = {…} }, code = 5 }")
  local long = head { text = ("ä"):rep(300) }
  t.truthy(#long <= 200 and utf8.len(long))
  t.truthy(long:find "…$")
end)
