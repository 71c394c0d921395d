-- runloop.nats over a cable that is cut: neither side is notified, and all data sent meanwhile is lost.

local rl = require "runloop"
local t = require "runloop.test"
local net = require "runloop.net"
local process = require "runloop.process"
local nats = require "runloop.nats"

-- RLHOST_CUTS: how often each test cuts the cable; RLHOST_CUT_SECONDS: how long each cut lasts.
local CUTS = tonumber(os.getenv "RLHOST_CUTS") or 2
local SECONDS = tonumber(os.getenv "RLHOST_CUT_SECONDS") or 1.5
-- Messages in a second.
local PACE = 500
local LIMIT = 60 + CUTS * (SECONDS + 20)

-- Publishes numbers while a cable is cut again and again. `cut(is_cut)` cuts the cable, or joins it again. Returns the
-- numbers of messages that were published, that arrived, that arrived again, and that the event "disconnected" named.
local function publish(far, near, cut, options)
  local came, told, connected = {}, 0, 0
  local distinct, again = 0, 0
  function options.on_event(_, event, details)
    if event == "disconnected" then told = told + details.messages end
    if event == "reconnected" then connected = connected + 1 end
  end
  options.ping = SECONDS / 6
  options.reconnect = { first = 0.05, most = 0.5 }
  local sender <close> = t.truthy(nats.connect(far, options))
  local receiver <close> = t.truthy(nats.connect(near))
  receiver:subscribe("cable", { keeps_alive = false }, function(m)
    if came[m.data] then again = again + 1 else distinct = distinct + 1 end
    came[m.data] = true
  end)
  receiver:flush(5)
  local count, is_over = 0, false
  local publishing = rl.task(function()
    local began = rl.now()
    while not is_over do
      while count < (rl.now() - began) * PACE do
        count = count + 1
        t.equal(sender:publish("cable", tostring(count)), true)
      end
      rl.sleep(0.002)
    end
  end)
  for i = 1, CUTS do
    rl.sleep(0.3)
    cut(true)
    rl.sleep(SECONDS)
    cut(false)
    for _ = 1, 2000 do
      if connected >= i then break end
      rl.sleep(0.01)
    end
    t.equal(connected, i)
  end
  is_over = true
  publishing:await()
  t.equal(sender:flush(20), true)
  t.equal(receiver:flush(20), true)
  rl.sleep(0.05)
  if os.getenv "RLHOST_CUTS" then
    print(("%d cuts of %g s: %d published, %d lost, %d named as lost, %d came again"):format(CUTS, SECONDS, count,
      count - distinct, told, again))
  end
  return count, distinct, again, told
end

-- Starts a forwarder to a port. Returns the forwarder's port, and a function that makes it swallow all bytes.
local function forwarder(port)
  local is_cut = false
  local function carry(from, to)
    while true do
      local bytes = from:read(65536)
      if not bytes then return to:close() end
      if not is_cut then to:write(bytes) end
    end
  end
  local listener = t.truthy(net.serve("127.0.0.1:0", { keeps_alive = false }, function(stream)
    while is_cut do rl.sleep(0.02) end
    local other = net.connect { host = "127.0.0.1", port = port }
    if not other then return end
    rl.task { carry, other, stream, keeps_alive = false }
    carry(stream, other)
  end))
  t.finally(function() listener:invalidate() end)
  return listener:port(), function(now_cut) is_cut = now_cut end
end

t.it("the event names at least as many messages as a cut loses", { real_time = true, timeout = LIMIT }, function()
  local server = t.server "nats"
  local port, cut = forwarder(server:port())
  local count, distinct, again, told = publish(port, server:address(), cut, {})
  t.truthy(told >= count - distinct, ("%d lost, %d told"):format(count - distinct, told))
  t.truthy(count - distinct > 0)
  t.equal(again, 0)
  rl.sleep(0.1)
end)

t.it("a bus with republish loses nothing when connections are cut", { real_time = true, timeout = LIMIT }, function()
  local server = t.server "nats"
  local port, cut = forwarder(server:port())
  local count, distinct = publish(port, server:address(), cut, { republish = true })
  t.equal(distinct, count)
  rl.sleep(0.1)
end)

-- Runs a command. Returns whether this has succeeded.
local function run(...)
  local done = process.run { ... }
  return done ~= nil and done.code == 0
end

t.it("a bus with republish loses nothing when a cable is cut", { real_time = true, timeout = LIMIT }, function()
  local number = math.random(0, 16000)
  local name, far, near = "rl" .. number, "rf" .. number, "rn" .. number
  if not run("ip", "netns", "add", name) then t.skip "network namespaces are not allowed (ip netns add)" end
  t.finally(function() run("ip", "netns", "del", name) end)
  local base = ("10.%d.%d."):format(200 + number // 256 % 50, number % 256)
  local function ip(...) t.truthy(run("ip", ...), table.concat({ ... }, " ")) end
  ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
  ip("addr", "add", base .. "1/30", "dev", near)
  ip("link", "set", near, "up")
  ip("-n", name, "addr", "add", base .. "2/30", "dev", far)
  ip("-n", name, "link", "set", far, "up")
  ip("-n", name, "link", "set", "lo", "up")
  local server = t.server { "ip", "netns", "exec", name, "nats-server", "-a", "0.0.0.0", "-p", "{port}",
    ready = "Server is ready" }
  local count, distinct = publish(base .. "2:" .. server:port(), base .. "2:" .. server:port(), function(is_cut)
    ip("-n", name, "link", "set", far, is_cut and "down" or "up")
  end, { republish = true })
  t.equal(distinct, count)
end)
