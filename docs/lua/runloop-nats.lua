---@meta runloop.nats

-- Every call of the module `runloop.nats`: a client of NATS servers. docs/nats.md shows how the calls work together.
--
-- If the network or the server refuses something, a call returns nil, "ENOENT: nobody answers on a.b", "ENOENT". When
-- the time limit has passed: nil, "timed out". Wrong subjects, headers and options raise errors. Every thread may use
-- the module; a bus belongs to the thread that has made it.

---@class runloop.nats
local nats = {}

---@class runloop.nats.Options
---@field name? string shown by the server; the script's name if absent
---@field timeout? number seconds for connecting (10)
---@field retry? boolean true: tries again until `timeout`; then the result is the last refusal, if there was one
---@field user? string
---@field password? string
---@field token? string
---@field credentials? string path of a `.creds` file, which is read for each connection
---@field nkey? string path of a file with the seed of a user's key
---@field tls? true|runloop.net.TLSOptions as for `net.connect`
---@field insecure? boolean true: secrets may go unencrypted to other machines
---@field reconnect? boolean|runloop.BackoffOptions false: the bus is closed when its connection is lost (true)
---@field ping? number seconds between pings; when two are not answered, the connection counts as lost (10)
---@field max_offline? integer bytes that wait while there is no connection (8 MB); 0: none, "ENOTCONN"
---@field republish? boolean true: sends unconfirmed messages again after the connection was lost (false)
---@field inbox? string the beginning of the subjects for answers ("_INBOX")
---@field prefix? string the beginning of the subjects of ports and pools ("rl")
---@field expose? ("stats"|"trace")[] what others on the bus may see of this process: `"stats"`, for `rlhost top --via`
---and `nats.discover`; `"trace"`, for `rlhost trace --via`: its recordings
---@field modes? runloop.Modes of subscriptions without their own modes; `"common"` if absent
---@field order? integer of subscriptions without their own order (0)
---@field on_event? fun(bus: runloop.nats.Bus, event: runloop.nats.Event, details: table)

---@alias runloop.nats.Event "disconnected"|"reconnected"|"lame duck"|"refused"|"slow"|"closed"

---Connects and logs in. Waits. The servers are tried in random order, each one once. They are `"nats://a:4222"`,
---`"tls://a"`, `"host:port"`, several with commas between them, a port of this machine, a fake, or a list of these.
---@param servers string|integer|runloop.nats.Fake|(string|integer|runloop.nats.Fake)[]
---@param options? runloop.nats.Options
---@return runloop.nats.Bus? bus
---@return string? problem
---@return string? code
function nats.connect(servers, options) end

---@class runloop.nats.DiscoverOptions
---@field name? string of the service; all if absent
---@field timeout? number seconds for the answers (0.3)

---A service that another process offers on a bus. `stats` is the answer to `$SRV.STATS` (ADR-32 of NATS): `started`,
---`version`, `metadata`, and `endpoints` with `name`, `subject`, `num_requests`, `num_errors`, `last_error`,
---`processing_time` (nanoseconds), and `data`. A field that is JSON's `null` is `json.null`.
---@class runloop.nats.Service
---@field name string `"rlhost"` for a process that exposes itself
---@field id string different for each connection
---@field host? string
---@field pid? integer
---@field stats table

---Asks which services there are: processes that expose themselves, and the services of other clients. Waits; if any
---service answers, for the whole timeout.
---
---```lua
---local nats = require "runloop.nats"
---local fake = nats.fake()
---local bus <close> = assert(nats.connect(fake, { expose = { "stats" } }))
---for _, one in ipairs(assert(nats.discover(bus))) do
---  print(one.name, one.stats.endpoints[1].name, one.stats.endpoints[1].data.tasks > 0)
---end
---```
---```text
---rlhost	process	true
---```
---@param bus runloop.nats.Bus
---@param options? runloop.nats.DiscoverOptions
---@return runloop.nats.Service[]? services sorted by name and id
---@return string? problem
---@return string? code
function nats.discover(bus, options) end

---@class runloop.nats.FakeOptions
---@field latency? number seconds that a byte takes to arrive (0)
---@field bandwidth? number bytes per second; no limit if absent
---@field password? string the password that clients must send
---@field max_payload? integer the largest message in bytes (1 MB)
---@field jetstream? boolean true: it has streams with one replica, consumers, buckets and leases (false)

---Makes a NATS server in this process, for tests: in virtual time under `rlhost test`. It has subjects, queue groups,
---headers and log-in by password; with `jetstream = true` it stores messages, too.
---
---```lua
---local nats = require "runloop.nats"
---local bus <close> = assert(nats.connect(nats.fake()))
---bus:subscribe("add.one", { keeps_alive = false }, function(m) m:respond(tostring(m.data + 1)) end)
---print(assert(bus:request("add.one", "41")).data)
---print(bus:request("add.two", "41"))
---```
---```text
---42
---nil	ENOENT: nobody answers on add.two	ENOENT
---```
---@param options? runloop.nats.FakeOptions
---@return runloop.nats.Fake
function nats.fake(options) end

-- Buses --------------------------------------------------------------------------------------------------------------

---A client of a server, or of a cluster of servers. A bus reconnects by itself, and does not keep the program running.
---@class runloop.nats.Bus
local Bus = {}

---@class runloop.nats.PublishOptions
---@field reply? string the subject for answers
---@field headers? table<string, string|string[]>

---Publishes a message. The message is sent with the other writes of the loop's pass, and the server confirms nothing:
---see `unconfirmed` and `flush`. While more than 1 MB is unsent, the call lets other code run. Waits.
---@param subject string
---@param data? string
---@param options? runloop.nats.PublishOptions
---@return true?
---@return string? problem "EMSGSIZE", "ENOBUFS" or "ENOTCONN"
---@return string? code
function Bus:publish(subject, data, options) end

---@class runloop.nats.RequestOptions
---@field timeout? number seconds (2)
---@field headers? table<string, string|string[]>

---Publishes a request, and returns one answer. Waits. A request is never sent twice. `"ENOENT"`: nobody listens,
---which the server says at once; `"ECONNRESET"`: the connection was lost, and the request may have been handled.
---@param subject string
---@param data? string
---@param options? runloop.nats.RequestOptions
---@return runloop.nats.Message? answer
---@return string? problem
---@return string? code
function Bus:request(subject, data, options) end

---@class runloop.nats.GatherOptions
---@field timeout? number seconds for all answers (0.3)
---@field most? integer ends after this number of answers
---@field headers? table<string, string|string[]>

---Iterates over the answers of all subscribers. Raises an error if the request cannot be sent, or if the connection is
---lost before the end. Waits.
---@param subject string
---@param data? string
---@param options? runloop.nats.GatherOptions
---@return fun(): runloop.nats.Message?
function Bus:gather(subject, data, options) end

---@class runloop.nats.SubscribeOptions
---@field queue? string a queue group: one of its subscriptions gets each message
---@field concurrency? integer how many calls of the function may wait at the same time (1, which keeps the order)
---@field max_pending? integer messages that may wait here; more are dropped and counted (65536)
---@field max_bytes? integer bytes that may wait here (64 MB)
---@field max? integer the subscription ends after this number of messages
---@field modes? runloop.Modes of the function; `{}`: none yet, see `loop:add`
---@field order? integer
---@field name? string for messages
---@field keeps_alive? boolean false: this does not keep the loop running (true with a function)

---Subscribes to a subject, in which `*` stands for a word and a last `>` for all further words. With a function, the
---subscription keeps the loop running; without one, call `receive`. An error in the function goes to `rl.on_error`, and
---the function still gets the next message.
---@param subject string
---@param options runloop.nats.SubscribeOptions?
---@param fn? fun(message: runloop.nats.Message, subscription: runloop.nats.Subscription)
---@return runloop.nats.Subscription? subscription
---@return string? problem
---@return string? code
---@overload fun(self: runloop.nats.Bus, subject: string, fn?: function): runloop.nats.Subscription?, string?, string?
function Bus:subscribe(subject, options, fn) end

---Returns when the server has received all published messages. Waits.
---@param timeout? number seconds (10)
---@return true?
---@return string? problem
---@return string? code
function Bus:flush(timeout) end

---Ends the subscriptions, handles the messages that wait, and closes the bus when the server has received all
---published messages. Waits.
---@param timeout? number seconds (10)
---@return true?
---@return string? problem
---@return string? code
function Bus:drain(timeout) end

---Closes the bus. Calls that wait get "ENOTCONN"; messages that were written are still sent, for up to two seconds.
---`<close>` does the same.
function Bus:close() end

---@return boolean
function Bus:is_open() end

---@return "connected"|"reconnecting"|"draining"|"closed"
function Bus:status() end

---@class runloop.nats.Server
---@field address string
---@field name? string
---@field version? string
---@field cluster? string
---@field max_payload integer bytes
---@field jetstream boolean
---@field tls boolean
---@field round_trip number seconds

---Returns the server's description of itself; nil while there is no connection.
---@return runloop.nats.Server?
function Bus:server() end

---@class runloop.nats.Statistics
---@field messages_in integer
---@field messages_out integer
---@field bytes_in integer
---@field bytes_out integer
---@field reconnects integer
---@field late_answers integer answers to requests for which no task waits any more
---@field subscriptions integer
---@field requests integer requests that wait for an answer
---@field offline_bytes integer bytes that wait for a connection

---@return runloop.nats.Statistics
function Bus:stats() end

---Returns how many published messages and bytes the server has not confirmed.
---@return integer messages
---@return integer bytes
function Bus:unconfirmed() end

-- Storage -------------------------------------------------------------------------------------------------------------

---@class runloop.nats.StreamSettings
---@field subjects? string[] the subjects that it stores, with wildcards; its name if absent
---@field replicas? integer 1 to 5; 3 where the server belongs to a cluster, else 1
---@field retention? "limits"|"workqueue"|"interest" which messages are kept: all within the limits; those that no
---consumer has acknowledged; those that some existing consumer has not acknowledged ("limits")
---@field storage? "file"|"memory" ("file")
---@field max_age? number seconds
---@field max_bytes? integer
---@field max_messages? integer
---@field duplicates? number seconds for which the stream remembers the ids of messages (120)

---Finds a stream, or, if settings are given, makes it. Waits. `"ENOENT"`: the stream does not exist, and no settings
---were given; `"EEXIST"`: it exists with other settings, which the message names; `"ENOTSUP"`: the server stores
---nothing, or its cluster is too small for `replicas`. A refusal by JetStream has a fourth value.
---@param name string 1 to 100 letters, digits, "_" and "-"
---@param settings? runloop.nats.StreamSettings
---@return runloop.nats.Stream? stream
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bus:stream(name, settings) end

---An error that JetStream has reported.
---@class runloop.nats.Refusal
---@field err_code integer
---@field description string

---@class runloop.nats.BucketSettings
---@field history? integer how many values of a key are kept, 1 to 64 (1)
---@field ttl? number seconds after which a value is removed
---@field replicas? integer as for streams
---@field max_bytes? integer
---@field storage? "file"|"memory" ("file")

---Finds a bucket, or, if settings are given, makes it. Waits. Errors are those of `bus:stream`.
---@param name string 1 to 100 letters, digits, "_" and "-"
---@param settings? runloop.nats.BucketSettings
---@return runloop.nats.Bucket? bucket
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bus:bucket(name, settings) end

---@class runloop.nats.LeaseOptions
---@field ttl? number seconds after which others may take a lease that is not renewed, 1 to 3600 (5)
---@field timeout? number seconds to wait for it; absent: no limit
---@field on_lost? fun(lease: runloop.nats.Lease) called when the lease is lost, not when it is released
---@field bucket? string the bucket that stores it ("rl_leases"), made if it does not exist

---Takes a lease, which only one program at a time can hold. Waits until the lease is free. When the time limit has
---passed: nil, "timed out", "EBUSY" and the holder.
---@param name string a key of a bucket
---@param options? runloop.nats.LeaseOptions
---@return runloop.nats.Lease? lease
---@return string? problem
---@return string? code
---@return { host: string, pid: integer, name: string }? holder
function Bus:lease(name, options) end

---A stream of JetStream: messages that the server stores.
---@class runloop.nats.Stream
local Stream = {}

---@class runloop.nats.StoreOptions
---@field id? string by which the server recognises repetitions; random if absent
---@field headers? table<string, string|string[]>
---@field timeout? number seconds (10), at most half of the stream's `duplicates`
---@field after? integer store it only if this is the number of the last message, else "EAGAIN"

---@class runloop.nats.Stored
---@field stream string
---@field seq integer the number of the message
---@field duplicate boolean true: the id was known, and nothing was stored this time

---Stores a message. Waits. When the call returns, a majority of the stream's replicas has the message. The message is
---sent again until an answer comes; the server recognises repetitions by the id. `nil, "timed out"`: the message may
---have been stored. `"ENOSPC"`: a limit is reached.
---@param subject string
---@param data? string
---@param options? runloop.nats.StoreOptions
---@return runloop.nats.Stored? stored
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Stream:publish(subject, data, options) end

---@class runloop.nats.StreamInfo
---@field messages integer
---@field bytes integer
---@field first integer the number of the first message
---@field last integer
---@field replicas integer
---@field leader? string the server that leads, in a cluster
---@field consumers integer

---Asks the server. Waits.
---@return runloop.nats.StreamInfo? info
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Stream:info() end

---Changes some settings. Waits. If `max_age` becomes shorter than `duplicates`, and `duplicates` is not given,
---`duplicates` becomes as short as `max_age`.
---@param settings runloop.nats.StreamSettings
---@return true?
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Stream:update(settings) end

---Removes all messages, or those of a subject. Waits.
---@param subject? string may have wildcards
---@return integer? removed how many
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Stream:purge(subject) end

---Removes the stream with all its messages. Waits.
---@return true?
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Stream:remove() end

---@return string
function Stream:name() end

---@class runloop.nats.ConsumerOptions
---@field filter? string a subject, with wildcards; all if absent
---@field deliver? "all"|"new"|"last"|integer|{ since: number } where a new consumer begins: a number, or a time ("all")
---@field ack_wait? number seconds after which an unanswered message is handed out again (30)
---@field max_deliver? integer how often a message is handed out (5)
---@field max_waiting? integer how many pull requests of clients may wait at the server (256)
---@field batch? integer the most messages that are buffered here or requested (200)
---@field concurrency? integer how many calls of the function may wait at the same time (1)
---@field time_limit? number seconds after which a call is cancelled (600)
---@field modes? runloop.Modes of the function
---@field order? integer
---@field keeps_alive? boolean false: this does not keep the loop running (true with a function)

---Finds a consumer, or, if options are given, makes it. Waits. Consumers with the same name share the messages.
---Without a name, the consumer is removed with the object. With a function, a message is acknowledged when the
---function returns, and returned to the server when the function raises an error: after delivery number n, it comes
---again after n seconds.
---@param name string? 1 to 100 letters, digits, "_" and "-"
---@param options runloop.nats.ConsumerOptions?
---@param fn? fun(message: runloop.nats.StoredMessage, consumer: runloop.nats.Consumer)
---@return runloop.nats.Consumer? consumer
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
---@overload fun(self: runloop.nats.Stream, name: string?, fn?: function): runloop.nats.Consumer?, string?, string?
function Stream:consumer(name, options, fn) end

---Delivers each message of a stream to its readers until one of them acknowledges it.
---@class runloop.nats.Consumer
local Consumer = {}

---Returns the next message, which the script has to answer. Waits. At the end: nil, the reason, and "ENOTCONN" or, if
---the consumer was removed, "ENOENT".
---@param timeout? number seconds; absent: no limit
---@return runloop.nats.StoredMessage? message
---@return string? problem
---@return string? code
function Consumer:receive(timeout) end

---Iterates over the messages, until the consumer ends. Waits.
---@return fun(): runloop.nats.StoredMessage?
function Consumer:messages() end

---@class runloop.nats.ConsumerStatistics
---@field received integer
---@field handled integer messages that were received here, or whose call has ended
---@field pending integer messages that wait here
---@field unanswered integer messages that are here and not yet answered

---@return runloop.nats.ConsumerStatistics
function Consumer:stats() end

---Ends the consumer in this process: messages that wait go back to the server at once. `<close>` does the same.
function Consumer:invalidate() end

---Removes the consumer from the server. Waits.
---@return true?
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Consumer:remove() end

---@return boolean
function Consumer:is_valid() end

---@return string
function Consumer:name() end

---A message of a stream. Each message is answered once; a second answer raises an error.
---@class runloop.nats.StoredMessage
---@field subject string
---@field data string
---@field headers? table<string, string|string[]>
---@field stream string
---@field seq integer its number in the stream
---@field time number when it was stored, as `rl.time` counts
---@field delivered integer how often it was handed out
local StoredMessage = {}

---Acknowledges the message: it is done. Waits if `timeout` is given, until the server has confirmed it.
---@param timeout? number seconds
---@return true?
---@return string? problem
---@return string? code
function StoredMessage:ack(timeout) end

---Returns the message to the server: it is delivered again, to any reader.
---@param delay? number seconds
---@return true?
---@return string? problem
---@return string? code
function StoredMessage:nak(delay) end

---Tells the server that the message is still being handled: `ack_wait` begins again. A consumer calls this itself while
---its function runs.
---@return true?
---@return string? problem
---@return string? code
function StoredMessage:working() end

---The message is never delivered again, although it is not done.
---@param reason? string a text that the server's advisories show (2.10.4 and later)
---@return true?
---@return string? problem
---@return string? code
function StoredMessage:term(reason) end

---A bucket: keys with values, stored by the servers.
---@class runloop.nats.Bucket
local Bucket = {}

---Returns a value and its revision; nil alone if the key does not exist. Waits.
---@param key string 1 to 200 letters, digits and - / _ = .
---@param options? { revision: integer?, stale: boolean? } stale: read from any replica, not from the leader
---@return string? value
---@return integer|string|nil revision or the error message
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bucket:get(key, options) end

---Sets a value. Waits. `revision`: stores only if this is the key's revision, else "EAGAIN"; 0: only if the key does
---not exist, else "EEXIST".
---@param key string
---@param value string
---@param options? { revision: integer? }
---@return integer? revision
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bucket:put(key, value, options) end

---Removes a key; its history stays, unless `purge` is true. Waits.
---@param key string
---@param options? { revision: integer?, purge: boolean? }
---@return integer? revision
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bucket:remove(key, options) end

---Returns the existing keys, sorted. Waits.
---@param filter? string a key, in which `*` stands for a word and a last `>` for all further words
---@return string[]? keys
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bucket:keys(filter) end

---Returns the stored values of a key, the oldest first. Waits.
---@param key string
---@return runloop.nats.Entry[]? entries
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
function Bucket:history(key) end

---@class runloop.nats.Entry
---@field key string
---@field value string
---@field revision integer
---@field time number when it was stored, as `rl.time` counts
---@field operation "put"|"remove"|"purge"
---@field initial? true the entry existed when the watch began

---@class runloop.nats.WatchOptions
---@field modes? runloop.Modes of the function
---@field order? integer
---@field keeps_alive? boolean false: this does not keep the loop running (true with a function)

---Watches keys: reports existing entries, then changes, without a gap after lost connections. Waits until the watch
---has begun. The function gets each entry; after the last entry that existed at the beginning, it gets nil once.
---@param filter string a key, in which `*` stands for a word and a last `>` for all further words
---@param options runloop.nats.WatchOptions?
---@param fn? fun(entry: runloop.nats.Entry?, watch: runloop.nats.Watch)
---@return runloop.nats.Watch? watch
---@return string? problem
---@return string? code
---@return runloop.nats.Refusal? refusal
---@overload fun(self: runloop.nats.Bucket, filter: string, fn?: function): runloop.nats.Watch?, string?, string?
function Bucket:watch(filter, options, fn) end

---@return string
function Bucket:name() end

---@class runloop.nats.Watch
local Watch = {}

---Returns the next entry. Waits.
---@param timeout? number seconds; absent: no limit
---@return runloop.nats.Entry? entry
---@return string? problem
---@return string? code "ENOENT": the bucket was removed; "ENOTCONN"
function Watch:receive(timeout) end

---Iterates over the entries, until the watch ends. Waits.
---@return fun(): runloop.nats.Entry?
function Watch:entries() end

---Returns whether all entries that existed at the beginning have been received.
---@return boolean
function Watch:is_current() end

---Ends it. `<close>` does the same.
function Watch:invalidate() end

---@return boolean
function Watch:is_valid() end

---@class runloop.nats.Lease
local Lease = {}

---Returns a number that grows with each holder. The program or service that the lease protects should refuse a request
---whose number is smaller than one that it has seen.
---@return integer
function Lease:epoch() end

---Returns whether this program still holds the lease, by its clock: false when renewals were not answered for two
---thirds of `ttl`, or the program was stopped for as long.
---@return boolean
function Lease:is_valid() end

---Calls a function as a task, and cancels it when the lease is lost. Returns its results; or nil, the reason and
---"ECONNRESET". Raises the function's error. Waits.
---@param fn function
---@param ... any arguments for `fn`
---@return any ...
function Lease:run(fn, ...) end

---Releases the lease: the next program gets it at once. `<close>` does the same, and so does closing the bus.
function Lease:invalidate() end

---@return string
function Lease:name() end

-- Workers and pools --------------------------------------------------------------------------------------------------

---@class runloop.nats.WorkerOptions
---@field via runloop.nats.Bus
---@field name string of the pool: 1 to 100 letters, digits, "_" and "-"
---@field functions table<string, function> functions that others may call, by name
---@field concurrency? integer how many jobs run at a time (1)
---@field modes? runloop.Modes of the functions ("common"); `{}`: none until `loop:add`, for jobs that are not stored
---@field order? integer
---@field keeps_alive? boolean false: the worker does not keep the loop running (true)

---A worker of a pool, as `rl.worker` makes it.
---@class runloop.nats.Worker
local Worker = {}

---Takes no more jobs. Jobs that wait here go to other workers; running jobs go on. `<close>` does the same, and so does
---the end of the program, which waits for the running jobs: see `rl.on_shutdown`.
function Worker:invalidate() end

---@return boolean
function Worker:is_valid() end

---@return string
function Worker:name() end

---@return integer
function Worker:order() end

---@class runloop.nats.PoolOptions
---@field via runloop.nats.Bus
---@field name string 1 to 100 letters, digits, "_" and "-"
---@field timeout? number seconds for a call, including the time until a worker takes it (60)
---@field durable? boolean|runloop.nats.PoolStorage true: jobs are stored, and survive caller, worker and server (false)

---@class runloop.nats.PoolStorage
---@field replicas? integer as for streams
---@field ack_wait? number seconds after which another worker gets the job of a worker that has ended (10)
---@field max_deliver? integer how often a job is tried before it goes to `rl.dead.pool.<name>` (3)

---Calls functions of workers on other machines, as `rl.pool { via = … }` makes it.
---@class runloop.nats.Pool
local Pool = {}

---Calls a function of a worker by its name. Waits. Returns its results. Raises the function's error, with the stack,
---the host and the process; an error that is a table gets the fields `traceback`, `host` and `pid`. Also raises an
---error if the pool has no workers, if the worker ends, or when the time limit has passed. Arguments and results are
---sent as JSON: exact numbers, UTF-8 texts, booleans, nil, `json.null`, and tables of these. If the calling task is
---cancelled, the function is cancelled.
---@param name string
---@param ... any
---@return any ...
function Pool:run(name, ...) end

---Calls a function for each element of a list, 256 at a time, as `name(element, ..., position)`. Waits. The first error
---cancels the others and is raised.
---@param list any[]
---@param name string
---@param ... any further arguments of each call
---@return any[] results the first result of each call, in order
function Pool:map(list, name, ...) end

---Closes the pool: calls that wait are cancelled and raise an error. `<close>` does the same.
function Pool:close() end

-- Messages and subscriptions -----------------------------------------------------------------------------------------

---@class runloop.nats.Message
---@field subject string
---@field data string
---@field reply? string the subject for answers
---@field headers? table<string, string|string[]> by exact name; a list for a repeated name; without the recorder's. nil
---if another client has written headers in a different form
local Message = {}

---Answers. Raises an error if the message has no `reply`.
---@param data? string
---@param options? { headers: table<string, string|string[]>? }
---@return true?
---@return string? problem
---@return string? code
function Message:respond(data, options) end

---@class runloop.nats.Subscription
local Subscription = {}

---Returns the next message. Waits. Returns nil, the reason and "ENOTCONN" at the end, or "EACCES" if the server refuses
---the subject; another connection may allow it.
---@param timeout? number seconds; absent: no limit
---@return runloop.nats.Message? message
---@return string? problem
---@return string? code
function Subscription:receive(timeout) end

---Iterates over the messages, until the subscription ends. Waits.
---@return fun(): runloop.nats.Message?
function Subscription:messages() end

---Ends the subscription at once; messages that wait are dropped. `<close>` does the same.
function Subscription:invalidate() end

---Ends the subscription, and returns when the function has handled the messages that are here. Waits.
---@param timeout? number seconds (10)
---@return true?
---@return string? problem
---@return string? code
function Subscription:drain(timeout) end

---@return boolean
function Subscription:is_valid() end

---@class runloop.nats.SubscriptionStatistics
---@field received integer messages received, without dropped ones
---@field handled integer
---@field dropped integer
---@field pending integer
---@field pending_bytes integer

---@return runloop.nats.SubscriptionStatistics
function Subscription:stats() end

---@return string
function Subscription:name() end

---@return integer
function Subscription:order() end

-- Message ports over a bus ------------------------------------------------------------------------------------------

---The options of `rl.message_port` for a bus. docs/message-ports.md describes its guarantees.
---@class runloop.nats.MessagePortOptions
---@field via runloop.nats.Bus
---@field name string words of letters, digits, `_` and `-`, joined by dots; at most 100 bytes
---@field callback fun(port: runloop.nats.MessagePort, id: integer, data: string, delivered?: integer): string? returns
---the answer. `delivered`: how often a durable port has handed the message out
---@field holders? "many"|"one" "one": at most one process holds the name; others get "EADDRINUSE" ("many")
---@field durable? boolean|runloop.nats.DurableOptions messages wait in a stream until they are handled (false)
---@field order? integer lower ones first; 0 if absent
---@field on_invalidate? fun(port: runloop.nats.MessagePort) called when it is invalidated, or has lost its lease
---@field modes? runloop.Modes adds it to these modes of the current loop at once; if absent, call `loop:add`
---@field keeps_alive? boolean false: the loop serves it, but does not run on for it; true if absent

---@class runloop.nats.DurableOptions
---@field replicas? integer 1 to 5; three in a cluster, else one
---@field max_age? number seconds for which a message waits (7 days)
---@field max_deliver? integer deliveries without success, after which a message goes to `rl.dead.port.<name>` (5)
---@field ack_wait? number seconds after which another holder gets the message of one that has died (10)

---@class runloop.nats.RemotePortOptions
---@field via runloop.nats.Bus
---@field durable? boolean|runloop.nats.DurableOptions the same as at the holders (false)

---The receiver's side of a message port over a bus, as `rl.message_port { via = … }` makes it.
---@class runloop.nats.MessagePort
local MessagePort = {}

---Raises an error: a port over a bus keeps its name.
---@param name string
function MessagePort:set_name(name) end

---Removes it from every mode for good. Messages that wait here go to other holders. `<close>` does the same.
function MessagePort:invalidate() end

---@return boolean
function MessagePort:is_valid() end

---@return string
function MessagePort:name() end

---@return integer
function MessagePort:order() end

---The sender's side of a message port over a bus, as `rl.remote_port(name, { via = … })` returns it.
---@class runloop.nats.RemotePort
local RemotePort = {}

---Sends a request, and waits for the answer. Waits. Raises an error if the port is durable: durable ports send no
---answers.
---@param id integer a 32-bit integer
---@param data string
---@param options? runloop.RequestOptions
---@return string? answer
---@return runloop.RemoteFailure? reason
function RemotePort:request(id, data, options) end

---Sends without asking for an answer. Waits.
---@param id integer a 32-bit integer
---@param data string
---@param options? runloop.RemoteSendOptions
---@return boolean? sent
---@return runloop.RemoteFailure? reason
function RemotePort:send(id, data, options) end

---Waits until all messages have been handled or, if the port is durable, stored. Waits.
---@param timeout? number seconds; absent: no limit
---@return boolean? done
---@return runloop.RemoteFailure? reason
function RemotePort:flush(timeout) end

---Returns how many messages the other side may not have handled yet or, if the port is durable, the server may not have
---stored yet.
---@return integer
function RemotePort:unacknowledged() end

---Asks a holder for the name of its host. Waits.
---@return string? host
---@return string|integer|nil process the process id there; or the error message
---@return string? code
function RemotePort:host() end

---Asks a holder for its process id. Waits.
---@return integer? process
---@return string? problem
---@return string? code
function RemotePort:process() end

---Ends it. `<close>` does the same.
function RemotePort:invalidate() end

---Returns false after it has found that no process holds the name. An idle port asks in the background.
---@return boolean
function RemotePort:is_valid() end

---@return string
function RemotePort:name() end

-- Fakes --------------------------------------------------------------------------------------------------------------

---A server in this process.
---@class runloop.nats.Fake
local Fake = {}

---Returns a stream to it, for a client of your own.
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

---Returns the received commands, without the data of messages.
---@return string[]
function Fake:received() end

return nats
