-- What a test waits for of a program: what it writes, and its end.

local rl = require "runloop"
local values = require "runloop.test.values"

local type, pairs = type, pairs
local format, find, sub = string.format, string.find, string.sub
local unpack, pack, concat = table.unpack, table.pack, table.concat

--- Gives processes their methods that wait. `parts` is what they are made with.
return function(Process, parts)

  local check, misuse, fail = parts.check, parts.misuse, parts.fail
  local pause, text_of = parts.pause, parts.text_of

  local function tail(text)
    if text == "" then return "nothing" end
    if #text > 400 then text = "…" .. sub(text, -400) end
    return values.show(text)
  end

  -- At the end of what has come of one of its streams.
  local function tail_of(self, buffer, mark)
    return "since the last match it wrote " .. tail(sub(text_of(self, buffer), self[mark]))
  end

  local WAIT = { within = "a number", plain = "a boolean", from = "a string" }

  -- What the options say: what has come of the stream that is meant, where its last match ended, and how long to wait.
  local function check_wait(self, name, options)
    if options ~= nil and type(options) ~= "table" then
      misuse(format("%s: the options are a table like {within = 1}, got a %s", name, type(options)))
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

  -- The first match of several patterns in the text from a position on: that which begins first.
  local function first_match(text, patterns, position, plain)
    local best, which
    for i = 1, #patterns do
      local found = pack(find(text, patterns[i], position, plain))
      if found[1] and (not best or found[1] < best[1]) then best, which = found, i end
    end
    return best, which
  end

  -- Whether to look once more: always when it pauses, else when there is half as much again, or else to look at a long
  -- output would take the square of its length.
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

  --- Waits until what it writes matches a pattern, from where the last match ended, and returns the captures, or the match.
  --- Of an array of patterns, the first one to match: its number is returned before that. Fails after `within` seconds (5), or
  --- when it has ended without. `plain`: the pattern is a text as it is; `from = "errors"`: look at its standard error.
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
      -- A pause in its output is a time to look, too.
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

  --- Waits until nothing more can come from its standard output, or its terminal, and returns what it has written since the last
  --- match. Fails after `within` seconds (5). `from = "errors"`: of its standard error.
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

  --- Waits for its end, and returns its exit status; for one that was ended by a signal 128 and the signal's number, and the
  --- signal's name. Fails after `within` seconds (5).
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
