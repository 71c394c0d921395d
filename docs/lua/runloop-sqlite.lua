---@meta runloop.sqlite

-- Every call of the module `runloop.sqlite`: SQLite databases whose calls wait in tasks. Each connection has a thread,
-- so that no call holds the loop. Every thread may use the module; a database belongs to the thread that has opened it.
-- docs/data.md explains how the databases work.

---@class runloop.sqlite
---@field null lightuserdata `json.null`: NULL as a parameter, and in rows if the option `nulls` is true
local sqlite = {}

---Options of a database. `setup` is a list in the form of `batch`, which each new connection runs first.
---@class runloop.sqlite.Options
---@field read_only? boolean true: nothing is written, and the file must exist
---@field create? boolean false: the file must exist
---@field wait? number seconds for another process's lock, and for a free connection (5)
---@field synchronous? "normal"|"full" "full": each commit is on the disk; "normal": a power cut may lose the last ones
---@field size? integer connections at most (4): one writes, the others read
---@field max_waiting? integer calls that may wait for a connection (10000)
---@field setup? (string|table)[] statements for each new connection
---@field name? string for messages; the path if absent
---@field timeout? number seconds for each call without its own
---@field nulls? boolean true: NULL is `sqlite.null` in rows, instead of an absent field
---@field lists? boolean true: rows are lists by column, instead of tables by name
---@field max? integer bytes of values that a call may return (64 MB)

---Statements, with a time limit for all of them.
---@class runloop.sqlite.Batch
---@field [integer] string|runloop.sqlite.Call without `timeout`
---@field timeout? number seconds

---A call in a table: the text, its parameters, and these options.
---@class runloop.sqlite.Call
---@field [integer] any the text, then the parameters; a nil between two is NULL
---@field timeout? number seconds; afterwards nil, "timed out", and the statement is ended. For `rows`: for each wait
---@field nulls? boolean
---@field lists? boolean
---@field max? integer bytes; for `rows` those of one row

---Opens a database, and makes its file if it is missing. Waits. `":memory:"` and `""` have one connection. Foreign keys
---are on, double-quoted strings and extensions are off; the journal is a write-ahead log.
---@param path string
---@param options? runloop.sqlite.Options
---@return runloop.sqlite.Database? database
---@return string? problem
---@return string? code "ENOENT", "EACCES", "EISDIR", "EIO" if the file is not a database
---@return table? details
function sqlite.open(path, options) end

---Marks a string as binary, for a parameter that becomes a BLOB.
---@param bytes string
---@return table parameter
function sqlite.bytes(bytes) end

---Returns the JSON text of a value, for a parameter.
---@param value any
---@return string text
function sqlite.json(value) end

---A database. Its calls return nil, a message, one of the common codes, and details with SQLite's own code:
---`{ code = "SQLITE_CONSTRAINT_UNIQUE" }`, in a batch also `index`. `<close>` closes it in the background.
---@class runloop.sqlite.Database
local db = {}

---Returns all rows, and the names of their columns. Parameters are `$1`, `$2`, or `?`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return table[]? rows
---@return string[]|string names or the error message
---@return string? code
---@return table? details
function db:query(sql, ...) end

---Returns the first row; nil alone if there is none. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return table? row
---@return string? problem
---@return string? code
---@return table? details
function db:row(sql, ...) end

---Returns the first row's first column; nil alone for NULL, and if there is no row. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return any value
---@return string? problem
---@return string? code
---@return table? details
function db:value(sql, ...) end

---Returns the number of rows that the statement has changed. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return integer? changes
---@return string? problem
---@return string? code
---@return table? details
function db:execute(sql, ...) end

---Iterates over the rows as they come, in constant memory. Waits. Raises an error if SQLite refuses the statement.
---Leaving the loop ends the statement, and hides a refusal at its end, such as that of a deferred constraint.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return fun(): table?
function db:rows(sql, ...) end

---Runs several statements, all or none of them, and returns their results: rows where there are columns, else the
---number of changed rows. Waits.
---@param list runloop.sqlite.Batch
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

---Begins a transaction, during which no other task can write; writers get their turns in the order of their calls.
---Waits. `read_only`: reads one snapshot, while others may write. `timeout`: seconds to wait for it.
---@param options? { read_only: boolean?, timeout: number? }
---@return runloop.sqlite.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function db:begin(options) end

---Takes one connection that no other task uses, for PRAGMA and temporary tables. Waits.
---@return runloop.sqlite.Connection? connection
---@return string? problem
---@return string? code
---@return table? details
function db:connection() end

---Refuses new calls, waits for the running ones, and ends them after some seconds (5). Waits.
---@param timeout? number
---@return true
function db:close(timeout) end

---@class runloop.sqlite.Stats
---@field connections integer
---@field idle integer
---@field in_use integer
---@field waiting integer calls that wait for a connection
---@field calls integer
---@field lost integer
---@field cancelled integer statements that were cancelled

---@return runloop.sqlite.Stats
function db:stats() end

---@return boolean
function db:is_open() end

---@return string
function db:name() end

---A transaction. `<close>` rolls it back in the background, unless it was committed.
---@class runloop.sqlite.Transaction
local tx = {}

---As `db:query`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return table[]? rows
---@return string[]|string names or the error message
---@return string? code
---@return table? details
function tx:query(sql, ...) end

---As `db:row`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return table? row
---@return string? problem
---@return string? code
---@return table? details
function tx:row(sql, ...) end

---As `db:value`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return any value
---@return string? problem
---@return string? code
---@return table? details
function tx:value(sql, ...) end

---As `db:execute`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return integer? changes
---@return string? problem
---@return string? code
---@return table? details
function tx:execute(sql, ...) end

---As `db:rows`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return fun(): table?
function tx:rows(sql, ...) end

---As `db:batch`. Waits.
---@param list runloop.sqlite.Batch
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

---Begins a savepoint: a transaction inside this one. Waits.
---@return runloop.sqlite.Transaction? transaction
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

---A connection that no other task uses. `<close>` gives it up; the next task gets a new connection.
---@class runloop.sqlite.Connection
local connection = {}

---As `db:query`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return table[]? rows
---@return string[]|string names or the error message
---@return string? code
---@return table? details
function connection:query(sql, ...) end

---As `db:row`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return table? row
---@return string? problem
---@return string? code
---@return table? details
function connection:row(sql, ...) end

---As `db:value`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return any value
---@return string? problem
---@return string? code
---@return table? details
function connection:value(sql, ...) end

---As `db:execute`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return integer? changes
---@return string? problem
---@return string? code
---@return table? details
function connection:execute(sql, ...) end

---As `db:rows`. Waits.
---@param sql string|runloop.sqlite.Call
---@param ... any
---@return fun(): table?
function connection:rows(sql, ...) end

---As `db:batch`. Waits.
---@param list runloop.sqlite.Batch
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

---Begins a transaction on this connection. Waits.
---@return runloop.sqlite.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function connection:begin() end

---Gives the connection up.
function connection:close() end

return sqlite
