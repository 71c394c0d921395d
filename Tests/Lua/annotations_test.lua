-- The annotations of the modules that reach the machine, and the modules, agree both ways.

local t = require "runloop.test"

local MODULES = { "process", "fs", "arguments", "log", "terminal", "schedule" }

for _, name in ipairs(MODULES) do
  t.it("docs/lua/runloop-" .. name .. ".lua has every function, and no other", function()
    local file <close> = assert(io.open(os.getenv "DOCUMENTS" .. "/runloop-" .. name .. ".lua"))
    local annotated, existing = {}, {}
    for line in file:lines() do
      local found = line:match("^function " .. name .. "%.([%w_]+)%(")
      if found then annotated[found] = true end
    end
    for key, value in pairs(require("runloop." .. name)) do if type(value) == "function" then existing[key] = true end end
    t.equal(annotated, existing)
  end)
end
