-- The test library: the result of `require "runloop.test"` in a test file. Errors of its functions have the position of
-- the test, because the search for a position skips the frames of the library.

local system, internals = ...
local explain = require "runloop.test.explain"

local error, type, setmetatable = error, type, setmetatable
local tostring, pairs = tostring, pairs
local format, find, concat, sort = string.format, string.find, table.concat, table.sort
local getinfo = debug.getinfo

local t = {}
local core = {
  --- The group that `describe` and `it` extend; nil after the file is loaded.
  group = nil,
  --- The state of the test that runs.
  current = nil,
  --- Whether a test or group asks to run alone.
  has_only = false,
  --- The processes that belong to servers, as a set.
  servers = {},
}

-- Positions and failures ----------------------------------------------------------------------------------------------

local function here()
  for level = 2, 60 do
    local info = getinfo(level, "Sl")
    if not info then return nil end
    if info.currentline > 0 and info.source ~= "=[rlhost]" then
      return explain.source_of(info) .. ":" .. info.currentline, info
    end
  end
end
core.here = here

local Failure = { __name = "failure" }
core.Failure = Failure

function Failure:__tostring()
  local text = (self.where and self.where .. ": " or "") .. self.message
  if self.details then text = text .. "\n  " .. concat(self.details, "\n  ") end
  return text
end

local is_thread = require "runloop".this_thread() ~= nil

function core.fail(message, details, note)
  if note ~= nil then message = tostring(note) .. ": " .. message end
  local failure = setmetatable({ message = message, details = details, where = here() }, Failure)
  if not is_thread then error(failure, 0) end
  -- A thread's error reaches other threads without its metatable, so an assertion is recognised there by its text.
  local text = tostring(failure)
  system.note_assertion(text)
  error(text, 0)
end

function core.misuse(text)
  local where = here()
  error((where and where .. ": " or "") .. text, 0)
end

function core.describe_value(value)
  local kind = type(value)
  return kind == "nil" and "nothing" or kind == "string" and format("%q", value) or kind == "number"
    and (value ~= value and "nan" or tostring(value))
    or "a " .. kind
end

--- Raises an error unless `kinds` contains the type of an argument, as in "table or nil"; `what` describes the kinds in
--- the message.
function core.check_argument(value, kinds, name, number, what)
  if find(kinds, type(value), 1, true) then return end
  core.misuse(format("%s: argument #%d must be %s, got %s", name, number, what, core.describe_value(value)))
end

--- Raises an error unless `known` has every option, with a suitable value: as `is_right(value, name)` decides,
--- otherwise by its type.
function core.check_options(options, known, name, is_right, describe)
  for key, value in pairs(options or {}) do
    local expected = known[key]
    if not expected then
      local names = {}
      for other in pairs(known) do names[#names + 1] = other end
      sort(names)
      core.misuse(format("%s: unknown option '%s' (there %s: %s)", name, tostring(key), #names == 1 and "is" or "are",
        concat(names, ", ")))
    end
    local fits = is_right or function() return find(expected, type(value), 1, true) end
    if not fits(value, key) then
      core.misuse(format("%s: option '%s' must be %s, got %s", name, key, expected,
        (describe or core.describe_value)(value)))
    end
  end
end

--- The path of the rlhost that runs the tests.
t.rlhost = system.program()

--- Starts a program.
function t.spawn(options) return require "runloop.test.spawn".start(options, core) end

--- Starts a server.
function t.server(what, options) return require "runloop.test.server"(what, options, core) end

for _, part in pairs { "define", "check", "journal", "rlclock" } do require("runloop.test." .. part)(t, core) end

-- Parts that most files do not use are loaded at their first call.
local added = {}
local function add(part)
  if not added[part] then require("runloop.test." .. part).add(t, core) end
  added[part] = true
end
local function later(part, names)
  for _, name in pairs(names) do
    t[name] = function(...)
      add(part)
      return t[name](...)
    end
  end
end
later("doubles", { "spy", "stub" })
later("property", { "forall" })
later("snapshot", { "snapshot" })
--- The makers of random values for t.forall.
t.gen = setmetatable({}, { __index = function(gen, name)
  setmetatable(gen, nil)
  add "property"
  return gen[name]
end })

--- Returns a client of an HTTP server, over streams in memory.
function t.http(server, network) return require("runloop.http.client.wire").client(server, network) end

require "runloop.test.clock"

internals.loaded["runloop.test.core"] = core
return t
