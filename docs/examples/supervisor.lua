-- supervisor.lua [Procfile]: runs the programs of a Procfile ("name: command" lines), starts those anew that end, and ends all with itself.
local rl, process = require "runloop", require "runloop.process"
local colors, running, ending = { 36, 33, 32, 35, 34 }, {}, false

local function say(name, color, line) print(("\27[%dm%-8s|\27[0m %s"):format(color, name, line)) end

local function supervise(name, command, color)
  local pause = 1
  while not ending do
    local began = rl.now()
    local program = assert(process.start { "/bin/sh", "-c", command, output = "pipe", errors = "output", name = name })
    running[name] = program
    for line in program.output:lines { max = 1 << 20 } do say(name, color, line) end
    local how, value = program:wait()
    running[name] = nil
    say(name, color, ("has ended: %s %s"):format(how, value))
    if ending then return end
    -- One that ends at once again and again is started more and more seldom.
    pause = rl.now() - began > 10 and 1 or math.min(pause * 2, 30)
    rl.sleep(pause)
  end
end

rl.on_shutdown(function()
  ending = true
  local all = rl.group()
  for _, program in pairs(running) do all:task(program.stop, program, 5) end
  all:wait()
end, { limit = 10 })

local number = 0
for line in io.lines(arg[1] or "Procfile") do
  local name, command = line:match "^([%w_-]+):%s*(.+)$"
  if name then
    number = number + 1
    rl.task(supervise, name, command, colors[(number - 1) % #colors + 1])
  end
end
print(number .. " programs")
