-- A name that a module does not have may be read in one place and called in another. The call fails as in any Lua; the
-- second line of the report then has the hint.

local t = require "runloop.test"
local process = require "runloop.process"

local HINT = "runloop.json has no parse (did you mean decode?)"
local JSON = "local json = require 'runloop.json' "

local function run(script, ...)
  local result = assert(process.run { t.rlhost, "-e", JSON .. script, ... })
  return result.errors .. result.output
end

t.describe("the hint is the second line of the report", { real_time = true }, function()
  t.each({
    { "for a call of a local variable", "local parse = json.parse parse 'x'", "local" },
    { "for a call of an upvalue", "local parse = json.parse local function f() parse 'x' end f()", "upvalue" },
    { "for a call of a global variable", "parse = json.parse parse 'x'", "global" },
    { "for a call in a task", "local parse = json.parse rl.task(function() parse 'x' end)", "upvalue" },
    { "for a call in a timer", "local parse = json.parse rl.after(0, function() parse 'x' end)", "upvalue" },
  }, "%s", function(_, script, kind)
    local report = run(script):match "^%w+: (.-)\n\t"
    local first = ("(command line):1: attempt to call a nil value (%s 'parse')\n"):format(kind)
    t.equal(report, first .. HINT .. "\nstack traceback:")
  end)

  t.it("also at the prompt, and for rl.on_error", function()
    local result = assert(process.run { t.rlhost, "-i", input = JSON .. "parse = json.parse\nparse 'x'\n" })
    t.truthy((result.output .. result.errors):find("(global 'parse')\n" .. HINT, 1, true), result.errors)
    t.truthy(run([[rl.on_error(function(_, info) print(info.traceback) end)
      parse = json.parse rl.task(function() parse 'x' end)]]):find("(global 'parse')\n" .. HINT, 1, true))
  end)

  t.it("but is left out where it could mislead", function()
    local others = {
      "local found = json.decode parse 'x'",                   -- nothing was read
      "local parse = json.parse local t = {} t.parse 'x'",     -- a field of an unrelated object
      "local x = json.frobnicate frobnicate()",                -- json has no name with a meaning like that
      "local parse = json.parse error('parse')",
      "local parse = json.parse print(pcall(function() parse() end))", -- an error value is not changed
    }
    for _, script in ipairs(others) do t.falsy(run(script):find("did you mean", 1, true), script) end
  end)
end)
