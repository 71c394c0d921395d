---@meta runloop.http

-- Every call of the module `runloop.http`, for readers and for Lua editors. Times are seconds. What the network refuses is an answer:
-- nil, a message, a code. Each thread may use it; a server, a client and what belongs to them stay in the thread that made them.

---@class runloop.http
local http = {}

-- Client -------------------------------------------------------------------------------------------------------------------

---@class runloop.http.RequestOptions
---@field method? string `"GET"`; with a body `"POST"`
---@field headers? table<string, string|number|false> false takes one away that would be sent otherwise
---@field query? table<string, any> put behind the URL's question mark, escaped; lists repeat the name
---@field body? string|fun(): string?|runloop.net.Stream a function gives a piece at each call, and nil at the end; both are sent as fast as they are taken
---@field json? any a value, sent as JSON
---@field form? table<string, any> sent as an HTML form
---@field timeout? number for all of it, redirects included; absent: no limit; 0: "timed out" at once
---@field connect_timeout? number of each connection; 30 if absent
---@field idle_timeout? number without a byte in either direction; 60 if absent, but none for `http.open`; 0: no limit
---@field follow? integer how many redirects (301, 302, 303, 307, 308); 10 if absent; 0: each is an answer like others. 303 makes GET of every
---method but HEAD, 301 and 302 of POST, without the body; otherwise method and body stay, and a body that a function or a stream has given is
---"ESPIPE". Another server (scheme, host and port) gets neither `user` and `password` nor the fields Authorization and Cookie
---@field proxy? string|boolean its URL; false: none. Absent: as the environment says (`http_proxy`, `no_proxy`)
---@field tls? true|runloop.http.TLSOptions
---@field unix? string the path of a Unix socket to send it to; `"@name"`: an abstract one
---@field bind? string the own address or interface
---@field decompress? boolean false: the body as it was sent. Otherwise gzip and deflate are asked for, and decoded; an end too early is "EOF". Who asks for
---others, as by `headers = { ["accept-encoding"] = "br" }`, gets them decoded as far as libcurl can, and their end unchecked
---@field max_body? integer bytes, decoded; 16 MB if absent, but any number for `http.open`; 0: not one
---@field high_water? integer of `http.open`: how many bytes are kept before the sender is held back; 256 kB if absent
---@field user? string
---@field password? string
---@field version? string `"1.0"`, `"1.1"`, `"2"` (over TLS, which is the default) or `"2-direct"`

---@class runloop.http.TLSOptions
---@field verify? boolean false: whoever answers is believed
---@field ca? string a file of certificates, or a directory of hashed ones; absent: the system's (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured)
---@field certificate? string the own one
---@field key? string its key
---@field min_version? string `"1.2"` or `"1.3"`

---@class runloop.http.Request: runloop.http.RequestOptions
---@field url string

---@class runloop.http.Answer
---@field status integer
---@field reason string
---@field headers table<string, string> found by any spelling of their names; `set-cookie` is a list
---@field body string
---@field url string where redirects have led
---@field version string `"1.1"`, `"2"`
---@field redirects integer
---@field seconds number
---@field address string
local Answer = {}

---The body, read as JSON: as `json.decode`.
---@return any value
---@return string? problem
---@return string? code
function Answer:json() end

---Gets a URL, and waits for all of the answer. Every status is an answer, 500 too. Needs libcurl.so.4, which is loaded at the first
---request of the program; without it the answer is nil, `"module 'runloop.http': libcurl.so.4 is not installed (apt install libcurl4)"`.
---@param url string
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code "ECONNREFUSED", "ENOTFOUND" (there is no such name), "EAI_AGAIN" (no name server answers), "TLS_CERTIFICATE", "EMSGSIZE", "EOF" (an end too early), "EBADMSG" (a bad answer, such as one with two lengths), "TLS_TRUNCATED" (an end that TLS did not announce), "ELOOP" (too many redirects), "ESPIPE", …
function http.get(url, options) end

---Posts a body.
---@param url string
---@param body? string|fun(): string?|runloop.net.Stream
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function http.post(url, body, options) end

---Makes any request. `http.fetch { url, … }` is the same as `http.fetch { url = url, … }`.
---@param request runloop.http.Request
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function http.fetch(request) end

---Makes a request, and waits for the head of its answer. The body is read as it comes, by one task at a time; while nobody reads, the sender
---is held back. A read that is cancelled, as by `rl.timeout`, takes nothing. An answer that has not come to its end has its place among the
---connections of its client until it is closed.
---@param request runloop.http.Request
---@return runloop.http.OpenAnswer? answer
---@return string? message
---@return string? code
function http.open(request) end

---@class runloop.http.OpenAnswer
---@field status integer
---@field reason string
---@field headers table<string, string>
---@field url string
local OpenAnswer = {}

---What there is, at least one byte.
---@param max? integer bytes
---@return string? bytes nil at the end
---@return string? message
---@return string? code
function OpenAnswer:read(max) end

---Everything up to the end. If that is more, or cut off, what has come is there for the next read.
---@param max? integer bytes; 16 MB if absent: "EMSGSIZE"
---@return string? bytes
---@return string? message
---@return string? code
function OpenAnswer:read_all(max) end

---@param max? integer
---@return any value
---@return string? problem
---@return string? code
function OpenAnswer:json(max) end

---Iterates over pieces of the body. Iterators raise what goes wrong.
---@return fun(): string?
function OpenAnswer:chunks() end

---Iterates over lines, without their ends.
---@param options? { max?: integer } bytes of a line; 1 MB if absent
---@return fun(): string?
function OpenAnswer:lines(options) end

---Iterates over server-sent events.
---@param options? { max?: integer } bytes of an event; 1 MB if absent
---@return fun(): runloop.http.Event?
function OpenAnswer:events(options) end

---Ends the request. `<close>` does the same.
function OpenAnswer:close() end

---@class runloop.http.Event
---@field event? string `"message"` if absent
---@field data? any text; other values are sent as JSON
---@field id? string|integer
---@field retry? number seconds that the client is to wait before it comes again
---@field comment? string

---@class runloop.http.ClientOptions
---@field modes? runloop.Modes in which its connections are served; `"common"` if absent
---@field connections? integer to each host; 64 if absent. What is over that waits in its order; only `timeout` counts meanwhile
---@field max_connections? integer in all
---@field cookies? boolean keeps cookies, and sends them back
---@field headers? table<string, string> for all its requests, as are the following
---@field timeout? number
---@field connect_timeout? number
---@field idle_timeout? number
---@field follow? integer
---@field proxy? string|boolean
---@field tls? true|runloop.http.TLSOptions
---@field unix? string
---@field bind? string
---@field decompress? boolean
---@field max_body? integer
---@field user? string
---@field password? string
---@field version? string
---@field name? string for messages

---A client with connections, cookies and limits of its own. The calls above are those of one that all share.
---@param options? runloop.http.ClientOptions
---@return runloop.http.Client client
function http.client(options) end

---@class runloop.http.Client
local Client = {}

---@param url string
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function Client:get(url, options) end

---@param url string
---@param body? string|fun(): string?|runloop.net.Stream
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function Client:post(url, body, options) end

---@param request runloop.http.Request
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function Client:fetch(request) end

---@param request runloop.http.Request
---@return runloop.http.OpenAnswer? answer
---@return string? message
---@return string? code
function Client:open(request) end

---Ends its requests and connections. `<close>` does the same.
function Client:close() end

---@class runloop.http.WebSocketOptions
---@field max_message? integer bytes; 1 MB if absent
---@field compress? boolean false: without permessage-deflate
---@field protocols? string[] in the order of preference
---@field close_timeout? number how long `close` waits for the other side; 5 if absent
---@field headers? table<string, string>
---@field timeout? number for connecting and the handshake; 30 if absent
---@field tls? table|boolean as `net.connect` takes it; `wss://` implies it
---@field unix? string the path of a Unix socket

---Opens a WebSocket. Pings are answered by themselves.
---@param url string `"ws://…"` or `"wss://…"`; `"http://…"` and `"https://…"` mean the same
---@param options? runloop.http.WebSocketOptions
---@return runloop.http.WebSocket? socket
---@return string? message
---@return string? code
function http.websocket(url, options) end

---@class runloop.http.WebSocket
---@field protocol? string the subprotocol that was agreed on, spelled as the client has offered it
---@field close_code? integer what the other side has said at the end
---@field close_reason? string
local WebSocket = {}

---The next message. nil alone: the other side has said good-bye.
---@param timeout? number
---@return string? message
---@return "text"|"binary"|string? kind
---@return string? code
function WebSocket:receive(timeout) end

---Iterates over messages and their kinds until the end, whatever that is.
---@param options? { max?: integer } bytes of a message
---@return fun(): string?, string?
function WebSocket:messages(options) end

---Sends a message. Waits while the other side is slow.
---@param text string
---@param kind? "text"|"binary" `"text"` if absent, which has to be UTF-8
---@return true? sent
---@return string? message
---@return string? code
function WebSocket:send(text, kind) end

---The same without ever waiting. With more than `max_queue` bytes left to send the connection is aborted: nil, "ENOBUFS: …", "ENOBUFS".
---@param text string
---@param kind? "text"|"binary"
---@return integer? waiting how many bytes are left to send
---@return string? message
---@return string? code
function WebSocket:queue(text, kind) end

---@param text? string at most 125 bytes
---@return true? sent
---@return string? message
---@return string? code
function WebSocket:ping(text) end

---Says good-bye, and waits a few seconds for the other side to do so. `<close>` does not wait.
---@param code? integer 1000 if absent
---@param reason? string at most 123 bytes
---@return true
function WebSocket:close(code, reason) end

---@return boolean
function WebSocket:is_open() end

-- Server -------------------------------------------------------------------------------------------------------------------

---@class runloop.http.ServerOptions
---@field tls? table|boolean as `net.listener` takes it
---@field header_timeout? number for the head of a request; 10 if absent
---@field request_timeout? number from there to the end of its answer; absent: no limit
---@field idle_timeout? number of a connection between two requests, or while nothing of a body or an answer moves; 60 if absent. 0: no limit, as for the others
---@field max_header? integer bytes; 32768 if absent
---@field max_fields? integer how many fields a request may have; 256 if absent. More are answered with 431
---@field max_body? integer bytes; 8 MB if absent
---@field max_connections? integer no more are accepted before one ends
---@field max_queue? integer bytes; with more to send than this `events:queue` and `socket:queue` abort the connection; 16 MB if absent
---@field access_log? boolean|string|file*|fun(entry: table) true: lines to standard error; or the path of a file, a file, or a function
---@field backlog? integer
---@field reuse_port? boolean
---@field mode? integer of a Unix socket's file
---@field name? string for messages
---@field order? integer
---@field modes? runloop.Modes in which it accepts connections and serves them; `"common"` if absent

---@alias runloop.http.Result string|integer|table|nil

---Serves HTTP. Each request is a task of its own: it may wait, and is cancelled when its client goes. What the handler returns is
---the answer: a string; a status; a table with `status`, `headers`, `body` (a string, a function that gives pieces, or a stream) or `json`;
---or what `http.json`, `http.file` and the like have made. An error is answered by 500, and told to `rl.on_error`, or else
---printed. What two servers could read differently is refused.
---@param where integer|string|table a port of this machine, `"host:port"`, `"unix:/path"`; see runloop.net. `"memory"`: nowhere, for tests
---@param options runloop.http.ServerOptions
---@param handler fun(request: runloop.http.Incoming): runloop.http.Result
---@overload fun(where: integer|string|table, handler: fun(request: runloop.http.Incoming): runloop.http.Result): runloop.http.Server?, string?, string?
---@return runloop.http.Server? server
---@return string? message
---@return string? code
function http.serve(where, options, handler) end

---@class runloop.http.Server
local Server = {}

---`"127.0.0.1:8080"`.
---@return string
function Server:address() end

---Hands it a stream, which becomes a connection of this server.
---@param stream runloop.net.Stream
---@return runloop.Task
function Server:accept(stream) end

---How many requests, connections, errors there were, and how many are open and active now.
---@return table<string, integer>
function Server:statistics() end

---Accepts no more, and closes connections once they are idle.
function Server:close() end

---The same, and waits until all is finished; what is not after so many seconds is cut off.
---@param seconds? number absent: no limit
---@return true? finished nil when something was cut off
---@return string? message
function Server:stop(seconds) end

---@class runloop.http.Incoming
---@field method string
---@field path string decoded and clean: it begins with a slash, and no `..` is left in it; a slash that was encoded is `%2F`
---@field target string as it was sent
---@field query table<string, string> the first value of each name
---@field query_lists table<string, string[]> all of them
---@field headers table<string, string> found by any spelling of their names
---@field cookies table<string, string>
---@field params table<string, string> of the route, decoded; in what a `*` stands for, an encoded slash is `%2F`
---@field version string "1.0" or "1.1"
---@field peer string the client's address; `"unix:"` of a Unix socket
local Incoming = {}

---The next bytes of the body, as they come.
---@param max? integer bytes; 65536 if absent
---@return string? bytes nil at the end
---@return string? message
---@return string? code
function Incoming:read(max) end

---All of the body. Who is cancelled meanwhile, as by `rl.timeout`, takes nothing: the next read or call has it all.
---@param options? { max?: integer }
---@return string? body
---@return string? message
---@return string? code "EMSGSIZE": it is too long
function Incoming:body(options) end

---The body, read as JSON.
---@param options? { max?: integer }
---@return any value
---@return string? message
---@return string? code
function Incoming:json(options) end

---The body, read as an HTML form: the first value of each name, and the lists of all.
---@param options? { max?: integer }
---@return table<string, string>? values
---@return table<string, string[]>|string lists
---@return string? code
function Incoming:form(options) end

---Iterates over the parts of a form with files. A part is read before the next one comes. Who calls it again goes on with the same iterator.
---@param options? { max?: integer, max_parts?: integer } bytes of a part's body (8 MB); parts (1,000)
---@return fun(): runloop.http.Part?
function Incoming:parts(options) end

---Iterates over pieces of the body.
---@return fun(): string?
function Incoming:chunks() end

---@class runloop.http.Part
---@field name? string
---@field filename? string without any path
---@field type? string
---@field headers table<string, string>
local Part = {}

---@return string? bytes
function Part:read() end

---@return fun(): string?
function Part:chunks() end

---All of it. A part that was passed over has none any more.
---@param options? { max?: integer } bytes; those of `request:parts` if absent
---@return string
function Part:body(options) end

---Answers piece by piece. With a body the answer gets `Content-Type: text/plain; charset=utf-8` unless the headers have one; false takes
---it, or another field that would be added, away.
---@param options? { status?: integer, headers?: table<string, any> }
---@return runloop.http.Response response
function Incoming:respond(options) end

---The same as `request:respond():events(options)`.
---@param options? { keep_alive?: number }
---@return runloop.http.Events events
function Incoming:events(options) end

---Makes a WebSocket of it, if it asks for that. If not, it has been answered accordingly.
---@param options? runloop.http.WebSocketOptions
---@return runloop.http.WebSocket? socket
---@return string? message
---@return string? code
function Incoming:websocket(options) end

---@class runloop.http.Response
local Response = {}

---Writes a piece of the body. Waits while the client is slow.
---@param ... string|number
---@return true? written
---@return string? message
---@return string? code
function Response:write(...) end

---Sends the head, if that has not been done.
---@return true? sent
---@return string? message
---@return string? code
function Response:flush() end

---Ends the body. When the handler returns, that is done.
---@param ... string|number
---@return true? finished
---@return string? message
---@return string? code
function Response:finish(...) end

---Makes a stream of server-sent events of it.
---@param options? { keep_alive?: number } seconds of silence after which a comment is sent; 15 if absent
---@return runloop.http.Events events
function Response:events(options) end

---@class runloop.http.Events
---@field last_id? string the last event that a client has seen which comes again
local Events = {}

---@param event runloop.http.Event|string
---@return true? sent
---@return string? message "EPIPE: the client has gone"
---@return string? code
function Events:send(event) end

---The same without ever waiting. With more than `max_queue` bytes left to send the connection is aborted: nil, "ENOBUFS: …", "ENOBUFS".
---@param event runloop.http.Event|string
---@return integer? waiting how many bytes are left to send
---@return string? message
---@return string? code
function Events:queue(event) end

---Waits until the client goes.
function Events:wait_closed() end

---@return true? closed
---@return string? message
---@return string? code
function Events:close() end

---Makes a handler that chooses by path and method.
---@return runloop.http.Routes routes
function http.routes() end

---`"/items/:id"` gives `request.params.id`; `"/files/*path"` the rest. Of the routes that have the request's method, what is exact comes before
---what is not. A path that exists with other methods only is answered by 405.
---@class runloop.http.Routes
local Routes = {}

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:get(path, fn) end

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:post(path, fn) end

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:put(path, fn) end

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:patch(path, fn) end

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:delete(path, fn) end

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:head(path, fn) end

---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:options(path, fn) end

---Every method that has no route of its own there.
---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:any(path, fn) end

---Files of a directory, and of those beneath it: with ranges and ETags. Neither `..` nor a symbolic link leads out of it.
---@param path string ends in `"/*"`
---@param directory string
---@param options? { headers?: table<string, string> }
---@return runloop.http.Routes
function Routes:files(path, directory, options) end

---@param path string
---@param options runloop.http.WebSocketOptions
---@param fn fun(socket: runloop.http.WebSocket, request: runloop.http.Incoming) when it returns, the socket is closed
---@overload fun(self: runloop.http.Routes, path: string, fn: fun(socket: runloop.http.WebSocket, request: runloop.http.Incoming)): runloop.http.Routes
---@return runloop.http.Routes
function Routes:websocket(path, options, fn) end

---Puts a function around all routes; the first that is added is the outermost. It returns what `following()` returns, or something else.
---@param fn fun(request: runloop.http.Incoming, following: fun(): runloop.http.Result): runloop.http.Result
---@return runloop.http.Routes
function Routes:use(fn) end

---@param value any
---@param status? integer
---@param headers? table<string, string>
---@return table answer
function http.json(value, status, headers) end

---@param text string
---@param status? integer
---@return table answer
function http.html(text, status) end

---A file, as `routes:files` sends them. The path is the script's own; with `root`, it is one below that directory and stays there.
---@param path string
---@param options? { headers?: table<string, string>, type?: string, root?: string }
---@return table answer
function http.file(path, options) end

---@param url string
---@param status? integer 302 if absent
---@return table answer
function http.redirect(url, status) end

---@param text? string
---@return table answer
function http.not_found(text) end

---@param text? string
---@return table answer
function http.bad_request(text) end

---@param text? string
---@return table answer
function http.unauthorized(text) end

---@param text? string
---@return table answer
function http.forbidden(text) end

---@return table answer
function http.no_content() end

---Escapes a text, as a part of a URL.
---@param text string
---@return string
function http.escape(text) end

---@param text string
---@return string? text nil for a bad escape
function http.unescape(text) end

return http
