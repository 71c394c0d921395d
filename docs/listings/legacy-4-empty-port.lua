-- The older document: an empty port keeps a loop from ending.
--
--   rlhost legacy-4-empty-port.lua
--
-- A loop with nothing in it returns at once, whatever date it is given. A thread that waits for requests only has nothing in its loop:
-- perform requests do not count, as long as they are not there. A port to which nobody ever sends holds the place.

local rl = require "runloop"

local function count_to(n) return select("#", table.unpack({}, 1, n)) end

-- Without: the thread is over before anybody can ask it for something.
local hasty = rl.thread { function() return rl.run() end, name = "hasty" }
print("without a port: " .. table.concat({ select(2, hasty:join()) }))
local accepted, reason = pcall(function() hasty:loop():perform(print, "nobody hears that") end)
print(accepted, (reason:gsub("^.-:%d+: ", "")))

-- With: it sleeps, and serves, until the port is taken away or the loop is stopped.
local patient = rl.thread {
  function()
    local port <close> = rl.port { name = "placeholder", modes = "default" }
    return rl.run()                           -- as a thread's loop does by itself when its function has returned
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
