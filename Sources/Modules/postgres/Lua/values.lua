-- runloop.postgres.values: parameters for which PostgreSQL has its own text formats.

local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"

local type, pairs, tostring, getmetatable = type, pairs, tostring, getmetatable
local format, huge, raise = string.format, math.huge, misuse.raise

--- Adds the functions for values to the module.
return function(postgres)
  --- Returns the parameter for a timestamp with time zone.
  function postgres.time(seconds)
    if type(seconds) ~= "number" or seconds ~= seconds then
      raise("postgres.time: argument #1 must be a number, got %s", misuse.describe(seconds))
    end
    if seconds == huge or seconds == -huge then return seconds > 0 and "infinity" or "-infinity" end
    local whole = seconds // 1
    local micro = ((seconds - whole) * 1e6 + 0.5) // 1 | 0
    if micro == 1000000 then whole, micro = whole + 1, 0 end
    local day, rest = whole // 86400 | 0, whole % 86400 | 0
    -- The Gregorian calendar, in eras of 400 years that begin in March.
    local shifted = day + 719468
    local era, of_era = shifted // 146097, shifted % 146097
    local year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    local of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    local month_from_march = (5 * of_year + 2) // 153
    local month = month_from_march < 10 and month_from_march + 3 or month_from_march - 9
    local year = era * 400 + year_of_era + (month <= 2 and 1 or 0)
    return format("%04d-%02d-%02d %02d:%02d:%02d.%06d+00%s", year > 0 and year or 1 - year, month,
      of_year - (153 * month_from_march + 2) // 5 + 1, rest // 3600, rest // 60 % 60, rest % 60, micro,
      year > 0 and "" or " BC")
  end

  local array

  local function element(value, index, depth)
    if value == nil or value == postgres.null then return "NULL" end
    local kind = type(value)
    if kind == "table" and getmetatable(value) == shape.Bytes then
      return '"\\\\x' .. value[1]:gsub(".", function(byte) return format("%02x", byte:byte()) end) .. '"'
    end
    if kind == "table" and depth < 6 then return array(value, depth + 1) end
    if kind == "number" and value ~= value then return "NaN" end
    if value == huge then return "Infinity" elseif value == -huge then return "-Infinity" end
    if kind == "number" then return math.type(value) == "float" and format("%.17g", value) or tostring(value) end
    if kind == "boolean" then return tostring(value) end
    if kind ~= "string" then
      raise("postgres.array: element %d must be a string, a number, a boolean or a list, got %s", index,
        misuse.describe(value))
    end
    return '"' .. value:gsub('[\\"]', "\\%0") .. '"'
  end

  function array(list, depth)
    local parts, most = {}, #list
    for key in pairs(list) do
      if math.type(key) ~= "integer" or key < 1 then
        raise("postgres.array: argument #1 must be a list, got a table with the key %s", misuse.describe(key))
      end
      if key > most then most = key end
    end
    for index = 1, most do parts[index] = element(list[index], index, depth) end
    return "{" .. table.concat(parts, ",") .. "}"
  end

  --- Returns the parameter for an array.
  function postgres.array(list)
    misuse.argument(list, "table", "postgres.array", 1)
    return array(list, 1)
  end
end
