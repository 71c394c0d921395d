-- Calls functions of lua-socket's module, and writes the results line by line. The results of lua-socket and
-- runloop.socket must be the same except for addresses.
--
--   lua5.4 calls.lua        rlhost -e 'require"runloop.socket".install()' calls.lua

local socket = require "socket"
local count = 0

local function plain(value)
  if type(value) == "number" then
    return math.type(value) == "float" and value == value // 1 and ("%d"):format(value) or tostring(value)
  end
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) == "table" then
    local names = {}
    for name in pairs(value) do names[#names + 1] = tostring(name) end
    table.sort(names)
    return "{" .. #value .. "}"
  end
  if type(value) == "userdata" then return "object" end
  return tostring(value)
end

local function object(value)
  local is_socket = type(value) == "userdata" or type(value) == "table" and rawget(value, "class")
  return is_socket and (tostring(value):gsub(": .*", "")) or nil
end

-- Writes the results of a call. The caller chooses the numbers of ports and descriptors.
local function write(name, ok, ...)
  count = count + 1
  local texts = {}
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    texts[i] = object(value) or plain(value)
    if not ok then texts[i] = texts[i]:gsub('^"[^"]-:%d+: ', '"'):gsub("to '[%w.?]+'", "to 'x'") end
  end
  print(("%d %s %s %s"):format(count, name, ok and "gives" or "raises", table.concat(texts, ", ")))
  return ...
end

local function call(object_, name, ...)
  local arguments = table.pack(...)
  -- In errors, the arguments of a method are counted as in a call with a colon.
  local text = "local self, arguments = ... return self:%s(table.unpack(arguments, 1, arguments.n))"
  local by_colon = load(text:format(name), "=calls")
  return write(name, pcall(by_colon, object_, arguments))
end

local function plain_call(name, fn, ...) return write(name, pcall(fn, ...)) end

local function pair()
  local master = assert(socket.bind("127.0.0.1", 0))
  local host, port = master:getsockname()
  local client = assert(socket.connect(host, port))
  local server = assert(master:accept())
  master:close()
  return client, server
end

local function close(...)
  for _, each in ipairs { ... } do each:close() end
end

-- Receiving lines: with all line ends, in pieces, and with prefixes.
for _, text in ipairs { "one\n", "one\r\n", "\n", "\r\n", "a\rb\n", "a\r\rb\r\n", "two\nlines\n", "\0\1\n", "no end",
  "", "x\nno end", ("long"):rep(3000) .. "\n" } do
  local a, b = pair()
  call(a, "send", text)
  a:close()
  call(b, "receive")
  call(b, "receive", "*l")
  call(b, "receive", "*l", "prefix")
  call(b, "receive")
  call(b, "close")
end

-- Reads a number of bytes at a time, and then up to the end of the input.
for _, size in ipairs { 0, 1, 3, 5, 6, 7, 100 } do
  local a, b = pair()
  call(a, "send", "abcdef")
  a:close()
  call(b, "receive", size)
  call(b, "receive", size, "pre")
  call(b, "receive", "*a")
  call(b, "receive", "*a", "pre")
  call(b, "receive", 1)
  b:close()
end

-- With a time limit, a call returns the part that has arrived.
for _, mode in ipairs { "b", "t" } do
  for _, pattern in ipairs { "*l", "*a", 10, 4, 0 } do
    local a, b = pair()
    call(b, "settimeout", 0.02, mode)
    call(b, "gettimeout")
    call(b, "receive", pattern)
    call(a, "send", "abc")
    call(b, "receive", pattern)
    call(a, "send", "def\nghi")
    call(b, "receive", pattern, "pre")
    call(b, "receive", pattern)
    call(b, "settimeout", 0)
    call(b, "receive", pattern)
    call(a, "send", "x")
    a:close()
    call(b, "receive", pattern)
    call(b, "receive", pattern)
    b:close()
  end
end

-- Sending parts.
do
  local a, b = pair()
  for _, range in ipairs { { 1 }, { 2 }, { 3, 4 }, { -2 }, { -3, -2 }, { 0 }, { 9 }, { 1, 99 }, { 5, 2 }, { 1, 0 } } do
    call(a, "send", "abcdef", table.unpack(range))
  end
  call(a, "send", 123)
  call(a, "send", "")
  a:close()
  call(b, "receive", "*a")
  close(b)
  call(a, "send", "x")
  call(a, "receive")
  call(a, "close")
end

-- A reset.
do
  local a, b = pair()
  call(a, "send", "never read")
  socket.select({ b }, nil, 1)
  b:setoption("linger", { on = true, timeout = 0 })
  b:close()
  socket.sleep(0.02)
  call(a, "receive")
  call(a, "send", "x")
  a:close()
end

-- Half-closed.
do
  local a, b = pair()
  call(a, "shutdown", "send")
  call(b, "receive")
  call(b, "send", "still\n")
  call(a, "receive")
  call(a, "send", "x")
  call(a, "shutdown", "receive")
  call(a, "shutdown")
  call(a, "shutdown", "nothing")
  close(a, b)
end

-- Connecting and listening.
do
  local master = socket.tcp()
  call(master, "getsockname")
  call(master, "bind", "127.0.0.1", 0)
  call(master, "listen")
  call(master, "settimeout", 0.01)
  call(master, "accept")
  call(master, "settimeout", 0)
  call(master, "accept")
  local _, port = master:getsockname()
  plain_call("bind", socket.bind, "127.0.0.1", port)
  local client = socket.tcp()
  call(client, "connect", "127.0.0.1", port)
  call(client, "connect", "127.0.0.1", port)
  call(master, "settimeout")
  call(master, "accept")
  call(master, "receive")
  call(client, "accept")
  call(client, "listen")
  call(master, "close")
  call(master, "close")
  call(client, "close")
  plain_call("connect", socket.connect, "127.0.0.1", port)
  plain_call("connect", socket.connect, "no-such-host.invalid", 1)
  local again = socket.tcp4()
  call(again, "settimeout", 1)
  call(again, "connect", "127.0.0.1", port)
  again:close()
  local held = socket.tcp()
  held:settimeout(0)
  local other = assert(socket.bind("127.0.0.1", 0))
  local _, free = other:getsockname()
  call(held, "connect", "127.0.0.1", free)
  local _, writable = socket.select(nil, { held }, 1)
  plain_call("select", function() return #writable end)
  call(held, "connect", "127.0.0.1", free)
  close(held, other)
end

-- Options and properties of a socket.
do
  local a, b = pair()
  for _, option in ipairs { { "tcp-nodelay", true }, { "keepalive", true }, { "reuseaddr", true }, { "keepalive", 5 },
    { "linger", { on = true, timeout = 1 } }, { "linger", 1 }, { "linger", {} }, { "nothing", true } } do
    call(a, "setoption", table.unpack(option))
  end
  for _, option in ipairs { "tcp-nodelay", "keepalive", "reuseaddr", "nothing", "error" } do
    call(a, "getoption", option)
  end
  call(a, "getoption", "linger")
  call(a, "dirty")
  call(b, "send", "ab\nc")
  call(a, "receive")
  call(a, "dirty")
  plain_call("getstats", function()
    local received, sent = a:getstats()
    return received, sent
  end)
  call(a, "setstats", 5, 6, 7)
  plain_call("getstats", function()
    local received, sent, age = a:getstats()
    return received, sent, age >= 7
  end)
  call(a, "settimeout")
  call(a, "gettimeout")
  call(a, "settimeout", 1.5, "t")
  call(a, "gettimeout")
  call(a, "settimeout", -1)
  call(a, "getfamily")
  call(b, "getfamily")
  plain_call("getfd", function() return a:getfd() > 0 end)
  plain_call("names", function()
    local host, _, family = a:getsockname()
    local other, port, also = a:getpeername()
    return host, family, other, type(port), also
  end)
  close(a, b)
  plain_call("getstats", function() return select(2, pcall(a.getstats, a)), 1 end)
  call(a, "getsockname")
  call(a, "getpeername")
  call(a, "getfd")
end

-- A socket that connects again after a failure.
do
  local master = socket.bind("127.0.0.1", 0)
  local host, port = master:getsockname()
  master:close()
  local client = socket.tcp()
  call(client, "getfamily")
  call(client, "connect", host, port)
  call(client, "connect", host, port)
  master = socket.bind(host, port)
  call(client, "connect", host, port)
  close(client, master)
end

-- Wrong arguments.
do
  local a, b = pair()
  for _, arguments in ipairs { { "receive", "*x" }, { "receive", -1 }, { "receive", {} }, { "receive", "x" },
    { "send" }, { "send", {} }, { "send", "x", "y" }, { "send", "x", 1, {} }, { "settimeout", "x" },
    { "settimeout", {} }, { "settimeout", 1, "x" }, { "setoption" }, { "getoption" }, { "connect" },
    { "connect", "127.0.0.1" }, { "setoption", "keepalive" } } do
    call(a, table.unpack(arguments))
  end
  for _, arguments in ipairs { { socket.select, 1 }, { socket.select, {}, 1 }, { socket.select, {}, {}, "x" },
    { socket.sleep }, { socket.sleep, "x" }, { socket.connect }, { socket.dns.toip } } do
    plain_call("function", table.unpack(arguments))
  end
  plain_call("select", socket.select, { {}, { getfd = function() return -1 end } }, nil, 0)
  close(a, b)
  local unconnected, datagrams = socket.tcp4(), socket.udp()
  call(unconnected, "setoption", "tcp-fastopen-connect", true)
  call(datagrams, "sendto", "x", "127.0.0.1", "no such service")
  close(unconnected, datagrams)
end

-- Selecting.
do
  local a, b = pair()
  local c, d = pair()
  local function choose(readers, writers, limit)
    local readable, writable, problem = socket.select(readers, writers, limit)
    return #readable, #writable, problem, readable[b], writable[a]
  end
  plain_call("select", choose, { b, d }, nil, 0)
  plain_call("select", choose, { b, d }, nil, 0.01)
  plain_call("select", choose, { b, d }, { a, c }, 0.01)
  plain_call("select", choose, nil, { a }, 1)
  a:send "one\ntwo\n"
  plain_call("select", choose, { d, b }, nil, 1)
  call(b, "receive")
  plain_call("select", choose, { d, b }, nil)
  call(b, "receive")
  plain_call("select", choose, { d, b }, nil, 0.01)
  a:close()
  plain_call("select", choose, { b }, {}, 1)
  plain_call("select", choose, nil, nil, 0.01)
  plain_call("select", choose, {}, {}, 0)
  call(b, "receive")
  plain_call("select", choose, { b }, {}, 0)
  close(b, c, d)
end

-- Datagrams.
do
  local a, b = socket.udp(), socket.udp4()
  call(a, "getsockname")
  call(b, "setsockname", "127.0.0.1", 0)
  local _, port = b:getsockname()
  call(b, "settimeout", 0.01)
  call(b, "receive")
  call(b, "receivefrom")
  call(a, "sendto", "hello", "127.0.0.1", port)
  call(b, "receive")
  call(a, "sendto", "hello", "127.0.0.1", port)
  plain_call("receivefrom", function()
    local data, host, from = b:receivefrom()
    return data, host, type(from)
  end)
  call(a, "sendto", "hello", "127.0.0.1", port)
  call(b, "receive", 2)
  call(b, "receive")
  call(a, "send", "x")
  call(a, "setpeername", "127.0.0.1", port)
  call(a, "send", "connected")
  call(b, "receive")
  call(a, "sendto", "x", "127.0.0.1", port)
  call(a, "receivefrom")
  call(a, "setpeername", "*")
  call(a, "send", "x")
  call(a, "send")
  call(a, "sendto", "x")
  call(b, "receive", "x")
  call(b, "setoption", "broadcast", true)
  call(b, "getoption", "broadcast")
  call(b, "setoption", "nothing", 1)
  call(b, "dirty")
  call(b, "close")
  call(b, "receive")
  a:close()
end

-- The other functions of the module.
do
  plain_call("try", socket.try, 1, 2)
  plain_call("protect", socket.protect(function() socket.try(nil, "problem") end))
  plain_call("protect", socket.protect(function() return 1, 2 end))
  plain_call("protect", socket.protect(function() error("mine", 0) end))
  local closed = 0
  plain_call("newtry", socket.protect(function() socket.newtry(function() closed = closed + 1 end)(nil, "p") end))
  plain_call("closed", function() return closed end)
  plain_call("skip", socket.skip, 2, "a", "b", "c")
  plain_call("toip", function() return (socket.dns.toip "127.0.0.1") end)
  plain_call("toip", socket.dns.toip, "no-such-host.invalid")
  plain_call("version", function() return socket._VERSION, socket.BLOCKSIZE end)
  plain_call("gettime", function() return math.abs(socket.gettime() - os.time()) < 2 end)
  local a, b = pair()
  local ltn12 = require "ltn12"
  local parts = {}
  plain_call("pump", ltn12.pump.all, ltn12.source.string(("data"):rep(900)), socket.sink("close-when-done", a))
  plain_call("pump", ltn12.pump.all, socket.source("until-closed", b), (ltn12.sink.table(parts)))
  plain_call("size", function() return #table.concat(parts) end)
  local c, d = pair()
  c:send "exactly this"
  parts = {}
  plain_call("pump", ltn12.pump.all, socket.source("by-length", d, 7), (ltn12.sink.table(parts)))
  plain_call("parts", table.concat, parts)
  plain_call("sink", socket.sink, "nothing", c)
  close(c, d)
end
