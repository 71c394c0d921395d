-- runloop.http: answers that are read piece by piece, by tasks that may be cancelled or late, and answers that nobody
-- reads.

local t = require "runloop.test"
local rl = require "runloop"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local server, url

-- Sends pieces, with a second between them.
local function slowly(pieces)
  return function(request)
    local response = request:respond { headers = { ["content-type"] = "text/event-stream" } }
    for i, piece in ipairs(pieces) do
      if i > 1 then rl.sleep(1) end
      response:write(piece)
    end
  end
end

local function serve(handler)
  server = assert(http.serve("127.0.0.1:0", handler))
  url = "http://" .. server:address() .. "/"
end

t.after_each(function() server:stop(0) end)

-- Runs the same test with the client of libcurl, and with the client of tests.
local function each(handler, body)
  serve(handler)
  body(function() return assert(http.open { url }) end)
  body(function() return assert(t.http(server):open { "/" }) end)
end

t.describe("a read that takes too long, or is cancelled", function()
  t.it("consumes nothing", function()
    each(slowly { "one", "two", "three" }, function(open)
      local answer <close> = open()
      t.equal(answer:read(), "one")
      t.equal({ rl.timeout(0.25, answer.read, answer) }, { nil, "timed out" })
      local task = rl.task(answer.read, answer)
      rl.sleep(0.25)
      task:cancel()
      t.equal({ answer:read(2), answer:read(), answer:read() }, { "tw", "o", "three" })
      t.equal({ answer:read(), answer:read() }, {})
    end)
  end)

  t.it("leaves the whole body to the next reader", function()
    each(slowly { "[1,", "2,", "3]" }, function(open)
      for _, method in ipairs { "read_all", "json" } do
        local answer <close> = open()
        for _ = 1, 2 do t.equal({ rl.timeout(0.75, answer[method], answer) }, { nil, "timed out" }) end
        t.equal(answer[method](answer), method == "json" and { 1, 2, 3 } or "[1,2,3]")
      end
      local answer <close> = open()
      t.equal(select(3, answer:read_all(4)), "EMSGSIZE")
      t.equal({ answer:read(1), answer:read_all(6), answer:read_all() }, { "[", "1,2,3]", "" })
    end)
  end)

  t.it("leaves unfinished lines and events to the next read", function()
    each(slowly { "data: 1\n\ndata: 2\n", "\nda", "ta: 3\n\ndata: 4" }, function(open)
      local answer <close> = open()
      local following = answer:lines()
      t.equal({ following(), following() }, { "data: 1", "" })
      following = answer:lines()
      t.equal({ following(), following() }, { "data: 2", "" })
      t.equal({ rl.timeout(0.25, following) }, { nil, "timed out" })
      t.equal({ answer:lines { max = 10 }(), answer:lines()() }, { "data: 3", "" })
      t.equal({ answer:read(), answer:read() }, { "data: 4" })

      local events <close> = open()
      following = events:events()
      t.equal(following().data, "1")
      t.equal({ rl.timeout(0.25, events:events()) }, { nil, "timed out" })
      t.equal({ events:events()().data, following().data, following() }, { "2", "3" })
    end)
  end)

  t.it("ends the request, for http.open and for http.get", { real_time = true, timeout = 30 },
    function()
      serve(function() rl.sleep(60) end)
      for _, ask in ipairs { function() http.open { url } end, function() http.get(url) end } do
        local before = server:statistics().cancelled
        t.equal({ rl.timeout(0.1, ask) }, { nil, "timed out" })
        t.eventually(function() return server:statistics().cancelled == before + 1 end)
      end
  end)
end)

t.describe("an answer", function()
  t.it("has one reader at a time, and a second one gets an error", function()
    each(slowly { "one", "two" }, function(open)
      local answer <close> = open()
      answer:read()
      local task = rl.task(function()
        local bytes = answer:read()
        return bytes
      end)
      rl.sleep(0.1)
      for _, method in ipairs { "read", "read_all", "json" } do
        support.raises("one reader at a time: ", answer[method], answer)
        support.raises("http_open_test.lua:", answer[method], answer)
      end
      support.raises("one reader at a time: ", answer:lines())
      t.equal(task:await(), "two")
    end)
  end)

  t.it("that has arrived completely frees its connection, read or not", { real_time = true, timeout = 30 }, function()
    serve(function() return ("x"):rep(1000) end)
    local client <close>, answers = http.client { connections = 2 }, {}
    for i = 1, 10 do
      answers[i] = assert(client:open { url, timeout = 10 })
      if i % 2 == 0 then t.equal(#answers[i]:read(10), 10) end
    end
    for i, answer in ipairs(answers) do
      t.equal(#answer:read_all(), i % 2 == 0 and 990 or 1000)
      t.equal({ answer:read() }, {})
    end
  end)

  t.it("that was cut short returns the error only when it is read", { real_time = true, timeout = 30 }, function()
    serve(function(request)
      request:respond { headers = { ["content-length"] = 100 } }:write "only this"
      request.connection.stream:flush()
      request.connection.stream:close()
      rl.sleep(1)
    end)
    local answer <close> = assert(http.open { url })
    rl.sleep(0.2)
    t.equal(answer:read(), "only this")
    local none, problem, code = answer:read()
    t.truthy(none == nil and problem and (code == "EOF" or code == "ECONNRESET"), problem)
    t.equal(select(3, answer:read()), code)
  end)
end)
