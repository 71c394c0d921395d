-- rl.traceback and rl.inspect.

local rl, internals, crossing = ...
local misuse = require "runloop.misuse"
local inspector = require "runloop.inspect"
local type, pcall, tostring = type, pcall, tostring
local getinfo, traceback = debug.getinfo, debug.traceback
local format, huge = string.format, math.huge

local errors = {}

-- Levels of tables beyond this one are never shown: the recursion needs Lua's stack.
local DEEPEST = 200
local OPTIONS = { depth = "count", width = "count", entries = "count", colors = "boolean" }
-- The limit for the entries of all tables together, as a multiple of the limit for one table.
local IN_ALL = 10

function errors.inspect(value, options)
  options = misuse.options(options, OPTIONS, "rl.inspect", 2)
  local entries = options.entries or 100
  local fine, text = pcall(inspector.inspect, value, {
    depth = math.min(options.depth or 8, DEEPEST), width = options.width or 80, most = entries,
    in_all = entries < huge and entries * IN_ALL or huge, color = options.colors,
  })
  return fine and text or format("<%s %p: %s>", type(value), value, inspector.harmless(tostring(text)))
end

-- Returns whether the function at a level is a message handler. Lua code calls a function by some name; a handler has
-- no name, or that of the operation that has failed. Inside a handler, do not look for waits that have passed the error
-- on: those that are found may belong to an earlier error with the same text in another task.
local function is_handler(level)
  local info = getinfo(level, "n")
  return info.namewhat == "" or info.namewhat == "metamethod"
end

-- The levels above this one: the function `rl.traceback`, and its caller.
function errors.traceback(err)
  local text = crossing.passed(err, is_handler(3))
  if text then return text end
  local kind = type(err)
  if kind == "string" or kind == "number" or kind == "nil" then return traceback(err, 3) end
  return traceback(crossing.message(err), 3)
end

return errors
