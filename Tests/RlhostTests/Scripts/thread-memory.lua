-- Makes and drops very many of a kind, four times, and prints by how many kB the process has grown from the first time on.
--
--   rlhost thread-memory.lua KIND COUNT

local rl = require "runloop"
local kind, count = arg[1], tonumber(arg[2])

local function resident()
  for line in io.lines "/proc/self/status" do
    local size = line:match "VmRSS:%s*(%d+)"
    if size then return tonumber(size) end
  end
end

-- What the objects have left in the loop's mail is dropped when it runs.
local function settle(i) if i % 1000 == 0 then rl.run { timeout = 0 } end end

local kinds = {}

function kinds.threads(n)
  for _ = 1, n / 8 do
    local threads = {}
    for j = 1, 8 do threads[j] = rl.thread(function(j) return j end, j) end
    for j = 1, 8 do assert(select(2, assert(threads[j]:join())) == j) end
  end
end

function kinds.failures(n)
  for _ = 1, n do assert(rl.thread(function() error { text = "wanted" } end):join() == false) end
end

function kinds.ports(n)
  for i = 1, n do
    local port = rl.port { callback = function() end }
    if i % 2 == 0 then
      rl.current():add(port)
      port:send { data = i }
      port:invalidate()
    end
    settle(i)
  end
end

function kinds.sources(n)
  for i = 1, n do
    local source = rl.source { perform = function() end }
    if i % 2 == 0 then
      rl.current():add(source)
      source:post(i)
      source:invalidate()
    end
    settle(i)
  end
end

local function with_server(fn)
  local server = rl.thread(function() rl.current():add(rl.port {}) return rl.run() end)
  fn(server:loop())
  server:loop():perform(rl.stop)
  assert(server:join())
end

function kinds.performs(n)
  with_server(function(loop)
    for i = 1, n do
      assert(loop:perform { function(i) return i end, i, wait = true } == i)
      loop:perform { print, after = 1000 }:cancel()
    end
  end)
end

function kinds.handles(n)
  with_server(function(loop)
    for i = 1, n do
      local port, source = rl.port {}, rl.source {}
      assert(loop:perform { function(port, source) port:send { data = source } return source end, port, source, wait = true } == source)
    end
  end)
end

local act = kinds[kind] or error("no such kind: " .. tostring(kind))
act(count / 4)
local before
for round = 1, 4 do
  act(count / 4)
  collectgarbage()
  collectgarbage()
  before = before or resident()
end
print("grown by " .. math.max(0, resident() - before) .. " kB")
