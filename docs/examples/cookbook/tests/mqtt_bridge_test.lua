local rl, http, process = require "runloop", require "runloop.http", require "runloop.process"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("mqtt_bridge", { real_time = true }, function()
  local broker, bridge, url

  -- Publishes with Debian's mosquitto-clients.
  local function publish(topic, text)
    local port = broker:port()
    local result = assert(process.run { "mosquitto_pub", "-p", port, "-t", topic, "-m", text })
    t.equal(result.code, 0, result.errors)
  end

  t.before_each(function()
    broker = t.server { "mosquitto", "-p", "{port}", ready = "tcp" }
    bridge = support.start("mqtt_bridge", { broker:address(), "house/#", "127.0.0.1:0", virtual_time = false })
    url = bridge:wait_for("http://[%d.:]+", { from = "errors" })
    bridge:wait_for("connected", { from = "errors" })
  end)

  t.it("shows the last message of a topic, and all messages as events", function()
    local events <close> = assert(http.open { url .. "/events" })
    local following = events:events()
    publish("house/kitchen", "21.5")
    t.equal(following(), { event = "house/kitchen", data = "21.5" })
    t.equal(http.get(url .. "/topics/house/kitchen").body, "21.5")
    t.equal(http.get(url .. "/topics/house/cellar").status, 404)
  end)

  t.it("publishes what is posted", function()
    local words = { "mosquitto_sub", "-v", "-d", "-p", broker:port(), "-t", "house/#", terminal = { columns = 300 } }
    local subscriber <close> = t.spawn(words)
    subscriber:wait_for "SUBACK"
    local long = ("x"):rep(200) -- its length takes two bytes
    t.equal(http.post(url .. "/topics/house/lamp", "on").status, 202)
    t.equal(http.post(url .. "/topics/house/long", long).status, 202)
    subscriber:wait_for "house/lamp on"
    subscriber:wait_for("house/long " .. long)
  end)

  t.it("connects again after the broker was away", function()
    broker:restart()
    bridge:wait_for("connected", { from = "errors" })
    publish("house/door", "open")
    t.eventually(function() return http.get(url .. "/topics/house/door").body == "open" end)
  end)
end)
