-- runloop.http: servers in modes, and further options of `http.serve`.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local loop = rl.current()

t.describe("http.serve with modes", function()
  for name, modes in pairs { ["a name"] = "modal", ["a list"] = { "modal", "other" } } do
    t.it("is in " .. name .. ", and in no other", function()
      local server <close> = assert(http.serve("127.0.0.1:0", { modes = modes }, function() return "modal" end))
      t.equal({ loop:contains(server, "default"), loop:contains(server, "modal"), loop:contains(server, "other") },
        { false, true, modes ~= "modal" })
    end)
  end

  t.it("is in the common modes if no modes are given", function()
    local server <close> = assert(http.serve("127.0.0.1:0", {}, function() return "" end))
    t.equal(loop:contains(server, "default"), true)
  end)

  t.it("answers in its mode only, also on its connections", { real_time = true }, function()
    local server <close> = assert(http.serve("127.0.0.1:0", { modes = "modal" }, function(request)
      return request.path
    end))
    local client = assert(net.connect(server:address()))
    local results = {}
    for i = 1, 2 do
      client:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      t.equal(client:read { timeout = 0.2 }, nil)
      rl.after(0, function() loop:run { mode = "modal", timeout = 0.2 } end)
      results[i] = (client:read { timeout = 5 } or ""):match "HTTP/1.1 200"
    end
    t.equal(results, { "HTTP/1.1 200", "HTTP/1.1 200" })
    client:abort()
  end)

  t.it("raises an error that names a wrong mode", function()
    local function problem(modes) return support.problem_of(http.serve, "127.0.0.1:0", { modes = modes }, print) end
    t.equal(problem {}, "http.serve: field 'modes' must name at least one mode, as \"common\" does")
    t.equal(problem { "default", 5 }, "http.serve: field 'modes' must be names of modes, got 5 in it")
    t.equal(problem(5), "http.serve: field 'modes' must be a string or a table, got 5")
    t.equal(support.problem_of(http.client, { modes = {} }),
      "http.client: field 'modes' must name at least one mode, as \"common\" does")
  end)
end)

t.describe("the access log", function()
  t.it("accepts only a file, a function or an object that can be written to", function()
    local closed = io.tmpfile()
    closed:close()
    for _, where in ipairs { 5, {}, closed } do
      t.truthy(support.problem_of(http.serve, "memory", { access_log = where }, print):find(
        "^http.serve: field 'access_log' must be true, a path, an open file or a function, got "))
    end
    local lines = {}
    local server = http.serve("memory", { access_log = { write = function(_, line) lines[#lines + 1] = line end } },
      function() return "" end)
    support.raw(server, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
    t.equal(#lines, 1)
  end)

  t.it("has lines for WebSockets", { real_time = true }, function()
    local entries = {}
    local app = http.routes()
    app:websocket("/receives", function(socket) socket:receive() end)
    app:websocket("/closes", { compress = false }, function(socket)
      socket:receive()
      socket:send(("x"):rep(1000))
      socket:close(1000, "enough")
    end)
    app:websocket("/iterates", function(socket) for _ in socket:messages() do end end)
    local server = assert(http.serve("127.0.0.1:0", { access_log = function(entry) entries[#entries + 1] = entry end },
      app))
    for i, path in ipairs { "/receives", "/closes", "/iterates" } do
      local socket = assert(http.websocket("ws://" .. server:address() .. path))
      socket:send "x"
      if path == "/closes" then socket:receive() end
      socket:close()
      t.eventually(function() return #entries == i end)
      t.equal({ entries[i].target, entries[i].method, entries[i].status }, { path, "GET", 101 })
      t.truthy(entries[i].bytes > 0 and (entries[i].bytes > 1000) == (path == "/closes"), entries[i].bytes)
    end
    t.equal(server:statistics().cancelled, 0)
    -- After a refused handshake, the connection is an ordinary HTTP connection.
    t.equal(http.get("http://" .. server:address() .. "/closes").status, 426)
    t.eventually(function() return #entries == 4 and entries[4].status == 426 end)
    server:stop(0)
  end)

  t.it("is refused with an error code if it cannot be opened", function()
    t.equal({ http.serve("memory", { access_log = "/nonexistent/x" }, print) },
      { nil, "ENOENT: no such file or directory (/nonexistent/x)", "ENOENT" })
    t.equal({ http.serve("memory", { access_log = "/" }, print) }, { nil, "EISDIR: is a directory (/)", "EISDIR" })
  end)
end)
