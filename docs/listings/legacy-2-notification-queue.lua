-- The older document: the notification queue, which posts later, and only once.
--
--   rlhost legacy-2-notification-queue.lua
--
-- "asap" posts after the current work of the loop, "idle" when the loop has nothing left to do, and "now" at once. A
-- queued notification with the same name and sender is replaced: three changes become one notification.

local rl = require "runloop"
local loop = rl.current()
local center = rl.notifications

local function tell(name, info) print(("  %s: %s"):format(name, info)) end
center:observe("saved", tell)
center:observe("changed", tell)

local document, other = { "a document" }, { "another" }
center:observe("closed", function(name, info) print(("  %s, this document: %s"):format(name, info)) end, document)

loop:add(rl.timer {
  delay = 0.01,
  callback = function()
    print "in a timer:"
    center:enqueue("saved", "when there is time", { style = "idle" })
    center:enqueue("changed", "title", { style = "asap" })
    center:enqueue("changed", "text", { style = "asap" })
    center:enqueue("changed", "colour", { style = "asap" })
    center:enqueue("changed", "at once, and nothing else", { style = "now", coalesce = {} })
    center:post("closed", "not ours", other)
    center:post("closed", "ours", document)
    center:enqueue("closed", "withdrawn", { sender = document })
    print("  taken back: " .. center:dequeue("closed", document))
    print "the timer is done"
  end,
})

print("the loop is " .. loop:run {})

--[[ expected:
in a timer:
  changed: at once, and nothing else
  closed, this document: ours
  taken back: 1
the timer is done
  changed: colour
  saved: when there is time
the loop is finished
]]
