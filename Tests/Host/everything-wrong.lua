-- Calls every function of every module with random arguments, from a seed that is the first argument. Each call
-- returns, or raises an error with this file's position and the function's name. No error shows the host's own lines,
-- and no call crashes.
local rl = require "runloop"

-- These functions end the program or its loop, or change the machine permanently.
local NOT = { ["rl.shutdown"] = true, ["rl.run"] = true, ["rl.stop"] = true, ["rl.attach"] = true,
  ["rl.sandbox"] = true, ["log.open"] = true, ["process.set_directory"] = true, ["fs.remove"] = true,
  ["fs.link"] = true, ["fs.temporary_directory"] = true, ["arguments.parse"] = true }
local VALUES = table.pack(nil, true, 5, -1, 0 / 0, 1e300, "x\0y", "", {}, { 1, 2, 3 }, { foo = 1 }, function() end,
  io.stdin, coroutine.create(print), { modes = 5 },
  { timeout = "x" }, nil)
local ROUNDS = 12
-- Messages must show values: "got 5", "got a table", and not the bare name of a type.
local TYPES, SHOWN = {}, { nothing = true, ["true"] = true, ["false"] = true, nan = true, inf = true }
for _, value in ipairs { 1, "x", {}, print, io.stdin, true } do TYPES[type(value)] = true end

math.randomseed(tonumber(arg[1]))
local calls, odd = 0, {}

local function try(name, fn)
  for _ = 1, ROUNDS do
    local arguments, count = {}, math.random(0, 4)
    for index = 1, count do arguments[index] = VALUES[math.random(VALUES.n)] end
    local task = rl.task(function()
      local good, message = pcall(function()
        local _ = fn(table.unpack(arguments, 1, count))
      end)
      calls = calls + 1
      if good or rl.is_cancelled(message) then return end
      local got = tostring(message):match ", got (%S+)$"
      if got and (TYPES[got] or got:find "^[a-z]+$" and not SHOWN[got]) then odd[#odd + 1] = name .. ": " .. message end
      if not tostring(message):find "everything%-wrong%.lua:%d+: [%w_.]+[.:][%w_]+: " then
        odd[#odd + 1] = name .. ": " .. tostring(message)
      end
    end)
    pcall(rl.timeout, 0.02, function() task:await() end)
    task:cancel()
  end
end

local MODULES = { "rl", "process", "fs", "terminal", "log", "arguments", "schedule", "net", "http", "json", "trace",
  "encoding", "crypto", "url", "zlib" }
for _, name in ipairs(MODULES) do
  local module, names = name == "rl" and rl or require("runloop." .. name), {}
  for key, value in pairs(module) do
    if type(key) == "string" and type(value) == "function" and not NOT[name .. "." .. key] then
      names[#names + 1] = key
    end
  end
  table.sort(names)
  for _, key in ipairs(names) do try(name .. "." .. key, module[key]) end
end
print(calls .. " calls")
for _, line in ipairs(odd) do print(line) end
os.exit(#odd == 0)
