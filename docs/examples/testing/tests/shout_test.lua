local t = require "runloop.test"

t.describe("shout", function()
  t.it("answers in capitals", function()
    local shout <close> = t.spawn { t.rlhost, "shout.lua" }
    shout:wait_for "ready"
    shout:write "hello\n"
    t.equal(shout:wait_for "\n?> ?(%u+)\n", "HELLO")
    shout:write "bye\n"
    shout:wait_for "see you"
    t.equal(shout:wait(), 0)
    t.equal(shout:errors(), "")
  end)

  t.it("works in a terminal", function()
    local shout <close> = t.spawn { t.rlhost, "shout.lua", terminal = true }
    shout:wait_for "> $"
    shout:write "well\n"
    shout:wait_for "WELL"
    shout:close_input()
    shout:wait_for "see you"
    t.equal(shout:wait(), 0)
  end)

  t.it("ends after bye", function()
    local shout <close> = t.spawn { t.rlhost, "shout.lua" }
    shout:wait_for "ready"
    shout:signal "TERM"
    local status, signal = shout:wait()
    t.equal(status, 143)
    t.equal(signal, "TERM")
  end)
end)
