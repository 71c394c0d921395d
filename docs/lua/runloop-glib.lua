---@meta runloop.glib

-- The module `runloop.glib`: a bridge that serves GLib's default main context on the run loop of this thread. `require`
-- makes it and adds it to the common modes. GLib calls its callbacks from C, so they cannot wait; they may start tasks.
-- Only one thread can serve that context.

---@class runloop.glib.Bridge
local bridge = {}

---Sets whether the loop keeps running for GLib. Initially the loop keeps running while a source is attached, not
---counting GLib's own sources. A window keeps such a source until the end of the program; a GIO operation on another
---thread has none while it runs.
---@param on? boolean nil: the initial setting
function bridge:set_keeps_alive(on) end

---Stops serving GLib; its sources stay, and `g_main_loop_run()` works again. A later `require` makes a new bridge.
function bridge:invalidate() end

---@return boolean
function bridge:is_valid() end

---@return string
function bridge:name() end

return bridge
