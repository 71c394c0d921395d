-- `rlhost top --via`: shows the processes that expose their numbers on a bus of NATS, and their ports and workers.

local rl = require "runloop"
local json = require "runloop.json"
local nats = require "runloop.nats"
local api = require "runloop.nats.api"
local service = require "runloop.nats.service"
local top = require "runloop.top"
local terminal = require "runloop.terminal"
local escaped = require "runloop.text".shown

local machines = {}
local format, max, min, huge = string.format, math.max, math.min, math.huge
-- GONE: seconds after which a silent process is no longer shown. LATE: seconds to wait for late answers at the end.
local GONE, LATE = 30, 0.5
local MOST_ROWS = 10000

-- Rows ----------------------------------------------------------------------------------------------------------------

-- Checks a value that another machine has sent. Returns it if it is a number that can be shown; otherwise nil.
local function number(value)
  return type(value) == "number" and value >= 0 and value < 1e18 and value or nil
end

local function shown(value, text) return value and text(value) or "-" end
local function length(value) return shown(value, function(seconds) return top.duration(seconds * 1e9) end) end
local function rate(value) return shown(value, function(count) return top.rate(count * 1e6, 1e15) end) end
local function whole(value) return shown(value, function(count) return format("%.0f", count) end) end
local function bytes(value)
  return shown(value, function(count) return format(count < 1e7 and "%.1f MB" or "%.0f MB", count / 1e6) end)
end

local function text_of(value) return type(value) == "string" and value or nil end

--- Adds an answer to STATS to the state.
function machines.take(state, text)
  local found = service.read(text)
  local endpoint = found and type(found.stats.endpoints[1]) == "table" and found.stats.endpoints[1]
  if not endpoint then return end
  local before, time = state.rows[found.id], rl.now()
  if not before and state.count >= MOST_ROWS then return end
  local data = type(endpoint.data) == "table" and endpoint.data or {}
  local row = { host = found.host or "?", pid = found.pid or 0, id = found.id, name = found.name, at = time,
    p99 = number(data.p99), longest = number(data.longest),
    state = type(data.state) == "string" and data.state or "ok" }
  if found.name == "rlhost" then
    if not number(data.memory) then return end
    -- Some versions of rlhost send no name.
    row.is_process, row.name = true, text_of(data.name) or text_of(data.script) or "rlhost"
    row.rate, row.tasks, row.memory = number(data.passes), number(data.tasks), number(data.memory)
    local late, awake = number(data.late) or 0, number(data.awake) or 0
    row.state = late > 0 and format("late %.0f", late) or awake >= 0.9 and "busy" or "ok"
  else
    row.count, row.tasks = number(endpoint.num_requests) or 0, number(data.running)
    -- Compute the rate from the last two answers, if they are not too close to each other.
    row.since, row.base = time, row.count
    if before and time - before.since < 0.2 then
      row.since, row.base, row.rate = before.since, before.base, before.rate
    elseif before then
      row.rate = max(0, row.count - before.base) / (time - before.since)
    end
  end
  if not before then state.count = state.count + 1 end
  state.rows[found.id] = row
end

-- Returns processes in order, each followed by its ports. Forgets processes and ports that have been silent for long.
local function ordered(state)
  local list, places = {}, {}
  for id, row in pairs(state.rows) do
    if rl.now() - row.at > GONE then
      state.rows[id], state.count = nil, state.count - 1
    else
      if row.is_process then places[row.host .. " " .. row.pid] = true end
      list[#list + 1] = row
    end
  end
  local kept = {}
  for _, row in ipairs(list) do if places[row.host .. " " .. row.pid] then kept[#kept + 1] = row end end
  table.sort(kept, function(a, b)
    if a.host ~= b.host then return a.host < b.host end
    if a.pid ~= b.pid then return a.pid < b.pid end
    if a.is_process ~= b.is_process then return a.is_process == true end
    if a.name ~= b.name then return a.name < b.name end
    return a.id < b.id
  end)
  return kept
end

local HEAD = { "RATE", "P99", "LONGEST", "TASKS", "MEMORY" }
local WIDTHS = { 8, 8, 8, 6, 8 }

--- Returns the lines of a screen and their styles. rows and columns: the size of the screen, or nil for no limit.
function machines.lines(state, rows, columns)
  local list, lines, styles, silent = ordered(state), {}, {}, 0
  local host, name = 4, 8
  for _, row in ipairs(list) do
    host, name = max(host, terminal.width(row.host)), max(name, terminal.width(row.name) + 2)
    if rl.now() - row.at > state.patience then silent = silent + (row.is_process and 1 or 0) end
  end
  host, name = min(host, 20), min(name, columns and max(8, columns - min(host, 20) - 67) or 30)
  local function add(style, state_text, cells, ...)
    local line = top.fit(cells[1], host) .. " " .. top.fit(cells[2], 8, true) .. " " .. top.fit(cells[3], name)
    for index, cell in ipairs { ... } do line = line .. " " .. top.fit(cell, WIDTHS[index], true) end
    line = line .. "  " .. escaped(state_text)
    lines[#lines + 1] = columns and top.fit(line, columns) or (line:gsub("%s+$", ""))
    styles[#lines] = style
  end
  local processes = 0
  for _, row in ipairs(list) do processes = processes + (row.is_process and 1 or 0) end
  if rows then
    lines[1] = top.fit(format("%s (%s): %d %s, %d silent   arrows: more rows  q: quit", state.title, state.status(),
      processes, processes == 1 and "process" or "processes", silent), columns)
    styles[1] = "bold"
  end
  add("reverse", "STATE", { "HOST", "PID", "NAME" }, table.unpack(HEAD))
  local room = rows and rows - #lines or huge
  state.skip = max(0, min(state.skip or 0, #list - room))
  for index = 1, min(#list, room) do
    local row = list[state.skip + index]
    local quiet = rl.now() - row.at
    local is_silent = quiet > state.patience
    add(is_silent and "grey" or row.state ~= "ok" and "yellow" or nil,
      is_silent and format("silent %.0f s", quiet) or row.state,
      { row.host, format("%d", row.pid), (row.is_process and "" or "  ") .. row.name }, rate(row.rate), length(row.p99),
      length(row.longest), whole(row.tasks), bytes(row.memory))
  end
  return lines, styles, processes
end

-- The command ---------------------------------------------------------------------------------------------------------

local function live(state, seconds, ask)
  local screen, raw, leave = top.take_screen()
  local function draw() top.draw(screen, state, machines.lines) end
  screen:on_resize(draw)
  screen:on_key(function(key)
    if key.name == "q" or key.name == "ctrl-c" or key.name == "escape" then return leave() end
    if top.steps[key.name] then state.skip = max(0, (state.skip or 0) + top.steps[key.name]) end
    draw()
  end)
  draw()
  rl.every(seconds, function()
    ask()
    rl.sleep(min(0.3, seconds / 2))
    draw()
  end)
  return raw
end

--- Called by the program with the address, the path of a file with credentials, the path of a file with certificates,
--- the seconds between two questions, and "once" or "live".
function machines.run(address, credentials, ca, seconds, how)
  seconds = tonumber(seconds)
  local fine, bus, problem = pcall(nats.connect, address, { name = "rlhost top",
    credentials = credentials ~= "" and credentials or nil, tls = ca ~= "" and { ca = ca } or nil })
  if not fine then
    io.stderr:write("rlhost: top: ", (tostring(bus):gsub("^.-nats%.connect: ", "")), "\n")
    os.exit(64)
  end
  if not bus then top.failed(problem) end
  local state = { title = bus:server().address, rows = {}, count = 0, patience = max(2.5 * seconds, 1),
    status = function() return bus:status() end }
  local inbox = "_INBOX." .. api.unique(bus)
  bus:subscribe(inbox, { keeps_alive = false }, function(message) machines.take(state, message.data) end)
  local function ask() bus:publish("$SRV.STATS", "", { reply = inbox }) end
  ask()
  if how ~= "once" then return live(state, seconds, ask) end
  rl.sleep(seconds)
  ask()
  rl.sleep(LATE)
  -- A process that has answered only the first question counts as silent.
  state.patience = LATE + 0.1
  local lines, _, processes = machines.lines(state)
  if processes == 0 then
    top.failed(format('no process answers at %s: those are seen that have connected with nats.connect(…, '
      .. '{ expose = { "stats" } })', state.title))
  end
  for _, line in ipairs(lines) do print(line) end
  os.exit(0, true)
end

return machines
