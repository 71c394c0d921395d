-- tls_front.lua CERTIFICATE KEY LISTEN BACKEND [METRICS]: terminates TLS in front of a server that has none.
-- Each address may have 20 connections at a time. METRICS, such as 127.0.0.1:9100, serves metrics to Prometheus.
local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
local metrics, log = require "runloop.metrics", require "runloop.log"

local certificate, key = arg[1], arg[2]
local listen, backend, numbers = arg[3], arg[4], arg[5]
if not backend then
  io.stderr:write "usage: rlhost tls_front.lua CERTIFICATE KEY LISTEN BACKEND [METRICS]\n"
  os.exit(64)
end
local LIMIT, IDLE = 20, 300 -- connections of an address; seconds

local accepted = metrics.counter("front_connections_total", "Connections by their ends.", { "result" })
local open = metrics.gauge("front_open_connections", "Connections that are open.")
local bytes = metrics.counter("front_bytes_total", "Bytes that were passed on.", { "direction" })
local lasting = metrics.histogram("front_connection_seconds", "How long connections last.")

-- Copies until the end of input, then ends the other side's output.
local function pass(from, to, direction)
  from:set_timeout(IDLE)
  local count, problem, _, part = net.copy(from, to)
  bytes:add(count or part or 0, direction)
  to:finish()
  return count, problem
end

local function forward(client)
  local server <close>, problem = net.connect(backend, { timeout = 5 })
  if not server then
    log.warning("no backend", { problem = problem })
    return "no backend"
  end
  local up, down = rl.all_of(function() return (pass(client, server, "up")) end,
    function() return (pass(server, client, "down")) end)
  return up and down and "complete" or "cut"
end

local addresses = {}
local front = assert(net.serve(listen, { tls = { certificate = certificate, key = key } }, function(client)
  local address = client:peer():match "^(.*):%d+$"
  addresses[address] = (addresses[address] or 0) + 1
  open:add(1)
  local leave <close> = setmetatable({}, { __close = function()
    addresses[address] = addresses[address] > 1 and addresses[address] - 1 or nil
    open:add(-1)
  end })
  if addresses[address] > LIMIT then
    accepted:add(1, "over the limit")
    return client:abort()
  end
  accepted:add(1, lasting:time(function() return forward(client) end))
end))
log.info("listening", { address = front:address(), backend = backend })

local pages
if numbers then
  local app = http.routes()
  app:get("/metrics", metrics.handler())
  pages = assert(http.serve(numbers, app))
  log.info("numbers", { address = pages:address() })
end
rl.on_shutdown(function() front:stop(10) end, { limit = 11 }) -- open connections have ten seconds to end
