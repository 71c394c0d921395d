-- runloop.http: requests with bodies from functions and streams, and answers that are read slowly.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"

local REAL = { real_time = true, timeout = 30 }

-- Returns the result of a request whose body consists of these values, up to the first nil.
local function sent(values, length)
  local server <close> = assert(http.serve("127.0.0.1:0", function(request)
    return request:body() or http.bad_request()
  end))
  local index = 0
  local answer, problem, code = http.post("http://" .. server:address(), function()
    index = index + 1
    return values[index]
  end, { headers = { ["content-length"] = length }, timeout = 5 })
  return answer and answer.body, problem, code
end

t.describe("the body of a request", function()
  t.it("consists of text", REAL, function()
    t.equal({ sent { "ab", "", 5, "c" } }, { "ab5c" })
    t.equal({ sent({ "ab", 5, "c" }, 4) }, { "ab5c" })
    t.equal({ sent {} }, { "" })
  end)

  for what, value in pairs { ["a table"] = {}, ["true"] = true, ["false"] = false } do
    for place, values in pairs { first = { value }, later = { "ab", value } } do
      t.it("cannot consist of " .. what .. ", " .. place, REAL, function()
        t.equal({ sent(values) }, { nil,
          "the body of the request failed: its function has to return text, or nil at the end, and returned " .. what,
            "ECANCELED" })
      end)
    end
  end

  t.it("has the length that the option gives", REAL, function()
    t.equal({ sent({ "abc" }, 10) },
      { nil, "the body of the request failed: it ended after 3 of the 10 bytes of its Content-Length", "ECANCELED" })
    t.equal({ sent({ "abc", "def" }, 4) },
      { nil, "the body of the request failed: it is longer than the 4 bytes of its Content-Length", "ECANCELED" })
  end)

  t.it("that is a text, or missing, has that length, too", REAL, function()
    local server <close> = assert(http.serve("127.0.0.1:0", function(request)
      return ("%s %s"):format(request.headers["content-length"], request:body())
    end))
    local function answered(method, body, length)
      local answer, problem, code = http.fetch { "http://" .. server:address(), method = method, body = body,
        headers = { ["content-length"] = length }, timeout = 5 }
      return { answer and answer.body, problem, code }
    end
    local PROBLEM <const> = "the body of the request failed: "
    t.equal(answered("POST", "abc", 6), { nil, PROBLEM .. "it ended after 3 of the 6 bytes of its Content-Length",
      "ECANCELED" })
    t.equal(answered("GET", nil, 6), { nil, PROBLEM .. "it ended after 0 of the 6 bytes of its Content-Length",
      "ECANCELED" })
    t.equal(answered("POST", "abc", 2), { nil, PROBLEM .. "it is longer than the 2 bytes of its Content-Length",
      "ECANCELED" })
    t.equal(answered("POST", "abc", "x"), { nil, PROBLEM .. 'its Content-Length is "x"', "ECANCELED" })
    t.equal({ answered("POST", "abc", 3)[1], answered("PUT", "abc", "3")[1] }, { "3 abc", "3 abc" })
    -- Without a body, methods that usually have one announce 0 bytes.
    t.equal({ answered "POST"[1], answered "PUT"[1], answered "DELETE"[1] }, { "0 ", "0 ", "nil " })
    t.equal(t.http(function() end):post("/", "abc", { headers = { ["content-length"] = 6 } }), nil)
  end)

  t.it("is no longer sent when the answer arrives before its end", REAL, function()
    local server <close> = assert(http.serve("127.0.0.1:0", function() return 413 end))
    local count = 0
    local answer = assert(http.post("http://" .. server:address(), function()
      count = count + 1
      if count == 2 then rl.sleep(60) end
      return "piece"
    end, { timeout = 20 }))
    t.equal({ answer.status, count }, { 413, 2 })
  end)

  t.it("of a stream has the given length, too", REAL, function()
    local server <close> = assert(http.serve("127.0.0.1:0", function(request) return request:body() end))
    local near, far = net.memory()
    near:write "abc"
    near:close()
    local _, problem = http.post("http://" .. server:address(), far,
      { headers = { ["content-length"] = 5 }, timeout = 5 })
    t.equal(problem, "the body of the request failed: it ended after 3 of the 5 bytes of its Content-Length")
  end)
end)

t.describe("a client that takes its answer slowly", function()
  for name, field in pairs { ["a connection that stays"] = "",
    ["one that is closed then"] = "Connection: close\r\n" } do
    t.it("but steadily does not count as silent, on " .. name, REAL, function()
      local SIZE <const> = 20000000
      local server <close> = assert(http.serve("127.0.0.1:0", { idle_timeout = 0.4 }, function()
        return ("x"):rep(SIZE)
      end))
      local client = assert(net.connect(server:address()))
      client:write("GET / HTTP/1.1\r\nHost: x\r\n" .. field .. "\r\n")
      client:read_until "\r\n\r\n"
      local count, date = 0, rl.now() + 2.5
      while count < SIZE do
        local bytes, problem = client:read(rl.now() < date and 65536 or 1 << 20)
        t.truthy(bytes, ("%s after %d bytes"):format(problem, count))
        count = count + #bytes
        if rl.now() < date then rl.sleep(0.04) end
      end
      client:abort()
    end)
  end

  t.it("and then stops is cut off", REAL, function()
    local server <close> = assert(http.serve("127.0.0.1:0", { idle_timeout = 0.3 }, function()
      return ("x"):rep(20000000)
    end))
    local client = assert(net.connect(server:address()))
    client:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    client:read(65536)
    t.eventually(function() return server:statistics().open == 0 end)
    client:abort()
  end)
end)
