-- Reports for human readers; the other formats are in their own files. A reporter receives the events of files in the
-- order of the files: begin_file(file), test(file, number, outcome), output(file, text), file_failed(file, failure,
-- title), end_file(file), and finish(totals).

local report = {}
local format, concat, rep, gsub = string.format, table.concat, string.rep, string.gsub
local ipairs, require = ipairs, require
local shown = require "runloop.text".shown

-- Failures as text ----------------------------------------------------------------------------------------------------

--- Returns the lines that describe a failure.
function report.failure_lines(failure)
  local lines = {}
  local head = (failure.where and failure.where .. ": " or "") .. failure.message
  for line in (head .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  for _, line in ipairs(failure.details or {}) do lines[#lines + 1] = "  " .. line end
  for line in ((failure.note or "") .. "\n"):gmatch "(.-)\n" do if line ~= "" then lines[#lines + 1] = line end end
  if failure.frames then
    lines[#lines + 1] = "traceback:"
    for _, line in ipairs(failure.frames) do lines[#lines + 1] = "  " .. line end
  end
  -- Messages may contain output of other programs, so control characters are escaped.
  for i, line in ipairs(lines) do lines[i] = shown(line, true) end
  return lines
end

--- Returns all lines of several failures as one text.
function report.text_of(failures)
  local lines = {}
  for _, failure in ipairs(failures) do
    for _, line in ipairs(report.failure_lines(failure)) do lines[#lines + 1] = line end
  end
  return concat(lines, "\n")
end

local function seconds(time)
  if time < 0.0995 then return format("%.0f ms", time * 1000) end
  return format("%.2f s", time)
end

function report.clean(text)
  return (gsub(text, "[%c]", function(c) return c == "\n" and " " or c == "\t" and " " or "?" end))
end
local clean = report.clean

--- Returns the text in valid UTF-8: U+FFFD replaces each byte that is invalid.
report.valid = require "runloop.text".valid

-- For people ----------------------------------------------------------------------------------------------------------

local Readable = { shown = {} }
Readable.__index = Readable

local COLOURS = { ok = "32", FAIL = "31;1", skip = "33", bold = "1", dim = "2" }

function Readable:paint(colour, text)
  return self.coloured and colour and format("\27[%sm%s\27[0m", COLOURS[colour], text) or text
end

--- Describes when a test that failed before has passed.
function report.flakiness(outcome)
  return format("passed on try %d%s", outcome.flaky, outcome.round and format(" of run %d", outcome.round) or "")
end

function Readable:begin_file() self.shown = {} end

-- Prints the name of a file before its first event; files without a wanted test are not mentioned.
function Readable:mention(file)
  if self.mentioned == file then return end
  self.mentioned = file
  self:write(self:paint("bold", file.path) .. "\n")
end

function Readable:fail(title, failures)
  self.failures[#self.failures + 1] = { title = title, failures = failures }
end

function Readable:test(file, number, outcome)
  self:mention(file)
  self:close_line()
  local path = file.tests[number].path
  local depth = #path - 1
  for i = 1, depth do
    if self.shown[i] ~= path[i] then
      for j = i, #self.shown do self.shown[j] = nil end
      self.shown[i] = path[i]
      self:write(rep("  ", i) .. clean(path[i]) .. "\n")
    end
  end
  for j = depth + 1, #self.shown do self.shown[j] = nil end
  local word = outcome.s == "passed" and "ok" or outcome.s == "failed" and "FAIL" or "skip"
  local line = rep("  ", depth + 1) .. self:paint(word, format("%-4s", word)) .. "  " .. clean(path[#path])
  if outcome.skip and outcome.skip ~= "" then line = line .. ": " .. clean(outcome.skip) end
  if outcome.expected then
    line = line .. self:paint("skip", " fails as expected")
      .. (outcome.expected ~= "" and ": " .. clean(outcome.expected) or "")
  end
  if outcome.flaky then line = line .. self:paint("skip", format(" flaky: %s", report.flakiness(outcome))) end
  if outcome.t and outcome.t >= 0.1 then line = line .. self:paint("dim", format(" (%s)", seconds(outcome.t))) end
  self:write(line .. "\n")
  if outcome.s == "failed" then self:fail(concat(path, " › "), outcome.failures) end
end

function Readable:output(file, text)
  self:mention(file)
  self:write(text)
  self.is_open = text:sub(-1) ~= "\n"
end

-- Ends the line that the output of a test may have left open.
function Readable:close_line()
  if self.is_open then self:write "\n" end
  self.is_open = false
end

function Readable:file_failed(file, failure, title)
  self:mention(file)
  self:close_line()
  self:write("  " .. self:paint("FAIL", "FAIL")
    .. (title and title ~= "" and "  the group " .. clean(title) or "  the file") .. "\n")
  self:fail(title and title ~= "" and title or file.path, { failure })
end

function Readable:end_file() self:close_line() end

function Readable:finish(totals)
  for i, entry in ipairs(self.failures) do
    self:write(format("\n%s\n", self:paint("FAIL", format("%d) %s", i, clean(entry.title)))))
    for j, failure in ipairs(entry.failures) do
      if j > 1 then self:write "   and then\n" end
      for _, line in ipairs(report.failure_lines(failure)) do self:write("   " .. line .. "\n") end
    end
  end
  if #totals.slowest > 0 then
    self:write "\nthe slowest:\n"
    for _, entry in ipairs(totals.slowest) do
      self:write(format("  %8s  %s: %s\n", seconds(entry[1]), entry[2], clean(concat(entry[3], " › "))))
    end
  end
  for _, note in ipairs(totals.notes) do self:write("\n" .. note .. "\n") end
  if totals.interrupted then
    self:write(self:paint("FAIL", format("\ninterrupted by %s", totals.signal or "a signal")) .. "\n")
    for _, text in ipairs(totals.running) do self:write("  while " .. clean(text) .. "\n") end
  end
  self:write "\n"
  local parts = { format("%d passed", totals.passed) }
  local function add(count, what, colour)
    if count > 0 then parts[#parts + 1] = self:paint(colour, format("%d %s", count, what)) end
  end
  local function files(count) return count == 1 and "file" or "files" end
  add(totals.failed, "failed", "FAIL")
  add(totals.broken_groups, (totals.broken_groups == 1 and "group" or "groups") .. " failed", "FAIL")
  add(totals.broken, files(totals.broken) .. " broken", "FAIL")
  add(totals.skipped, "skipped")
  add(totals.flaky, "flaky", "skip")
  add(totals.not_run, "not run")
  add(totals.not_loaded, files(totals.not_loaded) .. " not loaded")
  self:write(concat(parts, ", ") .. format(" (%s)\n", seconds(totals.time)))
  if totals.passed_over > 0 then
    self:write(format("only: %d other tests were skipped\n", totals.passed_over))
  end
  if totals.shuffled or totals.failed > 0 then self:write(format("seed: %d\n", totals.seed)) end
end

-- All formats ---------------------------------------------------------------------------------------------------------

report.formats = { readable = true, tap = true, tap14 = true, junit = true, json = true, github = true }

-- Formats that are implemented in the file of another format.
local FILES = { github = "json", tap14 = "tap" }

--- Returns a reporter, whose text `write` receives. `schema` is the XML schema to follow.
function report.new(name, write, coloured, schema)
  local class = name == "readable" and Readable or require("runloop.test." .. (FILES[name] or name))[schema or name]
  return setmetatable({
    write = function(_, text) write(text) end, coloured = coloured, failures = {}, suites = {}, shown = {},
  }, class)
end

return report
