-- Methods whose functions call Lua: the object that such a method has been called on stays the same.

local t = require "runloop.test"
local rl = require "runloop"

t.it("a source ends well if its `cancel` calls other methods, also on a wrong value", function()
  local calls = {
    function(source) return source:name() end, function(source) pcall(source.is_valid, 5) end,
    function() return rl.current():mode() end, function() pcall(rl.timer, 5) end, function() return rl.channel() end,
    function() rl.source { perform = function() end, "kept", "too" }:invalidate() end,
  }
  for number, call in ipairs(calls) do
    local seen
    local source = rl.source { name = "source", modes = "default", perform = function() end, cancel = function(source)
      seen = source:name()
      pcall(call, source)
    end }
    source:invalidate()
    t.equal({ seen, source:is_valid(), source:name() }, { "source", false, "source" }, number)
  end
end)
