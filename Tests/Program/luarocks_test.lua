-- luarocks installs for rlhost, as docs/modules.md says, and the modules of its table load. The test needs no network.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }
local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT

local has_luarocks = os.execute "command -v luarocks >/dev/null"
local it = has_luarocks and t.it or function(name, _, body) t.skip(name .. ": needs luarocks", body) end

it("a new rock is made, its module loads, and its program runs under rlhost", REAL, function()
  local path = assert(fs.temporary_directory())
  local gone <close> = setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
  fs.make_directory(path .. "/bin")
  fs.symbolic_link(t.rlhost, path .. "/bin/rlhost")
  fs.write(path .. "/greeting.lua", "return { hello = function(name) return 'hello, ' .. name end }\n")
  fs.write(path .. "/greet",
    "local rl = require 'runloop'\nrl.sleep(0.01)\nprint(require 'greeting'.hello(arg[1]), rl.version ~= nil)\n")
  fs.write(path .. "/greeting-1.0-1.rockspec", [[
    package, version = "greeting", "1.0-1"
    source = { url = "file://greeting.lua" }
    build = { type = "builtin", modules = { greeting = "greeting.lua" }, install = { bin = { "greet" } } }
  ]])
  -- The document's commands that set luarocks up.
  local set_up = assert(fs.read(ROOT .. "/docs/modules.md")):match "```sh\n(mkdir.-)\nluarocks[^\n]* install"
  local run = process.run { "sh", "-ec", ([[
    l="luarocks --lua-version=5.4 --tree=$HOME/tree"
    $2
    $l make greeting-1.0-1.rockspec >&2
    eval "$($l path)"
    rlhost -p 'require "greeting".hello "Ada"'
    PATH=$PATH:$HOME/tree/bin
    greet Bob
    grep -c rlhost $HOME/tree/bin/greet
  ]]):gsub("%$2", function() return set_up end), directory = path, environment = { HOME = path, PATH = path .. "/bin:" .. os.getenv "PATH", LUA_PATH = false, LUA_CPATH = false } }
  t.equal(run.code, 0, run.errors)
  t.truthy(run.output:find("hello, Ada\nhello, Bob\ttrue\n", 1, true), run.output .. run.errors)
  t.truthy(tonumber(run.output:match "(%d+)\n$") > 0, run.output)
end)

t.it("the modules of the table that are installed load", REAL, function()
  local found = 0
  for packages, modules in assert(fs.read(ROOT .. "/docs/modules.md")):gmatch "\n| (`lua%-[^|]*) | ([^|]*) | works" do
    for name in modules:gmatch "`([^`]+)`" do
      local text = ("local ok, problem = pcall(require, %q) print(ok or problem:match '^[^\\n]*')"):format(name)
      local own = process.run { t.rlhost, "-e", text }
      -- A module counts as missing if lua5.4 does not find it.
      local is_there = process.run { "lua5.4", "-e", text }.output == "true\n"
      found = found + (is_there and 1 or 0)
      if is_there then t.equal({ own.output, own.code }, { "true\n", 0 }, packages .. ": " .. name .. own.errors) end
    end
  end
  t.truthy(found > 3, found)
end)
