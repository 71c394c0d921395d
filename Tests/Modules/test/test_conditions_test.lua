-- The report shows the values in the condition of an assert that failed.

local t = require "runloop.test"

local calls = 0
local function called()
  calls = calls + 1
  return calls
end

-- Returns the values that a report shows for a condition. `names`: the condition's local variables.
local function shown(condition, names)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  local head = ""
  for name in pairs(names or {}) do head = head .. "local " .. name .. " = NAMES." .. name .. " " end
  file:write(head, "assert(", condition, ")\n")
  file:close()
  NAMES, CALLED = names, called
  local explain = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "")
    .. "../../Support/part.lua") "runloop.test.explain"
  local _, failure = xpcall(assert(loadfile(path)), explain.error)
  NAMES, CALLED = nil, nil
  os.remove(path)
  return table.concat(failure.details or {}, "; ", 2)
end

t.each({
  { "x == 1 and y == 3", { x = 1, y = 4 }, "x is 1; y is 4" },
  { "a or (b and c == 'x and y'), 'message, z'", { a = false, b = 1, c = "q" }, 'a is false; b is 1; c is "q"' },
  { "(a or b) and not (c < 3)", { a = false, b = 1, c = 2 }, "a is false; b is 1; c is 2" },
  { "x == 1 and\n y == 2", { x = 1, y = 3 }, "x is 1; y is 3" },
  { "x == 1 -- or\n and y == [[ or ]]", { x = 1, y = 3 }, "x is 1; y is 3" },
  { "x == \"a \\\" and b\"", { x = "b" }, 'x is "b"' },
  { "#list == 3 and list[1] + 1 > 5", { list = { 1 } }, "#list is 1; list[1] + 1 is 2" },
  { "not x", { x = 5 }, "x is 5" },
  { "x == 0x10 and y == 1e-3", { x = 1, y = 3 }, "x is 1; y is 3" },
  { "a < b == c", { a = 1, b = 2, c = 1 }, "" },
  { "x", { x = false }, "x is false" },
}, "%s", function(condition, names, expected) t.equal(shown(condition, names), expected) end)

t.it("the report of a failed condition calls no function again", function()
  local watched = setmetatable({}, { __index = function() return called() end, __len = called, __add = called })
  for condition, count in pairs { ["CALLED() == 0"] = 1, ["CALLED() > 5 and x"] = 1, ["x and CALLED()"] = 0,
    ["w.a == 0"] = 1,
    ["#w == 0"] = 1, ["w + 1 == 0"] = 1, ["(CALLED) 'x' == 0"] = 1,
    ["x or (function() return CALLED() end)() == 0"] = 1 } do
    calls = 0
    shown(condition, { x = false, w = watched })
    t.equal(calls, count, condition)
  end
end)

t.it("t.error accepts an object that can be called", function()
  t.equal(t.error(setmetatable({}, { __call = function() error("x", 0) end })), "x")
  t.error(function() t.error {} end, "argument #1 must be a function to call, got a table")
end)
