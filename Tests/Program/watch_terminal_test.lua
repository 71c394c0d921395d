-- rlhost --watch in a shell on a terminal: which process gets keys, Control-C and Control-Z, and what remains on the
-- screen.

local t = require "runloop.test"
local fs = require "runloop.fs"

t.describe("rlhost --watch on a terminal", { real_time = true, timeout = 60 }, function()
  local directory, shell

  local SCRIPT = [[
    local net, rl = require "runloop.net", require "runloop"
    print("began", dofile "word.lua")
    rl.every(60, print)
    for line in net.input():lines() do print("line", line:upper()) end
  ]]

  local function save(name, text) assert(fs.write(directory .. "/" .. name, text)) end

  t.before_each(function()
    directory = assert(fs.real_path(assert(fs.temporary_directory())))
    t.finally(function() fs.remove(directory, { recursive = true }) end)
    save("word.lua", "return 'one'")
    save("main.lua", SCRIPT)
    shell = t.spawn {
      "bash", "--norc", "--noprofile", "--noediting", "-i", terminal = { rows = 40, columns = 100 },
      directory = directory, env = { PS1 = "$ ", RL = t.rlhost, HISTFILE = "" } }
    t.finally(function() shell:kill() end)
    shell:wait_for "%$ $"
    shell:write "$RL --watch main.lua\n"
    shell:wait_for "began\tone"
  end)

  local function status()
    shell:wait_for "%$ $"
    shell:write "echo status $?, $(stty -a | grep -o -e ' -*icanon' -e ' -*echo ' | xargs), $(jobs -p | wc -l) jobs\n"
    return shell:wait_for("\nstatus ([^\r]*)")
  end

  t.it("passes keys to the script, also after a restart, and Control-C ends both", function()
    shell:write "hello\n"
    shell:wait_for "line\tHELLO"
    save("word.lua", "return 'two'")
    shell:wait_for "rlhost: watch: word.lua changed\r\n"
    shell:wait_for "began\ttwo"
    shell:write "again\n"
    shell:wait_for "line\tAGAIN"
    shell:write "\3"
    t.equal(status(), "130, icanon echo, 0 jobs")
  end)

  t.it("survives a syntax error, and Control-C ends it while nothing runs", function()
    save("word.lua", "return {{")
    shell:wait_for "word.lua:1: "
    shell:wait_for "rlhost: watch: ended with status 1; waiting for a change\r\n"
    save("word.lua", "return 'three'")
    shell:wait_for "began\tthree"
    save("word.lua", "return }")
    shell:wait_for "waiting for a change\r\n"
    shell:write "\3"
    t.equal(status(), "130, icanon echo, 0 jobs")
  end)

  t.it("stops with the script after Control-Z, and continues with it", function()
    shell:write "\26"
    shell:wait_for "Stopped"
    shell:wait_for "%$ $"
    shell:write "fg\n"
    shell:wait_for "main.lua\r\n"
    shell:write "hello\n"
    shell:wait_for "line\tHELLO"
    shell:write "\3"
    t.equal(status(), "130, icanon echo, 0 jobs")
  end)

  t.it("ends a script that computes, and restores the terminal after a script in raw mode", function()
    save("main.lua", [[
      local screen = require "runloop.terminal".open()
      local raw = screen:raw { signals = true }
      print("raw")
      if dofile "word.lua" == "busy" then while true do end end
      require "runloop".every(60, print)
    ]])
    shell:wait_for "raw"
    save("word.lua", "return 'busy'")
    shell:wait_for "raw"
    shell:write "\3"
    t.equal(status(), "130, icanon echo, 0 jobs")
  end)
end)
