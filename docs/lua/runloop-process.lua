---@meta runloop.process

-- Every call of the module `runloop.process`: programs and signals. It may be used from every thread; a program belongs to the thread
-- that has started it.

---@class runloop.process
local process = {}

---What a program gets, and what is to become of what it writes.
---@class runloop.process.Options
---@field environment? table<string, string|number|false> changes to this process's own variables; false: it does not get that one
---@field clean_environment? boolean it gets no variables but those of `environment`
---@field directory? string where it runs
---@field input? "pipe"|"inherit"|"null"|string|table `run`: the text itself (else nothing); `start`: a path, a stream or an open file. A stream may be closed then: the program keeps what it was given
---@field output? "pipe"|"inherit"|"null"|string|table as `input`; a path is written anew. `run` pipes, `start` inherits
---@field errors? "pipe"|"inherit"|"null"|"output"|string|table the same; "output": where its output goes
---@field terminal? { rows: integer?, columns: integer? } it gets a terminal of its own (24 by 80), whose keyboard and screen are `input` and `output`
---@field detached? boolean it leads a session of its own, and is left running when this process ends
---@field dies_with_host? boolean it is killed when this process ends, in whatever way; what it has started is not
---@field modes? runloop.Modes `start` only: in which `on_exit`, `on_output` and `on_errors` are called; `"common"` if absent. `loop:add(program, mode)` adds its end to another
---@field foreground? boolean it has the terminal of this process until it ends: for what reads keys. No effect where there is none, or this process is in the background; nil, "EBUSY: …" while another program has it
---@field on_exit? fun(program: runloop.process.Program, how: "exit"|"signal", value: integer|string) called when it has ended
---@field on_output? fun(program: runloop.process.Program, bytes?: string, problem?: string, code?: string) `start` only: called with what it writes, as it comes, and with nil at the end of that. Its output is piped then, and what it has written comes before `on_exit`, also where this function waits
---@field on_errors? fun(program: runloop.process.Program, bytes?: string, problem?: string, code?: string) the same of its standard error
---@field name? string for messages; else its words
---@field timeout? number `run` only: after so many seconds its group gets SIGTERM, and SIGKILL after `grace`
---@field grace? number `run` only: seconds (2)
---@field max_output? integer `run` only: how many bytes of output, and of errors, are kept (16 MB); the rest is read and dropped

---What became of a program.
---@class runloop.process.Result
---@field code? integer its status, if it has ended by itself
---@field signal? string the signal that has ended it: "TERM"
---@field output? string
---@field errors? string
---@field truncated boolean some output is missing: there was more than `max_output`, or others that it left behind hold its output open
---@field timed_out boolean

---Runs a program to its end. Waits. The first word is the program, looked up in the script's PATH; the others are its arguments, as they are: no
---shell is involved. Returns half a second after its end at the latest, also if a program that it left behind holds its output open.
---A program that cannot be started is an answer: nil, `"ENOENT: no such program: frobnicate"`, `"ENOENT"`. With a time-out, the result
---is followed by `"timed out"`. Whoever is cancelled in it ends the program.
---@param options runloop.process.Options|string[]
---@return runloop.process.Result? result
---@return string? problem
---@return string? code
function process.run(options) end

---Runs a text in /bin/sh, as `run` does. Take care what you put into it.
---@param text string
---@param options? runloop.process.Options
---@return runloop.process.Result? result
---@return string? problem
---@return string? code
function process.shell(text, options) end

---Starts a program that goes on beside the script. It keeps the loop running until it has ended, and gets SIGTERM when this process
---ends, SIGKILL a second later, with all that it has started and left in its group; unless it is `detached`.
---@param options runloop.process.Options|string[]
---@return runloop.process.Program? program
---@return string? problem
---@return string? code
function process.start(options) end

---Calls a function whenever a signal has come, in the common modes of the current loop, between two callbacks and never in the middle
---of one. While the handler is in a mode, the signal does nothing else: a handler of "INT" or "TERM" takes the host's place. A second
---one of these within a second of the first, which the program had no time to see, still ends it. Keeps no loop running.
---@param name string "HUP", "USR1", "TERM", …
---@param fn fun(handler: runloop.process.Signal, count: integer) `count`: how many have come since the last call
---@return runloop.process.Signal? handler
---@return string? problem
---@return string? code
function process.on_signal(name, fn) end

---The same as an object, for modes: `loop:add(process.signal { name = "USR1", callback = fn }, "listening")`.
---@param options { name: string, callback: function, order: integer? }
---@return runloop.process.Signal? handler
---@return string? problem
---@return string? code
function process.signal(options) end

---Waits for a signal: true, or nil and "timed out" after so many seconds. As a handler, it keeps no loop running: a script in which nothing
---else is left ends, also if its main chunk is what waits.
---@param name string
---@param timeout? number
---@return true? came
---@return string? problem
function process.wait_signal(name, timeout) end

---This process's variables.
---@return table<string, string>
function process.environment() end

---This process's number.
---@return integer
function process.id() end

---Where relative paths begin.
---@return string? path
---@return string? problem
---@return string? code
function process.directory() end

---Changes that, for all threads.
---@param path string
---@return true? done
---@return string? problem
---@return string? code
function process.set_directory(path) end

---Tells the service manager that has started this process, as sd_notify(3) does: "ready", "stopping", "reloading", an assignment such as
---"MAINPID=12", or any other text as the status that people see. False where there is none. "reloading" comes with the time, as
---`Type=notify-reload` wants it.
---@param state string
---@return boolean? told
---@return string? problem
---@return string? code
function process.notify(state) end

---Has a timer tell the service manager, twice as often as it wants, that the loop still turns. nil where it does not want that
---(WatchdogSec= is not set).
---@return runloop.Timer? timer
function process.watchdog() end

---@class runloop.process.Program
---@field input? runloop.net.Stream what it reads, if that is a pipe or its terminal
---@field output? runloop.net.Stream what it writes, if that is a pipe or its terminal
---@field errors? runloop.net.Stream
local program = {}

---Waits for its end, in whatever mode: "exit" and its status, or "signal" and the signal's name. After so many seconds nil, "timed out".
---@param timeout? number
---@return "exit"|"signal"|nil how
---@return integer|string value
function program:wait(timeout) end

---Sends its group a signal.
---@param name string
---@return true? sent
---@return string? problem
---@return string? code
function program:signal(name) end

---Ends it and its group, also what is left of that when it has ended itself: SIGTERM, and SIGKILL after so many seconds (2). Waits, and
---answers as `wait`.
---@param grace? number
---@return "exit"|"signal" how
---@return integer|string value
function program:stop(grace) end

---Changes the size of its terminal; it is told by SIGWINCH.
---@param rows integer
---@param columns integer
---@return true? done
---@return string? problem
---@return string? code
function program:resize(rows, columns) end

---@return integer number of the process
function program:pid() end

---@return boolean
function program:is_running() end

---@return string
function program:name() end

---What hears of a signal; see `process.on_signal`. It can be in modes.
---@class runloop.process.Signal
local signal = {}

---Stops listening, for good.
function signal:invalidate() end

---@return boolean
function signal:is_valid() end

---@return string
function signal:name() end

---@return integer
function signal:order() end

return process
