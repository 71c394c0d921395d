---@meta runloop.test

-- Every call of the module `runloop.test`, for readers and for Lua editors. Only files that `rlhost test` runs can
-- require it. Times are seconds. Assertions raise errors, which name the line of the test; `note` is put before their
-- messages.

---@class runloop.test
---@field rlhost string the path of the rlhost that runs the tests, for `t.spawn`
---@field gen runloop.test.Generators makers of random values, for `t.forall`
local t = {}

-- Defining tests -----------------------------------------------------------------------------------------------------

---Options of a test, or of a group for all its tests. `starts_at` is seconds since 1970, a date in UTC such as
---"2024-02-29 12:00:00", or a table as `os.time` takes it.
---@class runloop.test.Options
---@field timeout? number real seconds that it may take; those of `--timeout` (10) if absent
---@field real_time? boolean the test runs in real time
---@field skip? boolean|string true: the test does not run; a string says why
---@field only? boolean true: only tests with this option run in this file
---@field starts_at? number|string|table the wall clock at its beginning; 2000-01-01 if absent
---@field time_zone? string the zone of `os.date`, such as "Europe/Berlin"; that of `--tz` (UTC) if absent
---@field retries? integer how often it is tried again if it fails; if it passes then, it is flaky
---@field fails? boolean|string true: the test is expected to fail, and fails if it passes; a string says why
---@field leaks? boolean|string[] false: leaks are cleaned up silently; or the kinds that it may leave: "timer" …
---@field tags? string[] for `--tags` and `--skip-tags`, beside words such as #slow in its name

---Groups tests. The call runs `body` at once, which defines the tests.
---@param name string
---@param body fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.describe(name, body) end

---Defines a test. It runs as a task on a fresh main loop. A test without a body counts as not written yet.
---@param name string
---@param body? fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.it(name, body) end

---Outside of tests, defines a test that does not run. Inside a test, ends it as skipped, with a reason.
---@param name string the name, or the reason
---@param body? fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.skip(name, body) end

---Defines a test that excludes the others: if a file has such tests, only these run. The report has the number of tests
---that did not run.
---@param name string
---@param body fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.only(name, body) end

---Sets a function that is called before each test of the group, as part of it. Functions of outer groups come first.
---@param body fun()
function t.before_each(body) end

---Sets a function that is called after each test of the group, whatever its result. Functions of inner groups come
---first; within a group, the last defined.
---@param body fun()
function t.after_each(body) end

---Sets a function that is called once, before the first of the group's tests that run. Programs and other things that
---the function starts live as long as the group, and the tests do not report them as leaks; time then goes on from test
---to test. If the function fails, all tests of the group fail.
---@param body fun()
function t.before_all(body) end

---Sets a function that is called once, after the last of the group's tests that run. If the group leaves something
---behind after that, the group fails.
---@param body fun()
function t.after_all(body) end

---In a test, sets a function that is called after the test, whatever its result; the last one first. In `before_all`,
---the function is called after the group.
---@param body fun()
function t.finally(body) end

---Makes a resource that the tests of a group share: made when a test first calls the returned function, freed when the
---group ends. In a test, the resource belongs to the test. Without `free`, the value's `__close` frees it.
---@generic T
---@param make fun(): T
---@param free? fun(value: T)
---@return fun(): T
function t.resource(make, free) end

---Defines a test for each case: for each element of an array, or for each field of a table with its name. A case that
---is an array is unpacked. In the name, %d, %s and the like stand for the arguments, $name for a field of the case.
---@param cases table at least one case
---@param name string
---@param body fun(...)
---@overload fun(cases: table, name: string, options: runloop.test.Options, body: fun(...))
function t.each(cases, name, body) end

-- Assertions ---------------------------------------------------------------------------------------------------------

---Fails unless both are equal. Tables are equal if they have equal values under equal keys; metatables do not count,
---except one with `__eq`, which then decides. NaN equals NaN. Returns `actual`.
---@generic T
---@param actual T
---@param expected any
---@param note? any
---@return T
function t.equal(actual, expected, note) end

---Fails unless both are the same table, function or other object, or equal strings, numbers or booleans. Returns
---`actual`.
---@generic T
---@param actual T
---@param expected any
---@param note? any
---@return T
function t.same(actual, expected, note) end

---Fails for nil and false. Returns the value.
---@generic T
---@param value T?
---@param note? any
---@return T
function t.truthy(value, note) end

---Fails unless the value is nil or false. Returns the value.
---@param value any
---@param note? any
---@return nil|false
function t.falsy(value, note) end

---Calls a function, which may wait, and fails unless it raises an error. Returns the error value.
---@param body fun()|table|userdata a function, or an object with `__call`
---@param expected? any a string: a pattern or text in the message; anything else: equal to the error value
---@param note? any
---@return any raised
function t.error(body, expected, note) end

---@class runloop.test.Eventually
---@field within? number the seconds after which it fails (5)
---@field every? number the seconds between two tries (0.01)

---Calls a function repeatedly until it returns a true value, and returns its results. An error counts as "not yet".
---Waits.
---@param body fun(): ...
---@param options? runloop.test.Eventually
---@return any ...
function t.eventually(body, options) end

---Wraps a function that must be called exactly `n` times (1) in this test. The test waits for these calls as long as
---anything can still happen; one more call is an error at once. `t.expect(0)` is a callback that must not be called.
---@param body? fun(...): ...
---@param n? integer
---@return fun(...): ...
---@overload fun(n: integer): fun(...)
function t.expect(body, n) end

---Fails unless a value is as it was at the last `rlhost test --update`. The value is stored in a file beside the tests,
---with `.snap` instead of `.lua`: strings as they are, tables with a line for each field.
---@generic T
---@param value T
---@param name? string distinguishes several snapshots of one test; without it, their order does
---@return T
function t.snapshot(value, name) end

-- Properties ---------------------------------------------------------------------------------------------------------

---Calls a function with random values. The test fails if the function raises an error or returns false. The report then
---has the simplest values that were found for which the function fails. The values follow from `--seed`. `runs` is the
---number of values to try (100; at least 1), `shrinks` the number of tries to find simpler ones (2000).
---@param generators runloop.test.Generator|runloop.test.Generator[] one for each argument
---@param body fun(...): boolean?
---@param options? { runs?: integer, shrinks?: integer }
function t.forall(generators, body, options) end

---Makes random values.
---@class runloop.test.Generator
local Generator = {}

---Returns a generator of the results of `fn` for its values.
---@param fn fun(value: any): any
---@return runloop.test.Generator
function Generator:map(fn) end

---Returns a generator of those values for which `fn` returns true.
---@param fn fun(value: any): boolean
---@return runloop.test.Generator
function Generator:filter(fn) end

---@alias runloop.test.Sizes { min?: integer, max?: integer }

---The generators: `list` makes arrays of 0 to 20 elements, `string` makes strings of the alphabet or of all bytes,
---`record` makes tables with these fields.
---@class runloop.test.Generators
---@field integer fun(low?: integer, high?: integer): runloop.test.Generator whole numbers, from -1000 to 1000
---@field number fun(low?: number, high?: number): runloop.test.Generator numbers, from 0 to 1
---@field boolean fun(): runloop.test.Generator
---@field constant fun(value: any): runloop.test.Generator
---@field element fun(list: any[]): runloop.test.Generator one of the elements; the first is the simplest
---@field one_of fun(list: runloop.test.Generator[]): runloop.test.Generator values of one of several generators
---@field list fun(generator: runloop.test.Generator, options?: runloop.test.Sizes): runloop.test.Generator
---@field string fun(alphabet?: string, options?: runloop.test.Sizes): runloop.test.Generator
---@field record fun(fields: table<any, runloop.test.Generator>): runloop.test.Generator

-- Doubles ------------------------------------------------------------------------------------------------------------

---A function that records its calls.
---@class runloop.test.Spy
---@overload fun(...): ...
---@field calls table[] the arguments of each call, with their number as `n`, and its results as `results`
local Spy = {}

---Returns a function that records its calls, and calls `fn`.
---@param fn? function
---@return runloop.test.Spy
function t.spy(fn) end

---Puts a spy that calls `fn`, or does nothing, into a table's field until the test ends. A value other than a function
---replaces the field as it is.
---@param table table
---@param key any
---@param fn? any
---@return any spy
function t.stub(table, key, fn) end

---Returns how often it was called.
---@return integer
function Spy:count() end

---Fails unless the spy was called exactly with these arguments, in this order.
---@param expected any[][] the arguments of each call
---@param note? any
function Spy:equal(expected, note) end

---Fails unless one of its calls had these arguments.
---@param ... any
function Spy:called_with(...) end

---Forgets its calls.
function Spy:clear() end

-- Journals -----------------------------------------------------------------------------------------------------------

---An array of entries. Calling it is `add`.
---@class runloop.test.Journal
---@overload fun(...)
---@field [integer] string
local Journal = {}

---Makes a journal, which records events in order.
---@param options? { times?: boolean } `times`: each entry begins with the seconds since the journal was made
---@return runloop.test.Journal
function t.journal(options) end

---Writes an entry: its arguments, with spaces between them.
---@param ... any
function Journal:add(...) end

---Returns the entries, one a line.
---@return string
function Journal:text() end

---Fails unless these are the entries.
---@param expected string|string[] an array, or one string with a line for each
---@param note? any
function Journal:equal(expected, note) end

-- Programs -----------------------------------------------------------------------------------------------------------

---Options of `t.spawn`: the program, which is searched for in PATH, and its arguments by position. `RLHOST_SEED` in its
---environment is set to a number that follows from the test's seed.
---@class runloop.test.Spawn
---@field [integer] string|number
---@field terminal? boolean|{ rows?: integer, columns?: integer } it gets a terminal (24 by 80) instead of three pipes
---@field env? table<string, string|number|false> variables to set, false removes one; the others are inherited
---@field directory? string its working directory
---@field name? string for messages, instead of the program's
---@field virtual_time? boolean for an rlhost: it uses the test's time, as do those that it starts; an error for others

---A program that a test has started. `<close>` kills it.
---@class runloop.test.Process
local Process = {}

---Starts a program in a process group of its own. While it works, real time passes, unless it uses the test's time. A
---program that only waits for input counts as resting. The program must have ended when the test ends.
---@param options runloop.test.Spawn
---@return runloop.test.Process
function t.spawn(options) end

---Writes to its standard input, or types in its terminal. Waits while the program does not read.
---@param text string
---@return true? written nil, a message and a code if it no longer reads
---@return string? message
---@return string? code
function Process:write(text) end

---Ends its standard input; in a terminal: types Ctrl-D.
function Process:close_input() end

---Waits until its output after the last match matches a pattern. Fails when the time limit has passed, or the program
---has ended without a match; the report then shows its output. Returns the captures, or the whole match; with several
---patterns, first the number of the one that matches first.
---@param pattern string|string[] one pattern, or several
---@param options? { within?: number, plain?: boolean, from?: "output"|"errors" } 5 seconds, its standard output
---@return string ... the captures, or the whole match
function Process:wait_for(pattern, options) end

---Waits until no more output can come, and returns the output since the last match.
---@param options? { within?: number, from?: "output"|"errors" } 5 seconds, its standard output
---@return string
function Process:wait_for_end_of_output(options) end

---Returns what its terminal shows now: an array of rows without the spaces at their ends.
---@return runloop.test.Screen
function Process:screen() end

---@class runloop.test.Screen
---@field [integer] string
---@field row integer of the cursor
---@field column integer
local Screen = {}

---Returns all rows, one a line, without the empty ones at the end.
---@return string
function Screen:text() end

---Returns the row and the column in which a text begins, or nil if it is not on the screen.
---@param pattern string
---@param plain? boolean true: the pattern is a plain text
---@return integer? row
---@return integer? column
function Screen:find(pattern, plain) end

---Waits for its end.
---@param options? { within?: number } the seconds after which it fails (5)
---@return integer status the exit status; 128 plus the signal's number if a signal ended it
---@return string? signal "TERM" and the like, if a signal ended it
function Process:wait(options) end

---Sends it a signal.
---@param signal string|integer "INT", "SIGTERM", 9 …
---@return true? sent nil, a message and a code if it has ended
---@return string? message
---@return string? code
function Process:signal(signal) end

---Changes the size of its terminal.
---@param rows integer
---@param columns integer
---@return true?
function Process:resize(rows, columns) end

---Returns everything that it has written to its standard output, or in its terminal.
---@return string
function Process:output() end

---Returns everything that it has written to its standard error; nothing in a terminal.
---@return string
function Process:errors() end

---@return boolean
function Process:is_running() end

---@return integer
function Process:pid() end

---Kills it, and everything in its process group. Has no effect if it has ended.
function Process:kill() end

-- Servers ------------------------------------------------------------------------------------------------------------

---Options of `t.server`. In `arguments` and `files`, `{port}`, `{directory}` and `{socket}` stand for a free port, a
---new directory, and the path of a socket in it.
---@class runloop.test.ServerOptions
---@field [integer] string|number a program and its arguments, in place of a name
---@field ready? string "tcp": when it accepts connections; "unix": when its socket does; else a pattern of its output
---@field within? number the seconds after which it fails if it is not ready (15)
---@field arguments? (string|number)[] appended to its arguments
---@field files? table<string, string> files in its directory, by name
---@field environment? table<string, string|number|false> variables to set, false removes one
---@field name? string for messages
---@field required? boolean true: if the program is not installed, the test fails instead of being skipped
---@field server? runloop.test.Server the PostgreSQL server behind a pgbouncer
---@field pool_mode? "session"|"transaction"|"statement" of a pgbouncer ("session")

---A server that a test has started. `<close>` ends it.
---@class runloop.test.Server
local Server = {}

---Starts a server and returns it when it is ready. Waits. The server belongs to the test, or to the group if
---`before_all` or the function of a resource makes it. When the test or the group has ended, the server is killed and
---its directory removed, even if the runner is killed. A test whose server is not installed is skipped. A test whose
---server ends by itself fails with the last 40 lines of its output. A running server does not stop the virtual clock.
---`what` is "redis", "postgres", "pgbouncer", "nats", or a program with its options:
---`t.server { "mosquitto", "-p", "{port}", ready = "tcp" }`.
---@param what "redis"|"postgres"|"pgbouncer"|"nats"|runloop.test.ServerOptions
---@param options? runloop.test.ServerOptions
---@return runloop.test.Server
function t.server(what, options) end

---Returns where clients connect: "redis://127.0.0.1:40123/0" and the like; for a program without a recipe its address.
---@return string
function Server:url() end

---Returns "127.0.0.1:" and its port.
---@return string
function Server:address() end

---@return integer
function Server:port() end

---Returns the path of its directory.
---@return string
function Server:directory() end

---Returns the number of its process; nil after its end.
---@return integer?
function Server:pid() end

---Returns what it has written to its standard output and error.
---@return string
function Server:output() end

---@return boolean
function Server:is_running() end

---Kills it and everything that it has started, and waits for their end. Waits.
function Server:kill() end

---Ends it with SIGTERM, and with SIGKILL after some seconds (5). Waits.
---@param grace? number
function Server:stop(grace) end

---Ends it if it runs, and starts it again with the same port and the same data. Returns when it is ready. Waits.
function Server:restart() end

---Stops its processes with SIGSTOP: connections stay open, and nothing is answered.
---@return true? done nil, a message and a code if it has ended
---@return string? message
---@return string? code
function Server:pause() end

---Continues its processes after `pause`.
---@return true? done
---@return string? message
---@return string? code
function Server:resume() end

---Ends it and removes its directory, before the test does.
function Server:close() end

-- The clock ----------------------------------------------------------------------------------------------------------

---The virtual clock, as `rl.clock`, in tests only.
---@class runloop.test.Clock
local Clock = {}

---Lets some seconds pass, and returns when everything that was due by then has happened, with all its consequences in
---any thread: see `settle`. The clock jumps even while it is held, or while a real program or server has not answered
---yet. With `quiet`, it jumps only when nothing has come from outside for this number of seconds, which are real
---seconds while something may come. So if a server answers within this time, its answer comes before a time-out. Waits.
---@param seconds number
---@param options? { quiet: number? }
function Clock:advance(seconds, options) end

---Lets everything happen that can happen at this moment. Returns when, in all threads, nothing more can happen unless
---time passes or something comes from outside. Waits.
function Clock:settle() end

---Jumps to the next timer, lets it fire, and settles.
---@return number? seconds by which the clock has jumped; nil if there is no timer
function Clock:next() end

---Sets the wall clock, as a user may set a computer's: `rl.time()` shows it from now on, and `rl.at` and
---`runloop.schedule` follow. The clock of `rl.now()` goes on as before.
---@param seconds number since 1970
function Clock:set_time(seconds) end

---Holds the clock until `release` or the end of the test: only `advance` and `next` move it.
---@return table hold for `local held <close> = rl.clock:hold()`
function Clock:hold() end

---Ends a hold.
function Clock:release() end

---Makes a client of an HTTP server, or of a handler or routes, over streams in memory. The client has the functions
---`get`, `post`, `fetch`, `open` and `websocket` of `runloop.http`, with the same options, but takes paths instead of
---URLs; options about connections have no effect. A redirect is returned like any other answer, unless `follow` says
---how many to follow; all redirects lead to this server. In virtual time.
---@param server runloop.http.Server|runloop.http.Routes|fun(request: runloop.http.Incoming): any
---@param network? table as `net.memory` takes it: `latency`, `bandwidth`, `chunk`
---@return runloop.http.Client client
function t.http(server, network) end

return t
