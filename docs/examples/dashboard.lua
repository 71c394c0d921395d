-- A dashboard in the terminal: the machine's load, drawn each second and when the window's size changes. `q` ends it.
--
--   rlhost dashboard.lua

local rl = require "runloop"
local terminal = require "runloop.terminal"

local screen <close> = assert(terminal.open())
local raw <close> = assert(screen:raw())
local other <close> = screen:alternate_screen()
local hidden <close> = screen:hide_cursor()

local function contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- Returns the busy share of the processor's time since the last call.
local last_busy, last_all = 0, 0
local function busy()
  local all, idle, number = 0, 0, 0
  for ticks in contents("/proc/stat"):match("cpu([^\n]*)"):gmatch "%d+" do
    number = number + 1
    all = all + ticks
    if number == 4 or number == 5 then idle = idle + ticks end
  end
  local share = (all - idle - last_busy) / math.max(1, all - last_all)
  last_busy, last_all = all - idle, all
  return share
end

local function memory()
  local text = contents "/proc/meminfo"
  local total, free = text:match "MemTotal:%s*(%d+)", text:match "MemAvailable:%s*(%d+)"
  return 1 - free / total
end

local history = {}

local function draw()
  local rows, columns = screen:size()
  local room = math.max(10, columns - 20)
  local lines = { terminal.style("bold", "dashboard"), "" }
  local function bar(name, share)
    local filled = math.floor(share * room + 0.5)
    local done, left = terminal.style("reverse", (" "):rep(filled)), ("."):rep(room - filled)
    lines[#lines + 1] = ("%-10s %s%s %3.0f %%"):format(name, done, left, share * 100)
  end
  bar("processor", history[#history] or 0)
  bar("memory", memory())
  lines[#lines + 1] = "load       " .. contents("/proc/loadavg"):match "^%S+ %S+ %S+"
  lines[#lines + 1] = ""
  -- The history, with a column for each second.
  local height = math.max(1, rows - #lines - 2)
  for level = height, 1, -1 do
    local line = {}
    for second = math.max(1, #history - columns + 1), #history do
      line[#line + 1] = history[second] * height >= level - 0.5 and "#" or " "
    end
    lines[#lines + 1] = table.concat(line)
  end
  lines[#lines + 1] = "q ends this"
  screen:clear()
  for row = 1, math.min(rows, #lines) do
    screen:move(row, 1)
    screen:write(lines[row])
  end
end

local function measure()
  history[#history + 1] = busy()
  if #history > 1000 then table.remove(history, 1) end
  draw()
end

busy()
local timer = rl.every(1, measure)
local sizes <close> = screen:on_resize(draw)
draw()
for key in screen:keys() do
  if key.name == "q" or key.name == "ctrl-c" then break end
end
timer:invalidate()
