-- runloop.http: bodies of requests that come slowly, to handlers that are cancelled while they read them.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

-- Returns the handler's result for a body that arrives in pieces of `size` bytes, one each second.
local function found(handler, kind, body, size)
  local result
  local server = http.serve("memory", function(request)
    result = table.pack(handler(request))
    return "ok"
  end)
  local near, far = net.memory()
  server:accept(far)
  local head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
  near:write(head:format(kind, #body))
  for place = 1, #body, size do
    near:write(body:sub(place, place + size - 1))
    rl.sleep(1)
  end
  local answer = near:read_all()
  t.equal(support.status_of(answer), 200)
  near:abort()
  return table.unpack(result, 1, result.n)
end

-- Calls a function with a short time limit until it returns a result.
local function insist(fn, ...)
  local result
  repeat result = table.pack(rl.timeout(0.3, fn, ...)) until result[1]
  return table.unpack(result, 2, result.n)
end

local FORM <const> = table.concat({ "--xx", 'Content-Disposition: form-data; name="a"', "", "12345", "--xx", "", "bare",
  "--xx",
  'Content-Disposition: form-data; name="f"; filename="f.txt"', "Content-Type: text/x", "", "one\r\n--x\r\ntwo",
    "--xx--", "" }, "\r\n")
local FORM_TYPE <const> = "multipart/form-data; boundary=xx"

t.describe("a body that arrives slowly, and whose reader is cancelled", function()
  t.it("can be read as a whole", function()
    t.equal(found(function(request) return insist(request.body, request), request:body() end, "text/plain", "abcdefgh",
      3), "abcdefgh")
    t.equal(found(function(request) return insist(request.json, request) end, "application/json", "[1, 2, 3]", 2),
      { 1, 2, 3 })
    t.equal(found(function(request) return (insist(request.form, request)) end, "application/x-www-form-urlencoded",
      "a=1&b=2", 2),
      { a = "1", b = "2" })
  end)

  t.it("can be read in pieces, and then the rest as a whole", function()
    t.equal({ found(function(request)
      rl.timeout(1.5, request.body, request)
      local first, second = request:read(1), insist(request.read, request, 2)
      rl.timeout(0.1, request.body, request)
      return first, second, insist(request.body, request)
    end, "text/plain", "abcdefgh", 3) }, { "a", "bc", "defgh" })
  end)

  t.it("can be read as a form", function()
    for size = 1, 9, 4 do
      t.equal(found(function(request) return (insist(request.form, request)) end, FORM_TYPE, FORM, size),
        { a = "12345", [""] = "bare", f = "one\r\n--x\r\ntwo" })
      t.equal(found(function(request)
        local parts = {}
        while true do
          local part = insist(function() return request:parts()() end)
          if not part then return parts end
          parts[#parts + 1] = { part.name, part.filename, part.type, insist(part.body, part), part:body() }
        end
      end, FORM_TYPE, FORM, size),
        { { "a", nil, nil, "12345", "12345" }, { nil, nil, nil, "bare", "bare" },
          { "f", "f.txt", "text/x", "one\r\n--x\r\ntwo", "one\r\n--x\r\ntwo" } })
    end
  end)

  t.it("has one reader at a time, and frees the place of a reader that was cancelled", function()
    t.truthy(found(function(request)
      local task = rl.task(request.body, request)
      rl.sleep(0.1)
      local problem = support.problem_of(request.read, request)
      task:await()
      return problem
    end, "text/plain", "abcdefgh", 3):find "request:read: one reader at a time: another task waits")
    t.equal(found(function(request)
      rl.timeout(0.1, request.read, request)
      rl.timeout(0.1, request.body, request)
      return request.is_reading
    end, "text/plain", "abcdefgh", 1), false)
  end)
end)

t.describe("a part of a form", function()
  t.it("has a limit, and its rest is lost when the next part is read", function()
    t.equal({ found(function(request)
      local following = request:parts()
      local first = following()
      local start = first:read()
      local second = following()
      local problem = support.problem_of(first.body, first)
      return start, second:body { max = 4 }, problem
    end, FORM_TYPE, FORM, 40) }, { "12345", "bare",
      "part:read: the next part has begun: the unread rest of this one is lost" })
    t.equal(found(function(request)
      local part = request:parts()()
      local is_good, problem = pcall(part.body, part, { max = 4 })
      return not is_good and problem
    end, FORM_TYPE, FORM, 40), "EMSGSIZE: the part is longer than 4 bytes")
  end)
end)
