local fs, process = require "runloop.fs", require "runloop.process"
local t = require "runloop.test"

-- Runs a script as a program, since a change of the user cannot be undone. Returns the program's output, errors and
-- status.
local function run(script, words)
  local all = { t.rlhost, "-l", "process=runloop.process", "-e", script, directory = "/" }
  if words then table.move(all, 1, #all, #words + 1) table.move(words, 1, #words, 1, all) end
  local result = assert(process.run(all))
  return result.output, result.errors, result.code
end

local is_root = io.popen("id -u"):read "n" == 0

t.describe("process.set_user", { real_time = true, skip = not is_root and "needs root" }, function()
  t.it("changes the user, the groups and the environment, in all threads", function()
    local output, errors = run [[
      local threads = {}
      for i = 1, 3 do threads[i] = rl.thread(function() rl.sleep(60) end) end
      rl.blocking(function() return 1 end)
      print(process.set_user "nobody")
      os.execute "cat /proc/$PPID/task/*/status | grep -E '^(Uid|Gid|Groups)' | sort -u"
      print(process.environment().HOME, os.getenv "USER", os.getenv "LOGNAME")
      print((process.run { "id", "-un" }).output)
      os.exit(0)
    ]]
    t.equal(errors, "")
    local nobody = io.popen("id -u nobody; id -g nobody"):read "a"
    local uid, gid = nobody:match "(%d+)\n(%d+)"
    local home = io.popen("getent passwd nobody"):read():match "([^:]*):[^:]*$"
    t.equal(output, ("true\nGid:%s\nGroups:\t%s \nUid:%s\n%s\tnobody\tnobody\nnobody\n\n"):format(
      ("\t" .. gid):rep(4), gid, ("\t" .. uid):rep(4), home))
  end)

  t.it("cannot be undone", function()
    local output = run [[
      assert(process.set_user "nobody")
      print(process.set_user "root")
      print(process.set_user(1))
      print(process.run { "python3", "-c", "import os; os.setuid(0)" }.code)
    ]]
    t.equal(output, "nil\tEPERM: only root can become root\tEPERM\nnil\tEPERM: only root can become user 1\tEPERM\n1\n")
  end)

  t.it("accepts numbers, without further groups, and a group", function()
    local show = "os.execute 'id -u; id -g; id -G; echo $HOME $USER'"
    t.equal(run("print(process.set_user(4711, 4712))" .. show), "true\n4711\n4712\n4712\n/ 4711\n")
    t.equal(run("print(process.set_user('nobody', 'daemon'))" .. show):match "^true\n%d+\n(%d+)\n%d+\n", "1")
    t.equal(run("print(process.set_user('nobody', 4712))" .. show):match "^true\n%d+\n(%d+)\n", "4712")
    t.equal(run "print(process.set_user(1)) os.execute 'id -g; echo $USER'", "true\n1\ndaemon\n")
  end)

  t.it("has the groups in which the system's lists have the user", function()
    local name, groups
    for line in io.lines "/etc/group" do
      name = name or line:match "^[%w_-]+:[^:]*:%d+:([%w_-]+)$"
    end
    if not name then t.skip "no user here is in a group of others" end
    groups = io.popen("id -G " .. name .. " | tr ' ' '\n' | sort"):read "a"
    t.equal(run(("assert(process.set_user '%s') os.execute [[id -G | tr ' ' '\n' | sort]]"):format(name)), groups)
  end)

  t.it("refuses an unknown user, and changes nothing", function()
    local output = run [[
      print(process.set_user "frob")
      print(process.set_user("nobody", "frob\n"))
      print(process.set_user(4711))
      print(process.set_user(0))
      os.execute "id -u"
    ]]
    t.equal(output, [[
nil	ENOENT: no user named frob	ENOENT
nil	ENOENT: no group named frob\n	ENOENT
nil	ENOENT: user 4711 is not listed: name a group, too	ENOENT
nil	EINVAL: becoming root does not give up root's rights	EINVAL
0
]])
  end)

  t.it("ends the process if only a part can be changed", function()
    local script = "print(process.set_user 'nobody') os.execute 'id -u'"
    t.equal({ run(script, { "setpriv", "--bounding-set=-setuid" }) },
      { "", "rlhost: process.set_user: the user cannot be set: Operation not permitted\n", 77 })
    t.equal({ run(script, { "setpriv", "--bounding-set=-setgid" }) },
      { "nil\tEPERM: the groups cannot be set: operation not permitted\tEPERM\n0\n", "", 0 })
  end)

  t.it("makes the socket for rlhost attach again", function()
    local directory = assert(fs.temporary_directory())
    t.finally(function() fs.remove(directory, { recursive = true }) end)
    local script = [[
      rl.attach "mine"
      print(process.set_user "nobody")
      io.stdout:flush()
      rl.every(60, function() end)
    ]]
    local host <close> = t.spawn {
      t.rlhost, "-l", "process=runloop.process", "-e", script, env = { XDG_RUNTIME_DIR = directory } }
    host:wait_for "true"
    local client = assert(process.run {
      "setpriv", "--reuid=nobody", "--clear-groups", t.rlhost, "attach", "mine", "-e", "return 6 * 7",
      environment = { XDG_RUNTIME_DIR = false } })
    t.equal({ client.output, client.code }, { "42\n", 0 }, client.errors)
    t.equal(#assert(fs.list(directory .. "/rlhost")), 0)
  end)
end)

t.it("process.set_user names wrong arguments", function()
  t.error(function() process.set_user {} end, "process.set_user: argument #1 must be a name or a number, got a table")
  t.error(function() process.set_user(-1) end, "process.set_user: argument #1 must be a name or a number, got %-1")
  t.error(function() process.set_user(2 ^ 32 - 1 | 0) end, "argument #1 must be a name or a number, got 4294967295")
  t.error(function() process.set_user("x", 1.5) end, "argument #2 must be a name or a number, got 1.5")
end)

t.it("process.set_user is refused in other threads", function()
  local fine, problem = require "runloop".thread(function()
    require "runloop.process".set_user "nobody"
  end):join()
  t.falsy(fine)
  t.truthy(tostring(problem):find("process.set_user: only the main thread changes the user, for all threads", 1, true))
end)
