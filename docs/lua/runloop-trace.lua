---@meta runloop.trace

-- The module `runloop.trace` is the table `rl.trace`. Its functions are annotated in runloop.lua.

---@type runloop.Trace
local trace = {}

return trace
