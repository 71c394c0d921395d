local t = require "runloop.test"
local support = require "tests.support"

t.it("top: lists programs by their work or memory", { real_time = true }, function()
  local busy <close> = t.spawn { "sh", "-c", "while :; do :; done" }
  local top = support.start("top", { "0.2", virtual_time = false, terminal = { rows = 12, columns = 60 } })
  t.eventually(function() return top:screen():find "[1-9]%d*%.%d %% +%d+%.%d MB  sh$" end)
  t.equal(top:screen()[2], "  number     busy      memory  name")
  t.equal(#top:screen(), 12)

  top:write "m"
  t.eventually(function() -- in the order of memory
    local sizes = {}
    for _, row in ipairs(top:screen()) do sizes[#sizes + 1] = tonumber(row:match "(%d+%.%d) MB") end
    for i = 2, #sizes do if sizes[i] > sizes[i - 1] then return false end end
    return #sizes > 3
  end)
  top:write " "
  t.eventually(function() return top:screen()[1]:find "stopped$" end)
  top:resize(8, 40)
  t.eventually(function() return top:screen()[8]:find "^c: most busy" end)
  top:write "q"
  t.equal(top:wait(), 0)
end)
