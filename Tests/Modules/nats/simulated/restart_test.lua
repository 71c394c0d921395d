-- Simulated: a thousand clients connect again after a server's restart, not all at once.

local rl = require "runloop"
local t = require "runloop.test"
local nats = require "runloop.nats"

-- The simulation has a thousand clients, and counts the connects in each tenth of a second.
local CLIENTS = os.getenv "RLHOST_SIMULATE" and 1000 or 250
local WINDOW = 100 / CLIENTS

-- Stops a server for some seconds, and returns how many clients came back in each window.
local function restart(fake, seconds, count)
  local windows, back, began = {}, 0, nil
  count.fn = function()
    local index = (rl.now() - began) // WINDOW + 1
    windows[index], back = (windows[index] or 0) + 1, back + 1
  end
  fake:stop()
  rl.sleep(seconds)
  began = rl.now()
  fake:start()
  while back < CLIENTS do rl.sleep(0.5) end
  return windows
end

t.it("clients spread their connects after a restart of the server", { timeout = 120 }, function()
  local fake, count, buses = nats.fake { latency = 0.001 }, { fn = print }, {}
  for i = 1, CLIENTS do
    buses[i] = t.truthy(nats.connect(fake, { on_event = function(_, event)
      if event == "reconnected" then count.fn() end
    end }))
  end
  local longest = os.getenv "RLHOST_SIMULATE" and 3 or 2
  local seconds = ({ math.random() / 2, 0.5 + 4 * math.random(), 5 + 55 * math.random() })[math.random(longest)]
  local last, largest = 0, 0
  for index, number in pairs(restart(fake, seconds, count)) do
    last, largest = math.max(last, index), math.max(largest, number)
  end
  local ratio = largest / (CLIENTS / last)
  t.truthy(ratio <= 3, ("after %.1f s: %d connects in %g s, the mean is %.1f"):format(seconds, largest, WINDOW,
    CLIENTS / last))
  for _, bus in ipairs(buses) do bus:close() end
  if os.getenv "RLHOST_SIMULATE" then print(("max\tconnects in 0.1 s beside their mean\t%.2f"):format(ratio)) end
end)
