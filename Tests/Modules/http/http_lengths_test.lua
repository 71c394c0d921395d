-- runloop.http: the length of a body, as handlers announce it and as clients read it.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local raw, status_of = support.raw, support.status_of

local REAL = { real_time = true, timeout = 30 }

local function request(method, version, fields)
  return ("%s / HTTP/%s\r\nHost: x\r\n%s\r\n"):format(method, version or "1.1", fields or "Connection: close\r\n")
end

-- Calls a function. Returns the errors that `rl.on_error` received, and the function's results.
local function with_errors(fn, ...)
  local errors = {}
  local before = rl.on_error(function(problem) errors[#errors + 1] = tostring(problem) end)
  local results = table.pack(fn(...))
  rl.sleep(0.01)
  rl.on_error(before)
  return errors, table.unpack(results, 1, results.n)
end

local function announced(length, extra)
  local answer = { headers = { ["content-length"] = length } }
  for name, value in pairs(extra or {}) do answer[name] = value end
  return answer
end

-- Bodies of 10 bytes, each of another kind.
local BODIES = {
  text = function(length) return function() return announced(length, { body = "0123456789" }) end end,
  json = function(length) return function() return announced(length, { json = 1234567890 }) end end,
  ["a function"] = function(length)
    return function()
      local pieces = { "01234", "56789" }
      return announced(length, { body = function() return table.remove(pieces, 1) end })
    end
  end,
  ["a stream"] = function(length)
    return function()
      local near, far = net.memory()
      near:write "0123456789"
      near:close()
      return announced(length, { body = far })
    end
  end,
  pieces = function(length)
    return function(request)
      local response = request:respond(announced(length))
      response:write "01234"
      response:write "56789"
      return response
    end
  end,
  ["a file"] = function(length, path) return function() return announced(length, { file = path .. "/ten" }) end end,
}

t.describe("the length that a handler announces", function()
  t.it("is also sent for HEAD and 304, without a body", function()
    local app = http.routes()
    app:get("/get", function() return announced(5000) end)
    app:head("/head", function() return announced "5000" end)
    app:get("/respond", function(request) request:respond(announced(5000)) end)
    app:get("/finish", function(request) request:respond { headers = { ["Content-Length"] = 5000 } }:finish() end)
    app:get("/same", function() return announced(5000, { status = 304 }) end)
    app:get("/none", function() return announced(5000, { status = 204 }) end)
    app:get("/text", function() return "0123456789" end)
    for _, path in ipairs { "/get", "/head", "/respond", "/finish", "/same" } do
      local answer = t.http(app):fetch { path, method = "HEAD" }
      t.equal({ answer.headers["content-length"], answer.body }, { "5000", "" }, path)
    end
    t.equal(t.http(app):get("/same").headers["content-length"], "5000")
    t.equal(t.http(app):get("/none").headers["content-length"], nil)
    t.equal(t.http(app):fetch { "/text", method = "HEAD" }.headers["content-length"], "10")
    local errors, answer = with_errors(raw, http.serve("memory", function() return announced(5000) end),
      request("HEAD"))
    t.equal({ errors, answer:match "Content%-Length: %d+", answer:match "\r\n\r\n(.*)" },
      { {}, "Content-Length: 5000", "" })
  end)

  for name, body in pairs(BODIES) do
    for _, version in ipairs { "1.1", "1.0" } do
      local files
      local function answered(length, method)
        files = files or support.directory()
        local file = assert(io.open(files .. "/ten", "w"))
        file:write "0123456789"
        file:close()
        local server = http.serve("memory", body(length, files))
        return with_errors(raw, server, request(method or "GET", version, "Connection: keep-alive\r\n"), 0.5)
      end

      t.it(("is right for %s by HTTP/%s"):format(name, version), function()
        local errors, answer = answered(10)
        t.equal({ errors, answer:match "Content%-Length: %d+", #answer:match "\r\n\r\n(.*)" },
          { {}, "Content-Length: 10", 10 })
        errors, answer = answered(10, "HEAD")
        t.equal({ errors, answer:match "Content%-Length: %d+", #answer:match "\r\n\r\n(.*)" },
          { {}, "Content-Length: 10", 0 })
      end)

      t.it(("exceeds the body of %s by HTTP/%s: the connection is closed with an error"):format(name, version),
        function()
          local errors, answer = answered(5000)
          t.equal(#errors, 1)
          t.truthy(errors[1]:find "Content%-Length", errors[1])
          t.truthy(#(answer:match "\r\n\r\n(.*)" or "") <= 10, answer)
      end)

      t.it(("is less than the body of %s by HTTP/%s: the rest is not sent, with an error"):format(name, version),
        function()
          local errors, answer = answered(7)
          t.equal(#errors, 1)
          t.truthy(errors[1]:find "Content%-Length", errors[1])
          t.equal({ answer:match "Content%-Length: %d+", #answer:match "\r\n\r\n(.*)" }, { "Content-Length: 7", 7 })
      end)
    end
  end

  t.it("gives an error in the client if the body is shorter", REAL, function()
    local server <close> = assert(http.serve("127.0.0.1:0", function()
      return announced(5000, { body = "only this" })
    end))
    local errors, answer, problem, code = with_errors(http.get, "http://" .. server:address())
    t.equal({ answer, #errors }, { nil, 1 })
    t.truthy(code == "EOF" or code == "ECONNRESET" or code == "EBADMSG", problem)
  end)

  t.it("cuts off a longer body, and the connection stays usable", function()
    local count = 0
    local server = http.serve("memory", function()
      count = count + 1
      return count == 1 and announced(3, { body = "too long" }) or "second"
    end)
    local errors, answer = with_errors(raw, server, request("GET", "1.1", "") .. request "GET")
    t.equal({ #errors, answer:match "\r\n\r\n(...)HTTP/1.1 200 OK", answer:match "second$" }, { 1, "too", "second" })
  end)

  t.it("must be a number of bytes", function()
    for _, value in ipairs { "abc", "-3", "0x10", "1.5", -3, 1.5, "99999999999999999999" } do
      local errors, answer = with_errors(raw, http.serve("memory",
        function() return announced(value, { body = "x" }) end), request "GET")
      t.equal({ #errors, status_of(answer) }, { 1, 500 }, tostring(value))
      t.truthy(errors[1]:find("the handler's answer: the field 'content-length' must be a count of bytes, got ", 1,
        true), errors[1])
      errors = with_errors(raw, http.serve("memory", function(asked) asked:respond(announced(value)) end),
        request "GET")
      t.truthy(errors[1]:find("request:respond: the field 'content-length' must be a count of bytes, got ", 1, true),
        errors[1])
    end
  end)
end)

-- Returns the client's result for these bytes: the body, or the message without the URL, and the code.
local current
local function asked(bytes, method)
  local server <close> = net.serve("127.0.0.1:0", function(stream)
    stream:read_until "\r\n\r\n"
    stream:write(current)
    stream:finish()
    stream:read { timeout = 1 }
  end)
  current = bytes
  local answer, problem, code = http.fetch { "http://" .. server:address(), method = method, timeout = 5 }
  if answer then return answer.body end
  t.truthy(problem:find("(http://" .. server:address() .. ")", 1, true), problem)
  return problem:gsub(" %(http.*", ""), code
end

t.describe("the length of an answer", function()
  local OK <const> = "HTTP/1.1 200 OK\r\n"
  local BAD <const> = {
    ["Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"] = "the answer has two lengths: 3 and 5",
    ["content-length: 5\r\nX: y\r\nCONTENT-LENGTH: 3\r\n\r\nabcde"] = "the answer has two lengths: 5 and 3",
    ["Content-Length: 3, 5\r\n\r\nabcde"] = "the answer has two lengths: 3 and 5",
    ["Content-Length: 3,\r\n\r\nabc"] = 'the answer\'s length is "3,"',
    ["Content-Length: -3\r\n\r\nabc"] = 'the answer\'s length is "-3"',
    ["Content-Length: +3\r\n\r\nabc"] = 'the answer\'s length is "+3"',
    ["Content-Length: 0x3\r\n\r\nabc"] = 'the answer\'s length is "0x3"',
    ["Content-Length: 3 5\r\n\r\nabc"] = 'the answer\'s length is "3 5"',
    ["Content-Length: abc\r\n\r\nabc"] = 'the answer\'s length is "abc"',
    ["Content-Length:\r\n\r\nabc"] = 'the answer\'s length is ""',
    ["Content-Length: 99999999999999999999\r\n\r\nabc"] = 'the answer\'s length is "99999999999999999999"',
    ["Content-Length: 3\r\n 5\r\n\r\nabc"] = "the answer's Content-Length continues on a second line",
    ["Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n"] =
      "the answer has both Content-Length and Transfer-Encoding",
    ["Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"] =
      "the answer has both Content-Length and Transfer-Encoding",
    ["X: a\rContent-Length: 5\r\nContent-Length: 3\r\n\r\nabc"] = "the answer has a CR without LF in its head",
    ["X: a\r\r\nContent-Length: 3\r\n\r\nabc"] = "the answer has a CR without LF in its head",
    ["X: a\0b\r\nContent-Length: 3\r\n\r\nabc"] = "the answer has a NUL in its head",
    ["Content-Length : 3\r\n\r\nabc"] = "the answer has a field without a valid name",
    ["X Y: 1\r\nContent-Length: 3\r\n\r\nabc"] = "the answer has a field without a valid name",
    ["X: a\nContent-Length: 3\r\n\r\nabc"] = "the answer has a LF without CR in its head",
    ["Content-Length: 3\r\n\nabc"] = "the answer has a LF without CR in its head",
    [" Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"] = "the first field of the answer begins with a blank",
  }
  for bytes, text in pairs(BAD) do
    t.it(("is refused: %q"):format(bytes:gsub("\r\n", "|")), REAL, function()
      t.equal({ asked(OK .. bytes) }, { "EBADMSG: " .. text, "EBADMSG" })
      if not text:find "NUL" then
        t.equal({ asked("HTTP/1.1 304 Same\r\n" .. bytes:gsub("\r\n\r\n.*", "\r\n\r\n")) },
          { "EBADMSG: " .. text, "EBADMSG" })
      end
      t.equal(select(2, asked(OK .. bytes, "HEAD")), "EBADMSG")
    end)
  end

  t.it("may occur twice if equal, and does not come from another head or from trailers", REAL, function()
    for _, bytes in ipairs {
      OK .. "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", OK .. "Content-Length: 3, 3\r\n\r\nabc",
        OK .. "Content-Length:  3 \t\r\n\r\nabc",
      "HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" .. OK .. "Content-Length: 3\r\n\r\nabc",
      OK .. "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
      OK .. "X: a\r\n Content-Length: 9\r\nContent-Length: 3\r\n\r\nabc",
    } do
      t.equal(asked(bytes), "abc", ("%q"):format(bytes))
    end
  end)

  t.it("is ignored in a proxy's answer for a tunnel", REAL, function()
    local proxy <close> = net.serve("127.0.0.1:0", function(stream)
      stream:read_until "\r\n\r\n"
      stream:write "HTTP/1.1 200 Established\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n"
      stream:read()
      stream:abort()
    end)
    -- The tunnel was open, so the error is about the handshake in it.
    t.falsy(select(2, http.get("https://127.0.0.1:1/",
      { proxy = "http://" .. proxy:address(), timeout = 5 })):find "length")
  end)

  t.it("is checked in the same way by the client of tests", function()
    for bytes, text in pairs { ["3\r\nContent-Length: 5"] = "the answer has two lengths: 3 and 5",
      ["-3"] = 'the answer\'s length is "-3"' } do
      local server = http.serve("memory", function(request)
        request.stream:write("HTTP/1.1 200 OK\r\nContent-Length: ", bytes, "\r\n\r\nabcde")
        request.response = true
        rl.sleep(1)
      end)
      t.equal({ t.http(server):get "/" }, { nil, ("EBADMSG: %s (/)"):format(text), "EBADMSG" })
    end
  end)
end)

t.it("a body that never ends holds up neither the loop nor an answer without a body", function()
  local pieces, written = 0, 0
  local app = http.routes()
  for path, status in pairs { ["/function"] = 200, ["/same"] = 304 } do
    app:get(path, function()
      return { status = status, body = function()
        pieces = pieces + 1
        return "piece"
      end }
    end)
  end
  app:get("/loop", function(request)
    local response = request:respond()
    while response:write(("x"):rep(1000)) do written = written + 1 end
  end)
  local server = assert(http.serve("memory", {}, app))
  for _, line in ipairs { "HEAD /function", "GET /same", "HEAD /loop" } do
    local near, far = net.memory()
    server:accept(far)
    near:write(line, " HTTP/1.1\r\nHost: x\r\n\r\n")
    t.truthy(near:read_until "\r\n\r\n":find "^HTTP/1.1 %d+ ")
    -- The connection serves the next request after a body that the server reads.
    near:write "HEAD /other HTTP/1.1\r\nHost: x\r\n\r\n"
    local next_answer = near:read_until("\r\n\r\n", { timeout = line ~= "HEAD /loop" and 1 or 0 })
    t.equal(next_answer and next_answer:sub(1, 12), line ~= "HEAD /loop" and "HTTP/1.1 404" or nil, line)
    near:close()
  end
  t.equal(pieces, 2)
  rl.sleep(1)
  local before = written
  rl.sleep(1)
  t.equal(written, before)
  t.equal(server:statistics().active, 0)
end)
