-- Descriptor ports of objects that read ahead: what they hold, and have not handed out, is as good as what their descriptor has. Called with
-- the options of a port, whose callback it replaces; returns a function that is called with the port.

local rl, is_dirty, options, object = ...
local ipairs, find, io_type = ipairs, string.find, io.type
local callback = options.callback

-- A call is on its way.
local is_coming = false
-- The end was told while the object still held something: so the callback has not seen it yet, and the loop tells it once.
local owes_end = false

local serve

local function modes_of(port)
  local loop, modes = rl.current(), {}
  for _, mode in ipairs(loop:modes()) do if loop:contains(port, mode) then modes[#modes + 1] = mode end end
  return #modes > 0 and modes or nil
end

-- Calls back in one of the modes that the port is in then, if there is still reason to.
local soon
function soon(port)
  if is_coming then return end
  is_coming = true
  local function call_back()
    is_coming = false
    if not port:is_valid() or not modes_of(port) or io_type(object) == "closed file" then return end
    -- It was added behind the request, or elsewhere.
    if not rl.current():contains(port, rl.current():mode()) then return soon(port) end
    if is_dirty(object) then
      if find(port:events(), "r", 1, true) then serve(port, "r") end
    elseif owes_end then
      owes_end = false
      serve(port, "h")
    end
  end
  -- One that was just made may be added to modes yet.
  rl.perform { call_back, modes = modes_of(port) or "common" }
end

function serve(port, events)
  local has_ended = find(events, "h", 1, true)
  local was_dirty = has_ended and is_dirty(object)
  callback(port, events)
  if not port:is_valid() then return end
  if has_ended and (was_dirty or is_dirty(object)) then owes_end = true end
  if owes_end or is_dirty(object) then soon(port) end
end

options.callback = serve
return soon
