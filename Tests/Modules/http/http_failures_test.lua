-- runloop.http: answers that are cut off within TLS, and connections that fail for lack of memory or descriptors.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local process = require "runloop.process"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local REAL <const> = { real_time = true, timeout = 60 }

t.describe("an answer over TLS that ends with its connection", function()
  local path, guard = support.directory()
  local cert, key = path .. "/cert.pem", path .. "/key.pem"
  t.after_all(function() getmetatable(guard).__close() end)
  assert(os.execute("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " .. key
    .. " -out " .. cert
    .. " -days 30 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null"))
  local OK <const> = "HTTP/1.1 200 OK\r\n"
  local ANSWERS <const> = {
    ["/open"] = OK .. "\r\nabc", ["/old"] = "HTTP/1.0 200 OK\r\n\r\nabc",
      ["/length"] = OK .. "Content-Length: 3\r\n\r\nabc",
    ["/short"] = OK .. "Content-Length: 10\r\n\r\nabc",
      ["/chunked"] = OK .. "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ["/none"] = "HTTP/1.1 204 No Content\r\n\r\n",
  }

  -- Each connection goes through a proxy, which ends the connection if no bytes come for a while. The server ends TLS
  -- only on request.
  local function serve()
    local listener = assert(net.serve("127.0.0.1:0", { tls = { certificate = cert, key = key } }, function(stream)
      while true do
        local head = stream:read_until "\r\n\r\n"
        if not head then return end
        local target = head:match "^%u+ (%S+)"
        stream:write(ANSWERS[target:match "^[^?]*"])
        if target:find "?ended" then return end
        if not target:find "?stays" then break end
      end
      stream:flush()
      rl.sleep(5)
    end))
    local where = listener:address()
    local proxy = assert(net.serve("127.0.0.1:0", function(stream)
      local inner <close> = assert(net.connect(where))
      rl.task(function() net.copy(stream, inner) end)
      while true do
        local bytes = inner:read(65536, { timeout = 0.3 })
        if not bytes then return end
        stream:write(bytes)
      end
    end))
    t.finally(function()
      proxy:stop(0)
      listener:stop(0)
    end)
    return "https://" .. proxy:address()
  end

  t.it("is cut off if the TLS close alert is missing", REAL, function()
    rl.on_error(function() end)
    local base, options = serve(), { tls = { ca = cert }, timeout = 20 }
    local function result(target, more)
      local answer, problem, code = http.get(base .. target, options)
      return { answer and answer.body, problem, code }
    end
    local text <const> = "TLS_TRUNCATED: the connection was cut: it ended without the TLS close alert (%s%s)"
    t.equal(result "/open", { nil, text:format(base, "/open"), "TLS_TRUNCATED" })
    t.equal(result "/old", { nil, text:format(base, "/old"), "TLS_TRUNCATED" })
    t.equal(result "/short"[3], "EOF")
    t.equal({ result "/open?ended"[1], result "/length"[1], result "/chunked"[1], result "/none"[1] },
      { "abc", "abc", "abc", "" })
    local head = http.fetch { base .. "/open", method = "HEAD", tls = { ca = cert } }
    t.equal(head and head.status, 200)
    -- The answer is read piece by piece, after a complete answer on the same connection.
    local client <close> = http.client { tls = { ca = cert } }
    t.equal(client:get(base .. "/length?stays").body, "abc")
    local answer <close> = assert(client:open { base .. "/open" })
    t.equal(answer:read(), "abc")
    t.equal({ answer:read() }, { nil, text:format(base, "/open"), "TLS_TRUNCATED" })
    rl.on_error(nil)
  end)
end)

t.describe("a request for which there is no connection", function()
  t.it("reports that descriptors ran out, and not that no server listens", REAL, function()
    local result = process.run { "/bin/sh", "-c", [[ulimit -n 60; exec "$0" -e "$1"]], t.rlhost, [[
      local http = require "runloop.http"
      local server = assert(http.serve("127.0.0.1:0", function() return "there" end))
      local client, files = http.client {}, {}
      local url = "http://" .. server:address() .. "/"
      print(client:get(url).body)
      local closing = http.client {}
      for file in function() return (io.open "/dev/null") end do files[#files + 1] = file end
      print(select(2, closing:get(url)) == "EMFILE: too many open files (" .. url .. ")")
      for _, file in ipairs(files) do file:close() end
      print(closing:get(url).body)
      server:stop(0) ]] }
    t.equal({ result.output, result.errors }, { "there\ntrue\nthere\n", "" })
  end)

  t.it("reports that the queue of a Unix socket is full", REAL, function()
    local path, guard <close> = support.directory()
    path = path .. "/s"
    -- The listener never accepts, and its backlog is 1.
    local listener <close> = assert(net.listener { path = path, backlog = 1 })
    local waiting = {}
    for i = 1, 4 do waiting[i] = net.connect({ path = path }, { timeout = 0.05 }) or nil end
    local answer, problem, code = http.get("http://x/", { unix = path })
    t.equal({ answer, code }, { nil, "EAGAIN" })
    t.truthy(problem:find(("^EAGAIN: .* %%(unix:%s, http://x/%%)$"):format(path)), problem)
    for _, stream in pairs(waiting) do stream:close() end
    listener:close()
    os.remove(path)
    t.equal(select(3, http.get("http://x/", { unix = path })), "ENOENT")
  end)

  t.it("is not reported with the error of a kept connection that it has tried first", REAL, function()
    local connections = 0
    local listener = assert(net.serve("127.0.0.1:0", function(stream)
      connections = connections + 1
      stream:read_until "\r\n\r\n"
      if connections % 2 == 0 then
        stream:write "this is not HTTP\r\n\r\n"
      else
        stream:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        stream:peek(1)
        stream:abort()
      end
    end))
    local guard <close> = setmetatable({}, { __close = function() listener:stop(0) end })
    local url = "http://" .. listener:address() .. "/"
    local client <close> = http.client {}
    t.equal(client:get(url).body, "ok")
    t.equal({ client:get(url) }, { nil, "EPROTONOSUPPORT: the answer is not HTTP (" .. url .. ")", "EPROTONOSUPPORT" })
    t.equal(connections, 2)
  end)
end)
