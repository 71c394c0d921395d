-- The methods by which a test waits for a program: for its output, and for its end.

local rl = require "runloop"
local values = require "runloop.test.values"

local type, pairs = type, pairs
local format, find, sub = string.format, string.find, string.sub
local unpack, pack, concat = table.unpack, table.pack, table.concat

--- Adds the waiting methods to the class of processes. `parts` holds the functions of spawn.lua that they use.
return function(Process, parts)

  local check, misuse, fail = parts.check, parts.misuse, parts.fail
  local pause, text_of = parts.pause, parts.text_of

  local function tail(text)
    if text == "" then return "nothing" end
    if #text > 400 then text = "…" .. sub(text, -400) end
    return values.show(text)
  end

  -- Describes the text of a stream since the last match, for the details of a failure.
  local function tail_of(self, buffer, mark)
    return "since the last match it wrote " .. tail(sub(text_of(self, buffer), self[mark]))
  end

  local WAIT = { within = "a number", plain = "a boolean", from = "a string" }

  -- Returns the meaning of the options: the buffer of the stream, the field with the position after the last match, the
  -- seconds to wait, and whether patterns are plain texts.
  local function check_wait(self, name, options)
    if options ~= nil and type(options) ~= "table" then
      misuse(format("%s: the options must be a table like {within = 1}, got a %s", name, type(options)))
    end
    parts.check_options(options, WAIT, name)
    options = options or {}
    if options.from and options.from ~= "errors" and options.from ~= "output" then
      misuse(name .. ": option 'from' must be \"output\" or \"errors\"")
    end
    local errors = options.from == "errors" and not self.has_terminal
    return errors and "complained" or "written", errors and "error_position" or "position", options.within or 5,
      options.plain
  end

  -- Returns the first match of several patterns from a position on: the match that begins first, and its pattern's
  -- number.
  local function first_match(text, patterns, position, plain)
    local best, which
    for i = 1, #patterns do
      local found = pack(find(text, patterns[i], position, plain))
      if found[1] and (not best or found[1] < best[1]) then best, which = found, i end
    end
    return best, which
  end

  -- Returns whether to search again: always after a pause in the output, otherwise only when the unread text has grown
  -- by half. Searching a long output after each piece would take time proportional to the square of its length.
  local function is_worth_it(self, buffer, position)
    local size = self.sizes[buffer] - position
    if self.how or size < 100000 or size > (self.searched[buffer] or 0) * 1.5 then
      self.searched[buffer] = size
      return true
    end
    return false
  end

  local function fail_wait(self, patterns, why, buffer, mark)
    local details = { tail_of(self, buffer, mark) }
    local complaint = sub(text_of(self, "complained"), self.error_position)
    if buffer ~= "complained" and complaint ~= "" then details[2] = "on standard error " .. tail(complaint) end
    if self.how then
      details[#details + 1] = self.how == "exit" and "its exit status is " .. self.code
        or "it was ended by signal " .. self.signalled
    end
    local shown = {}
    for i = 1, #patterns do shown[i] = values.show(patterns[i]) end
    fail(format("%s did not write %s: %s", self.title, concat(shown, " or "), why), details)
  end

  --- Waits until the program's output matches a pattern, from the end of the last match on, and returns the captures,
  --- or the match if there are none. With an array of patterns, the first pattern that matches counts, and its number
  --- is returned first. Fails after `within` seconds (5), or if the program ends without a match. With `plain`, the
  --- pattern is a plain text; with `from = "errors"`, its standard error is searched.
  function Process:wait_for(pattern, options)
    check(self, "process:wait_for")
    local patterns = type(pattern) == "table" and pattern or { pattern }
    if #patterns == 0 then
      misuse("process:wait_for: argument #1 must be a pattern, or an array of them, got a " .. type(pattern))
    end
    for _, each in pairs(patterns) do
      if type(each) ~= "string" then misuse("process:wait_for: argument #1 must be a pattern, got a " .. type(each)) end
    end
    local buffer, mark, within, plain = check_wait(self, "process:wait_for", options)
    local deadline = rl.now() + within
    self.searched[buffer] = nil
    local function look()
      local text = text_of(self, buffer)
      local found, which = first_match(text, patterns, self[mark], plain)
      if not found then return nil end
      self[mark] = found[2] + 1
      if found.n == 2 then found = pack(0, 0, sub(text, found[1], found[2])) end
      if type(pattern) == "table" then return pack(which, unpack(found, 3, found.n)) end
      return pack(unpack(found, 3, found.n))
    end
    while true do
      local found = is_worth_it(self, buffer, self[mark]) and look()
      if found then return unpack(found, 1, found.n) end
      local size = self.sizes[buffer]
      local left = deadline - rl.now()
      -- Search also when the output pauses.
      local has_skipped = self.searched[buffer] ~= size - self[mark]
      local woken = not self.how and pause(self, has_skipped and left > 0.02 and 0.02 or left)
      if not woken then
        found = look()
        if found then return unpack(found, 1, found.n) end
        if self.how then fail_wait(self, patterns, "it ended without", buffer, mark) end
        if rl.now() >= deadline then fail_wait(self, patterns, format("not within %g s", within), buffer, mark) end
      end
    end
  end

  --- Waits until the standard output, or the terminal, is at its end, and returns the text since the last match. Fails
  --- after `within` seconds (5). With `from = "errors"`, waits for the end of the standard error.
  function Process:wait_for_end_of_output(options)
    check(self, "process:wait_for_end_of_output")
    local buffer, mark, within = check_wait(self, "process:wait_for_end_of_output", options)
    local deadline = rl.now() + within
    while not self.at_end[buffer] and not (self.has_terminal and self.how) do
      if not pause(self, deadline - rl.now()) and not self.at_end[buffer] and not self.how then
        fail(format("%s did not end its output within %g s", self.title, within), { tail_of(self, buffer, mark) })
      end
    end
    local text = sub(text_of(self, buffer), self[mark])
    self[mark] = self.sizes[buffer] + 1
    return text
  end

  --- Waits for the program's end, and returns its exit status. If a signal ended the program, returns 128 plus the
  --- signal's number, and the signal's name. Fails after `within` seconds (5).
  function Process:wait(options)
    check(self, "process:wait")
    local within = options and options.within or 5
    local deadline = rl.now() + within
    while not self.how do
      if not pause(self, deadline - rl.now()) and not self.how then
        fail(format("%s did not end within %g s", self.title, within), { tail_of(self, "written", "position") })
      end
    end
    if self.how == "exit" then return self.code end
    return 128 + self.code, self.signalled
  end

end
