-- runloop.http: the server, over streams in memory and in virtual time.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local json = require "runloop.json"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raw, status_of = support.raw, support.status_of

t.describe("a handler", function()
  t.it("answers with its result", function()
    local client = t.http(function(request)
      local answers = {
        ["/text"] = "hello", ["/table"] = { status = 201, headers = { ["X-One"] = 1, ["x-two"] = { "a", "b" } },
          body = "made" },
        ["/json"] = http.json { a = { 1, json.null } }, ["/status"] = 204, ["/away"] = http.redirect "/text",
        ["/url"] = http.redirect(require "runloop.url".parse "https://example.org/a b"),
        ["/not"] = http.not_found(), ["/bad"] = http.bad_request "no such thing", ["/html"] = http.html "<p>",
      }
      return answers[request.path]
    end)
    local text = client:get "/text"
    t.equal({ text.status, text.body, text.headers["Content-Type"] }, { 200, "hello", "text/plain; charset=utf-8" })
    local made = client:get "/table"
    t.equal({ made.status, made.reason, made.body, made.headers["x-one"], made.headers["X-Two"] },
      { 201, "Created", "made", "1", "a, b" })
    t.equal(client:get("/json"):json(), { a = { 1, json.null } })
    t.equal(client:get("/status").status, 204)
    t.equal({ client:get("/away").status, client:get("/away").headers.location }, { 302, "/text" })
    t.equal(client:get("/url", { follow = 0 }).headers.location, "https://example.org/a%20b")
    t.equal(client:get("/not").status, 404)
    t.equal({ client:get("/bad").status, client:get("/bad").body }, { 400, "no such thing\n" })
    t.equal(client:get("/html").headers["content-type"], "text/html; charset=utf-8")
    t.truthy(text.headers.date:find "^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$")
  end)

  t.it("gets the request", function()
    local client = t.http(function(request)
      return http.json { method = request.method, path = request.path, target = request.target, q = request.query,
        version = request.version,
        agent = request.headers["User-Agent"], other = request.headers["X-OTHER"], cookies = request.cookies }
    end)
    local seen = client:fetch { "/a%20b/../c?x=1&y=a+b%21&x=2", method = "PUT",
      headers = { ["x-Other"] = "o", cookie = "a=1; b=2" } }:json()
    t.equal(seen, { method = "PUT", path = "/c", target = "/a%20b/../c?x=1&y=a+b%21&x=2", q = { x = "1", y = "a b!" },
      version = "1.1",
      agent = "rlhost", other = "o", cookies = { a = "1", b = "2" } })
  end)

  t.it("reads bodies of all kinds", function()
    local client = t.http(function(request)
      if request.path == "/json" then
        local value, problem = request:json()
        return value and http.json(value.a) or http.bad_request(problem)
      elseif request.path == "/form" then
        local form = request:form()
        return form.a .. "|" .. form["b c"]
      elseif request.path == "/pieces" then
        local pieces = {}
        while true do
          local bytes = request:read(3)
          if not bytes then return table.concat(pieces, "|") end
          pieces[#pieces + 1] = bytes
        end
      end
      return request:body()
    end)
    t.equal(client:post("/json", nil, { json = { a = 5 } }).body, "5")
    local bad = client:post("/json", "{]")
    t.equal({ bad.status, bad.body }, { 400, "line 1, column 2: expected a name in quotes, found ']'\n" })
    t.equal(client:post("/form", nil, { form = { a = "x&y", ["b c"] = "ü" } }).body, "x&y|ü")
    t.equal(client:post("/pieces", "abcdefgh").body, "abc|def|gh")
    local n = 0
    t.equal(client:post("/", function()
      n = n + 1
      return n <= 3 and ("piece %d,"):format(n) or nil
    end).body, "piece 1,piece 2,piece 3,")
  end)

  t.it("reads the parts of a form with files", function()
    local client = t.http(function(request)
      local seen = {}
      for part in request:parts() do
        seen[#seen + 1] = { part.name, part.filename or false, part.type or false, part:body() }
      end
      return http.json(seen)
    end)
    local body = table.concat({ "preamble", "--X", 'Content-Disposition: form-data; name="a"', "", "one\r\n--not",
      "--X",
      'Content-Disposition: form-data; name="f"; filename="../../etc/x.txt"', "Content-Type: text/plain", "",
        ("y"):rep(100000), "--X--", "" }, "\r\n")
    local answer = client:post("/", body, { headers = { ["content-type"] = 'multipart/form-data; boundary="X"' } })
    t.equal(answer:json(), { { "a", false, false, "one\r\n--not" }, { "f", "x.txt", "text/plain", ("y"):rep(100000) } })
  end)

  t.it("that raises is answered with 500 and reported to the script", function()
    local told
    local before = rl.on_error(function(problem, info) told = { tostring(problem):gsub("^.*: ", ""), info.where } end)
    local client = t.http(function() error "broken" end)
    local answer = client:get "/here?x"
    rl.on_error(before)
    t.equal({ answer.status, answer.body }, { 500, "Internal Server Error\n" })
    t.equal(told[1], "broken")
    t.equal(told[#told], "request GET /here?x")
  end)

  t.it("whose answer has an unknown field, or one that cannot be sent, gets an error that names it", function()
    local told = {}
    local before = rl.on_error(function(problem) told[#told + 1] = tostring(problem) end)
    local client = t.http(function(request)
      if request.path == "/field" then return { bdy = "x" } end
      return { headers = { ["a b"] = "x" }, body = "" }
    end)
    t.equal({ client:get("/field").status, client:get("/name").status }, { 500, 500 })
    rl.on_error(before)
    t.equal(told, { "the handler's answer has an unknown field 'bdy' (did you mean 'body'?)",
      "http: 'a b' cannot be the name of a field" })
  end)

  t.it("is cancelled when its client leaves", function()
    local ended
    local server = http.serve("memory", function()
      local guard <close> = setmetatable({}, { __close = function() ended = rl.now() end })
      rl.sleep(1000)
    end)
    local near, far = net.memory()
    server:accept(far)
    near:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    rl.sleep(1)
    t.equal(server:statistics().active, 1)
    local date = rl.now()
    near:close()
    rl.sleep(1)
    t.truthy(ended and ended - date < 0.5)
    t.equal(server:statistics().active, 0)
    t.equal(server:statistics().cancelled, 1)
  end)

  t.it("that raises, or is cancelled, closes its variables with that error", function()
    local seen, told = {}, {}
    local before = rl.on_error(function(problem, info)
      told[#told + 1] = { problem, info.traceback:find "http_server_test.lua" ~= nil }
    end)
    local function noting() return setmetatable({}, { __close = function(_, problem)
      seen[#seen + 1] = problem end })
    end
    local mistake = {}
    local server = http.serve("memory", function(request)
      local noted <close> = noting()
      if request.path == "/wait" then rl.sleep(10) end
      if request.path == "/half" then
        local response <close> = request:respond { headers = { ["content-length"] = 10 } }
        response:write "abc"
        error "my own"
      end
      error(mistake)
    end)
    local near, far = net.memory()
    server:accept(far)
    near:write "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
    rl.sleep(1)
    near:abort()
    rl.sleep(1)
    t.equal({ rawequal(seen[1], mistake), rl.is_cancelled(seen[2]) }, { true, true })
    t.equal({ rawequal(told[1][1], mistake), told[1][2], #told }, { true, true, 1 })
    t.equal(t.http(server):get "/half", nil)
    rl.on_error(before)
    t.truthy(tostring(told[2][1]):find "my own$")
  end)

  t.it("gets an error that names a value that cannot be sent as an event", function()
    local problem
    t.http(function(request)
      problem = select(2, pcall(function() request:events():send { data = print } end))
      return nil
    end):get "/"
    t.truthy(problem:find "http_server_test.lua:%d+: events:send: field 'data': a function cannot be written")
  end)

  t.it("runs in a task that was made where the server was", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local server <close> = http.serve("memory", function() rl.sleep(10) end)
    local near, far = net.memory()
    server:accept(far)
    near:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    rl.sleep(1)
    local found
    for _, entry in ipairs(rl.current():inspect().modes.default) do
      found = found or entry.kind == "task" and entry.made_at and entry.made_at:find(":" .. line .. "$")
    end
    t.truthy(found)
    near:close()
  end)

  t.it("sends no header field that is false", function()
    for _, answer in ipairs {
      function(request) request:respond({ headers = { ["Content-Type"] = false } }):write "a" end,
      function() return { body = "a", headers = { ["content-type"] = false, ["content-length"] = false,
        ["x-none"] = false } } end,
    } do
      local got = t.http(answer):get "/"
      t.equal({ got.body, got.headers["content-type"], got.headers["x-none"] }, { "a" })
    end
    t.equal(t.http(function() return { body = "a", headers = { date = false } } end):get("/").headers.date, nil)
    t.equal(t.http(function(request) return request.headers.host end):get("/", { headers = { host = false } }).body,
      "test")
  end)

  t.it("writes its answer in pieces, and waits for a client that reads slowly", function()
    local written = 0
    local client = t.http(function(request)
      local response = request:respond { headers = { ["content-type"] = "x/y" } }
      for _ = 1, 100 do
        response:write(("z"):rep(65536))
        written = written + 1
      end
    end, { bandwidth = 1 << 20 })
    local answer <close> = client:open { "/" }
    t.equal(answer.headers["content-type"], "x/y")
    t.truthy(written < 50, written)
    local count = 0
    for bytes in answer:chunks() do count = count + #bytes end
    t.equal(count, 6553600)
  end)

  t.it("sends server-sent events, with comments while it is silent", function()
    local client = t.http(function(request)
      local events = request:respond():events { keep_alive = 15 }
      events:send "plain"
      events:send { event = "item", data = { a = 1 }, id = 7 }
      rl.sleep(31)
      events:send { data = "two\nlines" }
      events:close()
    end)
    local answer <close> = client:open { "/" }
    t.equal(answer.headers["content-type"], "text/event-stream")
    local seen = {}
    for event in answer:events() do seen[#seen + 1] = event.event .. ":" .. event.data .. ":" .. (event.id or "-") end
    t.equal(seen, { "message:plain:-", "item:{\"a\":1}:7", "message:two\nlines:7" })
  end)
end)

t.describe("routes", function()
  t.it("find the most exact path, and name its parameters", function()
    local app = http.routes()
    app:get("/items", function() return "list" end)
    app:get("/items/new", function() return "new" end)
    app:get("/items/:id", function(request) return "item " .. request.params.id end)
    app:get("/items/:id/parts/:part", function(request) return request.params.id .. "/" .. request.params.part end)
    app:delete("/items/:id", function() return 204 end)
    app:get("/files/*path", function(request) return "file " .. request.params.path end)
    app:any("/any", function(request) return request.method end)
    local client = t.http(app)
    local function body(path) return client:get(path).body end
    t.equal({ body "/items", body "/items/new", body "/items/a%20b", body "/items/3/parts/4", body "/files/a/b",
      client:post("/any", "").body },
      { "list", "new", "item a b", "3/4", "file a/b", "POST" })
    t.equal(client:get("/nothing").status, 404)
    t.equal(client:get("/items/").status, 404)
    local refused = client:post("/items/3", "")
    t.equal({ refused.status, refused.headers.allow }, { 405, "GET, HEAD, DELETE" })
    t.equal(client:fetch({ "/items/3", method = "DELETE" }).status, 204)
    local head = client:fetch { "/items", method = "HEAD" }
    t.equal({ head.status, head.body, head.headers["content-length"] }, { 200, "", "4" })
  end)

  t.it("are not divided by slashes that are encoded", function()
    local app = http.routes()
    app:get("/items/:id", function(request) return request.params.id .. "|" .. request.path end)
    app:get("/items/:id/parts/:part", function(request) return request.params.id .. "+" .. request.params.part end)
    app:get("/files/*rest", function(request) return request.params.rest end)
    app:files("/static/*", "/tmp")
    local client = t.http(app)
    local function body(path) return client:get(path).body end
    t.equal(body "/items/a%2Fb", "a/b|/items/a%2Fb")
    t.equal(body "/items/a%2fb%20c%2525/parts/%2F", "a/b c%25+/")
    t.equal(body "/items/a%252Fb", "a%2Fb|/items/a%2Fb")
    t.equal(body "/files/x/a%2Fb", "x/a%2Fb")
    t.equal(body "http://host/items/x%2Fy?q", "x/y|/items/x%2Fy")
    t.equal(t.http(function(request) return request.path .. "|" .. request.query_string end):get("/a%2Fb%41?%2F").body,
      "/a%2FbA|%2F")
    for _, path in ipairs { "/items/..%2Fb", "/items/a%2F..%2Fb", "/items/a%2F.", "/static/..%2Fetc%2Fpasswd",
      "/items%2Fa" } do
      t.equal(client:get(path).status, 404, path)
    end
    t.equal(client:get("/items/%2e%2e/%2e%2e/x").status, 400)
  end)

  t.it("can be wrapped in functions by use", function()
    local app = http.routes()
    app:use(function(request, following)
      if request.headers.authorization ~= "Bearer x" then return http.unauthorized() end
      local answer = following()
      answer.headers = { ["x-seen"] = "yes" }
      return answer
    end)
    app:get("/", function() return { body = "secret" } end)
    local client = t.http(app)
    t.equal(client:get("/").status, 401)
    local answer = client:get("/", { headers = { authorization = "Bearer x" } })
    t.equal({ answer.body, answer.headers["x-seen"] }, { "secret", "yes" })
  end)
end)

t.describe("limits and time-outs", function()
  local function hello() return "hello" end

  t.it("end a head that comes too slowly, and a silent connection", function()
    local server = http.serve("memory", { header_timeout = 10, idle_timeout = 60 }, hello)
    local near, far = net.memory()
    server:accept(far)
    local date = rl.now()
    local dripping = rl.task(function()
      for byte in ("GET / HTTP/1.1\r\nHost: x\r\nX: " .. ("y"):rep(100)):gmatch "." do
        if not near:write(byte) then break end
        rl.sleep(1)
      end
    end)
    local answer = near:read_all()
    t.equal(status_of(answer), 408)
    t.truthy(rl.now() - date >= 9.9 and rl.now() - date < 12, rl.now() - date)
    dripping:cancel()
    near:close()
    local quiet, other = net.memory()
    server:accept(other)
    date = rl.now()
    quiet:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    t.truthy(quiet:read())
    t.equal(quiet:read(), nil)
    t.truthy(rl.now() - date >= 59 and rl.now() - date < 62, rl.now() - date)
    quiet:close()
  end)

  t.it("end a request that takes too long", function()
    local server = http.serve("memory", { request_timeout = 5 }, function() rl.sleep(100) end)
    local date = rl.now()
    t.equal(status_of(raw(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 20)), 503)
    t.truthy(rl.now() - date < 6)
  end)

  t.it("refuse heads and bodies that are too large", function()
    local server = http.serve("memory", { max_header = 1000, max_body = 100 }, function(request)
      local body, problem = request:body()
      return body or { status = 400, body = problem }
    end)
    t.equal(status_of(raw(server, "GET / HTTP/1.1\r\nHost: x\r\nX: " .. ("y"):rep(2000) .. "\r\n\r\n")), 431)
    t.equal(status_of(raw(server, "GET /" .. ("y"):rep(2000) .. " HTTP/1.1\r\nHost: x\r\n\r\n")), 414)
    t.equal(status_of(raw(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n")), 413)
    local chunked = raw(server, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n"
      .. ("z"):rep(101) .. "\r\n0\r\n\r\n")
    t.equal(status_of(chunked), 400)
    t.truthy(chunked:find("EMSGSIZE: the body is longer than 100 bytes", 1, true))
  end)

  t.it("stop gracefully: running requests are completed, idle connections are closed", function()
    local server = http.serve("memory", function(request)
      if request.path == "/slow" then rl.sleep(3) end
      return "done"
    end)
    local idle, far = net.memory()
    server:accept(far)
    idle:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    t.truthy(idle:read())
    local slow = rl.task(function() return t.http(server):get "/slow" end)
    rl.sleep(1)
    local date = rl.now()
    t.equal(server:stop(10), true)
    t.truthy(rl.now() - date < 3)
    t.equal(slow:await().body, "done")
    t.equal(idle:read(), nil)
    idle:close()
  end)

  t.it("stop in the end: requests that are not completed in time are cut off", function()
    local server = http.serve("memory", function() rl.sleep(1000) end)
    local task = rl.task(function() return t.http(server):get "/" end)
    rl.sleep(1)
    local is_done, problem = server:stop(2)
    t.equal({ is_done, problem }, { nil, "1 request was cut off" })
    t.equal(task:await(), nil)
  end)

  t.it("count requests that are cut off, but not idle connections", { real_time = true }, function()
    for _, patience in ipairs { 0, 0.1 } do
      local server = assert(http.serve("127.0.0.1:0", function(request)
        if request.path == "/slow" then rl.sleep(100) end
        return request.path == "/long" and ("x"):rep(20000000) or "x"
      end))
      local clients = {}
      for i, text in ipairs { "", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /begun", "GET /long HTTP/1.1\r\nHost: x\r\n\r\n" } do
        clients[i] = assert(net.connect(server:address()))
        clients[i]:write(text)
      end
      t.truthy(clients[2]:read())
      t.eventually(function() return server:statistics().active == 2 and server:statistics().requests == 3 end)
      t.equal({ server:stop(patience) }, { nil, "3 requests were cut off" })
      for _, client in ipairs(clients) do client:abort() end
      local idle = assert(http.serve("127.0.0.1:0", function() return "x" end))
      local client <close> = assert(net.connect(idle:address()))
      t.eventually(function() return idle:statistics().open == 1 end)
      t.equal(idle:stop(patience), true)
    end
  end)
end)
