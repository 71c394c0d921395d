---@meta runloop.metrics

-- Every call of the module `runloop.metrics`: the numbers of a process in Prometheus' text format 0.0.4. A metric
-- exists once in a process: each thread that names it adds to the same number. Every thread may use the module, but the
-- objects for it belong to the thread that made them. Each test of `rlhost test` begins without metrics.

---@class runloop.metrics
local metrics = {}

---Returns the counter with this name. The first call makes it; a call with the same name but another help text, other
---labels or another kind raises an error that names the place of the first call. Calls with the same arguments return
---equal values.
---
---```lua
---local metrics = require "runloop.metrics"
---local requests = metrics.counter("shop_requests_total", "Requests.", { "method", "status" })
---requests:add(1, "GET", 200)
---```
---@param name string letters, digits, `_` and `:`; it ends in `_total`
---@param help string one line about it
---@param labels? string[] names; not those that begin with `__`
---@return runloop.metrics.Counter
function metrics.counter(name, help, labels) end

---Returns the gauge with this name, as `metrics.counter` does. A function in place of the labels returns the number
---when a page is made; it runs in the thread that defined it. If it fails, or takes longer than 0.1 s, the page omits
---the gauge, and a warning says so once.
---@param name string
---@param help string
---@param labels? string[]|fun(): number
---@return runloop.metrics.Gauge
function metrics.gauge(name, help, labels) end

---@class runloop.metrics.HistogramOptions
---@field buckets? number[] upper limits that ascend; eleven from 0.005 to 10 if absent

---Returns the histogram with this name, as `metrics.counter` does. No other metric may have the histogram's name with
---`_bucket`, `_sum` or `_count` appended, because its lines have these names.
---@param name string
---@param help string
---@param labels? string[]
---@param options? runloop.metrics.HistogramOptions
---@return runloop.metrics.Histogram
function metrics.histogram(name, help, labels, options) end

---Returns the page: all metrics in the order in which they were made, after those of the process and its loops. Waits.
---The loops of other threads have 0.1 s to report theirs.
---@return string page
function metrics.text() end

---Returns a handler for `http.serve` that answers with the page.
---
---```lua fragment: a part of a server
---app:get("/metrics", metrics.handler())
---```
---@return fun(): table
function metrics.handler() end

---A number that only grows.
---@class runloop.metrics.Counter
local Counter = {}

---Adds to the number. `add()` adds 1, and so does `add("GET", "200")` with the values of all labels, of which the first
---is a string. A metric has at most 1,000 sets of label values. Changes of further sets are counted in
---`rlhost_metrics_dropped_total`.
---@param n? number 1 if absent; 0 or more
---@param ... string|number the values of the labels, in their order
function Counter:add(n, ...) end

---A number that goes up and down.
---@class runloop.metrics.Gauge
local Gauge = {}

---Sets the number.
---@param n number
---@param ... string|number the values of the labels
function Gauge:set(n, ...) end

---Adds to the number, as `counter:add` does; `n` may be negative.
---@param n? number 1 if absent
---@param ... string|number the values of the labels
function Gauge:add(n, ...) end

---Counts numbers by size.
---@class runloop.metrics.Histogram
local Histogram = {}

---Counts a number.
---@param n number
---@param ... string|number the values of the labels
function Histogram:observe(n, ...) end

---Calls a function and counts the seconds that it takes, including its waits, even if it fails or is cancelled.
---@param fn function
---@param ... string|number the values of the labels
---@return any ... its results
function Histogram:time(fn, ...) end

return metrics
