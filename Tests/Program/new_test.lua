-- rlhost new editor: the file of a Lua editor, and the annotations.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local json = require "runloop.json"

local REAL = { real_time = true, timeout = 60 }
local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT

-- A directory for a project, with a copy of the program in `at`.
local function project()
  local path = assert(fs.real_path(assert(fs.temporary_directory())))
  local function new(words, environment)
    environment = environment or {}
    if environment.HOME == nil then environment.HOME = path end
    environment.XDG_DATA_HOME = environment.XDG_DATA_HOME or false
    local run = process.run { "sh", "-c", '"$1" new ' .. words, "sh", path .. "/prefix/bin/rlhost",
      directory = path, environment = environment }
    return run.code, run.output, run.errors
  end
  fs.make_directory(path .. "/prefix/bin", { parents = true })
  assert(fs.copy(fs.real_path(t.rlhost), path .. "/prefix/bin/rlhost"))
  process.run { "chmod", "755", path .. "/prefix/bin/rlhost" }
  return path, new, setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
end

-- The annotations beside the program, as an installation has them.
local function with_share(path)
  local library = path .. "/prefix/share/rlhost/lua/library"
  fs.make_directory(library, { parents = true })
  fs.write(library .. "/runloop.lua", "")
  return library
end

t.it("the editor's file has the path of the annotations next to the program", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  local library = with_share(path)
  t.equal({ new "editor" }, { 0, ".luarc.json\n", "" })
  local text = fs.read(path .. "/.luarc.json")
  t.equal(json.decode(text), { ["runtime.version"] = "Lua 5.4", ["workspace.library"] = { library } })
  t.equal({ new "editor" }, { 0, "", "" })
  t.equal(fs.read(path .. "/.luarc.json"), text)
  fs.make_directory(path .. "/sub")
  t.equal({ new "editor sub" }, { 0, "sub/.luarc.json\n", "" })
  t.equal(fs.read(path .. "/sub/.luarc.json"), text)
end)

t.it("a program without annotations next to it writes its built-in copy", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  t.equal(new "editor", 0)
  local library = ("%s/.local/share/rlhost/%s/lua/library"):format(path, rl.version)
  t.equal(json.decode(fs.read(path .. "/.luarc.json"))["workspace.library"], { library })
  local same = process.run { "diff", "-r", "--exclude=config.json", library, ROOT .. "/docs/lua" }
  t.equal({ same.code, same.output }, { 0, "" })
  fs.remove(path .. "/.luarc.json")
  t.equal(new("editor", { XDG_DATA_HOME = path .. "/data" }), 0)
  library = ("%s/data/rlhost/%s/lua/library"):format(path, rl.version)
  t.equal(json.decode(fs.read(path .. "/.luarc.json"))["workspace.library"], { library })
  t.truthy(fs.stat(library .. "/runloop-trace.lua"))
  fs.remove(path .. "/.luarc.json")
  local code, _, errors = new("editor", { HOME = false })
  t.equal({ code, errors },
    { 1, "rlhost: new: there is no directory for the annotations: set HOME or XDG_DATA_HOME\n" })
end)

t.it("an existing file keeps every byte, and gets missing fields after the first brace", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  local library = with_share(path)
  local version, list = '  "runtime.version": "Lua 5.4"', ('  "workspace.library": ["%s"]'):format(library)
  for text, expected in pairs {
    ['{\n\t"a": {"b": 1} \n}'] = "{\n" .. version .. ",\n" .. list .. ',\n\t"a": {"b": 1} \n}',
    ['{"a":1}'] = "{\n" .. version .. ",\n" .. list .. ',"a":1}',
    [' {}\n'] = " {\n" .. version .. ",\n" .. list .. "\n}\n",
    ['{\n}'] = "{\n" .. version .. ",\n" .. list .. "\n}",
    ['{"runtime.version": "LuaJIT"}'] = "{\n" .. list .. ',"runtime.version": "LuaJIT"}',
    ['{"workspace": {"maxPreload": 1}}'] = "{\n" .. version .. ",\n" .. list .. ',"workspace": {"maxPreload": 1}}',
  } do
    fs.write(path .. "/.luarc.json", text)
    t.equal({ new "editor" }, { 0, ".luarc.json\n", "" }, text)
    t.equal(fs.read(path .. "/.luarc.json"), expected)
    t.truthy(json.decode(expected), expected)
    t.equal({ new "editor" }, { 0, "", "" }, text)
  end
  for _, text in ipairs {
    ('{"workspace.library": ["/x", "%s/"]}'):format(library), ('{"workspace": {"library": ["%s"]}}'):format(library),
    ('{"Lua.workspace.library": ["%s"]}'):format(library), ('{"workspace.library": {"x": "%s"}}'):format(library),
  } do
    fs.write(path .. "/.luarc.json", text)
    t.equal({ new "editor" }, { 0, "", "" }, text)
    t.equal(fs.read(path .. "/.luarc.json"), text)
  end
end)

t.it("a file that cannot be completed stays as it is, and the lines to add are printed", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  local version = '  "runtime.version": "Lua 5.4",\n'
  local line = ('  "workspace.library": ["%s"]\n'):format(with_share(path))
  for text, problem in pairs {
    ['{ "workspace.library": ["/other"] }'] = "has another workspace.library",
    ['{ "workspace": { "library": [] } }'] = "has another workspace.library",
    ["{ // mine\n}"] = "cannot be read as JSON", ["{"] = "cannot be read as JSON", [""] = "cannot be read as JSON",
    ["[1]"] = "cannot be read as JSON",
  } do
    fs.write(path .. "/.luarc.json", text)
    local code, output, errors = new "editor"
    t.equal({ code, output }, { 1, version .. line }, text)
    t.truthy(errors:find(problem, 1, true), errors)
    t.equal(fs.read(path .. "/.luarc.json"), text)
  end
end)

t.it("wrong use has status 64, a missing directory status 1", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  with_share(path)
  t.equal({ new "" }, { 64, "",
    "rlhost: new: it needs a word: rlhost new tool|service|web|test NAME, or rlhost new editor [DIR]\n" })
  t.equal({ new "editr" }, { 64, "", "rlhost: new: there is nothing called 'editr' (did you mean 'editor'?)\n" })
  t.equal(new "editor a b", 64)
  t.equal(new "editor --force", 64)
  t.truthy(select(2, new "--help"):find("^usage: rlhost new tool"))
  local code, _, errors = new "editor nowhere"
  t.equal({ code, errors }, { 1, "rlhost: new: ENOENT: no such file or directory (nowhere/.luarc.json)\n" })
end)

t.it("the tests of new projects pass, and existing files stay", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  with_share(path)
  for _, kind in ipairs { "tool", "service", "web", "test" } do
    local name = "my-" .. kind
    t.equal(new(kind .. " " .. name), 0)
    local run = process.run { t.rlhost, "test", directory = path .. "/" .. name }
    t.equal(run.code, 0, run.output)
    local script = fs.read(("%s/%s/%s.lua"):format(path, name, name))
    t.truthy(select(2, script:gsub("\n", "")) <= 40)
    t.truthy(not script:find "NAME" and not script:find "IDENT")
    for _, file in ipairs { "README.md", ".luarc.json", "tests/" .. name .. "_test.lua" } do
      t.truthy(fs.stat(("%s/%s/%s"):format(path, name, file)), file)
    end
    fs.write(("%s/%s/%s.lua"):format(path, name, name), "mine")
    t.equal(new(kind .. " " .. name), 1)
    t.equal(fs.read(("%s/%s/%s.lua"):format(path, name, name)), "mine")
  end
  t.truthy(fs.stat(path .. "/my-service/my-service.service"))
  -- Names that cannot be those of a variable of the template.
  for _, name in ipairs { "end", "rl", "t" } do
    t.equal(new("test " .. name), 0)
    local run = process.run { t.rlhost, "test", directory = path .. "/" .. name }
    t.equal(run.code, 0, run.output)
  end
  for _, name in ipairs { "Shop", "1shop", "a/b", "''", "../x" } do t.equal(new("tool " .. name), 64) end
end)

t.it("a path of the annotations that is not UTF-8 is reported", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  local code, _, errors = new("editor", { HOME = path .. "/n\255" })
  t.equal(code, 1)
  t.truthy(errors:find "^rlhost: new: JSON cannot contain the path [^\n]*/n\\xff/[^\n]*, which is not UTF%-8\n$")
end)

t.it("a project that cannot be written leaves nothing behind", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  with_share(path)
  local limited = process.run { "sh", "-c", "ulimit -f 0; trap '' XFSZ; exec \"$0\" new tool shop",
    path .. "/prefix/bin/rlhost", directory = path }
  t.equal({ limited.code, limited.errors:match "EFBIG" }, { 1, "EFBIG" })
  t.equal(fs.stat(path .. "/shop"), nil)
  t.equal(new "tool shop", 0)
end)

t.it("an unknown option gets a suggestion, and no word commands the terminal", REAL, function()
  local _, new <const>, gone <close> = project()
  t.equal({ new "--hlep" }, { 64, "", "rlhost: new: unknown option '--hlep' (did you mean '--help'?)\n" })
  t.equal({ new "tool \27" }, { 64, "",
    "rlhost: new: a name has small letters, digits, '_' and '-', and begins with a letter, not as '\\x1b'\n" })
end)

local verifies = process.run { "systemd-analyze", "--version" }
local unit_it = verifies and t.it or function(name, _, body) t.skip(name .. ": needs systemd-analyze", body) end

unit_it("systemd accepts the unit of a service, also one that does not know notify-reload", REAL, function()
  local path <const>, new <const>, gone <close> = project()
  t.equal(new "service my-service", 0)
  local unit = path .. "/my-service/my-service.service"
  local run = process.run { "systemd-analyze", "verify", unit, timeout = 30 }
  t.equal(run.code, 0, run.errors)
  for line in run.errors:gmatch "[^\n]+" do
    t.truthy(not line:find "my%-service" or line:find "ignoring: notify%-reload", run.errors)
  end
  t.truthy(fs.read(unit):find "\nType=notify\nType=notify%-reload\n")
end)
