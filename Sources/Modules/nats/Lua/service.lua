-- runloop.nats.service: discovery (ADR-32 of NATS): the services of a process on a bus answer the requests PING, INFO
-- and STATS, so that nats.discover, `nats micro list` and `rlhost top --via` find them.

local system = ...
local rl = require "runloop"
local json = require "runloop.json"
local misuse = require "runloop.misuse"
local check = require "runloop.nats.check"
local api = require "runloop.nats.api"

local type, ipairs, pairs = type, ipairs, pairs
local pcall, error = pcall, error
local tostring, tonumber, tointeger, setmetatable = tostring, tonumber, math.tointeger, setmetatable
local format, gsub, match, now = string.format, string.gsub, string.match, rl.now
local concat, sort, unpack, max = table.concat, table.sort, table.unpack, math.max

local service = {}

local VERBS = { "PING", "INFO", "STATS" }
-- The number of calls whose durations a service stores: it reports the longest and the 99th percentile of these.
local KEPT = 256
-- Seconds for which the numbers of the process are cached: others must not be able to keep it busy.
local FRESH = 0.2
local MOST_ANSWERS = 10000

-- Offering ------------------------------------------------------------------------------------------------------------

local Service = {}
Service.__index = Service

local function nanoseconds(seconds) return tointeger(seconds * 1000000000 // 1) end

local function info_of(self)
  local what = self.what
  return { name = what.endpoint, subject = what.subject, queue_group = what.queue or "", metadata = {} }
end

local function stats_of(self)
  local one = info_of(self)
  one.metadata = nil
  one.num_requests, one.num_errors, one.last_error = self.requests, self.errors, self.last_error
  one.processing_time = nanoseconds(self.seconds)
  one.average_processing_time = self.requests > 0 and one.processing_time // self.requests or 0
  local data = self.what.data and self.what.data() or {}
  if self.requests > 0 then
    local lengths = { unpack(self.lengths) }
    sort(lengths)
    data.longest, data.p99 = lengths[#lengths], lengths[max(1, #lengths * 99 // 100)]
  end
  one.data = data
  return one
end

local ANSWERS = {
  PING = function() end,
  INFO = function(self, answer) answer.description, answer.endpoints = self.what.description, { info_of(self) } end,
  STATS = function(self, answer) answer.started, answer.endpoints = self.started, { stats_of(self) } end,
}

-- Answers a request for those services of a bus to which the request applies.
local function answer(bus, message)
  local verb, name, id = match(message.subject, "^%$SRV%.(%u+)%.?([^.]*)%.?([^.]*)$")
  local fill = ANSWERS[verb]
  if not fill or not message.reply then return end
  for _, one in ipairs { unpack(bus._services) } do
    if (name == "" or name == one.name) and (id == "" or id == one.id) then
      local text = { type = format("io.nats.micro.v1.%s_response", verb:lower()), name = one.name, id = one.id,
        version = "1.0.0", metadata = one.metadata }
      fill(one, text)
      bus:_publish("service", message.reply, json.encode(text))
    end
  end
end

-- Subscribes to the requests about a service; or unsubscribes from a subject if no other service of the bus needs it.
local function listen(self, step)
  local bus = self.bus
  for _, verb in ipairs(VERBS) do
    local all = "$SRV." .. verb
    for _, subject in ipairs { all, all .. "." .. self.name, all .. "." .. self.name .. "." .. self.id } do
      local entry = bus._asked[subject] or { count = 0 }
      bus._asked[subject], entry.count = entry, entry.count + step
      if entry.count == 0 then
        bus._asked[subject] = nil
        if entry.one then entry.one:invalidate() end
      end
      entry.one = entry.one or bus:subscribe(subject, { keeps_alive = false, modes = "common", name = "discovery" },
        function(message) answer(bus, message) end)
    end
  end
end

--- Offers a function of this process as a service of a bus until `withdraw`. Returns an object with `count` and
--- `withdraw`. Fields of `what`: `name`, in which dots become "_"; `endpoint`, a word for its kind; `subject` and
--- `queue`, from which it gets its calls; `description`; and `data`, a function that returns a table with more
--- numbers. In that table, `running` is the number of calls under way, and `state` a word for human readers.
function service.offer(bus, what)
  bus._services, bus._asked = bus._services or {}, bus._asked or {}
  local host, pid = api.here()
  local id = require "runloop.encoding".encode(require "runloop.crypto".random(11), "hex")
  local self = setmetatable({ bus = bus, what = what, name = gsub(what.name, "%.", "_"), id = id, requests = 0,
    errors = 0, seconds = 0, lengths = {}, last_error = "", started = api.date(rl.time()),
    metadata = { host = host, pid = tostring(pid), exposes = what.exposes } }, Service)
  table.insert(bus._services, self)
  listen(self, 1)
  return self
end

--- Counts a call that has ended, with its duration, and its error as text.
function Service:count(seconds, problem)
  self.lengths[self.requests % KEPT + 1] = seconds
  self.requests, self.seconds = self.requests + 1, self.seconds + seconds
  if problem then self.errors, self.last_error = self.errors + 1, problem end
end

--- Ends the service. Further calls do nothing.
function Service:withdraw()
  for index, one in ipairs(self.bus._services) do
    if one == self then
      table.remove(self.bus._services, index)
      listen(self, -1)
    end
  end
end

-- The process ---------------------------------------------------------------------------------------------------------

local last

-- Returns the numbers of the process, and the name of the bus that shows them.
local function numbers(bus)
  if not last or now() - last.at > FRESH or now() < last.at then
    local script = arg and arg[0]
    local data = require "runloop.trace.activity"()
    for name, value in pairs(system.load()) do data[name] = value end
    data.host, data.pid = api.here()
    data.script = type(script) == "string" and match(script, "[^/]+$") or "rlhost"
    last = { at = now(), data = data }
  end
  local copy = { name = bus._options.name }
  for name, value in pairs(last.data) do copy[name] = value end
  return copy
end

--- Makes the process the service `rlhost`. `words`: the parts of the process that others may see.
function service.expose(bus, words)
  local known = {}
  for _, word in ipairs(words) do known[word] = true end
  return service.offer(bus, { name = "rlhost", endpoint = "process", subject = "$SRV.STATS.rlhost",
    description = "a process of rlhost", exposes = concat(words, " "),
    data = known.stats and function() return numbers(bus) end })
end

-- Finding -------------------------------------------------------------------------------------------------------------

local function text_of(value) return type(value) == "string" and value or nil end

--- Reads an answer to STATS. Returns { name, id, host, pid, stats }, or nil for other data.
function service.read(data)
  local stats = json.decode(data)
  if type(stats) ~= "table" or not text_of(stats.name) or not text_of(stats.id) then return nil end
  local metadata = type(stats.metadata) == "table" and stats.metadata or {}
  if type(stats.endpoints) ~= "table" then stats.endpoints = {} end
  return { name = stats.name, id = stats.id, host = text_of(metadata.host),
    pid = tointeger(tonumber(text_of(metadata.pid))), stats = stats }
end

local DISCOVER = { name = "string", timeout = "seconds" }

--- nats.discover, for a bus. Waits.
function service.discover(bus, options)
  options = misuse.options(options, DISCOVER, "nats.discover", 2)
  local subject = "$SRV.STATS"
  if options.name then
    local name = gsub(options.name, "%.", "_")
    check.name(name, "nats.discover", "field 'name'")
    subject = subject .. "." .. name
  end
  if bus._status == "closed" then return bus:_why_over() end
  local list = {}
  local done, problem = pcall(function()
    for message in bus:gather(subject, "", { timeout = options.timeout, most = MOST_ANSWERS }) do
      list[#list + 1] = service.read(message.data)
    end
  end)
  if not done then
    if rl.is_cancelled(problem) then error(problem, 0) end
    return nil, problem, match(problem, "^(%u+): ")
  end
  sort(list, function(a, b)
    if a.name ~= b.name then return a.name < b.name end
    return a.id < b.id
  end)
  return list
end

return service
