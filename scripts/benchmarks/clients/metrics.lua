-- Rows of `scripts/bench clients`: numbers for Prometheus. The limit of a row is the time of a call of an empty
-- function plus 0.1 or 0.5 microseconds; the limit of a page is 2 milliseconds.

local metrics = require "runloop.metrics"

local SCALE <const> = tonumber(arg[1]) or 1

-- Returns the time of a call: the shortest of seven tries.
local function best(count, fn)
  local least = math.huge
  count = math.max(1, count * SCALE // 1)
  for _ = 1, 7 do
    local before = os.clock()
    fn(count)
    least = math.min(least, (os.clock() - before) / count)
  end
  return least
end

local function row(label, ours, theirs) print(("%s\t%.9f\t%.9f\t1"):format(label, ours, theirs)) end

local function nothing() end
local empty = best(1e6, function(count) for _ = 1, count do nothing() end end)

local plain = metrics.counter("plain_total", "Without labels.")
row("counter:add, in a call and 0.1 µs", best(1e6, function(count) for _ = 1, count do plain:add() end end),
  empty + 1e-7)

local labelled = metrics.counter("labelled_total", "With two labels.", { "method", "status" })
row("counter:add with two labels, in a call and 0.5 µs", best(1e6, function(count)
  for _ = 1, count do labelled:add(1, "GET", "200") end
end), empty + 5e-7)

local series = metrics.counter("series_total", "A thousand series.", { "number" })
for i = 1, 1000 do series:add(i, tostring(i)) end
row("a page of 1,000 series, in 2 ms", best(50, function(count) for _ = 1, count do metrics.text() end end), 2e-3)
