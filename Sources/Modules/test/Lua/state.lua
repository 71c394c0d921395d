-- What a test may change of the state that all tests of its file share, for the runner to put back: the collector, hooks, and where
-- io.read and io.write go.

local system = ...

local collectgarbage, type, next = collectgarbage, type, next
local gethook, sethook, getinfo, running = debug.gethook, debug.sethook, debug.getinfo, coroutine.running
local input, output, stdin = io.input, io.output, io.stdin
local stdout, format = io.stdout, string.format
local explain = require "runloop.test.explain"

local state = {}
-- The collector's mode and parameters, as the file has left them when it was loaded.
local mode, pause, multiplier, is_running
-- The coroutines in which the test and its hooks ran.
local coroutines = {}

-- Each is told by setting another.
local function parameters()
  local pause, multiplier = collectgarbage("setpause", 200), collectgarbage("setstepmul", 100)
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", multiplier)
  return pause, multiplier
end

--- Notes what there is, before the first test.
function state.note()
  is_running = collectgarbage "isrunning"
  mode = collectgarbage "incremental"
  collectgarbage(mode)
  pause, multiplier = parameters()
end

--- The running coroutine is one of the test's.
function state.enter() coroutines[running()] = true end

local function hook_text(hook)
  if type(hook) ~= "function" then return nil end
  local info = getinfo(hook, "S")
  return format("debug hook (the function at %s:%d)", explain.source_of(info), info.linedefined)
end

--- Puts all back. Answers what nobody can have meant to leave: hooks, and other files for io.read and io.write; not how the
--- collector is set.
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
    found[#found + 1] = "io.output (another file than the standard output)"
  end
  if input() ~= stdin then
    input(stdin)
    found[#found + 1] = "io.input (another file than the standard input)"
  end
  collectgarbage(is_running and "restart" or "stop")
  collectgarbage(mode)
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", multiplier)
  return found
end

return state
