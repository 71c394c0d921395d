---@meta runloop.process

-- Every call of the module `runloop.process`: programs and signals. Every thread may use it. A program belongs to the
-- thread that has started it.

---@class runloop.process
local process = {}

---Options of a program. Standard streams are "pipe", "inherit", "null", a path, a stream or an open file; paths are
---written from the beginning. What you have written to a stream, to a file or to standard output comes before the
---program's output. If you give a stream, you may close it afterwards: the program keeps its descriptor. For
---`process.run`, `input` is the text itself (nothing if absent), and output and errors are piped if absent; for
---`process.start` they are inherited.
---
---`on_output` and `on_errors` (`start` only) get what the program writes, as it comes, and nil at the end. Each of
---them makes that stream a pipe. The program's whole output comes before `on_exit`, even if these functions wait.
---
---`modes` (`start` only) are the modes in which `on_exit`, `on_output` and `on_errors` are called; `"common"` if
---absent. `loop:add(program, mode)` adds the program to another mode.
---
---`foreground` gives the program the terminal of this process until it ends, for programs that read keys. It has no
---effect without a terminal, or if this process is in the background. While another program has the terminal: nil,
---"EBUSY: …".
---@class runloop.process.Options
---@field environment? table<string, string|number|false> changes to this process's variables; false removes one
---@field clean_environment? boolean true: it gets only the variables of `environment`
---@field directory? string its working directory
---@field input? "pipe"|"inherit"|"null"|string|table `run`: the text; `start`: a path, stream or file, too
---@field output? "pipe"|"inherit"|"null"|string|table where its output goes
---@field errors? "pipe"|"inherit"|"null"|"output"|string|table its errors; "output": where its output goes
---@field terminal? { rows: integer?, columns: integer? } a terminal of its own (24 by 80), as `input` and `output`
---@field detached? boolean true: it leads a session of its own, and goes on when this process ends
---@field dies_with_host? boolean true: it is killed however this process ends; programs that it has started are not
---@field modes? runloop.Modes `start` only: for its three functions; `"common"` if absent
---@field foreground? boolean true: it has the terminal of this process until it ends, for programs that read keys
---@field on_exit? fun(program: runloop.process.Program, how: "exit"|"signal", value: integer|string) its end
---@field on_output? fun(program: runloop.process.Program, bytes?: string, problem?: string, code?: string)
---@field on_errors? fun(program: runloop.process.Program, bytes?: string, problem?: string, code?: string)
---@field name? string for messages; its words if absent
---@field timeout? number `run` only: seconds until its group gets SIGTERM, and SIGKILL after `grace`
---@field grace? number `run` only: seconds (2)
---@field max_output? integer `run` only: bytes of output, and of errors, to keep (16 MB); the rest is dropped

---How a program has ended.
---@class runloop.process.Result
---@field code? integer its exit status, if no signal ended it
---@field signal? string the signal that ended it: "TERM"
---@field output? string
---@field errors? string
---@field truncated boolean output is missing: more than `max_output`, or another program still holds it open
---@field timed_out boolean

---Runs a program to its end. Waits. The first word is the program, which is searched for in the script's PATH; the
---others are its arguments, exactly as you write them, without a shell. Returns half a second after the program's end
---at the latest, even if a program that it has started holds its output open. A program that cannot be started gives
---nil, `"ENOENT: no such program: frobnicate"`, `"ENOENT"`. After a time-out, `"timed out"` follows the result. If the
---task is cancelled, the program is ended.
---@param options runloop.process.Options|string[]
---@return runloop.process.Result? result
---@return string? problem
---@return string? code
function process.run(options) end

---Runs a text in /bin/sh, as `run` does. Never put text from outside into the command line. Waits.
---@param text string
---@param options? runloop.process.Options
---@return runloop.process.Result? result
---@return string? problem
---@return string? code
function process.shell(text, options) end

---Starts a program that runs in parallel with the script. The program keeps the loop running until it has ended. When
---this process ends, the program gets SIGTERM, and SIGKILL a second later, together with all programs in its group,
---unless it is `detached`. Waits only if a stream in `output` or `errors` has not yet sent what you have written to it.
---@param options runloop.process.Options|string[]
---@return runloop.process.Program? program
---@return string? problem
---@return string? code
function process.start(options) end

---Calls a function whenever a signal has come, in the common modes of the current loop, between two callbacks and never
---inside one. While the handler is in a mode, the signal has no other effect: a handler of "INT" or "TERM" replaces the
---host's. If the program had no time to handle the first signal, a second one within a second still ends it. A
---handler does not keep the loop running.
---@param name string "HUP", "USR1", "TERM", …
---@param fn fun(handler: runloop.process.Signal, count: integer) `count`: signals since the last call
---@return runloop.process.Signal? handler
---@return string? problem
---@return string? code
function process.on_signal(name, fn) end

---Makes a handler as an object, for modes: `loop:add(process.signal { name = "USR1", callback = fn }, "listening")`.
---@param options { name: string, callback: function, order: integer? }
---@return runloop.process.Signal? handler
---@return string? problem
---@return string? code
function process.signal(options) end

---Waits for a signal. Returns true, or nil and "timed out" after some seconds. The wait does not keep the loop running:
---a script in which nothing else is left ends, even if its main chunk waits for the signal.
---@param name string
---@param timeout? number
---@return true? came
---@return string? problem
function process.wait_signal(name, timeout) end

---Returns this process's environment variables.
---@return table<string, string>
function process.environment() end

---Returns this process's number.
---@return integer
function process.id() end

---Returns the working directory, where relative paths begin.
---@return string? path
---@return string? problem
---@return string? code
function process.directory() end

---Changes the working directory, for all threads.
---@param path string
---@return true? done
---@return string? problem
---@return string? code
function process.set_directory(path) end

---Gives up root's rights for those of another user, in all threads and for good; only the main thread does it. A name
---gets the groups that the system lists for it; a number gets none. HOME, USER and LOGNAME change, too. Programs that
---are started later are that user's, and the socket of `rl.attach` is opened again for that user. Without root's
---rights: nil, `"EPERM: only root can become www-data"`, `"EPERM"`. Without such a user:
---`"ENOENT: no user named frob"`. If only some identities can be changed, or root's rights could be regained, the
---process ends with status 77.
---@param user string|integer
---@param group? string|integer the user's own if absent
---@return true? done
---@return string? problem
---@return string? code
function process.set_user(user, group) end

---Reports to the service manager that has started this process, as sd_notify(3) does: "ready", "stopping", "reloading",
---an assignment such as "MAINPID=12", or any other text as the status that people see. "reloading" contains the time,
---as `Type=notify-reload` needs it. After "ready", the host sends "stopping" by itself when SIGTERM, SIGINT or
---`rl.shutdown` ends the process. "stopping" is sent once. Returns false without a service manager.
---@param state string
---@return boolean? told
---@return string? problem
---@return string? code
function process.notify(state) end

---Makes a timer that reports to the service manager that the loop still runs, twice as often as the manager needs.
---Returns nil if the manager does not expect that (WatchdogSec= is not set).
---@return runloop.Timer? timer
function process.watchdog() end

---@class runloop.process.Program
---@field input? runloop.net.Stream its standard input, if that is a pipe or its terminal
---@field output? runloop.net.Stream its standard output, if that is a pipe or its terminal
---@field errors? runloop.net.Stream
local program = {}

---Waits for its end, in any mode. Returns "exit" and its status, or "signal" and the signal's name; nil, "timed out"
---after some seconds.
---@param timeout? number
---@return "exit"|"signal"|nil how
---@return integer|string value
function program:wait(timeout) end

---Sends a signal to its process group.
---@param name string
---@return true? sent
---@return string? problem
---@return string? code
function program:signal(name) end

---Ends it and its group, including programs that still run there after its own end: SIGTERM, and SIGKILL after some
---seconds (2). Waits, and returns as `wait` does.
---@param grace? number
---@return "exit"|"signal" how
---@return integer|string value
function program:stop(grace) end

---Changes the size of its terminal; the program gets SIGWINCH.
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

---A handler of a signal; see `process.on_signal`. A handler can be in modes.
---@class runloop.process.Signal
local signal = {}

---Ends the handler for good.
function signal:invalidate() end

---@return boolean
function signal:is_valid() end

---@return string
function signal:name() end

---@return integer
function signal:order() end

return process
