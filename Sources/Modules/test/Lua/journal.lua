-- Journals, in which a test records what happens: t.journal.

local rl = require "runloop"
local values = require "runloop.test.values"

local type, select, tostring, setmetatable = type, select, tostring, setmetatable
local format, concat, move = string.format, table.concat, table.move

--- Adds journals to the test library.
return function(t, core)

  local Journal = {}
  -- The start times of journals. The times are in a table of their own, because a journal is an array of its entries.
  local starts = setmetatable({}, { __mode = "k" })
  Journal.__index = Journal
  Journal.__name = "journal"

  --- Adds an entry: its arguments, separated by spaces.
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

  --- Returns the entries, one in each line.
  function Journal:text() return concat(self, "\n") end
  Journal.__tostring = Journal.text

  --- Fails unless the entries are equal to an array of strings, or to a string with a line for each.
  function Journal:equal(expected, note)
    core.check_argument(expected, "string or table", "journal:equal", 1, "an array of entries or a text")
    local is_list = type(expected) == "table"
    if values.equal(is_list and move(self, 1, #self, 1, {}) or self:text(), expected) then return end
    local message, details = values.difference(self:text() .. "\n",
      (is_list and concat(expected, "\n") or expected) .. "\n")
    core.fail("the journal: " .. message, details, note)
  end

  --- Returns a journal, which records what happens in order: call it with the values to record. With `{times = true}`,
  --- each entry begins with the seconds since the journal was made.
  function t.journal(options)
    core.check_argument(options, "table or nil", "t.journal", 1, "a table like {times = true}")
    local journal = setmetatable({}, Journal)
    if options and options.times then starts[journal] = rl.now() end
    return journal
  end

end
