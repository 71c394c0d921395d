---@meta runloop.luv

-- The module `runloop.luv`: a bridge that serves luv's loop on the run loop of this thread. `require` makes it and adds
-- it to the common modes. Callbacks of luv are tasks: they may wait. `uv.run()` in a task waits until luv's loop has
-- ended, or for `uv.stop()`.

---@class runloop.luv.Bridge
local bridge = {}

---Stops serving luv; its handles stay, and a script can call `uv.run()` itself again. A later `require` makes a new
---bridge.
function bridge:invalidate() end

---@return boolean
function bridge:is_valid() end

---@return string
function bridge:name() end

return bridge
