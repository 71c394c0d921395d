-- runloop.nats.api: sends requests to JetStream, the part of a NATS server that stores messages. Repeats requests where
-- that is safe, and returns the answers as values and codes.

local system = ...
local rl = require "runloop"
local json = require "runloop.json"
local check = require "runloop.nats.check"
local frame = require "runloop.nats.frame"

local type, next, ipairs, tonumber = type, next, ipairs, tonumber
local min, max = math.min, math.max
local format, match, find, now = string.format, string.match, string.find, rl.now

local api = {}

-- LIMIT: the seconds that an API call may take; a cluster finds a leader within this time. PATIENCE: the seconds
-- without an answer after which a request is sent again.
local LIMIT, PATIENCE = 10, 1
-- Seconds. A shorter wait ends at once, since it might not advance a virtual clock.
local SOON = 1e-6
local PREFIX = "$JS.API."

-- The codes of refusals by JetStream's numbers. All other refusals are EPROTO.
local CODES = {
  [10059] = "ENOENT", [10014] = "ENOENT", [10037] = "ENOENT", [10043] = "ENOENT", [10060] = "ENOENT",
  [10005] = "ENOTSUP", [10010] = "ENOTSUP", [10074] = "ENOTSUP", [10039] = "ENOTSUP", [10076] = "ENOTSUP",
  [10035] = "ENOTSUP", [10013] = "EEXIST", [10058] = "EEXIST", [10065] = "EEXIST", [10105] = "EEXIST",
  [10148] = "EEXIST", [10070] = "EAGAIN", [10071] = "EAGAIN", [10164] = "EAGAIN", [10002] = "ENOSPC",
  [10023] = "ENOSPC", [10028] = "ENOSPC", [10047] = "ENOSPC", [10077] = "ENOSPC", [10122] = "ENOSPC",
  [10054] = "EMSGSIZE", [10097] = "EMSGSIZE",
}
-- Refusals that mean "not now": a leader is being elected, a store is being recovered, its servers are away, or a
-- message is on its way to the replicas.
local LATER = { [10004] = true, [10008] = true, [10009] = true, [10040] = true, [10041] = true, [10118] = true,
  [10119] = true, [10158] = true, [10163] = true, [10167] = true }
-- Failures of a request after which it may be sent again.
local AGAIN = { ENOENT = true, ECONNRESET = true, ENOTCONN = true, ENOBUFS = true }

--- Returns a refusal of JetStream as values: nil, the text, the code, and the refusal itself.
function api.refuse(problem, what)
  local number, description = problem.err_code, problem.description or "no reason"
  local code = CODES[number] or problem.code == 404 and "ENOENT" or "EPROTO"
  return nil, format("%s: %s: %s", code, what, description), code, { err_code = number, description = description }
end

-- The fields that are read from parts of answers, and their types.
local FORMS = {
  config = { name = "string", subjects = "table", num_replicas = "number", max_age = "number", max_bytes = "number",
    max_msgs = "number", max_msgs_per_subject = "number", duplicate_window = "number", ack_wait = "number" },
  state = { messages = "number", bytes = "number", first_seq = "number", last_seq = "number" },
  message = { subject = "string", seq = "number", data = "string", hdrs = "string", time = "string" },
  cluster = { leader = "string" },
}
-- The fields, and the parts with one of their fields, that answers to requests have in any case.
local STREAM, CONSUMER = { config = "name", state = "last_seq" }, { config = "ack_policy", name = true }
local NEEDED = {
  ["STREAM.INFO"] = STREAM, ["STREAM.CREATE"] = STREAM, ["STREAM.UPDATE"] = STREAM,
  ["CONSUMER.INFO"] = CONSUMER, ["CONSUMER.CREATE"] = CONSUMER, ["CONSUMER.DURABLE"] = CONSUMER,
  ["STREAM.MSG"] = { message = "seq" }, stored = { stream = true, seq = true },
}
local OWN = { name = "string", created = "string", stream = "string", seq = "number", num_pending = "number" }

-- Whether the fields of a table have their types.
local function has_types(value, form)
  for name, wanted in next, form do
    if value[name] ~= nil and type(value[name]) ~= wanted then return false end
  end
  for _, subject in ipairs(form.subjects and value.subjects or {}) do
    if type(subject) ~= "string" then return false end
  end
  return true
end

-- Whether an answer has the form of JetStream's. Without permissions, any client can answer.
local function is_well_formed(answer, needed)
  if not has_types(answer, OWN) then return false end
  for name, form in next, FORMS do
    local part = answer[name]
    if part ~= nil and (type(part) ~= "table" or not has_types(part, form)) then return false end
  end
  for name, field in next, needed or {} do
    local part = answer[name]
    if part == nil or field ~= true and part[field] == nil then return false end
  end
  return true
end

-- Returns an answer as a table. An answer in a wrong form becomes a refusal. `kind`: a key of NEEDED.
local function decode(message, kind)
  local value, problem = json.decode(message.data), nil
  if type(value) ~= "table" then
    problem = "the answer is not JSON"
  elseif type(value.error) ~= "table" and not is_well_formed(value, NEEDED[kind]) then
    problem = "the answer has the wrong form"
  end
  return problem and { error = { code = 0, description = problem } } or value
end

-- Waits for the answer to a request, which is sent again after each second without an answer. The server may take
-- longer than a second, so the answer to any of the messages counts. Returns the answer; or nil, the reason and its
-- code; and how often the request was sent.
local function await_any(bus, request, next_bytes, headers, deadline)
  local tries = 1
  while true do
    local answer, text, code = request.future:await(max(0, min(PATIENCE, deadline - now())))
    if answer or code or deadline - now() <= SOON then return answer, text, code, tries end
    local entry, link = request.entry, bus._link
    -- A message that still waits for a connection needs no repetition: the bus sends it when it is connected.
    if link and not (entry and entry.text) then
      local bytes, head = next_bytes(), headers and check.headers(headers, "request")
      local fits
      fits, text, code = frame.check(bus, head, bytes)
      if not fits then return nil, text, code, tries end
      request.link, tries = link, tries + 1
      link:put(request.subject, request.reply, text, bytes)
    end
  end
end

--- Sends a request again and again until it is answered. The server may handle it twice. Waits. `data`: bytes, or a
--- function that returns them for each try; with a function, no try waits for a connection. After a failure,
--- `give_up(code)`, if given, decides whether to end: it returns nil, or a function that returns the results. Returns
--- the answer, and how often the request was sent; or nil, the reason and its code.
function api.repeated(bus, what, subject, data, headers, timeout, give_up)
  local deadline, pause, tries = now() + timeout, 0.05, 0
  local is_renewed = type(data) == "function"
  local next_bytes = is_renewed and data or function() return data end
  local options = { headers = headers, await = function(request)
    local answer, text, code, sent = await_any(bus, request, next_bytes, headers, deadline)
    tries = tries + sent
    return answer, text, code
  end }
  while true do
    while is_renewed and not bus._link and bus._status ~= "closed" and deadline - now() > SOON do
      rl.sleep(min(pause, deadline - now()))
    end
    local message, text, code = bus:_request(what, subject, next_bytes(), options)
    if message then
      if message._status ~= 503 then return message, tries end
      text, code = "ENOENT: nobody answers on " .. subject, "ENOENT"
    end
    if bus._status == "closed" or code and not AGAIN[code] then return nil, text, code end
    local ends = give_up and give_up(code)
    if ends then return ends() end
    local left = deadline - now()
    if left <= SOON then return nil, "timed out", nil, code end
    rl.sleep(min(pause, left))
    pause = min(pause * 2, 1)
  end
end

--- Returns the version of a connection's server as a number: 2010004 for 2.10.4.
function api.version(link)
  local major, minor, patch = match(tostring(link.info.version), "^(%d+)%.(%d+)%.?(%d*)")
  if not major then return 0 end
  return tonumber(major) * 1000000 + tonumber(minor) * 1000 + (tonumber(patch) or 0)
end

--- Returns true if the server has JetStream, as far as is known; or nil, the reason and its code.
function api.is_there(bus)
  local link = bus._link
  if not link then return true end
  local info, where = link.info, link.address.text
  local version = api.version(link)
  if version > 0 and version < 2009000 then
    return nil, format("ENOTSUP: the server %s is %s; streams, buckets and leases need 2.9 or later", where,
      info.version), "ENOTSUP"
  end
  if info.jetstream ~= true and not info.cluster then
    return nil, format("ENOTSUP: the server %s stores nothing: start it with -js%s", where,
      link.address.fake and " (nats.fake { jetstream = true })" or ""), "ENOTSUP"
  end
  return true
end

--- Sends a request to the API, and repeats it for up to 10 s while no leader answers. Waits. `subject`: without
--- "$JS.API."; `about`: the thing in messages. Returns the answer as a table; or nil, the reason, its code and the
--- refusal.
function api.call(bus, what, subject, body, about, limit)
  local there, text, code = api.is_there(bus)
  if not there then return nil, text, code end
  local deadline = now() + (limit or LIMIT)
  local data, count = body and json.encode(body) or "", 0
  while true do
    local message, last
    message, text, code, last = api.repeated(bus, what, PREFIX .. subject, data, nil, deadline - now())
    count = count + (message and text or 0)
    if not message then
      -- If a server with JetStream does not answer, there is no leader now.
      local link = bus._link
      if last == "ENOENT" and link and link.info.jetstream ~= true then
        return nil, format("ENOTSUP: %s: no server with JetStream answers", about), "ENOTSUP"
      end
      return nil, text, code
    end
    local answer = decode(message, match(subject, "^%u+%.%u+"))
    local problem = answer.error
    if type(problem) ~= "table" then return answer end
    -- An earlier try, whose answer was lost, has removed it.
    if count > 1 and problem.code == 404 and find(subject, ".DELETE.", 1, true) then return { success = true } end
    if not LATER[problem.err_code] or now() >= deadline - SOON then return api.refuse(problem, about) end
    rl.sleep(min(0.1, max(0, deadline - now())))
  end
end

--- Reads the answer to a message that was to be stored. Returns the answer; or nil, the reason, its code and the
--- refusal; or only nil if the message may be sent again.
function api.acknowledgement(bus, message, about)
  local answer, link = decode(message, "stored"), bus._link
  local problem = answer.error
  -- In a cluster, the number 0 means that the server has seen the id, but that the message is not on its replicas yet,
  -- and may never be. From a single server, 0 means that it has dropped the message, since no consumer of a stream of
  -- interest wanted it.
  if type(problem) ~= "table" and answer.seq == 0 and (not link or link.info.cluster) then return nil end
  if type(problem) ~= "table" then return answer end
  if LATER[problem.err_code] then return nil end
  return api.refuse(problem, about)
end

-- Seconds for which a request is repeated if a cluster answers "not found": after a restart, a server may not know
-- everything yet.
local GRACE = 2

--- Returns whether to accept the answer "not found". `since`: when a server first gave that answer.
function api.is_gone(bus, since)
  local link = bus._link
  return link ~= nil and (not link.info.cluster or now() - since >= GRACE)
end

local SECOND = 1000000000
--- The longest time in seconds that is passed to servers: a hundred years. Servers count nanoseconds in 64 bits.
api.CENTURY = 3155760000

--- Returns seconds in JetStream's form: an integer number of nanoseconds.
function api.nanoseconds(seconds) return math.tointeger(seconds * SECOND // 1) end

function api.seconds(nanoseconds) return (nanoseconds or 0) / SECOND end

--- Converts a point in time such as "2026-01-02T03:04:05.678Z" to seconds as rl.time returns them.
function api.time_of(text)
  local year, month, day, clock = match(text or "", "^(%d+)-(%d+)-(%d+)T(.+)$")
  local hour, minute, second, rest = match(clock or "", "^(%d+):(%d+):([%d.]+)(.*)$")
  if not hour then return nil end
  year, month = tonumber(year), tonumber(month)
  -- Days since 1970, counted in years that begin with March.
  local shifted = month <= 2 and year - 1 or year
  local era_day = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400
    + (153 * ((month + 9) % 12) + 2) // 5 + tonumber(day) - 1 - 719468
  local sign, hours, minutes = match(rest, "^([+-])(%d+):(%d+)$")
  local zone = sign and tonumber(sign .. 1) * (tonumber(hours) * 3600 + tonumber(minutes) * 60) or 0
  return era_day * 86400 + tonumber(hour) * 3600 + tonumber(minute) * 60 + tonumber(second) - zone
end

--- Returns a point in time as JetStream reads and writes it.
function api.date(seconds)
  return os.date("!%Y-%m-%dT%H:%M:%S", seconds // 1) .. format("%.6f", seconds % 1):sub(2) .. "Z"
end

--- Returns a random word that no other process uses.
function api.unique(bus)
  bus._last_number = bus._last_number + 1
  return format("%s%d", match(bus._inbox, "([^.]+)%.$"), bus._last_number)
end

--- Returns the name of this machine and this process's id.
function api.here()
  local here = system.identity()
  return here.host, here.pid
end

return api
