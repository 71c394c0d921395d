-- What a test notes down: t.journal.

local rl = require "runloop"
local values = require "runloop.test.values"

local type, select, tostring, setmetatable = type, select, tostring, setmetatable
local format, concat, move = string.format, table.concat, table.move

--- Gives the test library its journals.
return function(t, core)

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
    core.check_argument(expected, "string or table", "journal:equal", 1, "an array of entries or a text")
    local is_list = type(expected) == "table"
    if values.equal(is_list and move(self, 1, #self, 1, {}) or self:text(), expected) then return end
    local message, details = values.difference(self:text() .. "\n",
      (is_list and concat(expected, "\n") or expected) .. "\n")
    core.fail("the journal: " .. message, details, note)
  end

  --- Records what happens, in order: call it with what to note. With `{times = true}` each entry begins with the seconds
  --- since the journal was made.
  function t.journal(options)
    core.check_argument(options, "table or nil", "t.journal", 1, "a table like {times = true}")
    local journal = setmetatable({}, Journal)
    if options and options.times then starts[journal] = rl.now() end
    return journal
  end

end
