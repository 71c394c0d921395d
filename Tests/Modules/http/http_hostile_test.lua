-- runloop.http: requests that two servers could read differently, which is how requests are smuggled.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raw, status_of = support.raw, support.status_of

t.describe("a request that two servers could read differently", function()
  local HOSTILE = {
    "GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\n\n", "GET / HTTP/1.1\rHost: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n z\r\n\r\n",
    "GET / HTTP/1.1\r\n Host: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nX\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET / HTTP/1.1\r\nHost: x y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", "GET / HTTP/1.1\r\nHost: x@y\r\n\r\n", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET / HTTP/1.1 \r\nHost: x\r\n\r\n", " GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n",
    "GET / http/1.1\r\nHost: x\r\n\r\n",
    "GET / HTTP/1.10\r\nHost: x\r\n\r\n", "GET / HTTP/01.1\r\nHost: x\r\n\r\n", "GET /\r\nHost: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", "G\0T / HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /\255 HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "GET /%2e%2e/%2e%2e/x HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: a\127b\r\n\r\n",
  }
  t.it("gets 400, and the connection is closed", function()
    local reached = 0
    local server = http.serve("memory", function() reached = reached + 1 return "smuggled" end)
    for _, bytes in ipairs(HOSTILE) do
      local answer = raw(server, bytes .. "GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
      t.equal(status_of(answer), 400, ("%q"):format(bytes))
      t.truthy(answer:find("Connection: close", 1, true) and not answer:find("200 OK", 1, true), ("%q"):format(bytes))
    end
    t.equal(reached, 0)
  end)

  t.it("within chunks ends the body with an error, and closes the connection", function()
    local CHUNKS = { "3\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\r\nabc0\r\n\r\n",
      "0x3\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n",
      "3 \r\nabc\r\n0\r\n\r\n", " 3\r\nabc\r\n0\r\n\r\n", "\r\n", "3;x=\n\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n\n",
      "3\r\nabc\r\n0\r\nbad trailer: x\0\r\n\r\n",
      "3\r\nabc\r\n0\r\nX : y\r\n\r\n", "3\r\nabc\r\n0\r\nX T v\r\n\r\n", "3\r\nabc\r\n0\r\nX\r\n\r\n",
      "3\r\nabc\r\n0\r\nA: b\r\nX\r\n\r\n",
      "3\r\nabc\r\n0\r\nX: a\r\n b\r\n\r\n", "fffffffffffffffff\r\nabc", "3\r\nabc\r\n0\r\n: x\r\n\r\n",
      "3\r\r\nabc\r\n0\r\n\r\n" }
    for _, chunks in ipairs(CHUNKS) do
      local problem
      local server = http.serve("memory", function(request)
        local body
        body, problem = request:body()
        return body or http.bad_request(problem)
      end)
      local answer = raw(server, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" .. chunks
        .. "GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
      t.equal(status_of(answer), 400, ("%q"):format(chunks))
      t.truthy(problem and problem:find "^EBADMSG" and not answer:find("200 OK", 1, true), ("%q"):format(chunks))
    end
  end)

  t.it("does not affect requests of ordinary clients", function()
    local server = http.serve("memory", function(request) return request:body() end)
    for _, bytes in ipairs {
      "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      "\r\nGET / HTTP/1.1\r\nhost:x:80\r\nconnection:close\r\n\r\n",
      "GET http://x/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n",
      "GET /a%20b?x=%zz HTTP/1.1\r\nHost: \r\nConnection: close\r\nX:\r\nY: \t a\tb \t\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n3;ext=\"v\"\r\nabc\r\n"
        .. "0\r\nTrailer: x\r\nX-1:a b:c\r\nY:\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 003\r\nConnection: Close\r\n\r\nabc",
    } do
      t.equal(status_of(raw(server, bytes)), 200, ("%q"):format(bytes))
    end
    t.equal(status_of(raw(server, "BREW / HTTP/1.1\r\nHost: x\r\n\r\n")), 501)
    t.equal(status_of(raw(server, "GET / HTTP/2.0\r\nHost: x\r\n\r\n")), 505)
  end)

  t.it("cannot be sent in an answer", function()
    local told = 0
    local before = rl.on_error(function() told = told + 1 end)
    local client = t.http(function(request)
      if request.path == "/value" then return { headers = { x = "a\r\nSet-Cookie: b" }, body = "" } end
      if request.path == "/name" then return { headers = { ["x\r\ny"] = "a" }, body = "" } end
      return http.redirect "/\r\nx"
    end)
    t.equal({ client:get("/value").status, client:get("/name").status, client:get("/redirect").status },
      { 500, 500, 500 })
    rl.on_error(before)
    t.equal(told, 3)
  end)
end)

t.describe("a method that is never passed to a handler", function()
  local ALL <const> = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

  local function asked(handler, line, fields)
    local answer = raw(http.serve("memory", handler),
      line .. " HTTP/1.1\r\nHost: x\r\n" .. (fields or "Connection: close\r\n") .. "\r\n")
    return status_of(answer), answer:match "\r\nallow: ([^\r]*)", answer
  end

  t.it("TRACE and CONNECT get 405 with Allow", function()
    local reached = 0
    local function handler() reached = reached + 1 return "no" end
    local app = http.routes()
    app:use(function(_, following) reached = reached + 1 return following() end)
    app:any("/any", handler)
    app:get("/get", handler)
    app:post("/get", handler)
    for _, each in ipairs { handler, app } do
      for _, line in ipairs { "TRACE /any", "TRACE /", "TRACE /any?x=y", "TRACE *", "CONNECT x:443",
        "CONNECT [::1]:443" } do
        t.equal({ asked(each, line), nil }, { 405, nil }, line)
        t.equal(select(2, asked(each, line)), ALL, line)
      end
    end
    t.equal({ (select(2, asked(app, "TRACE /get"))) }, { "GET, HEAD, POST" })
    t.equal(asked(handler, "TRACE /", "Connection: close\r\nContent-Length: 0\r\n"), 405)
    t.equal(reached, 0)
    -- Other servers treat the bytes after a CONNECT as those of a tunnel, so this one must not read them as a request.
    local _, _, answer = asked(handler, "CONNECT x:443", "\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
    t.equal({ reached, select(2, answer:gsub("HTTP/1.1 ", "")) }, { 0, 1 })
    -- The connection continues after a TRACE.
    _, _, answer = asked(handler, "TRACE /", "\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
    t.equal({ reached, answer:match "no$" }, { 1, "no" })
  end)
end)

t.describe("the number of header fields", function()
  t.it("has a limit, whatever the size of the fields", function()
    local function asked(count, settings)
      local seen = 0
      local server = http.serve("memory", settings, function(request)
        for _ in pairs(request.headers) do seen = seen + 1 end
        return tostring(request.headers["x-last"])
      end)
      local fields = { "Host: x", "Connection: close" }
      for i = #fields + 1, count - 1 do fields[i] = "X" .. i .. ": y" end
      fields[count] = "X-Last: z"
      local answer = raw(server, "GET / HTTP/1.1\r\n" .. table.concat(fields, "\r\n") .. "\r\n\r\n")
      return status_of(answer), seen, answer:match "[^\r\n]*\n?$"
    end
    t.equal({ asked(256, {}) }, { 200, 256, "z" })
    t.equal({ asked(257, {}) }, { 431, 0, "too many fields\n" })
    t.equal({ asked(3, { max_fields = 3 }) }, { 200, 3, "z" })
    t.equal((asked(4, { max_fields = 3 })), 431)
    t.equal({ asked(5000, { max_fields = 5000, max_header = 1 << 20 }) }, { 200, 5000, "z" })
    t.equal((asked(1000, { max_fields = math.maxinteger })), 200)
    support.raises("http.serve: field 'max_fields' must be", http.serve, "memory", { max_fields = -1 }, function() end)
    support.raises("http.serve: field 'max_fields' must be", http.serve, "memory", { max_fields = "many" },
      function() end)
  end)
end)
