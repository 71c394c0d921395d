-- runloop.http: requests of a client that are queued.

local t = require "runloop.test"
local rl = require "runloop"
local http = require "runloop.http"

local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

t.describe("requests that wait for their turn", function()
  local server, base
  t.before_each(function()
    server = assert(http.serve(0, function() rl.sleep(60) return "late" end))
    base = "http://" .. server:address()
  end)
  t.after_each(function() server:stop(0) end)

  t.it("are cancelled in the same time each, however many there are", { real_time = true, timeout = 120 }, function()
    local function cost(count)
      local client <close> = http.client { connections = 4 }
      local tasks = {}
      for i = 1, count do tasks[i] = rl.task(client.get, client, base .. "/slow") end
      rl.sleep(0.05)
      collectgarbage()
      local start = os.clock()
      for _, task in ipairs(tasks) do task:cancel() end
      return os.clock() - start
    end
    -- Eight times as many requests would take 64 times as long if the cost of a request grew with the length of the
    -- queue.
    support.scales(cost, 1000, 8000, 20)
  end)

  t.it("begin in order, up to the limits for each host and in all", function()
    local order, most, now = {}, {}, {}
    local app = http.routes()
    app:get("/:name/:number", function(request)
      local name = request.params.name
      now[name] = (now[name] or 0) + 1
      now.all = (now.all or 0) + 1
      most[name], most.all = math.max(most[name] or 0, now[name]), math.max(most.all or 0, now.all)
      order[#order + 1] = name .. request.params.number
      rl.sleep(0.01)
      now[name], now.all = now[name] - 1, now.all - 1
      return "ok"
    end)
    local first, second = assert(http.serve(0, app)), assert(http.serve(0, app))
    local client <close> = http.client { connections = 2, max_connections = 3 }
    local tasks = {}
    for i = 1, 6 do
      for name, server in pairs { a = first, b = second } do
        tasks[#tasks + 1] = rl.task(client.get, client, ("http://%s/%s/%d"):format(server:address(), name, i))
      end
    end
    -- A request that is cancelled or out of time gives its place to the next.
    local cancelled = rl.task(client.get, client, ("http://%s/a/cancelled"):format(first:address()))
    local late = rl.task(client.get, client, ("http://%s/a/late"):format(first:address()), { timeout = 0.005 })
    tasks[#tasks + 1] = rl.task(client.get, client, ("http://%s/a/7"):format(first:address()))
    cancelled:cancel()
    t.equal(cancelled:status(), "cancelled")
    t.equal({ late:await() }, { nil, "timed out" })
    for _, task in ipairs(tasks) do t.equal(task:await().body, "ok") end
    t.equal({ most.a, most.b, most.all }, { 2, 2, 3 })
    t.equal(#order, 13)
    local of_a = {}
    for _, name in ipairs(order) do of_a[#of_a + 1] = name:match "^a(.*)" end
    -- Two requests that are active together may change places.
    for place, number in ipairs(of_a) do t.truthy(math.abs(place - tonumber(number)) <= 1, table.concat(of_a, " ")) end
    first:stop(1)
    second:stop(1)
  end)

  t.it("are cut off by a client that is closed, and do not begin any more", function()
    local client = http.client { connections = 1 }
    local tasks = {}
    for i = 1, 5 do tasks[i] = rl.task(client.get, client, base .. "/slow") end
    rl.sleep(0.05)
    client:close()
    for _, task in ipairs(tasks) do t.equal(select(3, task:await()), "ECANCELED") end
    t.equal(server:statistics().requests, 1)
  end)
end)
