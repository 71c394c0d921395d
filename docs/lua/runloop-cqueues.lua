---@meta runloop.cqueues

-- The module `runloop.cqueues`: a bridge that serves a controller of cqueues on the run loop of this thread. `require`
-- makes it and adds it to the common modes. From then on, `cqueues.sleep`, `cqueues.poll`, and waits for sockets and
-- conditions of cqueues raise an error in a task of the run loop. The error suggests `bridge:call`, which can wait
-- there.

---@class runloop.cqueues.Bridge
local bridge = {}

---Starts a coroutine of cqueues.
---@param fn function
---@param ... any its arguments
function bridge:wrap(fn, ...) end

---Runs a function in a coroutine of cqueues; returns its results, or raises its error. Waits in a task. If the waiting
---task is cancelled, the coroutine goes on.
---@param fn function
---@param ... any its arguments
---@return any ...
function bridge:call(fn, ...) end

---Runs a function in a task of runloop's; returns its results, or raises its error. Waits in a coroutine of cqueues.
---@param fn function
---@param ... any its arguments
---@return any ...
function bridge:await(fn, ...) end

---Stops serving the controller; `cqueues.sleep` and `cqueues.poll` are cqueues' own again. Calls that wait raise
---an error.
function bridge:invalidate() end

---@return boolean
function bridge:is_valid() end

---@return string
function bridge:name() end

return bridge
