-- runloop.http: connections, and clients that are slow, silent, many or malicious, over streams in memory and in
-- virtual time. CROWD is the number of clients in the tests with many (500).

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local status_of, raw = support.status_of, support.raw

local CROWD = tonumber(os.getenv "CROWD") or 500

local function connect(server, options)
  local near, far = net.memory(options)
  server:accept(far)
  return near
end

t.describe("clients that stop reading or sending", function()
  for _, kind in ipairs { "events", "WebSockets" } do
    t.it("do not delay other clients that get the same by " .. kind, { real_time = true, timeout = 60 }, function()
      local all, count, ended = {}, 0, 0
      local app = http.routes()
      local function keep(one)
        all[one], count = true, count + 1
        return setmetatable({}, { __close = function()
          all[one], ended = nil, ended + 1
        end })
      end
      app:get("/events", function(request)
        local events = request:respond():events()
        local kept <close> = keep(events)
        events:wait_closed()
      end)
      app:websocket("/socket", function(socket)
        local kept <close> = keep(socket)
        for _ in socket:messages() do end
      end)
      local server = assert(http.serve(0, { max_queue = 200000 }, app))
      local request = kind == "events" and "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"
        or "GET /socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          .. "Sec-WebSocket-Version: 13\r\n"
          .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
      local deaf, hearing = assert(net.connect(server:address())), assert(net.connect(server:address()))
      deaf:write(request)
      hearing:write(request)
      support.soon(function() t.equal(count, 2) end)
      local heard = 0
      local reader = rl.task(function()
        for bytes in function() return (hearing:read()) end do heard = heard + #bytes end
      end)
      local piece, told, refusal = ("x"):rep(60000), 0, nil
      local is_waiting = false
      local ticks = rl.every(0.001, function() is_waiting = true end)
      while not refusal and told < 1000 do
        told, is_waiting = told + 1, false
        for one in pairs(all) do
          local left, problem, code = one:queue(piece)
          t.falsy(is_waiting, "queue has waited")
          if not left then refusal = { problem, code } else t.equal(math.type(left), "integer") end
        end
        rl.sleep(0.001)
      end
      ticks:invalidate()
      t.equal(refusal[2], "ENOBUFS")
      t.truthy(refusal[1]:find "^ENOBUFS: ", refusal[1])
      -- The handler ends, but the other task goes on and receives all pieces.
      support.soon(function() t.equal(ended, 1) end)
      support.soon(function() t.truthy(heard >= told * #piece) end)
      t.equal(table.pack(next(all):queue "good-bye").n, 1)
      hearing:abort()
      deaf:abort()
      support.soon(function() t.equal(ended, 2) end)
      reader:await()
      server:stop(1)
    end)
  end

  t.it("and read nothing of the answer are disconnected after the idle time-out", function()
    local cancelled
    local server = http.serve("memory", { idle_timeout = 60 }, function(request)
      local guard <close> = setmetatable({}, { __close = function() cancelled = rl.now() end })
      local response = request:respond()
      while response:write(("x"):rep(65536)) do end
    end)
    local near, began = connect(server), rl.now()
    near:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    rl.sleep(300)
    t.truthy(cancelled and cancelled - began <= 121, cancelled)
    t.equal({ server:statistics().active, server:statistics().open }, { 0, 0 })
    near:close()
  end)

  t.it("but slow readers are not disconnected", function()
    local server = http.serve("memory", { idle_timeout = 60 }, function(request)
      if request.method == "GET" then
        rl.sleep(200)
        return ("x"):rep(600000)
      end
      return tostring(#request:body())
    end)
    local upload = connect(server)
    upload:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
    for _ = 1, 20 do
      rl.sleep(30)
      upload:write "x"
    end
    t.truthy(upload:read():find("\r\n\r\n20", 1, true))
    upload:close()
    local download = connect(server)
    download:write "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    local count = 0
    while true do
      rl.sleep(2)
      local bytes = download:read(10000)
      if not bytes then break end
      count = count + #bytes
    end
    t.truthy(count > 600000)
    download:close()
  end)

  t.it("in the middle of their body get an error", function()
    local server = http.serve("memory", { idle_timeout = 60 }, function(request) return request:body() or "" end)
    local near, began = connect(server), rl.now()
    near:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nhalf"
    t.equal(status_of(near:read_all()), 408)
    t.truthy(rl.now() - began >= 59 and rl.now() - began < 62, rl.now() - began)
    near:close()
  end)
end)

t.describe("a crowd of clients", { timeout = 120 }, function()
  t.it("that sends heads byte by byte is disconnected, and does not delay others", function()
    local server = http.serve("memory", { header_timeout = 10 }, function() return "hello" end)
    local answers = 0
    local group = rl.group()
    for _ = 1, CROWD do
      group:task(function()
        local near <close> = connect(server)
        for byte in ("GET / HTTP/1.1\r\nHost: x\r\nX: yyyyyyyyyyyyyyy"):gmatch "." do
          if not near:write(byte) or not near:is_open() then break end
          if select(2, near:peek(1, { timeout = 1 })) ~= "timed out" then break end
        end
        if status_of(near:read_all() or "") == 408 then answers = answers + 1 end
      end)
    end
    rl.sleep(5)
    local client = t.http(server)
    t.equal(client:get("/").body, "hello")
    group:wait()
    t.equal(answers, CROWD)
    rl.sleep(70)
    t.equal(server:statistics().open, 0)
  end)

  t.it("that is idle is kept until the time-out, and takes little memory", function()
    local server = http.serve("memory", { idle_timeout = 60 }, function() return "hello" end)
    local all = {}
    for i = 1, CROWD do
      all[i] = connect(server)
      all[i]:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    end
    for i = 1, CROWD do all[i]:read() end
    collectgarbage()
    rl.sleep(30)
    t.equal(server:statistics().open, CROWD)
    for i = 1, CROWD, 10 do all[i]:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n" end
    for i = 1, CROWD, 10 do t.truthy(all[i]:read()) end
    rl.sleep(31)
    t.equal(server:statistics().open, (CROWD + 9) // 10)
    rl.sleep(30)
    t.equal(server:statistics().open, 0)
    for i = 1, CROWD do all[i]:close() end
  end)
end)

t.describe("forms with files", function()
  local BODY = "preamble\r\n--edge\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--edge\r\n"
    .. "Content-Disposition: form-data; name=\"f\"; filename=\"../../x.txt\"\r\nContent-Type: text/plain\r\n\r\n"
    .. ("file "):rep(50) .. "\r\n--edge\r\n\r\nnameless\r\n--edge--\r\nepilogue"

  local function ask(server, body, chunk)
    local near = connect(server, { chunk = chunk })
    near:write("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
      "Content-Type: multipart/form-data; boundary=edge\r\nContent-Length: ", #body,
      "\r\n\r\n", body)
    local answer = near:read_all { timeout = 5 }
    near:abort()
    return answer and status_of(answer), answer
  end

  t.it("are read in pieces of any size, and malformed forms are answered with 400", function()
    local uncaught = 0
    local before = rl.on_error(function() uncaught = uncaught + 1 end)
    local back <close> = setmetatable({}, { __close = function() rl.on_error(before) end })
    local server = http.serve("memory", function(request)
      local names = {}
      for part in request:parts { max = 1000 } do
        names[#names + 1] = (part.name or "-") .. (part.filename or "") .. #part:body()
      end
      return table.concat(names, " ")
    end)
    local form = http.serve("memory", function(request)
      local values, problem, code = request:form()
      return values and { status = 200 } or { status = code == "EMSGSIZE" and 413 or 400, body = problem }
    end)
    for chunk = 1, 40 do
      local status, answer = ask(server, BODY, chunk)
      t.equal(status, 200)
      t.truthy(answer:find("a3 fx.txt250 -8", 1, true), answer)
    end
    local random = math.random
    local seen = {}
    for _ = 1, 300 do
      -- A piece is lost, repeated or replaced.
      local from = random(#BODY)
      local to = math.min(#BODY, from + random(30))
      local piece = ({ "", BODY:sub(from, to):rep(2), "\r\n--edge", "\r\n", string.char(random(0, 255)),
        "--edge--" })[random(6)]
      local broken = BODY:sub(1, from - 1) .. piece .. BODY:sub(to + 1)
      local status = ask(server, broken, random(100))
      local other = ask(form, broken, random(100))
      t.truthy(status == 200 or status == 400 or status == 413, status)
      t.equal(other, status)
      seen[status] = true
    end
    t.truthy(seen[400])
    t.equal(uncaught, 0)
  end)
end)

t.describe("connections", function()
  t.it("are kept, and carry several requests in order", function()
    local server = http.serve("memory", function(request)
      if request.path == "/1" then rl.sleep(1) end
      return request.path
    end)
    local answer = raw(server,
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
        .. "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    local bodies = {}
    for body in answer:gmatch "\r\n\r\n(/%d)" do bodies[#bodies + 1] = body end
    t.equal(bodies, { "/1", "/2", "/3" })
    t.equal(server:statistics().requests, 3)
    t.equal(server:statistics().connections, 1)
  end)

  t.it("skip bodies that the handler has not read", function()
    local server = http.serve("memory", function(request) return request.path end)
    local answer = raw(server,
      "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /"
        .. "GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    t.truthy(answer:find("\r\n\r\n/1HTTP/1.1 200 OK", 1, true) and answer:find("/2", 1, true), answer)
  end)

  t.it("of HTTP/1.0 are closed, unless the request asks for keep-alive", function()
    local server = http.serve("memory", function(request)
      if request.path == "/pieces" then request:respond():write "a" return end
      return "x"
    end)
    t.truthy(raw(server, "GET / HTTP/1.0\r\n\r\n"):find("Connection: close", 1, true))
    t.truthy(raw(server, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):find("Connection: keep-alive", 1, true))
    local pieces = raw(server, "GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    t.truthy(not pieces:find "chunked" and pieces:find "\r\n\r\na$")
  end)

  t.it("answer Expect: 100-continue", function()
    local server = http.serve("memory", function(request) return request:body() end)
    local near, far = net.memory()
    server:accept(far)
    near:write "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    t.equal(near:read(), "HTTP/1.1 100 Continue\r\n\r\n")
    near:write "ok"
    t.truthy(near:read():find "ok$")
    near:close()
  end)
end)

t.describe("a long head", function()
  t.it("in tiny pieces is searched once, and not again for each piece", { real_time = true, timeout = 120 }, function()
    local server = http.serve("memory", { max_header = 4 << 20, header_timeout = 0 }, function(request)
      return request.headers["x-last"]
    end)
    local function cost(count)
      local near = connect(server)
      collectgarbage()
      local start = os.clock()
      near:write "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "
      for _ = 1, count do
        near:write(("y"):rep(34))
        near:flush()
        rl.sleep(0)
      end
      near:write "\r\nX-Last: here\r"
      near:flush()
      rl.sleep(0)
      near:write "\n\r"
      near:flush()
      rl.sleep(0)
      near:write "\n"
      t.equal(near:read_until "\r\n\r\n":match "^HTTP/1.1 (%d+)", "200")
      t.equal(near:read_exactly(4), "here")
      near:close()
      return os.clock() - start
    end
    -- The body is six times as long, and would cost 36 times as much if the cost of a piece grew with the bytes before
    -- it.
    support.scales(cost, 4000, 24000, 15)
  end)

  t.it("is refused as soon as it is too long, or found to be malformed", function()
    local server = http.serve("memory", { max_header = 20000 }, function() return "ok" end)
    local function send(bytes, size)
      local near = connect(server)
      for place = 1, #bytes, size do
        near:write(bytes:sub(place, place + size - 1))
        near:flush()
        rl.sleep(0)
        if near:buffered() > 0 then break end
      end
      local line = near:read_line()
      near:abort()
      return line
    end
    local long = "GET / HTTP/1.1\r\nHost: x\r\nX-Long: " .. ("y"):rep(30000)
    t.equal(send(long, 100), "HTTP/1.1 431 Request Header Fields Too Large")
    t.equal(send(long:sub(1, 15000) .. "\r\n\r\n", 100), "HTTP/1.1 200 OK")
    t.equal(send(long:sub(1, 15000) .. "\nX: y\r\n\r\n", 100), "HTTP/1.1 400 Bad Request")
    -- The two requests come in one piece, so the second one is in the buffer when the first is answered.
    t.equal(send("GET / HTTP/1.1\r\nHost: x\r\n\r\n" .. long:sub(1, 15000) .. "\r\n\r\n", 7000), "HTTP/1.1 200 OK")
  end)
end)
