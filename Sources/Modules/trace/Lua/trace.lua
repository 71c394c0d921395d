-- runloop.trace: recordings of the loops, with marks and spans of the script. Scripts use it as rl.trace.

local native = ...
local misuse = require "runloop.misuse"
local raise, describe = misuse.raise, misuse.describe
local type, tostring, select = type, tostring, select
local setmetatable, concat = setmetatable, table.concat
local begin_span = native.begin_span

-- The module is the table rl.trace. The first use of that table has loaded this part.
local trace = require "runloop".trace
trace.dump, trace.start, trace.stop = native.dump, native.start, native.stop

local span_ends = setmetatable({}, { __close = native.end_span })

function trace.span(name, fn, ...)
  if type(name) ~= "string" then raise("rl.trace.span: argument #1 must be a name, got %s", describe(name)) end
  if type(fn) ~= "function" then raise("rl.trace.span: argument #2 must be a function, got %s", describe(fn)) end
  begin_span(name)
  local _ <close> = span_ends
  -- Not a tail call: the span ends after it.
  return fn(...)
end

function trace.mark(name, ...)
  if type(name) ~= "string" then raise("rl.trace.mark: argument #1 must be a name, got %s", describe(name)) end
  local count = select("#", ...)
  if count == 0 then return native.mark(name) end
  local parts = { ... }
  for i = 1, count do parts[i] = tostring(parts[i]) end
  native.mark(name .. " " .. concat(parts, " ", 1, count))
end

return trace
