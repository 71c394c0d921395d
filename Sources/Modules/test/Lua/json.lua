-- Reports for programs: one JSON object in each line, or annotations for GitHub.

local report = require "runloop.test.report"
local format, concat, gsub, pack = string.format, table.concat, string.gsub, table.pack
local type, ipairs, pairs = type, ipairs, pairs

-- JSON ----------------------------------------------------------------------------------------------------------------

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quote(text)
  return '"' .. gsub(report.valid(text), '[%c"\\\127]',
    function(c) return ESCAPES[c] or format("\\u%04x", c:byte()) end) .. '"'
end

-- An object is a list of names and values in order, in which nil leaves a field out; an array is a table with elements.
local function encode(value)
  if type(value) == "string" then return quote(value) end
  if value == math.huge then return "null" end
  if type(value) ~= "table" then return format(math.type(value) == "float" and "%.6f" or "%s", value) end
  local parts = {}
  if value.object then
    for i = 1, value.object.n, 2 do
      if value.object[i + 1] ~= nil then
        parts[#parts + 1] = quote(value.object[i]) .. ":" .. encode(value.object[i + 1])
      end
    end
    return "{" .. concat(parts, ",") .. "}"
  end
  for i, element in ipairs(value) do parts[i] = encode(element) end
  return "[" .. concat(parts, ",") .. "]"
end

local Json = {}
Json.__index = Json

function Json:say(...) self:write(encode { object = pack(...) } .. "\n") end

local function place(where)
  local file, line = (where or ""):match "^(.*):(%d+)$"
  return file, math.tointeger(tonumber(line))
end

local function failures_of(failures)
  local list = {}
  for i, failure in ipairs(failures or {}) do
    local file, line = place(failure.where)
    list[i] = { object = pack("kind", failure.kind, "message", failure.message, "file", file, "line", line, "details",
      failure.details, "note", failure.note, "traceback", failure.frames) }
  end
  return #list > 0 and list or nil
end

function Json:begin_file(file) self:say("event", "file", "path", file.path) end

function Json:test(file, number, outcome)
  local test = file.tests[number]
  local groups = table.move(test.path, 1, #test.path - 1, 1, {})
  local _, line = place(test.where)
  self:say("event", "test", "path", file.path, "groups", groups, "name", test.path[#test.path], "line", line, "status",
    outcome.s, "seconds", outcome.t and outcome.t + 0.0, "reason", outcome.skip or outcome.expected, "flaky",
    outcome.flaky, "run", outcome.round, "failures", failures_of(outcome.failures))
end

function Json:output(file, text) self:say("event", "output", "path", file.path, "text", text) end

function Json:file_failed(file, failure, title)
  self:say("event", "file_failed", "path", file.path, "group", title, "failures", failures_of { failure })
end

function Json:end_file(file)
  self:say("event", "end_file", "path", file.path, "passed", file.passed, "failed", file.failed, "skipped",
    file.skipped)
end

function Json:finish(totals)
  self:say("event", "end", "passed", totals.passed, "failed", totals.failed, "skipped", totals.skipped, "broken",
    totals.broken, "failed_groups", totals.broken_groups, "flaky", totals.flaky, "not_run", totals.not_run, "seconds",
    totals.time, "seed", totals.seed, "interrupted", totals.signal, "running", totals.running)
end

-- GitHub --------------------------------------------------------------------------------------------------------------

local Github = {}
Github.__index = Github

local function escape(text, is_field)
  text = gsub(gsub(gsub(report.valid(text), "%%", "%%%%25"), "\r", "%%0D"), "\n", "%%0A")
  return is_field and (gsub(gsub(text, ":", "%%3A"), ",", "%%2C")) or text
end

function Github:annotate(kind, file, where, title, text)
  local path, line = place(where)
  self:write(format("::%s file=%s%s,title=%s::%s\n", kind, escape(path or file.path, true),
    line and ",line=" .. line or "", escape(title, true), escape(text)))
end

function Github:test(file, number, outcome)
  if outcome.s ~= "failed" and not outcome.flaky then return end
  local test, failures = file.tests[number], outcome.failures
  local kind = outcome.s == "failed" and "error" or "warning"
  self:annotate(kind, file, failures[1].where or test.where,
    concat(test.path, " › ") .. (kind == "warning" and " (flaky)" or ""),
    report.text_of(failures))
end

function Github:file_failed(file, failure, title)
  self:annotate("error", file, failure.where, title and title ~= "" and title or file.path, report.text_of { failure })
end

for _, name in pairs { "begin_file", "output", "end_file" } do Github[name] = function() end end

function Github:finish(totals)
  self:write(format("::notice title=rlhost test::%d passed, %d failed, %d broken, %d skipped, %d flaky\n",
    totals.passed,
    totals.failed + totals.broken_groups, totals.broken, totals.skipped, totals.flaky))
end

return { json = Json, github = Github }
