-- runloop.hearing: what waits of the modules written in Lua hear. As every wait, they are over in the mode that runs when they begin, too,
-- whatever modes their object is in.

local rl = require "runloop"
local setmetatable, pcall = setmetatable, pcall

-- How many waits need an object in a mode that is none of its own: by object, by mode.
local borrowed = setmetatable({}, { __mode = "k" })

-- Has an object heard in the mode that runs, until what is returned is closed; nil where it is heard anyway, or will never be.
return function(object)
  local loop = rl.current()
  local mode, modes = loop:mode(), borrowed[object] or {}
  if not mode or not modes[mode] and loop:contains(object, mode) then return nil end
  if not pcall(loop.add, loop, object, mode) then return nil end
  borrowed[object] = modes
  modes[mode] = (modes[mode] or 0) + 1
  return setmetatable({}, { __close = function()
    modes[mode] = modes[mode] > 1 and modes[mode] - 1 or nil
    -- By now it may be closed.
    if not modes[mode] then pcall(loop.remove, loop, object, mode) end
  end })
end
