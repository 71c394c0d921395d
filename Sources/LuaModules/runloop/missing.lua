-- What is said of a method that an object does not have: which one is meant, or which there are.

local rl, internals = ...
local methods_of = internals.methods

-- What other libraries call it.
local meant = {
  cancel = "invalidate", stop = "invalidate", close = "invalidate", destroy = "invalidate", remove = "invalidate",
  clear = "invalidate", unref = "invalidate", start = "fire", again = "fire", kill = "cancel", abort = "cancel",
  wait = "await", get = "await", result = "await", isvalid = "is_valid", send = "post", write = "post",
}

-- How many letters differ: the least number of insertions, deletions and exchanges.
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local previous = row[0]
    row[0] = i
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and previous or 1 + math.min(previous, row[j], row[j - 1])
      previous, row[j] = row[j], cost
    end
  end
  return row[#b]
end

local function index(kind, name)
  if type(name) ~= "string" then return nil end
  local methods = methods_of(kind)
  local best = meant[name]
  if not best or not methods[best] then
    local least = 3
    best = nil
    for other in next, methods do
      local d = distance(name, other)
      if d < least or d == least and best and other < best then best, least = other, d end
    end
  end
  local there = best and best .. "()"
  if not there then
    local names = {}
    for other in next, methods do names[#names + 1] = other .. "()" end
    table.sort(names)
    there = table.concat(names, ", ")
  end
  error(("%ss have %s, not %s()"):format(kind, there, name), 2)
end

return { index = index }
