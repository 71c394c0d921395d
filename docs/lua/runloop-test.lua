---@meta runloop.test

-- Every call of the module `runloop.test`, for readers and for Lua editors. Only files that `rlhost test` runs can require
-- it. Times are seconds. Assertions raise errors, which name the line of the test; `note` is put before their messages.

---@class runloop.test
---@field rlhost string the path of the rlhost that runs the tests, for `t.spawn`
---@field gen runloop.test.Generators makers of random values, for `t.forall`
local t = {}

-- Defining tests -----------------------------------------------------------------------------------------------------

---What a test, or a group for all tests in it, may ask for.
---@class runloop.test.Options
---@field timeout? number real seconds that it may take, instead of those of `--timeout` (10)
---@field real_time? boolean time passes as it really does
---@field skip? boolean|string it does not run; why
---@field only? boolean it runs alone: of this file, only those run that ask for it
---@field starts_at? number|string|table when it begins by the wall clock, instead of 2000-01-01: seconds since 1970; a date in UTC, like "2024-02-29 12:00:00"; or what `os.time` takes
---@field time_zone? string the zone of `os.date`, like "Europe/Berlin", instead of that of `--tz` (UTC)
---@field retries? integer how often it is tried again when it fails; a test that passes then is flaky
---@field fails? boolean|string it is expected to fail, and fails when it does not; why
---@field leaks? boolean|string[] `false`: what it leaves behind is cleaned up and not told; or the kinds that it may leave: "timer", "descriptor" …
---@field tags? string[] for `--tags` and `--skip-tags`, beside words like #slow in its name

---Groups tests. `body` is called at once, and defines them.
---@param name string
---@param body fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.describe(name, body) end

---Defines a test. It runs as a task, on a main loop as new. Without a body it is one that is not written yet.
---@param name string
---@param body? fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.it(name, body) end

---Outside of tests: defines one that does not run. In a test: ends it as skipped, with a reason.
---@param name string the name, or the reason
---@param body? fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.skip(name, body) end

---Defines a test that runs alone: of this file, only those run that are defined so. The report says how many were passed over.
---@param name string
---@param body fun()
---@overload fun(name: string, options: runloop.test.Options, body: fun())
function t.only(name, body) end

---Has a function called before each test of the group, as part of it. Those of outer groups come first.
---@param body fun()
function t.before_each(body) end

---Has a function called after each test of the group, whatever its outcome. Those of inner groups come first, the last
---defined before the others.
---@param body fun()
function t.after_each(body) end

---Has a function called once, before the first test of the group that runs. What it starts, programs included, lives as long as the
---group and is no test's leak; time then goes on from test to test. When it fails, so do all tests of the group.
---@param body fun()
function t.before_all(body) end

---Has a function called once, after the last test of the group that runs. What of the group's is left then fails the group.
---@param body fun()
function t.after_all(body) end

---In a test: has a function called when the test is over, whatever its outcome; the last one first. In before_all: when the group is.
---@param body fun()
function t.finally(body) end

---Something that the tests of a group share: made when the first one calls the result, freed when the group ends. In a test it is
---the test's own. Without `free`, what the value's `__close` does.
---@generic T
---@param make fun(): T
---@param free? fun(value: T)
---@return fun(): T
function t.resource(make, free) end

---Defines a test for each case: each element of an array, or each field of a table, by name. A case that is an array is unpacked.
---In the name, %d, %s and the like stand for the arguments, $name for a field of the case.
---@param cases table with one case at least
---@param name string
---@param body fun(...)
---@overload fun(cases: table, name: string, options: runloop.test.Options, body: fun(...))
function t.each(cases, name, body) end

-- Assertions ---------------------------------------------------------------------------------------------------------

---Fails unless both are equal. Tables are if they hold equal things under equal keys; metatables do not count, unless one
---has `__eq`, which then decides. NaN equals NaN. Returns `actual`.
---@generic T
---@param actual T
---@param expected any
---@param note? any
---@return T
function t.equal(actual, expected, note) end

---Fails unless both are the same: one table, function or other object; or equal strings, numbers, booleans. Returns `actual`.
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

---Fails for everything but nil and false. Returns the value.
---@param value any
---@param note? any
---@return nil|false
function t.falsy(value, note) end

---Calls a function, which may wait, and fails unless it raises an error. Returns the error value.
---@param body fun()|table|userdata a function, or an object with `__call`
---@param expected? any a string: found in the message, as a pattern or as it is; anything else: equal to the error value
---@param note? any
---@return any raised
function t.error(body, expected, note) end

---@class runloop.test.Eventually
---@field within? number fail after so many seconds (5)
---@field every? number try again after so many (0.01)

---Calls a function again and again until it returns a true value, and returns what it does. An error counts as "not yet".
---@param body fun(): ...
---@param options? runloop.test.Eventually
---@return any ...
function t.eventually(body, options) end

---Wraps a function that must run exactly `n` times (1) in this test. The test does not end before it has, as long as
---anything can still happen; once more is an error at once. `t.expect(0)` is a callback that must not run.
---@param body? fun(...): ...
---@param n? integer
---@return fun(...): ...
---@overload fun(n: integer): fun(...)
function t.expect(body, n) end

---Fails unless a value is what it was when `rlhost test --update` was last given. It is kept in a file beside the tests, `.snap`
---instead of `.lua`. Strings are kept as they are, tables with a line for each field.
---@generic T
---@param value T
---@param name? string tells several of one test apart, instead of their order
---@return T
function t.snapshot(value, name) end

-- Properties ---------------------------------------------------------------------------------------------------------

---Calls a function with random values, and fails when it raises an error or returns false: with the simplest values that were
---found to do so. The values follow from `--seed`.
---@param generators runloop.test.Generator|runloop.test.Generator[] one for each argument
---@param body fun(...): boolean?
---@param options? { runs?: integer, shrinks?: integer } how many values to try (100; at least 1), and how long to look for simpler ones (2000 tries)
function t.forall(generators, body, options) end

---Makes random values.
---@class runloop.test.Generator
local Generator = {}

---A generator of what `fn` makes of its values.
---@param fn fun(value: any): any
---@return runloop.test.Generator
function Generator:map(fn) end

---A generator of those of its values that `fn` is true for.
---@param fn fun(value: any): boolean
---@return runloop.test.Generator
function Generator:filter(fn) end

---@class runloop.test.Generators
---@field integer fun(low?: integer, high?: integer): runloop.test.Generator whole numbers, from -1000 to 1000
---@field number fun(low?: number, high?: number): runloop.test.Generator numbers, from 0 to 1
---@field boolean fun(): runloop.test.Generator
---@field constant fun(value: any): runloop.test.Generator
---@field element fun(list: any[]): runloop.test.Generator one of the elements; the first one is the simplest
---@field one_of fun(list: runloop.test.Generator[]): runloop.test.Generator what one of several makes
---@field list fun(generator: runloop.test.Generator, options?: { min?: integer, max?: integer }): runloop.test.Generator arrays, of 0 to 20 elements
---@field string fun(alphabet?: string, options?: { min?: integer, max?: integer }): runloop.test.Generator strings of the alphabet, or of all bytes
---@field record fun(fields: table<any, runloop.test.Generator>): runloop.test.Generator tables with these fields

-- Doubles ------------------------------------------------------------------------------------------------------------

---A function that notes how it is called.
---@class runloop.test.Spy
---@overload fun(...): ...
---@field calls table[] the arguments of each call, with their number as `n`, and what was returned as `results`
local Spy = {}

---A function that notes how it is called, and does what `fn` does.
---@param fn? function
---@return runloop.test.Spy
function t.spy(fn) end

---Puts a spy that does what `fn` does, or nothing, into a table's field until the test is over. Another value goes there as it is.
---@param table table
---@param key any
---@param fn? any
---@return any spy
function t.stub(table, key, fn) end

---How often it was called.
---@return integer
function Spy:count() end

---Fails unless it was called just so.
---@param expected any[][] the arguments of each call
---@param note? any
function Spy:equal(expected, note) end

---Fails unless some call had these arguments.
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

---Records what happens, in order.
---@param options? { times?: boolean } `times`: each entry begins with the seconds since the journal was made
---@return runloop.test.Journal
function t.journal(options) end

---Writes an entry: its arguments, with spaces between them.
---@param ... any
function Journal:add(...) end

---The entries, one a line.
---@return string
function Journal:text() end

---Fails unless the entries are these.
---@param expected string|string[] an array, or one string with a line for each
---@param note? any
function Journal:equal(expected, note) end

-- Programs -----------------------------------------------------------------------------------------------------------

---What `t.spawn` is to start: the program, looked up in PATH, and its arguments by number.
---@class runloop.test.Spawn
---@field [integer] string|number
---@field terminal? boolean|{ rows?: integer, columns?: integer } it gets a terminal (24 by 80) instead of three pipes
---@field env? table<string, string|number|false> variables to set, or with false to take away; the others are inherited, and
---`RLHOST_SEED` is set to a number that follows from the test's seed
---@field directory? string where it starts
---@field name? string for messages, instead of the program's
---@field virtual_time? boolean for an rlhost: it lives in the time of the test, and so do those that it starts; an error for others

---A program that a test has started. `<close>` kills it.
---@class runloop.test.Process
local Process = {}

---Starts a program, in a process group of its own. While it works, time passes as it really does, unless it lives in the
---test's. One that only waits for input does not work. It must have ended when the test is over.
---@param options runloop.test.Spawn
---@return runloop.test.Process
function t.spawn(options) end

---Writes to its standard input, or types in its terminal. Waits while it does not read.
---@param text string
---@return true? written nil, a message and a code when it no longer reads
---@return string? message
---@return string? code
function Process:write(text) end

---Ends its standard input; in a terminal: types Ctrl-D.
function Process:close_input() end

---Waits until what it writes matches a pattern, from where the last match ended. Fails when time is up, or it has ended
---without; the report shows what it wrote instead.
---@param pattern string|string[] of several, that which matches first
---@param options? { within?: number, plain?: boolean, from?: "output"|"errors" } 5 seconds, its standard output
---@return string ... the captures, or the whole match; behind its number, of several patterns
function Process:wait_for(pattern, options) end

---Waits until nothing more can come from its standard output, and returns what came since the last match.
---@param options? { within?: number, from?: "output"|"errors" } 5 seconds, its standard output
---@return string
function Process:wait_for_end_of_output(options) end

---What its terminal shows now: an array of rows without the spaces at their ends.
---@return runloop.test.Screen
function Process:screen() end

---@class runloop.test.Screen
---@field [integer] string
---@field row integer where the cursor is
---@field column integer
local Screen = {}

---All rows, one a line, without the empty ones at the end.
---@return string
function Screen:text() end

---Where a text is: its row, and the column in which it begins; nil if it is nowhere.
---@param pattern string
---@param plain? boolean the pattern is a text as it is
---@return integer? row
---@return integer? column
function Screen:find(pattern, plain) end

---Waits for its end.
---@param options? { within?: number } fails after so many seconds (5)
---@return integer status the exit status; 128 and the signal's number if a signal ended it
---@return string? signal "TERM" and the like, if a signal ended it
function Process:wait(options) end

---Sends it a signal.
---@param signal string|integer "INT", "SIGTERM", 9 …
---@return true? sent nil, a message and a code when it has ended
---@return string? message
---@return string? code
function Process:signal(signal) end

---Changes the size of its terminal.
---@param rows integer
---@param columns integer
---@return true?
function Process:resize(rows, columns) end

---All it has written to its standard output, or in its terminal, until now.
---@return string
function Process:output() end

---All it has written to its standard error until now; nothing in a terminal.
---@return string
function Process:errors() end

---@return boolean
function Process:is_running() end

---@return integer
function Process:pid() end

---Ends it, and everything in its process group, at once. Does nothing when it has ended.
function Process:kill() end

-- The clock ----------------------------------------------------------------------------------------------------------

---The virtual clock, as `rl.clock`, in tests only.
---@class runloop.test.Clock
local Clock = {}

---Lets so many seconds pass, and returns when all that was due by then has happened, with all that this has brought about in
---any thread: see `settle`. The clock jumps even though it is held or something real is outstanding.
---@param seconds number
---@param options? { quiet: number? } `quiet`: it jumps when nothing has come from outside for so many seconds, which are real ones while something may come. So a server's answer that takes less comes before a time-out
function Clock:advance(seconds, options) end

---Lets everything happen that can happen at this moment: returns when in all threads only the passing of time, or the world
---outside, can bring more.
function Clock:settle() end

---Jumps to the next timer, lets it fire, and settles.
---@return number? seconds how many that took; nil if there is no timer
function Clock:next() end

---Sets the wall clock, as somebody may set a computer's: `rl.time()` tells that from now on, and `rl.at` and `runloop.schedule` hear of
---it. The clock of `rl.now()` goes on as before.
---@param seconds number since 1970
function Clock:set_time(seconds) end

---From now on, until `release` or the end of the test, the clock moves only by `advance` and `next`.
---@return table hold for `local held <close> = rl.clock:hold()`
function Clock:hold() end

---Ends a hold.
function Clock:release() end

---A client of an HTTP server, or of a handler or routes, over streams in memory: it has `get`, `post`, `fetch`, `open` and `websocket`
---as `runloop.http`, for paths instead of URLs, with the same options; what is about connections has no effect. A redirect is an answer like
---others unless `follow` says how many are followed, all of them to this server. In virtual time.
---@param server runloop.http.Server|runloop.http.Routes|fun(request: runloop.http.Incoming): any
---@param network? table as `net.memory` takes it: `latency`, `bandwidth`, `chunk`
---@return runloop.http.Client client
function t.http(server, network) end

return t
