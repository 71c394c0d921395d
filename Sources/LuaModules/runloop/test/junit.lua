-- What the test runner says, as JUnit's XML.

local report = require "runloop.test.report"
local format, concat, gsub = string.format, table.concat, string.gsub

local Junit = {}
Junit.__index = Junit

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["\n"] = "&#10;" }

-- What XML cannot hold becomes a question mark.
local function escape(text, keeps_lines)
  text = gsub(report.valid(text), "[%z\1-\8\11\12\14-\31\127]", "?")
  text = gsub(gsub(text, "\xef\xbf[\xbe\xbf]", "?"), "\xed[\xa0-\xbf][\x80-\xbf]", "?")
  return (gsub(text, '[&<>"\n]', function(c) return c == "\n" and keeps_lines and c or ENTITIES[c] end))
end

-- Each report has its own.
function Junit:begin_file() self.cases, self.printed = {}, {} end

local function failure_text(failures) return escape(report.text_of(failures), true) end

function Junit:test(file, number, outcome)
  local path = file.tests[number].path
  local groups = concat(path, " ", 1, #path - 1)
  local line = file.tests[number].where and file.tests[number].where:match ":(%d+)$"
  local case = format('    <testcase name="%s" classname="%s" file="%s"%s time="%.6f"', escape(path[#path]),
    escape(groups == "" and file.path or groups), escape(file.path), line and ' line="' .. line .. '"' or "", outcome.t or 0)
  if outcome.flaky or outcome.s == "failed" then
    local first, element = outcome.failures[1], outcome.flaky and "flakyFailure" or "failure"
    case = case .. format('>\n      <%s type="%s" message="%s">%s</%s>\n    </testcase>\n', element, first.kind,
      escape((first.where and first.where .. ": " or "") .. first.message), failure_text(outcome.failures), element)
  elseif outcome.s == "passed" then
    case = case .. "/>\n"
  else
    case = case .. format('>\n      <skipped message="%s"/>\n    </testcase>\n', escape(outcome.skip or ""))
  end
  self.cases[#self.cases + 1] = case
end

function Junit:output(_, text) self.printed[#self.printed + 1] = text end

function Junit:file_failed(file, failure, title)
  if not title or title == "" then title = file.path end
  self.cases[#self.cases + 1] = format(
    '    <testcase name="%s" classname="%s" file="%s" time="0">\n      <error type="%s" message="%s">%s</error>\n'
    .. "    </testcase>\n", escape(title), escape(file.path), escape(file.path), failure.kind, escape(failure.message),
    failure_text { failure })
end

function Junit:end_file(file)
  local suite = format('  <testsuite name="%s" tests="%d" failures="%d" errors="%d" skipped="%d" time="%.6f">\n%s',
    escape(file.path), #self.cases, file.failed, (file.broken or 0) + (file.broken_groups or 0), file.skipped, file.time, concat(self.cases))
  if #self.printed > 0 then
    suite = suite .. format("    <system-out>%s</system-out>\n", escape(concat(self.printed), true))
  end
  self.suites[#self.suites + 1] = suite .. "  </testsuite>\n"
end

function Junit:finish(totals)
  self:write '<?xml version="1.0" encoding="UTF-8"?>\n'
  local broken = totals.broken + totals.broken_groups
  self:write(format('<testsuites tests="%d" failures="%d" errors="%d" skipped="%d" time="%.6f">\n',
    totals.passed + totals.failed + totals.skipped + broken, totals.failed, broken, totals.skipped,
    totals.time))
  self:write(concat(self.suites))
  self:write "</testsuites>\n"
end

return { junit = Junit }
