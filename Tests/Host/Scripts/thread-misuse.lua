-- Wrong arguments, wrong threads: each gets an error that names the function, and nothing else happens.
local rl = require "runloop"

-- Prints the outcome of a call: its results, or its error without the position.
local function try(what, fn, ...)
  local results = table.pack(pcall(fn, ...))
  for i = 2, results.n do results[i] = tostring(results[i]):gsub("^[^%s:]*%.lua:%d+: ", "") end
  print(what .. ":", results[1] and "" or "raises", table.concat(results, " | ", 2))
end

try("nothing", rl.thread)
try("a number", rl.thread, 5)
try("an empty table", rl.thread, {})
try("an unknown field", rl.thread, { print, nam = "x" })
try("a name that is none", rl.thread, { print, name = 5 })

local quick = rl.thread(function() return 1 end)
try("join, negative", quick.join, quick, -1)
try("join, NaN", quick.join, quick, 0 / 0)
try("join, text", quick.join, quick, "soon")
try("join, no self", quick.join)
try("join, infinity", quick.join, quick, math.huge)
try("join, again", quick.join, quick)
try("join, zero, of one that has ended", quick.join, quick, 0)
try("cancel one that has ended", function() quick:cancel() quick:cancel() return quick:is_alive() end)
try("the main thread is none", rl.this_thread)
try("its own end", function()
  return rl.thread(function() return require "runloop".this_thread():join() end):join()
end)
try("inside a coroutine", function()
  local slow = rl.thread(function() require "runloop".sleep(0.01) end)
  local co = coroutine.create(function() return slow:join() end)
  local done, message = coroutine.resume(co)
  slow:join()
  error(message, 0)
end)

-- Objects that belong to another thread.
local function elsewhere(fn, ...) return select(2, rl.thread(fn, ...):join()) end
local source, port = rl.source { perform = print, name = "s" }, rl.port { name = "p" }
try("run its loop", elsewhere, function() return rl.main():run() end)
try("add to its loop", elsewhere, function() return rl.main():add(rl.port {}) end)
try("add its source", elsewhere, function() return rl.current():add(source) end)
try("invalidate its source", elsewhere, function() return source:invalidate() end)
try("take its source's commands", elsewhere, function() return (source:commands()) end)
try("add its port", elsewhere, function() return rl.current():add(port) end)
try("invalidate its port", elsewhere, function() return port:invalidate() end)
try("what may be asked", elsewhere, function()
  return table.concat({ tostring(port), port:name(), tostring(port:is_valid()), port:capacity(), port:count(),
    tostring(source) }, ", ")
end)

-- Requests.
local server = rl.thread { function() rl.current():add(rl.port {}) return rl.run() end, name = "server" }
local loop = server:loop()
try("perform nothing", loop.perform, loop)
try("perform an empty table", loop.perform, loop, {})
try("perform, an unknown field", loop.perform, loop, { print, wiat = true })
try("perform, wait", loop.perform, loop, { print, wait = 1 })
try("perform, modes", loop.perform, loop, { print, modes = 7 })
try("perform, modes that are none", loop.perform, loop, { print, modes = { 1 } })
try("perform, order", loop.perform, loop, { print, order = 1.5 })
try("perform, after", loop.perform, loop, { print, after = -1 })
try("perform, after NaN", loop.perform, loop, { print, after = 0 / 0 })
try("perform, wait and after", loop.perform, loop, { print, wait = true, after = 1 })
try("perform in no mode", loop.perform, loop, { function() return 5 end, modes = {}, wait = true })
loop:perform(function() rl.stop() end)
try("the server", server.join, server)
try("perform on a loop that is gone", loop.perform, loop, print)
try("the same, and wait", loop.perform, loop, { print, wait = true })
try("stop and wake it", function() loop:stop() loop:wake_up() return loop:is_waiting(), tostring(loop) end)

--[[ expected:
nothing:	raises	rl.thread: argument #1 must be a function, got nothing
a number:	raises	rl.thread: argument #1 must be a function, got 5
an empty table:	raises	rl.thread: the first element must be a function, got nothing
an unknown field:	raises	rl.thread: unknown field 'nam' (did you mean 'name'?)
a name that is none:	raises	rl.thread: field 'name' must be a string, got 5
join, negative:	raises	thread:join: argument #1 must be a number of seconds, 0 or more, got -1
join, NaN:	raises	thread:join: argument #1 must be a number of seconds, 0 or more, got nan
join, text:	raises	thread:join: argument #1 must be a number of seconds, 0 or more, got "soon"
join, no self:	raises	thread:join: a thread is expected as self, got nothing; call it with a colon
join, infinity:		true | 1
join, again:		true | 1
join, zero, of one that has ended:		true | 1
cancel one that has ended:		false
the main thread is none:		nil
its own end:		false | thread:join: a thread cannot wait for its own end
inside a coroutine:	raises	thread:join: cannot wait inside a coroutine of the script's own: wait in the task that resumes it, or use rl.task
run its loop:		loop:run: this loop belongs to another thread; here only perform, stop, wake_up and is_waiting work
add to its loop:		loop:add: this loop belongs to another thread; here only perform, stop, wake_up and is_waiting work
add its source:		loop:add: this source belongs to another thread, and so do its callbacks; add it there
invalidate its source:		source:invalidate: only the thread that made it can do that
take its source's commands:		source:commands: this source belongs to another thread
add its port:		loop:add: this port belongs to another thread, and so do its callbacks; add it there
invalidate its port:		port:invalidate: only the thread that made it can do that
what may be asked:		port "p" (of another thread), p, true, 1024, 0, source "s" (of another thread)
perform nothing:	raises	loop:perform: argument #1 must be a function, got nothing
perform an empty table:	raises	loop:perform: the first element must be a function, got nothing
perform, an unknown field:	raises	loop:perform: unknown field 'wiat' (did you mean 'wait'?)
perform, wait:	raises	loop:perform: field 'wait' must be a boolean, got 1
perform, modes:	raises	loop:perform: field 'modes' must be the name of a mode, or an array of them, got 7
perform, modes that are none:	raises	loop:perform: field 'modes' must be the name of a mode, or an array of them, got a table
perform, order:	raises	loop:perform: field 'order' must be an integer, got 1.5
perform, after:	raises	loop:perform: field 'after' must be a number of seconds, 0 or more, got -1
perform, after NaN:	raises	loop:perform: field 'after' must be a number of seconds, 0 or more, got nan
perform, wait and after:	raises	loop:perform: 'wait' and 'after' exclude each other
perform in no mode:
the server:		true | stopped
perform on a loop that is gone:	raises	loop:perform: the thread of this loop has ended
the same, and wait:	raises	loop:perform: the thread of this loop has ended
stop and wake it:		false | loop "thread" (gone)
]]
