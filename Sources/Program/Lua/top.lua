-- `rlhost top`: shows the activity of a process's loops, and updates the display. The command is an ordinary script: it
-- queries the process through a message port, and draws with runloop.terminal.

local rl = require "runloop"
local json = require "runloop.json"
local terminal = require "runloop.terminal"
local shown = require "runloop.text".shown

local top = {}
local format, rep = string.format, string.rep
local min, max, floor = math.min, math.max, math.floor
-- The numbers of requests of the attach channel.
local ACTIVITY, TASKS = 10, 11
local PATIENCE = 5

-- Texts ---------------------------------------------------------------------------------------------------------------

local function duration(ns)
  if ns >= 1e9 then return format(ns >= 1e10 and "%.0f s" or "%.2f s", ns / 1e9) end
  if ns >= 1e6 then return format(ns >= 1e8 and "%.0f ms" or "%.1f ms", ns / 1e6) end
  if ns >= 1e3 then return format("%.0f us", ns / 1e3) end
  return ns == 0 and "-" or format("%d ns", ns)
end

-- Formats a rate with enough digits to distinguish a small one from zero.
local function rate(count, window)
  local value = window > 0 and count / (window / 1e9) or 0
  return value == 0 and "0" or format(value < 9.95 and "%.1f" or "%.0f", value)
end

local function share(part, whole) return format("%.1f%%", whole > 0 and 100 * part / whole or 0) end

-- Returns the text without control characters, cut or padded to the width.
local function fit(text, width, right)
  text = shown(text)
  local wide = terminal.width(text)
  if wide > width then
    local cut = ""
    for _, code in utf8.codes(text, true) do
      local more = cut .. utf8.char(code)
      if terminal.width(more) > width - 1 then break end
      cut = more
    end
    text = cut .. "~"
    wide = terminal.width(text)
  end
  local blanks = rep(" ", width - wide)
  return right and blanks .. text or text .. blanks
end

-- Contents of the screen ----------------------------------------------------------------------------------------------

local LOOPS = {
  {
    key = "awake", title = "AWAKE", width = 7,
    value = function(l) return l.window > 0 and l.awake / l.window or 0 end,
    text = function(l) return share(l.awake, l.window) end,
  },
  {
    key = "passes", title = "PASS/s", width = 8,
    value = function(l) return l.window > 0 and l.passes / l.window or 0 end,
    text = function(l) return rate(l.passes, l.window) end,
  },
  {
    key = "callbacks", title = "CALLS/s", width = 8,
    value = function(l) return l.window > 0 and l.callbacks / l.window or 0 end,
    text = function(l) return rate(l.callbacks, l.window) end,
  },
  {
    key = "late", title = "LATE", width = 5,
    value = function(l) return l.late end,
    text = function(l) return tostring(l.late) end,
  },
  {
    key = "longest", title = "LONGEST", width = 9,
    value = function(l) return l.longest end,
    text = function(l) return duration(l.longest) end,
  },
}
local PLACES = {
  { title = "TIME", width = 7, text = function(p) return share(p.total, p.window) end },
  { title = "CALLS/s", width = 8, text = function(p) return rate(p.count, p.window) end },
  { title = "LATE", width = 5, text = function(p) return tostring(p.late) end },
  { title = "LONGEST", width = 9, text = function(p) return duration(p.longest) end },
}

local function row(columns, object, sort)
  local parts = {}
  for index, column in ipairs(columns) do
    local title = column.key and column.key == sort and "*" .. column.title or column.title
    parts[index] = fit(object and column.text(object) or title, column.width, true)
  end
  return table.concat(parts, " ")
end

local function now_text(l)
  local text = l.current and l.since > 1e6 and format("%s for %s", l.current, duration(l.since))
    or l.longest_name and l.longest > 0 and l.longest_name or ""
  return l.mode and l.mode ~= "default" and text .. " [" .. l.mode .. "]" or text
end

-- Merges the lists of all loops, and adds up entries with the same key. Returns the entries, the busiest first.
local function sums(loops, field, key_of)
  local found, list = {}, {}
  for _, l in ipairs(loops) do
    for _, each in ipairs(l[field]) do
      local key = key_of(each)
      local sum = found[key]
      if not sum then
        sum = {
          key = key, name = each.name, place = each.place,
          count = 0, total = 0, late = 0, longest = 0, window = 0,
        }
        found[key] = sum
        list[#list + 1] = sum
      end
      sum.count, sum.total, sum.late = sum.count + each.count, sum.total + each.total, sum.late + (each.late or 0)
      sum.longest, sum.window = max(sum.longest, each.longest or 0), max(sum.window, l.window)
    end
  end
  table.sort(list, function(a, b)
    if a.total ~= b.total then return a.total > b.total end
    return a.key < b.key
  end)
  return list
end

-- A callback that runs in several loops gets one row.
local function places(loops)
  return sums(loops, "places", function(p) return p.name .. "\0" .. p.place .. "\0" .. p.kind end)
end

-- Returns a text such as "timer 28.4% 108/s", with the busiest kind first.
local function kinds_text(loops)
  local list = sums(loops, "kinds", function(k) return k.kind end)
  for index, sum in ipairs(list) do
    list[index] = format("%s %s %s/s", sum.key, share(sum.total, sum.window), rate(sum.count, sum.window))
  end
  return table.concat(list, "   ")
end

local function sort_loops(loops, key)
  for _, column in ipairs(LOOPS) do
    if column.key == key then
      table.sort(loops, function(a, b)
        local x, y = column.value(a), column.value(b)
        if x ~= y then return x > y end
        return a.number < b.number
      end)
    end
  end
  if key == "loop" then table.sort(loops, function(a, b) return a.number < b.number end) end
end

--- Returns the lines of a screen.
-- state: { title, loops, tasks, sort, message, shows_tasks, paused }; rows and columns: the size of the screen, or nil
-- for no limit.
function top.lines(state, rows, columns)
  local loops = state.loops
  sort_loops(loops, state.sort)
  local lines, styles = {}, {}
  local wide = columns or 160
  local function add(text, style)
    lines[#lines + 1] = columns and fit(text, wide) or (text:gsub("%s+$", ""))
    styles[#lines] = style
  end
  local awake, late = 0, 0
  for _, l in ipairs(loops) do awake, late = awake + (l.window > 0 and l.awake / l.window or 0), late + l.late end
  add(format("%s: %d %s, %.1f%% awake in all, %d late",
    state.title, #loops, #loops == 1 and "loop" or "loops", 100 * awake, late), "bold")
  if rows then
    add(state.message or (state.paused and "paused; " or "")
      .. "a p c l g n: sort  arrows: more loops  space: pause  t: tasks  d: dump  q: quit")
  end
  local kinds = kinds_text(loops)
  if kinds ~= "" and (not rows or rows >= 12) then add("by kind: " .. kinds) end
  local list = state.shows_tasks and {} or places(loops)
  local room = rows and rows - #lines - 2 or math.huge
  -- Each list gets half of the rows; rows that one list does not need go to the other.
  local below = state.shows_tasks and #state.tasks or #list
  local above = rows and max(min(#loops, room - min(below, room // 2)), 1) or #loops
  local longest = 8
  for _, l in ipairs(loops) do longest = max(longest, terminal.width((l.loop:gsub("%c", "?")))) end
  local name = max(8, min(24, wide // 5), min(longest, wide // 3))
  -- The number of rows that the arrow keys have scrolled away.
  state.skip = max(0, min(state.skip or 0, #loops - above))
  local left = wide - name - 2 - (7 + 8 + 8 + 5 + 9 + 4)
  add(fit("LOOP", name) .. " " .. row(LOOPS, nil, state.sort) .. " " .. fit("LONGEST IS", max(left, 0)), "reverse")
  for index = 1, min(above, #loops) do
    local l = loops[state.skip + index]
    local cells = fit(l.loop, name) .. " " .. row(LOOPS, l) .. " " .. (left > 4 and fit(now_text(l), left) or "")
    local rest = #loops - above - state.skip
    if index == above and rest > 0 then cells = fit(format("and %d loops more", rest + 1), wide) end
    add(cells, l.late > 0 and "yellow" or nil)
  end
  if state.shows_tasks then
    add(fit("THREAD", name) .. " TASK", "reverse")
    for index, task in ipairs(state.tasks) do
      if rows and #lines >= rows then break end
      local rest = #state.tasks - index
      local is_last = rows and #lines == rows - 1 and rest > 0
      add(is_last and format("and %d tasks more", rest + 1) or fit(task.thread, name) .. " " .. task.text)
    end
    if #state.tasks == 0 then add "no tasks wait" end
  else
    local width = 7 + 8 + 5 + 9 + 3
    add(row(PLACES) .. "  " .. "CALLBACK", "reverse")
    for _, p in ipairs(list) do
      if rows and #lines >= rows then break end
      add(row(PLACES, p) .. "  "
        .. fit(p.name .. (p.place ~= "" and "  " .. p.place:match "[^/]*$" or ""), max(wide - width - 2, 10)),
        p.late > 0 and "yellow" or nil)
    end
  end
  return lines, styles
end

-- Requests ------------------------------------------------------------------------------------------------------------

local Process = {}
Process.__index = Process

local function failed(text)
  io.stderr:write("rlhost: top: ", text, "\n")
  os.exit(69)
end

local function connect(port, title)
  local remote, message = rl.remote_port(port)
  if not remote then failed(title .. " cannot be attached to: " .. message) end
  return setmetatable({ remote = remote, title = title }, Process)
end

function Process:ask(id, text)
  local answer, reason = self.remote:request(id, text, { reply_timeout = PATIENCE })
  if answer then return answer end
  if reason == "reply timed out" then failed(format("%s has not answered for %d s", self.title, PATIENCE)) end
  if reason == "became invalid" or reason == "invalid" then failed(self.title .. " has ended") end
  failed(self.title .. " refuses: " .. tostring(reason))
end

--- Returns the activity of the process's loops in the last seconds.
function Process:loops(seconds) return json.decode(self:ask(ACTIVITY, format("%d", floor(seconds * 1e9)))).loops end

--- Like `Process:loops`, for a process that may have just started: waits until the process has statistics.
function Process:first_loops(seconds)
  local loops, known = self:loops(seconds), 0
  for _, l in ipairs(loops) do known = max(known, l.window / 1e9) end
  if known < 0.9 * seconds then
    rl.sleep(seconds - known)
    loops = self:loops(seconds)
  end
  if #loops == 0 then
    failed(self.title
      .. " records nothing: its recorder is off, or a callback has held its loop since its first second")
  end
  return loops
end

--- Returns the waits of the tasks of all threads. Script positions are shown without directories, so that a line fits.
--- If a loop is busy, its line says so instead.
function Process:tasks()
  local tasks = {}
  for thread, text in self:ask(TASKS, ""):gmatch "([^\t\n]*)\t([^\n]*)" do
    -- Sorts "worker 9" before "worker 10".
    local place = thread == "main" and ""
      or thread:gsub("%d+", function(digits) return rep("0", 20 - #digits) .. digits end)
    tasks[#tasks + 1] = {
      thread = thread,
      text = text:gsub("at %S*/([^/%s]+:%d+)", "at %1"),
      place = place,
      number = #tasks,
    }
  end
  table.sort(tasks, function(a, b)
    if a.place ~= b.place then return a.place < b.place end
    return a.number < b.number
  end)
  return tasks
end

-- The screen ----------------------------------------------------------------------------------------------------------

local STEPS = { up = -1, down = 1, page_up = -10, page_down = 10, home = -1000000, ["end"] = 1000000 }
local COLORS = { yellow = "\27[33m", grey = "\27[90m" }
local SORTS = { a = "awake", p = "passes", c = "callbacks", l = "late", g = "longest", n = "loop" }

--- Draws a screen; `lines_of` is a function as top.lines.
local function draw(screen, state, lines_of)
  local rows, columns = screen:size()
  if not rows then return end
  local lines, styles = (lines_of or top.lines)(state, rows, columns)
  local parts = { "\27[H" }
  for index = 1, rows do
    local text = lines[index] or ""
    if styles[index] == "reverse" then text = "\27[7m" .. text .. "\27[27m" end
    if styles[index] == "bold" then text = "\27[1m" .. text .. "\27[22m" end
    local color = terminal.colors(screen:fd()) > 0 and COLORS[styles[index]]
    if color then text = color .. text .. "\27[39m" end
    parts[#parts + 1] = text .. "\27[K" .. (index < rows and "\r\n" or "")
  end
  parts[#parts + 1] = "\27[J"
  screen:write(table.concat(parts))
end

-- Takes the screen. Returns the terminal, an object that ends its raw mode, and a function that leaves it and ends the
-- program.
local function take_screen()
  local screen, problem = terminal.open()
  if not screen then
    io.stderr:write("rlhost: top: ", problem, "; 'rlhost top --once' prints one table\n")
    os.exit(69)
  end
  local raw = assert(screen:raw())
  screen:alternate_screen()
  screen:hide_cursor()
  return screen, raw, function(status)
    screen:close()
    os.exit(status or 0, true)
  end
end

-- For `rlhost top --via`, which shows other rows with the same functions.
top.draw, top.take_screen, top.steps, top.failed, top.fit, top.duration, top.rate =
  draw, take_screen, STEPS, failed, fit, duration, rate

local function live(process, state, seconds, dump)
  local screen, raw, leave = take_screen()
  local plain = failed
  failed = function(text)
    screen:close()
    plain(text)
  end
  local function refresh()
    if not state.paused then
      state.loops = process:loops(seconds)
      state.tasks = state.shows_tasks and process:tasks() or {}
    end
    draw(screen, state)
  end
  screen:on_resize(function() draw(screen, state) end)
  screen:on_key(function(key)
    state.message = nil
    if key.name == "q" or key.name == "ctrl-c" or key.name == "escape" then return leave() end
    if SORTS[key.name] then state.sort = SORTS[key.name] end
    local step = STEPS[key.name]
    if step then state.skip = max(0, (state.skip or 0) + step) end
    if key.name == "space" then state.paused = not state.paused end
    if key.name == "t" then
      state.shows_tasks = not state.shows_tasks
      state.tasks = state.shows_tasks and process:tasks() or {}
    end
    if key.name == "d" then state.message = dump() end
    draw(screen, state)
  end)
  refresh()
  rl.every(seconds, refresh)
  return raw
end

--- Called by the program with the port, the title of the process, the seconds between two updates, "once" or "live",
--- the process's number, the order of the rows, and whether tasks are shown.
function top.run(port, title, seconds, how, number, sort, tasks)
  seconds = tonumber(seconds)
  local state = {
    title = title,
    loops = {},
    tasks = {},
    sort = sort == "number" and "loop" or sort,
    shows_tasks = tasks ~= "",
  }
  local process = connect(port, title)
  if how == "once" then
    -- The process records all the time, so the last moments are available at once.
    state.loops = process:first_loops(seconds)
    state.tasks = state.shows_tasks and process:tasks() or {}
    for _, line in ipairs(top.lines(state)) do print(line) end
    os.exit(0, true)
  end
  live(process, state, seconds, function()
    local path = format("top-%s-%s.html", number, os.date "%H%M%S")
    local run = require("runloop.process").run { "/proc/self/exe", "trace", number, "-o", path }
    if run and run.code == 0 then return "the last moments are in " .. path end
    return "no dump: " .. (run and run.errors or "rlhost trace cannot be run"):gsub("%s+$", "")
  end)
end

return top
