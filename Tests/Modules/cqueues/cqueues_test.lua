-- runloop.cqueues: a controller of cqueues on our loop.

local t = require "runloop.test"
local process, fs = require "runloop.process", require "runloop.fs"
local rlhost = fs.real_path "/proc/self/exe"

local function run(script)
  local result = process.run { rlhost, "-", input = script }
  if result.errors:find "cqueues is not installed" then return t.skip "lua-cqueues is not installed" end
  return result.output, result.errors, result.code
end

local REAL = { real_time = true }

t.it("runs coroutines of cqueues beside ours, and lets the program end", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    bridge:wrap(function(text) cqueues.sleep(0.03) print(text) end, "theirs")
    rl.after(0.005, function() print "ours" end)
  ]], "ours\ntheirs\n")
end)

t.it("waits for a coroutine of theirs", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    print(bridge:call(function(a, b) cqueues.sleep(0.01) return a + b, nil, "x" end, 1, 2))
    print(pcall(bridge.call, bridge, function() cqueues.sleep(0.01) error("mine", 0) end))
    local ticks = 0
    local timer = rl.every(0.005, function() ticks = ticks + 1 end)
    bridge:call(cqueues.sleep, 0.1)
    timer:invalidate()
    print(ticks > 5)
  ]], "3\tnil\tx\nfalse\tmine\ntrue\n")
end)

t.it("lets theirs wait for ours", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    bridge:wrap(function()
      print(bridge:await(function(a) rl.sleep(0.01) return a, nil, 3 end, 1))
      print(bridge:await(function() return "at once" end))
      print(pcall(bridge.await, bridge, function() rl.sleep(0.01) error("ours", 0) end))
    end)
  ]], "1\tnil\t3\nat once\nfalse\tours\n")
end)

t.it("reports errors, and goes on", REAL, function()
  local output, errors = run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    rl.on_error(function(message) print(message) end)
    bridge:wrap(function() cqueues.sleep(0.01) error("theirs", 0) end)
    bridge:wrap(function() cqueues.sleep(0.03) print "goes on" end)
  ]]
  t.truthy(output:find "theirs", output .. errors)
  t.truthy(output:find "goes on", output .. errors)
end)

t.it("refuses waits in the wrong place", REAL, function()
  local output = run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    rl.task(function()
      rl.sleep(0.001)
      print(select(2, pcall(cqueues.sleep, 0.3)))
      print(select(2, pcall(cqueues.poll)))
      print(select(2, pcall(bridge.await, bridge, print)))
      print(select(2, pcall(bridge.call, bridge, 5)))
      print(select(2, pcall(bridge.wrap, bridge)))
    end)
    rl.sleep(0.02)
  ]]
  for _, text in ipairs {
    "cqueues.sleep: a task of runloop's cannot wait for cqueues; use require 'runloop.cqueues':call(fn)",
    "cqueues.poll: a task of runloop's cannot wait for cqueues",
    "bridge:await: only a coroutine of cqueues can wait with it",
    "bridge:call: argument #1 must be a function, got 5",
    "bridge:wrap: argument #1 must be a function",
  } do
    t.truthy(output:find(text, 1, true), output)
  end
end)

t.it("is an item of the loop, and gives cqueues back", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    print(bridge == require "runloop.cqueues", bridge:is_valid(), bridge:name())
    print(rl.current():contains(bridge, "common"))
    bridge:wrap(function() print "never" end)
    bridge:invalidate()
    print(bridge:is_valid())
    rl.task(function() cqueues.sleep(0.001) print "blocks" end)
    rl.sleep(0.02)
  ]], "true\ttrue\tcqueues\ntrue\nfalse\nblocks\n")
end)

t.it("says which package is missing", function()
  local errors = process.run { rlhost, "-", input = [[
    package.cpath, package.path = "", ""
    require "runloop.cqueues"
  ]] }.errors
  t.truthy(errors:find("module 'runloop.cqueues': cqueues is not installed (apt install lua-cqueues)", 1, true), errors)
end)
