local fs = require "runloop.fs"
local t = require "runloop.test"

-- The tools of the cookbook have tests of their own, which a reader can run: `rlhost test` in their directory.
local directory = os.getenv "EXAMPLES" .. "/cookbook"

local tools = {}
for _, entry in ipairs(assert(fs.list(directory))) do tools[#tools + 1] = entry.name:match "^([%w_]+)%.lua$" end

t.it("the cookbook has twelve tools, of 80 lines at most, each with a part of the page", function()
  local page = assert(fs.read(os.getenv "EXAMPLES" .. "/../cookbook.md"))
  t.equal(#tools, 12)
  for _, tool in ipairs(tools) do
    local _, lines = fs.read(directory .. "/" .. tool .. ".lua"):gsub("\n", "")
    t.truthy(lines <= 80, tool .. " has " .. lines .. " lines")
    t.truthy(page:find("\n## " .. tool .. "\n\n[%Z]-%(examples/cookbook/" .. tool .. "%.lua%)"), tool)
  end
end)

t.each(tools, "the tests of %s pass", { real_time = true, timeout = 60 }, function(tool)
  local file = "tests/" .. tool .. "_test.lua"
  local run <close> = t.spawn { t.rlhost, "test", "--timeout", 60, file, directory = directory }
  local status = run:wait { within = 55 }
  t.equal(status, 0, run:output() .. run:errors())
end)
