local t = require "runloop.test"
local support = require "tests.support"

t.it("expect_four: has four dialogues at the same time", { real_time = true }, function()
  local program = support.start("expect_four", { virtual_time = false })
  program:wait({ within = 30 })
  local output = program:output()
  t.truthy(output:find "^ssh%-keygen  SHA256:[%w+/]+\n", output)
  t.truthy(output:find("bc          3.1415926535897932384626433832795028841968\n", 1, true), output)
  t.truthy(output:find("python3     36893488147419103232\n", 1, true), output)
  t.truthy(output:find "gdb         _start\n$", output)
  t.equal(program:errors(), "")
end)

t.it("expect_four: says which dialogue has failed, and where", { real_time = true }, function()
  local program = support.start("expect_four", { virtual_time = false, env = { PATH = "/nowhere" } })
  program:wait({ within = 30 })
  t.truthy(program:output():find "bc +%S+expect_four.lua:%d+: ENOENT: no such program: bc\n", program:output())
end)
