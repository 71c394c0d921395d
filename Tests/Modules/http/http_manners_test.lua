-- runloop.http: the messages that clients and servers send in unusual situations.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local part = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/part.lua")
local events = part "runloop.http.events"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raw, status_of = support.raw, support.status_of

local REAL = { real_time = true, timeout = 30 }
local HANDSHAKE = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
  .. "Sec-WebSocket-Version: 13\r\n"
  .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

-- Returns the error report of a request with this handler.
local function told_of(handler)
  local told
  local before = rl.on_error(function(problem) told = tostring(problem) end)
  raw(http.serve("memory", handler), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
  rl.sleep(0.01)
  rl.on_error(before)
  return told
end

t.describe("a WebSocket", function()
  for what, seconds in pairs { ["at once"] = 0, ["later"] = 0.05 } do
    t.it("whose handler raises " .. what .. " is closed as by an internal error", REAL, function()
      local before = rl.on_error(function() end)
      local server <close> = assert(http.serve("127.0.0.1:0", function(request)
        local socket = request:websocket()
        if seconds > 0 then rl.sleep(seconds) end
        error("boom " .. tostring(socket))
      end))
      local socket = assert(http.websocket("ws://" .. server:address()))
      t.equal({ socket:receive(5) }, {})
      t.equal(socket.close_code, 1011)
      socket:close()
      rl.on_error(before)
    end)
  end

  t.it("is refused with 400 if the request has a body", function()
    local server = http.serve("memory", function(request) request:websocket() end)
    t.equal(status_of(raw(server, HANDSHAKE .. "Content-Length: 5\r\n\r\nhello")), 400)
    t.equal(status_of(raw(server, HANDSHAKE .. "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), 400)
  end)

  t.it("opens after interim answers, unless there are too many", REAL, function()
    local native = part "runloop.http.native"
    local function ask(early)
      local listener <close> = net.serve("127.0.0.1:0", function(stream)
        local key = stream:read_until "\r\n\r\n":match "[kK]ey: ([^\r]+)"
        stream:write(early
          .. "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
          .. native.accept_key(key) .. "\r\n\r\n\x81\2hi")
        stream:read { timeout = 1 }
      end)
      local socket, problem = http.websocket("ws://" .. listener:address(), { timeout = 5 })
      if not socket then return nil, problem end
      local message = socket:receive(5)
      rl.task(function() socket:close() end)
      return message
    end
    t.equal(ask "", "hi")
    t.equal(ask "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", "hi")
    t.equal({ ask(("HTTP/1.1 100 Continue\r\n\r\n"):rep(20)) },
      { nil, "EPROTO: the server sends too many interim answers" })
  end)
end)

t.describe("an answer", function()
  t.it("closes its connection if the handler sets that field in any spelling", function()
    for name, value in pairs { CONNECTION = "close", Connection = "keep-alive, Close", connection = "close" } do
      local server = http.serve("memory", function() return { body = "a", headers = { [name] = value } } end)
      local answer = raw(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1)
      t.truthy(answer:find("Connection: close", 1, true), answer)
    end
    local server = http.serve("memory", function() return { body = "a", headers = { Connection = "closed" } } end)
    t.falsy(raw(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1):find "Connection: close")
  end)

  t.it("that is invalid gives an error that names what is wrong", function()
    local text = "the handler answered 999, which is not a status from 200 to 599: it has to return"
    t.truthy(told_of(function() return 999 end):find(text, 1, true))
    t.truthy(told_of(function() return { body = function() return {} end } end)
      :find("the handler's answer has a body whose function returned a table; it has to return text", 1, true))
  end)

  t.it("that was finished reaches the client completely, whatever the handler does afterwards", REAL, function()
    for _, behind in ipairs { function() error "late" end, function(response) response:write "more" end,
      function() return "again" end } do
      local told
      local before = rl.on_error(function(problem) told = tostring(problem) end)
      local server <close> = assert(http.serve("127.0.0.1:0", function(request)
        local response = request:respond()
        response:write(("x"):rep(1000000))
        response:finish()
        return behind(response)
      end))
      local client <close> = http.client()
      for _ = 1, 2 do t.equal(#assert(client:get("http://" .. server:address())).body, 1000000) end
      t.eventually(function() return told end)
      t.equal(server:statistics().connections, 1)
      rl.on_error(before)
    end
  end)

  t.it("has a status that is an integer", function()
    for _, status in ipairs { "200", 200.0, 99 } do
      t.truthy(told_of(function() return { status = status, body = "" } end)
        :find(("the status %s; it must be an integer from 200 to 599"):format(type(status) == "string" and '"200"'
          or status), 1, true))
    end
  end)

  t.it("of events must have a finite retry time, and events that are tables or texts", function()
    t.truthy(told_of(function(request) request:events():send { data = "x",
      retry = math.huge } end):find "field 'retry' is too long")
    t.truthy(told_of(function(request) request:events():queue(5) end)
      :find "events:queue: argument #1 must be a string or a table, got 5")
  end)
end)

t.describe("a client", function()
  t.it("reports too many redirects", REAL, function()
    local server <close> = assert(http.serve("127.0.0.1:0", function() return http.redirect "/" end))
    local url = "http://" .. server:address() .. "/"
    t.equal({ http.get(url, { follow = 3 }) }, { nil, ("ELOOP: more than 3 redirects (%s)"):format(url), "ELOOP" })
  end)

  -- Returns the client's result if the server answers with these bytes.
  local function answered(bytes)
    local listener <close> = net.serve("127.0.0.1:0", function(stream)
      stream:read_until "\r\n\r\n"
      stream:write(bytes)
      stream:read { timeout = 1 }
    end)
    return http.get("http://" .. listener:address())
  end

  t.it("returns an error for malformed chunks", REAL, function()
    t.equal(select(3, answered "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), "EBADMSG")
  end)

  t.it("accepts fields that continue on further lines", REAL, function()
    local answer = answered "HTTP/1.1 200 OK\r\nX-A: a\r\n b: c \r\n\t d\r\nX-B:\r\n e\r\nContent-Length: 2\r\n\r\nok"
    t.equal({ answer.headers["x-a"], answer.headers["x-b"], answer.body }, { "a b: c d", "e", "ok" })
  end)

  t.it("sends header fields that are empty, but not those that are false", REAL, function()
    local asked
    local listener <close> = net.serve("127.0.0.1:0", function(stream)
      asked = stream:read_until "\r\n\r\n" .. "\r\n"
      stream:write "HTTP/1.1 204 No Content\r\n\r\n"
      stream:read { timeout = 1 }
    end)
    assert(http.post("http://" .. listener:address(), "x",
      { headers = { ["X-Empty"] = "", accept = false, ["user-agent"] = false, ["X-B"] = "b" } }))
    asked = asked:lower()
    t.truthy(asked:find("\r\nx-empty:\r\n", 1, true) and asked:find("\r\nx-b: b\r\n", 1, true)
      and asked:find("\r\ncontent-length: 1\r\n", 1, true))
    for _, name in ipairs { "accept", "user-agent", "content-type", "expect" } do
      t.falsy(asked:find("\r\n" .. name .. ":", 1, true), name)
    end
  end)

  t.it("returns an error if a proxy refuses, or has an unknown scheme", REAL, function()
    local listener <close> = net.serve("127.0.0.1:0", function(stream)
      stream:read_until "\r\n\r\n"
      stream:write "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
      stream:read { timeout = 1 }
    end)
    t.equal(select(3, http.get("https://example.invalid/", { proxy = "http://" .. listener:address() })), "EPROXY")
    t.equal(select(3, http.get("http://example.invalid/", { proxy = "nonsense://x" })), "EPROTONOSUPPORT")
  end)

  t.it("fails at once with a timeout of 0, and accepts no body with a limit of 0", function()
    local function handler(request) return request.path == "/none" and 204 or "x" end
    local server <close> = assert(http.serve("127.0.0.1:0", handler))
    local url, start = "http://" .. server:address() .. "/", rl.now()
    for _, get in ipairs { http.get, function(...) return t.http(handler):get(...) end } do
      t.equal({ get(url, { timeout = 0 }) }, { nil, "timed out" })
      t.equal({ select(3, get(url, { max_body = 0 })), get(url .. "none", { max_body = 0 }).status,
        get(url, { max_body = 1 }).body },
        { "EMSGSIZE", 204, "x" })
      t.equal(get(url, { timeout = 10 }).body, "x")
    end
    t.equal({ http.open { url, timeout = 0 } }, { nil, "timed out" })
    t.equal(rl.now(), start)
    local client <close> = http.client { timeout = 0 }
    t.equal({ client:get(url) }, { nil, "timed out" })
    t.equal(client:get(url, { timeout = math.huge, idle_timeout = 0 }).body, "x")
  end)
end)

t.describe("routes", function()
  t.it("answer methods that a more exact route lacks", function()
    local function say(text) return function(request)
      return text .. " " .. (request.params.id or request.params.rest or "") end
    end
    local client = t.http(http.routes():get("/items/new", say "form"):get("/items/:id", say "item"):delete("/items/:id",
      say "delete")
      :put("/items/*", say "rest"):get("/items/:id/parts", say "parts"):any("/items/any", say "any"))
    local function ask(method, path)
      local answer = client:fetch { path, method = method }
      return answer.status == 200 and answer.body or answer.status .. " " .. (answer.headers.allow or "")
    end
    t.equal({ ask("GET", "/items/new"), ask("DELETE", "/items/new"), ask("PUT", "/items/new"),
      ask("POST", "/items/new") },
      { "form ", "delete new", "rest new", "405 GET, HEAD, PUT, DELETE" })
    t.equal({ ask("GET", "/items/5"), ask("PUT", "/items/5/parts"), ask("POST", "/items/5/parts"),
      ask("OPTIONS", "/items/new") },
      { "item 5", "rest 5/parts", "405 GET, HEAD, PUT", "204 GET, HEAD, PUT, DELETE" })
    t.equal({ ask("DELETE", "/items/any"), ask("DELETE", "/items/%2e%2e%2Fx"), ask("GET", "/none"),
      ask("DELETE", "/items/new%2Fx") },
      { "any ", "404 ", "404 ", "delete new/x" })
    t.truthy(support.problem_of(function() http.routes():get("/a/:b/:b", print) end)
      :find "routes:get: two parameters have the same name: \"/a/:b/:b\"$")
  end)

  t.it("redirect to a directory with the query, and name the peer of a Unix socket", function()
    local path <const>, guard <close> = support.directory()
    os.execute("mkdir " .. path .. "/sub")
    local app = http.routes():files("/files/*", path):get("/peer", function(request) return request.peer end)
    t.equal(t.http(app):get("/files/sub?a=1&b=%20").headers.location, "/files/sub/?a=1&b=%20")
    t.equal(t.http(app):get("/peer").body, "memory")
    local server <close> = assert(http.serve("unix:" .. path .. "/s", app))
    t.equal(assert(http.get("http://x/peer", { unix = path .. "/s" })).body, "unix:")
  end)
end)

t.describe("events in small pieces", function()
  t.it("give the same result as in one piece", function()
    local TEXT <const> = "\u{FEFF}id: 1\r\ndata: ab\r\r\ndata: c\ndata: d\n\n: x\nevent: e\rdata: f\r\rdata: g\r\n\r\n"
    local whole = events.decoder()(TEXT)
    t.equal(#whole, 4)
    for size = 1, 5 do
      local decode, found = events.decoder(), {}
      for i = 1, #TEXT, size do for _, event in ipairs(decode(TEXT:sub(i,
        i + size - 1))) do found[#found + 1] = event end end
      t.equal(found, whole, size)
    end
  end)

  t.it("are complete at a CR, even if a LF may follow", function()
    local decode = events.decoder()
    t.equal(#decode "data: a\r\r", 1)
    t.equal(#decode "\ndata: b\r", 0)
    t.equal(decode "\n\n"[1].data, "b")
    t.equal(#decode "\ndata: c\n\r", 1)
    t.equal(#decode "\n", 0)
  end)

  t.it("take time proportional to their length, and have a limit", function()
    local function seconds(count)
      local decode, began = events.decoder(), os.clock()
      for _ = 1, count do decode "data: abcd" end
      t.equal(#decode "\n\n", 1)
      return os.clock() - began
    end
    seconds(1000)
    local little, much = math.max(0.001, seconds(5000)), seconds(80000)
    t.truthy(much < 100 * little, ("%.4f s, %.4f s"):format(little, much))
    local decode = events.decoder(100)
    t.truthy(support.problem_of(function() for _ = 1,
      11 do decode "0123456789" end end):find "EMSGSIZE: line longer than 100 bytes")
  end)
end)

t.describe("misuse", function()
  t.it("raises errors that name the function and the argument", function()
    t.equal(support.problem_of(http.serve, 0), "http.serve: the handler must be a function or routes, got nothing")
    t.equal(support.problem_of(http.serve, 0, { idle_timeot = 1 }, print),
      "http.serve: unknown field 'idle_timeot' (did you mean 'idle_timeout'?)")
    t.equal(support.problem_of(http.serve, 0, { max_body = -1 }, print),
      "http.serve: field 'max_body' must be an integer, 0 or more, got -1")
    local app = http.routes()
    t.equal(support.problem_of(app.get, app, "x", print), "routes:get: the path must begin with a slash: \"x\"")
    t.equal(support.problem_of(app.get, app, "/x"), "routes:get: argument #2 must be a function, got nothing")
    app:get("/x", print)
    t.equal(support.problem_of(app.get, app, "/x", print), "routes:get: there is a route for GET /x already")
    t.equal(support.problem_of(app.files, app, "/x", "/tmp"),
      "routes:files: argument #1 must be a path that ends in '/*', got \"/x\"")
    t.equal(support.problem_of(http.json, {}, "x"),
      "http.json: argument #2 must be a status from 200 to 599, got \"x\"")
    t.equal(support.problem_of(http.redirect, "/x", 200),
      "http.redirect: argument #2 must be a status from 300 to 399, got 200")
    t.equal(support.problem_of(http.html), "http.html: argument #1 must be a string, got nothing")
    t.equal(support.problem_of(t.http, 5), "t.http: argument #1 must be a server, routes or a handler, got 5")
  end)
end)

t.describe("an error in a function that makes an answer's body", function()
  t.it("is reported without the host's own lines", REAL, function()
    local told = told_of(function() return { body = coroutine.wrap(function() error("broken", 0) end) } end)
    t.equal(told, "broken")
  end)
end)
