-- supervisor.lua [Procfile]: runs the programs of a Procfile ("name: command" lines), restarts those that end, and ends
-- all of them with itself.
local rl, process = require "runloop", require "runloop.process"
local colors, running, ending, number = { 36, 33, 32, 35, 34 }, {}, false, 0

-- Control characters, which could move the cursor or colour other lines, are shown by their numbers.
local function say(name, color, line)
  local shown = line:gsub("[\0-\8\11-\31\127]", function(c) return ("\\%d"):format(c:byte()) end)
  print(("\27[%dm%-8s|\27[0m %s"):format(color, name, shown))
end

local function supervise(name, command, color)
  local pause, rest = 1, ""
  local function hear(_, bytes)
    rest = (rest .. (bytes or "")):gsub("[^\n]*\n?", function(line)
      return line:find "\n" and (say(name, color, line:sub(1, -2)) or "")
    end)
    -- The last line may lack its end, and a line that does not end comes in pieces.
    if #rest > (bytes and 4096 or 0) then say(name, color, rest) rest = "" end
  end
  while not ending do
    local began = rl.now()
    running[name] = assert(process.start { "/bin/sh", "-c", command, errors = "output", name = name, on_output = hear })
    local how, value = running[name]:wait()
    running[name]:stop(5) -- with all that it has started, which could hold its ports
    say(name, color, ("has ended: %s %s"):format(how, value))
    pause = rl.now() - began > 10 and 1 or math.min(pause * 2, 30) -- longer if it keeps ending at once
    if not ending then rl.sleep(pause) end
  end
end

rl.on_shutdown(function()
  ending = true
  local all = rl.group()
  for _, program in pairs(running) do all:task(program.stop, program, 5) end
  all:wait()
end, { limit = 10 })

for line in io.lines(arg[1] or "Procfile") do
  local name, command = line:match "^([%w_-]+):%s*(.+)$"
  if name then number = number + 1 rl.task(supervise, name, command, colors[(number - 1) % #colors + 1]) end
end
print(number .. " programs")
