---@meta runloop.trace

-- The module `runloop.trace` is the table that scripts have as `rl.trace`. Its functions are annotated in runloop.lua.

---@type runloop.Trace
local trace = {}

return trace
