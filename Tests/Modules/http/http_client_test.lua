-- runloop.http: the client, over real connections to servers of this process.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local process = require "runloop.process"
local fs = require "runloop.fs"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of, directory = support.problem_of, support.directory

local server, base

t.before_each(function()
  local app = http.routes()
  app:get("/hello", function() return "hello" end)
  app:any("/echo", function(request)
    return { body = request:body() or "", headers = { ["x-method"] = request.method,
      ["x-type"] = request.headers["content-type"] or "none",
      ["x-agent"] = request.headers["user-agent"], ["x-auth"] = request.headers.authorization or "none",
        ["x-target"] = request.target } }
  end)
  app:get("/away", function() return http.redirect "/hello" end)
  app:get("/round", function() return http.redirect "/round" end)
  app:get("/set", function() return { headers = { ["set-cookie"] = { "a=1; Path=/", "b=2; Path=/" } } } end)
  app:get("/cookies", function(request) return (request.cookies.a or "-") .. (request.cookies.b or "-") end)
  app:get("/slow", function() rl.sleep(60) return "late" end)
  app:get("/silent", function() rl.sleep(600) return "late" end)
  app:get("/drip", function(request)
    local response = request:respond()
    response:write "first"
    rl.sleep(60)
  end)
  app:get("/much", function(request)
    local response = request:respond()
    for _ = 1, 200 do response:write(("x"):rep(65536)) end
  end)
  app:get("/lines", function() return "one\r\ntwo\n\nfour" end)
  app:get("/events", function(request)
    local events = request:respond():events()
    for i = 1, 3 do events:send { event = "n", data = tostring(i), id = i } end
  end)
  app:get("/short", function(request)
    request:respond { headers = { ["content-length"] = 100 } }:write "only this"
    request.connection.stream:abort()
  end)
  server = assert(http.serve(0, app))
  base = "http://" .. server:address()
end)

t.after_each(function() server:stop(0) end)

t.describe("requests", function()
  t.it("are answered", function()
    local answer = assert(http.get(base .. "/hello"))
    t.equal({ answer.status, answer.reason, answer.body, answer.version, answer.url },
      { 200, "OK", "hello", "1.1", base .. "/hello" })
    t.equal(answer.headers["Content-Type"], "text/plain; charset=utf-8")
    t.equal(http.get(base .. "/none").status, 404)
  end)

  t.it("send the given method, headers and body", function()
    local function sent(request)
      request.url = base .. "/echo"
      local answer = assert(http.fetch(request))
      return { answer.headers["x-method"], answer.headers["x-type"], answer.body }
    end
    t.equal(sent { body = "text" }, { "POST", "none", "text" })
    t.equal(sent { json = { a = 1 } }, { "POST", "application/json", '{"a":1}' })
    t.equal(sent { form = { a = "x y" } }, { "POST", "application/x-www-form-urlencoded", "a=x+y" })
    t.equal(sent { method = "PUT", body = "x", headers = { ["Content-Type"] = "a/b" } }, { "PUT", "a/b", "x" })
    t.equal(sent { method = "DELETE" }, { "DELETE", "none", "" })
    t.equal(sent {}, { "GET", "none", "" })
    local count = 0
    t.equal(sent { method = "PATCH", body = function()
      count = count + 1
      rl.sleep(0.001)
      return count <= 100 and ("%03d"):format(count) or nil
    end }[3]:sub(-6), "099100")
    t.equal(http.post(base .. "/echo", "posted").body, "posted")
    t.equal(http.get(base .. "/echo", { query = { q = "a&b" } }).headers["x-target"], "/echo?q=a%26b")
    t.equal(http.get(base .. "/echo", { user = "u", password = "p" }).headers["x-auth"], "Basic dTpw")
    t.equal(http.fetch({ base .. "/echo", method = "HEAD" }).body, "")
    local near, far = net.pair()
    rl.task(function()
      for i = 1, 5 do
        near:write("part ", i, ";")
        rl.sleep(0.001)
      end
      near:close()
    end)
    t.equal(http.post(base .. "/echo", far).body, "part 1;part 2;part 3;part 4;part 5;")
    far:close()
  end)

  t.it("follow redirects, up to a limit", function()
    local answer = http.get(base .. "/away")
    t.equal({ answer.status, answer.body, answer.url, answer.redirects }, { 200, "hello", base .. "/hello", 1 })
    t.equal(http.get(base .. "/away", { follow = 0 }).status, 302)
    local none, problem, code = http.get(base .. "/round", { follow = 3 })
    t.equal({ none, code }, { nil, "ELOOP" })
    t.truthy(problem:find("redirects", 1, true))
  end)

  t.it("keep cookies only for a client with that option", function()
    local client <close> = http.client { cookies = true, name = "cookies" }
    client:get(base .. "/set")
    t.equal(client:get(base .. "/cookies").body, "12")
    t.equal(http.get(base .. "/cookies").body, "--")
  end)

  t.it("run side by side, on few connections", function()
    local client <close> = http.client { connections = 4 }
    local tasks = {}
    for i = 1, 40 do tasks[i] = rl.task(function() return client:get(base .. "/hello").body end) end
    for i = 1, 40 do t.equal(tasks[i]:await(), "hello") end
    t.truthy(server:statistics().connections <= 4)
  end)

  t.it("go to Unix sockets", function()
    local path, guard <close> = directory()
    local other <close> = assert(http.serve("unix:" .. path .. "/s", function(request)
      return "unix " .. request.headers.host
    end))
    t.equal(http.get("http://there/x", { unix = path .. "/s" }).body, "unix there")
  end)
end)

t.describe("answers that are read piece by piece", function()
  t.it("make a fast sender wait", { real_time = true }, function()
    local answer <close> = assert(http.open { base .. "/much" })
    rl.sleep(0.2)
    t.equal(server:statistics().active, 1)
    local count = 0
    for bytes in answer:chunks() do count = count + #bytes end
    t.equal(count, 200 * 65536)
  end)

  t.it("can be read as lines and as events", function()
    local lines <close> = assert(http.open { base .. "/lines" })
    local seen = {}
    for line in lines:lines() do seen[#seen + 1] = line end
    t.equal(seen, { "one", "two", "", "four" })
    local events <close> = assert(http.open { base .. "/events" })
    seen = {}
    for event in events:events() do seen[#seen + 1] = event.event .. event.data .. event.id end
    t.equal(seen, { "n11", "n22", "n33" })
  end)

  t.it("are ended when they are dropped", { real_time = true }, function()
    for _ = 1, 3 do assert(http.open { base .. "/drip" }) end
    t.equal(server:statistics().active, 3)
    t.eventually(function()
      collectgarbage()
      return server:statistics().cancelled == 3
    end)
  end)

  t.it("return lines in a time proportional to their number", function()
    local function seconds(count)
      local many = http.routes():get("/", function() return ("x\n"):rep(count) end)
      local other <close> = assert(http.serve(0, many))
      local lines, began = 0, os.clock()
      local answer <close> = assert(http.open { "http://" .. other:address() .. "/" })
      for line in answer:lines() do lines = lines + #line end
      t.equal(lines, count)
      return os.clock() - began
    end
    -- A quadratic algorithm took 200 times as long for sixteen times the lines.
    local few = seconds(10000)
    t.truthy(seconds(160000) < 60 * math.max(few, 0.002))
  end)

  t.it("can be closed early, and the server notices", { real_time = true }, function()
    local answer = assert(http.open { base .. "/drip" })
    t.equal(answer:read(), "first")
    answer:close()
    t.eventually(function() return server:statistics().cancelled == 1 end)
  end)
end)

t.describe("errors are returned as values", function()
  t.it("if no server listens", function()
    local none, problem, code = http.get "http://127.0.0.1:9/"
    t.equal({ none, problem, code }, { nil, "ECONNREFUSED: connection refused (http://127.0.0.1:9/)", "ECONNREFUSED" })
    local path, guard <close> = directory()
    t.equal(table.pack(http.get("http://x/", { unix = path .. "/s" })),
      { nil, ("ENOENT: no such file or directory (unix:%s/s, http://x/)"):format(path), "ENOENT", n = 3 })
    t.equal(select(2, http.get("http://x/", { unix = "@" .. path })),
      ("ECONNREFUSED: connection refused (unix:@%s, http://x/)"):format(path))
  end)

  t.it("if an answer takes too long, in virtual time", function()
    local start = rl.now()
    t.equal({ http.get(base .. "/slow", { timeout = 5 }) }, { nil, "timed out" })
    t.equal(rl.now() - start, 5.0)
    t.equal({ t.http(function() rl.sleep(60) end):get("/", { timeout = 5 }) }, { nil, "timed out" })
    local answer <close> = assert(http.open { base .. "/drip", idle_timeout = 1 })
    t.equal(answer:read(), "first")
    t.equal({ answer:read() }, { nil, "timed out" })
    local reason = "timed out: nothing came for 60 s (idle_timeout)"
    t.equal({ http.get(base .. "/silent", { timeout = 200 }) }, { nil, reason })
    t.equal({ http.get(base .. "/silent") }, { nil, reason })
  end)

  t.it("if the body is too long, or too short", function()
    local none, problem, code = http.get(base .. "/much", { max_body = 1000 })
    t.equal({ none, problem, code }, { nil, ("EMSGSIZE: the body is longer than 1000 bytes (%s/much)"):format(base),
      "EMSGSIZE" })
    none, problem, code = http.get(base .. "/short")
    t.truthy(none == nil and (code == "EOF" or code == "ECONNRESET"), problem)
  end)

  t.it("if the answer ends in its head", { real_time = true }, function()
    for _, head in ipairs { "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nSet-Cookie: a=bc",
      "HTTP/1.1 302 Found\r\nLocation: /x", "HTTP/1.1 204 No Content\r\n" } do
      local listener = assert(net.serve("127.0.0.1:0", function(stream)
        stream:read()
        stream:write(head)
      end))
      local answer, problem, code = http.get("http://" .. listener:address() .. "/")
      t.equal({ answer, code }, { nil, "EOF" }, problem)
      t.equal(select(3, http.open { "http://" .. listener:address() .. "/" }), "EOF")
      listener:stop(0)
    end
  end)

  t.it("if the head is too long", { real_time = true }, function()
    for _, head in ipairs { "X-Long: " .. ("x"):rep(400000) .. "\r\n",
      ("X-Many: " .. ("x"):rep(1000) .. "\r\n"):rep(1000) } do
      local listener = assert(net.serve("127.0.0.1:0", function(stream)
        stream:read()
        stream:write("HTTP/1.1 200 OK\r\n", head, "Content-Length: 2\r\n\r\nhi")
        stream:read()
      end))
      local answer, problem, code = http.get("http://" .. listener:address() .. "/")
      t.equal({ answer, problem, code },
        { nil, "EMSGSIZE: the answer's head is longer than 256 kB, or a line of it than 100 kB (http://"
          .. listener:address() .. "/)", "EMSGSIZE" })
      listener:stop(0)
    end
  end)

  t.it("if a function for the request's body fails", function()
    local none, problem, code = http.post(base .. "/echo", function() error "no more" end)
    t.truthy(none == nil and problem:find "no more" and code == "ECANCELED", problem)
  end)

  t.it("cancelling a task ends its request", { real_time = true }, function()
    local task = rl.task(function() return http.get(base .. "/slow") end)
    t.eventually(function() return server:statistics().active == 1 end)
    task:cancel()
    t.eventually(function() return server:statistics().cancelled == 1 end)
    t.equal(tostring(select(2, pcall(task.await, task))), "cancelled")
  end)

  t.it("closing a client ends the requests that wait", { real_time = true }, function()
    local client = http.client()
    local whole, head = rl.task(client.get, client, base .. "/slow"), rl.task(client.open, client, { base .. "/slow" })
    local answer = client:open { base .. "/drip" }
    t.equal(answer:read(), "first")
    local piece = rl.task(answer.read, answer)
    t.eventually(function() return server:statistics().active == 3 end)
    client:close()
    for task, path in pairs { [whole] = "/slow", [head] = "/slow", [piece] = "/drip" } do
      t.equal(table.pack(task:await()), { nil, ("ECANCELED: the client is closed (%s%s)"):format(base, path),
        "ECANCELED", n = 3 })
    end
    t.eventually(function() return server:statistics().active == 0 end)
  end)

  -- The script needs a name server, which only root can configure for one process.
  local hosts = [[
    local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
    local silent = assert(net.datagram { host = "127.77.0.1", port = 53 })
    local last, worst = rl.now(), 0
    local ticks = rl.every(0.01, function()
      local now = rl.now()
      last, worst = now, math.max(worst, now - last)
    end)
    local started = rl.now()
    local task = rl.task(http.get, "http://example.org/")
    rl.sleep(0.3)
    task:cancel()
    print(http.get("http://example.com/", { timeout = 0.5 }))
    local many = {}
    for i = 1, 20 do many[i] = rl.task(http.get, ("http://host%d.example.org/"):format(i)) end
    rl.sleep(0.1)
    for _, one in ipairs(many) do one:cancel() end
    rl.sleep(0.1)
    ticks:invalidate()
    print(silent:receive(0) ~= nil, worst < 3, rl.now() - started < 4)
  ]]
  local as_if = "echo nameserver 127.77.0.1 > \"$1\" && mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\""
  local file = os.tmpname()
  local can_hide = os.execute(("unshare -m sh -c '%s' sh %s true 2>/dev/null"):format(as_if, file))
  local it = can_hide and t.it or function(name, _, body) t.skip(name .. ": needs root", body) end
  it("a silent name server does not delay other requests", { real_time = true, timeout = 60 }, function()
    local result = assert(process.run { "unshare", "-m", "sh", "-c", as_if, "sh", file, fs.real_path "/proc/self/exe",
      "-e", hosts, timeout = 50 })
    t.equal({ result.output, result.errors }, { "nil\ttimed out\tnil\ntrue\ttrue\ttrue\n", "" })
  end)
  t.after_all(function() os.remove(file) end)

  t.it("for other schemes; invalid arguments raise errors", function()
    t.equal(select(3, http.get "ftp://127.0.0.1/"), "EPROTONOSUPPORT")
    t.equal(problem_of(http.get, "http://x/a b"),
      "http.get: the URL has a blank or a control character: \"http://x/a b\"")
    t.equal(problem_of(http.get), "http.get: argument #1 must be a string, got nothing")
    t.equal(problem_of(http.fetch, { "http://x", url = "http://y" }),
      "http.fetch: the URL is given twice: as argument #1, and as field 'url'")
    t.equal(problem_of(http.get, "http://x", { unix = "" }),
      "http.get: field 'unix' must be the path of a socket, or \"@name\", got \"\"")
    t.equal(problem_of(http.get, "http://x", { tls = false }),
      "http.get: field 'tls' must be true or a table of options; https:// in the URL turns TLS on")
    t.equal(http.get(base .. "/hello", { tls = true }).body, "hello")
    t.equal(http.get(base .. "/hello", { idle_timeout = math.huge, timeout = math.huge }).body, "hello")
    t.equal(problem_of(http.get, "https://x", { tls = { server_name = "y" } }),
      "http.get: field 'tls' takes no 'server_name': the certificate must name the URL's host")
    local client = http.client { name = "c" }
    t.truthy(tostring(client):find '^http client "c" %(made at .*http_client_test.lua:%d+%)$')
    t.truthy(tostring(server):find "^http server %(127.0.0.1:%d+, made at .*http_client_test.lua:%d+%)$")
    t.equal(problem_of(rl.thread, print, client), "rl.thread: cannot send argument #2: http client")
    client:close()
    t.equal(problem_of(client.get, client, base), "client:get: the client is closed")
    t.equal(problem_of(http.get, "http://x", { timout = 1 }),
      "http.get: unknown field 'timout' (did you mean 'timeout'?)")
    t.equal(problem_of(http.fetch, { url = "http://x", body = "a", json = 1 }),
      "http.fetch: only one of the fields 'body', 'json' and 'form' can be given")
    t.equal(problem_of(http.fetch, { url = "http://x", body = true }),
      "http.fetch: field 'body' must be a string, a function or a stream, got true")
    t.equal(problem_of(http.fetch, { url = "http://x", headers = { a = "b\nc" } }),
      "http.fetch: the field 'a' must be a string without control characters")
    t.equal(problem_of(http.fetch, {}), "http.fetch: field 'url' must be a string, got nothing")
    t.equal(problem_of(http.websocket, "ftp://x"),
      "http.websocket: argument #1 must be a URL that begins with ws://, wss://, http:// or https://, got \"ftp://x\"")
  end)
end)

t.describe("a client in a mode of its own", function()
  t.it("continues in that mode only", function()
    local client <close> = http.client { modes = { "quiet" } }
    local done
    rl.task(function() done = client:get(base .. "/hello").body end)
    rl.sleep(0.1)
    local loop = rl.current()
    loop:add_common_mode "quiet"
    rl.timeout(2, function() while not done do loop:run { mode = "quiet", timeout = 0.05 } end end)
    t.equal(done, "hello")
  end)
end)

t.describe("proxies", function()
  -- A proxy that forwards, or opens tunnels, and the requests that it has received.
  local function proxy()
    local seen = {}
    local listener = assert(net.serve("127.0.0.1:0", function(stream)
      local head = stream:read_until "\r\n\r\n"
      local method, target, rest = head:match "^(%u+) (%S+) HTTP/1%.%d\r\n(.*)$"
      seen[#seen + 1] = method .. " " .. (rest:match "[Pp]roxy%-[Aa]uthorization: (%S+ %S+)" or "-")
      local host, path = target:match "^http://([^/]+)(.*)$"
      local upstream <close> = assert(net.connect(host or target))
      if method == "CONNECT" then
        stream:write "HTTP/1.1 200 OK\r\n\r\n"
        local back = rl.task(function() net.copy(upstream, stream) end)
        net.copy(stream, upstream)
        back:cancel()
      else
        upstream:write(method, " ", path, " HTTP/1.1\r\nHost: ", host, "\r\nConnection: close\r\n\r\n")
        net.copy(upstream, stream)
      end
    end))
    return "http://" .. listener:address(), seen, listener
  end

  t.it("are used if the option names them, with their password", function()
    local address, seen, listener = proxy()
    t.equal(assert(http.get(base .. "/hello", { proxy = address })).body, "hello")
    t.equal(assert(http.get(base .. "/hello", { proxy = address:gsub("//", "//me:secret@") })).body, "hello")
    t.equal(assert(http.get(base .. "/hello", { proxy = false })).body, "hello")
    t.equal(seen, { "GET -", "GET Basic bWU6c2VjcmV0" })
    listener:close()
    t.equal(select(3, http.get(base .. "/hello", { proxy = address })), "ECONNREFUSED")
  end)

  t.it("are named in the error if they cannot be reached", function()
    local function refused(proxy, name, url)
      url = url or "http://example.test/"
      t.equal({ http.get(url, { proxy = proxy }) },
        { nil, ("ECONNREFUSED: connection refused (proxy %s, for %s)"):format(name, url), "ECONNREFUSED" })
    end
    refused("http://127.0.0.1:1", "127.0.0.1:1")
    refused("127.0.0.1:1", "127.0.0.1:1")
    refused("http://me:secret@LOCALHOST:1/", "LOCALHOST:1")
    refused("http://[::1]:1", "[::1]:1")
    refused("socks5h://127.0.0.1:1", "127.0.0.1:1")
    refused("http://127.0.0.1:1", "127.0.0.1:1", "https://example.test/")
    local _, problem, code = http.get("http://example.test/", { proxy = "http://nobody.invalid:3128" })
    t.truthy(problem:find("nobody.invalid:3128, for http://example.test/)", 1, true), problem)
    t.truthy(code == "ENOTFOUND" or code == "EAI_AGAIN", code)
    t.equal(select(2, http.get("http://127.0.0.1:1/", { proxy = false })),
      "ECONNREFUSED: connection refused (http://127.0.0.1:1/)")
  end)

  t.it("are named in the error if they come from the environment", function()
    local process = require "runloop.process"
    local function asked(environment, url)
      local script = ("io.write((select(2, require'runloop.http'.get(%q))))"):format(url)
      local none = { http_proxy = false, https_proxy = false, HTTPS_PROXY = false, all_proxy = false, ALL_PROXY = false,
        no_proxy = false, NO_PROXY = false }
      for name, value in pairs(environment) do none[name] = value end
      return process.run { t.rlhost, "-e", script, environment = none, timeout = 20 }.output
    end
    local PROXY <const> = "http://127.0.0.1:1"
    for name, url in pairs { http_proxy = "http://example.test/", https_proxy = "https://example.test/",
      HTTPS_PROXY = "https://example.test/",
      all_proxy = "http://example.test/", ALL_PROXY = "https://example.test/" } do
      t.equal(asked({ [name] = PROXY }, url),
        ("ECONNREFUSED: connection refused (proxy 127.0.0.1:1, for %s)"):format(url), name)
    end
    t.equal(asked({ http_proxy = PROXY, no_proxy = "127.0.0.2" }, "http://127.0.0.2:1/"),
      "ECONNREFUSED: connection refused (http://127.0.0.2:1/)")
    t.equal(asked({}, "http://127.0.0.2:1/"), "ECONNREFUSED: connection refused (http://127.0.0.2:1/)")
  end)

  t.it("open tunnels for TLS", function()
    local path, guard <close> = directory()
    assert(os.execute("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " .. path
      .. "/key.pem -out " .. path
      .. "/cert.pem -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null"))
    local secure = assert(http.serve("127.0.0.1:0",
      { tls = { certificate = path .. "/cert.pem", key = path .. "/key.pem" } },
      function(request) return request.tls.version end))
    local address, seen, listener = proxy()
    local url = "https://" .. secure:address() .. "/"
    local client <close> = http.client { tls = { ca = path .. "/cert.pem" } }
    t.equal(assert(client:get(url)).body, "TLSv1.3")
    t.equal(assert(client:get(url, { proxy = address })).body, "TLSv1.3")
    t.equal(seen, { "CONNECT -" })
    local other = url:gsub("127.0.0.1", "localhost", 1)
    t.equal(client:get(other).body, "TLSv1.3")
    -- Errors name the certificate and the problem.
    t.equal(table.pack(http.get(url)),
      { nil, ("TLS_CERTIFICATE: SSL certificate problem: self-signed certificate (depth 0, CN=localhost, %s)")
        :format(url), "TLS_CERTIFICATE", n = 3 })
    client:close()
    listener:stop(0)
    secure:stop(0)
    -- For a client that speaks HTTP without TLS, `http.serve` answers with the URL to use; `net.serve` sends nothing.
    local port = { tls = { certificate = path .. "/cert.pem", key = path .. "/key.pem" } }
    local only_tls <close> = assert(http.serve("127.0.0.1:0", port, function() return "over TLS" end))
    local silent_port <close> = assert(net.serve("127.0.0.1:0", port, function(stream) stream:write "over TLS" end))
    local function said(where, ...)
      local stream <close> = assert(net.connect(where))
      for _, piece in ipairs { ... } do
        stream:write(piece)
        stream:flush()
        rl.sleep(0.01)
      end
      local answer = stream:read_all { timeout = 5 } or ""
      return answer:match "^HTTP/1.1 (%d+)", answer:match "\r\n\r\n(.*)"
    end
    local where = only_tls:address()
    t.equal({ said(where, "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n\r\n") },
      { "400", "this port speaks TLS: https://example.org/a?b=c\n" })
    t.equal({ said(where, "D", "ELET", "E / HTTP/1.1\r\nHost: [::1]:5\r\n", "\r\n") },
      { "400", "this port speaks TLS: https://[::1]:5/\n" })
    t.equal({ said(where, "POST http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi") },
      { "400", "this port speaks TLS: https://x/\n" })
    t.equal({ said(where, "GET / HTTP/1.0\r\n\r\n") }, { "400", "this port speaks TLS\n" })
    t.equal({ said(where, "GET / HTTP/1.1\r\nHost: a\"b\r\n\r\n") }, { "400", "this port speaks TLS\n" })
    t.equal({ said(where, "GET /" .. ("x"):rep(40000)) }, { "400", "this port speaks TLS\n" })
    t.equal({ said(where, "no method at all\r\n\r\n") }, {})
    t.equal({ said(silent_port:address(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }, {})
    t.equal(http.get("https://" .. where, { tls = { ca = path .. "/cert.pem" } }).body, "over TLS")
    -- libcurl would report the server's certificate instead of the file.
    for _, field in ipairs { "ca", "certificate", "key" } do
      t.equal(table.pack(http.get("https://" .. where, { tls = { [field] = path .. "/none" } })),
        { nil, ("ENOENT: no such file or directory (%s/none)"):format(path), "ENOENT", n = 3 })
      t.equal(select(3, http.get("https://" .. where, { tls = { [field] = path .. "/cert.pem/none" } })), "ENOTDIR")
    end
    t.equal(only_tls:statistics().refused, 6)
    -- The handshake has the time limit of a head, not the default of ten seconds.
    local hasty <close> = assert(http.serve("127.0.0.1:0",
      { header_timeout = 0.1, tls = { certificate = path .. "/cert.pem",
        key = path .. "/key.pem" } }, function() return "" end))
    local silent, start = assert(net.connect(hasty:address())), rl.now()
    silent:read()
    -- The server also does not wait until the client ends the connection, which the client does after two seconds.
    t.truthy(rl.now() - start < 1.9)
    silent:abort()
  end)
end)
