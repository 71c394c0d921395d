-- rlhost --watch: a script runs again when a file that it has read changes.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }

local function project(files)
  local path = assert(fs.real_path(assert(fs.temporary_directory())))
  for name, text in pairs(files) do
    assert(fs.make_directory((path .. "/" .. name):match "^(.*)/", { parents = true }))
    assert(fs.write(path .. "/" .. name, text))
  end
  return path, setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
end

local function watch(path, words)
  return t.spawn { t.rlhost, "--watch", directory = path, table.unpack(words) }
end

t.it("--watch restarts when the script, a module or a file that is read late changes", REAL, function()
  local path <const>, gone <close> = project {
    ["main.lua"] = [[
      local rl = require "runloop"
      local x = require "lib.x"
      print("began", x, ...)
      rl.after(0.05, function() print("late", dofile "late.lua") end)
      rl.after(60, print)]],
    ["lib/x.lua"] = "return 1", ["late.lua"] = "return 'a'",
  }
  local program <close> = watch(path, { "main.lua", "one", "two" })
  program:wait_for "began\t1\tone\ttwo"
  program:wait_for "late\ta"
  fs.write(path .. "/lib/x.lua", "return 2")
  local saved = rl.now()
  program:wait_for "began\t2\tone\ttwo"
  t.truthy(rl.now() - saved < 2, rl.now() - saved)
  program:wait_for("rlhost: watch: lib/x.lua changed", { from = "errors" })
  program:wait_for "late\ta"
  fs.write(path .. "/late.lua", "return 'b'")
  program:wait_for "late\tb"
  program:wait_for("rlhost: watch: late.lua changed", { from = "errors" })
  fs.write(path .. "/main.lua", "print 'another'")
  program:wait_for "another"
  program:wait_for("rlhost: watch: ended with status 0; waiting for a change", { from = "errors" })
  fs.write(path .. "/other.lua", "")
  program:signal "TERM"
  t.equal(program:wait(), 128 + 15)
end)

t.it("--watch restarts when a file changes after it was read, and before its directory is watched", REAL, function()
  local path <const>, gone <close> = project {
    ["main.lua"] = [[
      local rl, fs = require "runloop", require "runloop.fs"
      -- The process that watches sleeps until the file has changed.
      local watcher = io.open "/proc/self/stat":read "a":match "%) %a (%d+)"
      os.execute("kill -STOP " .. watcher)
      local word = dofile "sub/word.lua"
      print("read", word)
      rl.sleep(0.05)
      if word == 1 then fs.write("sub/word.lua", "return 2") end
      os.execute("kill -CONT " .. watcher)
      rl.after(60, print)]],
    ["sub/word.lua"] = "return 1",
  }
  local program <close> = watch(path, { "main.lua" })
  program:wait_for "read\t2"
  program:signal "TERM"
  program:wait()
end)

t.it("--watch restarts once for many saves", REAL, function()
  local path <const>, gone <close> = project { ["main.lua"] = "print('run', 0)" }
  local program <close> = watch(path, { "main.lua" })
  program:wait_for "run\t0"
  for i = 1, 20 do
    fs.write(path .. "/main.lua", ("print('run', %d)"):format(i))
    rl.sleep(0.01)
  end
  program:wait_for "run\t20"
  rl.sleep(0.3)
  -- A machine under load may take more than 0.1 s between two saves.
  t.truthy(select(2, program:output():gsub("run\t%d+", "")) <= 4)
  program:signal "INT"
  t.equal(program:wait(), 128 + 2)
end)

t.it("--watch restarts when a file behind a symbolic link changes, or a link on its way", REAL, function()
  local path <const>, gone <close> = project {
    ["one/main.lua"] = "print 'one'", ["two/main.lua"] = "print 'two'",
  }
  assert(fs.symbolic_link("one", path .. "/current"))
  assert(fs.symbolic_link("current/main.lua", path .. "/main.lua"))
  local program <close> = watch(path, { "main.lua" })
  program:wait_for "one"
  fs.write(path .. "/one/main.lua", "print 'changed'")
  program:wait_for "changed"
  assert(fs.symbolic_link("two", path .. "/next"))
  assert(fs.rename(path .. "/next", path .. "/current"))
  program:wait_for "two"
  fs.write(path .. "/two/main.lua", "print 'again'")
  program:wait_for "again"
  program:wait_for("rlhost: watch: main.lua changed", { from = "errors" })
end)

t.it("--watch restarts when a module appears in a directory that was missing", REAL, function()
  local path <const>, gone <close> = project { ["main.lua"] = "print(require 'a.b.soon')" }
  local program <close> = watch(path, { "main.lua" })
  program:wait_for("ended with status 1; waiting for a change", { from = "errors" })
  assert(fs.make_directory(path .. "/a"))
  rl.sleep(0.05)
  assert(fs.make_directory(path .. "/new/b", { parents = true }))
  assert(fs.write(path .. "/new/b/soon.lua", "return 'there'"))
  assert(fs.rename(path .. "/new/b", path .. "/a/b"))
  program:wait_for "there"
  program:wait_for("rlhost: watch: a/b/soon.lua changed", { from = "errors" })
end)

t.it("--watch reports a working directory that has gone, and escapes names", REAL, function()
  local path <const>, gone <close> = project { ["a\27.lua"] = "print 'x'" }
  local lost = process.run { "sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" --watch x.lua",
    t.rlhost, directory = path }
  t.equal({ lost.code, lost.errors }, { 1, "rlhost: watch: ENOENT: no such file or directory\n" })
  local program <close> = watch(path, { "a\27.lua" })
  program:wait_for "x"
  fs.write(path .. "/a\27.lua", "print 'y'")
  program:wait_for "y"
  program:wait_for("rlhost: watch: a\\x1b.lua changed", { from = "errors" })
end)

t.it("--watch waits for a change when the script fails, does not compile or lacks a module", REAL, function()
  local path <const>, gone <close> = project { ["main.lua"] = "error 'no'" }
  local program <close> = watch(path, { "main.lua" })
  program:wait_for("ended with status 1; waiting for a change", { from = "errors" })
  fs.write(path .. "/main.lua", "print(")
  program:wait_for("ended with status 1; waiting for a change", { from = "errors" })
  fs.write(path .. "/main.lua", "print(require 'soon')")
  program:wait_for("ended with status 1; waiting for a change", { from = "errors" })
  fs.write(path .. "/soon.lua", "return 'there'")
  program:wait_for "there"
end)

t.it("--watch restarts when a module that never compiled changes", REAL, function()
  local path <const>, gone <close> = project { ["main.lua"] = "print(require 'lib.new')", ["lib/new.lua"] = "return (" }
  local program <close> = watch(path, { "main.lua" })
  program:wait_for("rlhost: error loading module 'lib.new' from", { from = "errors" })
  program:wait_for("ended with status 1; waiting for a change", { from = "errors" })
  fs.write(path .. "/lib/new.lua", "return 'mended'")
  program:wait_for "mended"
end)

t.it("test --watch runs a file again when a module that never compiled, or was missing, changes", REAL, function()
  local path <const>, gone <close> = project { ["lib/new.lua"] = "return (", ["lib/other.lua"] = "return 1",
    ["tests/new_test.lua"] = [[
      local t = require "runloop.test"
      local new, soon = require "lib.new", require "lib.soon"
      t.it("has " .. new .. soon, function() end)]] }
  local runner <close> = t.spawn { t.rlhost, "test", "--watch", directory = path }
  runner:wait_for "error loading module 'lib.new'.*waiting for changes"
  fs.write(path .. "/lib/new.lua", "return 'this'")
  runner:wait_for "module 'lib.soon' not found.*waiting for changes"
  fs.write(path .. "/lib/soon.lua", "return 'that'")
  runner:wait_for "ok    has thisthat"
end)

t.it("--watch ends a program that ignores SIGTERM, with its group, and passes its input on", REAL, function()
  local path <const>, gone <close> = project {
    ["main.lua"] = "print(io.read()) require 'runloop.process'.on_signal('TERM', function() end) "
      .. "require 'runloop'.after(60, print)",
  }
  local program <close> = watch(path, { "main.lua" })
  program:write "typed\n"
  program:wait_for "typed"
  fs.write(path .. "/main.lua", "print 'second'")
  program:wait_for("second", { within = 10 })
end)

t.it("--watch requires a script", REAL, function()
  for _, words in ipairs { { "-e", "print(1)" }, { "-" }, { "-i", "x.lua" }, {} } do
    local run = process.run { t.rlhost, "--watch", table.unpack(words) }
    t.equal({ run.code, run.output }, { 64, "" })
  end
end)
