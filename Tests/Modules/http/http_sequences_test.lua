-- runloop.http: random requests in random pieces. Each request must get the answer that it would get alone, and the
-- answers must keep their order. SEED repeats a run.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local http = require "runloop.http"

local seed = tonumber(os.getenv "SEED") or os.time()

local app = http.routes()
app:get("/text", function() return "text" end)
app:get("/json", function() return http.json({ 1, 2 }, 201) end)
app:get("/made", function() return { status = 404, body = "made" } end)
app:get("/fields", function(request) return { body = request.headers["x-a"], headers = { ["X-B"] = "b" } } end)
app:get("/slow", function() rl.sleep(0.01) return "slow" end)
app:get("/turn", function() rl.sleep(0) return { json = "turn" } end)
app:get("/status", function() return 204 end)
app:get("/respond", function(request)
  local response = request:respond { status = 203 }
  response:write "in "
  rl.sleep(0.001)
  response:finish "pieces"
end)
app:get("/error", function() error "asked for" end)
app:get("/unsayable", function() return http.json { print } end)
app:get("/items/:id", function(request) return request.params.id .. (request.query.q or "") .. request.route end)
app:post("/echo", function(request) return request:body() end)
app:post("/ignore", function() return "ignored" end)
app:post("/late", function(request) rl.sleep(0.01) return request:body() end)
-- Runs the loop inside the handler, so that other requests are answered meanwhile.
app:get("/nested", function()
  local other = rl.task(rl.sleep, 0.005)
  rl.current():run_until(rl.now() + 0.001)
  other:await()
  return "nested"
end)

-- Requests with the expected status and body.
local kinds = {
  { "GET /text", 200, "text" }, { "GET /json", 201, "[1,2]" }, { "GET /made", 404, "made" },
    { "GET /fields", 200, "a" },
  { "GET /slow", 200, "slow" }, { "GET /turn", 200, '"turn"' }, { "GET /status", 204, "" },
    { "GET /respond", 203, "in pieces" },
  { "GET /error", 500, "Internal Server Error\n" }, { "GET /unsayable", 500, "Internal Server Error\n" },
  { "GET /items/7?q=x", 200, "7x/items/:id" }, { "GET /nothing", 404, "Not Found\n" }, { "HEAD /text", 200, "" },
    { "POST /text", 405, "Method Not Allowed\n" },
  { "GET /nested", 200, "nested" }, { "POST /echo", 200, true }, { "POST /ignore", 200, "ignored" },
    { "POST /late", 200, true },
}

local function body_of(random)
  local body = ("b"):rep(random(0, 3) == 0 and random(1, 20000) or random(0, 20))
  if random(0, 1) == 0 then return body, ("Content-Length: %d\r\n\r\n%s"):format(#body, body) end
  local chunks, rest = {}, body
  while rest ~= "" do
    local piece = rest:sub(1, random(1, #rest))
    chunks[#chunks + 1] = ("%x\r\n%s\r\n"):format(#piece, piece)
    rest = rest:sub(#piece + 1)
  end
  return body, "Transfer-Encoding: chunked\r\n\r\n" .. table.concat(chunks) .. "0\r\n\r\n"
end

-- Reads the next answer of a stream: status, body.
local function read_answer(stream, method)
  local head = assert(stream:read_until("\r\n\r\n", { timeout = 5 }))
  local status = tonumber(head:match "^HTTP/1%.1 (%d+)")
  if method == "HEAD" or status == 204 then return status, "" end
  local length = head:match "Content%-Length: (%d+)"
  if length then return status, length == "0" and "" or stream:read_exactly(tonumber(length)) end
  local pieces = {}
  while true do
    local count = tonumber(stream:read_line(), 16)
    if count > 0 then pieces[#pieces + 1] = stream:read_exactly(count) end
    stream:read_line()
    if count == 0 then return status, table.concat(pieces) end
  end
end

local function converse(server, random)
  local near, far = net.memory { chunk = random(0, 2) == 0 and random(1, 300) or nil }
  server:accept(far)
  local expected, sent = {}, {}
  for i = 1, random(1, 12) do
    local kind = kinds[random(#kinds)]
    local method = kind[1]:match "^%u+"
    local body, rest = nil, "\r\n"
    if method == "POST" then body, rest = body_of(random) end
    expected[i] = { kind[1], kind[2], kind[3] == true and body or kind[3], method }
    sent[i] = kind[1] .. " HTTP/1.1\r\nHost: x\r\nX-A: a\r\n" .. rest
  end
  local bytes = table.concat(sent)
  local writer = rl.task(function()
    local place = 1
    while place <= #bytes do
      local count = random(0, 3) == 0 and #bytes or random(1, 2000)
      near:write(bytes:sub(place, place + count - 1))
      if random(0, 1) == 0 then near:flush() rl.sleep(random(0, 2) / 1000) end
      place = place + count
    end
  end)
  for i, one in ipairs(expected) do
    local status, body = read_answer(near, one[4])
    t.equal({ i, one[1], status, body }, { i, one[1], one[2], one[3] })
  end
  writer:await()
  t.equal(near:buffered(), 0)
  near:close()
end

t.describe("random conversations", function()
  for _, options in ipairs { {}, { access_log = function() end }, { request_timeout = 60 } } do
    t.it("are answered in order" .. (options.access_log and ", with a log" or options.request_timeout
      and ", with a time limit" or ""), { timeout = 60 }, function()
        local before = rl.on_error(function() end)
        local server = http.serve("memory", options, app)
        local state = seed
      -- A generator that returns the same numbers on every machine.
        local function random(from, to)
          if not to then from, to = 1, from end
          state = (state * 6364136223846793005 + 1442695040888963407)
          return from + (state >> 33) % (to - from + 1)
        end
        local tasks = {}
        for i = 1, 60 do tasks[i] = rl.task(converse, server, random) end
        for _, task in ipairs(tasks) do
          local is_good, problem = pcall(task.await, task)
          if not is_good then error(("SEED=%d: %s"):format(seed, tostring(problem)), 0) end
        end
        rl.on_error(before)
        t.equal(server:statistics().active, 0)
        server:stop(1)
    end)
  end
end)
