---@meta runloop.postgres

-- Every call of the module `runloop.postgres`: PostgreSQL databases whose calls wait in tasks, over libpq. The database
-- object manages its connections itself. Every thread may use the module; a database belongs to the thread that has
-- opened it. docs/data.md explains how the databases work.

---@class runloop.postgres
---@field null lightuserdata `json.null`: NULL as a parameter, and in rows if the option `nulls` is true
local postgres = {}

---Options of a database. `setup` is a list in the form of `batch`, which each new connection runs first.
---@class runloop.postgres.Options
---@field size? integer connections at most (10)
---@field idle? number seconds until an idle connection is closed (300)
---@field wait? number seconds to wait for a free connection (30)
---@field max_waiting? integer calls that may wait for a connection (10000)
---@field connect_timeout? number seconds for making a connection, names included (10)
---@field prepare? boolean false: statements are never prepared by name
---@field setup? (string|table)[] statements for each new connection
---@field name? string for messages; host and database if absent
---@field timeout? number seconds for each call without its own
---@field nulls? boolean true: NULL is `postgres.null` in rows, instead of an absent field
---@field lists? boolean true: rows are lists by column, instead of tables by name
---@field max? integer bytes of values that a call may return (64 MB)

---Statements, with a time limit for all of them.
---@class runloop.postgres.Batch
---@field [integer] string|runloop.postgres.Call without `timeout`
---@field timeout? number seconds

---A call in a table: the text, its parameters, and these options.
---@class runloop.postgres.Call
---@field [integer] any the text, then the parameters; a nil between two is NULL
---@field timeout? number seconds; afterwards nil, "timed out", and the statement is ended. For `rows`: for each wait
---@field nulls? boolean
---@field lists? boolean
---@field max? integer bytes; for `rows` those of one row

---Opens a database, and makes its first connection. Waits. `where` is a URL, a text of keyword=value pairs,
---"unix:/directory", or a table of libpq's keywords; absent values come from the environment and `~/.pgpass`. Unless
---`sslmode` is given, a server on another machine needs a certificate that the system trusts.
---@param where string|table<string, string|number>
---@param options? runloop.postgres.Options
---@return runloop.postgres.Database? database
---@return string? problem
---@return string? code "ECONNREFUSED", "ENOTFOUND", "TLS_CERTIFICATE", "EAUTH"
---@return table? details
function postgres.open(where, options) end

---Marks a string as binary, for a parameter that becomes a bytea.
---@param bytes string
---@return table parameter
function postgres.bytes(bytes) end

---Returns the JSON text of a value, for a parameter.
---@param value any
---@return string text
function postgres.json(value) end

---Returns the parameter for a timestamp with time zone, from seconds since 1970. `math.huge` is infinity.
---@param seconds number
---@return string text
function postgres.time(seconds) end

---Returns the parameter for an array. nil between elements and `postgres.null` are NULL; lists may be inside.
---@param list table
---@return string text
function postgres.array(list) end

---@class runloop.postgres.FakeOptions
---@field latency? number seconds until a message is handled (0)
---@field bandwidth? number bytes per second; no limit if absent
---@field password? string the password that clients must send, as `open` does

---Makes a PostgreSQL server in this process, for tests: in virtual time under `rlhost test`. `fn(sql, parameters)`
---answers a statement: with rows, which are tables by column names (a field `columns` of the list names the columns,
---and rows may be lists then); with a count; or with nil, a message and a code of PostgreSQL. Parameters are texts,
---with their number in `n`. It may wait. The fake itself answers statements that control transactions, cursors and
---channels.
---
---```lua
---local postgres = require "runloop.postgres"
---local fake = postgres.fake(function(sql, parameters)
---  if sql == "select name from people where id = $1" then return { { name = "person " .. parameters[1] } } end
---  return nil, "relation does not exist", "42P01"
---end)
---local db <close> = assert(postgres.open(fake))
---print(db:value("select name from people where id = $1", 7))
---print((select(3, db:value "select frob")))
---```
---```text
---person 7
---EINVAL
---```
---@param fn fun(sql: string, parameters: table): table|integer|nil, string?, string?
---@param options? runloop.postgres.FakeOptions
---@return runloop.postgres.Fake
function postgres.fake(fn, options) end

---A database. Its calls return nil, a message, one of the common codes, and details with PostgreSQL's own code: `{
---code = "23505" }`, with the server's other fields, and in a batch `index`. `<close>` closes it in the background.
---@class runloop.postgres.Database
local db = {}

---Returns all rows, and the names of their columns. Parameters are `$1`, `$2`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return table[]? rows
---@return string[]|string names or the error message
---@return string? code
---@return table? details
function db:query(sql, ...) end

---Returns the first row; nil alone if there is none. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return table? row
---@return string? problem
---@return string? code
---@return table? details
function db:row(sql, ...) end

---Returns the first row's first column; nil alone for NULL, and if there is no row. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return any value
---@return string? problem
---@return string? code
---@return table? details
function db:value(sql, ...) end

---Returns the number of rows that the statement has changed. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return integer? changes
---@return string? problem
---@return string? code
---@return table? details
function db:execute(sql, ...) end

---Iterates over the rows as they come, in constant memory. Waits. Raises an error if the server refuses the statement.
---Leaving the loop ends the statement, and hides a refusal at its end, such as that of a deferred constraint.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return fun(): table?
function db:rows(sql, ...) end

---Runs several statements, all or none of them, and returns their results: rows where there are columns, else the
---number of changed rows. Waits.
---@param list runloop.postgres.Batch
---@return any[]? results
---@return string? problem
---@return string? code
---@return table? details
function db:batch(list) end

---Runs a text of several statements without parameters, all or none of them: it must not contain `commit` and the like.
---Waits.
---@param text string
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function db:script(text) end

---Sends a text to all listeners of a channel. Waits.
---@param channel string
---@param text string at most 7999 bytes
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function db:publish(channel, text) end

---Options of a subscription.
---@class runloop.postgres.SubscriptionOptions
---@field modes? runloop.Modes in which the function is called ("common")
---@field order? integer lower ones first (0)
---@field name? string for messages; the channels if absent
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it (true)
---@field max_pending? integer messages that may wait; further ones are dropped, and counted (65536)
---@field on_gap? fun(seconds: number) called after a reconnect: messages may be missing

---Subscribes to a channel or several with LISTEN, and returns when the server has confirmed it. All subscriptions of a
---database share a connection of their own, which is made again when it is lost. `fn` may wait; it gets one message at
---a time. The options may be left out. Waits.
---
---```lua fragment: it needs a server
---local s <close> = assert(db:subscribe("jobs", function(text, channel) print(channel, text) end))
---```
---@param channel string|string[] names of 1 to 63 bytes
---@param options? runloop.postgres.SubscriptionOptions|fun(text: string, channel: string)
---@param fn? fun(text: string, channel: string) absent: `receive` and `messages` return the messages
---@return runloop.postgres.Subscription? subscription
---@return string? problem
---@return string? code
---@return table? details
function db:subscribe(channel, options, fn) end

---Carries out `copy … from stdin` or `copy … to stdout`. For `from stdin`, `way` is a stream, or a function that
---returns the next piece of text, or a row as a list (text format only); nil ends the data. For `to stdout`, `way` is
---a stream, or a function that is called with each piece. The faster side waits for the slower one. An error of the
---function ends the copy, and is raised. Waits.
---@param text string
---@param way runloop.net.Stream|fun(piece?: string): string|table|nil
---@return integer? count of rows
---@return string? problem
---@return string? code
---@return table? details
function db:copy(text, way) end

---Begins a transaction. `isolation`: a level such as "serializable". `timeout`: seconds within which the transaction
---must begin. Waits.
---@param options? { read_only: boolean?, isolation: string?, timeout: number? }
---@return runloop.postgres.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function db:begin(options) end

---Takes one connection that no other task uses, for SET, temporary tables and advisory locks. Waits.
---@return runloop.postgres.Connection? connection
---@return string? problem
---@return string? code
---@return table? details
function db:connection() end

---Refuses new calls, waits for the running ones, and ends them after some seconds (5). Waits.
---@param timeout? number
---@return true
function db:close(timeout) end

---@class runloop.postgres.Stats
---@field connections integer
---@field idle integer
---@field in_use integer
---@field waiting integer calls that wait for a connection
---@field calls integer
---@field lost integer connections that the server or the network has closed
---@field cancelled integer statements that were cancelled

---@return runloop.postgres.Stats
function db:stats() end

---@return boolean
function db:is_open() end

---@return string
function db:name() end

---A transaction. `<close>` rolls it back in the background, unless it was committed.
---@class runloop.postgres.Transaction
local tx = {}

---As `db:query`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return table[]? rows
---@return string[]|string names or the error message
---@return string? code
---@return table? details
function tx:query(sql, ...) end

---As `db:row`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return table? row
---@return string? problem
---@return string? code
---@return table? details
function tx:row(sql, ...) end

---As `db:value`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return any value
---@return string? problem
---@return string? code
---@return table? details
function tx:value(sql, ...) end

---As `db:execute`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return integer? changes
---@return string? problem
---@return string? code
---@return table? details
function tx:execute(sql, ...) end

---As `db:rows`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return fun(): table?
function tx:rows(sql, ...) end

---As `db:batch`. Waits.
---@param list runloop.postgres.Batch
---@return any[]? results
---@return string? problem
---@return string? code
---@return table? details
function tx:batch(list) end

---As `db:script`. Waits.
---@param text string
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function tx:script(text) end

---Sends a text to all listeners of a channel. Waits.
---@param channel string
---@param text string at most 7999 bytes
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function tx:publish(channel, text) end

---Carries out `copy … from stdin` or `copy … to stdout`. For `from stdin`, `way` is a stream, or a function that
---returns the next piece of text, or a row as a list (text format only); nil ends the data. For `to stdout`, `way` is
---a stream, or a function that is called with each piece. The faster side waits for the slower one. An error of the
---function ends the copy, and is raised. Waits.
---@param text string
---@param way runloop.net.Stream|fun(piece?: string): string|table|nil
---@return integer? count of rows
---@return string? problem
---@return string? code
---@return table? details
function tx:copy(text, way) end

---Begins a savepoint: a transaction inside this one. Waits.
---@return runloop.postgres.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function tx:begin() end

---Makes its changes permanent. Waits.
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function tx:commit() end

---Undoes its changes. Waits.
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function tx:rollback() end

---The notifications of some channels. `<close>` ends it.
---@class runloop.postgres.Subscription
local subscription = {}

---Returns the next message and its channel, if the subscription has no function. Waits.
---@param timeout? number seconds
---@return string? text
---@return string channel or "timed out", or the error message
---@return string? code "ENOTCONN": the subscription is over
function subscription:receive(timeout) end

---Iterates over the messages and their channels, until the subscription is over. Waits.
---@return fun(): string?, string?
function subscription:messages() end

---Ends the subscription: no further message comes.
function subscription:invalidate() end

---@return { received: integer, dropped: integer, pending: integer }
function subscription:stats() end

---A connection that no other task uses. `<close>` gives it up; the next task gets a new connection.
---@class runloop.postgres.Connection
local connection = {}

---As `db:query`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return table[]? rows
---@return string[]|string names or the error message
---@return string? code
---@return table? details
function connection:query(sql, ...) end

---As `db:row`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return table? row
---@return string? problem
---@return string? code
---@return table? details
function connection:row(sql, ...) end

---As `db:value`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return any value
---@return string? problem
---@return string? code
---@return table? details
function connection:value(sql, ...) end

---As `db:execute`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return integer? changes
---@return string? problem
---@return string? code
---@return table? details
function connection:execute(sql, ...) end

---As `db:rows`. Waits.
---@param sql string|runloop.postgres.Call
---@param ... any
---@return fun(): table?
function connection:rows(sql, ...) end

---As `db:batch`. Waits.
---@param list runloop.postgres.Batch
---@return any[]? results
---@return string? problem
---@return string? code
---@return table? details
function connection:batch(list) end

---As `db:script`. Waits.
---@param text string
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function connection:script(text) end

---Sends a text to all listeners of a channel. Waits.
---@param channel string
---@param text string at most 7999 bytes
---@return true? done
---@return string? problem
---@return string? code
---@return table? details
function connection:publish(channel, text) end

---Carries out `copy … from stdin` or `copy … to stdout`. For `from stdin`, `way` is a stream, or a function that
---returns the next piece of text, or a row as a list (text format only); nil ends the data. For `to stdout`, `way` is
---a stream, or a function that is called with each piece. The faster side waits for the slower one. An error of the
---function ends the copy, and is raised. Waits.
---@param text string
---@param way runloop.net.Stream|fun(piece?: string): string|table|nil
---@return integer? count of rows
---@return string? problem
---@return string? code
---@return table? details
function connection:copy(text, way) end

---Begins a transaction on this connection. Waits.
---@param options? { read_only: boolean?, isolation: string?, timeout: number? }
---@return runloop.postgres.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function connection:begin(options) end

---Gives the connection up, in the background.
function connection:close() end

---A server in this process.
---@class runloop.postgres.Fake
local Fake = {}

---Returns a stream to it, for a client of your own. Waits.
---@return runloop.net.Stream? stream
---@return string? problem
---@return string? code
function Fake:connect() end

---Cuts all connections, now or after this number of further bytes sent.
---@param after? integer
function Fake:drop(after) end

---Pauses: the server handles nothing for some seconds.
---@param seconds number
function Fake:stall(seconds) end

---Cuts all connections, and refuses new ones.
function Fake:stop() end

---Accepts connections again.
function Fake:start() end

---Returns the received statements, each with its parameters as a list.
---@return string[][]
function Fake:received() end

return postgres
