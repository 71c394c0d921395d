-- What the test runner says, in three formats. A reporter gets the events of files as they come, in order of files:
-- begin_file(file), test(file, number, outcome), output(file, text), end_file(file), and finish(totals).

local report = {}
local format, concat, rep, gsub = string.format, table.concat, string.rep, string.gsub
local pairs, ipairs = pairs, ipairs

-- Failures as text ----------------------------------------------------------------------------------------------------

--- The lines that say what went wrong.
function report.failure_lines(failure)
  local lines = {}
  local head = (failure.where and failure.where .. ": " or "") .. failure.message
  for line in (head .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  for _, line in ipairs(failure.details or {}) do lines[#lines + 1] = "  " .. line end
  if failure.note then lines[#lines + 1] = failure.note end
  if failure.frames then
    lines[#lines + 1] = "traceback:"
    for _, line in ipairs(failure.frames) do lines[#lines + 1] = "  " .. line end
  end
  return lines
end

local function seconds(time)
  if time < 0.0995 then return format("%.0f ms", time * 1000) end
  return format("%.2f s", time)
end

local function clean(text) return (gsub(text, "[%c]", function(c) return c == "\n" and " " or c == "\t" and " " or "?" end)) end

-- For people ----------------------------------------------------------------------------------------------------------

local Readable = {}
Readable.__index = Readable

local COLOURS = { ok = "32", FAIL = "31;1", skip = "33", bold = "1", dim = "2" }

function Readable:paint(colour, text)
  return self.coloured and format("\27[%sm%s\27[0m", COLOURS[colour], text) or text
end

function Readable:begin_file(file)
  self.shown = {}
  self:write(self:paint("bold", file.path) .. "\n")
end

function Readable:fail(title, failures)
  self.failures[#self.failures + 1] = { title = title, failures = failures }
end

function Readable:test(file, number, outcome)
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
  if outcome.t and outcome.t >= 0.1 then line = line .. self:paint("dim", format(" (%s)", seconds(outcome.t))) end
  self:write(line .. "\n")
  if outcome.s == "failed" then self:fail(concat(path, " › "), outcome.failures) end
end

function Readable:output(file, text)
  self:write(text)
  self.is_open = text:sub(-1) ~= "\n"
end

-- What a test has printed need not end with its line.
function Readable:close_line()
  if self.is_open then self:write "\n" end
  self.is_open = false
end

function Readable:file_failed(file, failure)
  self:close_line()
  self:write("  " .. self:paint("FAIL", "FAIL") .. "  the file\n")
  self:fail(file.path, { failure })
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
  self:write "\n"
  local parts = { format("%d passed", totals.passed) }
  if totals.failed > 0 then parts[#parts + 1] = self:paint("FAIL", format("%d failed", totals.failed)) end
  if totals.broken > 0 then
    parts[#parts + 1] = self:paint("FAIL", format("%d %s broken", totals.broken, totals.broken == 1 and "file" or "files"))
  end
  if totals.skipped > 0 then parts[#parts + 1] = format("%d skipped", totals.skipped) end
  if totals.not_run > 0 then parts[#parts + 1] = format("%d not run", totals.not_run) end
  self:write(concat(parts, ", ") .. format(" (%s)\n", seconds(totals.time)))
  if totals.passed_over > 0 then
    self:write(format("only: %d other tests were passed over\n", totals.passed_over))
  end
  if totals.shuffled or totals.failed > 0 then self:write(format("seed: %d\n", totals.seed)) end
end

-- TAP 14 --------------------------------------------------------------------------------------------------------------

local Tap = {}
Tap.__index = Tap

function Tap:begin_file(file)
  if not self.begun then self:write "TAP version 14\n" end
  self.begun = true
end

local function tap_name(text) return (gsub(clean(text), "[\\#]", "\\%0")) end

function Tap:line(ok, title, rest)
  self.count = (self.count or 0) + 1
  self:write(format("%s %d - %s%s\n", ok and "ok" or "not ok", self.count, tap_name(title), rest or ""))
end

function Tap:diagnose(failures)
  self:write "  ---\n"
  self:write(format("  message: %q\n", clean(failures[1].message)))
  if failures[1].where then self:write(format("  at: %q\n", clean(failures[1].where))) end
  self:write(format("  kind: %s\n", failures[1].kind))
  self:write "  report: |-\n"
  for _, failure in ipairs(failures) do
    for _, line in ipairs(report.failure_lines(failure)) do self:write("    " .. clean(line) .. "\n") end
  end
  self:write "  ...\n"
end

function Tap:test(file, number, outcome)
  local title = concat(file.tests[number].path, " > ")
  if outcome.s == "skipped" then
    self:line(true, title, " # SKIP" .. (outcome.skip and outcome.skip ~= "" and " " .. clean(outcome.skip) or ""))
  else
    self:line(outcome.s == "passed", title)
  end
  if outcome.s == "failed" then self:diagnose(outcome.failures) end
end

function Tap:output(file, text)
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch "(.-)\n" do self:write("# " .. clean(line) .. "\n") end
end

function Tap:file_failed(file, failure)
  self:line(false, file.path)
  self:diagnose { failure }
end

function Tap:end_file() end

function Tap:finish(totals)
  if not self.begun then self:write "TAP version 14\n" end
  if totals.shuffled then self:write(format("# seed: %d\n", totals.seed)) end
  self:write(format("1..%d\n", self.count or 0))
end

-- JUnit ---------------------------------------------------------------------------------------------------------------

local Junit = {}
Junit.__index = Junit

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["\n"] = "&#10;" }

-- What XML cannot hold becomes a question mark.
local function escape(text, keeps_lines)
  if not utf8.len(text) then text = gsub(text, "[\128-\255]", "?") end
  text = gsub(text, "[%z\1-\8\11\12\14-\31\127]", "?")
  return (gsub(text, '[&<>"\n]', function(c) return c == "\n" and keeps_lines and c or ENTITIES[c] end))
end

function Junit:begin_file(file) file.cases, file.printed = {}, {} end

local function failure_text(failures)
  local lines = {}
  for _, failure in ipairs(failures) do
    for _, line in ipairs(report.failure_lines(failure)) do lines[#lines + 1] = line end
  end
  return escape(concat(lines, "\n"), true)
end

function Junit:test(file, number, outcome)
  local path = file.tests[number].path
  local groups = concat(path, " ", 1, #path - 1)
  local line = file.tests[number].where and file.tests[number].where:match ":(%d+)$"
  local case = format('    <testcase name="%s" classname="%s" file="%s"%s time="%.6f"', escape(path[#path]),
    escape(groups == "" and file.path or groups), escape(file.path), line and ' line="' .. line .. '"' or "", outcome.t or 0)
  if outcome.s == "passed" then
    case = case .. "/>\n"
  elseif outcome.s == "skipped" then
    case = case .. format('>\n      <skipped message="%s"/>\n    </testcase>\n', escape(outcome.skip or ""))
  else
    local first = outcome.failures[1]
    case = case .. format('>\n      <failure type="%s" message="%s">%s</failure>\n    </testcase>\n', first.kind,
      escape((first.where and first.where .. ": " or "") .. first.message), failure_text(outcome.failures))
  end
  file.cases[#file.cases + 1] = case
end

function Junit:output(file, text) file.printed[#file.printed + 1] = text end

function Junit:file_failed(file, failure)
  file.cases[#file.cases + 1] = format(
    '    <testcase name="%s" classname="%s" file="%s" time="0">\n      <error type="%s" message="%s">%s</error>\n'
    .. "    </testcase>\n", escape(file.path), escape(file.path), escape(file.path), failure.kind, escape(failure.message),
    failure_text { failure })
end

function Junit:end_file(file)
  local suite = format('  <testsuite name="%s" tests="%d" failures="%d" errors="%d" skipped="%d" time="%.6f">\n%s',
    escape(file.path), #file.cases, file.failed, file.broken and 1 or 0, file.skipped, file.time, concat(file.cases))
  if #file.printed > 0 then
    suite = suite .. format("    <system-out>%s</system-out>\n", escape(concat(file.printed), true))
  end
  self.suites[#self.suites + 1] = suite .. "  </testsuite>\n"
end

function Junit:finish(totals)
  self:write '<?xml version="1.0" encoding="UTF-8"?>\n'
  self:write(format('<testsuites tests="%d" failures="%d" errors="%d" skipped="%d" time="%.6f">\n',
    totals.passed + totals.failed + totals.skipped + totals.broken, totals.failed, totals.broken, totals.skipped,
    totals.time))
  self:write(concat(self.suites))
  self:write "</testsuites>\n"
end

local FORMATS = { readable = Readable, tap = Tap, junit = Junit }
report.formats = FORMATS

--- A reporter; `write` takes what it says.
function report.new(name, write, coloured)
  return setmetatable({
    write = function(_, text) write(text) end, coloured = coloured, failures = {}, suites = {}, shown = {},
  }, FORMATS[name])
end

return report
