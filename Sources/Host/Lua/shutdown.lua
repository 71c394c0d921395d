-- rl.on_shutdown and rl.shutdown: the program's last tasks, before all others are cancelled and the loop ends.

local rl, internals, crossing = ...
local misuse = require "runloop.misuse"
local raise, describe = misuse.raise, misuse.describe
local type, tostring = type, tostring
local wait_for_timeout = crossing["rl.timeout"]
local LIMIT, LONGEST = 5, 1e8

local last_tasks = {}
local begun = {}  -- keeps the tasks until the shutdown ends and reports their errors
local has_begun = false

-- Runs the shutdown functions one after the other, newest first. Also runs functions that a shutdown function adds.
local function run_all(reason)
  while #last_tasks > 0 do
    local last = table.remove(last_tasks)
    -- Also limit the time without waits: if the function never waits, no timer can end it.
    crossing.limit_last_task(last.limit < LONGEST and math.max(last.limit, 1e-3) or 0)
    local task = crossing.last_task(last.site, last.fn, reason)
    begun[#begun + 1] = task
    if task:status() == "waiting" then wait_for_timeout({ task }, last.limit) end
    if crossing.limit_last_task(0) or task:status() == "waiting" then
      local text = "rlhost: the shutdown function made at %s has not ended within %g s\n"
      io.stderr:write(text:format(last.place, last.limit))
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

local OPTIONS = { limit = "seconds" }

local function on_shutdown(fn, options)
  misuse.argument(fn, "function", "rl.on_shutdown", 1)
  if options ~= nil and type(options) ~= "table" then
    raise("rl.on_shutdown: argument #2 must be an options table, got %s", describe(options))
  end
  local limit = misuse.options(options, OPTIONS, "rl.on_shutdown", 2).limit or LIMIT
  if rl.this_thread() then raise("rl.on_shutdown: only the main thread shuts the program down") end
  if #last_tasks == 0 and not has_begun then crossing.on_shutdown(begin) end
  last_tasks[#last_tasks + 1] = { fn = fn, limit = limit, site = crossing.site(), place = crossing.place() or "?" }
end

local function shutdown(reason)
  if rl.this_thread() then raise("rl.shutdown: only the main thread shuts the program down") end
  begin(reason)
end

--- Resets the module between two tests.
function internals.forget_shutdown() last_tasks, begun, has_begun = {}, {}, false end

return { on_shutdown = on_shutdown, shutdown = shutdown }
