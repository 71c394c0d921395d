-- The older document, "Run Loops": delayed actions, performed by order at the start of the next pass.
--
--   rlhost legacy-1-delayed-actions.lua
--
-- A view that has to be drawn again requests the drawing with a high order, and only once, however often it changes. So
-- everything else of the same pass comes first, and the drawing shows its result.

local rl = require "runloop"
local loop = rl.current()

local draws = 0
local function draw(what) draws = draws + 1 print("draw " .. what) end

-- Each change cancels the queued request and makes a new one: one drawing for all changes.
local pending
local function touch(what)
  if pending then pending:cancel() end
  pending = loop:perform { draw, what, order = 100, modes = "default" }
end

touch "an empty window"
loop:perform { print, "order 2", order = 2 }
loop:perform { print, "order 1, queued first", order = 1 }
loop:perform { print, "order 1, queued second", order = 1 }
loop:perform { function() print "order 0 changes the window" touch "the window, changed" end, modes = "default" }
touch "a window with a title"

-- With a delay it is a timer. Function and arguments identify the requests to cancel.
loop:perform { draw, "in vain", after = 0.01 }
loop:perform { draw, "later", after = 0.01 }
print("cancelled: " .. rl.cancel_performs(draw, "in vain"))

-- A request waits for its mode, as all items do.
loop:perform { print, "in modal mode only", modes = rl.modes.modal }

print "the loop starts"
loop:run {}
print("drawings: " .. draws)
loop:add(rl.timer { delay = 0, callback = function() end }, rl.modes.modal)
loop:run { mode = rl.modes.modal }

--[[ expected:
cancelled: 1
the loop starts
order 0 changes the window
order 1, queued first
order 1, queued second
order 2
draw the window, changed
draw later
drawings: 2
in modal mode only
]]
