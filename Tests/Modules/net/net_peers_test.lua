-- runloop.net with other programs, in both directions: nc, socat, openssl, curl, Node and Python's asyncio.

local rl, net, process = require "runloop", require "runloop.net", require "runloop.process"
local t = require "runloop.test"

local directory = os.tmpname()
os.remove(directory)
assert(os.execute("mkdir " .. directory))
local cert, key = directory .. "/cert.pem", directory .. "/key.pem"
assert(os.execute("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " .. key
  .. " -out " .. cert
  .. " -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null"))
t.after_all(function() os.execute("rm -r " .. directory) end)

local function has(program) return os.execute("command -v " .. program .. " >/dev/null 2>&1") end

-- scripts/test installs these programs; elsewhere a test reports that its program is missing.
local function with(program, name, fn)
  if has(program) then t.it(name, { timeout = 120, real_time = true },
    fn) else t.skip(name .. ": " .. program .. " is not installed", fn) end
end

local function file(name, text)
  local path = directory .. "/" .. name
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
  return path
end

-- A server that returns lines in upper case, and ends when its client does.
local function upper(options)
  local server = assert(net.serve(options and options.where or "127.0.0.1:0", { tls = options and options.tls },
    function(stream)
      for line in stream:lines() do stream:write(line:upper(), "\n") end
  end))
  return server
end

local function run(command)
  command.timeout = 60
  local result = assert(process.run(command))
  return result.output, result.errors, result.code
end

-- Stops the program at the end of a block.
local function ending(program) return setmetatable({}, { __close = function() program:stop(1) end }) end

-- Starts a program, and waits until it accepts connections.
local function peer(command, where)
  local program = assert(process.start(command))
  for _ = 1, 400 do
    local stream, _, code = net.connect(where)
    if stream then return program, stream end
    t.truthy(code == "ECONNREFUSED" or code == "ENOENT", code)
    rl.sleep(0.05)
  end
  error "the other program does not listen"
end

local function free_port()
  local listener <close> = assert(net.listener { host = "127.0.0.1", port = 0 })
  return listener:port()
end

local BIG = ("0123456789abcdef"):rep(1 << 16)

t.describe("as a server", function()
  with("nc", "is spoken to by nc", function()
    local server <close> = upper()
    t.equal(run { "nc", "-N", "127.0.0.1", tostring(server:port()), input = "one\ntwo\n" }, "ONE\nTWO\n")
  end)

  with("nc", "is spoken to by nc through a Unix socket", function()
    local server <close> = upper { where = "unix:" .. directory .. "/upper.sock" }
    t.equal(server:address(), "unix:" .. directory .. "/upper.sock")
    t.equal(run { "nc", "-N", "-U", directory .. "/upper.sock", input = "one\ntwo" }, "ONE\nTWO\n")
  end)

  with("socat", "sends a megabyte back to socat, by TCP and by an abstract name", function()
    for _, how in ipairs { { "127.0.0.1:0", "TCP:%s" },
      { "unix:@rlhost-peers-" .. process.id(), "ABSTRACT-CONNECT:rlhost-peers-" .. process.id() } } do
      local server <close> = assert(net.serve(how[1], function(stream)
        net.copy(stream, stream)
      end))
      local output = run { "socat", "-t", "30", "-", (how[2]:gsub("%%s", server:address())), input = BIG }
      t.equal(#output, #BIG)
      t.truthy(output == BIG)
    end
  end)

  with("openssl", "is spoken to by openssl s_client, with a name and a protocol", function()
    local names = {}
    local server <close> = upper { tls = { protocols = { "shout" }, sni = function(name)
      names[#names + 1] = name
      return { certificate = cert, key = key }
    end } }
    local program = assert(process.start { "openssl", "s_client", "-quiet", "-verify_return_error", "-verify_quiet",
      "-CAfile", cert,
      "-servername", "localhost", "-alpn", "shout", "-connect", server:address(), input = "pipe", output = "pipe",
        errors = "pipe" })
    program.input:write "hello\n"
    t.equal(program.output:read_line { timeout = 30 }, "HELLO")
    program.input:close()
    program:stop(1)
    program.output:close()
    program.errors:close()
    t.equal(names, { "localhost" })
    t.eventually(function() return server:connections() == 0 end)
  end)

  with("openssl", "tells openssl s_client why it does not speak with it", function()
    local server <close> = upper { tls = { certificate = cert, key = key, min_version = "1.3" } }
    local output, errors = run { "openssl", "s_client", "-tls1_2", "-connect", server:address(), input = "" }
    t.truthy((output .. errors):find("protocol version", 1, true), output .. errors)
  end)

  with("python3", "is spoken to by asyncio, 50 at a time", function()
    local server <close> = upper()
    local script = file("client.py", [[
import asyncio, sys
async def one(i):
    r, w = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    for j in range(20):
        w.write(f"line {i} {j}\n".encode())
        await w.drain()
        assert await r.readline() == f"LINE {i} {j}\n".encode()
    w.write_eof()
    assert await r.read() == b""
    w.close()
async def main():
    await asyncio.gather(*[one(i) for i in range(50)])
    print("done")
asyncio.run(main())
]])
    t.equal({ run { "python3", script, tostring(server:port()) } }, { "done\n", "", 0 })
  end)

  with("node", "is spoken to by Node, half-closed", function()
    local server <close> = assert(net.serve("127.0.0.1:0", function(stream)
      local text = stream:read_all()
      stream:write(#text, "\n")
    end))
    local script = file("client.mjs", [[
import net from "node:net"
const s = net.connect({ port: +process.argv[2], host: "127.0.0.1", allowHalfOpen: true })
s.end("x".repeat(300000))
let got = ""
s.on("data", d => got += d).on("end", () => process.stdout.write(got))
]])
    t.equal((run { "node", script, tostring(server:port()) }), "300000\n")
  end)

  with("curl", "answers curl, which writes what it has sent to an end", function()
    local server <close> = assert(net.serve("127.0.0.1:0", { tls = { certificate = cert, key = key } }, function(stream)
      stream:read_until "\r\n\r\n"
      stream:write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", BIG)
    end))
    local output = run { "curl", "-s", "--cacert", cert, "https://localhost:" .. server:port() .. "/" }
    t.truthy(output == BIG, #output)
  end)
end)

t.describe("as a client", function()
  with("nc", "speaks to nc, which ends first", function()
    local port = free_port()
    local program = assert(process.start { "nc", "-l", "-N", "127.0.0.1", tostring(port), input = "pipe",
      output = "pipe" })
    local stream
    t.eventually(function() stream = net.connect("127.0.0.1:" .. port) return stream end)
    stream:write "from us\n"
    t.equal(program.output:read_line { timeout = 30 }, "from us")
    program.input:write "from nc\n"
    program.input:close()
    t.equal({ stream:read_line { timeout = 30 }, stream:read_line { timeout = 30 } }, { "from nc" })
    stream:close()
    program:wait(30)
    program.output:close()
  end)

  with("socat", "speaks to socat through a Unix socket", function()
    local path = directory .. "/socat.sock"
    local program, stream = peer({ "socat", "UNIX-LISTEN:" .. path .. ",fork", "EXEC:cat" }, "unix:" .. path)
    local closing <close> = ending(program)
    rl.task(function()
      stream:write(BIG)
      stream:finish()
    end)
    t.truthy(stream:read_all { timeout = 30 } == BIG)
    stream:close()
  end)

  with("openssl", "speaks to openssl s_server, and sees its certificate", function()
    local port = free_port()
    local program, first = peer({ "openssl", "s_server", "-quiet", "-rev", "-accept", "127.0.0.1:" .. port, "-cert",
      cert, "-key", key,
      "-alpn", "turn" }, "127.0.0.1:" .. port)
    local closing <close> = ending(program)
    first:abort()
    local stream = assert(net.connect("127.0.0.1:" .. port, { tls = { ca = cert, protocols = { "turn" } } }))
    stream:write "stressed\n"
    t.equal(stream:read_line { timeout = 30 }, "desserts")
    t.equal({ stream:tls().protocol, stream:tls().certificate.subject }, { "turn", "CN=localhost" })
    stream:close()
    local none, _, code = net.connect("127.0.0.1:" .. port, { tls = true })
    t.equal({ none, code }, { nil, "TLS_CERTIFICATE" })
  end)

  with("python3", "speaks to asyncio, which reads slowly", function()
    local port = free_port()
    local script = file("server.py", [[
import asyncio, sys
async def serve(r, w):
    total = 0
    while data := await r.read(100000):
        total += len(data)
        await asyncio.sleep(0.001)
    w.write(f"{total}\n".encode())
    w.close()
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as s: await s.serve_forever()
asyncio.run(main())
]])
    local program, stream = peer({ "python3", script, tostring(port) }, "127.0.0.1:" .. port)
    local closing <close> = ending(program)
    for _ = 1, 8 do assert(stream:write(BIG)) end
    stream:finish()
    t.equal(stream:read_line { timeout = 60 }, tostring(8 * #BIG))
    stream:close()
  end)

  with("node", "speaks to Node, which ends without a word", function()
    local port = free_port()
    local script = file("server.mjs", [[
import net from "node:net"
net.createServer(s => s.on("error", () => {}).on("data", d => {
  if (d.toString() == "reset") s.resetAndDestroy()
  else s.end(d.toString().toUpperCase())
})).listen(+process.argv[2], "127.0.0.1")
]])
    local program, stream = peer({ "node", script, tostring(port) }, "127.0.0.1:" .. port)
    local closing <close> = ending(program)
    stream:write "hello"
    t.equal(stream:read_all { timeout = 30 }, "HELLO")
    stream:close()
    local other = assert(net.connect("127.0.0.1:" .. port))
    other:write "reset"
    t.equal({ other:read(nil, { timeout = 30 }) },
      { nil, "ECONNRESET: connection reset by peer (127.0.0.1:" .. port .. ")", "ECONNRESET" })
    other:close()
  end)
end)
