---@meta runloop

-- Every call of the module `runloop`, for readers and for Lua editors.
--
-- Times are seconds, as numbers, everywhere. A *date* is a point on the clock of `rl.now()`. Objects made by `rl.timer{}`,
-- `rl.source{}`, `rl.fd_port{}`, `rl.observer{}`, `rl.port{}` and `rl.message_port{}` do nothing until `loop:add(object)`;
-- the one-line forms (`rl.after`, `rl.every`, `rl.on_readable`, `rl.on_writable`, `rl.observe`, `rl.perform`) make the object
-- and add it to the common modes of the current loop.
--
-- Misuse raises an error that starts with the function's name. What the world refuses returns nil, a message and a code:
-- `nil, "EBADF: bad file descriptor", "EBADF"`, ready for `assert`.

---@class runloop
local rl = {}

---The names of the predefined modes. A mode is a string; others can be made up at will.
---@class runloop.modes
---@field default "default" what `loop:run()` runs in
---@field common "common" not a mode, but all common ones: for adding, not for running
---@field event_tracking "event_tracking" while the user drags something
---@field modal "modal" while a dialogue is open
---@field connection_reply "connection_reply" while an answer is waited for
rl.modes = {}

---One mode, or several.
---@alias runloop.Modes string|string[]

---What a loop can hold.
---@alias runloop.Item runloop.Timer|runloop.Source|runloop.FDPort|runloop.Observer|runloop.Port|runloop.MessagePort

---How a run ended.
---@alias runloop.Result
---| "finished" # nothing was left in the mode
---| "stopped" # `loop:stop()`
---| "timed_out" # the timeout was over
---| "handled_source" # `return_after_source`, and a source or port was handled

-- Time ---------------------------------------------------------------------------------------------------------------

---The monotonic clock: seconds since some moment in the past. It does not jump when the wall clock is set.
---@return number date
function rl.now() end

---The wall clock: seconds since 1970.
---@return number seconds
function rl.time() end

---The date that corresponds to a moment of the wall clock, as things stand now.
---
---```lua
---local midnight = os.time { year = 2040, month = 1, day = 1, hour = 0 }
---assert(rl.date(midnight) > rl.now())
---```
---@param unix_seconds number
---@return number date
function rl.date(unix_seconds) end

-- Loops --------------------------------------------------------------------------------------------------------------

---A run loop. Each thread has one. On other threads than its own it takes `perform`, `stop`, `wake_up` and `is_waiting`.
---@class runloop.Loop
local Loop = {}

---The loop of this thread.
---@return runloop.Loop loop
function rl.current() end

---The loop of the main thread.
---@return runloop.Loop loop
function rl.main() end

---The same as `rl.current():run(…)`.
---@param options? runloop.RunOptions
---@return runloop.Result result
function rl.run(options) end

---The same as `rl.current():stop()`.
---
---Before the loop runs, in the main chunk, in a task that it has started or in another thread, it stops the run that would begin by itself
---behind the main chunk: the program ends with status 0, without observers and functions of `rl.on_shutdown`. Behind a thread's function
---it does the same. An explicit `rl.run()` forgets a stop that has come before it, as in CoreFoundation.
---
---A program whose main chunk waits when its loop is stopped ends with status 13, and says where,
---threads or not; one whose main chunk has ended waits for its threads, and its loop serves them meanwhile. `rl.shutdown` ends it as it
---should.
function rl.stop() end

---@class runloop.RunOptions
---@field mode? string `"default"` if absent; `"common"` raises
---@field timeout? number seconds; absent: no limit; 0 or less: one pass that does not wait
---@field return_after_source? boolean return as soon as a source or port was handled (timers do not count)

---Runs the loop until it is stopped, its time is over, or nothing is left in the mode. With nothing in the mode it returns
---"finished" at once. Runs nest: a callback may run the loop again, in this mode or another.
---
---```lua
---rl.after(0.01, function() rl.stop() end)
---rl.after(60, print)
---assert(rl.run() == "stopped")
---assert(rl.run { timeout = 0.01 } == "timed_out")
---assert(rl.run { mode = "a mode that holds nothing" } == "finished")
---rl.stop()
---os.exit()
---```
---@param options? runloop.RunOptions
---@return runloop.Result result
function Loop:run(options) end

---Runs the loop once, until a source or port was handled, or the date. `runMode:beforeDate:`
---@param mode string
---@param before number a date
---@return boolean ran false if there is nothing in the mode
function Loop:run_mode(mode, before) end

---Runs the loop in the default mode until a date, or until nothing is left. `runUntilDate:`
---@param date number
function Loop:run_until(date) end

---Ends the innermost run when its pass is over. While the loop does not run, see `rl.stop`.
function Loop:stop() end

---Makes the loop's coming wait return at once.
function Loop:wake_up() end

---Whether the loop is asleep, waiting for something to happen.
---@return boolean
function Loop:is_waiting() end

---The mode of the innermost run; nil when the loop does not run.
---@return string? mode
function Loop:mode() end

---The names of the modes that hold something or run, and of those that have come into being since the loop's last pass.
---The default mode is always among them, as are common modes in which something has been.
---@return string[] names
function Loop:modes() end

---Makes a mode common: what was and what will be added to `"common"` is then in this mode, too.
---@param name string
function Loop:add_common_mode(name) end

---Which order of events observers see: that of Apple's documentation, or exactly that of CoreFoundation.
---@return "documented"|"core_foundation" sequence
function Loop:sequence() end

---@param sequence "documented"|"core_foundation"
function Loop:set_sequence(sequence) end

---When the next timer of a mode is due; nil without timers.
---@param mode? string `"default"` if absent
---@return number? date
function Loop:next_fire_date(mode) end

---Puts an object into one or more modes. The loop then owns it: it stays alive and at work even if the script forgets it.
---Adding what is there already does nothing.
---
---```lua
---local timer = rl.timer { interval = 0.01, callback = function(timer) timer:invalidate() end }
---rl.current():add(timer, { "default", "modal" })
---assert(rl.current():contains(timer, "modal"))
---rl.current():remove(timer, "modal")
---assert(not rl.current():contains(timer, "modal"))
---```
---@param object runloop.Item
---@param mode? runloop.Modes `"default"` if absent; `"common"`: all common modes
function Loop:add(object, mode) end

---Takes an object out of one or more modes; it stays valid and can be added again.
---@param object runloop.Item
---@param mode? runloop.Modes `"default"` if absent
function Loop:remove(object, mode) end

---Whether an object is in a mode; with several modes, whether it is in all of them.
---@param object runloop.Item
---@param mode? runloop.Modes `"default"` if absent
---@return boolean
function Loop:contains(object, mode) end

---Has a function called by the loop, on the loop's thread: in the next pass in one of the modes, after what was queued before.
---Wakes the loop. A table instead of the function takes options; its positional part is the function and its arguments.
---
---```lua
---rl.current():perform(print, "one")
---rl.current():perform { print, "three", after = 0.02 }
---rl.current():perform { print, "two", modes = { "default", "modal" }, order = 5 }
---```
---```text
---one
---two
---three
---```
---@param fn function|runloop.PerformOptions
---@param ... any arguments for `fn`
---@return runloop.Request|any request with `wait`: what the function returned
function Loop:perform(fn, ...) end

---@class runloop.PerformOptions
---@field [1] function the function; its arguments follow
---@field modes? runloop.Modes `"common"` if absent
---@field wait? boolean wait until it is done and return its results, or raise its error; on the own thread it runs at once
---@field after? number seconds to wait first; excludes `wait`
---@field order? integer lower ones first, among those that run in the same pass; 0 if absent

---What the loop holds, as plain tables.
---@return runloop.Inspection inspection
function Loop:inspect() end

---@class runloop.Inspection
---@field running? string the current mode
---@field requests integer queued perform requests
---@field common_modes string[]
---@field modes table<string, runloop.InspectedItem[]>

---@class runloop.InspectedItem
---@field kind string "timer", "source", "fd_port", "observer", "port", "task" or "request"
---@field name string
---@field order integer
---@field made_at? string where it was made: `"app.lua:12"`
---@field next? number the date of the next fire
---@field interval? number seconds between fires
---@field detail? string what else there is to say

---What the loop has done so far.
---@return runloop.Statistics statistics
function Loop:stats() end

---@class runloop.Statistics
---@field passes integer
---@field sleeps integer
---@field seconds_asleep number
---@field longest_callback number seconds, to about a hundredth
---@field callbacks { timer: integer, source: integer, port: integer, observer: integer, request: integer }

---Raises: a loop lives as long as its thread.
function Loop:invalidate() end

---Whether the loop's thread is alive.
---@return boolean
function Loop:is_valid() end

---`"main"` for the main thread's loop.
---@return string
function Loop:name() end

-- Timers -------------------------------------------------------------------------------------------------------------

---@class runloop.Timer
local Timer = {}

---@class runloop.TimerOptions
---@field callback fun(timer: runloop.Timer, missed: integer) `missed`: how many whole intervals were skipped before this fire
---@field delay? number seconds until the first fire; absent: `interval`
---@field fire_date? number the date of the first fire, instead of `delay`
---@field interval? number seconds between fires; absent or 0: it fires once
---@field tolerance? number seconds by which a fire may be late, so that several timers share one wake-up
---@field order? integer lower ones first, among timers due at the same moment; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes added to these modes of the current loop at once; absent: `loop:add` does it
---@field keeps_alive? boolean false: the loop serves it, and does not stay for it; true if absent

---Makes a timer. It stays on its grid: a late fire does not move the following ones, and fires that were missed are counted,
---not made up for. It never fires early.
---
---```lua
---local timer = rl.timer {
---  interval = 0.02,
---  name = "poll",
---  callback = function(timer, missed)
---    print(timer:name(), missed > 0)
---    timer:invalidate()
---  end,
---}
---rl.current():add(timer)
---local done = rl.now() + 0.05            -- the loop does not get to run before this
---repeat until rl.now() >= done
---```
---```text
---poll	true
---```
---@param options runloop.TimerOptions
---@return runloop.Timer timer
function rl.timer(options) end

---Calls a function once, after some seconds; never earlier. Its tolerance is a tenth of that, at most 1 ms: timers that are
---due close together share a wake-up, one that is alone is on time. `set_tolerance(0)`, or `rl.timer`, for none. As every callback,
---`fn` gets its object first: `rl.after(1, os.exit)` would be `os.exit(timer)`; write `function() os.exit() end`.
---@param seconds number
---@param fn fun(timer: runloop.Timer, ...: any)
---@param ... any further arguments for `fn`
---@return runloop.Timer timer
function rl.after(seconds, fn, ...) end

---Calls a function again and again, every so many seconds. Without further arguments it gets `missed` after the timer.
---Its tolerance is a tenth of that, at most 0.25 ms.
---@param seconds number
---@param fn fun(timer: runloop.Timer, ...: any)
---@param ... any further arguments for `fn`
---@return runloop.Timer timer
function rl.every(seconds, fn, ...) end

---@class runloop.AtOptions
---@field name? string
---@field modes? string|string[] else the common modes; `{}` for none as yet
---@field keeps_alive? boolean false: the loop fires it, and does not stay for it
---@field order? integer
---@field tolerance? number seconds that it may be late, so that the loop sleeps less often
---@field when_set? boolean it is also called, instead, as soon as somebody has set the wall clock: for what has to be planned anew then

---Calls a function once, at a moment of the wall clock: right after the clock is set, after the machine has slept, and in virtual time.
---A moment that is past comes at once. The timer is one like all others; `set_fire_date` has it stand for the moment that the date is
---then. For what comes again and again there is `runloop.schedule`.
---
---```lua
---local midnight = rl.at({ year = 2031, month = 1, day = 1, hour = 0 }, function() print "a new year" end)
---print(midnight:is_valid(), midnight:repeats())
---midnight:invalidate()
---```
---```text
---true	false
---```
---@param time number|table seconds since 1970, as `rl.time()` and `os.time()` give them, or a table of the local time as `os.time` takes it
---@param fn fun(timer: runloop.Timer)
---@param options? runloop.AtOptions
---@return runloop.Timer? timer nil when the system has no descriptor left to hear of the clock by
---@return string? message
---@return string? code
function rl.at(time, fn, options) end

---What one can do with the calls of a debounced or throttled function.
---@class runloop.Calls
local Calls = {}

---Whether a call has still to be made.
---@return boolean
function Calls:is_pending() end

---Makes the call that is pending at once.
---@return boolean made false if none is, or the function runs
function Calls:flush() end

---Drops the call that is pending; those to come do nothing. `<close>` does that, too.
function Calls:invalidate() end

---@return boolean
function Calls:is_valid() end

---Makes one call of many: the function is called once nobody has called for so many seconds, with the arguments of the last call. It gets
---no second call before it has returned; what comes meanwhile is answered afterwards. A call that is pending keeps the loop alive.
---
---```lua
---local save = rl.debounce(0.2, function(text) print("saved", text) end)
---for i = 1, 100 do save("draft " .. i) end
---```
---```text
---saved	draft 100
---```
---@param seconds number
---@param fn function
---@return function call to be given wherever a function is wanted
---@return runloop.Calls calls
function rl.debounce(seconds, fn) end

---Lets a function be called at most once in so many seconds: at once, and then, for all calls that have come since, with the arguments of
---the last. It gets no second call before it has returned.
---
---```lua
---local show = rl.throttle(0.1, print)
---for i = 1, 100 do show(i) end
---```
---```text
---1
---100
---```
---@param seconds number
---@param fn function
---@return function call
---@return runloop.Calls calls
function rl.throttle(seconds, fn) end

---Fires now, whatever the date. A timer that fires once is done with it; a repeating one keeps its dates.
function Timer:fire() end

---When it fires next; nil once it is invalid.
---@return number? date
function Timer:fire_date() end

---Moves the next fire. A repeating timer goes on from there.
---@param date number
function Timer:set_fire_date(date) end

---Seconds between fires; 0 if it fires once.
---@return number seconds
function Timer:interval() end

---@return boolean
function Timer:repeats() end

---@return number seconds
function Timer:tolerance() end

---@param seconds number
function Timer:set_tolerance(seconds) end

---@return integer
function Timer:order() end

---Takes it out of every mode, for good. Its callback never runs again. Doing it twice does nothing.
function Timer:invalidate() end

---@return boolean
function Timer:is_valid() end

---@return string
function Timer:name() end

-- Custom sources -----------------------------------------------------------------------------------------------------

---An event source of one's own: whoever has something for the loop's thread to do signals it.
---@class runloop.Source
local Source = {}

---@class runloop.SourceOptions
---@field perform? fun(source: runloop.Source) called in the pass after a signal; several signals make one call
---@field schedule? fun(source: runloop.Source, loop: runloop.Loop, mode: string) called when it gets into a mode
---@field cancel? fun(source: runloop.Source, loop: runloop.Loop, mode: string) called when it leaves a mode
---@field order? integer lower ones first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes added to these modes of the current loop at once; absent: `loop:add` does it
---@field keeps_alive? boolean false: the loop serves it, and does not stay for it; true if absent

---Makes a custom source. Nothing happens until it is signalled; and it keeps its mode alive until it is invalidated.
---
---```lua
---local mailbox = rl.source { perform = function(source)
---  for from, text in source:commands() do print(from, text) end
---  source:invalidate()
---end }
---rl.current():add(mailbox)
---mailbox:post("Ada", "hello")
---mailbox:post("Bob", "hi")
---```
---```text
---Ada	hello
---Bob	hi
---```
---@param options runloop.SourceOptions
---@return runloop.Source source
function rl.source(options) end

---Marks the source, so that it is performed in the next pass of a mode that it is in. Does not wake the loop: `post` does.
---From any thread.
function Source:signal() end

---@return boolean
function Source:is_signalled() end

---Appends a command, signals, and wakes every loop that holds the source. From any thread.
---@param value any not nil: it ends the loop over `commands()`
---@param ... any
---@return boolean posted false when the source is invalid
function Source:post(value, ...) end

---Iterates over the commands that have been posted, oldest first, and removes them.
---@return fun(): any, ...
function Source:commands() end

---Wakes the loops that hold the source.
function Source:wake_loops() end

---@return integer
function Source:order() end

---Takes it out of every mode, for good.
function Source:invalidate() end

---@return boolean
function Source:is_valid() end

---@return string
function Source:name() end

-- File-descriptor ports ----------------------------------------------------------------------------------------------

---@class runloop.FDPort
local FDPort = {}

---A descriptor: a number, a Lua file, or an object with a method `fd`, `getfd`, `pollfd` or `fileno`.
---@alias runloop.Descriptor integer|file*|table|userdata

---@class runloop.FDPortOptions
---@field fd runloop.Descriptor
---@field callback fun(port: runloop.FDPort, events: string) `events`: of `"r"`, `"w"`, `"h"` (hang-up), `"e"` (error)
---@field events? string `"r"`, `"w"`, `"rw"` or `""`; `"r"` if absent
---@field owns? boolean close the descriptor when the port is invalidated
---@field once? boolean rest after each callback, until `set_events`
---@field order? integer lower ones first, among ports of one descriptor; others are called as they become ready; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes added to these modes of the current loop at once; absent: `loop:add` does it
---@field keeps_alive? boolean false: the loop serves it, and does not stay for it; true if absent

---Makes a port that watches a descriptor. The loop never reads from it: as long as there is something left to read, the
---callback is called again. After a hang-up or error with nothing to read the port rests until `port:set_events()`. Files and directories
---are always ready, as poll(2) has it: called in each pass, until it rests or is invalidated.
---@param options runloop.FDPortOptions
---@return runloop.FDPort? port
---@return string? message
---@return string? code
function rl.fd_port(options) end

---Calls a function whenever a descriptor can be read. A file of Lua's can be read, too, while it holds what it has read ahead.
---
---```lua
---local pipe = assert(io.popen "echo through a pipe")
---rl.on_readable(pipe, function(port, events)
---  print(pipe:read "l")
---  port:invalidate()
---end)
---```
---```text
---through a pipe
---```
---@param fd runloop.Descriptor
---@param fn fun(port: runloop.FDPort, events: string)
---@return runloop.FDPort? port
---@return string? message
---@return string? code
function rl.on_readable(fd, fn) end

---Calls a function whenever a descriptor can be written to.
---@param fd runloop.Descriptor
---@param fn fun(port: runloop.FDPort, events: string)
---@return runloop.FDPort? port
---@return string? message
---@return string? code
function rl.on_writable(fd, fn) end

---@return integer
function FDPort:fd() end

---What it asks for.
---@return string events
function FDPort:events() end

---Sets what it asks for, and ends its rest.
---@param events string `"r"`, `"w"`, `"rw"` or `""`
---@return boolean? done
---@return string? message
---@return string? code
function FDPort:set_events(events) end

---@return integer
function FDPort:order() end

---Takes it out of every mode, for good; to be done before the descriptor is closed.
function FDPort:invalidate() end

---@return boolean
function FDPort:is_valid() end

---@return string
function FDPort:name() end

-- Observers ----------------------------------------------------------------------------------------------------------

---@class runloop.Observer
local Observer = {}

---What a run of the loop does, in this order; the four in the middle again and again.
---@alias runloop.Activity
---| "entry" # a run begins
---| "before_timers" # timers are next
---| "before_sources" # sources are next
---| "before_waiting" # it is about to sleep
---| "after_waiting" # it has been woken, and has done nothing yet
---| "exit" # a run ends

---@class runloop.ObserverOptions
---@field activities "all"|runloop.Activity|runloop.Activity[]
---@field callback fun(observer: runloop.Observer, activity: runloop.Activity)
---@field repeats? boolean false: it is invalidated before its first callback; true if absent
---@field order? integer lower ones first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes added to these modes of the current loop at once; absent: `loop:add` does it

---Makes an observer: it is told what the loop is about to do. An observer does not keep a mode alive.
---@param options runloop.ObserverOptions
---@return runloop.Observer observer
function rl.observer(options) end

---Makes an observer and adds it to the common modes.
---
---```lua
---rl.observe({ "entry", "exit" }, function(observer, activity) print(activity) end)
---rl.after(0.01, function() print "tick" end)
---```
---```text
---entry
---tick
---exit
---```
---@param activities "all"|runloop.Activity|runloop.Activity[]
---@param fn fun(observer: runloop.Observer, activity: runloop.Activity)
---@return runloop.Observer observer
function rl.observe(activities, fn) end

---@return runloop.Activity[]
function Observer:activities() end

---@return boolean
function Observer:repeats() end

---@return integer
function Observer:order() end

---Takes it out of every mode, for good.
function Observer:invalidate() end

---@return boolean
function Observer:is_valid() end

---@return string
function Observer:name() end

-- Perform requests ---------------------------------------------------------------------------------------------------

---A call that has been asked for.
---@class runloop.Request
local Request = {}

---The same as `rl.current():perform(…)`.
---@param fn function|runloop.PerformOptions
---@param ... any arguments for `fn`
---@return runloop.Request|any request with `wait`: what the function returned
function rl.perform(fn, ...) end

---Takes back the delayed requests of this loop with this function and, where given, these arguments, which are compared by `==`, metamethods
---included. Takes time in proportion to the requests with this function. `performSelector:withObject:afterDelay:`'s
---`cancelPreviousPerformRequestsWithTarget:selector:object:`.
---
---```lua
---rl.perform { print, "one", after = 0.01 }
---rl.perform { print, "two", after = 0.01 }
---assert(rl.cancel_performs(print, "two") == 1)
---```
---```text
---one
---```
---@param fn function
---@param ... any
---@return integer cancelled how many
function rl.cancel_performs(fn, ...) end

---Takes the request back. From any thread.
---@return boolean cancelled false if it has run already
function Request:cancel() end

---The same as `cancel`.
---@return boolean cancelled
function Request:invalidate() end

---Whether it is still to run.
---@return boolean
function Request:is_valid() end

---@return string
function Request:name() end

-- Tasks --------------------------------------------------------------------------------------------------------------

---A function that may wait while others go on. The main chunk and every callback are tasks, too.
---@class runloop.Task
local Task = {}

---Starts a task. It runs at once, until it first waits.
---
---```lua
---local task = rl.task(function(a, b)
---  rl.sleep(0.01)
---  return a + b
---end, 1, 2)
---print(task:status())
---print(task:await())
---```
---```text
---waiting
---3
---```
---@param fn function
---@param ... any arguments for `fn`
---@return runloop.Task task
function rl.task(fn, ...) end

---Waits for some seconds; the loop goes on meanwhile. Not inside a coroutine of one's own: there it raises.
---@param seconds number
function rl.sleep(seconds) end

---Waits until a descriptor can be read.
---
---```lua
---local pipe = assert(io.popen "sleep 0.02; echo at last")
---print(rl.wait_readable(pipe, 0))
---print(rl.wait_readable(pipe):find "r" ~= nil, pipe:read "l")
---```
---```text
---nil	timed out
---true	at last
---```
---@param fd runloop.Descriptor
---@param timeout? number seconds; absent: no limit
---@return string? events as a port delivers them
---@return string? message "timed out", or what the world refused
---@return string? code
function rl.wait_readable(fd, timeout) end

---Waits until a descriptor can be written to.
---@param fd runloop.Descriptor
---@param timeout? number seconds; absent: no limit
---@return string? events as a port delivers them
---@return string? message "timed out", or what the world refused
---@return string? code
function rl.wait_writable(fd, timeout) end

---Calls a function as a task, waits for it, and cancels it where it waits when the time is over. Its error is raised.
---
---```lua
---print(rl.timeout(60, function(a) return a, 2 end, 1))
---print(rl.timeout(0.01, rl.sleep, 60))
---```
---```text
---true	1	2
---nil	timed out
---```
---@param seconds number
---@param fn function
---@param ... any arguments for `fn`
---@return boolean? done true and the function's results; or nil and "timed out"
---@return any ...
function rl.timeout(seconds, fn, ...) end

---Waits for the first of several tasks to end. Functions are made tasks, and those that are still waiting then are cancelled.
---
---```lua
---print(rl.first_of(function() rl.sleep(60) end, function() rl.sleep(0.01) return "fast" end))
---```
---```text
---2	fast
---```
---@param ... runloop.Task|function or one list of them
---@return integer first which it was; its results follow, or its error is raised
---@return any ...
function rl.first_of(...) end

---Waits for several tasks to end. Functions are made tasks. The first error is raised, and those that were made tasks here and
---still wait are cancelled.
---
---```lua
---print(rl.all_of(function() rl.sleep(0.01) return "a" end, function() return "b" end))
---```
---```text
---a	b
---```
---@param ... runloop.Task|function or one list of them
---@return any ... the first result of each
function rl.all_of(...) end

---Waits until all of several tasks have ended, however that was. Functions are made tasks.
---
---```lua
---for _, outcome in ipairs(rl.settle_all { function() return "a" end, function() error("b", 0) end }) do
---  print(outcome.ok, outcome[1])
---end
---```
---```text
---true	a
---false	b
---```
---@param list (runloop.Task|function)[]
---@return { ok: boolean, error: any, [integer]: any }[] outcomes the results, or the error, of each
function rl.settle_all(list) end

---Waits until the task has ended. Returns what it returned, or raises its error.
---@return any ...
function Task:await() end

---Ends the task where it waits, with the error `rl.cancelled`: its `<close>` variables are closed.
---@return boolean cancelled false when it has ended
function Task:cancel() end

---@return "waiting"|"running"|"done"|"failed"|"cancelled" status
function Task:status() end

---Where the task is: in what it waits, for what, and its stack, as text. Of a failed task whose error nobody has got yet, message and
---traceback. nil for others that have ended.
---
---```lua
---local task = rl.task(function() rl.sleep(0.01) end)
---assert(task:traceback():find "waits in rl.sleep")
---task:await()
---assert(task:traceback() == nil)
---```
---@return string? traceback
function Task:traceback() end

---The same as `cancel`.
---@return boolean cancelled
function Task:invalidate() end

---Whether it has not ended.
---@return boolean
function Task:is_valid() end

---@return string
function Task:name() end

---The error by which a task is cancelled; `tostring` makes "cancelled" of it.
---@type any
rl.cancelled = {}

---Whether an error that `pcall` has caught, or that a `<close>` variable is told, is the one by which a task is cancelled. No
---error of a script's own is.
---@param err any
---@return boolean
function rl.is_cancelled(err) end

-- Recordings --------------------------------------------------------------------------------------------------------

---What the loops do is recorded: the last moments always, in memory, from a loop's second second on, or from the first use of these
---functions on; all of it from `start` to `stop`, in a file, which is what `rlhost --trace=FILE` does from the beginning to the end. The
---ending of a file's name is its form: `.html`, a page to look at; `.pftrace`, Perfetto's; `.json`, Chrome's trace events.
---@class runloop.Trace
local Trace = {}
rl.trace = Trace

---Writes the last moments of all loops of the process: about 16,000 things that happened in each. Of a callback that runs at this
---moment the beginning is there.
---
---```lua
---assert(rl.trace.dump "moments.html")
---```
---@param path string a file that ends in `.html`, `.pftrace` or `.json`
---@return true? done nil when the file cannot be written, or is being recorded into (EBUSY), or the recorder is off
---@return string? message
---@return string? code
function Trace.dump(path) end

---@class runloop.TraceOptions
---@field limit? integer bytes of the file at most; 268435456 (256 MB) if absent, at least 1048576; what comes later is counted

---Has all that happens from now on written to a file, of the loops of all threads.
---@param path string as for `dump`
---@param options? runloop.TraceOptions
---@return true? done nil when the file cannot be written, or another one is being written (EBUSY)
---@return string? message
---@return string? code
function Trace.start(path, options) end

---Completes the file that `start`, or `--trace`, has begun. The end of the program does it, too.
---@return string? path of the file; nil if there is none, or something has kept it from being written whole
---@return string? message
---@return string? code
function Trace.stop() end

---Calls a function, and shows how long that took. Where it waits, the pieces between are shown, joined.
---
---```lua
---local sum = rl.trace.span("sum", function(n)
---  local sum = 0
---  for i = 1, n do sum = sum + i end
---  return sum
---end, 100)
---print(sum)
---```
---```text
---5050
---```
---@param name string
---@param fn function
---@param ... any arguments for `fn`
---@return any ... its results; its error is raised
function Trace.span(name, fn, ...) end

---Marks this moment.
---@param name string
---@param ... any shown behind the name, as by `print`
function Trace.mark(name, ...) end

-- Functions that block ----------------------------------------------------------------------------------------------

---Runs a function that blocks, such as a query or a name's look-up, on a thread of a small pool (4), and waits for its results. The
---function, its upvalues and arguments are copied, as for `rl.thread`. Its error is raised. Where the task is cancelled, or does not
---want to wait any longer, the function is interrupted, as by `thread:cancel`.
---
---```lua
---print(rl.blocking(function(n) return n * 2 end, 21))
---```
---```text
---42
---```
---@param fn function
---@param ... any arguments for `fn`
---@return any ...
function rl.blocking(fn, ...) end

---Threads that run functions one after the other. They start when they are needed, and the program does not wait for them.
---@class runloop.Pool
local Pool = {}

---@class runloop.PoolOptions
---@field threads? integer at most so many; 4 if absent
---@field name? string for messages

---@param options? runloop.PoolOptions
---@return runloop.Pool
function rl.pool(options) end

---Runs a function on one of its threads, as `rl.blocking` does. While all are busy it waits; who waits longest is next.
---@param fn function
---@param ... any arguments for `fn`
---@return any ...
function Pool:run(fn, ...) end

---Calls `fn(value, position)` for each element, on all threads, and waits for all. The first error ends it and is raised.
---
---```lua
---local pool <close> = rl.pool { threads = 2 }
---print(table.concat(pool:map({ 1, 2, 3 }, function(n) return n * n end), " "))
---```
---```text
---1 4 9
---```
---@param list any[]
---@param fn fun(value: any, position: integer): any
---@return any[] results the first result of each, in order
function Pool:map(list, fn) end

---Its threads end, when what they run has. `<close>` does the same.
function Pool:close() end

-- The end ------------------------------------------------------------------------------------------------------------

---@class runloop.ShutdownOptions
---@field limit? number seconds that it may take; 5 if absent

---Has a function run before the program ends because of SIGTERM, SIGINT or `rl.shutdown`. Such functions run as tasks, one after
---the other, newest first, and may wait. Then all tasks are cancelled, newest first, and the loop ends. A second signal ends the
---program at once. The first one interrupts nothing.
---@param fn fun(reason: string) "SIGTERM", "SIGINT" or what `rl.shutdown` was told
---@param options? runloop.ShutdownOptions
function rl.on_shutdown(fn, options) end

---Ends the program in the same way, with status 0.
---@param reason? any
function rl.shutdown(reason) end

---The directory of the script, from the root, in a test that of the test file; nil without one. For what lies beside it.
---@return string? path
function rl.script_directory() end

-- Between tasks ------------------------------------------------------------------------------------------------------

---Something that tasks of one thread wait for, and that others say has happened. It does not remember: who waits later waits
---for the next time.
---@class runloop.Condition
local Condition = {}

---@return runloop.Condition
function rl.condition() end

---Waits until it is signalled. Those that wait go on in the order in which they came.
---@param timeout? number seconds; absent: no limit
---@return true? signalled
---@return string? message "timed out"
function Condition:wait(timeout) end

---Lets the task go on that has waited longest, in the loop's next pass.
---@return boolean signalled false if nobody waits
function Condition:signal() end

---Lets all go on that wait.
---@return integer count how many those are
function Condition:broadcast() end

---Values on their way between tasks of one thread, in order. For other threads there are ports.
---@class runloop.Channel
local Channel = {}

---```lua
---local jobs = rl.channel(10)
---rl.task(function()
---  for i = 1, 3 do jobs:send("job", i) end
---  jobs:close()
---end)
---for kind, number in jobs:values() do print(kind, number) end
---```
---```text
---job	1
---job	2
---job	3
---```
---@param capacity? number how many values it holds; 0, or absent: each is handed over from task to task; `math.huge`: any number
---@return runloop.Channel
function rl.channel(capacity) end

---Sends values, the first of which is not nil, as one. Waits while the channel is full; with capacity 0, until they are taken.
---A sender that is cancelled while it waits has sent nothing.
---@param ... any
---@return true? sent
---@return string? message "closed", also when that happens while it waits
function Channel:send(...) end

---Takes the next values. Waits while there are none.
---@param timeout? number seconds; 0: does not wait; absent: no limit
---@return any ... nil and "timed out"; or, when it is closed and empty, nil and "closed"
function Channel:receive(timeout) end

---No more can be sent; what has been can still be received. `<close>` does the same.
function Channel:close() end

---Iterates over what is received, until the channel is closed and empty.
---@return fun(): any ...
function Channel:values() end

---How many values it holds now.
---@return integer
function Channel:count() end

---@return boolean
function Channel:is_closed() end

---Tasks that end together: the first error among them cancels the others.
---@class runloop.Group
local Group = {}

---```lua
---local group <close> = rl.group()
---for i = 1, 3 do group:task(function() rl.sleep(i / 100) if i == 2 then error "the second one failed" end end) end
---print(select(2, pcall(group.wait, group)):match "the.*")
---```
---```text
---the second one failed
---```
---@return runloop.Group
function rl.group() end

---Starts a task that belongs to the group. Raises if one of them has failed already, and says of what.
---@param fn function
---@param ... any arguments for `fn`
---@return runloop.Task
function Group:task(fn, ...) end

---Waits until all have ended. Then raises the first error that ended one of them, if there was one.
---@param timeout? number seconds; absent: no limit
---@return true? ended
---@return string? message "timed out"
function Group:wait(timeout) end

---Cancels those that have not ended. `<close>` does the same.
function Group:cancel() end

-- Threads ------------------------------------------------------------------------------------------------------------

---A thread with a Lua state and a run loop of its own.
---@class runloop.Thread
local Thread = {}

---@class runloop.ThreadOptions
---@field [1] function the function; its arguments follow
---@field name? string for messages
---@field keeps_alive? boolean false: the program does not wait for its end; true if absent

---Starts a thread. The function, its upvalues and arguments are copied: tables with cycles and shared parts, without
---metatables; what is reachable from `package.loaded` by name; loops, threads, sources, ports and tasks as handles to the same
---object (a task's can be compared and sent back; only the task's own thread asks it). What cannot be copied raises, and says where
---it is. While the function waits, its thread runs its loop for it.
---
---A thread is like a script: when the function has returned, its loop runs until nothing is left that can call back, or until it
---is stopped; who stops a run that the function has begun means the thread. A function that still waits when its loop is stopped goes
---on, and the thread ends with it. The program ends when the main loop is done and all threads have ended. An error that
---nobody joins goes to `rl.on_error`, or ends the
---program with status 1.
---
---```lua
---local sum = 0
---local thread = rl.thread(function(numbers)
---  local sum = 0
---  for _, number in ipairs(numbers) do sum = sum + number end
---  return sum
---end, { 1, 2, 3 })
---print(thread:join())
---```
---```text
---true	6
---```
---@param fn function|runloop.ThreadOptions
---@param ... any arguments for `fn`
---@return runloop.Thread? thread
---@return string? message
---@return string? code
function rl.thread(fn, ...) end

---The thread that this is; nil on the main thread.
---@return runloop.Thread? thread
function rl.this_thread() end

---Its loop, for `perform`, `stop`, `wake_up` and `is_waiting`.
---@return runloop.Loop loop
function Thread:loop() end

---Waits until the thread has ended: its function has returned, and its loop is done. The loop of this one goes on meanwhile.
---@param timeout? number seconds; absent: no limit
---@return boolean? succeeded true and the function's results, or false and its error; nil and "timed out" when the time is over. If a function of C keeps a cancelled thread from ending, the text names it: "timed out: in string.find, called at x.lua:3, for 5 s"
---@return any ...
function Thread:join(timeout) end

---@return boolean
function Thread:is_alive() end

---Asks the thread to end: its loop is stopped, its tasks are cancelled, and in code that is busy the error `rl.cancelled` is
---raised. A thread that ends of this is no error. A function of C, such as `string.find` with a pattern that tries very many ways, cannot
---be interrupted: the thread ends when it has returned. Code that has to end in time, whatever it does, needs a process of its own.
function Thread:cancel() end

---The same as `cancel`.
function Thread:invalidate() end

---The same as `is_alive`.
---@return boolean
function Thread:is_valid() end

---@return string
function Thread:name() end

-- Ports --------------------------------------------------------------------------------------------------------------

---A queue of messages for one loop, into which any thread can put some. NSPort
---@class runloop.Port
local Port = {}

---@class runloop.PortOptions
---@field callback? fun(port: runloop.Port, message: runloop.Message) absent: an empty port, which only keeps a mode alive
---@field capacity? integer how many messages wait at most; 1024 if absent
---@field order? integer lower ones first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes added to these modes of the current loop at once; absent: `loop:add` does it
---@field keeps_alive? boolean false: the loop serves it, and does not stay for it; true if absent

---@class runloop.Message
---@field id integer 0 if the sender gave none
---@field data any a copy of what the sender gave
---@field reply_port? runloop.Port where the sender would like an answer

---Makes a port. Even one that never gets a message keeps its mode alive.
---
---```lua
---local inbox = rl.port { callback = function(port, message)
---  print(message.id, message.data.name)
---  port:invalidate()
---end }
---rl.current():add(inbox)
---inbox:send { id = 100, data = { name = "Ada" } }
---```
---```text
---100	Ada
---```
---@param options? runloop.PortOptions
---@return runloop.Port port
function rl.port(options) end

---@class runloop.SendOptions
---@field id? integer
---@field data? any copied, as for a thread
---@field reply_port? runloop.Port
---@field before? number a date: while the port is full, wait until then; absent: without limit

---Puts a message into the port's queue. From any thread. Nothing that was sent is lost while the port is valid.
---@param message runloop.SendOptions
---@return boolean? sent
---@return "timed out"|"invalid"|nil reason
function Port:send(message) end

---@return integer
function Port:capacity() end

---How many messages wait.
---@return integer
function Port:count() end

---@return integer
function Port:order() end

---Takes it out of every mode, for good. Who waits to send gets "invalid".
function Port:invalidate() end

---@return boolean
function Port:is_valid() end

---@return string
function Port:name() end

-- Message ports ------------------------------------------------------------------------------------------------------

---A port that other processes of the same user can send to, by its name. CFMessagePort
---@class runloop.MessagePort
local MessagePort = {}

---@class runloop.MessagePortOptions
---@field callback fun(port: runloop.MessagePort, id: integer, data: string): string? what it returns is the answer
---@field name? string under which others find it; at most one live process holds a name
---@field order? integer lower ones first; 0 if absent
---@field on_invalidate? fun(port: runloop.MessagePort) called when it is invalidated
---@field modes? runloop.Modes added to these modes of the current loop at once; absent: `loop:add` does it
---@field keeps_alive? boolean false: the loop serves it, and does not stay for it; true if absent

---Makes a port under a name. Its callback may wait; the answer goes out when it returns.
---
---```lua
---local server = assert(rl.message_port { name = "example.echo." .. os.time() .. math.random(1e9), callback = function(port, id, data)
---  return data:upper()
---end })
---rl.current():add(server)
---
---local remote = assert(rl.remote_port(server:name()))     -- here in the same process; usually in another
---print(remote:request(7, "hello", { send_timeout = 5, reply_timeout = 5 }))
---remote:invalidate()
---server:invalidate()
---```
---```text
---HELLO
---```
---@param options runloop.MessagePortOptions
---@return runloop.MessagePort? port
---@return string? message
---@return string? code
function rl.message_port(options) end

---Gives the port a name, or another one.
---@param name string
---@return boolean? done
---@return string? message
---@return string? code
function MessagePort:set_name(name) end

---Takes it out of every mode, for good; the name is free again.
function MessagePort:invalidate() end

---@return boolean
function MessagePort:is_valid() end

---@return string
function MessagePort:name() end

---@return integer
function MessagePort:order() end

---Somebody else's message port.
---@class runloop.RemotePort
local RemotePort = {}

---Finds the message port of a name. The same name gives the same object, as long as that is valid.
---@param name string
---@return runloop.RemotePort? remote
---@return string? message
---@return string? code
function rl.remote_port(name) end

---@alias runloop.RemoteFailure "send timed out"|"reply timed out"|"invalid"|"became invalid"|string

---@class runloop.RequestOptions
---@field send_timeout? number seconds
---@field reply_timeout? number seconds
---@field reply_mode? string run this loop in that mode until the answer is there; absent: only this task waits

---Sends a request, and waits for the answer.
---@param id integer of 32 bits
---@param data string
---@param options? runloop.RequestOptions
---@return string? answer
---@return runloop.RemoteFailure? reason
function RemotePort:request(id, data, options) end

---@class runloop.RemoteSendOptions
---@field timeout? number seconds

---Sends without asking for an answer.
---@param id integer of 32 bits
---@param data string
---@param options? runloop.RemoteSendOptions
---@return boolean? sent
---@return runloop.RemoteFailure? reason
function RemotePort:send(id, data, options) end

---Waits until everything that was sent has been handled.
---@param timeout? number seconds; absent: no limit
---@return boolean? done
---@return runloop.RemoteFailure? reason
function RemotePort:flush(timeout) end

---How many messages have been sent and are not known to be handled.
---@return integer
function RemotePort:unacknowledged() end

---The number of the process that holds the name.
---@return integer
function RemotePort:process() end

---Gives the connection up.
function RemotePort:invalidate() end

---@return boolean
function RemotePort:is_valid() end

---@return string
function RemotePort:name() end

-- Notifications ------------------------------------------------------------------------------------------------------

---Messages by name, for whoever listens on this thread; posted at once, or queued and merged. NSNotificationQueue
---@class runloop.Notifications
local Notifications = {}
rl.notifications = Notifications

---@class runloop.NotificationObserver
local NotificationObserver = {}

---Calls a function for each notification of a name; with a sender, only for those from it.
---
---```lua
---local observer = rl.notifications:observe("saved", function(name, info) print(name, info) end)
---rl.notifications:enqueue("saved", "draft 1")
---rl.notifications:enqueue("saved", "draft 2")     -- takes the place of the first: same name, same sender
---print "queued"
---```
---```text
---queued
---saved	draft 2
---```
---@param name string
---@param fn fun(name: string, info: any, sender: any)
---@param sender? any
---@return runloop.NotificationObserver observer
function Notifications:observe(name, fn, sender) end

---Tells the observers now, in the order in which they were added.
---@param name string
---@param info? any
---@param sender? any
function Notifications:post(name, info, sender) end

---@class runloop.EnqueueOptions
---@field style? "asap"|"idle"|"now" in the next pass; before the loop would sleep, behind requests that are queued and timers that are overdue; at once; `"asap"` if absent
---@field coalesce? ("name"|"sender")[] which queued notifications this one replaces; both if absent, `{}`: none
---@field modes? runloop.Modes in which it may be posted; `"default"` if absent
---@field sender? any

---Queues a notification.
---@param name string
---@param info? any
---@param options? runloop.EnqueueOptions
function Notifications:enqueue(name, info, options) end

---Takes back what is queued under a name, from a sender, or both.
---@param name? string
---@param sender? any
---@return integer dequeued how many
function Notifications:dequeue(name, sender) end

---Ends the observation.
function NotificationObserver:invalidate() end

---@return boolean
function NotificationObserver:is_valid() end

---The name of the notification.
---@return string
function NotificationObserver:name() end

-- Errors, and looking inside -----------------------------------------------------------------------------------------

---@class runloop.ErrorInfo
---@field traceback string message and traceback
---@field where? string what the error was in: `timer "poll" made at app.lua:12`, `watcher of "src" made at app.lua:3`

---Sets the function that gets the errors nobody catches, in callbacks, tasks and the main chunk. Without one they are printed
---with a traceback, and the program ends with exit status 1.
---
---```lua
---rl.on_error(function(err, info) print("caught: " .. err.reason) end)
---rl.after(0.01, function() error { reason = "just so" } end)
---```
---```text
---caught: just so
---```
---@param fn? fun(err: any, info: runloop.ErrorInfo) nil: the host's own way again
---@return function? before what was set before
function rl.on_error(fn) end

---What keeps the loop alive, as text for people.
---@return string text
function rl.why() end

---Lets `rlhost attach` open a prompt in this process under a name, as `rlhost --attach=NAME` does. Without this it gets in when it
---asks; `rl.attach(false)` forbids both, and sees off who is attached. Only processes of the same user get in; standard error says who comes and goes. It does not keep the loop
---alive. A name need not be the only one of its kind. Only on the main thread; nil and a reason where the system refuses.
---```lua
---print(rl.attach "web")       -- from now on: rlhost attach web
---rl.attach(false)             -- and no longer
---```
---```text
---web
---```
---@param name? string|false what to attach by, besides the process's number: not a number, without blanks and "/"
---@return string? name what to attach by
---@return string? message
---@return string? code
function rl.attach(name) end

return rl
