-- The mixed server of scripts/soak: serves itself over HTTP, TLS, WebSockets and raw streams, and meanwhile uses the
-- other modules. RATE is the number of operations per second; each second the server prints how many it has done. Every
-- ten seconds it rests for three, so that nothing is in progress when it prints "rested" and the bytes that are in use.

local rl, net, http, fs = require "runloop", require "runloop.net", require "runloop.http", require "runloop.fs"
local process, json, schedule = require "runloop.process", require "runloop.json", require "runloop.schedule"

local RATE <const>, DIRECTORY <const> = tonumber(arg[1]), arg[2]
local TICK <const>, CYCLE <const>, REST <const> = 0.05, 10, 3
local TLS <const> = { certificate = DIRECTORY .. "/cert.pem", key = DIRECTORY .. "/key.pem" }

local done, failed = 0, 0
local used = assert(package.loadlib(DIRECTORY .. "/used.so", "luaopen_used"))()

local routes = http.routes()
routes:get("/item/:id", function(request) return http.json { id = request.params.id, tags = { "a", "b" } } end)
routes:post("/echo", function(request) return request:body() end)
routes:get("/slow", function() rl.sleep(0.2) return "late" end)
routes:get("/events", function(request)
  local events = request:respond():events()
  for i = 1, 3 do events:send { data = tostring(i) } end
end)
routes:websocket("/socket", function(socket) for message in socket:messages() do socket:send(message) end end)
local plain = assert(http.serve("127.0.0.1:0", routes))
local secure = assert(http.serve("127.0.0.1:0", { tls = TLS }, routes))
local echo = assert(net.serve({ host = "127.0.0.1", port = 0 }, function(stream)
  for line in stream:lines() do stream:write(line, "\n") end
end))
local client, trusting
local function open_clients() client, trusting = http.client {}, http.client { tls = { verify = false } } end
open_clients()
local PLAIN <const>, SECURE <const> = "http://" .. tostring(plain:address()), "https://" .. tostring(secure:address())

local port = assert(rl.message_port { name = "soak." .. process.id(), callback = function(_, _, data) return data end,
  modes = "common" })
local remote = assert(rl.remote_port("soak." .. process.id()))
local pool = rl.pool { threads = 2 }
local changes = 0
fs.watch(DIRECTORY .. "/watched", { recursive = true }, function() changes = changes + 1 end)

local function get(path) assert(client:get(PLAIN .. path)) end

-- Operations that run often; slow ones run seldom.
local OFTEN <const> = {
  function() get("/item/" .. math.random(999)) end,
  function() assert(client:post(PLAIN .. "/echo", ("x"):rep(math.random(5000)))) end,
  function()
    local stream <close> = assert(net.connect(tostring(echo:address())))
    stream:write(("line "):rep(math.random(50)), "\n")
    assert(stream:read_line())
  end,
  function()
    local a, b = net.pair()
    local first <close> = a
    local second <close> = b
    a:write "x"
    assert(b:read(1) == "x")
  end,
  function()
    local a, b = net.memory()
    local first <close> = a
    local second <close> = b
    a:write "text\n"
    assert(b:read_line() == "text")
  end,
  function() assert(json.decode(json.encode { list = { 1, 2, 3 }, name = "x" }).list[3] == 3) end,
  function()
    local task = rl.task(function() rl.sleep(60) end)
    rl.sleep(0)
    task:cancel()
  end,
  function() rl.timeout(0.001, function() rl.sleep(1) end) end,
  function()
    local channel = rl.channel(2)
    rl.task(function() channel:send(1) end)
    assert(channel:receive() == 1)
  end,
  function()
    local timer = rl.timer { interval = 0.001, callback = function(timer) timer:invalidate() end }
    rl.current():add(timer)
  end,
  function() assert(remote:request(1, ("m"):rep(math.random(500)), { reply_timeout = 5 })) end,
  function()
    local name = DIRECTORY .. "/watched/" .. math.random(50)
    assert(fs.write(name, "text"))
    fs.read(name)
    fs.remove(name)
  end,
}
local SELDOM <const> = {
  function() assert(trusting:get(SECURE .. "/item/1")) end,
  function()
    local fresh = http.client { tls = { verify = false } }
    assert(fresh:get(SECURE .. "/item/2"))
    fresh:close()
  end,
  function() rl.timeout(0.05, function() client:get(PLAIN .. "/slow") end) end,
  function() for _ in client:get(PLAIN .. "/events").body:gmatch "data" do end end,
  function()
    local socket = assert(http.websocket("ws" .. PLAIN:sub(5) .. "/socket"))
    socket:send "hello"
    assert(socket:receive() == "hello")
    socket:close()
  end,
  function() assert(process.run { "true" }) end,
  function() assert(pool:run(function(n) return n * 2 end, 21) == 42) end,
  function() assert(rl.blocking(function() return 1 end) == 1) end,
  function() assert(rl.thread(function() require "runloop".sleep(0.01) return 1 end):join()) end,
  function()
    local thread = rl.thread(function() while true do end end)
    rl.sleep(0.01)
    thread:cancel()
    thread:join()
  end,
  function() net.resolve "localhost" end,
  function()
    local job = schedule.daily("12:00", function() end)
    job:invalidate()
  end,
}

local function attempt(act)
  rl.task(function()
    local fine, message = pcall(act)
    done = done + 1
    if fine then return end
    failed = failed + 1
    if failed <= 10 then io.stderr:write(tostring(message), "\n") end
  end)
end

local rests = false
rl.every(TICK, function()
  for _ = 1, rests and 0 or math.floor(RATE * TICK) do
    attempt(math.random(100) > 1 and OFTEN[math.random(#OFTEN)] or SELDOM[math.random(#SELDOM)])
  end
end)
local function report(word) print(done, failed, word, used()) io.stdout:flush() end
rl.every(1, function() report "works" end)
rl.every(CYCLE, function()
  rests = true
  rl.sleep(REST / 2)
  -- The number of kept connections depends on the load, so close them all.
  client:close()
  trusting:close()
  open_clients()
  collectgarbage()
  collectgarbage()
  -- Once a second, the loop returns free memory of malloc to the system.
  rl.sleep(REST / 2)
  report "rested"
  rests = false
end)
