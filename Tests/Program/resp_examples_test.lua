-- docs/examples/resp.lua: with a real server, and with a false server that injects faults by the test's seed.

local t = require "runloop.test"
local rl = require "runloop"
local net = require "runloop.net"
local fs = require "runloop.fs"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local PATH = ROOT .. "/docs/examples/resp.lua"
local resp = dofile(PATH)
local REAL = { real_time = true, timeout = 60 }

local shared = t.resource(function() return t.server "redis" end)

local function open(options)
  local client = assert(resp.open(shared():address(), options))
  t.finally(function() client:close() end)
  client:call "FLUSHALL"
  return client
end

local function pack(...) return { n = select("#", ...), ... } end

t.it("resp.lua has at most 100 lines of code", function()
  local count = 0
  for line in assert(fs.read(PATH)):gmatch "[^\n]+" do
    if line:find "%S" and not line:find "^%s*%-%-" then count = count + 1 end
  end
  t.truthy(count <= 100, count)
end)

t.describe("the client of resp.lua", function()
  t.it("returns values, and refusals as values", REAL, function()
    local client = open()
    t.equal(pack(client:call("SET", "a", 1)), { n = 1, "OK" })
    t.equal(client:call("INCR", "a"), 2)
    t.equal(pack(client:call("GET", "none")), { n = 1 })
    t.equal(client:call("HSET", "h", "x", "\r\n\0", "y", ""), 2)
    t.equal(client:call("HGETALL", "h"), { x = "\r\n\0", y = "" })
    t.equal(client:call("MGET", "a", "none"), { "2", resp.null })
    client:call("ZADD", "z", "inf", "m")
    t.equal(client:call("ZSCORE", "z", "m"), math.huge)
    local value, problem, code = client:call("INCR", "h")
    t.equal(value, nil)
    t.equal(code, "WRONGTYPE")
    t.truthy(problem:find "^WRONGTYPE: Operation")
  end)

  t.it("answers many tasks over one connection", REAL, function()
    local client = open()
    local group <close> = rl.group()
    for i = 1, 50 do
      group:task(function()
        for k = 1, 20 do
          client:call("SET", i, i * k)
          t.equal(client:call("GET", i), tostring(i * k))
        end
      end)
    end
    group:wait()
    t.equal(client:call("INFO", "clients"):match "connected_clients:(%d+)", "1")
  end)

  t.it("passes messages to callbacks, also after its connection was lost", REAL, function()
    local client, other = open(), open()
    local got = {}
    t.equal(client:subscribe("news", function(message, channel) got[#got + 1] = channel .. " " .. message end), true)
    t.equal(other:call("PUBLISH", "news", "one"), 1)
    t.eventually(function() return got[1] == "news one" end)
    client.line.stream:abort()
    t.eventually(function() return other:call("PUBLISH", "news", "two") == 1 end)
    t.eventually(function() return got[2] == "news two" end)
    t.equal(client:subscribe "news", true)
    t.equal(other:call("PUBLISH", "news", "three"), 0)
  end)

  t.it("connects again after a restart, and fails each sent command once", REAL, function()
    local server = t.server "redis"
    local client = assert(resp.open(server:address()))
    t.finally(function() client:close() end)
    local waiting = rl.task(function() return pack(client:call("BLPOP", "none", 0)) end)
    rl.sleep(0.05)
    server:restart()
    t.equal(waiting:await(), { n = 2, [2] = "became invalid" })
    t.eventually(function() return client:call "PING" == "PONG" end, { within = 10 })
  end)

  t.it("keeps no program alive, and answers in the script's last line", REAL, function()
    local run = process.run { t.rlhost, "-e", ([[
      local client = assert(dofile(%q).open(%q))
      client:subscribe("news", print)
      print(client:call "PING")
    ]]):format(PATH, shared():address()), timeout = 10 }
    t.equal({ run.code, run.output, run.errors }, { 0, "PONG\n", "" })
  end)

  t.it("refuses wrong passwords, commands without one answer, and missing servers", REAL, function()
    local client, problem, code = resp.open(shared():address(), { login = { "AUTH", "ada", "wrong" } })
    t.equal({ client, code }, { nil })
    t.truthy(problem:find "^WRONGPASS: ", problem)
    t.error(function() open():call("subscribe", "x") end, "SUBSCRIBE is not for calls")
    t.error(function() open():ask "MONITOR" end, "MONITOR is not for calls")
    t.truthy(select(2, resp.open "127.0.0.1:1"):find "^ECONNREFUSED")
  end)
end)

-- The false server --------------------------------------------------------------------------------------------------

-- Reads a command: a list of texts.
local function command(stream)
  local head = stream:read_until "\r\n"
  if not head then return end
  local list = {}
  for i = 1, tonumber(head:sub(2)) do
    local length = stream:read_until "\r\n"
    list[i] = length and stream:read_exactly(tonumber(length:sub(2)), { skip = "\r\n" })
    if not list[i] then return end
  end
  return list
end

-- Answers GET x with x. The server sends `world.left` bytes before it cuts the connection; `world.stalls` delays
-- answers.
local function answer_all(world, stream)
  stream:write "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n"
  if not command(stream) then return end
  while true do
    local got = command(stream)
    if not got then return end
    world.seen[got[2]] = (world.seen[got[2]] or 0) + 1
    local bytes = ("$%d\r\n%s\r\n"):format(#got[2], got[2])
    if math.random(4) == 1 then bytes = ">3\r\n+message\r\n+x\r\n+y\r\n" .. bytes end
    if world.stalls then rl.sleep(world.stalls) end
    if world.left and world.left < #bytes then
      stream:write(bytes:sub(1, world.left))
      world.left = nil
      return stream:close()
    end
    if world.left then world.left = world.left - #bytes end
    if not stream:write(bytes) then return end
  end
end

-- Makes a client whose connections lead to a false server. The false server refuses some connections after the first.
local function world_of(name)
  local world = { seen = {}, ends = {} }
  local client = assert(resp.open(nil, { timeout = 2, connect = function()
    if world.is_down then return nil, "ECONNREFUSED: connection refused" end
    local near, far = net.memory { latency = math.random() / 100, chunk = math.random(9) }
    near:set_keeps_alive(false)
    world.far = far
    world.task = rl.task { function()
      local stream <close> = far
      answer_all(world, stream)
    end, name = name, keeps_alive = false }
    return near
  end }))
  return world, client
end

local FAULTS = {
  cancel = function(_, tasks) rl.sleep(math.random() / 50) tasks[math.random(#tasks)]:cancel() end,
  ["time-out"] = function(world) world.stalls = math.random() * 2 end,
  cut = function(world, _, round) world.left = round % 40 end,
  stall = function(world) world.stalls = 5 end,
  restart = function(world)
    rl.sleep(math.random() / 50)
    world.is_down = true
    world.far:abort()
    rl.sleep(math.random())
    world.is_down = false
  end,
}

local REFUSED = { ["timed out"] = true, ["became invalid"] = true }

for name, inject in pairs(FAULTS) do
  t.it("each call gets its own answer or one refusal: " .. name, { timeout = 600 }, function()
    local world, client = world_of(name)
    local right, refused = 0, 0
    for round = 1, os.getenv "RLHOST_SOAK" and 1000 or 100 do
      local tasks, results = {}, {}
      for i = 1, 4 do
        local id = round .. "." .. i .. ("x"):rep(math.random(0, 5))
        tasks[i] = rl.task(function()
          rl.sleep(math.random() / 100)
          results[i] = pack(client:call("GET", id))
          local value, problem = results[i][1], results[i][2]
          if value == id then right = right + 1 else refused = refused + 1 end
          t.truthy(value == id or value == nil and (REFUSED[problem] or problem:find "^ENOTCONN: "),
            ("%s got %s %s"):format(id, value, problem))
        end)
      end
      inject(world, tasks, round)
      for i, task in ipairs(tasks) do
        local fine, problem = pcall(task.await, task)
        t.truthy(fine or rl.is_cancelled(problem), problem)
        t.truthy(results[i] or not fine)
      end
      world.stalls, world.left = nil, nil
      t.eventually(function()
        local id = "back" .. round .. math.random()
        local value = client:call("GET", id)
        t.truthy(value == nil or value == id, value)
        right = right + (value and 1 or 0)
        return value
      end, { within = 60 })
    end
    for id, times in pairs(world.seen) do t.equal(times, 1, id) end
    t.truthy(right > 0)
    t.truthy(name == "cancel" or refused > 0)
    client:close()
    world.far:abort()
    rl.sleep(1)
  end)
end

t.it("an incomplete line does not count as an answer", function()
  local world, client = world_of "cut"
  world.left = 2
  t.equal(pack(client:call("GET", "123456789012")), { n = 2, [2] = "became invalid" })
  client:close()
end)
