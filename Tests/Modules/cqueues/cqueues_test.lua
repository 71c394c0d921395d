-- runloop.cqueues: a controller of cqueues, served by a run loop.

local rl = require "runloop"
local t = require "runloop.test"
local process, fs = require "runloop.process", require "runloop.fs"
local rlhost = fs.real_path "/proc/self/exe"

local function run(script)
  local result = process.run { rlhost, "-", input = script }
  if result.errors:find "cqueues is not installed" then return t.skip "lua-cqueues is not installed" end
  return result.output, result.errors, result.code
end

local REAL = { real_time = true }

t.it("the bridge runs coroutines of cqueues beside our tasks, and lets the program end", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    bridge:wrap(function(text) cqueues.sleep(0.03) print(text) end, "theirs")
    rl.after(0.005, function() print "ours" end)
  ]], "ours\ntheirs\n")
end)

t.it("bridge:call waits for a coroutine of cqueues, and returns its results", REAL, function()
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

t.it("bridge:await lets a coroutine of cqueues wait for a task", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    bridge:wrap(function()
      print(bridge:await(function(a) rl.sleep(0.01) return a, nil, 3 end, 1))
      print(bridge:await(function() return "at once" end))
      print(pcall(bridge.await, bridge, function() rl.sleep(0.01) error("ours", 0) end))
    end)
  ]], "1\tnil\t3\nat once\nfalse\tours\n")
end)

t.it("the bridge reports errors of coroutines, and continues", REAL, function()
  local output, errors = run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    rl.on_error(function(message) print(message) end)
    bridge:wrap(function() cqueues.sleep(0.01) error("theirs", 0) end)
    bridge:wrap(function() cqueues.sleep(0.03) print "goes on" end)
  ]]
  t.truthy(output:find "theirs", output .. errors)
  t.truthy(output:find "goes on", output .. errors)
end)

t.it("waits in the wrong kind of coroutine raise errors with the remedy", REAL, function()
  local output = run [[
    local near, far = require "cqueues.socket".pair()
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    local condition = require "cqueues.condition".new()
    print("main " .. select(2, pcall(cqueues.sleep, 0.3)))
    print("condition " .. select(2, pcall(condition.wait, condition, 0.3)))
    print("socket " .. select(2, pcall(near.read, near, "*l")))
    rl.task(function()
      rl.sleep(0.001)
      print(select(2, pcall(cqueues.sleep, 0.3)))
      print(select(2, pcall(cqueues.poll)))
      print(select(2, pcall(bridge.await, bridge, print)))
      print(select(2, pcall(bridge.call, bridge, 5)))
      print(select(2, pcall(bridge.wrap, bridge)))
    end)
    rl.sleep(0.02)
    far:close()
  ]]
  for _, text in ipairs { "main stdin:4: cqueues.sleep", "condition stdin:5: condition:wait" } do
    t.truthy(output:find(text .. ": a task of runloop's cannot wait for cqueues", 1, true), output)
  end
  t.truthy(output:find "socket [^\n]*cqueues.poll: a task of runloop's cannot wait for cqueues", output)
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

t.it("the bridge is an item of the loop, and frees cqueues when it is invalidated", REAL, function()
  t.equal(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    print(bridge == require "runloop.cqueues", bridge:is_valid(), bridge:name())
    print(rl.current():contains(bridge, "common"))
    bridge:wrap(function() print "never" end)
    local call = rl.task(bridge.call, bridge, print)
    bridge:invalidate()
    print(bridge:is_valid())
    print(select(2, pcall(call.await, call)))
    for _, name in ipairs { "call", "wrap" } do print(select(2, pcall(bridge[name], bridge, print))) end
    rl.task(function() cqueues.sleep(0.001) print "blocks" end)
    rl.sleep(0.02)
  ]], [[
true	true	cqueues
true
false
bridge:call: the bridge became invalid
stdin:9: bridge:call: the bridge is invalid; require it again
stdin:9: bridge:wrap: the bridge is invalid; require it again
blocks
]])
end)

t.it("lua-http runs over the bridge: its handlers wait for our tasks, while our timers fire", REAL, function()
  -- Debian packages cqueues only for Lua 5.3 and earlier.
  local output = run [[
    for _, version in ipairs { "5.3", "5.1" } do
      for _, file in ipairs { "?.lua", "?/init.lua" } do
        package.path = package.path .. (";/usr/share/lua/%s/%s"):format(version, file)
      end
    end
    local rl, bridge = require "runloop", require "runloop.cqueues"
    local is_there, http = pcall(require, "http.server")
    if not is_there then return print "lua-http is not there" end
    local headers, request = require "http.headers", require "http.request"
    local server = assert(http.listen { host = "127.0.0.1", port = 0, onstream = function(_, stream)
      assert(stream:get_headers())
      local text = bridge:await(function() rl.sleep(0.02) return "answer" end)
      local head = headers.new()
      head:append(":status", "200")
      assert(stream:write_headers(head, false))
      assert(stream:write_chunk(text, true))
    end })
    bridge:call(function() assert(server:listen()) end)
    local _, _, port = server:localname()
    bridge:wrap(function() assert(server:loop()) end)
    local ticks, answered, tasks = 0, 0, {}
    local timer = rl.every(0.005, function() ticks = ticks + 1 end)
    for i = 1, 10 do
      tasks[i] = rl.task(function()
        for _ = 1, 5 do
          local status, body = bridge:call(function()
            local head, stream = assert(request.new_from_uri("http://127.0.0.1:" .. port .. "/"):go(5))
            return head:get ":status", stream:get_body_as_string()
          end)
          if status == "200" and body == "answer" then answered = answered + 1 end
        end
      end)
    end
    rl.all_of(tasks)
    timer:invalidate()
    print(answered, ticks > 5)
    bridge:call(function() server:close() end)
  ]]
  if output == "lua-http is not there\n" then return t.skip "lua-http is not installed" end
  t.equal(output, "50\ttrue\n")
end)

t.it("rl.why shows the number of coroutines, and the bridge does not count as a leak", REAL, function()
  t.truthy(run [[
    local rl, bridge, cqueues = require "runloop", require "runloop.cqueues", require "cqueues"
    for i = 1, 3 do bridge:wrap(function() cqueues.sleep(0.5) end) end
    rl.after(0.02, function()
      print(rl.why())
      bridge:invalidate()
    end)
  ]]:find 'bridge "cqueues" %(3 coroutines, next in 0%.[45]%d* s')
  if not pcall(require, "runloop.cqueues") then return end
  local done = false
  require "runloop.cqueues":wrap(function()
    require "cqueues".sleep(0.01)
    done = true
  end)
  rl.sleep(0.1)
  t.truthy(done)
end)

t.it("the error of require names the missing package", function()
  local errors = process.run { rlhost, "-", input = [[
    package.cpath, package.path = "", ""
    require "runloop.cqueues"
  ]] }.errors
  t.truthy(errors:find("module 'runloop.cqueues': cqueues is not installed (apt install lua-cqueues)", 1, true), errors)
end)
