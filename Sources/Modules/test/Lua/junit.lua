-- Reports as JUnit's XML: in the common form, or as the schema of Jenkins' xunit plugin or of Ant demands.

local report = require "runloop.test.report"
local format, concat, gsub = string.format, table.concat, string.gsub
local open, date = io.open, os.date

local Junit = {}
Junit.__index = Junit

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["\n"] = "&#10;" }

-- Replaces characters that XML cannot contain with a question mark.
local function escape(text, keeps_lines)
  text = gsub(report.valid(text), "[%z\1-\8\11\12\14-\31\127]", "?")
  text = gsub(gsub(text, "\xef\xbf[\xbe\xbf]", "?"), "\xed[\xa0-\xbf][\x80-\xbf]", "?")
  return (gsub(text, '[&<>"\n]', function(c) return c == "\n" and keeps_lines and c or ENTITIES[c] end))
end

-- Each file has its own cases and output.
function Junit:begin_file()
  self.cases, self.printed = {}, {}
  self.began = date "!%Y-%m-%dT%H:%M:%S"
end

local function failure_text(failures) return escape(report.text_of(failures), true) end

-- Differences of the schemas ------------------------------------------------------------------------------------------

-- The format of a time.
Junit.time = "%.6f"
Junit.has_flaky = true

-- Returns the attributes of a test besides its name, class and time.
function Junit.place(_, path, line)
  return format(' file="%s"%s', escape(path), line and ' line="' .. line .. '"' or "")
end

function Junit.skipped(_, reason) return format('<skipped message="%s"/>', escape(reason)) end

-- Returns the attributes of a file, the elements before its tests, and those after them.
function Junit.suite() return "", "", "" end

function Junit:output_of(text) return text ~= "" and format("    <system-out>%s</system-out>\n", text) or "" end

-- Returns the attributes of the whole report.
function Junit:all(totals, broken)
  return format(' tests="%d" failures="%d" errors="%d" skipped="%d" time="%.6f"',
    totals.passed + totals.failed + totals.skipped + broken, totals.failed, broken, totals.skipped, totals.time)
end

-- The schema junit-10.xsd of the xunit plugin has neither file and line nor the number of skipped tests; its times are
-- in milliseconds.
local Jenkins = setmetatable({ time = "%.3f" }, Junit)
Jenkins.__index = Jenkins

function Jenkins.place() return "" end

function Jenkins:all(totals, broken)
  return format(' tests="%d" failures="%d" errors="%d" time="%.3f"',
    totals.passed + totals.failed + totals.skipped + broken,
    totals.failed, broken, totals.time)
end

-- In Ant's schema each file has a time stamp, a package, and all elements.
local Ant = setmetatable({ time = "%.3f", has_flaky = false }, Junit)
Ant.__index = Ant

local function host_name()
  local file <close> = open "/proc/sys/kernel/hostname"
  local name = file and file:read "l"
  return name and name ~= "" and name or "localhost"
end

function Ant.place() return "" end
function Ant.skipped() return "<skipped/>" end
function Ant.all() return "" end

function Ant:suite(file)
  local package = gsub(file.path:match "^(.*)/[^/]*$" or "", "/+", ".")
  return format(' timestamp="%s" hostname="%s" id="%d" package="%s"', self.began, escape(host_name()), #self.suites,
    escape(package)),
    "    <properties/>\n", "    <system-err></system-err>\n"
end

function Ant:output_of(text) return format("    <system-out>%s</system-out>\n", text) end

-- The elements --------------------------------------------------------------------------------------------------------

function Junit:test(file, number, outcome)
  local path = file.tests[number].path
  local groups = concat(path, " ", 1, #path - 1)
  local line = file.tests[number].where and file.tests[number].where:match ":(%d+)$"
  local case = format('    <testcase name="%s" classname="%s"%s time="' .. self.time .. '"', escape(path[#path]),
    escape(groups == "" and file.path or groups), self:place(file.path, line), outcome.t or 0)
  if outcome.s == "failed" or outcome.flaky and self.has_flaky then
    local first, element = outcome.failures[1], outcome.flaky and "flakyFailure" or "failure"
    case = case .. format('>\n      <%s type="%s" message="%s">%s</%s>\n    </testcase>\n', element, first.kind,
      escape((first.where and first.where .. ": " or "") .. first.message), failure_text(outcome.failures), element)
  elseif outcome.s == "passed" then
    case = case .. "/>\n"
  else
    case = case .. format(">\n      %s\n    </testcase>\n", self:skipped(outcome.skip or ""))
  end
  self.cases[#self.cases + 1] = case
end

function Junit:output(_, text) self.printed[#self.printed + 1] = text end

function Junit:file_failed(file, failure, title)
  if not title or title == "" then title = file.path end
  self.cases[#self.cases + 1] = format(
    '    <testcase name="%s" classname="%s"%s time="0">\n'
      .. '      <error type="%s" message="%s">%s</error>\n    </testcase>\n',
    escape(title), escape(file.path), self:place(file.path), failure.kind, escape(failure.message),
    failure_text { failure })
end

function Junit:end_file(file)
  local attributes, head, tail = self:suite(file)
  self.suites[#self.suites + 1] = format(
    '  <testsuite name="%s" tests="%d" failures="%d" errors="%d" skipped="%d" time="' .. self.time
      .. '"%s>\n%s%s%s%s  </testsuite>\n',
    escape(file.path), #self.cases, file.failed, (file.broken or 0) + (file.broken_groups or 0), file.skipped,
    file.time, attributes, head, concat(self.cases), self:output_of(escape(concat(self.printed), true)), tail)
end

function Junit:finish(totals)
  self:write '<?xml version="1.0" encoding="UTF-8"?>\n'
  self:write(format("<testsuites%s>\n", self:all(totals, totals.broken + totals.broken_groups)))
  self:write(concat(self.suites))
  self:write "</testsuites>\n"
end

return { junit = Junit, jenkins = Jenkins, ant = Ant }
