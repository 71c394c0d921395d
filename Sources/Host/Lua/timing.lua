-- rl.at, rl.debounce and rl.throttle.

local rl, internals, crossing = ...
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, describe = misuse.raise, misuse.describe
local type, setmetatable, getmetatable = type, setmetatable, getmetatable
local tostring, pcall = tostring, pcall
local pack, unpack, format, max = table.pack, table.unpack, string.format, math.max
local make_timer = crossing["rl.at"]

local timing = {}

-- Calls a function at a time of the wall clock. If `time` is a table, it has the fields of a local time, as for
-- os.time. os.time gets a copy, since it changes its argument.
function timing.at(time, fn, options)
  if type(time) == "table" then
    local copy = {}
    for name, value in next, time do copy[name] = value end
    local fine, seconds = pcall(os.time, copy)
    if not fine then raise("rl.at: argument #1: " .. tostring(seconds):gsub("^[^:]*:%d+: ", "")) end
    time = seconds
  end
  if type(options) ~= "table" or options.when_set == nil then return make_timer(fn, options, time) end
  if type(options.when_set) ~= "boolean" then
    raise("rl.at: field 'when_set' must be a boolean, got %s", describe(options.when_set))
  end
  local others = {}
  for name, value in next, options do if name ~= "when_set" then others[name] = value end end
  return make_timer(fn, others, time, options.when_set)
end

-- One call for a burst of calls ---------------------------------------------------------------------------------------

-- The second result of rl.debounce and rl.throttle: an object that controls the calls. The first result is a plain
-- function, so that it can be passed wherever a function is expected.
local Calls = objects.class("runloop.Calls", { __name = "calls" })

-- Calls the function with the arguments of the latest call. A second call waits until the first has returned.
local function run(self)
  local arguments = self._arguments
  self._arguments = nil
  self._last = rl.now()
  self._running = true
  local done <close> = self._done
  self._fn(unpack(arguments, 1, arguments.n))
end

local function due(self)
  self._timer = nil
  if self._arguments and not self._running then run(self) end
end

local function arm(self, seconds)
  self._timer = rl.after(seconds, function() due(self) end)
end

local function make(what, seconds, fn, call)
  misuse.argument(seconds, "seconds", what, 1)
  misuse.argument(fn, "function", what, 2)
  local self = setmetatable({ _what = what, _seconds = seconds, _fn = fn, _valid = true }, Calls)
  internals.set_subject(self, format("function of %s %s", what, objects.made_at()))
  -- Arms the timer for calls that came while the function ran, even if the function has failed.
  self._done = setmetatable({}, { __close = function()
    self._running = false
    if self._arguments and not self._timer then arm(self, 0) end
  end })
  return function(...)
    if not self._valid then return end
    self._arguments = pack(...)
    call(self)
  end, self
end

function timing.debounce(seconds, fn)
  return make("rl.debounce", seconds, fn, function(self)
    if self._timer then self._timer:set_fire_date(rl.now() + seconds) else arm(self, seconds) end
  end)
end

function timing.throttle(seconds, fn)
  return make("rl.throttle", seconds, fn, function(self)
    if self._timer then return end
    local left = self._last and self._last + seconds - rl.now() or 0
    if left > 0 or self._running then arm(self, max(left, 0)) else run(self) end
  end)
end

local function self_of(self, name)
  if getmetatable(self) ~= Calls then raise("calls:%s: call it with a colon", name) end
  return self
end

function Calls:is_pending() return self_of(self, "is_pending")._arguments ~= nil end
function Calls:is_valid() return self_of(self, "is_valid")._valid end

-- Makes the pending call now.
function Calls:flush()
  self_of(self, "flush")
  if self._timer then self._timer:invalidate() end
  self._timer = nil
  if not self._arguments or self._running then return false end
  run(self)
  return true
end

function Calls:invalidate()
  self_of(self, "invalidate")
  if self._timer then self._timer:invalidate() end
  self._timer, self._arguments, self._valid = nil, nil, false
end
Calls.__close = Calls.invalidate
function Calls:__tostring()
  return format("%s (%g s, %s)", self._what, self._seconds,
    not self._valid and "invalid" or self._arguments and "a call is pending" or "no call is pending")
end

return timing
