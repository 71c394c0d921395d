-- The state that all tests of a file share and a test may change, for the runner to restore: the collector, debug
-- hooks, and the files of io.read and io.write.

local system = ...

local collectgarbage, type, next = collectgarbage, type, next
local gethook, sethook, getinfo, running = debug.gethook, debug.sethook, debug.getinfo, coroutine.running
local input, output, stdin = io.input, io.output, io.stdin
local stdout, format = io.stdout, string.format
local explain = require "runloop.test.explain"

local state = {}
-- The collector's mode and parameters after the file was loaded.
local mode, pause, multiplier, is_running
-- The coroutines in which the test and its hooks have run.
local coroutines = {}

-- Returns the parameters of the collector. Lua returns a parameter only when it is set.
local function parameters()
  local pause, multiplier = collectgarbage("setpause", 200), collectgarbage("setstepmul", 100)
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", multiplier)
  return pause, multiplier
end

--- Records the state before the first test.
function state.note()
  is_running = collectgarbage "isrunning"
  mode = collectgarbage "incremental"
  collectgarbage(mode)
  pause, multiplier = parameters()
end

--- Records that the running coroutine belongs to the test.
function state.enter() coroutines[running()] = true end

local function hook_text(hook)
  if type(hook) ~= "function" then return nil end
  local info = getinfo(hook, "S")
  return format("debug hook (the function at %s:%d)", explain.source_of(info), info.linedefined)
end

--- Restores the state. Returns descriptions of changes that are leaks: hooks, and other files for io.read and io.write.
--- The settings of the collector are restored silently.
function state.restore()
  local found = {}
  for thread in next, coroutines do
    local text = hook_text(gethook(thread))
    if text then
      found[#found + 1] = text
      sethook(thread)
      system.count_lines(nil, thread)
    end
  end
  coroutines = {}
  if output() ~= stdout then
    output(stdout)
    found[#found + 1] = "io.output (a file other than standard output)"
  end
  if input() ~= stdin then
    input(stdin)
    found[#found + 1] = "io.input (a file other than standard input)"
  end
  collectgarbage(is_running and "restart" or "stop")
  collectgarbage(mode)
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", multiplier)
  return found
end

return state
