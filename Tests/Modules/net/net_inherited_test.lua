-- Sockets that a service manager passes to a program: net.inherited. This test plays the part of the service manager.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local process = require "runloop.process"

-- Starts a script with two sockets, and a descriptor that is not a socket, as its descriptors 3, 4 and 5.
local function start(script, input, output, variables)
  local text = "exec 3<&0 4<&1 5</dev/null 1>&2 </dev/null; "
    .. (variables or "export LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web:log")
    .. '; exec "$@"'
  return assert(process.start { "/bin/sh", "-c", text, "sh", t.rlhost, "-l", "rl=runloop", "-l", "net=runloop.net",
    "-e", script,
    input = input, output = output, errors = "pipe" })
end

t.describe("net.inherited", function()
  t.it("returns the inherited sockets, with names, kinds and addresses", function()
    local listener <close> = assert(net.listener { port = 0 })
    local socket = assert(net.datagram { host = "127.0.0.1", port = 0 })
    local program = start([[
      for _, socket in ipairs(net.inherited()) do
        io.stderr:write(socket.fd, " ", socket.name, " ", socket.kind, " ", socket.address or "-", "\n")
      end
      os.execute "test -e /dev/fd/3 && echo leaked >&2"
    ]], listener, socket)
    t.equal(program.errors:read_all(), ("3 web listener %s\n4 log datagram %s\n5  other -\n"):format(listener:address(),
      socket:address()))
    t.equal({ program:wait() }, { "exit", 0 })
    program.errors:abort()
    socket:close()
  end)

  t.it("returns sockets that serve earlier connections, and messages", function()
    local listener <close> = assert(net.listener { port = 0 })
    local socket = assert(net.datagram { host = "127.0.0.1", port = 0 })
    -- Connects before the script serves the socket.
    local stream <close> = assert(net.connect(listener:address()))
    stream:write "early\n"
    local program = start([[
      local web, log = table.unpack(net.inherited())
      local served = 0
      local server
      local function finish() served = served + 1 if served == 2 then server:close() rl.stop() end end
      server = assert(net.serve(web, function(stream) stream:write("hello ", stream:read_line(), "\n") finish() end))
      assert(server:address() == web.address)
      local socket = assert(net.datagram { fd = log.fd,
        on_message = function(socket, data, from) socket:send(data:upper(), from) finish() end })
      rl.current():add(socket)
    ]], listener, socket)
    t.equal(stream:read_line(), "hello early")
    local client = assert(net.datagram { host = "127.0.0.1", port = 0 })
    client:send("message", socket:address())
    t.equal(client:receive(10), "MESSAGE")
    t.equal({ program:wait() }, { "exit", 0 })
    -- The manager's socket is still open: it would start the service again for the next connection.
    local again <close> = assert(net.connect(listener:address()))
    client:close()
    socket:close()
    program.errors:abort()
  end)

  t.it("is empty without inherited sockets, or if they belong to another process", function()
    t.equal(net.inherited(), {})
    for _, variables in ipairs { "true", "export LISTEN_PID=1 LISTEN_FDS=1", "export LISTEN_PID=$$ LISTEN_FDS=x",
      "export LISTEN_PID=$$ LISTEN_FDS=-1",
      "export LISTEN_PID=$$" } do
      local program = start("os.exit(#net.inherited())", "null", "null", variables)
      t.equal({ program:wait() }, { "exit", 0 })
      program.errors:abort()
    end
  end)

  t.it("reports sockets that cannot be served", function()
    t.equal({ net.serve({ fd = 999 }, print) }, { nil, "EBADF: bad file descriptor (descriptor 999)", "EBADF" })
    local a, b = net.pair()
    local fd = a:fd()
    t.equal({ net.listener { fd = fd } }, { nil, ("EINVAL: not a listening socket (descriptor %d)"):format(fd),
      "EINVAL" })
    t.equal({ net.datagram { fd = fd } }, { nil, ("EINVAL: not a datagram socket (descriptor %d)"):format(fd),
      "EINVAL" })
    a:abort()
    b:abort()
    local fine, message = pcall(net.serve, { fd = -1 }, print)
    t.falsy(fine)
    t.truthy(message:find("net.serve: field 'fd' must be the number of a socket, as net.inherited has it, got -1", 1,
      true), message)
    fine, message = pcall(net.serve, { port = 1, name = "x" }, print)
    t.truthy(message:find("net.serve: unknown field 'name' of argument #1 (there are: fd, host, path, port)", 1, true),
      message)
  end)
end)
