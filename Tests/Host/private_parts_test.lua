-- Private parts of modules: scripts can require the names in docs/lua and no others, and nothing that debug functions
-- find ends the process when it is called with wrong arguments.

local t = require "runloop.test"

local root = (debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../"

local function lines(path)
  local list = {}
  for line in io.lines(root .. path) do list[#list + 1] = line end
  return list
end

-- The names in docs/lua.
local function public_names()
  local names = {}
  for _, entry in ipairs(require "runloop.fs".list(root .. "docs/lua")) do
    local word = entry.name:match "^(runloop.*)%.lua$"
    if word then names[#names + 1] = (word:gsub("-", ".", 1)) end
  end
  t.truthy(#names >= 12)
  return names
end

local function run(script, ...)
  local command = { t.rlhost, "-", ... }
  command.input, command.timeout = script, 60
  local result = require "runloop.process".run(command)
  return result.output, result.errors, result.status, result.signal
end

t.it("the public modules are those in docs/lua", function()
  local names = public_names()
  local output, errors = run([[
    local public = {}
    for _, name in ipairs(arg) do public[name] = true end
    print(#arg)
    for _, name in ipairs(arg) do
      local good, message = pcall(require, name)
      -- A module may refuse to work here: outside of tests, or without a library.
      if not good and message:find "^module '[^']*' not found:" then print(name, message) end
    end
    local registry = debug.getregistry()
    for _, holder in ipairs { package.loaded, package.preload, registry._LOADED, registry._PRELOAD } do
      for name in pairs(holder) do
        if type(name) == "string" and name:find "^runloop" and not public[name] then print("too many", name) end
      end
    end
  ]], table.unpack(names))
  t.equal(errors, "")
  t.equal(output, #names .. "\n")
end)

t.it("require finds no private part, whether the host has loaded it or not", function()
  local public, parts = {}, {}
  for _, name in ipairs(public_names()) do public[name] = true end
  for _, name in ipairs(lines "Sources/Lua/Embedded/order") do
    if not public[name] then parts[#parts + 1] = name end
  end
  t.truthy(#parts > 60)
  local output, errors = run([[
    local http = require "runloop.http"
    pcall(http.get, 5) pcall(http.serve, 5) pcall(require "runloop.net".connect, 5) pcall(http.routes, 5)
    for _, name in ipairs(arg) do
      local good, message = pcall(require, name)
      local expected = "module '" .. name .. "' not found:\n\tno field package.preload['" .. name .. "']\n"
      if good or message:sub(1, #expected) ~= expected then print(name, message) end
      if package.preload[name] or package.loaded[name] then print("there", name) end
    end
  ]], table.unpack(parts))
  t.equal(errors, "")
  t.equal(output, "")
end)

t.it("the host finds its own parts, whatever a script stores under their names", function()
  local output, errors = run [[
    package.loaded["runloop.misuse"] = 5
    package.preload["runloop.text"] = function() return 6 end
    print(require "runloop.misuse", (require "runloop.text"))
    print(select(2, pcall(require "runloop.log".open, 7)))
  ]]
  t.equal(errors, "")
  t.truthy(output:find "^5\t[^\n]*\n.*log%.open: ", output)
end)

t.each({
  { "runloop.htpp", "runloop.http" }, { "runloop.proces", "runloop.process" }, { "rl.http", "runloop.http" },
  { "rl.jsn", "runloop.json" }, { "rlhost", "runloop" }, { "rl", "runloop" }, { "runlop", "runloop" },
  { "socket.http", "runloop.http" }, { "rlhost.net", "runloop.net" }, { "runloop.sockets", "runloop.socket" },
}, "require %q ends with: there is %s", function(name, meant)
  local output, errors = run([[
    package.path, package.cpath = "./?.none", "./?.nothing"
    local _, message = pcall(require, arg[1])
    print(message)
  ]], name)
  t.equal(errors, "")
  t.equal(output:sub(-#("\n\tthere is " .. meant .. "\n")), "\n\tthere is " .. meant .. "\n")
end)

t.it("the error text of require begins with Lua's own, byte for byte", function()
  local script = [[
    package.path, package.cpath = "./?.none", "./?.nothing"
    io.write(select(2, pcall(require, arg[1])))
  ]]
  local plain = require "runloop.process".run { "lua5.4", "-", "runloop.htpp", input = script }
  t.equal(run(script, "runloop.htpp"), plain.output .. "\n\tthere is runloop.http")
  plain = require "runloop.process".run { "lua5.4", "-", "nothing.at.all", input = script }
  t.equal(run(script, "nothing.at.all"), plain.output)
end)

t.it("a script's module with the name of a private part is found", function()
  local output, errors = run [[
    package.preload["socket.http"] = function() return "mine" end
    print((require "socket.http"), (pcall(require, "no.such.thing")))
    table.insert(package.searchers, function(name) if name == "rlhost" then return function() return "own" end end end)
    print((require "rlhost"))
  ]]
  t.equal(errors, "")
  t.equal(output, "mine\tfalse\nown\n")
end)

t.it("a private function accepts a number that is out of range, and does not crash", function()
  local output, errors, _, signal = run [[
    local resolve = require "runloop.net".resolve
    for i = 1, 255 do
      local name, native = debug.getupvalue(resolve, i)
      if name == "native" then
        for _, number in ipairs { math.mininteger, -1, 1 << 31, math.maxinteger } do
          print((pcall(native.resolve, "127.0.0.1", number)))
        end
      end
    end
  ]]
  t.equal({ output, errors }, { ("true\n"):rep(4), "" })
  t.equal(signal, nil)
end)

t.it("a job of SQLite can be run and read only once, also through private functions", function()
  local output, errors, _, signal = run [[
    local rl, sqlite = require "runloop", require "runloop.sqlite"
    local db = sqlite.open ":memory:"
    local found, seen = {}, {}
    local function visit(value, name)
      local kind = type(value)
      if name == "make_run" or name == "read_reply" then found[name] = value end
      if kind == "userdata" and tostring(value):find "^sqlite pool" then found.pool = value end
      if kind ~= "table" and kind ~= "function" or value == _G or seen[value] then return end
      seen[value] = true
      if kind == "table" then
        for key, field in next, value do visit(field, key) end
        return visit(debug.getmetatable(value))
      end
      for i = 1, 255 do
        local variable, upvalue = debug.getupvalue(value, i)
        if not variable then break end
        visit(upvalue, variable)
      end
    end
    visit(db)
    local pool, read = found.pool, found.read_reply
    local job = found.make_run(4, 1 << 20, 1, "select 5")
    local done = pool:run(0, job)
    print(read(done, "value", true))
    print((pcall(pool.run, pool, 0, job)), (pcall(pool.send, pool, done)), (pcall(pool.close, pool, done)))
    rl.sleep(0.01)
    print((pcall(read, done, "value", true)), (pcall(pool.send, pool, job)), db:value "select 6")
  ]]
  t.equal({ output, errors, signal }, { "5\nfalse\tfalse\tfalse\nfalse\tfalse\t6\n", "" })
end)

t.each({ 1, 2, 3 }, "no function that debug functions find ends the process, seed %d", function(seed)
  local directory = require "runloop.fs".temporary_directory "rlhost-private"
  local script = require "runloop.fs".real_path(root .. "Tests/Host/Scripts/private-misuse.lua")
  local result = require "runloop.process".run {
    t.rlhost, script, seed, directory = directory, timeout = 60, input = "null",
  }
  require "runloop.fs".remove(directory, { recursive = true })
  t.equal(result.signal, nil, result.errors:sub(-300))
  t.falsy(result.errors:find("ended by a failure inside", 1, true), result.errors:sub(-300))
end)
