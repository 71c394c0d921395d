-- Descriptor ports of objects that buffer their input. Such an object is ready while it has buffered bytes, even if its
-- descriptor is not. This chunk gets the options of a port, and replaces the callback in them. It returns a function
-- that must be called with the port.

local rl, is_dirty, options, object = ...
local ipairs, find, io_type = ipairs, string.find, io.type
local callback = options.callback

-- Whether a request to call back is queued.
local is_coming = false
-- Whether the end of the input was reported while the object still had buffered bytes. The loop reports an end only
-- once, so the callback must get it later.
local owes_end = false

local serve

local function modes_of(port)
  local loop, modes = rl.current(), {}
  for _, mode in ipairs(loop:modes()) do if loop:contains(port, mode) then modes[#modes + 1] = mode end end
  return #modes > 0 and modes or nil
end

-- Calls back in one of the port's modes, if there is still a reason to.
local soon
function soon(port)
  if is_coming then return end
  is_coming = true
  local function call_back()
    is_coming = false
    if not port:is_valid() or not modes_of(port) or io_type(object) == "closed file" then return end
    -- The request runs in a mode that does not contain the port: queue it again for the port's modes.
    if not rl.current():contains(port, rl.current():mode()) then return soon(port) end
    if is_dirty(object) then
      if find(port:events(), "r", 1, true) then serve(port, "r") end
    elseif owes_end then
      owes_end = false
      serve(port, "h")
    end
  end
  -- A new port may still be added to modes.
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
