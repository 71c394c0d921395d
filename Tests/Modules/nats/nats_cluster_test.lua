-- runloop.nats with three real servers that form a cluster: streams with three replicas, and kills of their servers.

local rl = require "runloop"
local t = require "runloop.test"
local net = require "runloop.net"
local nats = require "runloop.nats"

local CONFIGURATION = [[
listen: "127.0.0.1:{port}"
server_name: %s
jetstream { store_dir: "{directory}/stored" }
cluster { name: together, listen: "127.0.0.1:%d", routes: [ %s ] }
]]

-- Starts three servers. Returns a list of the servers, and their addresses with commas between them.
local function cluster()
  local ports, routes, servers, addresses = {}, {}, {}, {}
  for i = 1, 3 do
    local listener = t.truthy(net.serve("127.0.0.1:0", function() end))
    ports[i] = listener:port()
    listener:invalidate()
    routes[i] = '"nats-route://127.0.0.1:' .. ports[i] .. '"'
  end
  for i = 1, 3 do
    servers[i] = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = {
      ["a.conf"] = CONFIGURATION:format("n" .. i, ports[i], table.concat(routes, ", ")) } }
    addresses[i] = servers[i]:address()
  end
  return servers, table.concat(addresses, ",")
end

-- Calls a function until it returns a result. A cluster needs some seconds to choose its first leader.
local function persist(fn)
  local result, text
  for _ = 1, 20 do
    result, text = fn()
    if result then return result end
    rl.sleep(0.5)
  end
  return t.truthy(result, text)
end

local seconds = tonumber(os.getenv "RLHOST_SOAK_SECONDS")

-- Kills the leader of a stream, then all servers. `go_on(count)` returns when `count` further messages were stored.
local function kill(servers, stream, go_on)
  local leader = persist(function()
    local info = stream:info()
    return info and info.leader
  end)
  for i, server in ipairs(servers) do
    if leader == "n" .. i then
      server:kill()
      go_on(100)
      server:restart()
    end
  end
  for _, server in ipairs(servers) do server:kill() end
  for _, server in ipairs(servers) do server:restart() end
  go_on(100)
end

local LIMIT = (seconds or 0) + 300

t.it("no acknowledged message is lost when servers are killed", { real_time = true, timeout = LIMIT }, function()
  -- With a cluster, the whole test takes half a minute.
  if not seconds then t.skip "scripts/soak nats runs it" end
  local servers, addresses = cluster()
  local bus = t.truthy(nats.connect(addresses, { retry = true, timeout = 20, on_event = function() end }))
  t.finally(function() bus:close() end)
  local s = persist(function() return bus:stream("s", { subjects = { "s.>" }, max_age = 600 }) end)
  t.equal(persist(function() return s:info() end).replicas, 3)
  t.equal(select(3, bus:stream("five", { replicas = 5 })), "ENOTSUP")
  local waiting, stored, twice, is_over = {}, 0, 0, false
  persist(function()
    return s:consumer("w", { ack_wait = 2, keeps_alive = false, max_deliver = 100, concurrency = 8 }, function(m)
      if not waiting[m.data] then twice = twice + 1 end
      waiting[m.data] = nil
    end)
  end)
  local tasks = {}
  for number = 1, 16 do
    tasks[number] = rl.task(function()
      local count = 0
      while not is_over do
        count = count + 1
        local data = number .. "." .. count
        waiting[data] = true
        t.truthy(s:publish("s.a", data, { timeout = 20 }))
        stored = stored + 1
        rl.sleep(0.015)
      end
    end)
  end
  local function go_on(count)
    local goal = stored + count
    while stored < goal do rl.sleep(0.02) end
  end
  local deadline, first = rl.now() + seconds, nil
  repeat
    go_on(100)
    kill(servers, s, go_on)
    collectgarbage()
    first = first or collectgarbage "count"
    rl.sleep(math.max(0, math.min(60, deadline - rl.now())))
  until rl.now() >= deadline
  is_over = true
  for _, task in ipairs(tasks) do task:await() end
  for _ = 1, 3000 do
    if next(waiting) == nil then break end
    rl.sleep(0.01)
  end
  t.equal(next(waiting), nil)
  collectgarbage()
  print(("acknowledged %d, lost 0, delivered twice %d; memory %.0f kB, then %.0f kB"):format(stored, twice, first,
    collectgarbage "count"))
end)
