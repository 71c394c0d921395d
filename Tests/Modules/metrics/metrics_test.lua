-- runloop.metrics: kinds, labels, the page, threads, limits, wrong arguments and speed.

local t = require "runloop.test"
local rl = require "runloop"
local metrics = require "runloop.metrics"
local process = require "runloop.process"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of
local REAL = { real_time = true }

local of_file = metrics.counter("of_the_file_total", "Made by the file.")

local function matches(text, pattern) t.truthy(text:find(pattern), pattern .. " in: " .. text) end

local function line(name, text)
  for found in (text or metrics.text()):gmatch "[^\n]+" do
    if found:sub(1, #name + 1) == name .. " " then return found:sub(#name + 2) end
  end
end

t.it("each test begins without metrics (1)", function()
  t.equal(line "of_the_file_total", nil)
  metrics.counter("a_total", "A."):add(5)
  of_file:add()
  t.equal(line "of_the_file_total", "1")
end)
t.it("each test begins without metrics (2)", function()
  t.equal(line "a_total", nil)
  t.equal(line "of_the_file_total", nil)
  metrics.gauge("a_total", "Another.", { "x" })
  of_file:add(2)
  t.equal(line "of_the_file_total", "2")
end)

t.it("a page has the counters, gauges and histograms with their texts and labels", function()
  local c = metrics.counter("c_total", "Some \\ help\nof two lines.", { "method", "status" })
  c:add(1, "GET", 200)
  c:add(nil, "GET", 200)
  c:add("POST", "5\"0\\0\n")
  c:add(0.5, "GET", "200")
  local g = metrics.gauge("g", "G.")
  g:set(3)
  g:add(-4.25)
  g:add()
  local h = metrics.histogram("h_seconds", "H.", nil, { buckets = { 0.1, 1, 2.5 } })
  for _, n in ipairs { 0.05, 0.1, 0.7, 2, 9 } do h:observe(n) end
  local page = metrics.text()
  local mine = page:sub(page:find("# HELP c_total", 1, true), -1)
  t.equal(mine, [[
# HELP c_total Some \\ help\nof two lines.
# TYPE c_total counter
c_total{method="GET",status="200"} 2.5
c_total{method="POST",status="5\"0\\0\n"} 1
# HELP g G.
# TYPE g gauge
g -0.25
# HELP h_seconds H.
# TYPE h_seconds histogram
h_seconds_bucket{le="0.1"} 2
h_seconds_bucket{le="1"} 3
h_seconds_bucket{le="2.5"} 4
h_seconds_bucket{le="+Inf"} 5
h_seconds_sum 11.85
h_seconds_count 5
]])
  t.equal(tostring(c) .. tostring(g) .. tostring(h), "counter c_totalgauge ghistogram h_seconds")
end)

t.it("a page has the shortest text of a number that is read back as the same number", function()
  local g = metrics.gauge("g", "G.")
  for number, text in pairs {
    [0.1] = "0.1", [1e21] = "1e+21", [100000] = "100000", [1 / 3] = "0.3333333333333333", [2 ^ 53] = "9007199254740992",
    [5e-324] = "4.94065645841247e-324", [math.huge] = "+Inf", [-math.huge] = "-Inf", [1234567.25] = "1234567.25",
  } do
    g:set(number)
    local shown = line "g"
    t.equal(tonumber((shown:gsub("Inf", "1e999"))), number)
    t.equal(shown, text)
  end
  g:set(0 / 0)
  t.equal(line "g", "NaN")
end)

t.it("the same name returns the same metric, or an error if it was made differently", function()
  metrics.counter("c_total", "C.", { "x" }):add(1, "a")
  metrics.counter("c_total", "C.", { "x" }):add(1, "a")
  t.equal(line 'c_total{x="a"}', "2")
  t.truthy(metrics.counter("c_total", "C.", { "x" }) == metrics.counter("c_total", "C.", { "x" }))
  t.truthy(metrics.counter("c_total", "C.", { "x" }) ~= metrics.counter("d_total", "C.", { "x" }))
  for _, make in ipairs {
    function() metrics.counter("c_total", "Other.", { "x" }) end,
    function() metrics.counter("c_total", "C.", { "y" }) end,
    function() metrics.counter("c_total", "C.") end,
    function() metrics.gauge("c_total", "C.", { "x" }) end,
    function() metrics.histogram("c_total", "C.", { "x" }) end,
  } do
    matches(problem_of(make), "c_total was made at .*metrics_test.lua:%d+ as another kind")
  end
end)

t.it("the lines of a histogram have their names for themselves", function()
  metrics.histogram("h", "H.")
  metrics.gauge("g_count", "G.")
  for _, suffix in ipairs { "_bucket", "_sum", "_count" } do
    matches(problem_of(function() metrics.gauge("h" .. suffix, "H.") end),
      "metrics.gauge: h, made at .*metrics_test.lua:%d+, and h" .. suffix .. " would have lines of the same name")
  end
  matches(problem_of(function() metrics.histogram("g", "G.") end),
    "metrics.histogram: g_count, made at .*, and g would have lines of the same name")
end)

t.it("a page replaces invalid bytes by U+FFFD", function()
  local g = metrics.gauge("g", "G.", { "x" })
  g:set(1, "a\xffb\xed\xa0\x80ü")
  t.equal(line 'g{x="a\u{FFFD}b\u{FFFD}\u{FFFD}\u{FFFD}ü"}', "1")
  g:set(2, ("long"):rep(400))
  t.equal(line('g{x="' .. ("long"):rep(400) .. '"}'), "2")
end)

t.it("histogram:time measures functions that wait, fail or are cancelled", function()
  local h = metrics.histogram("h", "H.", { "x" })
  t.equal({ h:time(function() rl.sleep(2) return 1, nil, 3 end, "a") }, { 1, nil, 3 })
  t.equal(line 'h_sum{x="a"}', "2")
  matches(problem_of(function() h:time(function() rl.sleep(1) error "no" end, "a") end), "no")
  t.equal(line 'h_sum{x="a"}', "3")
  t.equal(rl.timeout(4, h.time, h, function() rl.sleep(60) end, "a"), nil)
  t.equal(line 'h_sum{x="a"}', "7")
  t.equal(line 'h_count{x="a"}', "3")
end)

t.it("each page calls the function of a gauge", function()
  local n = 1
  metrics.gauge("f", "F.", function() n = n * 2 return n end)
  t.equal(line "f", "2")
  t.equal(line "f", "4")
  metrics.gauge("slow", "S.", function() rl.sleep(0.05) return 7 end)
  t.equal(line "slow", "7")
end)

local function run_warned(script)
  local result = process.run { "/proc/" .. process.id() .. "/exe", "-e", script, timeout = 20 }
  return result.output, result.errors
end

t.it("a page leaves out gauges whose functions fail or wait, and warns once", REAL, function()
  local output, errors = run_warned [[
    local metrics, rl = require "runloop.metrics", require "runloop"
    metrics.gauge("bad", "B.", function() error "no luck" end)
    metrics.gauge("late", "L.", function() rl.sleep(5) return 1 end)
    metrics.gauge("odd", "O.", function() return "x" end)
    metrics.gauge("good", "G.", function() return 1 end)
    local start = rl.now()
    local page = metrics.text() .. metrics.text()
    assert(rl.now() - start < 1)
    print(page:find "bad", page:find "late", page:find "odd", (select(2, page:gsub("\ngood 1\n", ""))))]]
  t.equal(output, "nil\tnil\tnil\t2\n")
  t.equal(select(2, errors:gsub("\n", "")), 3)
  matches(errors, "the function of gauge bad has failed: .*no luck; the page omits it")
  matches(errors, "gauge late has waited longer than 0.1 s")
  matches(errors, "gauge odd has answered \"x\" in place of a number")
end)

t.it("all threads share a metric, which stays when a thread ends", REAL, function()
  local output, errors = run_warned [[
    local metrics, rl = require "runloop.metrics", require "runloop"
    local threads = {}
    for i = 1, 3 do
      threads[i] = rl.thread(function()
        local metrics = require "runloop.metrics"
        local c = metrics.counter("c_total", "C.", { "x" })
        for i = 1, 10000 do c:add(1, i % 10) end
        metrics.gauge("last", "L.", function() return 9 end)
        metrics.text()
      end)
    end
    for _, thread in ipairs(threads) do thread:join() end
    local worker = rl.thread { name = "worker", function()
      require "runloop.metrics".gauge("of_worker", "W.", function() return 4 end)
      require "runloop".sleep(60)
    end }
    rl.sleep(0.2)
    local page = metrics.text()
    print(page:match '\nc_total{x="3"} (%d+)', page:match "\nlast (%d+)", page:match "\nof_worker (%d+)",
      page:match 'rlhost_loop_passes_total{thread="worker"} %d+' ~= nil)
    worker:cancel()]]
  t.equal(errors, "")
  t.equal(output, "3000\t9\t4\ttrue\n")
end)

t.it("a metric has at most 1,000 sets of label values, and warns once", REAL, function()
  local output, errors = run_warned [[
    local metrics = require "runloop.metrics"
    local c = metrics.counter("c_total", "C.", { "path" })
    for i = 1, 1500 do c:add(1, "/" .. i) end
    c:add(1, "/7")
    local page = metrics.text()
    print(select(2, page:gsub("\nc_total{", "")), page:match 'c_total{path="/7"} (%d+)',
      page:match '\nrlhost_metrics_dropped_total{metric="c_total"} (%d+)')]]
  t.equal(output, "1000\t2\t500\n")
  matches(errors, "^rlhost: metric c_total has 1,000 sets of label values")
  t.equal(select(2, errors:gsub("\n", "")), 1)
end)

t.it("a page always has the numbers of the process and its loops", REAL, function()
  local output, errors = run_warned [[
    local metrics, rl = require "runloop.metrics", require "runloop"
    local function busy(seconds) local ends = rl.now() + seconds while rl.now() < ends do end end
    rl.after(0.01, function() busy(0.3) end)
    rl.sleep(0.5)
    local first = metrics.text()
    rl.sleep(0.05)
    local page = metrics.text()
    local function n(name, text) return tonumber((text or page):match("\n" .. name .. " (%S+)")) end
    assert(n "process_cpu_seconds_total" > 0.02, n "process_cpu_seconds_total")
    assert(n "process_resident_memory_bytes" > 1e6)
    assert(n "process_open_fds" >= 3 and n "process_open_fds" < n "process_max_fds")
    assert(math.abs(n "process_start_time_seconds" - rl.time()) < 60)
    assert(page:find 'rlhost_info{version="[%d.]+')
    assert(n 'rlhost_loop_passes_total{thread="main"}' > 2)
    local was_busy = n 'rlhost_loop_busy_seconds_total{thread="main"}'
    assert(was_busy > 0.25 and was_busy < 5, was_busy)
    assert(n('rlhost_loop_longest_callback_seconds{thread="main"}', first) > 0.25)
    assert(n 'rlhost_loop_longest_callback_seconds{thread="main"}' < 0.25)
    assert(rl.current():stats().longest_callback > 0.25)
    assert(n "rlhost_tasks" >= 0 and n 'rlhost_lua_memory_bytes{thread="main"}' > 10000)
    print "fine"]]
  t.equal(errors, "")
  t.equal(output, "fine\n")
end)

t.it("a page has the numbers of a process without free descriptors, too", REAL, function()
  local script = [[
    local metrics = require 'runloop.metrics'
    local start, files, file = metrics.text():match '\nprocess_start_time_seconds (%S+)', {}, nil
    repeat
      file = io.open '/dev/null'
      files[#files + 1] = file
    until not file
    local page = metrics.text()
    print(page:match '\nprocess_open_fds (%S+)', tonumber(page:match '\nprocess_resident_memory_bytes (%S+)') > 1e6,
      math.abs(page:match '\nprocess_start_time_seconds (%S+)' - start) < 1)]]
  local run = process.run { "sh", "-c", 'ulimit -n 30; exec "$0" -e "$1"', t.rlhost, script }
  t.equal({ run.output, run.errors }, { "30\ttrue\ttrue\n", "" })
end)

t.it("metrics.handler serves the page under http.serve", REAL, function()
  local http = require "runloop.http"
  metrics.counter("c_total", "C."):add()
  local server = assert(http.serve("127.0.0.1:0", metrics.handler()))
  local response = assert(http.get("http://" .. server:address() .. "/metrics"))
  t.equal(response.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
  t.equal(line("c_total", response.body), "1")
  server:stop()
end)

t.it("promtool accepts the page", REAL, function()
  if process.shell("command -v promtool").code ~= 0 then return t.skip "promtool is not installed" end
  metrics.counter("c_total", "C.", { "a" }):add(1, "x\"\\\n")
  metrics.histogram("h_seconds", "H.", { "a" }):observe(1, "y")
  metrics.gauge("g", "G\\\n.", function() return 0.1 end)
  local result = process.run { "promtool", "check", "metrics", input = metrics.text() }
  t.equal(result.output .. result.errors, "")
  t.equal(result.code, 0)
end)

t.it("wrong arguments raise errors that name the function", function()
  local c, g = metrics.counter("c_total", "C.", { "a", "b" }), metrics.gauge("g", "G.")
  local h = metrics.histogram("h", "H.")
  for text, call in pairs {
    ["metrics.counter: argument #1 must be a name, got 5"] = function() metrics.counter(5, "x") end,
    ["metrics.counter: the name of a counter ends in \"_total\""] = function() metrics.counter("c", "x") end,
    ["metrics.gauge: a name has letters"] = function() metrics.gauge("1c", "x") end,
    ["metrics.gauge: argument #2 must be a string, got nothing"] = function() metrics.gauge "x" end,
    ["metrics.gauge: argument #3 must be a list of names"] = function() metrics.gauge("x", "y", { a = 1 }) end,
    ["metrics.gauge: a label has letters"] = function() metrics.gauge("x", "y", { "__a" }) end,
    ["metrics.gauge: there are two labels \"a\""] = function() metrics.gauge("x", "y", { "a", "a" }) end,
    ["metrics.gauge: rlhost_tasks belongs to the host"] = function() metrics.gauge("rlhost_tasks", "y") end,
    ["metrics.histogram: the label \"le\""] = function() metrics.histogram("x", "y", { "le" }) end,
    ["metrics.histogram: the buckets must ascend, got 1"] = function()
      metrics.histogram("x", "y", nil, { buckets = { 1, 1 } })
    end,
    ["metrics.histogram: unknown field 'bucket' (did you mean 'buckets'?)"] = function()
      metrics.histogram("x", "y", nil, { bucket = { 1 } })
    end,
    ["counter:add: argument #1 must be a number, 0 or more"] = function() c:add(-1, "x", "y") end,
    ["(only a gauge can go down), got "] = function() c:add(0 / 0, "x", "y") end,
    ["counter:add: c_total has labels (a, b): 2 label values are expected, got 1"] = function() c:add(1, "x") end,
    ["counter:add: c_total has labels (a, b): 2 label values are expected, got 0"] = function() c:add() end,
    ["counter:add: label 'b' must be a string or a number, got nil"] = function() c:add(1, "x", nil) end,
    ["gauge:set: g has no labels: no label values are expected, got 1"] = function() g:set(1, "x") end,
    ["gauge:set: argument #1 must be a number, got \"1\""] = function() g:set "1" end,
    ["gauge:set: call it with a colon, on a metric of this kind"] = function() g.set(h, 1) end,
    ["histogram:observe: argument #1 must be a number other than NaN"] = function() h:observe(0 / 0) end,
    ["histogram:time: argument #1 must be a function, got 5"] = function() h:time(5) end,
    ["histogram:time: h has no labels"] = function() h:time(print, 1) end,
  } do
    t.truthy(problem_of(call):find(text, 1, true), text .. " in: " .. problem_of(call))
  end
end)

t.it("an increment costs as much as a few calls of string.format", REAL, function()
  local c, two = metrics.counter("c_total", "C."), metrics.counter("two_total", "C.", { "method", "status" })
  local function per_call(n, fn)
    local best = math.huge
    for _ = 1, 5 do
      local start = os.clock()
      for _ = 1, n do fn() end
      best = math.min(best, (os.clock() - start) / n)
    end
    return best * 1e6
  end
  local unit = per_call(100000, function() return ("%s %d"):format("GET", 200) end)
  local plain = per_call(100000, function() c:add() end) / unit
  local labels = per_call(100000, function() two:add(1, "GET", "200") end) / unit
  for i = 1, 999 do two:add(1, "GET", i) end
  local series = per_call(5, metrics.text) / 1000 / unit
  print(("string.format takes %.2f µs; add %.1f times that, with two labels %.1f, a series of a page %.1f"):format(
    unit, plain, labels, series))
  t.truthy(plain < 4 and labels < 12 and series < 60)
end)
