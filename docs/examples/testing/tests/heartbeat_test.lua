local rl = require "runloop"
local t = require "runloop.test"
local heartbeat = require "heartbeat"

t.describe("heartbeat", function()
  t.it("is silent while it is heard of", function()
    local heart <close> = heartbeat.watch(30, t.expect(0))
    for _ = 1, 100 do
      rl.sleep(20)
      heart:beat()
    end
  end)

  t.it("reports silence, again and again", function()
    local reports = {}
    local heart <close> = heartbeat.watch(30, function(silence) reports[#reports + 1] = silence end)
    rl.sleep(100)
    t.equal(reports, { 30.0, 60.0, 90.0 })
  end)

  t.it("survives a day", function()
    local reports = 0
    local heart <close> = heartbeat.watch(60, function() reports = reports + 1 end)
    rl.clock:advance(24 * 60 * 60)
    t.equal(reports, 24 * 60)
  end)
end)
