---@meta runloop.redis

-- Every call of the module `runloop.redis`: Redis databases whose calls wait in tasks. One connection carries the
-- commands of all tasks. Every thread may use the module; a database belongs to the thread that has opened it.
-- docs/data.md explains how the databases work.

---@class runloop.redis
---@field null lightuserdata stands for null inside a list: `json.null`
local redis = {}

---@class runloop.redis.Options
---@field timeout? number seconds for each answer (5)
---@field connect_timeout? number seconds for connecting and logging in (5)
---@field size? integer the largest number of further connections, for blocking commands and transactions (10)
---@field idle? number seconds after which one of these connections is closed if it is idle (300)
---@field wait? number seconds to wait for a free one of these connections (30)
---@field max_waiting? integer calls that may wait for a connection (10000)
---@field user? string
---@field password? string
---@field database? integer the number for SELECT
---@field tls? boolean|runloop.net.TLSOptions
---@field max? integer bytes of an answer (64 MB)
---@field setup? (string|number)[][] commands for each new connection
---@field name? string for messages, and for CLIENT SETNAME

---The error of one command in a batch.
---@class runloop.redis.Problem
---@field message string
---@field code string
---@field details table?

---Opens a database. Returns when its first connection works. Waits. `where` is `"redis://user:password@host:6379/0"`,
---`"rediss://…"` with TLS, `"unix:/path"`, an address, or a fake. Redis 6 or later.
---@param where string|integer|table|runloop.redis.Fake
---@param options? runloop.redis.Options
---@return runloop.redis.Database? database
---@return string? problem
---@return string? code "EAUTH" for a wrong password, "ENOTSUP" for an old server, or a code of `net.connect`
---@return table? details
function redis.open(where, options) end

---@class runloop.redis.FakeOptions
---@field latency? number seconds that a byte takes to arrive (0)
---@field bandwidth? number bytes per second; no limit if absent
---@field password? string the password that clients must send

---Makes a Redis server in this process, for tests: in virtual time under `rlhost test`. The fake has strings with
---expiry, hashes, lists, sets, sorted sets, commands that block, scans, transactions, channels, 16 numbered databases,
---CLIENT and AUTH. It answers other commands, such as scripts and streams, with "ERR unknown command".
---
---```lua
---local rl, redis = require "runloop", require "runloop.redis"
---local db <close> = assert(redis.open(redis.fake()))
---db:call("SET", "session", "ada", "PX", 20)
---print(db:call("GET", "session"))
---rl.sleep(0.05)
---print(db:call("GET", "session"))
---```
---```text
---ada
---nil
---```
---@param options? runloop.redis.FakeOptions
---@return runloop.redis.Fake
function redis.fake(options) end

---A database. Its calls return nil, a message, one of the common codes, and details with Redis's own code:
---`{ code = "WRONGTYPE" }`. `<close>` closes it in the background.
---@class runloop.redis.Database
local db = {}

---Sends a command, and returns its answer. Words are strings and numbers, sent with their lengths. A null answer is
---nil alone; in a list it is `redis.null`; a map is a table. An error inside a list is a table with its message at 1.
---Waits.
---@param command string
---@param ... string|number
---@return any answer
---@return string? problem
---@return string? code
---@return table? details
function db:call(command, ...) end

---Sends several commands at once; each has its own answer, or its own error. Waits.
---@param list (string|number)[][]
---@return any[]? answers
---@return table<integer, runloop.redis.Problem>|string|nil problems errors by index, or why there are no answers
---@return string? code
---@return table? details
function db:batch(list) end

---Runs a Lua script in the server: by its digest, and by its text if the server does not know the digest. Waits.
---@param text string
---@param keys? (string|number)[]
---@param ... string|number
---@return any answer
---@return string? problem
---@return string? code
---@return table? details
function db:script(text, keys, ...) end

---Iterates over the results of SCAN, SSCAN, HSCAN or ZSCAN, without the cursor; the last two return two values. An
---entry may come twice, as with SCAN. Waits. Raises an error if the server refuses a command.
---@param command string
---@param ... string|number
---@return fun(): string?, string?
function db:rows(command, ...) end

---Raises: `call` is for commands.
function db:query() end

---Raises: `call` is for commands.
function db:row() end

---Raises: `call` is for commands.
function db:value() end

---Raises: `call` is for commands.
function db:execute() end

---Begins a transaction, on a connection that watches some keys. Waits.
---@param options? { watch: string|string[]?, timeout: number? }
---@return runloop.redis.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function db:begin(options) end

---Takes a connection that no other task uses, for SELECT and similar commands. Waits.
---@return runloop.redis.Connection? connection
---@return string? problem
---@return string? code
---@return table? details
function db:connection() end

---Options of a subscription.
---@class runloop.redis.SubscriptionOptions
---@field modes? runloop.Modes in which the function is called ("common")
---@field order? integer lower ones first (0)
---@field name? string for messages; the channels if absent
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it (true)
---@field max_pending? integer messages that may wait; further ones are dropped, and counted (65536)
---@field on_gap? fun(seconds: number) called after a reconnect: messages may be missing
---@field pattern? boolean true: the channels are patterns, as for PSUBSCRIBE

---Subscribes to a channel or several, and returns when the server has confirmed it. All subscriptions of a database
---share a connection of their own, which is made again when it is lost. `fn` may wait; it gets one message at a time.
---The options may be left out. Waits.
---
---```lua fragment: it needs a server
---local s <close> = assert(db:subscribe("jobs", function(text, channel) print(channel, text) end))
---```
---@param channel string|string[]
---@param options? runloop.redis.SubscriptionOptions|fun(text: string, channel: string)
---@param fn? fun(text: string, channel: string) absent: `receive` and `messages` return the messages
---@return runloop.redis.Subscription? subscription
---@return string? problem
---@return string? code
---@return table? details
function db:subscribe(channel, options, fn) end

---Refuses new calls, waits for the running ones, and ends them after some seconds (5). Waits.
---@param timeout? number
---@return true
function db:close(timeout) end

---@class runloop.redis.Stats
---@field connections integer
---@field idle integer
---@field in_use integer
---@field waiting integer calls that wait for a connection
---@field calls integer
---@field lost integer connections that the server or the network has closed
---@field cancelled integer calls whose tasks were cancelled or timed out

---@return runloop.redis.Stats
function db:stats() end

---@return boolean
function db:is_open() end

---@return string
function db:name() end

---A transaction: commands that run as one. `<close>` drops the commands, unless the transaction was committed.
---@class runloop.redis.Transaction
local tx = {}

---Sends a command, and returns its answer. Words are strings and numbers, sent with their lengths. A null answer is
---nil alone; in a list it is `redis.null`; a map is a table. An error inside a list is a table with its message at 1.
---Waits.
---@param command string
---@param ... string|number
---@return any answer
---@return string? problem
---@return string? code
---@return table? details
function tx:call(command, ...) end

---Sends several commands at once; each has its own answer, or its own error. Waits.
---@param list (string|number)[][]
---@return any[]? answers
---@return table<integer, runloop.redis.Problem>|string|nil problems errors by index, or why there are no answers
---@return string? code
---@return table? details
function tx:batch(list) end

---Runs a Lua script in the server: by its digest, and by its text if the server does not know the digest. Waits.
---@param text string
---@param keys? (string|number)[]
---@param ... string|number
---@return any answer
---@return string? problem
---@return string? code
---@return table? details
function tx:script(text, keys, ...) end

---Iterates over the results of SCAN, SSCAN, HSCAN or ZSCAN, without the cursor; the last two return two values. An
---entry may come twice, as with SCAN. Waits. Raises an error if the server refuses a command.
---@param command string
---@param ... string|number
---@return fun(): string?, string?
function tx:rows(command, ...) end

---Raises: `call` is for commands.
function tx:query() end

---Raises: `call` is for commands.
function tx:row() end

---Raises: `call` is for commands.
function tx:value() end

---Raises: `call` is for commands.
function tx:execute() end

---Keeps a command until `commit`.
---@param command string
---@param ... string|number
---@return true? kept
---@return string? problem
---@return string? code
function tx:queue(command, ...) end

---Runs the kept commands as one. Waits.
---@return any[]? answers
---@return table<integer, runloop.redis.Problem>|string|nil problems by the command's index, or why no command ran
---@return string? code "EAGAIN": a watched key has changed
---@return table? details
function tx:commit() end

---Drops the kept commands.
---@return true? done
---@return string? problem
---@return string? code
function tx:rollback() end

---The messages of some channels. `<close>` ends it.
---@class runloop.redis.Subscription
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

---A server in this process.
---@class runloop.redis.Fake
local Fake = {}

---Returns a stream to the fake, for a client that you have written.
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

---Cuts all connections, and refuses new ones. Keys stay.
function Fake:stop() end

---Accepts connections again.
function Fake:start() end

---Returns the received commands, as lists of words.
---@return string[][]
function Fake:received() end

---A connection that no other task uses. `<close>` gives it up; the next task gets a new connection.
---@class runloop.redis.Connection
local connection = {}

---Sends a command, and returns its answer. Words are strings and numbers, sent with their lengths. A null answer is
---nil alone; in a list it is `redis.null`; a map is a table. An error inside a list is a table with its message at 1.
---Waits.
---@param command string
---@param ... string|number
---@return any answer
---@return string? problem
---@return string? code
---@return table? details
function connection:call(command, ...) end

---Sends several commands at once; each has its own answer, or its own error. Waits.
---@param list (string|number)[][]
---@return any[]? answers
---@return table<integer, runloop.redis.Problem>|string|nil problems errors by index, or why there are no answers
---@return string? code
---@return table? details
function connection:batch(list) end

---Runs a Lua script in the server: by its digest, and by its text if the server does not know the digest. Waits.
---@param text string
---@param keys? (string|number)[]
---@param ... string|number
---@return any answer
---@return string? problem
---@return string? code
---@return table? details
function connection:script(text, keys, ...) end

---Iterates over the results of SCAN, SSCAN, HSCAN or ZSCAN, without the cursor; the last two return two values. An
---entry may come twice, as with SCAN. Waits. Raises an error if the server refuses a command.
---@param command string
---@param ... string|number
---@return fun(): string?, string?
function connection:rows(command, ...) end

---Raises: `call` is for commands.
function connection:query() end

---Raises: `call` is for commands.
function connection:row() end

---Raises: `call` is for commands.
function connection:value() end

---Raises: `call` is for commands.
function connection:execute() end

---Begins a transaction on this connection. Waits.
---@param options? { watch: string|string[]?, timeout: number? }
---@return runloop.redis.Transaction? transaction
---@return string? problem
---@return string? code
---@return table? details
function connection:begin(options) end

---Gives the connection up.
function connection:close() end

return redis
