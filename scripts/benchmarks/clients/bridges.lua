-- Measures bridges: luv through runloop.luv, and luv alone. Each of the two runs in its own process. See clients.py.

local process, fs = require "runloop.process", require "runloop.fs"
local share = tonumber(arg[1]) or 1
local HERE = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local rlhost = fs.real_path "/proc/self/exe"

local function echo(program, way, connections)
  local best = math.huge
  for _ = 1, 3 do
    local result = assert(process.run { program, HERE .. "/../support/luv_echo.lua", way, connections,
      math.max(1000, 50000 * share // 1) })
    best = math.min(best, (assert(tonumber(result.output), result.errors)))
  end
  return best
end

for _, connections in ipairs { 1, 20 } do
  print(("echo by luv with %d connections\t%.9f\t%.9f\t1.3"):format(connections, echo(rlhost, "bridge", connections),
    echo("lua5.4", "alone", connections)))
end
