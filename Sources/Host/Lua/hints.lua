-- runloop.hints: suggestions of the intended name for a name that does not exist. The module is loaded at the first
-- mistake. The search tries meaning first, then spelling, then lists the existing names.

local native = ...
local meanings = require "runloop.meanings"
local misuse = require "runloop.misuse"
local nearest, raise, describe = misuse.nearest, misuse.raise, misuse.describe
local ipairs, next, pcall = ipairs, next, pcall
local tostring, type, package = tostring, type, package
local find, format, gsub = string.find, string.format, string.gsub
local lower, match = string.lower, string.match
local sort, concat = table.sort, table.concat

local hints = {}

-- The largest number of names in a list; a longer list ends with the number of the other names.
local MOST = 12

local function enumerate(names, ending)
  sort(names)
  local count = #names
  local list = concat(names, ending .. ", ", 1, count > MOST and MOST or count) .. (count > 0 and ending or "")
  return count > MOST and format("%s and %d more", list, count - MOST) or list
end

local function there_are(names)
  if #names == 0 then return "" end
  return format(" (there %s: %s)", #names == 1 and "is" or "are", enumerate(names, ""))
end

-- Modules ------------------------------------------------------------------------------------------------------------

--- Returns the line that `require` adds to the error for an unknown module, or nil if no public module is meant.
function hints.module(name)
  local modules, words = {}, {}
  for _, module in ipairs(native.modules()) do
    modules[module] = true
    words[match(module, "^runloop%.(.+)$") or module] = true
  end
  local meant = meanings.modules[name]
  local word = match(name, "^runloop%.(.+)$") or match(name, "^rl%.(.+)$") or match(name, "^rlhost%.(.+)$")
  if not meant and word then
    meant = meanings.modules[word] or "runloop." .. (words[word] and word or nearest(word, words) or "")
  elseif not meant then
    meant = nearest(name, modules)
  end
  return modules[meant] and "there is " .. meant or nil
end

-- Fields of options --------------------------------------------------------------------------------------------------

-- Returns the function `name` of a module that is loaded.
local function function_of(name)
  local module, key = match(name, "^(%w+)%.([%w_]+)$")
  local loaded = module and package.loaded["runloop." .. module]
  return type(loaded) == "table" and loaded[key]
end

-- Returns the suggestion that a row of `meanings` makes for a field, for a function whose options are `known`.
local function meant_field(row, known)
  if type(row) == "string" then row = { row } end
  for _, word in ipairs(row or {}) do
    local unit, field = match(word, "^(%a+): ([%w_]+)$")
    local first, second = match(word, "^([%w_]+) and ([%w_]+)$")
    if known[word] then return format("did you mean '%s'?", word) end
    if unit and known[field] then return format("%s: '%s'", unit, field) end
    if first and known[first] and known[second] then return format("did you mean '%s' and '%s'?", first, second) end
    if find(word, "^%w+%.[%w_]+$") and function_of(word) then return format("did you mean %s?", word) end
    if find(word, "^the ") then return word end
  end
end

--- Returns the end of the message about an unknown field of the options of the function `what`.
function hints.field(what, field, names)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  local own = meanings.fields[match(what, "^%w+")]
  local said = meant_field(own and own[field], known) or meant_field(meanings.fields.anywhere[field], known)
  local near = not said and nearest(field, known)
  if near then said = format("did you mean '%s'?", near) end
  return said and format(" (%s)", said) or there_are(names)
end

--- Like `hints.field`, but for calls from Swift, which pass the names as separate arguments.
function hints.field_among(what, field, ...) return hints.field(what, field, { ... }) end

local function names_of(known)
  local names = {}
  for name in next, known do
    if type(name) == "string" and name ~= "..." then names[#names + 1] = name end
  end
  return names
end

--- Raises the error for an unknown field; `known` has the known ones as keys.
function hints.unknown(what, field, known)
  if type(field) ~= "string" then raise("%s: %s is not the name of a field", what, describe(field)) end
  raise("%s: unknown field '%s'%s", what, field, hints.field(what, field, names_of(known)))
end

-- Raises the error for wrong options, which the checker in C has detected: first for an unknown field, then for a
-- missing one, then for a wrong kind.
function hints.refuse(options, known, what, number)
  if type(options) ~= "table" then misuse.argument(options, "table", what, number or 1) end
  local unknown
  for field in next, options do
    local is_own = math.type(field) == "integer" and known["..."]
    if not is_own and (type(field) ~= "string" or not known[field] or field == "...") then
      if not unknown or tostring(field) < tostring(unknown) then unknown = field end
    end
  end
  if unknown ~= nil then hints.unknown(what, unknown, known) end
  local names = names_of(known)
  sort(names)
  for _, name in ipairs(names) do
    if options[name] == nil and type(known[name]) == "table" and known[name].required then
      raise("%s: field '%s' is missing (%s)", what, name, misuse.kinds(known[name]))
    end
  end
  for _, name in ipairs(names) do
    if options[name] ~= nil and not misuse.is_of(options[name], known[name]) then
      misuse.wrong(what, format("field '%s'", name), misuse.kinds(known[name]), options[name])
    end
  end
end

-- Methods and functions ----------------------------------------------------------------------------------------------

local function simple(name) return (gsub(lower(name), "_", "")) end

-- Returns the intended name among `there`, or a text with advice; nil if neither is known.
local function meant_name(rows, name, there)
  local row = rows[name]
  if type(row) == "string" then row = { row } end
  for _, word in ipairs(row or {}) do
    if word == "arg" or not find(word, "^[%w_]+$") then return nil, word end
    if there[word] then return word end
  end
end

local function spelt(name, there)
  for other in next, there do
    if simple(other) == simple(name) then return other end
  end
  return not meanings.words[name] and nearest(name, there) or nil
end

local function functions_in(holder)
  local there, names = {}, {}
  for name, value in next, holder do
    if type(name) == "string" and type(value) == "function" and not find(name, "^_") then
      there[name] = true
      names[#names + 1] = name
    end
  end
  return there, names
end

--- Returns the message for a missing function of a module, or for a missing method of a kind of objects.
function hints.missing(owner, name, holder)
  local there, names = functions_in(holder)
  local own = meanings.names[owner] or {}
  local meant, remedy = meant_name(own, name, there)
  local is_module = find(owner, "^runloop") ~= nil
  if not meant and not remedy and not is_module then meant, remedy = meant_name(meanings.methods, name, there) end
  if not meant and not remedy then meant = spelt(name, there) end
  local has = is_module or owner == "rl.notifications"
  local plural = (find(owner, "us$") or find(owner, "x$") or find(owner, "ch$")) and "es" or "s"
  -- Some kinds, such as routes, have a plural as their name.
  if plural == "s" and find(owner, "s$") then plural = "" end
  has = has and owner .. " has" or owner .. plural .. " have"
  if remedy or is_module then
    remedy = remedy or meant
    return format("%s no %s%s%s", has, name, is_module and "" or "()",
      remedy and format(" (did you mean %s?)", remedy) or there_are(names))
  end
  return format("%s %s, not %s()", has, meant and meant .. "()" or enumerate(names, "()"), name)
end

return hints
