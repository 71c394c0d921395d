-- runloop.nats.traces: the service of a bus with expose = { "trace" } for `rlhost trace --via`: it records on demand,
-- and sends the recording in pieces.
--
-- All requests are JSON, on `<prefix>.trace` to all processes, and on `<prefix>.trace.<id>` to one:
--   { "op": "begin", "names": […], "seconds": 5 }  → { "id", "host", "pid", "name", "script", "session" }, or "problem"
--                                                    in place of "session"; processes of other names are silent
--   { "op": "piece", "session", "at": byte }       → "+" and bytes, no more at the end; or "-" and the problem
--   { "op": "stop", "session" }                    → "+"; the recording ends early
--   { "op": "end", "session" }                     → "+"; the recording is forgotten

local rl = require "runloop"
local fs = require "runloop.fs"
local json = require "runloop.json"
local api = require "runloop.nats.api"

local type, ipairs, pairs, open = type, ipairs, pairs, io.open
local format, match, min, max = string.format, string.match, math.min, math.max
local setmetatable = setmetatable

local traces = {}

-- Bytes of a recording.
local LIMIT = 256 << 20
local MOST_SECONDS = 3600
-- The largest number of recordings that can wait to be fetched.
local MOST_SESSIONS = 4
-- Seconds for which a recording waits for the next question.
local PATIENCE = 60
-- Bytes of the smallest piece.
local SMALLEST = 256

-- Names ---------------------------------------------------------------------------------------------------------------

local function script_of()
  local path = arg and arg[0]
  return type(path) == "string" and match(path, "[^/]+$") or "rlhost"
end

-- Whether one of the names is that of the bus, of the script, or the place HOST:PID.
local function is_meant(self, names)
  if type(names) ~= "table" then return false end
  local own, place, script = self.bus._options.name, format("%s:%d", api.here()), script_of()
  for _, name in ipairs(names) do if name == own or name == place or name == script then return true end end
  return false
end

-- Recordings ----------------------------------------------------------------------------------------------------------

-- Forgets a recording, and ends it if it is under way.
local function forget(self, session)
  if self.sessions[session.number] ~= session then return end
  self.sessions[session.number], self.count = nil, self.count - 1
  if session.timer then session.timer:invalidate() end
  if session.file then session.file:close() end
  if session.task and not session.is_done then session.task:cancel() end
end

-- Waits for the next question about a recording, for a while.
local function wait_on(self, session)
  if session.timer then session.timer:invalidate() end
  session.timer = rl.timer { delay = PATIENCE, keeps_alive = false, modes = "common", name = "recording for others",
    callback = function() forget(self, session) end }
end

local function remove(place) fs.remove(place, { recursive = true }) end

-- Begins to record into a file. Returns the file's directory; or nil and the problem.
local function start(seconds)
  local place, problem = fs.temporary_directory()
  if not place then return nil, problem end
  if not seconds then return place end
  local begun
  begun, problem = rl.trace.start(place .. "/recording.pftrace", { limit = LIMIT })
  if begun then return place end
  remove(place)
  return nil, problem
end

-- Records until the time is over or `session.stop` is completed. Returns true; or nil and the problem.
local function record(session, path, seconds)
  if not seconds then return rl.trace.dump(path) end
  local _ <close> = setmetatable({}, { __close = function() rl.trace.stop() end })
  session.stop:await(seconds)
  return true
end

-- Makes a recording, as a task. The file is unlinked before the recording can be fetched, so that no file is left
-- behind.
local function run(self, session, seconds, place)
  local _ <close> = setmetatable({}, { __close = function() remove(place) end })
  local path = place .. "/recording.pftrace"
  local done, problem = record(session, path, seconds)
  if done then session.file, problem = open(path, "rb") end
  session.is_done, session.problem = true, not session.file and (problem or "there is no recording") or nil
  session.ready:complete()
  wait_on(self, session)
end

-- Questions -----------------------------------------------------------------------------------------------------------

local function begin(self, question)
  if not is_meant(self, question.names) then return nil end
  local seconds = question.seconds
  local answer = { id = self.id, name = self.bus._options.name, script = script_of() }
  answer.host, answer.pid = api.here()
  if seconds ~= nil and (type(seconds) ~= "number" or not (seconds > 0 and seconds <= MOST_SECONDS)) then
    answer.problem = format("EINVAL: a recording takes at most %d s", MOST_SECONDS)
  elseif self.count >= MOST_SESSIONS then
    answer.problem = format("EBUSY: %d recordings are already being made or fetched", MOST_SESSIONS)
  else
    self.last, self.count = self.last + 1, self.count + 1
    local session = { number = self.last, ready = rl.future(), stop = rl.future() }
    self.sessions[session.number], answer.session = session, session.number
    local place, problem = start(seconds)
    if place then
      session.task = rl.task { run, self, session, seconds, place, name = "recording for others", keeps_alive = false }
    else
      forget(self, session)
      answer.session, answer.problem = nil, problem
    end
  end
  return json.encode(answer)
end

-- Returns the bytes from a place on, at most half of what a message may have.
local function piece(self, session, at)
  if not session.is_done then session.ready:await(MOST_SECONDS + PATIENCE) end
  if session.problem then return "-" .. session.problem end
  if math.type(at) ~= "integer" or at < 0 then return "-EINVAL: no such place" end
  local link = self.bus._link
  local most = max(SMALLEST, (link and link.max_payload or self.bus._max_payload) // 2)
  wait_on(self, session)
  session.file:seek("set", min(at, LIMIT))
  return "+" .. (session.file:read(most - 1) or "")
end

local function answer(self, question)
  if question.op == "begin" then return begin(self, question) end
  local session = self.sessions[question.session]
  if not session then return "-ENOENT: there is no such recording" end
  if question.op == "piece" then return piece(self, session, question.at) end
  if question.op == "stop" then session.stop:complete() return "+" end
  if question.op == "end" then forget(self, session) return "+" end
  return "-EINVAL: no such question"
end

-- Handles a question. Any client of the bus may have sent it.
local function handle(self, message)
  local question = json.decode(message.data)
  if type(question) ~= "table" or not message.reply then return end
  local text = answer(self, question)
  if text then message:respond(text) end
end

--- The connection is about to be closed.
function traces:_closing()
  for _, session in pairs(self.sessions) do forget(self, session) end
end
traces.__index = traces

--- Lets others on the bus fetch recordings of this process.
function traces.expose(bus)
  local self = setmetatable({ bus = bus, id = api.unique(bus), sessions = {}, count = 0, last = 0 }, traces)
  bus._parts[self] = true
  for _, subject in ipairs { bus._prefix .. ".trace", bus._prefix .. ".trace." .. self.id } do
    bus:subscribe(subject, { keeps_alive = false, modes = "common", concurrency = 64, name = "recordings for others" },
      function(message) handle(self, message) end)
  end
end

return traces
