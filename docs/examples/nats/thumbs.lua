-- Work on other machines. `rlhost thumbs.lua work`, in any number of terminals, is a worker; `rlhost thumbs.lua make
-- 10` has them make 10 pictures smaller. `rlhost thumbs.lua keep 10` stores the jobs first, so a worker or the server
-- may be killed in the middle of one. The last argument is the server's address.

local rl, nats = require "runloop", require "runloop.nats"

local command = arg[1]
local address = arg[command == "work" and 2 or 3] or "nats://localhost:4222"
local bus = assert(nats.connect(address, { retry = true, expose = { "stats" } }))

local function resize(path, width)
  print("begin", path)
  if width < 1 then error(path .. ": the width must be 1 or more", 0) end
  rl.sleep(0.5)                                 -- the work
  print("done", path)
  return path:gsub("%.png$", "-" .. width .. ".png")
end

if command == "work" then
  assert(rl.worker { via = bus, name = "thumbs", functions = { resize = resize }, concurrency = 4 })
  print "ready"
elseif command == "make" or command == "keep" then
  local paths = {}
  for i = 1, math.tointeger(arg[2]) or 10 do paths[i] = "picture-" .. i .. ".png" end
  local pool <close> = assert(rl.pool { via = bus, name = "thumbs", durable = command == "keep" })
  for _, path in ipairs(pool:map(paths, "resize", 200)) do print(path) end
else
  error("usage: rlhost thumbs.lua work [ADDRESS] | make|keep [COUNT [ADDRESS]]", 0)
end
