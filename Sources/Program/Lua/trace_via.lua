-- runloop.trace_via: `rlhost trace --via URL NAME…`: asks processes on a bus for recordings, collects them, and joins
-- them.

local native = ...
local rl = require "runloop"
local fs = require "runloop.fs"
local json = require "runloop.json"
local nats = require "runloop.nats"
local process = require "runloop.process"
local shown = require "runloop.text".shown

local format, gsub, sub = string.format, string.gsub, string.sub

-- Seconds to wait for the first answers: at least SOON, at most LATE, and until QUIET has passed after the last answer.
-- PATIENCE: the time limit for later answers.
local SOON, LATE, QUIET, PATIENCE = 1, 4, 0.6, 15
-- The largest number of bytes of one recording.
local LIMIT = 256 << 20
local UNAVAILABLE, INCOMPLETE = 69, 1

local function report(text) io.stderr:write("rlhost: trace: ", shown(text), "\n") end

-- Returns the name of a process for messages.
local function title(one) return format("%s (%s:%d)", one.name, one.host, one.pid) end

-- Returns the answer of a process that was asked to begin; nil if the message is not such an answer.
local function read(message)
  local one = json.decode(message.data)
  if type(one) == "table" and type(one.id) == "string" and one.id:find "^%w+$" and type(one.host) == "string"
    and type(one.name) == "string" and math.type(one.pid) == "integer" then
    return one
  end
end

-- Returns the answers to a question to all processes.
local function gather(bus, question)
  local list, began, last, is_over = {}, rl.now(), rl.now(), false
  local task = rl.task { function()
    for message in bus:gather("rl.trace", question, { timeout = LATE }) do
      list[#list + 1] = read(message)
      last = rl.now()
    end
    is_over = true
  end }
  repeat rl.sleep(0.05) until is_over or rl.now() - began > SOON and rl.now() - last > QUIET
  task:cancel()
  return list
end

-- Asks all processes to begin. Returns the processes that have begun, and how many names or processes have not begun.
local function begin(bus, names, seconds)
  local question = json.encode { op = "begin", names = names, seconds = seconds }
  local found, met, problems, places = {}, {}, 0, {}
  -- The lanes in the page have the order of the names on the command line.
  local ranks = {}
  for index, name in ipairs(names) do ranks[name] = ranks[name] or index end
  local answers = gather(bus, question)
  for _, one in ipairs(answers) do
    one.place = format("%s:%d", one.host, one.pid)
    met[one.name], met[one.place], met[tostring(one.script)] = true, true, true
    if one.session and places[one.place] then
      -- A process that is connected by several buses answers on each of them.
      table.insert(places[one.place], one)
    elseif one.session then
      one.all = { one }
      found[#found + 1], places[one.place] = one, one.all
      one.rank = ranks[one.name] or ranks[one.place] or ranks[tostring(one.script)] or #names
    end
  end
  for _, one in ipairs(answers) do
    -- A process records for one of its buses at a time.
    if not one.session and not places[one.place] then
      problems = problems + 1
      report(format("%s: %s", title(one), tostring(one.problem)))
    end
  end
  for _, name in ipairs(names) do
    if not met[name] then
      problems = problems + 1
      report(format('no process answers to "%s"; it needs a bus with this name and expose = { "trace" }', name))
    end
  end
  table.sort(found, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    if a.host ~= b.host then return a.host < b.host end
    return a.pid < b.pid
  end)
  return found, problems
end

local function ask(bus, one, question, timeout)
  question.session = one.session
  local message, problem = bus:request("rl.trace." .. one.id, json.encode(question), { timeout = timeout })
  if not message then return nil, problem end
  if sub(message.data, 1, 1) == "+" then return sub(message.data, 2) end
  return nil, sub(message.data, 2)
end

-- Collects a recording into a file. Returns the number of bytes, and the problem if the recording is not complete.
local function fetch(bus, one, path)
  local file <close> = assert(io.open(path, "wb"))
  local at = 0
  while at <= LIMIT do
    local bytes, problem = ask(bus, one, { op = "piece", at = at }, PATIENCE)
    if not bytes then return at, problem end
    if bytes == "" then break end
    file:write(bytes)
    at = at + #bytes
  end
  ask(bus, one, { op = "end" }, 1)
  return at
end

-- Waits until the recordings are made, or Control-C ends them early.
local function wait(bus, found, seconds)
  local stop = rl.future()
  local signal = assert(process.on_signal("INT", function() stop:complete(true) end))
  local is_early = stop:await(seconds)
  signal:invalidate()
  if not is_early then return end
  report("interrupted: the recordings end here")
  for _, one in ipairs(found) do
    for _, each in ipairs(one.all) do ask(bus, each, { op = "stop" }, 2) end
  end
end

-- Collects all recordings. Returns the paths of the recordings, each followed by the process's name, and the number of
-- incomplete recordings.
local function collect(bus, found, place)
  local tasks, paths, problems = {}, {}, 0
  for index, one in ipairs(found) do
    local path = format("%s/%d-%s-%d.pftrace", place, index, gsub(one.name, "[^%w_-]", "_"), one.pid)
    tasks[index] = rl.task { function()
      local size, problem
      for _, each in ipairs(one.all) do
        size, problem = fetch(bus, each, path)
        if size > 0 then break end
      end
      if problem then
        problems = problems + 1
        local rest = size > 0 and "its recording ends early" or "its recording is missing"
        report(format("%s: %s: %s", title(one), rest, problem))
      end
      one.path = size > 0 and path
    end }
  end
  for _, task in ipairs(tasks) do task:await() end
  for _, one in ipairs(found) do
    if one.path then
      paths[#paths + 1] = one.path
      paths[#paths + 1] = one.name
    end
  end
  return paths, problems
end

local function main(url, seconds, output, credentials, ca, names)
  local bus <close>, problem = nats.connect(url, { name = "rlhost trace", timeout = 10,
    credentials = credentials ~= "" and credentials or nil, tls = ca ~= "" and { ca = ca } or nil })
  if not bus then
    report(problem)
    return UNAVAILABLE
  end
  local found, problems = begin(bus, names, tonumber(seconds))
  if #found == 0 then return UNAVAILABLE end
  if seconds ~= "" then wait(bus, found, tonumber(seconds)) end
  local place = assert(fs.temporary_directory())
  local _ <close> = setmetatable({}, { __close = function() fs.remove(place, { recursive = true }) end })
  local paths, missing = collect(bus, found, place)
  if #paths == 0 then return UNAVAILABLE end
  local done, reason = native.convert(output, table.unpack(paths))
  if not done then
    report(reason)
    return INCOMPLETE
  end
  print(output)
  return problems + missing > 0 and INCOMPLETE or 0
end

local trace_via = {}

function trace_via.run(url, seconds, output, credentials, ca, ...)
  local status = main(url, seconds, output, credentials, ca, { ... })
  os.exit(status)
end

return trace_via
