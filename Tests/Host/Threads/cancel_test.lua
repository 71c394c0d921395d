-- thread:cancel ends code of each kind. Lua calls no hook in these kinds of code, so the first call may have no effect.

local rl = require "runloop"
local t = require "runloop.test"

t.each({
  { "a finalizer", function()
    setmetatable({}, { __gc = function() while true do end end })
    collectgarbage()
  end },
  { "the closing of a variable", function()
    local _ <close> = setmetatable({}, { __close = function() while true do end end })
    while true do end
  end },
  { "a hook", function()
    debug.sethook(function() while true do end end, "", 1)
    while true do end
  end },
  { "a message handler", function() xpcall(function() while true do end end, function() while true do end end) end },
}, "a thread that never leaves %s ends when it is cancelled again", { real_time = true, timeout = 60 }, function(_, fn)
  local thread = rl.thread { fn, keeps_alive = false }
  rl.sleep(0.1)
  for _ = 1, 50 do
    thread:cancel()
    -- After this time, `join` returns nil. Lua drops an error in a finalizer, and xpcall catches an error in its
    -- handler.
    if thread:join(0.3) ~= nil then break end
  end
  t.falsy(thread:is_alive())
end)
