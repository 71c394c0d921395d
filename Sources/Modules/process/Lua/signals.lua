-- Signals as events of the loop, and messages to the service manager: the parts of runloop.process that do not concern
-- programs.

local native = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local process = {}
local raise, describe = misuse.raise, misuse.describe
local type, pairs, tostring, tonumber = type, pairs, tostring, tonumber
local find, match, upper = string.find, string.match, string.upper

-- Signals -------------------------------------------------------------------------------------------------------------

local NUMBERS, NAMES = native.signals(), {}
for name, number in pairs(NUMBERS) do if not NAMES[number] or #name < #NAMES[number] then NAMES[number] = name end end

local function signal_number(what, value, index)
  if type(value) == "number" then
    local number = math.tointeger(value)
    if number and number >= 1 and number <= 64 then return number end
  elseif type(value) == "string" then
    local name = upper(value):gsub("^SIG", "")
    if NUMBERS[name] then return NUMBERS[name] end
    local real, down = match(name, "^RTMIN%+(%d+)$"), match(name, "^RTMAX%-(%d+)$")
    local number = name == "RTMIN" and 34 or name == "RTMAX" and 64
      or real and 34 + tonumber(real) or down and 64 - tonumber(down)
    if number and number >= 34 and number <= 64 then return number end
  end
  raise("%s: argument #%d must be the name of a signal such as \"TERM\", got %s", what, index, describe(value))
end

local function signal_name(number)
  return NAMES[number] or number == 34 and "RTMIN" or number > 34 and "RTMIN+" .. number - 34 or tostring(number)
end

-- Signals as events ---------------------------------------------------------------------------------------------------

-- When the handler of one of these signals returns, the faulting instruction runs again, and would fault forever.
local FAULTS = { [NUMBERS.SEGV] = true, [NUMBERS.BUS] = true, [NUMBERS.ILL] = true, [NUMBERS.FPE] = true }
local SIGNAL_FIELDS = { name = "any", callback = { "function", required = true }, order = "any" }

local function make_signal(what, name, callback, order)
  local number = signal_number(what, name, 1)
  if name == "KILL" or name == "STOP" or number == 9 or number == 19 then
    raise("%s: nobody can catch %s", what, signal_name(number))
  end
  if FAULTS[number] then
    raise("%s: %s reports a fault of the program, which would recur: it cannot be an event",
      what, signal_name(number))
  end
  return native.signal_port { number = number, signal = signal_name(number), callback = callback, order = order }
end

function process.signal(options)
  misuse.argument(options, "table", "process.signal", 1)
  misuse.fields(options, SIGNAL_FIELDS, "process.signal")
  return make_signal("process.signal", options.name, options.callback, options.order)
end

function process.on_signal(name, fn)
  misuse.argument(fn, "function", "process.on_signal", 2)
  local handler, message, code = make_signal("process.on_signal", name, fn)
  if not handler then return nil, message, code end
  rl.current():add(handler, "common")
  return handler
end

function process.wait_signal(name, timeout)
  misuse.optional(timeout, "seconds", "process.wait_signal", 2)
  local came = objects.condition "process.wait_signal"
  local handler <close>, message, code = make_signal("process.wait_signal", name, function() came:signal() end)
  if not handler then return nil, message, code end
  -- Like every wait, this wait can also end in the mode that runs when it begins.
  rl.current():add(handler, { "common", rl.current():mode() })
  local woken, reason = came:wait(timeout)
  if not woken then return nil, reason end
  return true
end

-- The service manager -------------------------------------------------------------------------------------------------

-- Sends "ready", "stopping", "reloading", or any text of sd_notify(3). Returns false if no service manager has started
-- us.
function process.notify(state)
  misuse.argument(state, "string", "process.notify", 1)
  local known = {
    ready = "READY=1",
    stopping = "STOPPING=1",
    reloading = "RELOADING=1\nMONOTONIC_USEC=" .. native.monotonic(),
  }
  return native.notify(known[state] or find(state, "=", 1, true) and state or "STATUS=" .. state)
end

-- Reports to the service manager, at the interval that it requests, that the loop still runs. Returns nil if the
-- service manager requests no reports.
function process.watchdog()
  local variables = native.environment()
  local microseconds, pid = tonumber(variables.WATCHDOG_USEC), tonumber(variables.WATCHDOG_PID)
  if not microseconds or microseconds <= 0 or pid and pid ~= native.id() then return nil end
  local timer = rl.timer { delay = 0, interval = microseconds / 1e6 / 2, name = "watchdog", keeps_alive = false,
    callback = function() native.notify "WATCHDOG=1" end }
  rl.current():add(timer, "common")
  return timer
end

process.numbers, process.number, process.name = NUMBERS, signal_number, signal_name

return process
