-- Returns whether a text names a time zone: a zone of the system, or a POSIX rule like CET-1CEST,M3.5.0,M10.5.0/3.

local system = ...
local getenv = os.getenv

return function(name)
  if name:find "^%.?/" or name:find("..", 1, true) or name == "" then return false end
  if name:find "^%a%a%a+[+-]?%d" or name:find "^<[%w+-]+>[+-]?%d" then return true end
  if name:find "[^%w_+/-]" then return false end
  return system.kind((getenv "TZDIR" or "/usr/share/zoneinfo") .. "/" .. name) == "file" or name == "UTC"
end
