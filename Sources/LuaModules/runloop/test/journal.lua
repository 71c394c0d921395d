-- What a test notes down: t.journal.

local rl = require "runloop"
local values = require "runloop.test.values"

local type, select, tostring, setmetatable = type, select, tostring, setmetatable
local format, concat = string.format, table.concat

--- Gives the test library its journals.
return function(t, core)

local fail, misuse, describe_value = core.fail, core.misuse, core.describe_value

local Journal = {}
-- What a journal needs to know besides its entries.
local starts = setmetatable({}, { __mode = "k" })
Journal.__index = Journal
Journal.__name = "journal"

--- Writes an entry: its arguments, separated by spaces.
function Journal:add(...)
  local parts = {}
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    parts[i] = type(value) == "table" and values.show(value) or tostring(value)
  end
  local entry = concat(parts, " ")
  if starts[self] then entry = format("%.10g ", rl.now() - starts[self]) .. entry end
  self[#self + 1] = entry
end

Journal.__call = Journal.add

--- The entries, one a line.
function Journal:text() return concat(self, "\n") end
Journal.__tostring = Journal.text

--- Fails unless the entries are these: an array of strings, or one string with a line for each.
function Journal:equal(expected, note)
  local actual
  if type(expected) == "string" then
    actual = self:text()
  elseif type(expected) == "table" then
    actual = {}
    for i = 1, #self do actual[i] = self[i] end
  else
    misuse("journal:equal: argument #1 must be an array of entries or a text, got " .. describe_value(expected))
  end
  if values.equal(actual, expected) then return end
  local message, details = values.difference(concat(self, "\n") .. "\n",
    (type(expected) == "table" and concat(expected, "\n") or expected) .. "\n")
  fail("the journal: " .. message, details, note)
end

--- Records what happens, in order: call it with what to note. With `{times = true}` each entry begins with the seconds
--- since the journal was made.
function t.journal(options)
  if options ~= nil and type(options) ~= "table" then
    misuse("t.journal: argument #1 must be a table like {times = true}, got " .. describe_value(options))
  end
  local journal = setmetatable({}, Journal)
  if options and options.times then starts[journal] = rl.now() end
  return journal
end

end
