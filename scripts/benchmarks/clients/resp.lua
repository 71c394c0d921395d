-- docs/examples/resp.lua beside hiredis and redis-py's asyncio, at the same redis-server. See clients.py. A row is left
-- out, and a line says so, if the server, hiredis' headers or redis-py is missing.

local rl = require "runloop"
local net = require "runloop.net"
local fs = require "runloop.fs"
local process = require "runloop.process"

local here = arg[0]:match "^(.*)/" or "."
local resp = dofile(here .. "/../../../docs/examples/resp.lua")
local share = tonumber(arg[1]) or 1

local function leave_out(what)
  io.stderr:write("resp.lua: left out: ", what, "\n")
end

local place = assert(fs.temporary_directory())
local listener = assert(net.listener { host = "127.0.0.1", port = 0 })
rl.current():add(listener)
local port = listener:port()
listener:close()

local server = process.start { "redis-server", "--port", tostring(port), "--save", "", "--dir", place, output = "null" }
if not server then return leave_out "redis-server is not installed" end

local client
for _ = 1, 100 do
  client = resp.open("127.0.0.1:" .. port)
  if client then break end
  rl.sleep(0.05)
end
assert(client, "redis-server does not answer")
client:call("SET", "key", "value")

-- Prints the median of three turns. In each turn, both take the same number of answers.
local function row(label, goal, count, ours, theirs)
  local times = { {}, {} }
  for i = 1, 3 do
    collectgarbage()
    local start = os.clock()
    ours(count)
    times[1][i] = (os.clock() - start) / count
    local run = process.run(theirs)
    if run.code ~= 0 then return leave_out(label .. ": " .. run.errors) end
    times[2][i] = tonumber(run.output)
  end
  table.sort(times[1])
  table.sort(times[2])
  print(("%s\t%.9f\t%.9f\t%g"):format(label, times[1][2], times[2][2], goal))
end

local pipelines = math.max(50, math.floor(2000 * share))
local program = place .. "/hiredis"
local build = process.run { "cc", "-O2", "-o", program, here .. "/resp_hiredis.c", "-lhiredis" }
if not build or build.code ~= 0 then
  leave_out "libhiredis-dev is not installed"
else
  row("resp.lua: GET in pipelines of 100, beside hiredis", 2.5, pipelines * 100, function(count)
    for _ = 1, count // 100 do
      local futures = {}
      for i = 1, 100 do futures[i] = client:ask("GET", "key") end
      for i = 1, 100 do assert(futures[i]:await() == "value") end
    end
  end, { program, tostring(port), tostring(pipelines) })
end

local rounds = math.max(20, math.floor(400 * share))
row("resp.lua: GET by 50 tasks, beside redis-py's asyncio", 0.15, rounds * 50, function()
  local group <close> = rl.group()
  for _ = 1, 50 do
    group:task(function()
      for _ = 1, rounds do assert(client:call("GET", "key") == "value") end
    end)
  end
  group:wait()
end, { "python3", here .. "/resp_asyncio.py", tostring(port), tostring(rounds) })

client:close()
server:signal "TERM"
server:wait()
fs.remove(place, { recursive = true })
