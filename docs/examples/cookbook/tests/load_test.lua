local rl, http = require "runloop", require "runloop.http"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("load", function()
  -- Measures a server whose answer number n takes times(n) seconds.
  local function measure(times, ...)
    local count = 0
    local server = assert(http.serve("127.0.0.1:0", function()
      count = count + 1
      rl.sleep(times(count))
      return count % 50 == 0 and 500 or "four"
    end))
    t.finally(function() server:stop(0) end)
    local load = support.start("load", { "http://" .. server:address() .. "/", ... })
    t.equal(load:wait { within = 600 }, 0, load:errors())
    return load:output(), count
  end

  local function percentile(output, share)
    return math.floor(output:match("([%d.]+)  ms: " .. share .. " %%") / 100 + 0.5) / 10 -- in seconds, rounded
  end

  t.it("keeps all connections busy, and sorts the times of their answers", function()
    local output, count = measure(function(n) return n % 10 == 0 and 2 or 0.2 end, "-c", "4", "-d", "20s")
    t.truthy(output:find(("%8d  200\n"):format(count - count // 50), 1, true), output)
    t.truthy(output:find(("%8d  500\n"):format(count // 50), 1, true), output)
    t.equal({ percentile(output, 50), percentile(output, 99), percentile(output, 100) }, { 0.2, 2.0, 2.0 })
  end)

  t.it("counts the time from the moment at which a request was due", function()
    local stalls = function(n) return n == 1 and 10 or 0 end -- all others wait behind the first
    local output, count = measure(stalls, "-c", "1", "-d", "20s", "--rate", "5")
    t.equal(count, 100)
    t.equal(percentile(output, 100), 10)
    t.truthy(percentile(output, 50) < 0.2 and percentile(output, 90) >= 7, output)
  end)

  t.it("counts what the network refuses", function()
    local load = support.start("load", { "http://127.0.0.1:9/", "-d", "5s", "--rate", "2" })
    load:wait { within = 60 }
    t.truthy(load:output():find "^ +10  ECONNREFUSED: connection refused")
  end)
end)
