---@meta runloop.net

-- Every call of the module `runloop.net`, for readers and for Lua editors. docs/net.md tells how they belong together. Each
-- thread has streams of its own.
--
-- What the world refuses is an answer: nil, "ECONNREFUSED: connection refused (127.0.0.1:9)", "ECONNREFUSED". When the time is
-- over: nil, "timed out". At the end of input: nil alone. Seconds may have fractions.

---@class runloop.net
local net = {}

---A port (8080: of this machine, both families), `"host:port"`, `"[::1]:8080"`, `"*:8080"` (all interfaces), `"unix:/path"`,
---`"unix:@name"` (abstract), or a table. Port 0: any free one.
---@alias runloop.net.Where integer|string|runloop.net.Place

---@class runloop.net.Place
---@field host? string a name or an address; `"*"`: all interfaces
---@field port? integer
---@field path? string of a Unix socket, instead of the two; beginning with `@`: an abstract one. More than 107 bytes are ENAMETOOLONG
---@field fd? integer a socket that was handed down, instead: see `net.inherited`. It stays open when what serves it is closed

---Files are paths, or the text itself (PEM). Unless told otherwise, a client checks the server's certificate with those that the
---system believes in, or those of SSL_CERT_FILE and SSL_CERT_DIR.
---@class runloop.net.TLSOptions
---@field server_name? string a client's: whose certificate it has to be, if that is not the host
---@field verify? boolean a client's: false, and anybody's certificate will do (true)
---@field ca? string a client's: whom to believe instead of the system: a file, or a directory of hashed files
---@field certificate? string the own certificate, and those that lead from it to whom the peer believes
---@field key? string its private key; without it, it is in the certificate's file
---@field protocols? string[] for ALPN, those one likes best first
---@field min_version? "1.2"|"1.3"
---@field client_ca? string a server's: clients need a certificate of theirs
---@field sni? fun(name: string): runloop.net.TLSOptions? a server's: the certificate for the name that is asked for, which may be ""; nil: the listener's own, or none. It may wait. One that cannot be used is told as `on_trouble` is, or, without that, to `rl.on_error`
---@field server? boolean of `stream:start_tls`: which side it is, if that is not what the connection tells
---@field timeout? number of `stream:start_tls`

---@class runloop.net.ListenOptions
---@field backlog? integer how many connections may wait in the kernel (4096)
---@field max_connections? integer with so many open none is accepted
---@field reuse_port? boolean several listeners share the port, as those of several threads: the kernel deals connections out
---@field mode? integer of a Unix socket's file (0600)
---@field tls? runloop.net.TLSOptions connections begin with TLS
---@field name? string for messages
---@field order? integer for descriptions
---@field high_water? integer `write` waits while so many bytes are left to send (262144)
---@field max_queue? integer with more to send than this `queue` aborts the stream (16777216)
---@field on_trouble? fun(listener: runloop.net.Listener, message: string, code: string) it cannot accept for a while, for want of descriptors, or `sni` has chosen a certificate that cannot be used; without it this is a warning

---@class runloop.net.ListenerOptions: runloop.net.ListenOptions, runloop.net.Place
---@field on_connection? fun(stream: runloop.net.Stream, listener: runloop.net.Listener) a task for each connection
---@field on_data? fun(stream: runloop.net.Stream, bytes: string) instead: input of any of its connections, as it comes
---@field on_end? fun(stream: runloop.net.Stream) the end of the input; afterwards the stream is closed
---@field on_error? fun(stream: runloop.net.Stream, message: string, code?: string) afterwards the stream is closed

---Accepts connections, in the common modes of this loop. Each is a task `handler(stream, listener)`, whose stream is closed when
---it returns and aborted when it raises.
---@param where runloop.net.Where
---@param options runloop.net.ListenOptions
---@param handler fun(stream: runloop.net.Stream, listener: runloop.net.Listener)
---@return runloop.net.Listener?
---@return string? problem
---@return string? code
---@overload fun(where: runloop.net.Where, handler: fun(stream: runloop.net.Stream, listener: runloop.net.Listener)): runloop.net.Listener?, string?, string?
function net.serve(where, options, handler) end

---The same as an object, which accepts nothing before `loop:add(listener, modes)`. Its connections are in its modes. With none of
---the functions: `listener:accept()`.
---@param options runloop.net.ListenerOptions
---@return runloop.net.Listener?
---@return string? problem
---@return string? code
function net.listener(options) end

---@class runloop.net.ConnectOptions
---@field timeout? number for all of it, names included (30)
---@field tls? true|runloop.net.TLSOptions TLS begins when it is connected; the server's name is the host
---@field bind? string the own address, with or without a port
---@field nodelay? boolean small writes go out at once (true)
---@field keepalive? boolean the kernel asks silent peers now and then whether they are there (true)
---@field name? string for messages
---@field order? integer for descriptions
---@field high_water? integer see `net.serve`
---@field max_queue? integer see `net.serve`

---Connects. Waits. Several addresses are tried side by side, the next after 250 ms or when one fails, and none is given up before
---another is connected (RFC 8305). When all fail, the message has each address and its reason.
---@param where runloop.net.Where
---@param options? runloop.net.ConnectOptions
---@return runloop.net.Stream?
---@return string? problem
---@return string? code
function net.connect(where, options) end

---@class runloop.net.StreamOptions: runloop.net.ConnectOptions, runloop.net.Place
---@field on_open? fun(stream: runloop.net.Stream) it is connected, and TLS, if it is to have any, agreed on
---@field on_data? fun(stream: runloop.net.Stream, bytes: string) one that waits gets no more before it has returned
---@field on_end? fun(stream: runloop.net.Stream)
---@field on_error? fun(stream: runloop.net.Stream, message: string, code?: string)

---A stream that begins to connect when it is first in a mode: `loop:add(stream, modes)`. With functions, its input goes there; without,
---it is read as any other. What arrives while the loop runs in another mode stays in the kernel.
---@param options runloop.net.StreamOptions
---@return runloop.net.Stream
function net.stream(options) end

---Two streams that are connected to each other, in the kernel.
---@return runloop.net.Stream?
---@return runloop.net.Stream|string? other or the problem
---@return string? code
function net.pair() end

---@class runloop.net.MemoryOptions
---@field latency? number for how long a byte is on its way (0)
---@field bandwidth? number bytes per second; nil: any number
---@field chunk? integer how many bytes arrive at once, at the most; nil: any number
---@field high_water? integer see `net.serve`

---The same without a kernel, for tests: in virtual time under `rlhost test`, and always alike.
---@param options? runloop.net.MemoryOptions
---@return runloop.net.Stream
---@return runloop.net.Stream
function net.memory(options) end

---@class runloop.net.OpenOptions
---@field owns? boolean the descriptor is closed with the stream; otherwise the stream has a duplicate (false)
---@field name? string for messages
---@field on_data? fun(stream: runloop.net.Stream, bytes: string) its input goes there, as that of a `net.stream`
---@field on_end? fun(stream: runloop.net.Stream)
---@field on_error? fun(stream: runloop.net.Stream, message: string, code?: string)

---A stream of a descriptor: a socket's, a pipe's, a terminal's; or of a file, which is read without blocking the loop.
---@param fd integer|file*|table a number, an open file, or an object with `fd()`, `getfd()`, `pollfd()` or `fileno()`
---@param options? runloop.net.OpenOptions
---@return runloop.net.Stream?
---@return string? problem
---@return string? code
function net.open(fd, options) end

---The stream of descriptor 0, the same for each call.
---@return runloop.net.Stream
function net.input() end

---The stream of descriptor 1.
---@return runloop.net.Stream
function net.output() end

---The stream of descriptor 2.
---@return runloop.net.Stream
function net.errors() end

---A socket that the service manager has opened for this process.
---@class runloop.net.Inherited
---@field fd integer
---@field name string as the manager calls it; or ""
---@field kind "listener"|"stream"|"datagram"|"other"
---@field address? string

---The sockets that a service manager such as systemd has opened for this process, in the order of its units: socket activation,
---sd_listen_fds(3). Empty if there are none, or they are another process's. From then on they are not handed to programs. A listener
---is a place for `net.serve`, and what has an `fd` for `net.listener` and `net.datagram`; a stream is for `net.open(socket.fd)`.
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
---@field peer? runloop.net.Where it receives from there only, and sends there unless told otherwise
---@field reuse_port? boolean
---@field name? string for messages
---@field order? integer for descriptions
---@field on_message? fun(socket: runloop.net.Datagram, data: string, from: string) one that waits holds back those that follow

---A socket for messages: UDP, or Unix datagrams. With `on_message` it does nothing before `loop:add(socket, modes)`.
---
---It has one address: a port alone, or `localhost`, is 127.0.0.1, unless `peer` is of the other family. With `"*"` or `"::"` it speaks to
---both families; other addresses to their own, and `send` to one of the other is "EAFNOSUPPORT".
---@param options runloop.net.DatagramOptions
---@return runloop.net.Datagram?
---@return string? problem
---@return string? code
function net.datagram(options) end

---@class runloop.net.ResolveOptions
---@field family? "any"|"ipv4"|"ipv6"
---@field timeout? number

---The addresses of a host, as texts, in the order of the system's resolver. Waits, on a thread; never blocks the loop.
---@param name string
---@param options? runloop.net.ResolveOptions
---@return string[]?
---@return string? problem
---@return string? code
function net.resolve(name, options) end

---@class runloop.net.CopyOptions
---@field max? integer how many bytes at most

---Copies all that comes from one stream to another, until the end of input; as fast as the slower one. Waits. The streams are left
---open. Between descriptors, without TLS, the bytes stay in the kernel.
---@param from runloop.net.Stream
---@param to runloop.net.Stream
---@param options? runloop.net.CopyOptions
---@return integer? bytes
---@return string? problem
---@return string? code
function net.copy(from, to, options) end

-- Streams ------------------------------------------------------------------------------------------------------------

---A two-way stream of bytes. One reader at a time; each write is one piece, however many tasks write. A read that times out, is
---cancelled or meets its limit takes nothing. `local stream <close> = …` closes it; one that nobody has any more is closed, too.
---@class runloop.net.Stream
local Stream = {}

---@class runloop.net.ReadOptions
---@field timeout? number instead of that of `set_timeout`
---@field max? integer how many bytes the unit may have: 1 MB for lines and `read_until`, 16 MB for `read_all`. Over it: nil, "line longer than 1048576 bytes", "EMSGSIZE", and nothing is taken

---What there is: at least one byte, at most `max` (65536).
---@param max? integer
---@param options? runloop.net.ReadOptions
---@return string? bytes
---@return string? problem
---@return string? code
---@overload fun(self: runloop.net.Stream, options: runloop.net.ReadOptions): string?, string?, string?
function Stream:read(max, options) end

---So many bytes. An end that comes too early: nil, "end of input after 3 of 10 bytes", "EOF"; the 3 can still be read.
---@param count integer
---@param options? runloop.net.ReadOptions
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:read_exactly(count, options) end

---A line, without its `\n` or `\r\n`. The last one may lack it.
---@param options? runloop.net.ReadOptions
---@return string? line
---@return string? problem
---@return string? code
function Stream:read_line(options) end

---What is before a text, which is taken, too.
---@param text string
---@param options? runloop.net.ReadOptions
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:read_until(text, options) end

---All to the end of input, which may be nothing.
---@param options? runloop.net.ReadOptions
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:read_all(options) end

---The lines, one after the other, to the end of input. What the world refuses is raised.
---@param options? runloop.net.ReadOptions for each line
---@return fun(): string?
function Stream:lines(options) end

---The same for what `read` returns.
---@param options? runloop.net.ReadOptions
---@return fun(): string?
function Stream:chunks(options) end

---The next bytes, without taking them. Waits until so many are there.
---@param count integer
---@param options? { timeout: number }
---@return string? bytes
---@return string? problem
---@return string? code
function Stream:peek(count, options) end

---How many bytes were read ahead.
---@return integer
function Stream:buffered() end

---Writes strings and numbers, as one piece. What is written in one turn of the loop goes out together, at its end. Waits until less
---than the high-water mark is left to send. Also what was written by a call that timed out is sent.
---@param ... string|number
---@return true?
---@return string? problem
---@return string? code
function Stream:write(...) end

---The same without ever waiting. With more than `max_queue` left to send the stream is aborted: nil, "ENOBUFS: …", "ENOBUFS".
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

---Ends the output when all is sent; input goes on.
---@return true?
---@return string? problem
---@return string? code
function Stream:finish() end

---Closes it, without waiting: what was written is still sent, and what the peer still sends is thrown away for a while.
function Stream:close() end

---Closes it at once; the peer gets a reset, and what was not sent is lost.
function Stream:abort() end

---The same as `close`.
function Stream:invalidate() end

---Whether it can be used: neither closed nor aborted. The end of input leaves it open.
---@return boolean
function Stream:is_open() end

---@return boolean
function Stream:is_valid() end

---A time limit for each read and write from now on; nil: none.
---@param seconds? number
function Stream:set_timeout(seconds) end

---Small writes go out at once, rather than when the peer has acknowledged those before. On for connections.
---@param on boolean
---@return true?
---@return string? problem
---@return string? code
function Stream:set_nodelay(on) end

---@class runloop.net.KeepAlive
---@field idle? integer seconds of silence before the first question
---@field interval? integer seconds between questions
---@field count? integer how many may stay unanswered

---The kernel asks a silent peer whether it is there. On for connections, every 15 seconds.
---@param on boolean|runloop.net.KeepAlive
---@return true?
---@return string? problem
---@return string? code
function Stream:set_keepalive(on) end

---Begins TLS on the open stream, and waits until both sides agree. What was read ahead and not taken is TLS's, so that nothing
---can be smuggled in before. A stream that a listener has accepted is the server.
---
---Codes: `"TLS_CERTIFICATE"`, with which certificate and why; `"TLS"`; and later, for an end without TLS's own, `"TLS_TRUNCATED"`.
---Where it fails, takes too long or is cancelled, nothing goes through the stream any more: what it does is refused, and it is to be closed.
---@param options? runloop.net.TLSOptions
---@return true?
---@return string? problem
---@return string? code
function Stream:start_tls(options) end

---@class runloop.net.TLS
---@field version string "TLSv1.3"
---@field cipher string
---@field protocol? string what ALPN has chosen
---@field certificate? runloop.net.Certificate the peer's

---@class runloop.net.Certificate
---@field subject string
---@field issuer string
---@field names string[] the hosts and addresses that it is for
---@field not_after string
---@field fingerprint string SHA-256, in hexadecimal
---@field is_verified boolean

---What was agreed; nil without TLS, and before that is agreed on.
---@return runloop.net.TLS?
function Stream:tls() end

---Its own address: `"127.0.0.1:43211"`.
---@return string?
function Stream:address() end

---That of the other end.
---@return string?
function Stream:peer() end

---Its descriptor; nil without one.
---@return integer?
function Stream:fd() end

---@return integer
function Stream:bytes_read() end

---@return integer
function Stream:bytes_written() end

---Who is at the other end of a Unix socket.
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

---Sends one message. Never waits, and never queues: without room in the kernel it is nil, "EAGAIN: …", "EAGAIN".
---@param data string
---@param where? runloop.net.Where with a number for the address; nil: to the peer
---@return true?
---@return string? problem
---@return string? code
function Datagram:send(data, where) end

---The next message, and where it came from. Waits.
---@param timeout? number
---@return string? data
---@return string? from or the problem
---@return string? code
function Datagram:receive(timeout) end

---Receives what is sent to a multicast group.
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

---Allows messages to all of a network.
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

---The next connection. Waits.
---@param timeout? number
---@return runloop.net.Stream?
---@return string? problem
---@return string? code
function Listener:accept(timeout) end

---Where it listens, with the port that the system has chosen: `"127.0.0.1:43211"`.
---@return string?
function Listener:address() end

---Its port; 0 for a Unix socket.
---@return integer
function Listener:port() end

---How many of its connections are open.
---@return integer
function Listener:connections() end

---Accepts no more; its connections go on.
function Listener:close() end

---The same, then waits for its connections and their tasks. What is left after `seconds` is aborted: nil, "timed out".
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
