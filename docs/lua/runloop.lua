---@meta runloop

-- Every call of the module `runloop`, for readers and for Lua editors.
--
-- Times are seconds, as numbers, everywhere. A *date* is a point on the clock of `rl.now()`. `rl.timer{}`,
-- `rl.source{}`, `rl.fd_port{}`, `rl.observer{}`, `rl.port{}` and `rl.message_port{}` make objects that do nothing
-- until `loop:add(object)`. The short forms (`rl.after`, `rl.every`, `rl.on_readable`, `rl.on_writable`, `rl.observe`,
-- `rl.perform`) make the object and add it to the common modes of the current loop.
--
-- Misuse raises an error that starts with the function's name. If the system refuses something, a call returns nil, a
-- message and a code: `nil, "EBADF: bad file descriptor", "EBADF"`, ready for `assert`.

---@class runloop
local rl = {}

---The names of the predefined modes. A mode is a string; you can invent others.
---@class runloop.modes
---@field default "default" the mode in which `loop:run()` runs
---@field common "common" stands for all common modes: you can add to it, but not run in it
---@field event_tracking "event_tracking" while the user drags something
---@field modal "modal" while a dialogue is open
---@field connection_reply "connection_reply" while a task waits for an answer
rl.modes = {}

---The version of rlhost, as `rlhost --version` prints it: "0.1.0".
rl.version = ""

---One mode, or several.
---@alias runloop.Modes string|string[]

---The kinds of objects that a loop can hold.
---@alias runloop.Item runloop.Timer|runloop.Source|runloop.FDPort|runloop.Observer|runloop.Port|runloop.MessagePort

---How a run ended.
---@alias runloop.Result
---| "finished" # nothing was left in the mode
---| "stopped" # `loop:stop()`
---| "timed_out" # the timeout has passed
---| "handled_source" # `return_after_source`, and a source or port was handled

-- Time ---------------------------------------------------------------------------------------------------------------

---Returns the monotonic clock: seconds since some moment in the past. It does not jump when somebody sets the wall
---clock.
---@return number date
function rl.now() end

---Returns the wall clock: seconds since 1970.
---@return number seconds
function rl.time() end

---Returns the date that corresponds to a wall-clock time, as the two clocks stand now.
---
---```lua
---local midnight = os.time { year = 2040, month = 1, day = 1, hour = 0 }
---assert(rl.date(midnight) > rl.now())
---```
---@param unix_seconds number
---@return number date
function rl.date(unix_seconds) end

-- Loops --------------------------------------------------------------------------------------------------------------

---A run loop. Each thread has one. From other threads you can call `perform`, `stop`, `wake_up` and `is_waiting`.
---@class runloop.Loop
local Loop = {}

---Returns the loop of this thread.
---@return runloop.Loop loop
function rl.current() end

---Returns the loop of the main thread.
---@return runloop.Loop loop
function rl.main() end

---The same as `rl.current():run(…)`.
---@param options? runloop.RunOptions
---@return runloop.Result result
function rl.run(options) end

---The same as `rl.current():stop()`.
---
---The main chunk, a task that it has started, or another thread can call this before the loop runs. The stop then
---cancels the automatic run after the main chunk: the program ends with status 0, and calls neither observers nor
---functions of `rl.on_shutdown`. In a thread, it cancels the automatic run after the thread's function in the same way.
---An explicit `rl.run()` forgets an earlier stop, as in CoreFoundation.
---
---If the main chunk waits when its loop is stopped, the program ends with status 13 and says where, even with other
---threads. If the main chunk has ended, the program waits for its threads, and its loop serves them. `rl.shutdown` ends
---such a program properly.
function rl.stop() end

---@class runloop.RunOptions
---@field mode? string `"default"` if absent; `"common"` raises
---@field timeout? number seconds; no limit if absent; 0 or less: one pass that does not wait
---@field return_after_source? boolean return as soon as a source or port was handled (timers do not count)

---Runs the loop until it is stopped, its timeout has passed, or nothing is left in the mode. It returns "finished" at
---once if the mode is empty. Runs nest: a callback may run the loop again, in this mode or in another.
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

---Runs the loop until it has handled a source or port, or until the date. `runMode:beforeDate:`
---@param mode string
---@param before number a date
---@return boolean ran false if the mode is empty
function Loop:run_mode(mode, before) end

---Runs the loop in the default mode until a date, or until nothing is left. `runUntilDate:`
---@param date number
function Loop:run_until(date) end

---Ends the innermost run after its pass. If the loop does not run, see `rl.stop`.
function Loop:stop() end

---Wakes the loop, or makes its next wait return at once.
function Loop:wake_up() end

---Returns whether the loop sleeps, waiting for something to happen.
---@return boolean
function Loop:is_waiting() end

---Returns the mode of the innermost run, or nil if the loop does not run.
---@return string? mode
function Loop:mode() end

---Returns the names of the modes that hold items or run, and of those that have appeared since the loop's last pass.
---The default mode is always among them, and so is a common mode that has ever held something.
---@return string[] names
function Loop:modes() end

---Makes a mode common: items that are in `"common"`, or are added to it later, are then in this mode, too.
---@param name string
function Loop:add_common_mode(name) end

---Returns the order of events that observers see: the order in Apple's documentation, or exactly CoreFoundation's.
---@return "documented"|"core_foundation" sequence
function Loop:sequence() end

---@param sequence "documented"|"core_foundation"
function Loop:set_sequence(sequence) end

---Returns when the next timer of a mode is due, or nil if the mode has no timer.
---@param mode? string `"default"` if absent
---@return number? date
function Loop:next_fire_date(mode) end

---Adds an object to one or more modes. The loop then owns it: it stays alive and works even if the script drops it.
---Adding it again to the same mode has no effect.
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

---Removes an object from one or more modes. It stays valid, and you can add it again.
---@param object runloop.Item
---@param mode? runloop.Modes `"default"` if absent
function Loop:remove(object, mode) end

---Returns whether an object is in a mode, or in all of several modes.
---@param object runloop.Item
---@param mode? runloop.Modes `"default"` if absent
---@return boolean
function Loop:contains(object, mode) end

---Makes the loop call a function on the loop's thread, in the next pass in one of the modes, after earlier requests.
---Wakes the loop. Instead of the function you can pass a table of options, whose positional part is the function and
---its arguments.
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
---@return runloop.Request|any request with `wait`: the function's results
function Loop:perform(fn, ...) end

---@class runloop.PerformOptions
---@field [1] function the function; its arguments follow
---@field modes? runloop.Modes `"common"` if absent
---@field wait? boolean wait, and return its results or raise its error; on the loop's own thread it runs at once
---@field after? number seconds to wait first; not together with `wait`
---@field order? integer lower ones first, among requests of the same pass; 0 if absent

---Returns the contents of the loop as plain tables.
---@return runloop.Inspection inspection
function Loop:inspect() end

---@class runloop.Inspection
---@field running? string the current mode
---@field requests integer queued perform requests
---@field common_modes string[]
---@field modes table<string, runloop.InspectedItem[]>

---@class runloop.InspectedItem
---@field kind string "timer", "source", "fd_port", "observer", "port", "task", "request", or what a module calls it
---@field name string
---@field order integer
---@field made_at? string where it was made: `"app.lua:12"`
---@field next? number the date of the next fire
---@field interval? number seconds between fires
---@field detail? string further information

---Returns what the loop has done so far.
---@return runloop.Statistics statistics
function Loop:stats() end

---@class runloop.Statistics
---@field passes integer
---@field sleeps integer
---@field seconds_asleep number
---@field longest_callback number seconds; accurate to about 1 %, or to 4 ms in the loop's first second
---@field callbacks { timer: integer, source: integer, port: integer, observer: integer, request: integer }

---Raises an error: a loop lives as long as its thread.
function Loop:invalidate() end

---Returns whether the loop's thread is alive.
---@return boolean
function Loop:is_valid() end

---Returns the loop's name, `"main"` for the main thread's loop.
---@return string
function Loop:name() end

-- Timers -------------------------------------------------------------------------------------------------------------

---@class runloop.Timer
local Timer = {}

---@class runloop.TimerOptions
---@field callback fun(timer: runloop.Timer, missed: integer) `missed`: whole intervals skipped before this fire
---@field delay? number seconds until the first fire; `interval` if absent
---@field fire_date? number the date of the first fire, instead of `delay`
---@field interval? number seconds between fires; absent or 0: it fires once
---@field tolerance? number seconds by which a fire may be late, so that several timers share one wake-up
---@field order? integer lower ones first, among timers due at the same moment; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it; true if absent

---Makes a timer. It keeps its grid: a late fire does not delay the following ones. Missed fires are counted; the
---loop does not catch up on them. The timer never fires early.
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

---Calls a function once, after some seconds, and never earlier. The tolerance is a tenth of the delay, at most 1 ms:
---timers that are due close together share a wake-up, and a single one is on time. For no tolerance use
---`set_tolerance(0)` or `rl.timer`. Like every callback, `fn` gets its object first: `rl.after(1, os.exit)` would call
---`os.exit(timer)`, so write `function() os.exit() end`.
---@param seconds number
---@param fn fun(timer: runloop.Timer, ...: any)
---@param ... any further arguments for `fn`
---@return runloop.Timer timer
function rl.after(seconds, fn, ...) end

---Calls a function repeatedly, with an interval in seconds. Without further arguments the function gets `missed` after
---the timer. The timer's tolerance is a tenth of the interval, at most 0.25 ms.
---@param seconds number
---@param fn fun(timer: runloop.Timer, ...: any)
---@param ... any further arguments for `fn`
---@return runloop.Timer timer
function rl.every(seconds, fn, ...) end

---@class runloop.AtOptions
---@field name? string
---@field modes? string|string[] the common modes if absent; `{}`: none yet
---@field keeps_alive? boolean false: the loop fires it, but does not keep running for it
---@field order? integer
---@field tolerance? number seconds by which it may be late, so that the loop sleeps less often
---@field when_set? boolean true: the call also comes when the wall clock is set, so that you can plan again

---Calls a function once, at a wall-clock time. The time stays right after the clock is set, after the machine has
---slept, and in virtual time. If the moment has passed, the call comes at once. The timer is like all others;
---`set_fire_date` moves it to the wall-clock time that corresponds to the date. For repeated calls, use
---`runloop.schedule`.
---
---```lua
---local midnight = rl.at({ year = 2031, month = 1, day = 1, hour = 0 }, function() print "a new year" end)
---print(midnight:is_valid(), midnight:repeats())
---midnight:invalidate()
---```
---```text
---true	false
---```
---@param time number|table seconds since 1970, as from `rl.time()`, or a local time as `os.time` takes it
---@param fn fun(timer: runloop.Timer)
---@param options? runloop.AtOptions
---@return runloop.Timer? timer nil if no file descriptor is left for watching the clock
---@return string? message
---@return string? code
function rl.at(time, fn, options) end

---Controls the calls of a debounced or throttled function.
---@class runloop.Calls
local Calls = {}

---Returns whether a call is pending.
---@return boolean
function Calls:is_pending() end

---Makes the pending call at once.
---@return boolean made false if no call is pending, or the function is running
function Calls:flush() end

---Drops the pending call; later calls have no effect. `<close>` does the same.
function Calls:invalidate() end

---@return boolean
function Calls:is_valid() end

---Merges many calls into one: the function is called when no call has come for some seconds, with the arguments of the
---last call. The function is not called again before it has returned; calls that come meanwhile are merged into one
---call afterwards. A pending call keeps the loop alive.
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
---@return function call pass it anywhere a function is expected
---@return runloop.Calls calls
function rl.debounce(seconds, fn) end

---Limits how often a function is called: it runs at once for the first call; the calls that come in the interval after
---that are merged into one, with the arguments of the last. The function is not called again before it has returned.
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

---Fires now, whatever its date. A timer that fires once is invalid afterwards; a repeating one keeps its dates.
function Timer:fire() end

---Returns when it fires next, or nil if it is invalid.
---@return number? date
function Timer:fire_date() end

---Moves the next fire. A repeating timer continues from the new date.
---@param date number
function Timer:set_fire_date(date) end

---Returns the seconds between fires, or 0 if it fires once.
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

---Removes it from every mode for good. Its callback is never called again. A second call has no effect.
function Timer:invalidate() end

---@return boolean
function Timer:is_valid() end

---@return string
function Timer:name() end

-- Custom sources -----------------------------------------------------------------------------------------------------

---An event source of your own. Any code that has work for the loop's thread signals it.
---@class runloop.Source
local Source = {}

---@class runloop.SourceOptions
---@field perform? fun(source: runloop.Source) called in the pass after a signal; several signals make one call
---@field schedule? fun(source: runloop.Source, loop: runloop.Loop, mode: string) called when it is added to a mode
---@field cancel? fun(source: runloop.Source, loop: runloop.Loop, mode: string) called when it leaves a mode
---@field order? integer lower ones first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it; true if absent

---Makes a custom source. A source does nothing until it is signalled, and keeps its mode alive until it is invalidated.
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

---Marks the source, so that the loop performs it in the next pass of one of its modes. The call does not wake the loop;
---`post` does. From any thread.
function Source:signal() end

---@return boolean
function Source:is_signalled() end

---Appends a command, signals the source, and wakes every loop that holds it. From any thread.
---@param value any not nil, since nil ends the loop over `commands()`
---@param ... any
---@return boolean posted false if the source is invalid
function Source:post(value, ...) end

---Iterates over the posted commands, oldest first, and removes them.
---@return fun(): any, ...
function Source:commands() end

---Wakes the loops that hold the source.
function Source:wake_loops() end

---@return integer
function Source:order() end

---Removes it from every mode for good.
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
---@field callback fun(port: runloop.FDPort, events: string) `"r"`, `"w"`, `"h"` (hang-up), `"e"` (error), or several
---@field events? string `"r"`, `"w"`, `"rw"` or `""`; `"r"` if absent
---@field owns? boolean true: the descriptor is closed when the port is invalidated
---@field once? boolean true: the port rests after each callback, until `set_events`
---@field order? integer among ready ports of one descriptor, lower orders are called first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it; true if absent

---Makes a port that watches a descriptor. The loop never reads from it: while something is left to read, it calls the
---callback again. After a hang-up or error with nothing left to read, the port rests until `port:set_events()`. Regular
---files and directories are always ready, as for poll(2), so their callback is called in each pass until the port rests
---or is invalidated.
---@param options runloop.FDPortOptions
---@return runloop.FDPort? port
---@return string? message
---@return string? code
function rl.fd_port(options) end

---Calls a function whenever a descriptor can be read. A Lua file can also be read while it has buffered bytes.
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

---Returns the events for which the port waits.
---@return string events
function FDPort:events() end

---Sets the events for which it waits, and ends its rest.
---@param events string `"r"`, `"w"`, `"rw"` or `""`
---@return boolean? done
---@return string? message
---@return string? code
function FDPort:set_events(events) end

---@return integer
function FDPort:order() end

---Removes it from every mode for good. Call it before you close the descriptor.
function FDPort:invalidate() end

---@return boolean
function FDPort:is_valid() end

---@return string
function FDPort:name() end

-- Observers ----------------------------------------------------------------------------------------------------------

---@class runloop.Observer
local Observer = {}

---The points of a run, in this order; the four in the middle repeat in each pass.
---@alias runloop.Activity
---| "entry" # a run begins
---| "before_timers" # timers are next
---| "before_sources" # sources are next
---| "before_waiting" # the loop is about to sleep
---| "after_waiting" # the loop has been woken, and has done nothing yet
---| "exit" # a run ends

---@class runloop.ObserverOptions
---@field activities "all"|runloop.Activity|runloop.Activity[]
---@field callback fun(observer: runloop.Observer, activity: runloop.Activity)
---@field repeats? boolean false: it is invalidated just before its first callback; true if absent
---@field order? integer lower ones first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`

---Makes an observer: the loop calls it at the points that you choose. An observer does not keep a mode alive.
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

---Removes it from every mode for good.
function Observer:invalidate() end

---@return boolean
function Observer:is_valid() end

---@return string
function Observer:name() end

-- Perform requests ---------------------------------------------------------------------------------------------------

---A requested call.
---@class runloop.Request
local Request = {}

---The same as `rl.current():perform(…)`.
---@param fn function|runloop.PerformOptions
---@param ... any arguments for `fn`
---@return runloop.Request|any request with `wait`: the function's results
function rl.perform(fn, ...) end

---Cancels the delayed requests of this loop with this function and, if given, these arguments, which are compared by
---`==`, metamethods included. The call takes time in proportion to the number of requests with this function.
---NSObject's `cancelPreviousPerformRequestsWithTarget:selector:object:`
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
---@return integer cancelled the number of requests
function rl.cancel_performs(fn, ...) end

---Cancels the request. From any thread.
---@return boolean cancelled false if it has already run
function Request:cancel() end

---The same as `cancel`.
---@return boolean cancelled
function Request:invalidate() end

---Returns whether the request has not run yet.
---@return boolean
function Request:is_valid() end

---@return string
function Request:name() end

-- Tasks --------------------------------------------------------------------------------------------------------------

---A function that may wait while other code continues. The main chunk and every callback are tasks, too.
---@class runloop.Task
local Task = {}

---@class runloop.TaskOptions
---@field [1] function the function; its arguments follow
---@field name? string for messages
---@field keeps_alive? boolean false: its waits do not keep the loop running; true if absent

---Values of the running task: the task itself sees values that it sets, and so do tasks, timers and perform requests
---that it makes from then on. Callbacks of other objects, such as streams, begin without values. Names are strings; nil
---takes a value away; `pairs` works.
---
---```lua
---rl.locals.request_id = 7
---local task = rl.task(function()
---  rl.sleep(0.01)
---  return rl.locals.request_id
---end)
---rl.locals.request_id = 8
---print(task:await(), rl.locals.request_id)
---```
---```text
---7	8
---```
---@type table<string, any>
rl.locals = {}

---Starts a task. The task runs at once, until its first wait.
---
---A table of options may stand for the function and its arguments: `rl.task{ fn, 1, 2, name = "reader", keeps_alive =
---false }`. The waits of a task with `keeps_alive = false` do not keep the loop running. Nor do the tasks that
---`rl.timeout`, `rl.first_of`, `rl.all_of`, `rl.settle_all` and groups start in it. When the loop is done, such a task
---is cancelled. But while the main chunk waits, or a task waits in `future:await`, the loop keeps running for such a
---task: it may bring the answer.
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
---@overload fun(options: runloop.TaskOptions): runloop.Task
function rl.task(fn, ...) end

---Waits for some seconds; the loop goes on meanwhile. Raises an error inside coroutines of the script.
---@param seconds number
function rl.sleep(seconds) end

---Waits until a descriptor can be read.
---
---```lua
---local pipe = assert(io.popen "sleep 0.3; echo at last")
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
---@return string? message "timed out", or the reason of the system
---@return string? code
function rl.wait_readable(fd, timeout) end

---Waits until a descriptor can be written to.
---@param fd runloop.Descriptor
---@param timeout? number seconds; absent: no limit
---@return string? events as a port delivers them
---@return string? message "timed out", or the reason of the system
---@return string? code
function rl.wait_writable(fd, timeout) end

---Calls a function as a task, and waits for it. When the time limit has passed, the task is cancelled where it waits. A
---task that has been given its result in the same pass, such as a value of a channel, takes it. Raises the function's
---error. Waits.
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

---Waits for the first of several tasks and futures to end. Functions become tasks; those that still wait when the first
---one has ended are cancelled. If two functions end in the same pass, the result of the second one is lost; a task
---keeps its result.
---
---```lua
---print(rl.first_of(function() rl.sleep(60) end, function() rl.sleep(0.01) return "fast" end))
---```
---```text
---2	fast
---```
---@param ... runloop.Task|runloop.Future|function or one list of them
---@return integer first its position; its results follow, or its error is raised
---@return any ...
function rl.first_of(...) end

---Waits for several tasks and futures to end. Functions become tasks. The first error is raised; the tasks made from
---functions are then cancelled if they still wait.
---
---```lua
---print(rl.all_of(function() rl.sleep(0.01) return "a" end, function() return "b" end))
---```
---```text
---a	b
---```
---@param ... runloop.Task|runloop.Future|function or one list of them
---@return any ... the first result of each
function rl.all_of(...) end

---Waits until all of several tasks and futures have ended in any way. Functions become tasks.
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
---@param list (runloop.Task|runloop.Future|function)[]
---@return { ok: boolean, error: any, [integer]: any }[] outcomes the results, or the error, of each
function rl.settle_all(list) end

---Waits until the task has ended. Returns its results, or raises its error. When the time limit has passed, the task
---goes on.
---@param timeout? number seconds; absent: no limit
---@return any ... or nil and "timed out"
function Task:await(timeout) end

---Cancels the task: the call in which it waits raises `rl.cancelled`, and its `<close>` variables are closed.
---@return boolean cancelled false if it has ended
function Task:cancel() end

---@return "waiting"|"running"|"done"|"failed"|"cancelled" status
function Task:status() end

---Returns where the task is, as text: in which call it waits, for what, and its stack. If the task has failed, returns
---message and traceback. Returns nil for other tasks that have ended.
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

---Returns whether it has not ended yet.
---@return boolean
function Task:is_valid() end

---@return string
function Task:name() end

---The error that cancels a task; `tostring` returns "cancelled" for it.
---@type any
rl.cancelled = {}

---Returns whether an error that `pcall` has caught, or that a `<close>` variable gets, is the one that cancels a task.
---The script's own errors never are.
---@param err any
---@return boolean
function rl.is_cancelled(err) end

-- Recordings --------------------------------------------------------------------------------------------------------

---Recordings of what the loops do. The last moments are always recorded in memory, once a loop has run for a second or
---one of these functions was called. `start` and `stop` record everything into a file, as `rlhost --trace=FILE` does
---from beginning to end. The file's extension chooses the format: `.html` is a page for the browser, `.pftrace` is
---Perfetto's format, `.json` is Chrome's trace events.
---@class runloop.Trace
local Trace = {}
rl.trace = Trace

---Writes the last moments of all loops of the process, about 16,000 events of each. If a callback is running, its
---beginning is among them.
---
---```lua
---assert(rl.trace.dump "moments.html")
---```
---@param path string a file that ends in `.html`, `.pftrace` or `.json`
---@return true? done nil if the file cannot be written, is being recorded into (EBUSY), or the recorder is off
---@return string? message
---@return string? code
function Trace.dump(path) end

---@class runloop.TraceOptions
---@field limit? integer bytes of the file; 268435456 (256 MB) if absent, at least 1048576; later events are counted

---Writes everything that happens from now on to a file, for the loops of all threads.
---@param path string as for `dump`
---@param options? runloop.TraceOptions
---@return true? done nil if the file cannot be written, or another one is being written (EBUSY)
---@return string? message
---@return string? code
function Trace.start(path, options) end

---Completes the file that `start` or `--trace` has begun. The end of the program does the same.
---@return string? path of the file; nil if nothing was being recorded, or the file is incomplete
---@return string? message
---@return string? code
function Trace.stop() end

---Calls a function, and shows in recordings how long that took. If the function waits, its pieces are shown and
---connected.
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

---Marks this moment in recordings.
---@param name string
---@param ... any shown after the name, as by `print`
function Trace.mark(name, ...) end

-- Functions that block ----------------------------------------------------------------------------------------------

---Runs a function that blocks, such as a database query, on a thread of a small pool (4), and waits for its results.
---The function, its upvalues and arguments are copied, as for `rl.thread`. Raises the function's error, or the error of
---a limit that the thread has got from the calling thread. If the task is cancelled or times out, the function is
---interrupted, as by `thread:cancel`. Waits.
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

---Threads that run functions one after the other. The threads start when you first need them, and the program does not
---wait for them.
---@class runloop.Pool
local Pool = {}

---@class runloop.PoolOptions
---@field threads? integer the largest number of threads; 4 if absent, 1 with `setup`
---@field name? string for messages
---@field setup? fun(): any makes the state of each thread, such as a connection: a function that can be copied
---@field on_close? fun(state: any) called on each thread with its state, when the pool or the program ends; may wait

---Makes a pool. With `via`, a bus of `runloop.nats`, its workers are those that `rl.worker` has made on other machines,
---and a function is called by its name: see `runloop.nats.PoolOptions`. The call waits if the pool is durable.
---@param options? runloop.PoolOptions
---@return runloop.Pool
---@overload fun(options: runloop.nats.PoolOptions): runloop.nats.Pool?, string?, string?
function rl.pool(options) end

---Lets programs on other machines call functions of this one by name, through a pool of `rl.pool`. The functions may
---wait. The worker is in the common modes from the start. Waits until the server has confirmed the subscription.
---
---```lua
---local nats = require "runloop.nats"
---local bus <close> = assert(nats.connect(nats.fake()))
---local worker <close> = assert(rl.worker { via = bus, name = "sums", functions = {
---  add = function(a, b) return a + b end } })
---local pool <close> = assert(rl.pool { via = bus, name = "sums" })
---print(pool:run("add", 20, 22))
---```
---```text
---42
---```
---@param options runloop.nats.WorkerOptions
---@return runloop.nats.Worker? worker
---@return string? message
---@return string? code
function rl.worker(options) end

---Runs a function on one of its threads, as `rl.blocking` does. Waits for a free thread; calls are served in order.
---With `setup`, the function gets the thread's state as its first argument, and is not interrupted: if the waiting
---task is cancelled, the function runs to its end, and its results are dropped.
---
---```lua
---local pool <close> = rl.pool { setup = function() return { visits = 0 } end }
---local function visit(state, name)
---  state.visits = state.visits + 1
---  return name, state.visits
---end
---print(pool:run(visit, "ann"))
---print(pool:run(visit, "bob"))
---```
---```text
---ann	1
---bob	2
---```
---@param fn function
---@param ... any arguments for `fn`
---@return any ...
function Pool:run(fn, ...) end

---Calls `fn(value, position)` for each element on all threads, and waits for all. The first error ends the call and is
---raised. Waits.
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

---Ends the pool's threads when their functions have returned. `<close>` does the same.
function Pool:close() end

-- The end ------------------------------------------------------------------------------------------------------------

---@class runloop.ShutdownOptions
---@field limit? number seconds that it may take; 5 if absent

---Calls a function before the program ends because of SIGTERM, SIGINT or `rl.shutdown`. Such functions run as tasks,
---one after the other, the newest first, and may wait. Then all tasks are cancelled, the newest first, and the loop
---ends. The first signal interrupts nothing; a second one ends the program at once.
---@param fn fun(reason: string) `reason`: "SIGTERM", "SIGINT" or the argument of `rl.shutdown`
---@param options? runloop.ShutdownOptions
function rl.on_shutdown(fn, options) end

---Ends the program in the same way, with status 0.
---@param reason? any
function rl.shutdown(reason) end

---Returns the absolute path of the directory of the script, or in a test of the test file; nil without a script. Use it
---for files beside the script.
---@return string? path
function rl.script_directory() end

-- Between tasks ------------------------------------------------------------------------------------------------------

---An answer that will come, for any number of waiting tasks of one thread.
---@class runloop.Future
local Future = {}

---```lua
---local answer = rl.future()
---rl.after(0.01, function() answer:complete("yes", 2) end)
---print(answer:await())
---print(answer:await())
---```
---```text
---yes	2
---yes	2
---```
---@return runloop.Future
function rl.future() end

---Completes the future with its values. The waiting tasks go on in the order in which they came, in the loop's next
---pass.
---@param ... any nil, a message and a code for a refusal by the system or the network
---@return boolean taken false if it had an answer already; then nothing changes
function Future:complete(...) end

---Completes the future with an error, which `await` raises.
---@param err any
---@return boolean taken false if it had an answer already; then nothing changes
function Future:fail(err) end

---Waits until the future has its answer. Each call returns the values, or raises the error.
---@param timeout? number seconds; absent: no limit
---@return any ... or nil and "timed out"
function Future:await(timeout) end

---@return boolean done true if it has its answer
function Future:is_done() end

---Growing waits between tries, to repeat something that has failed.
---@class runloop.Backoff
local Backoff = {}

---@class runloop.BackoffOptions
---@field first? number seconds before the first try; 0.05 if absent
---@field most? number the longest wait in seconds; 10 if absent
---@field factor? number each wait is this many times as long as the one before it, 1 or more; 2 if absent
---@field jitter? number the random part of each wait, from 0 to 1, so that clients come back at different times; 0.5
---@field tries? integer the number of tries after which it gives up; absent: no limit

---```lua
---local backoff = rl.backoff { first = 0.01, tries = 2 }
---print(backoff:wait())
---print(backoff:wait())
---print(backoff:wait())
---```
---```text
---1
---2
---nil	gave up after 2 tries
---```
---@param options? runloop.BackoffOptions
---@return runloop.Backoff
function rl.backoff(options) end

---Sleeps for `min(most, first * factor ^ (n - 1)) * (1 - jitter * r)` before try n; r is a random number below 1. A
---wait that is cancelled does not count. Waits.
---@return integer? try the number of this try, counted from 1
---@return string? message "gave up after 5 tries", without a wait
function Backoff:wait() end

---Begins again with the first try.
function Backoff:reset() end

---A lock that one task of a thread holds at a time, or at most `places` tasks.
---@class runloop.Mutex
local Mutex = {}

---```lua
---local mutex, total = rl.mutex(), 0
---local function add(n)
---  local held <close> = mutex:lock()
---  local before = total
---  rl.sleep(0.01)
---  total = before + n
---end
---rl.all_of(function() add(1) end, function() add(2) end)
---print(total)
---```
---```text
---3
---```
---@param places? integer how many tasks may hold it at a time, 1 or more; absent: one, which must not lock it twice
---@return runloop.Mutex
function rl.mutex(places) end

---Waits for a place, in the order in which tasks come. A mutex without a number of places raises an error if the task
---already holds it; the error says where it was locked.
---@param timeout? number seconds; absent: no limit
---@return runloop.Held? held
---@return string? message "timed out"
function Mutex:lock(timeout) end

---A place of a mutex. Another task may release it. A place that is dropped without a release stays taken.
---@class runloop.Held
local Held = {}

---Releases the place; the task that has waited longest gets it. A second call does nothing. `<close>` does the same.
function Held:unlock() end

---An event for which tasks of one thread wait, and which others signal. A condition does not remember signals: a task
---that waits later waits for the next one.
---@class runloop.Condition
local Condition = {}

---@return runloop.Condition
function rl.condition() end

---Waits until it is signalled. Waiting tasks go on in the order in which they came.
---@param timeout? number seconds; absent: no limit
---@return true? signalled
---@return string? message "timed out"
function Condition:wait(timeout) end

---Lets the task that has waited longest go on, in the loop's next pass.
---@return boolean signalled false if no task waits
function Condition:signal() end

---Lets all waiting tasks go on.
---@return integer count the number of tasks
function Condition:broadcast() end

---A queue of values between tasks of one thread. Use ports between threads.
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
---@param capacity? number how many values it holds; 0 or absent: hands each from task to task; `math.huge`: no limit
---@return runloop.Channel
function rl.channel(capacity) end

---Sends values as one message; the first is not nil. Waits while the channel is full; with capacity 0, until a task has
---received them. A sender that is cancelled while it waits has sent nothing.
---@param ... any
---@return true? sent
---@return string? message "closed", also if the port is closed while the call waits
function Channel:send(...) end

---Receives the next values. Waits while the channel is empty.
---@param timeout? number seconds; 0: does not wait; no limit if absent
---@return any ... nil and "timed out"; nil and "closed" if the channel is closed and empty
function Channel:receive(timeout) end

---Closes the channel: nothing more can be sent, and values already sent can still be received. `<close>` does the same.
function Channel:close() end

---Iterates over received values, until the channel is closed and empty. Waits.
---@return fun(): any ...
function Channel:values() end

---Returns how many values it holds now.
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

---Starts a task that belongs to the group. Raises an error if one of the group's tasks has failed, and names that
---error.
---@param fn function
---@param ... any arguments for `fn`
---@return runloop.Task
function Group:task(fn, ...) end

---Waits until all its tasks have ended. Then raises the first error that ended one of them, if any.
---@param timeout? number seconds; absent: no limit
---@return true? ended
---@return string? message "timed out"
function Group:wait(timeout) end

---Cancels the tasks that have not ended. `<close>` does the same.
function Group:cancel() end

-- Threads ------------------------------------------------------------------------------------------------------------

---A thread with its own Lua state and run loop.
---@class runloop.Thread
local Thread = {}

---@class runloop.ThreadOptions
---@field [1] function the function; its arguments follow
---@field name? string for messages
---@field keeps_alive? boolean false: the program does not wait for its end; true if absent
---@field memory? integer limit of Lua's memory there, in bytes: 524288 or more; code above it gets "not enough memory"
---@field cpu? number limit of its processor time, in seconds: 0.01 or more. At that limit, the thread ends as by
---`cancel`. Each thread that a thread starts has the same limits, or smaller ones

---Starts a thread. The function, its upvalues and arguments are copied: tables with cycles and shared parts, but
---without metatables. Values reachable from `package.loaded` are passed by name; loops, threads, sources, ports and
---tasks as handles to the same object. (You can compare a task's handle and send it back; only the task's own thread
---can call its methods.) A value that cannot be copied raises an error that says where it is. While the function waits,
---its thread runs its loop.
---A thread is like a script: after its function has returned, its loop runs until nothing is left that can call back,
---or until it is stopped. Stopping a run that the function has begun also stops the thread. If the function still
---waits when its loop is stopped, it goes on, and the thread ends when it returns. The program ends when the main loop
---is done and all threads have ended. If nobody joins a thread, its error goes to `rl.on_error`, or ends the program
---with status 1. `join` of a thread that has used up its processor time returns false and "limit: 2 s of processor
---time".
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

---Returns this thread, or nil on the main thread.
---@return runloop.Thread? thread
function rl.this_thread() end

---Returns its loop, for `perform`, `stop`, `wake_up` and `is_waiting`.
---@return runloop.Loop loop
function Thread:loop() end

---Waits until the thread has ended: its function has returned, and its loop is done. The calling thread's loop goes on
---meanwhile. If a C function keeps a cancelled thread from ending, the message names it: "timed out: in string.find,
---called at x.lua:3, for 5 s".
---@param timeout? number seconds; absent: no limit
---@return boolean? succeeded true and the results, or false and the error; nil and "timed out" when the time is over
---@return any ...
function Thread:join(timeout) end

---@return boolean
function Thread:is_alive() end

---Asks the thread to end: its loop is stopped, its tasks are cancelled, and running Lua code gets the error
---`rl.cancelled`. A thread that ends in this way has not failed. A C function cannot be interrupted, for example
---`string.find` with a pattern that backtracks very often: the thread ends when the function has returned. Finalizers,
---hooks, message handlers and functions that close variables get the error when `cancel` is called again. If code must
---end in time, run it in a process of its own.
function Thread:cancel() end

---The same as `cancel`.
function Thread:invalidate() end

---The same as `is_alive`.
---@return boolean
function Thread:is_valid() end

---@return string
function Thread:name() end

-- Ports --------------------------------------------------------------------------------------------------------------

---A queue of messages for one loop. Every thread can send to it. NSPort
---@class runloop.Port
local Port = {}

---@class runloop.PortOptions
---@field callback? fun(port: runloop.Port, message: runloop.Message) absent: an empty port, which keeps a mode alive
---@field capacity? integer how many messages may wait; 1024 if absent
---@field order? integer lower ones first; 0 if absent
---@field name? string for messages
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it; true if absent

---@class runloop.Message
---@field id integer 0 if the sender gave none
---@field data any a copy of the sender's data
---@field reply_port? runloop.Port for the answer

---Makes a port. The port keeps its mode alive, even if it never gets a message.
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
---@field before? number a date: if the port is full, wait until then; no limit if absent

---Puts a message into the port's queue. From any thread. No message is lost while the port is valid.
---@param message runloop.SendOptions
---@return boolean? sent
---@return "timed out"|"invalid"|nil reason
function Port:send(message) end

---@return integer
function Port:capacity() end

---Returns how many messages wait.
---@return integer
function Port:count() end

---@return integer
function Port:order() end

---Removes it from every mode for good. Waiting senders get "invalid".
function Port:invalidate() end

---@return boolean
function Port:is_valid() end

---@return string
function Port:name() end

-- Message ports ------------------------------------------------------------------------------------------------------

---A port to which other processes of the same user can send, by its name. CFMessagePort
---@class runloop.MessagePort
local MessagePort = {}

---@class runloop.MessagePortOptions
---@field callback fun(port: runloop.MessagePort, id: integer, data: string): string? returns the answer
---@field name? string by which others find it; at most one living process holds a name
---@field order? integer lower ones first; 0 if absent
---@field on_invalidate? fun(port: runloop.MessagePort) called when it is invalidated
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it; true if absent

---Makes a port with a name. Its callback may wait; the answer is sent when it returns.
---
---```lua
---local server = assert(rl.message_port {
---  name = "example.echo." .. os.time() .. math.random(1e9),
---  callback = function(port, id, data) return data:upper() end,
---})
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
---
---With `via`, a bus of `runloop.nats`, processes on other machines can find the port, and the call waits for the
---server: see `runloop.nats.MessagePortOptions`.
---@param options runloop.MessagePortOptions
---@return runloop.MessagePort? port
---@return string? message
---@return string? code
---@overload fun(options: runloop.nats.MessagePortOptions): runloop.nats.MessagePort?, string?, string?
function rl.message_port(options) end

---Gives the port a name, or a new one.
---@param name string
---@return boolean? done
---@return string? message
---@return string? code
function MessagePort:set_name(name) end

---Removes it from every mode for good, and frees the name.
function MessagePort:invalidate() end

---@return boolean
function MessagePort:is_valid() end

---@return string
function MessagePort:name() end

---@return integer
function MessagePort:order() end

---The sender's side of a message port.
---@class runloop.RemotePort
local RemotePort = {}

---Finds the message port of a name. Returns the same object for the same name as long as that object is valid. With the
---option `via`, a bus of `runloop.nats`, the port may be on another machine: see `runloop.nats.RemotePortOptions`.
---@param name string
---@return runloop.RemotePort? remote
---@return string? message
---@return string? code
---@overload fun(name: string, options: runloop.nats.RemotePortOptions): runloop.nats.RemotePort?, string?, string?
function rl.remote_port(name) end

---@alias runloop.RemoteFailure "send timed out"|"reply timed out"|"invalid"|"became invalid"|string

---@class runloop.RequestOptions
---@field send_timeout? number seconds
---@field reply_timeout? number seconds
---@field reply_mode? string run this loop in that mode until the answer comes; absent: only this task waits

---Sends a request, and waits for the answer. Waits.
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

---Waits until the other side has handled all messages that were sent before.
---@param timeout? number seconds; absent: no limit
---@return boolean? done
---@return runloop.RemoteFailure? reason
function RemotePort:flush(timeout) end

---Returns how many messages may not have been handled yet.
---@return integer
function RemotePort:unacknowledged() end

---Returns the number of the process that holds the name.
---@return integer
function RemotePort:process() end

---Closes the connection.
function RemotePort:invalidate() end

---@return boolean
function RemotePort:is_valid() end

---@return string
function RemotePort:name() end

-- Notifications ------------------------------------------------------------------------------------------------------

---Messages to the functions of this thread that observe their names; posted at once, or queued and merged.
---NSNotificationQueue
---@class runloop.Notifications
local Notifications = {}
rl.notifications = Notifications

---@class runloop.NotificationObserver
local NotificationObserver = {}

---Calls a function for each notification with a name; with a sender, only for those from that sender.
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

---Calls the observers now, in the order in which they were added.
---@param name string
---@param info? any
---@param sender? any
function Notifications:post(name, info, sender) end

---@class runloop.EnqueueOptions
---@field style? "asap"|"idle"|"now" `"asap"` if absent
---@field coalesce? ("name"|"sender")[] which queued notifications this one replaces; both if absent, `{}`: none
---@field modes? runloop.Modes in which it may be posted; `"default"` if absent
---@field sender? any

---Queues a notification. Style `"asap"` posts it in the next pass, `"now"` at once, and `"idle"` before the loop would
---sleep, after queued requests and overdue timers.
---@param name string
---@param info? any
---@param options? runloop.EnqueueOptions
function Notifications:enqueue(name, info, options) end

---Removes queued notifications with a name, from a sender, or both.
---@param name? string
---@param sender? any
---@return integer dequeued the number removed
function Notifications:dequeue(name, sender) end

---Ends the observation.
function NotificationObserver:invalidate() end

---@return boolean
function NotificationObserver:is_valid() end

---Returns the name of the notification.
---@return string
function NotificationObserver:name() end

-- Errors, and looking inside -----------------------------------------------------------------------------------------

---@class runloop.ErrorInfo
---@field traceback string message, stack, and the waits that have passed the error on: see `rl.traceback`
---@field where? string the item whose callback failed: `timer "poll" made at app.lua:12`, `watcher of "src" made at
---app.lua:3`

---Sets the function that gets all uncaught errors, in callbacks, tasks and the main chunk. Without one, such an error
---is printed with a traceback, and the program ends with exit status 1.
---
---```lua
---rl.on_error(function(err, info) print("caught: " .. err.reason) end)
---rl.after(0.01, function() error { reason = "just so" } end)
---```
---```text
---caught: just so
---```
---@param fn? fun(err: any, info: runloop.ErrorInfo) nil: restores the default
---@return function? before the previous function
function rl.on_error(fn) end

---Limits the time for which a callback of this thread's loop may hold the loop. A callback that takes longer gets the
---error "limit: held the loop for 2 s", at most a quarter of the limit later, and again each time that it runs for that
---long once more. Time in which a callback waits does not count. A C function cannot be interrupted: the error comes
---when it has returned.
---
---```lua
---rl.limit_callbacks(0.1)
---rl.on_error(function(err) print((err:gsub("^[^:]*:%d+: ", ""))) end)
---rl.after(0, function() while true do end end)
---```
---```text
---limit: held the loop for 0.1 s
---```
---@param seconds? number 0.01 or more; nil: no limit
function rl.limit_callbacks(seconds) end

---The allowances of a sandbox. A list names what is allowed, and true allows all of a kind: see docs/sandbox.md.
---@class runloop.SandboxOptions
---@field read? string[]|boolean files that may be read, and directories in which everything may be read
---@field write? string[]|boolean files and directories in which files may be written, made and removed
---@field connect? (string|integer)[]|boolean `"host:port"`, `port`, `"port:name"` of a message port
---@field listen? (string|integer)[]|boolean `port`, `"port:name"` of a message port
---@field run? string[]|boolean programs that may be run: names or paths
---@field env? string[]|boolean environment variables that the script and its programs may see
---@field modules? boolean C modules and bytecode

---Makes the kernel refuse everything that the options do not allow, from now on and for good, to this process, its
---threads and its programs. `rlhost --sandbox` does the same before the script begins. A second call can only remove
---permissions.
---
---Call it before anything that starts a thread: it raises an error while other threads run. Modules that the script
---requires later must be where `package.path` finds them now.
---
---```lua
---print(rl.sandbox { read = { "." } })
---print(io.open "/etc/passwd")
---```
---```text
---true
---nil	EACCES: not allowed by the sandbox: --allow-read=/etc (/etc/passwd)	13
---```
---@param options runloop.SandboxOptions
---@return true? entered
---@return string? message if the kernel cannot enforce it, or a path does not exist; nothing has changed then
---@return string? code `"ENOTSUP"`, `"ENOENT"`
function rl.sandbox(options) end

---Returns an error as text: the message, the stack where it was raised, and the task or thread in which it was raised.
---For each wait that has passed the error on, as `task:await`, `rl.timeout` and `pool:run` do, the stack of the waiter
---follows. If no wait has passed the error on, it returns the same as `debug.traceback`. The function can serve as the
---handler of `xpcall`. A thread keeps these stacks of its last 32 errors.
---
---The text shows at most 22 lines of a stack and ten waits; the middle is replaced by the number of omitted ones.
---
---```lua
---local task = rl.task(function() rl.sleep(0.01) error("no answer", 0) end)
---local fine, text = xpcall(function() rl.timeout(1, function() task:await() end) end, rl.traceback)
---print(text:match "^[^\n]*")
---for line in text:gmatch "\n(%a[^\n]-) [^ \n]+:%d+" do print(line) end
---```
---```text
---no answer
---in task made at
---awaited at
---in task made at
---awaited at
---```
---@param err any the error value
---@return string text
function rl.traceback(err) end

---@class runloop.InspectOptions
---@field depth? integer levels of tables to show; 8 if absent, at most 200
---@field width? integer columns of a line; 80 if absent
---@field entries? integer the most entries of one table; 100 if absent
---@field colors? boolean whether the text has colours for a terminal

---Returns a value as text for people, as the prompt shows it: keys are sorted, texts are quoted, a table that contains
---itself is `<cycle>`, and the `__name` of a metatable comes before the fields. It calls no metamethod but
---`__tostring`, and never raises because of a value: an error in `__tostring` becomes a part of the text.
---
---```lua
---print(rl.inspect { 1, 2, name = "x\n", inner = { deep = {} } })
---print(rl.inspect({ a = { b = { c = 1 } } }, { depth = 2 }))
---```
---```text
---{ 1, 2, inner = { deep = {} }, name = "x\n" }
---{ a = { b = {…} } }
---```
---@param value any
---@param options? runloop.InspectOptions
---@return string text
function rl.inspect(value, options) end

---Returns what keeps the loop alive, as text for people; and which tasks wait for a future or mutex, and who holds it.
---@return string text
function rl.why() end

---Lets `rlhost attach` open a prompt in this process under a name, as `rlhost --attach=NAME` does. Without this call,
---the prompt opens when `rlhost attach` asks for it. `rl.attach(false)` forbids both, and disconnects attached clients.
---Only processes of the same user can attach; a line on standard error reports each client. The port does not keep the
---loop alive. Several processes may have the same name. Only on the main thread; returns nil and a reason if the system
---refuses.
---```lua
---print(rl.attach "web")       -- from now on: rlhost attach web
---rl.attach(false)             -- and no longer
---```
---```text
---web
---```
---@param name? string|false a name besides the process's number: not a number, without blanks and "/"
---@return string? name the name to attach by
---@return string? message
---@return string? code
function rl.attach(name) end

return rl
