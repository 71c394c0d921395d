-- The notification queue: order, merging, modes, and misuse.
local rl = require "runloop"

-- Prints the outcome of a call: its results, or its error without the position.
local function try(what, fn, ...)
  local results = table.pack(pcall(fn, ...))
  for i = 2, results.n do results[i] = tostring(results[i]):gsub("^[^%s:]*%.lua:%d+: ", "") end
  print(what .. ":", results[1] and "" or "raises", table.concat(results, " | ", 2))
end

local center = rl.notifications
local log = {}
local function tell(name, info) log[#log + 1] = name .. tostring(info) end
local function told() local text = table.concat(log, " ") log = {} return text end
local function settle() rl.sleep(0.02) return told() end
for name in ("a b c"):gmatch "%a" do center:observe(name, tell) end

try("without self", center.post, nil, "a")
try("no name", center.enqueue, center)
try("no function", center.observe, center, "a", 5)
try("options", center.enqueue, center, "a", nil, 5)
try("an unknown field", center.enqueue, center, "a", nil, { styl = "asap" })
try("style", center.enqueue, center, "a", nil, { style = "later" })
try("modes", center.enqueue, center, "a", nil, { modes = 5 })
try("modes that are none", center.enqueue, center, "a", nil, { modes = { 5 }, style = "now" })
try("coalesce", center.enqueue, center, "a", nil, { coalesce = "name" })
try("coalesce by what", center.enqueue, center, "a", nil, { coalesce = { "nam" } })
try("coalesce with keys", center.enqueue, center, "a", nil, { coalesce = { name = true } })
try("nobody as sender", center.enqueue, center, "a", nil, { sender = 0 / 0 })
try("dequeue nothing", center.dequeue, center)
print("nothing of that was queued:", center:dequeue "a", settle())

center:enqueue("a", 1, { style = "idle" })
center:enqueue("b", 2)
center:enqueue("c", 3, { style = "idle" })
center:enqueue("a", 4, { coalesce = {} })
print("as soon as possible, then idle:", settle())
center:enqueue("a", 1, { sender = "s" })
center:enqueue("b", 2, { sender = "s", coalesce = { "sender" } })
center:enqueue("c", 3, { sender = "t" })
print("merged by sender:", settle())
center:enqueue("a", 1, { sender = "s" })
center:enqueue("a", 2, { sender = "t" })
center:enqueue("a", 3, { coalesce = { "name" } })
print("merged by name:", settle())
center:enqueue("a", 1)
center:enqueue("a", 2, { style = "idle" })
center:enqueue("a", 3, { coalesce = {} })
print("merged across styles:", settle())
center:enqueue("a", 1)
center:enqueue("a", 2, { style = "now" })
print("now takes the queued one along:", told(), settle())
center:enqueue("a", 1, { sender = "s" })
center:enqueue("a", 2, { sender = "t" })
center:enqueue("b", 3, { sender = "s", coalesce = {} })
print("dequeued:", center:dequeue("a", "t"), center:dequeue(nil, "s"), center:dequeue "a", settle())
center:enqueue("a", 1, { modes = {} })
print("in no mode:", center:dequeue "a")

center:enqueue("a", 1, { modes = "m", style = "idle" })
center:enqueue("b", 2, { modes = "m" })
print("they wait for their mode:", settle())
rl.run { mode = "m", timeout = 0.01 }
print("there:", told())
center:enqueue("a", 1, { modes = { "m", "default" }, style = "idle" })
print("in one of two, once:", settle(), rl.run { mode = "m", timeout = 0 })

local n = 0
local again = center:observe("again", function()
  n = n + 1
  log[#log + 1] = n
  if n < 3 then center:enqueue("again", nil, { style = n == 1 and "asap" or "idle" }) end
end)
center:enqueue "again"
print("queued by an observer:", settle())
again:invalidate()

local works = 0
local function work()
  works = works + 1
  log[#log + 1] = "work" .. works
  if works < 3 then rl.perform(work) end
end
center:enqueue("a", "idle", { style = "idle" })
rl.perform(work)
print("idle behind requests that are queued:", settle())
center:enqueue("a", "idle", { style = "idle" })
local function again()
  works = works + 1
  log[#log + 1] = "work" .. works
  if works < 6 then rl.after(0, again) end
end
rl.after(0, again)
print("idle behind timers that are overdue:", settle())

local first = center:observe("e", function() log[#log + 1] = "first" error("the first fails", 0) end)
local second
local third
second = center:observe("e", function() log[#log + 1] = "second" third:invalidate() center:observe("e", tell) end)
third = center:observe("e", tell)
try("an observer fails", center.post, center, "e")
print("the others are called:", told())
first:invalidate()
center:post("e", "!")
print("without the first:", told())
do local closed <close> = center:observe("f", tell) end
center:post "f"
print("after its end:", told())

for i = 1, 20000 do center:enqueue("a", i, { coalesce = {} }) end
rl.sleep(0.01)
print("20000:", #log, log[1], log[20000])
log = {}
print("on a thread of its own:", rl.thread(function()
  local center, got = rl.notifications, {}
  center:observe("a", function(_, info) got[#got + 1] = info end)
  center:enqueue("a", "asap")
  center:enqueue("a", "idle", { style = "idle", coalesce = {} })
  for _ = 1, 500 do if #got == 2 then break end rl.sleep(0.01) end
  return table.concat(got, " ")
end):join())
print("and not here:", told())

--[[ expected:
without self:	raises	notifications:post: call it with a colon, as rl.notifications:post
no name:	raises	notifications:enqueue: argument #1 must be the name of a notification, got nothing
no function:	raises	notifications:observe: argument #2 must be a function, got 5
options:	raises	notifications:enqueue: argument #3 must be an options table, got 5
an unknown field:	raises	notifications:enqueue: unknown field 'styl' (did you mean 'style'?)
style:	raises	notifications:enqueue: field 'style' must be "now", "asap" or "idle", got "later"
modes:	raises	notifications:enqueue: field 'modes' must be the name of a mode, or an array of them, got 5
modes that are none:	raises	notifications:enqueue: field 'modes' must be the name of a mode, or an array of them, got a table
coalesce:	raises	notifications:enqueue: field 'coalesce' must be an array of "name" and "sender", got "name"
coalesce by what:	raises	notifications:enqueue: field 'coalesce' holds "name" and "sender" only, got nam
coalesce with keys:	raises	notifications:enqueue: field 'coalesce' must be an array, as in { "name" }, got a key name
nobody as sender:	raises	notifications:enqueue: field 'sender' must not be NaN
dequeue nothing:	raises	notifications:dequeue: give the name of a notification, or a sender, or both
nothing of that was queued:	0
as soon as possible, then idle:	b2 a4 a1 c3
merged by sender:	b2 c3
merged by name:	a3
merged across styles:	a3 a2
now takes the queued one along:	a2
dequeued:	1	2	0
in no mode:	0
they wait for their mode:
there:	b2 a1
in one of two, once:	a1	finished
queued by an observer:	1 2 3
idle behind requests that are queued:	work1 work2 work3 aidle
idle behind timers that are overdue:	work4 work5 work6 aidle
an observer fails:	raises	the first fails
the others are called:	first second
without the first:	second e!
after its end:
20000:	20000	a1	a20000
on a thread of its own:	true	asap idle
and not here:
]]
