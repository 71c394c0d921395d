---@meta runloop.socket

-- Every call of the module `runloop.socket`: the module `socket` of LuaSocket 3.1, whose calls wait in tasks. The
-- methods of sockets are those of LuaSocket's manual. docs/socket.md has the differences, and the libraries that were
-- tried.

---@class runloop.socket
---@field _VERSION string LuaSocket's
---@field BLOCKSIZE integer bytes that `source` reads at once
---@field dns runloop.socket.dns
---@field sinkt table<string, function> kinds of sinks
---@field sourcet table<string, function> kinds of sources
---@field _SETSIZE integer how many sockets `select` accepts; there is no limit
---@field _SOCKETINVALID integer the descriptor of a closed socket
---@field _DATAGRAMSIZE integer bytes of a datagram that `receive` takes
local socket = {}

---Makes every later `require "socket"` on this thread return this module, and "socket.unix" and "ssl" its parts. So
---`rlhost -e 'require"runloop.socket".install()' script.lua` runs an unchanged script.
---@return runloop.socket
function socket.install() end

---Makes a TCP master, for IPv4 or IPv6.
---@return runloop.socket.TCP?
---@return string? problem
function socket.tcp() end

---Makes a master for IPv4.
---@return runloop.socket.TCP?
---@return string? problem
function socket.tcp4() end

---Makes a master for IPv6.
---@return runloop.socket.TCP?
---@return string? problem
function socket.tcp6() end

---Makes a UDP socket, for IPv4 or IPv6.
---@return runloop.socket.UDP?
---@return string? problem
function socket.udp() end

---Makes a UDP socket for IPv4.
---@return runloop.socket.UDP?
---@return string? problem
function socket.udp4() end

---Makes a UDP socket for IPv6.
---@return runloop.socket.UDP?
---@return string? problem
function socket.udp6() end

---Makes a master for Unix sockets.
---@return runloop.socket.TCP?
---@return string? problem
function socket.unix() end

---Connects. Waits.
---@param host string
---@param port integer|string
---@param local_host? string the local address
---@param local_port? integer|string
---@param family? "inet"|"inet6"|"unspec"
---@return runloop.socket.TCP?
---@return string? problem
function socket.connect(host, port, local_host, local_port, family) end

---Connects with IPv4. Waits.
---@param host string
---@param port integer|string
---@param local_host? string
---@param local_port? integer|string
---@return runloop.socket.TCP?
---@return string? problem
function socket.connect4(host, port, local_host, local_port) end

---Connects with IPv6. Waits.
---@param host string
---@param port integer|string
---@param local_host? string
---@param local_port? integer|string
---@return runloop.socket.TCP?
---@return string? problem
function socket.connect6(host, port, local_host, local_port) end

---Listens at an address; "*" stands for all IPv4 addresses. Waits for names.
---@param host string
---@param port integer|string
---@param backlog? integer connections that may wait in the kernel (32)
---@return runloop.socket.TCP?
---@return string? problem
function socket.bind(host, port, backlog) end

---Waits until sockets can be read or written. Takes sockets of this module, and any object with `getfd`.
---@param readers? table[]
---@param writers? table[]
---@param timeout? number seconds; 0 does not wait; nil and negative numbers wait without a limit
---@return table readable a list, with the place of each socket
---@return table writable
---@return "timeout"? problem
function socket.select(readers, writers, timeout) end

---Waits this number of seconds in a task, while everything else goes on.
---@param seconds number
function socket.sleep(seconds) end

---Returns the wall clock, in seconds since 1970.
---@return number
function socket.gettime() end

---Raises an exception that `protect` turns into results, unless its first argument is true.
---@param ... any
---@return any ...
function socket.try(...) end

---Makes a `try` that calls a function before it raises.
---@param finalizer? function
---@return function
function socket.newtry(finalizer) end

---Makes a function that returns nil and the error message if `fn` raises an exception of `try`.
---@param fn function
---@return function
function socket.protect(fn) end

---Returns its arguments without the first ones.
---@param count integer
---@param ... any
---@return any ...
function socket.skip(count, ...) end

---Makes a function that chooses one of a table's functions by name.
---@param list table<string, function>
---@return function
function socket.choose(list) end

---Makes a sink for ltn12 from a socket.
---@param kind? "close-when-done"|"keep-open"
---@param client runloop.socket.TCP
---@return function
function socket.sink(kind, client) end

---Makes a source for ltn12 from a socket.
---@param kind? "by-length"|"until-closed"
---@param client runloop.socket.TCP
---@param length? integer
---@return function
function socket.source(kind, client, length) end

---Does nothing, as in LuaSocket.
function socket.__unload() end

-- Names --------------------------------------------------------------------------------------------------------------
---@class runloop.socket.dns
local dns = {}

---Returns an address of a host, and a table with all resolved data. Waits.
---@param name string
---@return string? address
---@return table|string more or the error message
function dns.toip(name) end

---Returns the name of an address. Waits.
---@param address string
---@return string? name
---@return table|string more or the error message
function dns.tohostname(address) end

---Returns the addresses of a host: `{ { family = "inet", addr = "127.0.0.1" }, … }`. Waits.
---@param name string
---@return table[]?
---@return string? problem
function dns.getaddrinfo(name) end

---Returns the names of a host's addresses. Waits.
---@param address string
---@param service? string|integer
---@return string[]?
---@return string? service
function dns.getnameinfo(address, service) end

---Returns the name of this machine.
---@return string
function dns.gethostname() end

-- Sockets ------------------------------------------------------------------------------------------------------------
---A master, server or client of TCP or of a Unix socket: all methods of LuaSocket's manual.
---@class runloop.socket.TCP

---A socket for datagrams: all methods of LuaSocket's manual.
---@class runloop.socket.UDP

return socket
