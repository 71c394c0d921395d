-- Runs a program of scripts/soak corefoundation on rlhost's run loop, and prints its events. corefoundation.c does the
-- same on Apple's run loop.

local rl = require "runloop"
local loop = rl.current()
loop:set_sequence "core_foundation"
local RESULTS = { finished = 1, stopped = 2, timed_out = 3, handled_source = 4 }
local ops, calls, sources = {}, {}, {}
local act

local function call(name)
  local n = calls[name] or 0
  calls[name] = n + 1
  local line = ops[name .. " " .. n]
  if line then act(line) end
end

function act(line)
  for op in line:gmatch "[^;]+" do
    local word, a, b = op:match "^%s*(%S+)%s*(%S*)%s*(%S*)"
    if word == "signal" then
      sources[tonumber(a)]:signal()
    elseif word == "perform" then
      local modes = {}
      for mode in b:gmatch "[^,]+" do modes[#modes + 1] = mode end
      loop:perform { function()
        print(a)
        call(a)
      end, modes = modes }
    elseif word == "wake" then
      loop:wake_up()
    elseif word == "stop" then
      loop:stop()
    elseif word == "run" then
      print("run " .. a)
      local result = loop:run { mode = a, timeout = tonumber(b) }
      print("= " .. (RESULTS[result] or tostring(result)))
    end
  end
end

for line in io.lines(arg[1]) do
  local number, order = line:match "^source (%d+) (%d+)$"
  local mode = line:match "^observer (%S+)$"
  local name, n, rest = line:match "^on (%S+) (%d+) (.*)$"
  if number then
    local name = "S" .. number
    local source = rl.source { order = tonumber(order), perform = function()
      print(name)
      call(name)
    end }
    sources[tonumber(number)] = source
    loop:add(source, "default")
    loop:add(source, "a")
  elseif mode then
    loop:add(rl.observer { activities = "all", callback = function(_, activity)
      print(mode .. " " .. activity)
      call(mode)
    end }, mode)
  elseif name then
    ops[name .. " " .. n] = rest
  else
    act(line:match "^do (.*)$" or "")
  end
end
os.exit(0)
