-- rl.on_shutdown and rl.shutdown: the program's last tasks, before all others are cancelled and the loop ends.

local rl, internals, crossing = ...
local raise = require("runloop.misuse").raise
local type, tostring, getinfo = type, tostring, debug.getinfo
local wait_for_timeout = crossing["rl.timeout"]
local LIMIT = 5

local last_tasks = {}
local begun = {}  -- kept until the end, when their errors are told
local has_begun = false

-- Runs those that are there, newest first, one after the other, and those that they add.
local function run_all(reason)
  while #last_tasks > 0 do
    local last = table.remove(last_tasks)
    local task = rl.task(last.fn, reason)
    begun[#begun + 1] = task
    if task:status() == "waiting" and not wait_for_timeout({ task }, last.limit) then
      io.stderr:write(("rlhost: the shutdown function made at %s has not ended within %g s\n"):format(last.site, last.limit))
      task:cancel()
    end
  end
  crossing.end_shutdown()
end

local function begin(reason)
  if has_begun then return end
  has_begun = true
  crossing.begin_shutdown()
  rl.task(run_all, reason)
end

local function on_shutdown(fn, options)
  if type(fn) ~= "function" then
    raise("rl.on_shutdown: argument #1 must be a function, got " .. (fn == nil and "nothing" or type(fn)))
  end
  if options ~= nil and type(options) ~= "table" then
    raise("rl.on_shutdown: argument #2 must be an options table, got " .. type(options))
  end
  for name in next, options or {} do
    if name ~= "limit" then raise("rl.on_shutdown: unknown field '%s' (there is: limit)", tostring(name)) end
  end
  local limit = options and options.limit or LIMIT
  if type(limit) ~= "number" or not (limit >= 0) then
    raise("rl.on_shutdown: field 'limit' must be a number of seconds, 0 or more, got " .. tostring(limit))
  end
  if rl.this_thread() then raise("rl.on_shutdown: only the main thread shuts the program down") end
  if #last_tasks == 0 and not has_begun then crossing.on_shutdown(begin) end
  local info = getinfo(2, "Sl")
  last_tasks[#last_tasks + 1] =
    { fn = fn, limit = limit, site = info and ("%s:%d"):format(info.short_src, info.currentline) or "?" }
end

local function shutdown(reason)
  if rl.this_thread() then raise("rl.shutdown: only the main thread shuts the program down") end
  begin(reason)
end

return { on_shutdown = on_shutdown, shutdown = shutdown }
