-- What is said of a method that an object does not have: which one is meant, or which there are.

local rl, internals = ...
local misuse = require "runloop.misuse"
local methods_of = internals.methods

-- What other libraries call it.
local meant = {
  cancel = "invalidate", stop = "invalidate", close = "invalidate", destroy = "invalidate", remove = "invalidate",
  clear = "invalidate", unref = "invalidate", start = "fire", again = "fire", kill = "cancel", abort = "cancel",
  wait = "await", get = "await", result = "await", isvalid = "is_valid", send = "post", write = "post",
}

local function message(kind, name)
  local methods = methods_of(kind)
  local best = meant[name]
  if best and not methods[best] then best = meant[best] end
  if not best or not methods[best] then best = misuse.nearest(name, methods) end
  local there = best and best .. "()"
  if not there then
    local names = {}
    for other in next, methods do names[#names + 1] = other .. "()" end
    table.sort(names)
    there = table.concat(names, ", ")
  end
  return ("%ss have %s, not %s()"):format(kind, there, name)
end

return { message = message }
