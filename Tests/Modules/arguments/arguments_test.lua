-- runloop.arguments: how the words of a command line are parsed.

local arguments = require "runloop.arguments"
local t = require "runloop.test"

local SPEC = {
  name = "copy", version = "1.2", description = "Copies files.",
  { "files", many = true, required = true, help = "what to copy" },
  { "-o --output", value = "DIR", default = ".", help = "where to write" },
  { "-n --count", type = "integer", default = 3 },
  { "-t --timeout", type = "duration" },
  { "-v --verbose", count = true },
  { "--cache" },
  { "-D --define", value = "NAME=VALUE", many = true },
  { "--color", choices = { "auto", "always", "never" }, default = "auto" },
}

local function try(...) return arguments.try(SPEC, { ... }) end

t.describe("arguments", function()
  t.it("are accepted in all usual forms", function()
    t.equal(try("a", "-vvo", "x", "--count=5", "b", "-t1.5m", "--no-cache", "-Da=1", "-D", "b=2", "--", "-z"), {
      files = { "a", "b", "-z" }, output = "x", count = 5, timeout = 90.0, verbose = 2, cache = false,
      define = { "a=1", "b=2" }, color = "auto" })
    t.equal(try("-5").files, { "-5" })
  end)

  t.it("that are numbers, sizes or durations are rejected if they are out of range", function()
    local function read(kind, text)
      return (arguments.try({ name = "x", { "--it", type = kind } }, { "--it", text }) or {}).it
    end
    t.equal({ read("size", "8G"), read("size", "1.5k"), read("size", "9223372036854775807") },
      { 8 << 30, 1536, math.maxinteger })
    for kind, texts in pairs { size = { "9999999999G", "9223372036854775808", ("9"):rep(400) },
      number = { "1e400", "-1e400", "nan" },
      duration = { ("9"):rep(400), ("9"):rep(308) .. "d" } } do
      for _, text in ipairs(texts) do t.equal(read(kind, text), nil, kind .. " " .. text:sub(1, 30)) end
    end
  end)

  t.it("that are missing get their default values", function()
    t.equal(try("a"), { files = { "a" }, output = ".", count = 3, verbose = 0, cache = false, define = {},
      color = "auto" })
    local places = { { "places", many = true, default = { "." } } }
    t.equal(arguments.try(places, {}), { places = { "." } })
    t.equal(arguments.try(places, { "a", "b" }), { places = { "a", "b" } })
  end)

  t.it("that are wrong raise an error with the valid values", function()
    local function problem(...) return (select(2, try(...))) end
    t.equal(problem("a", "--cout", "5"), "unknown option '--cout' (did you mean '--count'?)")
    t.equal(problem("a", "-x"), "unknown option '-x'")
    t.equal(problem("a", "-n"), "-n needs a value: -n COUNT")
    t.equal(problem("a", "-nx"), "-n must be an integer; got 'x'")
    t.equal(problem("a", "-t", "soon"), "-t must be a duration such as 90, 1.5s, 200ms, 5m or 2h; got 'soon'")
    t.equal(problem(), "FILES is missing")
    t.equal(arguments.try({ { "x", many = true } }, {}), { x = {} })
    t.equal(problem("a", "--color", "red"), "--color must be one of auto, always, never; got 'red'")
    t.equal(problem("a", "--verbose=3"), "--verbose takes no value; got '3'")
    t.equal(select(2, arguments.try({ { "x" } }, { "1", "2" })), "'2' is one argument too many")
  end)

  t.it("have a help text that is wrapped to the width", function()
    local _, help, wish = try "--help"
    t.equal(wish, "help")
    t.equal(help, arguments.help(SPEC))
    t.truthy(help:find("usage: copy [options] FILES…", 1, true))
    t.truthy(help:find("  -o, --output DIR         where to write (.)", 1, true))
    for line in help:gmatch "[^\n]+" do t.truthy(utf8.len(line) <= 80, line) end
    t.equal({ try "--version" }, { nil, "1.2\n", "version" })
  end)

  t.it("need a valid description, or an error names the mistake", function()
    t.error(function() arguments.try({ { "-p --port", typ = "integer" } }, {}) end,
      "'%-p %-%-port': unknown field 'typ' %(did you mean 'type'%?%)")
    t.error(function() arguments.try({ { "-p", type = "int" } }, {}) end, "unknown type 'int'")
    t.error(function() arguments.try({ { "-p" }, { "-p" } }, {}) end, "two options are named '%-p'")
    t.error(function() arguments.try({ { "a", many = true }, { "b" } }, {}) end, "nothing can follow 'a'")
    t.error(function() arguments.try({ { "-ab" } }, {}) end,
      "'%-ab': '%-ab' cannot be an option's name: a name of several letters begins with %-%-")
    t.error(function() arguments.try(5) end, "arguments.try: argument #1 must be a table of options, got 5")
    t.error(function() arguments.try({}, { 5 }) end, "word 1 must be a string, got 5")
  end)
end)
