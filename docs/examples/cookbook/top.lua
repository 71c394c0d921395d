-- top.lua [SECONDS]: the programs of this machine that use most of its processors, or of its memory.
-- Keys: c and m choose the order, space stops the list and lets it go on, q ends.
local rl, terminal, fs = require "runloop", require "runloop.terminal", require "runloop.fs"

local seconds = tonumber(arg[1]) or 2
local screen <close> = assert(terminal.open())
local raw <close> = assert(screen:raw())
local other <close> = screen:alternate_screen()
local hidden <close> = screen:hide_cursor()

local TICKS = 100 -- the kernel counts 100 ticks for a second of a processor
local programs, before, date = {}, {}, nil
local order, stopped = "busy", false

-- Returns nil for a process that has ended after it was listed.
local function contents(path)
  local file <close> = io.open(path)
  return file and file:read "a"
end

local function measure()
  local now, ticks = rl.now(), {}
  programs = {}
  for _, entry in ipairs(assert(fs.list "/proc")) do
    local id = tonumber(entry.name)
    local stat = id and contents("/proc/" .. id .. "/stat")
    local status = stat and contents("/proc/" .. id .. "/status")
    if status then
      local name, rest = stat:match "%((.*)%) %S (.*)"
      local user, system = rest:match("^" .. ("%S+ "):rep(10) .. "(%d+) (%d+)")
      ticks[id] = user + system
      programs[#programs + 1] = {
        id = id,
        name = name:gsub("%c", "?"),
        memory = (tonumber(status:match "VmRSS:%s*(%d+)") or 0) * 1024,
        busy = date and (ticks[id] - (before[id] or ticks[id])) / TICKS / (now - date) or 0,
      }
    end
  end
  before, date = ticks, now
end

local function draw()
  table.sort(programs, function(a, b)
    if a[order] ~= b[order] then return a[order] > b[order] end
    return a.id < b.id
  end)
  local rows, columns = screen:size()
  screen:clear()
  local function row(number, styles, text)
    text = text:sub(1, columns)
    screen:move(number, 1)
    screen:write(styles and terminal.style(styles, text .. (" "):rep(columns - #text)) or text)
  end
  local load = contents("/proc/loadavg"):match "^%S+ %S+ %S+"
  row(1, "bold", ("%d programs, load %s%s"):format(#programs, load, stopped and ", stopped" or ""))
  row(2, "reverse", ("%8s  %7s  %10s  %s"):format("number", "busy", "memory", "name"))
  for number = 1, math.min(#programs, rows - 3) do
    local p = programs[number]
    row(number + 2, nil, ("%8d  %5.1f %%  %7.1f MB  %s"):format(p.id, p.busy * 100, p.memory / 1e6, p.name))
  end
  row(rows, "bold", "c: most busy   m: most memory   space: stop   q: quit")
end

local function refresh()
  if not stopped then measure() end
  draw()
end

local resize <close> = screen:on_resize(draw)
refresh()
rl.after(0.2, refresh) -- the first shares of the processors
rl.every(seconds, refresh)
screen:on_key(function(key)
  if key.name == "q" or key.name == "ctrl-c" then rl.shutdown() end
  if key.name == "space" then stopped = not stopped end
  order = ({ c = "busy", m = "memory" })[key.name] or order
  draw()
end)
rl.sleep(math.huge)
