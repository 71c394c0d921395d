---@meta runloop.net

-- Every call of the module `runloop.net`, for readers and for Lua editors. docs/net.md shows how they work together.
-- Streams belong to the thread that made them.
--
-- If the network refuses something, a call returns nil, "ECONNREFUSED: connection refused (127.0.0.1:9)",
-- "ECONNREFUSED". When the time limit has passed: nil, "timed out". At the end of input: nil alone. Seconds may have
-- fractions.

---@class runloop.net
local net = {}

---A port (8080: on this machine, IPv4 and IPv6), `"host:port"`, `"[::1]:8080"`, `"*:8080"` (all interfaces),
---`"unix:/path"`, `"unix:@name"` (abstract), or a table. Port 0 stands for any free port.
---@alias runloop.net.Where integer|string|runloop.net.Place

---A place. `fd` is a socket that another process has handed down: see `net.inherited`. The socket stays open when the
---server that uses it is closed.
---@class runloop.net.Place
---@field host? string a name or an address; `"*"`: all interfaces
---@field port? integer
---@field path? string of a Unix socket, instead of host and port; `@` begins an abstract one; at most 107 bytes
---@field fd? integer an inherited socket, instead of the others

---Options of TLS. Certificates and keys are paths, or the text itself (PEM). By default, a client checks the server's
---certificate with those that the system trusts, or those of SSL_CERT_FILE and SSL_CERT_DIR.
---
---A server's `sni` returns the options for the name that the client asks for, which may be "", or nil for the
---listener's own certificate. The function may wait. If the chosen certificate cannot be used, `on_trouble` gets the
---error or, without that function, `rl.on_error`.
---@class runloop.net.TLSOptions
---@field server_name? string a client's: the name in the server's certificate, if that is not the host
---@field verify? boolean a client's: false accepts every certificate (true)
---@field ca? string a client's: trusted certificates instead of the system's: a file, or a directory of hashed files
---@field certificate? string this side's certificate, with its chain to a trusted one
---@field key? string its private key; if absent, it is in the certificate's file
---@field protocols? string[] for ALPN, the preferred one first
---@field min_version? "1.2"|"1.3"
---@field client_ca? string a server's: clients need a certificate issued by one of these
---@field sni? fun(name: string): runloop.net.TLSOptions? a server's: chooses its certificate by host name
---@field server? boolean for `stream:start_tls`: whether this side is the server, if the connection does not show it
---@field timeout? number for `stream:start_tls`

---Options of a listener. `on_trouble` is called if the listener cannot accept connections for a while because no file
---descriptor is free, or if `sni` has chosen a certificate that cannot be used; without it, these are warnings.
---@class runloop.net.ListenOptions
---@field backlog? integer how many connections may wait in the kernel (4096)
---@field max_connections? integer the largest number of open connections
---@field reuse_port? boolean several listeners, as of several threads, share the port; the kernel distributes them
---@field mode? integer permissions of a Unix socket's file (0600)
---@field tls? runloop.net.TLSOptions connections begin with TLS
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it or its connections (true)
---@field name? string for messages
---@field order? integer for descriptions
---@field high_water? integer `write` waits while this number of bytes is left to send (262144)
---@field max_queue? integer bytes left to send at which `queue` aborts the stream (16777216)
---@field on_trouble? fun(listener: runloop.net.Listener, message: string, code: string) problems: accepting, `sni`

---@alias runloop.net.Handler fun(stream: runloop.net.Stream, listener: runloop.net.Listener)

---@class runloop.net.ListenerOptions: runloop.net.ListenOptions, runloop.net.Place
---@field on_connection? fun(stream: runloop.net.Stream, listener: runloop.net.Listener) a task for each connection
---@field on_data? fun(stream: runloop.net.Stream, bytes: string) instead of a task: input of any connection, in pieces
---@field on_end? fun(stream: runloop.net.Stream) the end of the input; then the stream is closed
---@field on_error? fun(stream: runloop.net.Stream, message: string, code?: string) then the stream is closed

---Accepts connections, in the common modes of this loop. Each connection is a task `handler(stream, listener)`. Its
---stream is closed when the handler returns, and aborted when it raises an error.
---@param where runloop.net.Where
---@param options runloop.net.ListenOptions
---@param handler fun(stream: runloop.net.Stream, listener: runloop.net.Listener)
---@return runloop.net.Listener?
---@return string? problem
---@return string? code
---@overload fun(where: any, handler: runloop.net.Handler): runloop.net.Listener?, string?, string?
function net.serve(where, options, handler) end

---Makes a listener that accepts nothing before `loop:add(listener, modes)`. The connections that it accepts are in the
---same modes. If you give none of these functions, call `listener:accept()`.
---@param options runloop.net.ListenerOptions
---@return runloop.net.Listener?
---@return string? problem
---@return string? code
function net.listener(options) end

---@class runloop.net.ConnectOptions
---@field timeout? number for everything, name resolution included (30)
---@field tls? true|runloop.net.TLSOptions TLS begins after the connection; the server's name is the host
---@field bind? string the local address, with or without a port
---@field nodelay? boolean sends small writes at once (true)
---@field keepalive? boolean the kernel checks now and then whether a silent peer still exists (true)
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it (true)
---@field name? string for messages
---@field order? integer for descriptions
---@field high_water? integer see `net.serve`
---@field max_queue? integer see `net.serve`

---Connects. Waits. If the host has several addresses, the attempts overlap: the next attempt starts after 250 ms, or
---when one fails. No attempt is abandoned before another one is connected (RFC 8305). If all fail, the message has each
---address with its reason.
---@param where runloop.net.Where
---@param options? runloop.net.ConnectOptions
---@return runloop.net.Stream?
---@return string? problem
---@return string? code
function net.connect(where, options) end

---Options of a stream. `on_open` is called when the stream is connected, and, with TLS, when the handshake is done.
---While an `on_data` function waits, it gets no further data.
---@class runloop.net.StreamOptions: runloop.net.ConnectOptions, runloop.net.Place
---@field on_open? fun(stream: runloop.net.Stream) the connection is open
---@field on_data? fun(stream: runloop.net.Stream, bytes: string) input, as it comes
---@field on_end? fun(stream: runloop.net.Stream)
---@field on_error? fun(stream: runloop.net.Stream, message: string, code?: string)

---Makes a stream that begins to connect when you add it to a mode: `loop:add(stream, modes)`. If functions are given,
---they get its input; otherwise read it like any other stream. Data that arrives while the loop runs in another mode
---stays in the kernel.
---@param options runloop.net.StreamOptions
---@return runloop.net.Stream
function net.stream(options) end

---Makes two streams that are connected to each other, in the kernel.
---@return runloop.net.Stream?
---@return runloop.net.Stream|string? other or the error message
---@return string? code
function net.pair() end

---@class runloop.net.MemoryOptions
---@field latency? number seconds that a byte takes to arrive (0)
---@field bandwidth? number bytes per second; no limit if absent
---@field chunk? integer the largest number of bytes that arrive at once; no limit if absent
---@field high_water? integer see `net.serve`

---Makes two connected streams without a kernel, for tests: in virtual time under `rlhost test`, and the same in each
---run.
---@param options? runloop.net.MemoryOptions
---@return runloop.net.Stream
---@return runloop.net.Stream
function net.memory(options) end

---@class runloop.net.OpenOptions
---@field owns? boolean true: the descriptor is closed with the stream; otherwise the stream has a duplicate (false)
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it (true)
---@field name? string for messages
---@field on_data? fun(stream: runloop.net.Stream, bytes: string) gets its input, as for `net.stream`
---@field on_end? fun(stream: runloop.net.Stream)
---@field on_error? fun(stream: runloop.net.Stream, message: string, code?: string)

---Makes a stream from a descriptor of a socket, a pipe or a terminal; or from a file, which is read without blocking
---the loop.
---@param fd integer|file*|table a number, an open file, or an object with `fd()`, `getfd()`, `pollfd()` or `fileno()`
---@param options? runloop.net.OpenOptions
---@return runloop.net.Stream?
---@return string? problem
---@return string? code
function net.open(fd, options) end

---Returns the stream of descriptor 0, the same for each call.
---@return runloop.net.Stream
function net.input() end

---Returns the stream of descriptor 1.
---@return runloop.net.Stream
function net.output() end

---Returns the stream of descriptor 2.
---@return runloop.net.Stream
function net.errors() end

---A socket that the service manager has opened for this process.
---@class runloop.net.Inherited
---@field fd integer
---@field name string the service manager's name for the socket; or ""
---@field kind "listener"|"stream"|"datagram"|"other"
---@field address? string

---Returns the sockets that a service manager such as systemd has opened for this process, in the order of its units:
---socket activation, sd_listen_fds(3). The list is empty if there are none, or if they belong to another process.
---Programs that you start do not inherit them. You can pass a listener to `net.serve`; `net.listener` and
---`net.datagram` take its `fd`; `net.open(socket.fd)` takes a stream.
---
---```lua
---local net = require "runloop.net"
---local where = net.inherited()[1] or 0
---local server = assert(net.serve(where, function(stream) stream:write "hello\n" end))
---print(server:port() > 0)
---server:close()
---```
---```text
---true
---```
---@return runloop.net.Inherited[]
function net.inherited() end

---@class runloop.net.DatagramOptions: runloop.net.Place
---@field peer? runloop.net.Where the socket receives only from there, and sends there by default
---@field reuse_port? boolean
---@field keeps_alive? boolean false: the loop serves it, but does not keep running for it (true)
---@field name? string for messages
---@field order? integer for descriptions
---@field on_message? fun(socket: runloop.net.Datagram, data: string, from: string) if it waits, later messages wait

---Makes a socket for messages: UDP, or Unix datagrams. With `on_message`, the socket does nothing before
---`loop:add(socket, modes)`.
---
---The socket has one address. A port alone, or `localhost`, means 127.0.0.1, unless `peer` belongs to the other family.
---With `"*"` or `"::"` the socket sends to IPv4 and IPv6; otherwise sending to the other family gives "EAFNOSUPPORT".
---@param options runloop.net.DatagramOptions
---@return runloop.net.Datagram?
---@return string? problem
---@return string? code
function net.datagram(options) end

---@class runloop.net.ResolveOptions
---@field family? "any"|"ipv4"|"ipv6"
---@field timeout? number

---Returns the addresses of a host, as texts, in the order of the system's resolver. Waits, on a thread; never blocks
---the loop.
---@param name string
---@param options? runloop.net.ResolveOptions
---@return string[]?
---@return string? problem
---@return string? code
function net.resolve(name, options) end

---A stage gets at most 16 kB of input, and returns output, or `""` if it has none yet. At the end of input it is called
---with nil, and returns its remaining output. It may wait. A stage may also be a callable object. To end the copy, it
---returns nil, a message and a code. If the second result is true, there is more, and the stage is called with `""` for
---it.
---@alias runloop.net.Stage fun(bytes?: string): string?, (string|boolean)?, string?

---@class runloop.net.CopyOptions
---@field max? integer how many bytes to read at most
---@field through? runloop.net.Stage|runloop.net.Stage[] stages through which the bytes pass, in this order

---Copies everything from one stream to another, until the end of input, at the speed of the slower stream. Waits. Both
---streams stay open. Between descriptors, without TLS and stages, the bytes stay in the kernel. The count is the
---number of bytes read and passed on.
---@param from runloop.net.Stream
---@param to runloop.net.Stream
---@param options? runloop.net.CopyOptions
---@return integer? bytes
---@return string? problem
---@return string? code
---@return integer? count how many bytes were copied before the error
function net.copy(from, to, options) end

-- Streams ------------------------------------------------------------------------------------------------------------

---A two-way stream of bytes. One task reads at a time. Each write stays in one piece, however many tasks write. A read
---that times out, is cancelled or meets its limit takes nothing. `local stream <close> = …` closes the stream, and so
---does the garbage collector.
---@class runloop.net.Stream
local Stream = {}

---Limits of a read. `max` is 1 MB for lines and `read_until`, 16 MB for `read_all`. Beyond this limit, the read takes
---nothing and returns nil, "line longer than 1048576 bytes", "EMSGSIZE".
---@class runloop.net.ReadOptions
---@field timeout? number replaces that of `set_timeout`
---@field max? integer the largest number of bytes

---Reads the bytes that have arrived: at least one, at most `max` (65536). Waits.
---@param max? integer
---@param options? runloop.net.ReadOptions
---@return string? bytes
---@return string? problem
---@return string? code
---@overload fun(self: runloop.net.Stream, options: runloop.net.ReadOptions): string?, string?, string?
function Stream:read(max, options) end

---@class runloop.net.ExactOptions: runloop.net.ReadOptions
---@field skip? string|integer also takes this text, or this number of bytes, after the result

---Reads `count` bytes. If the input ends too early: nil, "end of input after 3 of 10 bytes", "EOF"; you can still read
---those 3. If another text follows than `skip`, the read takes nothing and returns nil, `"\r\n" expected after 16
---bytes, found "xy"`, "EBADMSG". Waits.
---@param count integer
---@param options? runloop.net.ExactOptions
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:read_exactly(count, options) end

---@class runloop.net.LineOptions: runloop.net.ReadOptions
---@field words? boolean returns the words between blanks and tabs; without any: one empty string; word 64 is the rest

---Reads a line, without its `\n` or `\r\n`. The last line may lack its end. Waits.
---@param options? runloop.net.LineOptions
---@return string? line or the first word
---@return string? problem the error message, or the second word
---@return string? code or the third word
---@return string? ... further words
function Stream:read_line(options) end

---@class runloop.net.FrameOptions
---@field adjust? integer added to the length that was read: -4 if that includes its own four bytes (0)
---@field max? integer the longest body (1048576)
---@field timeout? number replaces that of `set_timeout`

---Reads a head, and a body whose length is the head's last value. `format` is a format of `string.pack` whose size is
---fixed: at most 1024 bytes with at most 32 values; an integer has 1 to 8 bytes. It returns the values without the
---length, and the body, which may be empty. A body above `max`: nil, "frame of 70000000 bytes, longer than 1048576",
---"EMSGSIZE"; a length below zero: "EBADMSG"; an end inside: "EOF". In these cases no byte is consumed. Waits.
---
---```lua
---local net = require "runloop.net"
---local a, b = net.memory()
---a:write("D", string.pack(">I4", 9), "hello")
---print(b:read_frame(">c1 I4", { adjust = -4 }))
---```
---```text
---D	hello
---```
---@param format string
---@param options? runloop.net.FrameOptions
---@return any ... the values of the head and the body; or nil, the problem, and the code
function Stream:read_frame(format, options) end

---@class runloop.net.UntilOptions: runloop.net.ReadOptions
---@field pattern? boolean the texts are Lua patterns; `max` is 65536 then

---Reads the bytes before a text, and takes the text as well. With a list of 1 to 64 texts, the read ends with the text
---that is complete first; if several are complete at the same byte, the first in the list counts. The second result is
---the number of that text in the list. With `pattern`, the number of the pattern and the captures of the match follow,
---or the whole match if it has no captures. Patterns are tried on all unread bytes, up to `max`, each time that bytes
---have arrived; an empty match counts as none. Waits.
---@param text string|string[]
---@param options? runloop.net.UntilOptions
---@return string? bytes
---@return string|integer|nil which the number of the matching text in the list, or the error message
---@return string? capture or the code
---@return string? ... further captures
function Stream:read_until(text, options) end

---Reads everything to the end of input, which may be nothing. Waits.
---@param options? runloop.net.ReadOptions
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:read_all(options) end

---Iterates over the lines to the end of input. It raises errors. Waits.
---@param options? runloop.net.ReadOptions for each line
---@return fun(): string?
function Stream:lines(options) end

---Iterates over pieces as `read` returns them. Waits.
---@param options? runloop.net.ReadOptions
---@return fun(): string?
function Stream:chunks(options) end

---Returns the next bytes without taking them. Waits until `count` bytes have arrived.
---@param count integer
---@param options? { timeout: number }
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:peek(count, options) end

---Returns how many bytes are buffered.
---@return integer
function Stream:buffered() end

---Writes strings and numbers, as one piece. The loop sends everything written in one pass together, at its end. Waits
---until less than the high-water mark is left to send. Bytes of a call that timed out are still sent.
---@param ... string|number
---@return true?
---@return string? problem
---@return string? code
function Stream:write(...) end

---Writes without waiting. If more than `max_queue` bytes are left to send, the stream is aborted: nil, "ENOBUFS: …",
---"ENOBUFS".
---@param ... string|number
---@return integer? waiting how many bytes are left to send
---@return string? problem
---@return string? code
function Stream:queue(...) end

---Waits until the kernel has everything.
---@param timeout? number
---@return true?
---@return string? problem
---@return string? code
function Stream:flush(timeout) end

---Ends the output when everything is sent; input goes on.
---@return true?
---@return string? problem
---@return string? code
function Stream:finish() end

---Closes the stream without waiting. Written bytes are still sent, and the peer's bytes are discarded for a while.
function Stream:close() end

---Closes the stream at once: the peer gets a reset, and unsent bytes are lost.
function Stream:abort() end

---The same as `close`.
function Stream:invalidate() end

---Returns true until the stream is closed or aborted. The end of input leaves it open.
---@return boolean
function Stream:is_open() end

---@return boolean
function Stream:is_valid() end

---Sets a time limit for each later read and write; nil removes it.
---@param seconds? number
function Stream:set_timeout(seconds) end

---Chooses whether the stream keeps the loop running while it is read, delivers data, or has something to send. The
---output of a closed stream is sent in any case.
---@param on boolean
function Stream:set_keeps_alive(on) end

---Chooses whether small writes are sent at once, or after the peer has acknowledged earlier ones. On for connections.
---@param on boolean
---@return true?
---@return string? problem
---@return string? code
function Stream:set_nodelay(on) end

---@class runloop.net.KeepAlive
---@field idle? integer seconds of silence before the first probe
---@field interval? integer seconds between probes
---@field count? integer how many probes may stay unanswered

---Makes the kernel probe whether a silent peer still exists (TCP keep-alive). It is on for connections, every 15
---seconds. If all three fields are given, bytes without an acknowledgement end the connection after the same time.
---@param on boolean|runloop.net.KeepAlive
---@return true?
---@return string? problem
---@return string? code
function Stream:set_keepalive(on) end

---Begins TLS on the open stream, and waits for the handshake. Buffered bytes count as part of TLS, so that an attacker
---cannot smuggle data in before it. A stream that a listener has accepted takes the server's part. Waits.
---
---Codes: `"TLS_CERTIFICATE"`, with the certificate and the reason; `"TLS"`; and later, for an end without the TLS
---close alert, `"TLS_TRUNCATED"`. If the handshake fails, times out or is cancelled, the stream refuses everything:
---close it.
---@param options? runloop.net.TLSOptions
---@return true?
---@return string? problem
---@return string? code
function Stream:start_tls(options) end

---@class runloop.net.TLS
---@field version string "TLSv1.3"
---@field cipher string
---@field protocol? string the choice of ALPN
---@field certificate? runloop.net.Certificate the peer's

---@class runloop.net.Certificate
---@field subject string
---@field issuer string
---@field names string[] the hosts and addresses for which it is valid
---@field not_after string
---@field fingerprint string SHA-256, in hexadecimal
---@field is_verified boolean

---Returns the negotiated parameters; nil without TLS, or before its handshake has ended.
---@return runloop.net.TLS?
function Stream:tls() end

---Returns its own address: `"127.0.0.1:43211"`.
---@return string?
function Stream:address() end

---Returns the address of the other end.
---@return string?
function Stream:peer() end

---Returns its descriptor, or nil.
---@return integer?
function Stream:fd() end

---@return integer
function Stream:bytes_read() end

---@return integer
function Stream:bytes_written() end

---Returns the process at the other end of a Unix socket, and its user and group.
---@return { pid: integer, uid: integer, gid: integer }?
---@return string? problem
---@return string? code
function Stream:credentials() end

---@return string
function Stream:name() end

---@return integer
function Stream:order() end

-- Datagrams ----------------------------------------------------------------------------------------------------------

---@class runloop.net.Datagram
local Datagram = {}

---Sends one message. Never waits, and never queues. If the kernel has no room, the result is nil, "EAGAIN: …",
---"EAGAIN".
---@param data string
---@param where? runloop.net.Where with a numeric address; nil: the peer
---@return true?
---@return string? problem
---@return string? code
function Datagram:send(data, where) end

---Returns the next message, and its sender's address. Waits.
---@param timeout? number
---@return string? data
---@return string? from or the error message
---@return string? code
function Datagram:receive(timeout) end

---Joins a multicast group, to receive its messages.
---@param group string an address
---@param interface? string its name
---@return true?
---@return string? problem
---@return string? code
function Datagram:join(group, interface) end

---@param group string
---@param interface? string
---@return true?
---@return string? problem
---@return string? code
function Datagram:leave(group, interface) end

---Allows broadcast messages.
---@param on? boolean (true)
---@return true?
---@return string? problem
---@return string? code
function Datagram:broadcast(on) end

function Datagram:close() end

---The same as `close`.
function Datagram:invalidate() end

---@return boolean
function Datagram:is_open() end

---@return boolean
function Datagram:is_valid() end

---@return string?
function Datagram:address() end

---@return integer?
function Datagram:fd() end

---@return string
function Datagram:name() end

---@return integer
function Datagram:order() end

-- Listeners ----------------------------------------------------------------------------------------------------------

---@class runloop.net.Listener
local Listener = {}

---Returns the next connection. Waits.
---@param timeout? number
---@return runloop.net.Stream?
---@return string? problem
---@return string? code
function Listener:accept(timeout) end

---Returns its address, with the port that the system has chosen: `"127.0.0.1:43211"`.
---@return string?
function Listener:address() end

---Returns its port; 0 for a Unix socket.
---@return integer
function Listener:port() end

---Returns how many of its connections are open.
---@return integer
function Listener:connections() end

---Stops accepting; its connections go on.
function Listener:close() end

---Stops accepting, then waits for its connections and their tasks. After `seconds`, remaining connections are aborted:
---nil, "timed out". A handler that calls it would wait for itself: use a task there. Waits.
---@param seconds? number
---@return true?
---@return string? problem
function Listener:stop(seconds) end

---The same as `close`.
function Listener:invalidate() end

---@return boolean
function Listener:is_open() end

---@return boolean
function Listener:is_valid() end

---@return integer?
function Listener:fd() end

---@return string
function Listener:name() end

---@return integer
function Listener:order() end

return net
