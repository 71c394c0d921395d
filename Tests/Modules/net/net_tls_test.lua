-- TLS of runloop.net, with a certificate that openssl makes for the test.

local rl, net = require "runloop", require "runloop.net"
local t = require "runloop.test"

local directory = os.tmpname()
os.remove(directory)
assert(os.execute("mkdir " .. directory))
local cert, key = directory .. "/cert.pem", directory .. "/key.pem"
assert(os.execute("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " .. key
  .. " -out " .. cert
  .. " -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null"))
local text = assert(io.open(cert)):read "a"

local function server(options, handler)
  options.certificate = options.certificate or cert
  options.key = options.key or key
  local listener = assert(net.serve("127.0.0.1:0", { tls = options }, handler))
  return listener, "localhost:" .. listener:port()
end

local function echo(stream)
  for line in stream:lines() do stream:write("tls: ", line, "\n") end
end

-- Gives servers time to notice the streams that a test has closed.
t.after_each(function() rl.sleep(0.03) end)

t.describe("a client", function()
  t.it("agrees on a protocol, and gets the peer's certificate", function()
    local listener <close>, where = server({ protocols = { "h2", "echo" } }, echo)
    local client <close> = assert(net.connect(where, { tls = { ca = cert, protocols = { "echo" } } }))
    client:write "hello\n"
    t.equal(client:read_line(), "tls: hello")
    t.error(function() require "runloop.process".run { "cat", input = client } end, "this stream uses TLS")
    local info = client:tls()
    t.equal(info.version, "TLSv1.3")
    t.equal(info.protocol, "echo")
    t.equal(info.certificate.subject, "CN=localhost")
    t.equal(info.certificate.names, { "localhost", "127.0.0.1" })
    t.equal(info.certificate.is_verified, true)
    t.equal(#info.certificate.fingerprint, 64)
    local other <close> = assert(net.connect("127.0.0.1:" .. listener:port(), { tls = { ca = text } }))
    other:write "by address\n"
    t.equal(other:read_line(), "tls: by address")
  end)

  t.it("gets long subjects and many names of a certificate completely", function()
    local units, names = {}, { "localhost" }
    for i = 1, 12 do units[i] = "OU=" .. ("%02d"):format(i):rep(30) end
    for i = 1, 300 do names[#names + 1] = ("host-%03d.example.com"):format(i) end
    local made, its_key = directory .. "/long.pem", directory .. "/long-key.pem"
    assert(os.execute("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " .. its_key
      .. " -out " .. made .. " -days 30 -subj /CN=localhost/" .. table.concat(units, "/")
      .. " -addext subjectAltName=DNS:" .. table.concat(names, ",DNS:") .. " 2>/dev/null"))
    local listener <close>, where = server({ certificate = made, key = its_key }, echo)
    local client <close> = assert(net.connect(where, { tls = { ca = made } }))
    local certificate = client:tls().certificate
    local subject = { "CN=localhost" }
    for _, unit in ipairs(units) do table.insert(subject, 1, unit) end
    t.equal(certificate.subject, table.concat(subject, ","))
    t.equal(certificate.issuer, certificate.subject)
    t.equal(certificate.names, names)
  end)

  t.it("refuses certificates, and names the certificate and the reason", function()
    local listener <close>, where = server({}, echo)
    local peer = " (127.0.0.1:" .. listener:port() .. ")"
    local stream, message, code = net.connect(where, { tls = { ca = cert, server_name = "other.example" } })
    t.equal({ stream, message, code }, { nil,
      "TLS_CERTIFICATE: certificate verify failed: hostname mismatch (depth 0, CN=localhost)" .. peer,
        "TLS_CERTIFICATE" })
    stream, message, code = net.connect(where, { tls = true })
    t.equal({ stream, message, code }, { nil,
      "TLS_CERTIFICATE: certificate verify failed: self-signed certificate (depth 0, CN=localhost)" .. peer,
        "TLS_CERTIFICATE" })
    local trusting <close> = assert(net.connect(where, { tls = { verify = false } }))
    t.equal(trusting:tls().certificate.is_verified, false)
  end)

  t.it("transfers megabytes both ways, in pieces of any size", function()
    local a, b = net.memory { latency = 0.0001, chunk = 1000 }
    local task = rl.task(function()
      assert(b:start_tls { server = true, certificate = cert, key = key })
      net.copy(b, b)
      b:close()
    end)
    assert(a:start_tls { ca = cert, server_name = "localhost" })
    rl.task(function()
      for _ = 1, 20 do assert(a:write(("x"):rep(49999), "\n")) end
      a:finish()
    end)
    local count = 0
    for line in a:lines() do count = count + #line end
    t.equal(count, 20 * 49999)
    task:await()
    a:close()
  end)

  t.it("that stops a handshake leaves a stream that transfers nothing", function()
    local GIVEN_UP <const> = "TLS: the handshake was given up (memory)"
    local ways = {
      ["as it takes too long"] = function(a) t.equal({ a:start_tls { verify = false, timeout = 0.05 } },
        { nil, "timed out" }) end,
      ["at once"] = function(a) t.equal({ a:start_tls { verify = false, timeout = 0 } }, { nil, "timed out" }) end,
      ["as it is cancelled"] = function(a)
        local task = rl.task(function() return a:start_tls { verify = false } end)
        rl.sleep(0.01)
        task:cancel()
        pcall(task.await, task)
      end,
    }
    for way, give_up in pairs(ways) do
      local a, b = net.memory()
      t.equal(a:tls(), nil, way)
      give_up(a)
      t.equal({ a:tls() }, { nil }, way)
      t.equal({ a:write "PLAIN" }, { nil, GIVEN_UP, "TLS" }, way)
      t.equal({ a:read() }, { nil, GIVEN_UP, "TLS" }, way)
      t.equal({ a:start_tls { verify = false } }, { nil, GIVEN_UP, "TLS" }, way)
      a:close()
      t.falsy((b:read_all() or ""):find("PLAIN", 1, true), way)
      b:close()
    end
    -- The same with a client that refuses the certificate, and with a server whose `sni` fails.
    local a, b = net.memory()
    local server = rl.task(function()
      return { pcall(b.start_tls, b, { server = true, sni = function() error("no name", 0) end }) }
    end)
    local client = rl.task(function()
      return { a:start_tls { ca = cert, server_name = "localhost", timeout = 0.1 } }
    end)
    t.equal(server:await(), { false, "no name" })
    t.equal({ b:tls() }, { nil })
    b:abort()
    t.equal(client:await()[1], nil)
    t.equal({ a:tls() }, { nil })
    a:abort()
  end)

  t.it("and a server do not wait for each other when both close", function()
    local listener <close>, where = server({}, function(stream)
      stream:write "bye\n"
    end)
    local copied
    local proxy <close> = assert(net.serve("127.0.0.1:0", function(stream)
      local inner <close> = assert(net.connect(where))
      local back = rl.task(function() return net.copy(inner, stream) end)
      net.copy(stream, inner)
      copied = rl.now()
      back:cancel()
    end))
    local client = assert(net.connect("localhost:" .. proxy:port(), { tls = { ca = cert } }))
    t.equal(client:read_line(), "bye")
    rl.sleep(0.05)
    -- The client closes without having read the server's end.
    local began = rl.now()
    client:close()
    t.eventually(function() return copied end)
    t.truthy(copied - began < 1, copied - began)
  end)

  t.it("distinguishes an end from a cut connection", function()
    -- This proxy cuts connections without TLS's close alert.
    local listener <close>, where = server({}, function(stream)
      stream:write "some"
      stream:flush()
      rl.sleep(0.2)
    end)
    local proxy <close> = assert(net.serve("127.0.0.1:0", function(stream)
      local inner <close> = assert(net.connect(where))
      rl.task(function() net.copy(stream, inner) end)
      for bytes in inner:chunks { timeout = 0.1 } do stream:write(bytes) end
    end))
    rl.on_error(function() end)
    local client = assert(net.connect("localhost:" .. proxy:port(), { tls = { ca = cert } }))
    t.equal(client:read(), "some")
    local bytes, message, code = client:read()
    t.equal(bytes, nil)
    t.truthy(code == "TLS_TRUNCATED" or code == "ECONNRESET", message)
    client:close()
    proxy:stop(1)
    listener:stop(1)
    rl.on_error(nil)
    local a, b = net.memory()
    rl.task(function()
      assert(b:start_tls { server = true, certificate = cert, key = key })
      b:write "whole"
      b:close()
    end)
    assert(a:start_tls { ca = cert, server_name = "localhost" })
    t.equal(a:read_all(), "whole")
    t.equal({ a:read() }, { nil })
    a:close()
  end)
end)

t.describe("a server", function()
  t.it("chooses its certificate by the name that the client requests", function()
    local asked
    local listener <close> = assert(net.serve("127.0.0.1:0", { tls = { sni = function(name)
      asked = name
      rl.sleep(0.01)
      return name == "localhost" and { certificate = cert, key = key } or nil
    end } }, echo))
    local where = "127.0.0.1:" .. listener:port()
    local client <close> = assert(net.connect(where, { tls = { ca = cert, server_name = "localhost" } }))
    client:write "x\n"
    t.equal({ client:read_line(), asked }, { "tls: x", "localhost" })
    t.equal((net.connect(where, { tls = { ca = cert, server_name = "other" } })), nil)
    t.equal(asked, "other")
  end)

  t.it("asks clients for certificates", function()
    local listener <close>, where = server({ client_ca = cert }, function(stream)
      stream:write(stream:tls().certificate.subject, "\n")
    end)
    local known <close> = assert(net.connect(where, { tls = { ca = cert, certificate = cert, key = key } }))
    t.equal(known:read_line(), "CN=localhost")
    local unknown <close> = assert(net.connect(where, { tls = { ca = cert } }))
    t.equal(select(3, unknown:read_line()), "TLS_CERTIFICATE")
  end)

  t.it("reports invalid files", function()
    local function refusal(tls) return select(2, net.serve(0, { tls = tls }, echo)) end
    t.equal(refusal { certificate = "/nothing" }, "ENOENT: no such file or directory (/nothing)")
    t.equal(refusal { certificate = key }, "TLS: it contains no certificate (" .. key .. ")")
    t.equal(refusal { certificate = cert, key = cert },
      "TLS: it contains no private key, or one with a password (" .. cert .. ")")
  end)

  t.it("begins TLS in the middle of a connection, and treats unread bytes as TLS", function()
    local listener <close> = assert(net.serve("127.0.0.1:0", function(stream)
      t.equal(stream:read_line(), "STARTTLS")
      stream:write "go\n"
      assert(stream:start_tls { certificate = cert, key = key })
      stream:write(stream:read_line(), "!\n")
    end))
    local client <close> = assert(net.connect(listener:address()))
    client:write "STARTTLS\n"
    t.equal(client:read_line(), "go")
    t.equal(client:start_tls { ca = cert, server_name = "localhost" }, true)
    client:write "secret\n"
    t.equal(client:read_line(), "secret!")
    t.equal(select(3, client:start_tls { ca = cert }), "EALREADY")
  end)

  t.it("passes decrypted data to callbacks", function()
    local got
    local loop = rl.current()
    local listener <close> = assert(net.listener { port = 0, tls = { certificate = cert, key = key },
      on_data = function(stream, bytes) stream:write(bytes:upper()) end })
    loop:add(listener, "common")
    local client = net.stream { host = "localhost", port = listener:port(), tls = { ca = cert },
      on_open = function(stream) stream:write "abc" end,
      on_data = function(stream, bytes)
        got = bytes
        stream:close()
      end }
    loop:add(client, "common")
    t.eventually(function() return got end)
    t.equal(got, "ABC")
    local refused
    local wrong = net.stream { host = "localhost", port = listener:port(), tls = true, on_data = print,
      on_error = function(_, _, code) refused = code end }
    loop:add(wrong, "common")
    t.eventually(function() return refused end)
    t.equal(refused, "TLS_CERTIFICATE")
    wrong:close()
  end)
end)

t.it("raises errors for misuse that name the function", function()
  local a, b = net.memory()
  local function message(options) return select(2, pcall(a.start_tls, a, options)) end
  t.truthy(message({ verfy = true }):find "stream:start_tls: unknown field 'verfy' %(did you mean 'verify'%?%)",
    message { verfy = true })
  t.truthy(message({ min_version = "1.1" }):find [[field 'min_version' must be "1.2" or "1.3", got "1.1"]])
  t.truthy(message({ server = true }):find "a server needs the field 'certificate', or 'sni'")
  a:close()
  b:close()
end)

t.describe("the object forms", function()
  t.it("call on_open when TLS is established, and send earlier output encrypted", function()
    local heard, names = {}, {}
    local listener = assert(net.listener { host = "127.0.0.1", port = 0,
      tls = { sni = function(name)
        rl.sleep(0.001)
        names[#names + 1] = name
        return { certificate = cert, key = key }
      end },
      on_data = function(stream, bytes) stream:write(bytes:upper()) end,
      on_error = function(_, message, code) heard[#heard + 1] = code .. " " .. message end })
    rl.current():add(listener)
    local opened
    local client = net.stream { port = listener:port(), tls = { ca = cert },
      on_open = function(stream)
        opened = stream:tls().version
        stream:write "hello"
      end,
      on_data = function(stream, bytes)
        heard[#heard + 1] = bytes
        stream:close()
      end }
    rl.current():add(client)
    t.eventually(function() return heard[1] end)
    t.equal({ opened, heard, names }, { "TLSv1.3", { "HELLO" }, { "localhost" } })

    local early <close> = net.stream { port = listener:port(), tls = { ca = cert } }
    rl.current():add(early)
    early:write "too early"
    t.equal(early:read(), "TOO EARLY")
    early:close()

    local problem
    local distrustful = net.stream { port = listener:port(), tls = true,
      on_open = function() problem = "it was opened" end,
      on_data = function() end, on_error = function(_, _, code) problem = code end }
    rl.current():add(distrustful)
    t.eventually(function() return problem end)
    t.equal(problem, "TLS_CERTIFICATE")
    t.eventually(function() return not distrustful:is_open() and #heard == 2 end)
    t.truthy(heard[2]:find "^TLS_CERTIFICATE .*unknown ca")
    listener:close()
  end)

  t.it("wait for a silent server until their time limit", function()
    local listener <close> = assert(net.serve("127.0.0.1:0", function(stream) stream:read_all() end))
    local problem
    local client = net.stream { port = listener:port(), host = "127.0.0.1", timeout = 0.2, tls = true,
      on_data = function() end,
      on_error = function(_, message) problem = message end }
    rl.current():add(client)
    t.eventually(function() return problem end)
    t.equal(problem, "timed out")
    t.falsy(client:is_open())
  end)

  t.it("name wrong options, and the caller, in errors", function()
    local function raised(fn, ...) return (select(2, pcall(fn, ...)):gsub("^[^ ]+:%d+: ", "")) end
    t.equal(raised(net.serve, 0, { tls = {} }, print),
      "net.serve: field 'tls': a server needs the field 'certificate', or 'sni'")
    t.truthy(raised(net.connect, 1,
      { tls = { nonsense = 1 } }):find("net.connect: field 'tls': unknown field 'nonsense'", 1, true))
    t.equal(raised(net.connect, 1, { tls = 5 }), "net.connect: field 'tls' must be true or a table of options, got 5")
    local a, b = net.pair()
    b:close()
    t.truthy(raised(a.start_tls, a, { nonsense = 1 }):find("stream:start_tls: unknown field 'nonsense'", 1, true))
    a:close()
  end)
end)
