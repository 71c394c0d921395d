-- The reference of the test library and the library agree, both ways. REFERENCE is the reference's path.

local rl = require "runloop"
local t = require "runloop.test"

local function annotated(text, prefix)
  local names = {}
  for name in text:gmatch("\nfunction " .. prefix .. "([%a_]+)%(") do names[name] = true end
  return names
end

local function functions(table)
  local names = {}
  for name, value in pairs(table) do
    if type(value) == "function" and not name:find "^_" then names[name] = true end
  end
  return names
end

t.describe("docs/lua/runloop-test.lua", function()
  local text

  t.before_each(function()
    local file <close> = assert(io.open(os.getenv "REFERENCE"))
    text = file:read "a"
  end)

  t.it("has every function", function() t.equal(annotated(text, "t%."), functions(t)) end)

  t.it("has every method of journals", function()
    t.equal(annotated(text, "Journal:"), functions(getmetatable(t.journal())))
  end)

  t.it("has every method of the clock", function()
    t.equal(annotated(text, "Clock:"), functions(getmetatable(rl.clock)))
  end)

  t.it("has every method of programs", function()
    local program <close> = t.spawn { "true" }
    local methods = functions(getmetatable(program))
    methods.release = nil  -- the runner's own
    t.equal(annotated(text, "Process:"), methods)
    program:wait()
  end)
end)
