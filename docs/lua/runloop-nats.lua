---@meta runloop.nats

-- Every call of the module `runloop.nats`: a client of NATS servers. docs/nats.md shows how the calls work together.
--
-- If the world refuses something, a call returns nil, "ENOENT: nobody answers on a.b", "ENOENT". When the time is over:
-- nil, "timed out". Wrong subjects, headers and options raise errors. Every thread may use the module; a bus belongs to
-- the thread that has made it.

---@class runloop.nats
local nats = {}

---@class runloop.nats.Options
---@field name? string shown by the server; the script's name if absent
---@field timeout? number seconds for connecting (10)
---@field retry? boolean true: tries again until `timeout`
---@field user? string
---@field password? string
---@field token? string
---@field credentials? string path of a `.creds` file, which is read for each connection
---@field nkey? string path of a file with the seed of a user's key
---@field tls? true|runloop.net.TLSOptions as for `net.connect`
---@field insecure? boolean true: secrets may go unencrypted to other machines
---@field reconnect? boolean|runloop.BackoffOptions false: the bus is closed when its connection is lost (true)
---@field ping? number seconds between questions; when two are not answered, the connection is lost (10)
---@field max_offline? integer bytes that wait while there is no connection (8 MB); 0: none, "ENOTCONN"
---@field republish? boolean true: what the server has not confirmed is sent again after a loss (false)
---@field inbox? string the beginning of the subjects for answers ("_INBOX")
---@field prefix? string the beginning of the subjects of ports and pools ("rl")
---@field modes? runloop.Modes of subscriptions that say nothing else; `"common"` if absent
---@field order? integer of subscriptions that say nothing else (0)
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

---@class runloop.nats.FakeOptions
---@field latency? number seconds for which a byte is under way (0)
---@field bandwidth? number bytes per second; no limit if absent
---@field password? string what clients must know
---@field max_payload? integer the largest message in bytes (1 MB)

---Makes a NATS server in this process, for tests: in virtual time under `rlhost test`. It has subjects, queue groups,
---headers and log-in by password.
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

---A client of a server, or of a cluster of servers. It connects again by itself, and keeps no program running.
---@class runloop.nats.Bus
local Bus = {}

---@class runloop.nats.PublishOptions
---@field reply? string the subject for answers
---@field headers? table<string, string|string[]>

---Publishes a message. It goes out with the other writes of the loop's pass, and the server confirms nothing: see
---`unconfirmed` and `flush`. While more than 1 MB is unsent, it lets other code run. Waits.
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

---Publishes a question, and returns one answer. Waits. It is never sent twice. `"ENOENT"`: nobody listens, which the
---server says at once; `"ECONNRESET"`: the connection was lost, and the question may have been handled.
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

---Iterates over the answers of all that listen. Raises an error if the question cannot be sent. Waits.
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
---@field max? integer ends itself after this number of messages
---@field modes? runloop.Modes of the function; `{}`: none yet, see `loop:add`
---@field order? integer
---@field name? string for messages
---@field keeps_alive? boolean false: the loop does not run on for it (true with a function)

---Subscribes to a subject, in which `*` stands for a word and a last `>` for all further words. With a function, the
---loop runs on for the subscription; without, call `receive`. An error in the function goes to `rl.on_error`, and the
---next message comes all the same.
---@param subject string
---@param options runloop.nats.SubscribeOptions?
---@param fn? fun(message: runloop.nats.Message, subscription: runloop.nats.Subscription)
---@return runloop.nats.Subscription? subscription
---@return string? problem
---@return string? code
---@overload fun(self: runloop.nats.Bus, subject: string, fn?: function): runloop.nats.Subscription?, string?, string?
function Bus:subscribe(subject, options, fn) end

---Returns when the server has all that was published. Waits.
---@param timeout? number seconds (10)
---@return true?
---@return string? problem
---@return string? code
function Bus:flush(timeout) end

---Asks for no more messages, handles those that wait, and closes the bus when the server has all that was published.
---Waits.
---@param timeout? number seconds (10)
---@return true?
---@return string? problem
---@return string? code
function Bus:drain(timeout) end

---Closes the bus. Calls that wait get "ENOTCONN"; what was written is still sent. `<close>` does the same.
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

---Returns what is known of the server; nil while there is none.
---@return runloop.nats.Server?
function Bus:server() end

---@class runloop.nats.Statistics
---@field messages_in integer
---@field messages_out integer
---@field bytes_in integer
---@field bytes_out integer
---@field reconnects integer
---@field late_answers integer answers to requests that nobody waits for any more
---@field subscriptions integer
---@field requests integer that wait for an answer
---@field offline_bytes integer that wait for a connection

---@return runloop.nats.Statistics
function Bus:stats() end

---Returns how many messages and bytes were published and are not confirmed by the server.
---@return integer messages
---@return integer bytes
function Bus:unconfirmed() end

-- Messages and subscriptions -----------------------------------------------------------------------------------------

---@class runloop.nats.Message
---@field subject string
---@field data string
---@field reply? string the subject for answers
---@field headers? table<string, string|string[]> by the exact name; a list if the name came several times
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

---Returns the next message. Waits. Returns nil, the reason and "ENOTCONN" at the end.
---@param timeout? number seconds; absent: no limit
---@return runloop.nats.Message? message
---@return string? problem
---@return string? code
function Subscription:receive(timeout) end

---Iterates over the messages, until the subscription ends. Waits.
---@return fun(): runloop.nats.Message?
function Subscription:messages() end

---Ends it at once; messages that wait are dropped. `<close>` does the same.
function Subscription:invalidate() end

---Asks for no more messages, and returns when the function has handled those that are here. Waits.
---@param timeout? number seconds (10)
---@return true?
---@return string? problem
---@return string? code
function Subscription:drain(timeout) end

---@return boolean
function Subscription:is_valid() end

---@class runloop.nats.SubscriptionStatistics
---@field received integer without those dropped
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

-- Fakes --------------------------------------------------------------------------------------------------------------

---A server in this process.
---@class runloop.nats.Fake
local Fake = {}

---Returns a stream to it, for a client of your own.
---@return runloop.net.Stream? stream
---@return string? problem
---@return string? code
function Fake:connect() end

---Cuts all connections, now or when it has sent this number of further bytes.
---@param after? integer
function Fake:drop(after) end

---Handles nothing for some seconds.
---@param seconds number
function Fake:stall(seconds) end

---Cuts all connections, and refuses new ones.
function Fake:stop() end

---Accepts connections again.
function Fake:start() end

---Returns the commands that it has received, without messages' bytes.
---@return string[]
function Fake:received() end

return nats
