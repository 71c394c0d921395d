---@meta runloop.http

-- Every call of the module `runloop.http`, for readers and for Lua editors. Times are seconds. If the network refuses
-- something, a call returns nil, a message and a code. Every thread may use the module; servers, clients and their
-- objects stay in the thread that has made them.

---@class runloop.http
local http = {}

-- Client -------------------------------------------------------------------------------------------------------------

---Options of a request. A `body` may be a function, which returns a piece at each call and nil at the end, or a stream;
---both are read as fast as the server takes them.
---
---`follow` is the number of redirects (301, 302, 303, 307, 308) to follow; with 0, a redirect is returned like any
---other answer. 303 turns every method but HEAD into GET, and 301 and 302 turn POST into GET, without the body.
---Otherwise method and body stay; a body from a function or a stream cannot be sent again, which gives "ESPIPE".
---After a redirect to another server (scheme, host or port), that server gets neither `user` and `password` nor the
---fields Authorization and Cookie.
---
---Unless `decompress` is false, the client asks for gzip and deflate, and decodes them; a premature end gives "EOF". If
---you ask for other encodings, as with `headers = { ["accept-encoding"] = "br" }`, libcurl decodes those that it knows,
---and their end is not checked.
---@class runloop.http.RequestOptions
---@field method? string `"GET"`; with a body `"POST"`
---@field headers? table<string, string|number|false> false removes a field that would be sent otherwise
---@field query? table<string, any> appended to the URL after a question mark, escaped; lists repeat the name
---@field body? string|fun(): string?|runloop.net.Stream
---@field json? any a value to send as JSON
---@field form? table<string, any> fields to send as an HTML form
---@field timeout? number for everything, redirects included; no limit if absent; 0: "timed out" at once
---@field connect_timeout? number for each connection; 30 if absent
---@field idle_timeout? number seconds without a byte either way; 60 if absent, none for `http.open`; 0: no limit
---@field follow? integer how many redirects to follow; 10 if absent; 0: none
---@field proxy? string|boolean its URL; false: none; absent: the environment decides (`http_proxy`, `no_proxy`)
---@field tls? true|runloop.http.TLSOptions
---@field unix? string the path of a Unix socket to connect to; `"@name"`: an abstract one
---@field bind? string the local address or interface
---@field decompress? boolean false: returns the body as it was sent
---@field max_body? integer bytes, decoded; 16 MB if absent, no limit for `http.open`; 0: none at all
---@field high_water? integer for `http.open`: bytes kept before the sender is held back; 256 kB if absent
---@field user? string
---@field password? string
---@field version? string `"1.0"`, `"1.1"`, `"2"` (over TLS, which is the default) or `"2-direct"`

---@class runloop.http.TLSOptions
---@field verify? boolean false: accepts every certificate
---@field ca? string a file of certificates, or a directory of hashed ones; absent: the system's, or SSL_CERT_FILE's
---@field certificate? string the client's own one
---@field key? string its key
---@field min_version? string `"1.2"` or `"1.3"`

---@class runloop.http.Request: runloop.http.RequestOptions
---@field url string|runloop.url.URL

---@class runloop.http.Answer
---@field status integer
---@field reason string
---@field headers table<string, string> found in any spelling of their names; `set-cookie` is a list
---@field body string
---@field url string the last URL, after redirects
---@field version string `"1.1"`, `"2"`
---@field redirects integer
---@field seconds number
---@field address string
local Answer = {}

---Returns the body, parsed as JSON, as `json.decode` does.
---@return any value
---@return string? problem
---@return string? code
function Answer:json() end

---Gets a URL, and waits for the whole answer. Every status is an answer, also 500. The program's first request loads
---libcurl.so.4; without that library the result is nil, `"module 'runloop.http': libcurl.so.4 is not installed (apt
---install libcurl4)"`. Waits.
---
---Codes are "ECONNREFUSED", "ENOTFOUND" (the name does not exist), "EAI_AGAIN" (no name server answers),
---"TLS_CERTIFICATE", "EMSGSIZE", "EOF" (a premature end), "EBADMSG" (an invalid answer, such as one with two lengths),
---"TLS_TRUNCATED" (an end without the TLS close alert), "ELOOP" (too many redirects), "ESPIPE", and others.
---@param url string|runloop.url.URL
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function http.get(url, options) end

---Posts a body. A second argument with `json`, `form` or `body` is taken as the options. Waits.
---@param url string|runloop.url.URL
---@param body? string|fun(): string?|runloop.net.Stream
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
---@overload fun(url: string, options: runloop.http.RequestOptions): runloop.http.Answer?, string?, string?
function http.post(url, body, options) end

---Makes any request. `http.fetch { url, … }` is the same as `http.fetch { url = url, … }`. Waits.
---@param request runloop.http.Request
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function http.fetch(request) end

---Makes a request, and waits for the head of its answer. You read the body as it comes, with one task at a time; while
---nobody reads, the sender is held back. A read that is cancelled, as by `rl.timeout`, consumes no bytes. Until the
---answer has ended or is closed, it counts among the connections of its client. Waits.
---@param request runloop.http.Request
---@return runloop.http.OpenAnswer? answer
---@return string? message
---@return string? code
function http.open(request) end

---@class runloop.http.OpenAnswer
---@field status integer
---@field reason string
---@field headers table<string, string>
---@field url string|runloop.url.URL
local OpenAnswer = {}

---Reads the bytes that have arrived, at least one. Waits.
---@param max? integer bytes
---@return string? bytes nil at the end
---@return string? message
---@return string? code
function OpenAnswer:read(max) end

---Reads everything up to the end. If the body exceeds the limit or is cut off, the next read gets the bytes that have
---arrived. Waits.
---@param max? integer bytes; 16 MB if absent; more is "EMSGSIZE"
---@return string? bytes
---@return string? message
---@return string? code
function OpenAnswer:read_all(max) end

---Waits.
---@param max? integer
---@return any value
---@return string? problem
---@return string? code
function OpenAnswer:json(max) end

---Iterates over pieces of the body. Iterators raise errors instead of returning them. Waits.
---@return fun(): string?
function OpenAnswer:chunks() end

---Iterates over lines, without their ends. Waits.
---@param options? { max?: integer } bytes of a line; 1 MB if absent
---@return fun(): string?
function OpenAnswer:lines(options) end

---Iterates over server-sent events. Waits.
---@param options? { max?: integer } bytes of an event; 1 MB if absent
---@return fun(): runloop.http.Event?
function OpenAnswer:events(options) end

---Ends the request. `<close>` does the same.
function OpenAnswer:close() end

---@class runloop.http.Event
---@field event? string `"message"` if absent
---@field data? any text; other values are sent as JSON
---@field id? string|integer
---@field retry? number seconds that the client should wait before it connects again
---@field comment? string

---@class runloop.http.ClientOptions
---@field modes? runloop.Modes in which its connections are served; `"common"` if absent
---@field connections? integer to each host; 64 if absent. Further requests wait in order; only `timeout` applies then
---@field max_connections? integer in all
---@field cookies? boolean true: keeps cookies, and sends them back
---@field headers? table<string, string> for all its requests, like all following fields
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

---Makes a client with its own connections, cookies and limits. The functions of the module share one client.
---@param options? runloop.http.ClientOptions
---@return runloop.http.Client client
function http.client(options) end

---@class runloop.http.Client
local Client = {}

---Waits.
---@param url string|runloop.url.URL
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function Client:get(url, options) end

---A second argument with `json`, `form` or `body` is taken as the options. Waits.
---@param url string|runloop.url.URL
---@param body? string|fun(): string?|runloop.net.Stream
---@param options? runloop.http.RequestOptions
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
---@overload fun(self, url: string, options: runloop.http.RequestOptions): runloop.http.Answer?, string?, string?
function Client:post(url, body, options) end

---Waits.
---@param request runloop.http.Request
---@return runloop.http.Answer? answer
---@return string? message
---@return string? code
function Client:fetch(request) end

---Waits.
---@param request runloop.http.Request
---@return runloop.http.OpenAnswer? answer
---@return string? message
---@return string? code
function Client:open(request) end

---Ends its requests and connections. `<close>` does the same.
function Client:close() end

---@class runloop.http.WebSocketOptions
---@field max_message? integer bytes; 1 MB if absent
---@field compress? boolean false: no permessage-deflate
---@field protocols? string[] in the order of preference
---@field close_timeout? number how long `close` waits for the other side; 5 if absent
---@field headers? table<string, string>
---@field timeout? number for connecting and the handshake; 30 if absent
---@field tls? table|boolean as `net.connect` takes it; `wss://` implies it
---@field unix? string the path of a Unix socket

---Opens a WebSocket. The socket answers pings by itself. Waits.
---@param url string `"ws://…"` or `"wss://…"`; `"http://…"` and `"https://…"` mean the same
---@param options? runloop.http.WebSocketOptions
---@return runloop.http.WebSocket? socket
---@return string? message
---@return string? code
function http.websocket(url, options) end

---@class runloop.http.WebSocket
---@field protocol? string the agreed subprotocol, spelled as the client has offered it
---@field close_code? integer the other side's code at the end
---@field close_reason? string
local WebSocket = {}

---Returns the next message, or nil alone if the other side has closed the connection properly. Waits.
---@param timeout? number
---@return string? message
---@return "text"|"binary"|string? kind
---@return string? code
function WebSocket:receive(timeout) end

---Iterates over messages and their kinds until the connection ends in any way. Waits.
---@param options? { max?: integer } bytes of a message
---@return fun(): string?, string?
function WebSocket:messages(options) end

---Sends a message. Waits while the other side is slow.
---@param text string
---@param kind? "text"|"binary" `"text"` if absent, which must be UTF-8
---@return true? sent
---@return string? message
---@return string? code
function WebSocket:send(text, kind) end

---Sends a message without waiting. If more than `max_queue` bytes are left to send, the connection is aborted: nil,
---"ENOBUFS: …", "ENOBUFS".
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

---Closes the connection properly, and waits a few seconds for the other side to do the same. `<close>` does not wait.
---Waits.
---@param code? integer 1000 if absent
---@param reason? string at most 123 bytes
---@return true
function WebSocket:close(code, reason) end

---@return boolean
function WebSocket:is_open() end

-- Server -------------------------------------------------------------------------------------------------------------

---Which answers a server compresses.
---@class runloop.http.CompressOptions
---@field level? integer 1 to 9; 1 if absent: the fastest
---@field least? integer bytes of a body that is compressed; 1024 if absent
---@field types? string[] of contents, with `*`; texts, JSON, JavaScript, XML, SVG and WebAssembly if absent
---@field events? boolean true: server-sent events, too; each turn's events are flushed together

---@class runloop.http.ServerOptions
---@field tls? table|boolean as `net.listener` takes it
---@field header_timeout? number for the head of a request; 10 if absent; 0: no limit, as for the next two fields
---@field request_timeout? number from the end of the head to the end of its answer; no limit if absent
---@field idle_timeout? number between two requests, or while no byte of a body or answer moves; 60 if absent
---@field max_header? integer bytes; 32768 if absent
---@field max_fields? integer how many fields a request may have; 256 if absent. More give 431
---@field max_body? integer bytes; 8 MB if absent
---@field max_connections? integer the largest number of open connections; others wait in the kernel
---@field max_queue? integer bytes left to send at which `queue` aborts a connection; 16 MB if absent
---@field compress? boolean|runloop.http.CompressOptions true: gzip for clients that accept it; see docs/http.md
---@field access_log? boolean|string|file*|fun(entry: table) true: standard error; or a path, a file, a function
---@field backlog? integer
---@field reuse_port? boolean
---@field mode? integer permissions of a Unix socket's file
---@field name? string for messages
---@field order? integer
---@field modes? runloop.Modes in which it accepts connections and serves them; `"common"` if absent

---@alias runloop.http.Result string|integer|table|nil
---@alias runloop.http.Handler fun(request: runloop.http.Incoming): runloop.http.Result
---@alias runloop.http.SocketHandler fun(socket: runloop.http.WebSocket, request: runloop.http.Incoming)

---Serves HTTP. Each request is a task of its own: it may wait, and is cancelled when its client leaves. The handler's
---result is the answer: a string; a status; a table with `status`, `headers`, `body` (a string, a function that returns
---pieces, or a stream) or `json`, and `compress = false` for an answer that is never compressed; or a value from
---`http.json`, `http.file` and the like. An error gives 500 and goes to `rl.on_error`; without that, it is printed.
---Requests that two servers could read differently are refused.
---@param where integer|string|table an address as for `net.serve`; `"memory"`: no address, for tests
---@param options runloop.http.ServerOptions
---@param handler fun(request: runloop.http.Incoming): runloop.http.Result
---@overload fun(where: any, handler: runloop.http.Handler): runloop.http.Server?, string?, string?
---@return runloop.http.Server? server
---@return string? message
---@return string? code
function http.serve(where, options, handler) end

---@class runloop.http.Server
local Server = {}

---Returns its address: `"127.0.0.1:8080"`.
---@return string
function Server:address() end

---Makes a stream a connection of this server.
---@param stream runloop.net.Stream
---@return runloop.Task
function Server:accept(stream) end

---Returns numbers: requests, connections, errors, and how many are open and active now.
---@return table<string, integer>
function Server:statistics() end

---Accepts no more connections, and closes connections when they are idle.
function Server:close() end

---Accepts no more connections, waits until all requests are finished, and cuts off the rest after some seconds. In a
---handler, the call would wait for the handler's own request: use `rl.task(server.stop, server, 10)` there. Waits.
---@param seconds? number no limit if absent
---@return true? finished nil if something was cut off
---@return string? message
function Server:stop(seconds) end

---@class runloop.http.Incoming
---@field method string
---@field path string decoded; begins with a slash and contains no `..`; an encoded slash stays `%2F`
---@field target string as it was sent
---@field query table<string, string> the first value of each name
---@field query_lists table<string, string[]> all values of each name
---@field headers table<string, string> found in any spelling of their names
---@field cookies table<string, string>
---@field params table<string, string> of the route, decoded; in the part of a `*`, an encoded slash stays `%2F`
---@field version string "1.0" or "1.1"
---@field peer string the client's address; `"unix:"` for a Unix socket
local Incoming = {}

---Reads the next bytes of the body, as they come. Waits.
---@param max? integer bytes; 65536 if absent
---@return string? bytes nil at the end
---@return string? message
---@return string? code
function Incoming:read(max) end

---Reads the whole body. If the call is cancelled, as by `rl.timeout`, it consumes nothing: the next call gets
---everything. Waits.
---@param options? { max?: integer }
---@return string? body
---@return string? message
---@return string? code "EMSGSIZE": it is too long
function Incoming:body(options) end

---Reads the body as JSON. Waits.
---@param options? { max?: integer }
---@return any value
---@return string? message
---@return string? code
function Incoming:json(options) end

---Reads the body as an HTML form: the first value of each name, and the lists of all values. Waits.
---@param options? { max?: integer }
---@return table<string, string>? values
---@return table<string, string[]>|string lists
---@return string? code
function Incoming:form(options) end

---Iterates over the parts of a form with files. Read a part before the next one comes. A second call continues with the
---same iterator. Waits.
---@param options? { max?: integer, max_parts?: integer } bytes of a part's body (8 MB); parts (1,000)
---@return fun(): runloop.http.Part?
function Incoming:parts(options) end

---Iterates over pieces of the body. Waits.
---@return fun(): string?
function Incoming:chunks() end

---@class runloop.http.Part
---@field name? string
---@field filename? string without a path
---@field type? string
---@field headers table<string, string>
local Part = {}

---Waits.
---@return string? bytes
function Part:read() end

---Waits.
---@return fun(): string?
function Part:chunks() end

---Reads the whole part. A skipped part reads as empty. Waits.
---@param options? { max?: integer } bytes; the limit of `request:parts` if absent
---@return string
function Part:body(options) end

---Answers piece by piece. An answer with a body gets `Content-Type: text/plain; charset=utf-8` unless the headers
---contain one; the value false removes this or another field that would be added.
---@param options? { status?: integer, headers?: table<string, any>, compress?: boolean } `compress`: false: never
---@return runloop.http.Response response
function Incoming:respond(options) end

---The same as `request:respond():events(options)`.
---@param options? { keep_alive?: number }
---@return runloop.http.Events events
function Incoming:events(options) end

---Turns the request into a WebSocket if it asks for that. Otherwise, the host answers the request with an error, and
---the result is nil.
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

---Sends the head if it has not been sent yet. Waits.
---@return true? sent
---@return string? message
---@return string? code
function Response:flush() end

---Ends the body. The handler's return does the same. Waits.
---@param ... string|number
---@return true? finished
---@return string? message
---@return string? code
function Response:finish(...) end

---Turns the answer into a stream of server-sent events.
---@param options? { keep_alive?: number } seconds of silence after which a comment is sent; 15 if absent
---@return runloop.http.Events events
function Response:events(options) end

---@class runloop.http.Events
---@field last_id? string the last event that a returning client has seen
local Events = {}

---Waits.
---@param event runloop.http.Event|string
---@return true? sent
---@return string? message "EPIPE: the client has gone"
---@return string? code
function Events:send(event) end

---Sends an event without waiting. If more than `max_queue` bytes are left to send, the connection is aborted: nil,
---"ENOBUFS: …", "ENOBUFS".
---@param event runloop.http.Event|string
---@return integer? waiting how many bytes are left to send
---@return string? message
---@return string? code
function Events:queue(event) end

---Waits until the client has left.
function Events:wait_closed() end

---@return true? closed
---@return string? message
---@return string? code
function Events:close() end

---Makes a handler that chooses a function by path and method.
---@return runloop.http.Routes routes
function http.routes() end

---`"/items/:id"` sets `request.params.id`; `"/files/*path"` sets `path` to the rest. Among the routes with the
---request's method, those without parameters come first. If the path exists, but not with the request's method, the
---answer is 405.
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

---Handles every method that has no route of its own for the path.
---@param path string
---@param fn fun(request: runloop.http.Incoming): runloop.http.Result
---@return runloop.http.Routes
function Routes:any(path, fn) end

---Serves the files in and below a directory, with ranges and ETags. Neither `..` nor a symbolic link leads out of it.
---With `compressed`, `x.br` or `x.gz` beside `x` is sent in place of `x` to clients that accept it, unless `x` is
---newer.
---@param path string ends in `"/*"`
---@param directory string
---@param options? { headers?: table<string, string>, compressed?: boolean }
---@return runloop.http.Routes
function Routes:files(path, directory, options) end

---@param path string
---@param options runloop.http.WebSocketOptions
---@param fn fun(socket: runloop.http.WebSocket, request: runloop.http.Incoming) when it returns, the socket is closed
---@overload fun(self: runloop.http.Routes, path: string, fn: runloop.http.SocketHandler): runloop.http.Routes
---@return runloop.http.Routes
function Routes:websocket(path, options, fn) end

---Wraps a function around all routes; the first function added is the outermost. The function returns the result of
---`following()`, or another one.
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

---Sends a file, as `routes:files` does. The path is the script's own; with `root`, it is a path below that directory
---and stays there.
---@param path string
---@param options? { headers?: table<string, string>, type?: string, root?: string }
---@return table answer
function http.file(path, options) end

---@param url string|runloop.url.URL
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

---Escapes a text as a part of a URL.
---@param text string
---@return string
function http.escape(text) end

---@param text string
---@return string? text nil for an invalid escape
function http.unescape(text) end

return http
