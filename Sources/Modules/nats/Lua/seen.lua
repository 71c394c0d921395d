-- runloop.nats.seen: buses in rl.why, loop:inspect and lists of tasks: the waiting calls, and the items that serve
-- buses and subscriptions.

local _, internals = ...

local format, setmetatable, running = string.format, setmetatable, coroutine.running

local WEAK = { __mode = "k" }
-- A table by coroutine: the request or subscription for which it waits.
local waits = setmetatable({}, WEAK)
-- A table by item of a loop: the object that the item serves. The object has `_seen()`, which returns its kind, its
-- name and further information.
local items = setmetatable({}, WEAK)

local seen = { waits = waits, items = items }

--- Ends an entry of `waits`, also if the task is cancelled: its coroutine may serve another task later.
seen.waiting = setmetatable({}, { __close = function() waits[running()] = nil end })

--- Returns the description of a bus: its server, or its status.
function seen.place(bus)
  local link = bus._link
  return link and link.address.text or bus._status
end

-- The modules of databases may have set such functions, too; call those for other waits.
local other_call, other_item = internals.call_of, internals.show_item

--- Returns what a coroutine waits for, as text; nil if it does not wait for a bus.
function internals.call_of(task, seconds)
  local one = waits[task]
  local text = one and one:_awaited()
  if text then return format('%s of nats "%s"', text, seen.place(one.bus or one._bus)) end
  return other_call and other_call(task)
end

--- Returns the kind, the name and further information of the object that an item serves; nil if the item serves no
--- object of a bus. If several subscriptions share an item, `number` selects one of them, and the results also contain
--- the subscription and its site.
function internals.show_item(item, number)
  local one = items[item]
  if one and (number == 1 or one.is_shared) then return one:_seen(number) end
  if other_item and not one then return other_item(item, number) end
end

return seen
