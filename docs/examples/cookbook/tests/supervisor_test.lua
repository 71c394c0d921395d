local rl, fs = require "runloop", require "runloop.fs"
local t = require "runloop.test"
local support = require "tests.support"

local function start(procfile)
  local directory = support.directory()
  assert(fs.write(directory .. "/Procfile", procfile))
  return support.start("supervisor", { directory = directory }), directory
end

t.describe("supervisor", function()
  t.it("starts programs again, with longer and longer pauses", function()
    local program = start "job: echo once; exit 3\n"
    program:wait_for "1 programs"
    local pauses, last = {}, nil
    for _ = 1, 5 do
      program:wait_for("has ended: exit 3", { within = 60 })
      pauses[#pauses + 1] = last and math.floor(rl.now() - last + 0.5)
      last = rl.now()
    end
    t.equal(pauses, { 1, 2, 4, 8 })
  end)

  t.it("shows every line with its name, and control characters by number", function()
    local program = start "color: printf 'two\\nlines\\033[2J'; sleep 1001\n"
    program:wait_for("color   |\27[0m two\n", { plain = true })
    program:signal "TERM"
    program:wait_for("lines\\27[2J\n", { plain = true })
  end)

  t.it("ends its programs with itself, and what they have started", function()
    local program, directory = start "web: sleep 1002 & echo $! > left; echo serving; wait\n"
    program:wait_for "serving"
    program:signal "TERM"
    program:wait_for "has ended: signal TERM"
    program:wait()
    local left = fs.read(directory .. "/left"):match "%d+"
    t.eventually(function() return not fs.stat("/proc/" .. left) end)
  end)

  t.it("reads its file again after SIGHUP", function()
    local program, directory = start "a: echo one; sleep 1003\nb: echo stays; sleep 1004\n"
    program:wait_for "stays"
    assert(fs.write(directory .. "/Procfile", "a: echo two; sleep 1005\nb: echo stays; sleep 1004\n"))
    program:signal "HUP"
    t.equal((program:wait_for { "two\n", "stays" }), 1)
    program:signal "TERM"
    program:wait()
    t.equal(select(2, program:output():gsub("stays\n", "")), 1)
  end)
end)
