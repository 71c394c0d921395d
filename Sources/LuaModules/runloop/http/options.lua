-- runloop.http.options: reading tables of options, with errors that name what is wrong.

local M = {}

local function nearest(name, known)
  if type(name) ~= "string" then return nil end
  local best, least = nil, 3
  for candidate in pairs(known) do
    -- Levenshtein's distance, by rows.
    local row = {}
    for j = 0, #candidate do row[j] = j end
    for i = 1, #name do
      local previous = row[0]
      row[0] = i
      for j = 1, #candidate do
        local cost = name:byte(i) == candidate:byte(j) and previous or 1 + math.min(previous, row[j], row[j - 1])
        previous, row[j] = row[j], cost
      end
    end
    if row[#candidate] < least or row[#candidate] == least and best and candidate < best then
      best, least = candidate, row[#candidate]
    end
  end
  return best
end

local CHECKS = {
  string = function(value) return type(value) == "string" end,
  boolean = function(value) return type(value) == "boolean" end,
  table = function(value) return type(value) == "table" end,
  ["function"] = function(value) return type(value) == "function" end,
  seconds = function(value) return type(value) == "number" and value >= 0 end,
  count = function(value) return math.type(value) == "integer" and value >= 0 end,
  any = function() return true end,
}
local NAMES = { seconds = "a number of seconds, 0 or more", count = "an integer, 0 or more", table = "a table",
  string = "a string", boolean = "a boolean", ["function"] = "a function" }

local function describe(value)
  if type(value) == "number" then return tostring(value) end
  return type(value)
end
M.describe = describe

-- Raises unless each field is known and of its kind: { name = "seconds", other = { "string", "function" } }. `level` as error's.
function M.check(options, known, name, level)
  for field, value in pairs(options) do
    local kinds = known[field]
    if not kinds then
      local meant = nearest(field, known)
      error(("%s: unknown field '%s'%s"):format(name, tostring(field), meant and " (did you mean '" .. meant .. "'?)" or ""), level + 1)
    end
    if type(kinds) == "string" then
      if not CHECKS[kinds](value) then
        error(("%s: field '%s' must be %s, got %s"):format(name, field, NAMES[kinds], describe(value)), level + 1)
      end
    else
      local is_right = false
      for _, kind in ipairs(kinds) do is_right = is_right or CHECKS[kind](value) end
      if not is_right then
        local names = {}
        for i, kind in ipairs(kinds) do names[i] = NAMES[kind] end
        error(("%s: field '%s' must be %s, got %s"):format(name, field, table.concat(names, " or "), describe(value)), level + 1)
      end
    end
  end
end

-- Raises unless an argument is of this kind.
function M.argument(value, kind, name, number, level)
  if CHECKS[kind](value) then return end
  error(("%s: argument #%d must be %s, got %s"):format(name, number, NAMES[kind], value == nil and "nothing" or describe(value)), level + 1)
end

return M
