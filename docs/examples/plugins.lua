-- Calls plugins that need no trust: programs in a sandbox, which read and write lines of JSON.
--
--   rlhost plugins.lua [TEXT]

local rl = require "runloop"
local fs = require "runloop.fs"
local json = require "runloop.json"
local process = require "runloop.process"

local RLHOST <const> = assert(fs.real_path "/proc/self/exe")
local LONGEST_LINE <const>, PATIENCE <const> = 10000, 2

local function start(name)
  return assert(process.start {
    RLHOST, "--sandbox", "--memory=32M", "--cpu=5", rl.script_directory() .. "/plugins/" .. name .. ".lua",
    name = name, input = "pipe", output = "pipe", errors = "pipe", clean_environment = true })
end

-- Returns a plugin's answer to a text, or nil and the reason.
local function exchange(program, text)
  local written, problem = program.input:write(json.encode { text = text }, "\n")
  if not written then return nil, problem end
  local line, reason = program.output:read_line { max = LONGEST_LINE, timeout = PATIENCE }
  if not line then
    local last = program.errors:read_line { max = LONGEST_LINE, timeout = 0.1 }
    return nil, last or reason or "it has ended"
  end
  local fine, answer = pcall(json.decode, line, { max_depth = 8 })
  if fine and type(answer) == "table" and type(answer.text) == "string" then return answer.text end
  return nil, "its answer makes no sense"
end

local Plugin = {}
Plugin.__index = Plugin

-- Asks a plugin. A plugin that has failed is ended, and started again at the next call.
function Plugin:ask(text)
  self.program = self.program or start(self.name)
  local answer, problem = exchange(self.program, text)
  if not answer then self:stop() end
  return answer, problem
end

function Plugin:stop()
  if self.program then self.program:stop(0) end
  self.program = nil
end

Plugin.__close = Plugin.stop

local function plugin(name) return setmetatable({ name = name }, Plugin) end

local shout <close> = plugin "shout"
local count <close> = plugin "count"
local rogue <close> = plugin "rogue"
local words = arg[1] or "to be or not to be"

for _, request in ipairs { words, "read", "connect", "nonsense", "memory", "forever" } do
  -- Calls all three plugins at the same time, so that none waits for the others.
  local tasks = {}
  for i, one in ipairs { shout, count, rogue } do
    tasks[i] = rl.task(function()
      local answer, problem = one:ask(request)
      return ("%s: %s"):format(one.name, answer or "failed: " .. problem:gsub("^rlhost: ", ""):gsub("^.-:%d+: ", ""))
    end)
  end
  for _, task in ipairs(tasks) do print(task:await()) end
end
