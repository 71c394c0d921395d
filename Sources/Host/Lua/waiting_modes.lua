-- runloop.waiting_modes: the modes in which waits of modules written in Lua can end. Like any wait, such a wait can
-- also end in the mode that runs when it begins, even if the object that it waits for is not in that mode.

local rl = require "runloop"
local setmetatable, pcall = setmetatable, pcall

-- borrowed[object][mode]: the number of waits for which this part has added the object to the mode.
local borrowed = setmetatable({}, { __mode = "k" })

-- Adds an object to the mode that runs, until the returned value is closed. Returns nil if the object is in the mode
-- already, or cannot be in any.
return function(object)
  local loop = rl.current()
  local mode, modes = loop:mode(), borrowed[object] or {}
  if not mode or not modes[mode] and loop:contains(object, mode) then return nil end
  if not pcall(loop.add, loop, object, mode) then return nil end
  borrowed[object] = modes
  modes[mode] = (modes[mode] or 0) + 1
  return setmetatable({}, { __close = function()
    modes[mode] = modes[mode] > 1 and modes[mode] - 1 or nil
    -- pcall, since the object may be closed by now.
    if not modes[mode] then pcall(loop.remove, loop, object, mode) end
  end })
end
