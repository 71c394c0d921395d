-- runloop.metrics: numbers of the process, and the page that shows them to Prometheus.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, wrong, describe = misuse.raise, misuse.wrong, misuse.describe
local type, ipairs, pairs = type, ipairs, pairs
local pcall, tostring, setmetatable = pcall, tostring, setmetatable
local format, match, find, gsub = string.format, string.match, string.find, string.gsub
local concat = table.concat

local metrics = {}
local COUNTER, GAUGE, HISTOGRAM = 0, 1, 2
local NAMES = { [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram" }
local BUCKETS = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10 }
local LIMIT, MOST_LABELS = 0.1, 32

local function warn_of_series(name)
  native.warn(format("metric %s has 1,000 sets of label values; further ones are counted in "
    .. "rlhost_metrics_dropped_total (do not use paths, addresses or numbers of requests as labels)", name))
end

local store = native.open(misuse, { warn_of_series })

local PROCESS = {
  { "process_cpu_seconds_total", "counter", "CPU time of the process, in seconds." },
  { "process_resident_memory_bytes", "gauge", "Resident memory of the process, in bytes." },
  { "process_open_fds", "gauge", "Open descriptors." },
  { "process_max_fds", "gauge", "The limit of open descriptors." },
  { "process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970." },
}
local LOOPS = {
  { "rlhost_loop_passes_total", "counter", "Passes of the loop.", 2 },
  { "rlhost_loop_busy_seconds_total", "counter", "Seconds that the loop has spent awake.", 3 },
  { "rlhost_loop_longest_callback_seconds", "gauge", "The longest callback since the page was last read.", 4 },
  { "rlhost_lua_memory_bytes", "gauge", "Bytes of Lua's memory.", 6 },
}
local TAKEN = { rlhost_info = true, rlhost_tasks = true, rlhost_metrics_dropped_total = true }
for _, rows in ipairs { PROCESS, LOOPS } do
  for _, row in ipairs(rows) do TAKEN[row[1]] = true end
end

-- Making --------------------------------------------------------------------------------------------------------------

local function check_name(what, name, kind)
  if type(name) ~= "string" then wrong(what, "argument #1", "a name", name) end
  if not find(name, "^[%a_:][%w_:]*$") then
    raise("%s: a name has letters, digits, '_' and ':' and does not begin with a digit, got %s", what, describe(name))
  end
  if TAKEN[name] then raise("%s: %s belongs to the host, which always provides it", what, name) end
  if kind == COUNTER and not find(name, "_total$") then
    raise("%s: the name of a counter ends in \"_total\", got %s", what, describe(name))
  end
end

local function check_labels(what, labels, kind)
  if labels == nil then return {} end
  if type(labels) ~= "table" then wrong(what, "argument #3", "a list of names", labels) end
  local copy, seen = {}, {}
  for index, name in ipairs(labels) do
    if type(name) ~= "string" then wrong(what, "label #" .. index, "a name", name) end
    if not find(name, "^[%a_][%w_]*$") or find(name, "^__") then
      raise("%s: a label has letters, digits and '_', and does not begin with a digit or \"__\", got %s", what,
        describe(name))
    end
    if kind == HISTOGRAM and name == "le" then raise("%s: the label \"le\" is reserved for the buckets", what) end
    if seen[name] then raise("%s: there are two labels %s", what, describe(name)) end
    copy[index], seen[name] = name, true
  end
  for key in pairs(labels) do
    if copy[key] == nil then wrong(what, "argument #3", "a list of names", labels) end
  end
  if #copy > MOST_LABELS then raise("%s: at most %d labels are possible, got %d", what, MOST_LABELS, #copy) end
  return copy
end

local function check_buckets(what, buckets)
  if buckets == nil then return BUCKETS end
  local last, copy = -math.huge, {}
  for index, limit in ipairs(buckets) do
    if type(limit) ~= "number" or limit ~= limit then wrong(what, "bucket #" .. index, "a number", limit) end
    if limit <= last then raise("%s: the buckets must ascend, got %s after %s", what, limit, last) end
    last = limit
    -- The bucket without a limit always exists.
    if limit < math.huge then copy[index] = limit + 0.0 end
  end
  if #copy == 0 then raise("%s: field 'buckets' must have at least one limit", what) end
  return copy
end

local function define(kind, name, help, labels, buckets, is_asked)
  local what = "metrics." .. NAMES[kind]
  check_name(what, name, kind)
  misuse.argument(help, "string", what, 2)
  if find(name .. help, "\0", 1, true) then raise("%s: argument #2 has a NUL in it", what) end
  local metric, first, other = store.define(
    kind, name, help, check_labels(what, labels, kind), buckets or {}, misuse.place() or "?", is_asked)
  if other and other ~= name then
    raise("%s: %s, made at %s, and %s would have lines of the same name", what, other, first, name)
  end
  if not metric then
    raise("%s: %s was made at %s as another kind, or with another help text, labels or buckets", what, name, first)
  end
  return metric
end

function metrics.counter(name, help, labels) return define(COUNTER, name, help, labels) end

local OPTIONS <const> = { buckets = "table" }

function metrics.histogram(name, help, labels, options)
  options = misuse.options(options, OPTIONS, "metrics.histogram", 4)
  return define(HISTOGRAM, name, help, labels, check_buckets("metrics.histogram", options.buckets))
end

-- Gauges with a function ----------------------------------------------------------------------------------------------

-- For each name: the metric, its function, and whether a warning was printed. When this state ends, the last numbers of
-- its gauges stay.
local asked = setmetatable({}, { __gc = store.leave })

function metrics.gauge(name, help, labels)
  if not misuse.is_callable(labels) then return define(GAUGE, name, help, labels) end
  local metric = define(GAUGE, name, help, nil, nil, true)
  local last = asked[name]
  asked[name] = { metric = metric, fn = labels, has_warned = last and last.has_warned }
  return metric
end

local function complain(name, entry, problem)
  if entry.has_warned then return end
  entry.has_warned = true
  native.warn(format("the function of gauge %s %s; the page omits it", name, problem))
end

-- Asks the functions of this state, all at once. The functions belong to the script, so they may wait and fail.
local function ask_own()
  local waiting
  for name, entry in pairs(asked) do
    if not store.is_shown(entry.metric) then asked[name] = nil end
  end
  for name, entry in pairs(asked) do
    local task = rl.task(function()
      local is_fine, number = pcall(entry.fn)
      if is_fine and type(number) == "number" then
        store.put(entry.metric, number)
      elseif is_fine then
        complain(name, entry, "has answered " .. describe(number) .. " in place of a number")
      elseif not rl.is_cancelled(number) then
        complain(name, entry, "has failed: " .. tostring(number))
      end
    end)
    if task:status() == "waiting" then
      waiting = waiting or {}
      waiting[name] = task
    end
  end
  if not waiting then return end
  local list = {}
  for _, task in pairs(waiting) do list[#list + 1] = task end
  rl.timeout(LIMIT, rl.settle_all, list)
  for name, task in pairs(waiting) do
    if task:status() == "waiting" then
      complain(name, asked[name], "has waited longer than 0.1 s")
      task:cancel()
    end
  end
end

native.begin(function()
  ask_own()
  native.asked()
end)

-- The page ------------------------------------------------------------------------------------------------------------

local function escaped(text) return (gsub(text, '[\\\n"]', { ["\\"] = "\\\\", ["\n"] = "\\n", ['"'] = '\\"' })) end

local function head(lines, row)
  lines[#lines + 1] = format("# HELP %s %s\n# TYPE %s %s", row[1], row[3], row[1], row[2])
end

local function defaults()
  local lines, numbers, loops = {}, { store.process() }, native.loops()
  for index, row in ipairs(PROCESS) do
    -- A number is negative if it is unknown, as without /proc.
    if numbers[index] >= 0 then
      head(lines, row)
      lines[#lines + 1] = row[1] .. " " .. store.number(numbers[index])
    end
  end
  head(lines, { "rlhost_info", "gauge", "The version of rlhost." })
  lines[#lines + 1] = format('rlhost_info{version="%s"} 1', escaped(rl.version or match(_VERSION, "%S+$")))
  for _, row in ipairs(LOOPS) do
    head(lines, row)
    for _, loop in ipairs(loops) do
      lines[#lines + 1] = format('%s{thread="%s"} %s', row[1], escaped(loop[1]), store.number(loop[row[4]]))
    end
  end
  local tasks = 0
  for _, loop in ipairs(loops) do tasks = tasks + loop[5] end
  head(lines, { "rlhost_tasks", "gauge", "Tasks that wait." })
  lines[#lines + 1] = "rlhost_tasks " .. store.number(tasks)
  return concat(lines, "\n") .. "\n"
end

function metrics.text()
  local since = store.clock()
  ask_own()
  native.ask()
  return defaults() .. store.text(since)
end

local TYPE <const> = "text/plain; version=0.0.4; charset=utf-8"
function metrics.handler()
  return function() return { headers = { ["content-type"] = TYPE }, body = metrics.text() } end
end

-- Methods -------------------------------------------------------------------------------------------------------------

local histogram = store.classes[HISTOGRAM + 1].__index
local check_values, observe = histogram.check_labels, histogram.observe
histogram.check_labels = nil

-- The time is measured however the function ends: by its results, an error or a cancellation.
local Watch = {}
function Watch:__close() observe(self[1], rl.now() - self.began, table.unpack(self, 2, self.n)) end

function histogram:time(fn, ...)
  check_values(self, ...)
  if not misuse.is_callable(fn) then wrong("histogram:time", "argument #1", "a function", fn) end
  local watch <close> = setmetatable(table.pack(self, ...), Watch)
  watch.began = rl.now()
  return fn()
end

for index, class in ipairs(store.classes) do
  local name = NAMES[index - 1]
  objects.classes[class] = { name = "runloop.metrics." .. gsub(name, "^%l", string.upper), methods = class.__index }
  internals.on_missing(class.__index, name)
end

return metrics
