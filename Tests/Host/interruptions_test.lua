-- A script's code that runs in the middle of the host's code, such as debug hooks; and interruptions of it.

local t = require "runloop.test"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }

local function run(script)
  local result = assert(process.run { t.rlhost, "-e", 'local rl = require "runloop" ' .. script, timeout = 40 })
  return result.output .. result.errors, result.code or result.signal
end

t.it("a hook that calls the host while an error is reported does not change the report", REAL, function()
  local output, status = run [[
    rl.on_error(function(err, info) print(err, info.where:match "^timer", info.traceback:match "^[^\n]*") end)
    debug.sethook(function() pcall(rl.run, { mode = "common" }) end, "cr")
    rl.after(0, function() error("plain", 0) end)
    rl.run { timeout = 0.1 }
    debug.sethook()
    print "end"]]
  t.equal({ output, status }, { "plain\ttimer\tplain\nend\n", 0 })
end)

t.it("a hook that makes objects while the host makes room for one loses none of them", REAL, function()
  local output, status = run [[
    local made, called, others = 0, 0, 0
    local function make()
      made = made + 1
      rl.after(0, function() called = called + 1 end)
    end
    rl.task(function()
      local usual, learns = {}, true
      debug.sethook(function()
        local fn = debug.getinfo(2, "f").func
        if learns then usual[fn] = true return end
        -- A function that most calls do not need, such as the one that makes room.
        if not usual[fn] then others = others + 1 make() end
      end, "c")
      for i = 1, 3000 do
        make()
        if i == 20 then learns = false end
      end
      debug.sethook()
    end)
    collectgarbage()
    local limit = rl.now() + 20
    while called < made and rl.now() < limit do
      local before = called
      rl.sleep(0.01)
      if called == before then break end
    end
    print(made - called, others > 1)]]
  t.equal({ output, status }, { "0\ttrue\n", 0 })
end)

t.it("a hook that begins callbacks while the host prepares others ends before the C stack does", REAL, function()
  local output, status = run [[
    rl.on_error(function() end)
    local made = 0
    debug.sethook(function()
      made = made + 1
      if made > 3000 then return end
      local function none() end
      pcall(rl.source, { perform = none, schedule = none, modes = "default", keeps_alive = false })
    end, "c")
    pcall(print, "begin")
    debug.sethook()
    print(made > 10, debug.gethook())]]
  t.equal({ output, status }, { "begin\ntrue\tnil\n", 0 })
end)

t.it("the hook of a callback that has ended is not called during the next one", REAL, function()
  local output, status = run [[
    local calls, hook = 0
    function hook() calls = calls + 1 end
    rl.after(0, function()
      debug.sethook(hook, "cr", 3)
      local set, mask, count = debug.gethook()
      print(set == hook, mask, count)
    end)
    rl.sleep(0.01)
    local before = calls
    for i = 1, 3 do
      rl.source { perform = function() end, schedule = function() end, modes = "default", keeps_alive = false }
    end
    print(before > 0, calls - before)]]
  t.equal({ output, status }, { "true\tcr\t3\ntrue\t0\n", 0 })
end)

t.it("threads that are cancelled while they start programs leave no descriptors", REAL, function()
  local output, status = run [[
    local function descriptors()
      local count = 0
      for n = 3, 300 do
        local file <close> = io.open("/proc/self/fdinfo/" .. n)
        if file then count = count + 1 end
      end
      return count
    end
    local function round(i)
      local thread = rl.thread(function()
        local process = require "runloop.process"
        while true do process.run { "true" } end
      end)
      rl.sleep(0.003 + i * 0.0002)
      thread:cancel()
      assert(thread:join(20) ~= nil)
    end
    for i = 1, 5 do round(i) end
    local before = descriptors()
    for i = 1, 40 do round(i) end
    -- The system reports the end of the last programs a little later.
    local left, limit = descriptors() - before, rl.now() + 5
    while left > 0 and rl.now() < limit do
      rl.sleep(0.05)
      left = descriptors() - before
    end
    print(left <= 0 or left)]]
  t.equal({ output, status }, { "true\n", 0 })
end)
