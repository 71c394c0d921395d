-- rlhost bundle: one file of a script and its modules.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }

local function project(files)
  local path = assert(fs.real_path(assert(fs.temporary_directory())))
  for name, text in pairs(files) do
    assert(fs.make_directory((path .. "/" .. name):match "^(.*)/", { parents = true }))
    assert(fs.write(path .. "/" .. name, text))
  end
  local function run(...)
    local result = assert(process.run { directory = path, environment = { LUA_PATH_5_4 = false }, ... })
    return result.code, result.output, result.errors
  end
  return path, run, setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
end

local FILES = {
  ["main.lua"] = [=[
#!/usr/bin/env rlhost
local x = require "lib.x"
local y = require('lib.y')
-- require "comment"
local text = [[ require "text" ]] .. "require 'quoted'"
print(x.name, x.path, y, x.again == nil, arg[0], ...)
print(package.searchpath("lib.x", package.path))
if ... == "fail" then x.fail() end
if ... == "computed" then print(require("lib." .. "z")) end
return text
]=],
  ["lib/x.lua"] = "local name, path = ...\nreturn { name = name, path = path, fail = function()\nerror 'oops' end }\n",
  ["lib/y.lua"] = "-- ]] ]=]\r\nreturn 'y\\0' .. #require [[lib.x]].name\n",
  ["lib/z.lua"] = "return 'z'",
}

t.it("a bundle runs like the script, without its module files", REAL, function()
  local path <const>, run <const>, gone <close> = project(FILES)
  local _, before = run(t.rlhost, "main.lua", "a", "b")
  t.equal({ run(t.rlhost, "bundle", "main.lua", "-o", "out") },
    { 0, "", "rlhost: bundle: computed require: main.lua:9\n" })
  t.equal(fs.stat(path .. "/out").mode & 511, 493)
  t.equal({ run(t.rlhost, "out", "a", "b") }, { 0, (before:gsub("main.lua", "out")), "" })
  t.equal({ run("lua5.4", "out", "a", "b") }, { 0, (before:gsub("main.lua", "out")), "" })
  fs.remove(path .. "/lib/x.lua")
  fs.remove(path .. "/main.lua")
  local code, _, errors = run(t.rlhost, "out", "fail")
  t.equal(code, 1)
  t.truthy(errors:find("./lib/x.lua:3: oops", 1, true), errors)
  t.truthy(errors:find("main.lua:8: in main chunk", 1, true), errors)
end)

t.it("a bundle is reproducible, goes to standard output by default, and --module adds a module", REAL, function()
  local path <const>, run <const>, gone <close> = project(FILES)
  local _, one = run(t.rlhost, "bundle", "main.lua")
  local _, two = run(t.rlhost, "bundle", "main.lua", "-o", "-")
  t.equal(one, two)
  t.equal(one:match "^[^\n]*", "#!/usr/bin/env rlhost")
  t.equal(run(t.rlhost, "bundle", "main.lua", "-o", "out", "--module", "lib.z"), 0)
  fs.remove(path .. "/lib", { recursive = true })
  local code, output = run(t.rlhost, "out", "computed")
  t.equal({ code, output:match "[^\n]*\n$" }, { 0, "z\t./lib/z.lua\n" })
end)

t.it("a bundle leaves out modules of the host", REAL, function()
  local _, run <const>, gone <close> = project {
    ["a.lua"] = 'local rl = require "runloop"\nlocal fs = require "runloop.fs"\nprint(rl.version ~= nil)\n'
      .. 'pcall(require, "perhaps") return string.require\n',
  }
  local code, text, errors = run(t.rlhost, "bundle", "a.lua")
  t.equal({ code, errors }, { 0, "rlhost: bundle: not inside: runloop, runloop.fs\n" })
  t.truthy(text:find("-- Not inside: runloop, runloop.fs", 1, true))
end)

t.it("wrong use and missing modules are reported, and no file is written", REAL, function()
  local path <const>, run <const>, gone <close> = project {
    ["a.lua"] = '\n\nrequire "nothing.here"\n', ["b.lua"] = "x =", ["c.lua"] = "return 1",
  }
  t.equal({ run(t.rlhost, "bundle", "a.lua", "-o", "out") },
    { 1, "", "rlhost: bundle: a.lua:3: module 'nothing.here' not found\n" })
  t.equal(fs.stat(path .. "/out"), nil)
  t.truthy(select(3, run(t.rlhost, "bundle", "b.lua")):find "b.lua:1: unexpected symbol")
  t.equal(run(t.rlhost, "bundle", "no.lua"), 1)
  t.equal(run(t.rlhost, "bundle", "c.lua", "--module", "no"), 1)
  t.equal(run(t.rlhost, "bundle"), 64)
  t.equal(run(t.rlhost, "bundle", "c.lua", "--frob"), 64)
  t.equal(run(t.rlhost, "bundle", "c.lua", "a.lua"), 64)
  t.equal(run(t.rlhost, "bundle", "c.lua", "-o"), 64)
  t.equal(select(3, run(t.rlhost, "bundle", "c.lua", "--modul", "x")),
    "rlhost: bundle: unknown option '--modul' (did you mean '--module'?)\n")
  t.equal(select(3, run(t.rlhost, "bundle", "no\27[31m\255")),
    "rlhost: bundle: ENOENT: no such file or directory (no\\x1b[31m\\xff)\n")
end)

t.it("a bundle includes what pcall(require) names, and lists each other use of require", REAL, function()
  local path <const>, run <const>, gone <close> = project {
    ["a.lua"] = 'local require = require\nprint(pcall(require, "b"))\nprint(pcall(require, "not.there") == false)\n'
      .. 'local name = "c"\nprint(pcall(require, name))\nlocal load = require\nprint(load "c")\n',
    ["b.lua"] = "return 'b'", ["c.lua"] = "return 'c'",
  }
  t.equal({ run(t.rlhost, "bundle", "a.lua", "-o", "out") },
    { 0, "", "rlhost: bundle: computed require: a.lua:5, a.lua:6\n" })
  fs.remove(path .. "/b.lua")
  t.equal({ run(t.rlhost, "out") }, { 0, "true\tb\t./b.lua\ntrue\ntrue\tc\t./c.lua\nc\n", "" })
end)

t.it("a bundle of a script with a line break in its name runs", REAL, function()
  local _, run <const>, gone <close> = project { ["a\nb.lua"] = "print(1)" }
  t.equal(run(t.rlhost, "bundle", "a\nb.lua", "-o", "out"), 0)
  t.equal({ run("lua5.4", "out") }, { 0, "1\n", "" })
end)

t.it("a bundle does not replace a source", REAL, function()
  local path <const>, run <const>, gone <close> = project { ["a.lua"] = "require 'b'", ["b.lua"] = "return 1" }
  t.equal({ run(t.rlhost, "bundle", "a.lua", "-o", "./a.lua") },
    { 64, "", "rlhost: bundle: -o: the file would replace a.lua\n" })
  t.equal({ run(t.rlhost, "bundle", "a.lua", "-o", "b.lua") },
    { 64, "", "rlhost: bundle: -o: the file would replace ./b.lua\n" })
  t.equal(fs.read(path .. "/a.lua"), "require 'b'")
end)
