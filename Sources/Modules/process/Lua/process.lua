-- runloop.process: runs other programs, connected to pipes or to terminals of their own, and delivers signals as
-- events. The
-- object of a program is in runloop.process.programs; the Linux part is in the native half.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local programs = require "runloop.process.programs"
local signals = require "runloop.process.signals"

local process = {}
local raise, wrong = misuse.raise, programs.wrong
local type, pairs, ipairs = type, pairs, ipairs
local setmetatable, pcall, error = setmetatable, pcall, error
local concat = table.concat

-- A program that has ended may leave others that hold its output open. The call waits for such programs for this number
-- of seconds.
local OUTPUT_GRACE = 0.5
local MAX_OUTPUT = 16 << 20

local RUN = { timeout = "seconds", grace = "seconds", max_output = "number" }
for field, kind in pairs(programs.options) do RUN[field] = kind end
-- `run` returns the output in its result, so it takes no functions that receive output.
RUN.on_output, RUN.on_errors, RUN.modes = nil, nil, nil

function process.start(options)
  local words = programs.check("process.start", options, programs.options)
  return programs.start("process.start", options, words, { "inherit", "inherit", "inherit" })
end

-- Running programs to their end ---------------------------------------------------------------------------------------

-- Reads a stream to its end, and keeps the first `max` bytes.
local function collect(stream, max, result, field)
  local parts, size = {}, 0
  result[field] = parts
  while true do
    local bytes = stream:read(65536)
    if not bytes then return end
    if size < max then
      parts[#parts + 1] = size + #bytes > max and bytes:sub(1, max - size) or bytes
    end
    size = size + #bytes
    if size > max then result.truncated = true end
  end
end

local function run(what, options, words)
  local input = options.input
  local is_mode = input == "pipe" or input == "inherit" or input == "null"
  local given = type(input) == "string" and not is_mode and input or nil
  local fields = {}
  for name, value in pairs(options) do fields[name] = value end
  if given then
    fields.input = "pipe"
  elseif input == "pipe" then
    wrong(what, "input: nobody could write to its pipe; give the text itself, or use process.start")
  end
  local max = options.max_output or MAX_OUTPUT
  local self, message, code = programs.start(what, fields, words, { "null", "pipe", "pipe" })
  if not self then return nil, message, code end
  local result, tasks = {}, {}
  local guard <close> = setmetatable({}, { __close = function()
    for _, task in ipairs(tasks) do task:cancel() end
    programs.abort_streams(self)
    if not self._how then self:__close() end
  end })
  local readers, problem, refused, refusal = {}, nil, nil, nil
  if given then
    tasks[#tasks + 1] = internals.child_task(function()
      local fine, why, name = self.input:write(given)
      if fine then fine, why, name = self.input:flush() end
      -- A program that does not read all of its input causes no error.
      if fine or name == "EPIPE" or self._how then return self.input:finish() end
      -- An error is returned in place of partial output, which could be mistaken for the whole.
      refused, refusal = why, name
      self:stop(options.grace)
    end)
  end
  for _, field in ipairs { "output", "errors" } do
    local stream = self[field]
    readers[#readers + 1] = stream and internals.child_task(function()
      local fine, err = pcall(collect, stream, max, result, field)
      if fine or rl.is_cancelled(err) then return end
      -- Memory is exhausted. A program whose output nobody reads would wait forever, and so would the task that waits
      -- for the program: so stop it.
      problem, result[field] = problem or err, nil
      stream:abort()
      self:stop(options.grace)
    end) or nil
  end
  for _, task in ipairs(readers) do tasks[#tasks + 1] = task end
  local timed_out
  local how, value = self:wait(options.timeout)
  if not how then
    timed_out = true
    how, value = self:stop(options.grace)
  end
  if problem then error(problem, 0) end
  if refused then return nil, refused, refusal end
  -- The output of a program may continue after its end: its children may still write.
  if not rl.timeout(OUTPUT_GRACE, function() for _, task in ipairs(readers) do task:await() end return true end) then
    result.truncated = true
  end
  result[how == "exit" and "code" or "signal"] = value
  for _, field in ipairs { "output", "errors" } do if result[field] then result[field] = concat(result[field]) end end
  result.truncated = result.truncated or false
  result.timed_out = timed_out or false
  if timed_out then return result, "timed out" end
  return result
end

function process.run(options)
  local words = programs.check("process.run", options, RUN)
  return run("process.run", options, words)
end

function process.shell(text, options)
  misuse.argument(text, "string", "process.shell", 1)
  misuse.optional(options, "table", "process.shell", 2)
  local all = { "/bin/sh", "-c", text }
  for name, value in pairs(options or {}) do
    if type(name) ~= "string" then
      raise("process.shell: argument #2 takes options only; write the words into the command line")
    end
    all[name] = value
  end
  local words = programs.check("process.shell", all, RUN)
  if not all.name then
    all.name, all.recorded = programs.words_of { text }, not native.records_arguments() and words[1] or nil
  end
  return run("process.shell", all, words)
end

-- This process --------------------------------------------------------------------------------------------------------

process.environment, process.id, process.directory = native.environment, native.id, native.directory
function process.set_directory(path)
  misuse.argument(path, "string", "process.set_directory", 1)
  return native.set_directory(path)
end

-- A user or a group: its name or its number. In system calls the largest number stands for "unchanged".
local function account(value, what, number)
  if type(value) == "string" or math.type(value) == "integer" and value >= 0 and value < 0xffffffff then return end
  raise("%s: argument #%d must be a name or a number, got %s", what, number, misuse.describe(value))
end

function process.set_user(user, group)
  account(user, "process.set_user", 1)
  if group ~= nil then account(group, "process.set_user", 2) end
  if rl.this_thread() then raise("process.set_user: only the main thread changes the user, for all threads") end
  return native.set_user(user, group)
end

for _, name in ipairs { "signal", "on_signal", "wait_signal", "notify", "watchdog" } do
  process[name] = signals[name]
end

return process
