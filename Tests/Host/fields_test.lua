-- The checker of options: its reports, with their order and wording.

local t = require "runloop.test"
local net = require "runloop.net"
local fs = require "runloop.fs"
local process = require "runloop.process"
local rl = require "runloop"
local terminal = require "runloop.terminal"
local folder = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local misuse = dofile(folder .. "../Support/part.lua") "runloop.misuse"

local function message(fn, ...)
  local good, problem = pcall(fn, ...)
  t.falsy(good, "it raises no error")
  return (tostring(problem):gsub("^[^:]+:%d+: ", ""))
end

local KNOWN = {
  name = "string", timeout = "seconds", count = "count", limit = "positive", is_on = "boolean", fields = "table",
  fn = { "function", required = true }, any = "any", both = { "string", "boolean" }, also = true,
}
local function try(options) return message(misuse.options, options, KNOWN, "test.call", 2) end

t.it("the check of options returns valid options unchanged", function()
  local options = { name = "x", timeout = 0.5, count = 0, limit = 1, is_on = false, fields = {}, fn = print, any = 5,
    both = true, also = {} }
  t.same(misuse.options(options, KNOWN, "test.call", 2), options)
  t.equal(misuse.options(nil, KNOWN, "test.call", 2), {})
  t.equal(misuse.fields({ fn = print }, KNOWN, "test.call"), nil)
end)

t.it("a float that equals an integer becomes an integer, so that texts have no .0", function()
  local options = misuse.options({ fn = print, count = 2.0, limit = 1e6, timeout = 2.0 }, KNOWN, "test.call", 2)
  t.equal(("%s %s %s"):format(options.count, options.limit, options.timeout), "2 1000000 2.0")
  t.equal(try { fn = print, limit = 0.0 }, "test.call: field 'limit' must be an integer, 1 or more, got 0")
  t.equal(try { fn = print, count = 1e300 }, "test.call: field 'count' must be an integer, 0 or more, got 1e+300")
end)

t.it("an unknown field is reported before a missing one, and that before a wrong kind", function()
  t.equal(try { nmae = 1, timeout = "x" }, "test.call: unknown field 'nmae' (did you mean 'name'?)")
  t.equal(try { timeout = "x" }, "test.call: field 'fn' is missing (a function)")
  t.equal(try { timeout = "x", count = -1, fn = print },
    "test.call: field 'count' must be an integer, 0 or more, got -1")
  t.equal(try { zzz = 1, frobnicate = 1 }:match "unknown field '(%w+)'", "frobnicate")
end)

t.each({
  { "name", 1, "a string, got 1" }, { "timeout", -1, "a number of seconds, 0 or more, got -1" },
  { "timeout", 0 / 0, "a number of seconds, 0 or more, got nan" }, { "count", 1.5, "an integer, 0 or more, got 1.5" },
  { "limit", 0, "an integer, 1 or more, got 0" }, { "is_on", 1, "a boolean, got 1" },
  { "fields", "x", "a table, got \"x\"" }, { "fn", {}, "a function, got a table" },
  { "both", 1, "a string or a boolean, got 1" },
}, "field %s: %s is refused", function(field, value, expected)
  local text = try { fn = print, [field] = value }
  t.truthy(text:gsub("%-nan", "nan"):find("test.call: field '" .. field .. "' must be " .. expected, 1, true), text)
end)

t.it("a key that is not a string is refused, unless elements are expected", function()
  t.equal(message(misuse.fields, { "x" }, { a = "any" }, "test.call"), "test.call: 1 is not the name of a field")
  misuse.fields({ "x", "y", a = 1 }, { a = "any", ["..."] = "any" }, "test.call")
  t.truthy(message(misuse.fields, { [1.5] = 1 }, { ["..."] = "any" },
    "test.call"):find "1%.5 is not the name of a field")
  t.truthy(message(misuse.fields, { ["..."] = 1 }, { ["..."] = "any" }, "test.call"):find "unknown field '%.%.%.'")
end)

t.it("an error lists at most twelve names of fields", function()
  local known = {}
  for i = 1, 17 do known[("field%02d"):format(i)] = "any" end
  t.equal(message(misuse.fields, { nothing = 1 }, known, "test.call"),
    "test.call: unknown field 'nothing' (there are: field01, field02, field03, field04, field05, field06, field07, "
    .. "field08, field09, field10, field11, field12 and 5 more)")
  t.equal(message(misuse.fields, { nothing = 1 }, { max = "any" }, "test.call"),
    "test.call: unknown field 'nothing' (there is: max)")
end)

t.it("every module reports wrong fields with the same words", function()
  t.equal(message(net.resolve, "x", { timeuot = 1 }), "net.resolve: unknown field 'timeuot' (did you mean 'timeout'?)")
  t.equal(message(net.resolve, "x", { foo = 1 }), "net.resolve: unknown field 'foo' (there are: family, timeout)")
  t.equal(message(net.connect, "x:1", { timeuot = 1 }),
    "net.connect: unknown field 'timeuot' (did you mean 'timeout'?)")
  t.equal(message(net.listener, { prot = 80 }), "net.listener: unknown field 'prot' (did you mean 'port'?)")
  t.equal(message(net.listener, {}), "net.listener: field 'port' or 'path' is missing")
  t.equal(message(net.stream, { prot = 80 }), "net.stream: unknown field 'prot' (did you mean 'port'?)")
  t.equal(message(rl.pool, { thread = 4 }), "rl.pool: unknown field 'thread' (did you mean 'threads'?)")
  t.equal(message(rl.pool, { threads = 0 }), "rl.pool: field 'threads' must be an integer, 1 or more, got 0")
  t.equal(message(rl.on_shutdown, print, { limits = 1 }),
    "rl.on_shutdown: unknown field 'limits' (did you mean 'limit'?)")
  t.equal(message(terminal.progress, { totl = 1 }), "terminal.progress: unknown field 'totl' (did you mean 'total'?)")
  t.equal(message(rl.timer, { calback = print }), "rl.timer: unknown field 'calback' (did you mean 'callback'?)")
  t.equal(message(process.run, { "x", timeot = 3 }), "process.run: unknown field 'timeot' (did you mean 'timeout'?)")
  t.equal(message(process.signal, { name = "HUP" }), "process.signal: field 'callback' is missing (a function)")
  t.equal(message(fs.write, "x", "y", { mod = 1 }), "fs.write: unknown field 'mod' (did you mean 'mode'?)")
  t.equal(message(rl.thread, { print, nam = "x" }), "rl.thread: unknown field 'nam' (did you mean 'name'?)")
end)

t.it("a field's name from another library gets a hint with our name", function()
  t.equal(message(process.run, { "true", cwd = "/" }), "process.run: unknown field 'cwd' (did you mean 'directory'?)")
  t.equal(message(process.run, { "true", env = {} }), "process.run: unknown field 'env' (did you mean 'environment'?)")
  t.equal(message(process.run, { "true", stdout = 1 }), "process.run: unknown field 'stdout' (did you mean 'output'?)")
  t.equal(message(process.run, { "true", shell = true }),
    "process.run: unknown field 'shell' (did you mean process.shell?)")
  t.equal(message(process.run, { "true", timeout_ms = 5 }),
    "process.run: unknown field 'timeout_ms' (seconds: 'timeout')")
  t.equal(message(rl.source, { callback = print }), "rl.source: unknown field 'callback' (did you mean 'perform'?)")
  t.equal(message(rl.timer, { func = print }), "rl.timer: unknown field 'func' (did you mean 'callback'?)")
end)
