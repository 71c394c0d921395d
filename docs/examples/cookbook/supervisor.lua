-- supervisor.lua [PROCFILE]: runs the programs of a Procfile ("name: command" lines), starts them again when they end,
-- and ends all of them with itself. After SIGHUP it reads the file again: it ends the programs of removed lines and
-- starts those of new lines.
local rl, process = require "runloop", require "runloop.process"

local path = arg[1] or "Procfile"
local colors, entries, number = { 36, 33, 32, 35, 34 }, {}, 0

-- Control characters, which could move the cursor or colour other lines, are shown by their numbers.
local function say(entry, line)
  local shown = line:gsub("[\0-\8\11-\31\127]", function(c) return ("\\%d"):format(c:byte()) end)
  print(("\27[%dm%-8s|\27[0m %s"):format(entry.color, entry.name, shown))
end

-- Runs an entry's program again and again, with longer and longer pauses if it ends at once.
local function supervise(entry)
  local backoff, rest = rl.backoff { first = 1, most = 30, jitter = 0 }, ""
  local function hear(_, bytes)
    rest = (rest .. (bytes or "")):gsub("([^\n]*)\n", function(line) say(entry, line) return "" end)
    -- The last line may have no line end, and an endless line is shown in pieces.
    if #rest > (bytes and 4096 or 0) then say(entry, rest) rest = "" end
  end
  while not entry.dropped do
    local began = rl.now()
    entry.program = assert(process.start {
      "/bin/sh", "-c", entry.command, errors = "output", name = entry.name, on_output = hear })
    local how, value = entry.program:wait()
    entry.program:stop(5) -- with all programs that it has started, which could keep its ports open
    say(entry, ("has ended: %s %s"):format(how, value))
    if rl.now() - began > 10 then backoff:reset() end
    if not entry.dropped then backoff:wait() end
  end
end

local function drop(entry)
  entry.dropped, entries[entry.name] = true, nil
  entry.program:stop(5)
end

local function read()
  local wanted = {}
  for line in io.lines(path) do
    local name, command = line:match "^([%w_-]+):%s*(.+)$"
    if name then wanted[name] = command end
  end
  for name, entry in pairs(entries) do
    if wanted[name] ~= entry.command then drop(entry) end
  end
  local names, count = {}, 0
  for name in pairs(wanted) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    count = count + 1
    if not entries[name] then
      number = number + 1
      entries[name] = { name = name, command = wanted[name], color = colors[(number - 1) % #colors + 1] }
      rl.task(supervise, entries[name])
    end
  end
  print(count .. " programs")
end

process.on_signal("HUP", function()
  local fine, problem = pcall(read)
  if not fine then print(problem) end
end)
rl.on_shutdown(function()
  local all = rl.group()
  for _, entry in pairs(entries) do all:task(drop, entry) end
  all:wait()
end, { limit = 10 })

io.stdout:setvbuf "line"
read()
