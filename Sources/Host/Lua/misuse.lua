-- runloop.misuse: the errors of the modules written in Lua, for calls that make no sense. Each error begins with the
-- function's name. The error's position is that of the innermost function of the script. The search skips C functions
-- and the host's own functions, so it also works for `pcall(fs.read)`.

local native = ...
local getinfo = package.loaded.debug.getinfo
local error, type, tostring, next = error, type, tostring, next
local pairs, ipairs, select, integer_of = pairs, ipairs, select, math.tointeger
local getmetatable, rawget, pcall = getmetatable, rawget, pcall
local format, concat = string.format, table.concat
local unpack, running = table.unpack, coroutine.running

local misuse = {}

-- Returns the script's position, such as "app.lua:3", in a waiting coroutine, or in the calling one if `thread` is nil.
-- Returns nil if no function of the script is on the stack.
local function place(thread)
  local level, frame = thread and 0 or 2, nil
  thread = thread or running()
  repeat
    frame = getinfo(thread, level, "Sl")
    level = level + 1
  until not frame or frame.currentline > 0 and frame.source ~= "=[rlhost]"
  return frame and format("%s:%d", frame.short_src, frame.currentline)
end
misuse.place = place

function misuse.raise(text, ...)
  if select("#", ...) > 0 then text = format(text, ...) end
  local here = place()
  error(here and here .. ": " .. text or text, 0)
end
local raise = misuse.raise

-- Raises the error for a second reader, when the coroutine `first` is reading already.
function misuse.second_reader(what, first)
  local where = first and place(first)
  raise("%s: one reader at a time: another task waits%s", what, where and " at " .. where or "")
end

-- Returns a value as an error message shows it: numbers and strings themselves, for other values their kind.
function misuse.describe(value)
  if value == nil then return "nothing" end
  local meta = type(value) == "table" and getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and "a " .. name or native.describe(value)
end
local describe = misuse.describe

-- Raises an error such as "rl.after: argument #1 must be a function, got 5".
function misuse.wrong(what, which, expected, value)
  raise("%s: %s must be %s, got %s", what, which, expected, describe(value))
end
local wrong = misuse.wrong

local function names_of(known)
  local names = {}
  for name in next, known do
    if type(name) == "string" then names[#names + 1] = name end
  end
  return unpack(names)
end

-- Returns the key of `known` that is spelled most like a name, or nil if none is similar.
function misuse.nearest(name, known) return type(name) == "string" and native.nearest(name, names_of(known)) or nil end

-- The script positions for which a warning was printed.
local warned = {}

-- Warns, under -W, that a function is deprecated: once for each place in a script that calls it.
function misuse.deprecated(name, successor)
  local text = format("%s: %s is deprecated: use %s", place() or "?", name, successor)
  if warned[text] then return end
  warned[text] = true
  _G.warn(text)
end

local function is_a(expected) return function(value) return type(value) == expected end end
local CHECKS = {
  string = is_a "string", boolean = is_a "boolean", table = is_a "table", ["function"] = is_a "function",
  number = function(value) return type(value) == "number" and value >= 0 end,
  seconds = function(value) return type(value) == "number" and value >= 0 end,
  count = function(value) return type(value) == "number" and integer_of(value) ~= nil and value >= 0 end,
  positive = function(value) return type(value) == "number" and integer_of(value) ~= nil and value > 0 end,
  any = function() return true end,
}
CHECKS.bytes = CHECKS.positive
local NAMES = {
  bytes = "a number of bytes, 1 or more", number = "a number, 0 or more",
  seconds = "a number of seconds, 0 or more", count = "an integer, 0 or more", positive = "an integer, 1 or more",
  table = "a table", string = "a string", boolean = "a boolean", ["function"] = "a function",
}

-- Raises unless an argument is of this kind.
function misuse.argument(value, kind, what, number)
  if not CHECKS[kind](value) then wrong(what, "argument #" .. number, NAMES[kind], value) end
end

-- Raises unless an argument is nil or of this kind.
function misuse.optional(value, kind, what, number)
  if value ~= nil then misuse.argument(value, kind, what, number) end
end

-- Returns the end of a message about an unknown name.
function misuse.hint(name, known)
  local names = { names_of(known) }
  return require "runloop.hints".field("", tostring(name), names)
end

-- Raises an error for an unknown name of a kind, with the nearest of `known`'s keys.
function misuse.unknown_name(what, kind, name, known)
  raise("%s: unknown %s '%s'%s", what, kind, name, misuse.hint(name, known))
end

-- Raises the error for an unknown field; `known` has the known ones as keys.
function misuse.unknown_field(what, field, known) require "runloop.hints".unknown(what, field, known) end

-- Returns the kinds of a declared field as a message names them.
function misuse.kinds(kinds)
  if type(kinds) ~= "table" then return NAMES[kinds] or "a value" end
  local names = {}
  for i, kind in ipairs(kinds) do names[i] = NAMES[kind] or "a value" end
  return concat(names, " or ")
end

-- Whether a value has a kind that a declared field may have.
function misuse.is_of(value, kinds)
  if kinds == true then return true end
  if type(kinds) == "string" then return CHECKS[kinds](value) end
  for _, kind in ipairs(kinds) do if CHECKS[kind](value) then return true end end
  return false
end

-- Raises unless a table's fields are known and of their kinds. A declaration must not change after its first use. It
-- has a kind for each field, or a list of kinds: { name = "seconds", other = { "string", "any", required = true } }.
-- ["..."] = true permits elements with integer keys. Reports first an unknown field, then a missing one, then a field
-- of a wrong kind.
local check = native.check
function misuse.fields(options, known, what) check(options, known, what) end

local NONE = {}

-- Returns a table of options after checking its fields; for nil, an empty table, which must not be changed.
function misuse.options(options, known, what, number)
  if options == nil then return NONE end
  check(options, known, what, number)
  return options
end

-- Calls a function that stores data of a peer. Returns false if it runs out of memory: the caller then ends the
-- connection, since a peer must not be able to end the program. Raises all other errors of the function.
function misuse.fits_memory(fn, ...)
  local is_good, problem = pcall(fn, ...)
  if not is_good and problem ~= "not enough memory" then error(problem, 0) end
  return is_good
end

-- Whether a value can be called as a function.
function misuse.is_callable(value)
  local metatable = getmetatable(value)
  return type(value) == "function" or type(metatable) == "table" and metatable.__call ~= nil
end

function misuse.wrong_self(what, kind, value)
  raise("%s: a %s is expected as self, got %s; call it with a colon", what, kind, describe(value))
end

-- Raises unless `self` is an object with this metatable.
function misuse.expect_self(self, metatable, what)
  if getmetatable(self) ~= metatable then misuse.wrong_self(what, metatable.__name, self) end
  return self
end

-- Raises unless `self` is an object with this metatable: the script has probably called the method with a dot.
function misuse.receiver(self, metatable, what)
  if getmetatable(self) ~= metatable then raise("%s: call it with a colon, on a %s", what, metatable.__name) end
  return self
end

return misuse
