-- Coverage: which lines of the Lua files hold code and which of them ran, which functions were called, and which
-- branches were taken from one line to the next.

local system = ...
local bytecode = require "runloop.test.bytecode"
local options = require "runloop.test.options"

local coverage = {}
coverage.__index = coverage

local format, sort, concat = string.format, table.sort, table.concat
local pairs, ipairs = pairs, ipairs
local io_open, floor = io.open, math.floor

--- `sources` lists the files and directories to report, whether they are loaded or not. If `sources` is nil, the loaded
--- files below `here` are reported.
function coverage.new(here, sources) return setmetatable({ files = {}, here = here, sources = sources }, coverage) end

--- Adds the counts of a worker: for each path, a count by event, encoded as in CLuaSupport/watch.c.
function coverage:add(files)
  for path, counts in pairs(files) do
    path = self:name(path)
    local all = self.files[path]
    if not all then
      all = {}
      self.files[path] = all
    end
    for what, count in pairs(counts) do all[what] = (all[what] or 0) + count end
  end
end

-- Returns the name of a file in the report: its path relative to the current directory, however the file was loaded.
function coverage:name(path)
  local here = self.here
  if here and path:sub(1, #here + 1) == here .. "/" then path = path:sub(#here + 2) end
  return (path:gsub("^%./", ""))
end

-- Returns how often each line ran, each function was called, and one line followed another.
local function sorted_out(counts)
  local lines, calls, ways = {}, {}, {}
  for what, count in pairs(counts) do
    local from, to = what >> 24, what & 0xffffff
    if from == 0 then
      calls[to] = (calls[to] or 0) + count
    else
      lines[to] = (lines[to] or 0) + count
      ways[from << 24 | to] = count
    end
  end
  return lines, calls, ways
end

-- Files ---------------------------------------------------------------------------------------------------------------

-- Returns whether a file belongs to the project: it lies below the current directory.
local function is_own(path) return path:sub(1, 1) ~= "/" and not path:find "%.%./" end

local function is_source(name) return name:find "%.lua$" and not options.is_test_file(name) end

-- Adds a file, or the Lua files in a directory except test files.
local function add_files(path, files)
  local kind = system.kind(path)
  if kind == "file" then files[#files + 1] = path end
  if kind == "directory" then options.search(path, is_source, files, {}) end
end

function coverage:paths()
  local paths = {}
  if self.sources then
    for _, source in ipairs(self.sources) do add_files(source, paths) end
    local seen = {}
    for i = #paths, 1, -1 do
      paths[i] = self:name(paths[i])
      if seen[paths[i]] then table.remove(paths, i) else seen[paths[i]] = true end
    end
  else
    for path in pairs(self.files) do if is_own(path) then paths[#paths + 1] = path end end
  end
  sort(paths)
  return paths
end

-- The report ----------------------------------------------------------------------------------------------------------

local function ranges(lines)
  local parts, i = {}, 1
  while i <= #lines do
    local j = i
    while j < #lines and lines[j + 1] == lines[j] + 1 do j = j + 1 end
    parts[#parts + 1] = i == j and format("%d", lines[i]) or format("%d-%d", lines[i], lines[j])
    i = j + 1
  end
  return parts
end

local function shown(parts)
  local text = concat(parts, " ", 1, #parts < 8 and #parts or 8)
  return #parts > 8 and text .. " …" or text
end

local function percent(part, whole) return whole == 0 and 100 or floor(part * 1000 / whole) / 10 end

local function keys(set)
  local list = {}
  for key in pairs(set) do list[#list + 1] = key end
  sort(list)
  return list
end

-- Returns the names of functions in the source, by the line in which they begin.
local function function_names(path, functions)
  local names, number = {}, 0
  local file = io_open(path)
  for text in file and file:lines() or function() end do
    number = number + 1
    if functions[number] then
      names[number] = text:match "function%s+([%w_.:]+)" or text:match "([%w_.]+)%s*=%s*function" or "function"
    end
  end
  if file then file:close() end
  return names
end

-- Writes a file's part of the report in lcov's format, adds its numbers to `totals`, and returns its row of the
-- summary.
local function describe(path, counts, totals, out)
  local lines, calls, ways = sorted_out(counts)
  local code = bytecode.read(path) or { lines = lines, functions = {}, branches = {} }
  local hit, missed, missed_ways = 0, {}, {}
  local function say(...) out[#out + 1] = format(...) end
  say("TN:\nSF:%s\n", path)
  local functions, names, called = keys(code.functions), function_names(path, code.functions), 0
  for _, line in ipairs(functions) do say("FN:%d,%s:%d\n", line, names[line] or "function", line) end
  for _, line in ipairs(functions) do
    say("FNDA:%d,%s:%d\n", calls[line] or 0, names[line] or "function", line)
    if calls[line] then called = called + 1 end
  end
  if #functions > 0 then say("FNF:%d\nFNH:%d\n", #functions, called) end
  local branches, taken = 0, 0
  for _, from in ipairs(keys(code.branches)) do
    for i, to in ipairs(keys(code.branches[from])) do
      local count = ways[from << 24 | to]
      branches = branches + 1
      if count then taken = taken + 1 end
      -- A branch to a line that never ran is not listed, since the line itself is.
      if lines[from] and not count and (lines[to] or not code.lines[to]) then
        missed_ways[#missed_ways + 1] = format("%d→%d", from, to)
      end
      say("BRDA:%d,0,%d,%s\n", from, i - 1, lines[from] and format("%d", count or 0) or "-")
    end
  end
  if branches > 0 then say("BRF:%d\nBRH:%d\n", branches, taken) end
  local all_lines = keys(code.lines)
  for _, line in ipairs(all_lines) do
    local count = lines[line] or 0
    if count > 0 then hit = hit + 1 else missed[#missed + 1] = line end
    say("DA:%d,%d\n", line, count)
  end
  say("LF:%d\nLH:%d\nend_of_record\n", #all_lines, hit)
  local parts = ranges(missed)
  for _, way in ipairs(missed_ways) do parts[#parts + 1] = way end
  for name, number in pairs { hit = hit, found = #all_lines, taken = taken, branches = branches, called = called,
    functions = #functions } do
    totals[name] = (totals[name] or 0) + number
  end
  return { path, percent(hit, #all_lines), shown(parts) }
end

--- Prints a summary by calling `say`, writes the report in lcov's format to a file, and returns the percentage of all
--- lines that ran; nil if the file cannot be written.
function coverage:finish(target, say)
  local out, rows, width = {}, {}, 4
  local totals = { hit = 0, found = 0, taken = 0, branches = 0, called = 0, functions = 0 }
  for _, path in ipairs(self:paths()) do
    rows[#rows + 1] = describe(path, self.files[path] or {}, totals, out)
    if #path > width then width = #path end
  end
  local covered = percent(totals.hit, totals.found)
  say(format("\n%-" .. width .. "s  %7s  lines that never ran, and branches never taken\n", "file", "covered"))
  for _, row in ipairs(rows) do
    say((format("%-" .. width .. "s  %6.1f%%  %s", row[1], row[2], row[3]):gsub("%s+$", "")) .. "\n")
  end
  say(format("%-" .. width .. "s  %6.1f%%  %d of %d lines, %d of %d functions, %d of %d branches\n", "all", covered,
    totals.hit, totals.found, totals.called, totals.functions, totals.taken, totals.branches))
  local done, message = system.write_file(target, concat(out))
  if done then return covered end
  io.stderr:write("rlhost: test: cannot write the coverage: ", message, "\n")
  return nil
end

return coverage
