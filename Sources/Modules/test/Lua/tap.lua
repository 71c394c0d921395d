-- Reports as TAP: version 13, which all readers know, or version 14.

local report = require "runloop.test.report"
local clean, valid = report.clean, report.valid
local format, concat, gsub, ipairs = string.format, table.concat, string.gsub, ipairs

local Tap = {}
Tap.__index = Tap

local Tap14 = setmetatable({ version = "TAP version 14\n" }, Tap)
Tap14.__index = Tap14

-- Readers take a text without a version for version 12, which has no diagnostics.
Tap.version = "TAP version 13\n"

function Tap:begin_file()
  if not self.begun then self:write(self.version) end
  self.begun = true
end

local function tap_name(text) return (gsub(clean(text), "[\\#]", "\\%0")) end

function Tap:line(ok, title, rest)
  self.count = (self.count or 0) + 1
  self:write(format("%s %d - %s%s\n", ok and "ok" or "not ok", self.count, valid(tap_name(title)), valid(rest or "")))
end

-- Returns a text in double quotes, as YAML has it, on one line.
local function quoted(text)
  text = gsub(valid(text), '[\\"%c]', function(byte)
    return byte == "\n" and "\\n" or byte == "\t" and "\\t" or (byte == '"' or byte == "\\") and "\\" .. byte
      or format("\\x%02x", byte:byte())
  end)
  return '"' .. text .. '"'
end

function Tap:diagnose(failures)
  self:write "  ---\n"
  self:write(format("  message: %s\n", quoted(failures[1].message)))
  if failures[1].where then self:write(format("  at: %s\n", quoted(failures[1].where))) end
  self:write(format("  kind: %s\n", failures[1].kind))
  self:write(format("  report: %s\n", quoted(report.text_of(failures))))
  self:write "  ...\n"
end

function Tap14:diagnose(failures)
  self:write "  ---\n"
  self:write(format("  message: %q\n", valid(clean(failures[1].message))))
  if failures[1].where then self:write(format("  at: %q\n", valid(clean(failures[1].where)))) end
  self:write(format("  kind: %s\n", failures[1].kind))
  self:write "  report: |-\n"
  for _, failure in ipairs(failures) do
    for _, line in ipairs(report.failure_lines(failure)) do self:write("    " .. valid(clean(line)) .. "\n") end
  end
  self:write "  ...\n"
end

function Tap:test(file, number, outcome)
  local title = concat(file.tests[number].path, " > ")
  if outcome.flaky then
    self:line(true, title)
    self:write(format("# flaky: %s\n", report.flakiness(outcome)))
  elseif outcome.s == "skipped" then
    self:line(true, title, " # SKIP" .. (outcome.skip and outcome.skip ~= "" and " " .. clean(outcome.skip) or ""))
  elseif outcome.expected then
    -- The test fails as expected: report a TODO, which readers of TAP do not count as a failure.
    self:line(false, title, " # TODO" .. (outcome.expected ~= "" and " " .. clean(outcome.expected) or ""))
  else
    self:line(outcome.s == "passed", title)
  end
  if outcome.s == "failed" then self:diagnose(outcome.failures) end
end

function Tap:output(file, text)
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch "(.-)\n" do
    self:write("# " .. valid(clean(line)) .. "\n")
  end
end

function Tap:file_failed(file, failure, title)
  self:line(false, title and title ~= "" and title or file.path)
  self:diagnose { failure }
end

function Tap:end_file() end

function Tap:finish(totals)
  self:begin_file()
  for _, note in ipairs(totals.notes) do self:output(nil, note) end
  if totals.shuffled then self:write(format("# seed: %d\n", totals.seed)) end
  if totals.interrupted then
    local running = concat(totals.running, ", ")
    self:write(format("Bail out! interrupted by %s%s\n", totals.signal or "a signal",
      running ~= "" and " while " .. valid(clean(running)) or ""))
  end
  self:write(format("1..%d\n", self.count or 0))
end

return { tap = Tap, tap14 = Tap14 }
