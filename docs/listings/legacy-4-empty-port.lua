-- The older document: an empty port keeps a loop from ending.
--
--   rlhost legacy-4-empty-port.lua
--
-- A loop with nothing in it returns at once, whatever its date. A thread that only waits for requests has nothing in
-- its loop, since a request counts only while it is queued. A port to which nobody ever sends keeps such a loop
-- running.

local rl = require "runloop"

local function count_to(n) return select("#", table.unpack({}, 1, n)) end

-- Without it, the thread has ended before anybody can send it a request.
local hasty = rl.thread { function() return rl.run() end, name = "hasty" }
print("without a port: " .. table.concat({ select(2, hasty:join()) }))
local accepted, reason = pcall(function() hasty:loop():perform(print, "nobody hears that") end)
print(accepted, (reason:gsub("^.-:%d+: ", "")))

-- With it, the thread sleeps and serves requests until the port is removed or the loop is stopped.
local patient = rl.thread {
  function()
    local port <close> = rl.port { name = "placeholder", modes = "default" }
    return rl.run()                           -- a thread's loop runs after its function anyway
  end,
  name = "patient",
}
local loop = patient:loop()
for n = 1, 3 do print("it answers", loop:perform { count_to, n, wait = true }) end
loop:perform(function() rl.stop() end)
print("with a port: " .. select(2, assert(patient:join())))

--[[ expected:
without a port: finished
false	loop:perform: the thread of this loop has ended
it answers	1
it answers	2
it answers	3
with a port: stopped
]]
