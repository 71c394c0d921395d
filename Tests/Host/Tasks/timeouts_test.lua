-- rl.timeout: its time is over at the moment at which its task gets a result.

local t = require "runloop.test"
local rl = require "runloop"

t.describe("rl.timeout, if the time is over in the pass of the result", function()
  for _, capacity in ipairs { 0, 1, 5 } do
    t.it("returns the value of a channel for " .. capacity .. " values", function()
      local channel = rl.channel(capacity)
      rl.after(5, function() channel:send("first", 1) end)
      local start = rl.now()
      t.equal({ rl.timeout(5, channel.receive, channel) }, { true, "first", 1 })
      t.equal(rl.now(), start + 5)
      t.equal({ channel:receive(1) }, { nil, "timed out" })
    end)
  end

  t.it("returns the signal of a condition, which would wake another task otherwise", function()
    local condition, signalled = rl.condition(), nil
    rl.after(5, function() signalled = condition:signal() end)
    t.equal({ rl.timeout(5, condition.wait, condition) }, { true, true })
    t.equal(signalled, true)
  end)

  t.it("returns the place of a mutex, which would stay taken otherwise", function()
    local mutex = rl.mutex()
    local first = mutex:lock()
    rl.after(5, function() first:unlock() end)
    local done, held = rl.timeout(5, mutex.lock, mutex)
    t.equal(done, true)
    held:unlock()
    local again <close> = mutex:lock(1)
    t.truthy(again)
  end)

  for depth = 2, 5 do
    t.it("returns the value through " .. depth .. " levels", function()
      local channel = rl.channel()
      rl.after(5, function() channel:send "v" end)
      local expected, arguments = { "v" }, { channel.receive, channel }
      for _ = 1, depth do
        table.insert(expected, 1, true)
        arguments = { rl.timeout, 5, table.unpack(arguments) }
      end
      local start = rl.now()
      t.equal({ table.unpack(arguments)(table.unpack(arguments, 2)) }, expected)
      t.equal(rl.now(), start + 5)
      t.equal({ channel:receive(1) }, { nil, "timed out" })
    end)
  end

  t.it("cancels a function where it waits for the next result", function()
    local channel, got = rl.channel(10), {}
    for i = 1, 3 do rl.after(5 * i, function() channel:send(i) end) end
    t.equal({ rl.timeout(10, function() for value in channel:values() do got[#got + 1] = value end end) },
      { nil, "timed out" })
    t.equal(got, { 1, 2 })
    t.equal(channel:receive(), 3)
  end)

  t.it("raises the error of a function that fails with its result", function()
    local channel = rl.channel()
    rl.after(5, function() channel:send "wrong" end)
    t.error(function() rl.timeout(5, function() error(channel:receive(), 0) end) end, "^wrong$")
  end)

  t.it("does not wait for a function that goes on after its cancellation", function()
    local channel, ended = rl.channel(), nil
    rl.after(5, function() channel:send "v" end)
    local start = rl.now()
    local result = { rl.timeout(5, function()
      channel:receive()
      pcall(rl.sleep, 100)
      rl.sleep(3)
      ended = rl.now()
    end) }
    t.equal(result, { nil, "timed out" })
    t.equal(rl.now(), start + 5)
    rl.sleep(10)
    t.equal(ended, start + 8)
  end)
end)
