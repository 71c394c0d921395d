-- The options of the test runner, and the files that it runs.

local system = ...
local report = require "runloop.test.report"
local is_zone = require "runloop.test.zone"

local options = {}
local format, pairs, ipairs = string.format, pairs, ipairs
local tonumber, next = tonumber, next

local USAGE = [[
usage: rlhost [options] test [paths] [options]
Runs the tests in the files given, and in the files *_test.lua and test_*.lua of the directories given;
without a path: in tests or test, if there is such a directory, else here. FILE:LINE selects the test, or the
group, at that line.

tests to run
  --filter text      run only tests whose full name contains the text, or matches it as a Lua pattern; may be repeated
  --tags a,b         run only tests with one of these tags; --skip-tags a,b: only tests without them
  --plain            take the texts of --filter literally, never as patterns
  --last-failed      run only tests that failed the last time
  --shard i/n        run the i-th of n parts of all tests
  --list             print the tests' names, do not run them
how to run them
  --jobs n           run n files at a time, each in its own process (default: the number of processors)
  --shuffle          run files and tests in random order; the seed is printed
  --seed n           the seed of the order, of the scheduling of threads, and of math.random in each test
  --repeat n         run each test n times, with consecutive seeds
  --retries n        run a failed test up to n times more; if it passes then, it is reported as flaky
  --fail-fast        stop at the first failure
  --forbid-only      report tests that ask to run alone as errors
  --timeout s        seconds of processor time and waiting that a test may take (default 10)
  --real-time        let time pass in real time
  --tz zone          the time zone (default UTC; "local" for the system's)
  --update           replace snapshots that have changed, remove those that no test uses
  --watch            run the affected tests again whenever a file changes
reports
  --format name      readable (default), tap (version 13), tap14, junit, json (an object a line) or github (annotations)
  --report name=file also write a report to a file; may be repeated; junit=FILE,schema=jenkins or ant: for that reader
  --slowest n        list the n slowest tests
  --trace=dir        write a recording of each failed test into this directory, as a page (.html)
  --coverage[=file]  count the executed lines of Lua; print a summary, and write a file for lcov (lcov.info)
  --coverage-source path   report all files below this path, loaded or not, and no others; may be repeated
  --coverage-min p   fail if less than p percent of the lines were executed
  --help             show this help and exit
Exit status: 0 all passed, 1 a failure, 5 no test found, 64 wrong use, 128 + the number of a signal.
]]

local function misuse(text)
  io.stderr:write("rlhost: test: ", text, "\n")
  os.exit(64)
end

-- Options -------------------------------------------------------------------------------------------------------------

local FLAGS = { list = true, shuffle = true, ["fail-fast"] = true, ["real-time"] = true, watch = true, help = true,
  coverage = true, ["last-failed"] = true, ["forbid-only"] = true, update = true, plain = true }
local VALUES = { filter = true, format = true, seed = true, jobs = true, timeout = true, ["repeat"] = true,
  retries = true, shard = true, report = true, tags = true, ["skip-tags"] = true, slowest = true,
  ["coverage-min"] = true, tz = true, ["coverage-source"] = true, trace = true }
-- Options that may be given more than once.
local LISTS = { filter = true, report = true, tags = true, ["skip-tags"] = true, ["coverage-source"] = true }

local function suggestion(name)
  local all = {}
  for _, set in ipairs { FLAGS, VALUES } do for known in pairs(set) do all[#all + 1] = known end end
  table.sort(all)
  for _, known in ipairs(all) do
    if name ~= "" and (known:find(name, 1, true) == 1 or name:find(known, 1, true) == 1
      or known:sub(1, 3) == name:sub(1, 3)) then
      return format(" (did you mean '--%s'?)", known)
    end
  end
  return "; 'rlhost test --help' lists them"
end

local function whole(name, text, least)
  local value = math.tointeger(tonumber(text))
  if not value or value < least then
    misuse(format("--%s needs a whole number, %d or more, got '%s'", name, least, text))
  end
  return value
end

local function words(list)
  if not list then return nil end
  local set = {}
  for _, text in ipairs(list) do for word in text:gmatch "[^,%s]+" do set[word:gsub("^#", "")] = true end end
  return set
end

-- Checks the values of --report, and separates their parts.
local function check_reports(given)
  given.reports = {}
  for _, text in ipairs(given.report or {}) do
    local name, path = text:match "^(%w+)=(.+)$"
    if not name or not report.formats[name] then
      misuse(format("--report needs a format and a file, like junit=out.xml, got '%s'", text))
    end
    local file, schema = path:match "^(.+),schema=([^,]*)$"
    if file and name ~= "junit" then misuse(format("--report: schema is for junit, got '%s'", text)) end
    if file and schema ~= "jenkins" and schema ~= "ant" then
      misuse(format("--report: schema must be jenkins or ant, got '%s'", schema))
    end
    path = file or path
    for _, other in ipairs(given.reports) do
      if other.path == path then misuse(format("--report: two reports cannot be in the same file, '%s'", path)) end
    end
    given.reports[#given.reports + 1] = { format = name, path = path, schema = schema }
  end
end

-- Checks the values, and converts them.
local function check(given)
  if not report.formats[given.format] then
    misuse(format("--format must be readable, tap, tap14, junit, json or github, got '%s'", given.format))
  end
  if given.seed then given.seed = whole("seed", given.seed, 0) end
  given.jobs = whole("jobs", given.jobs or system.cores(), 1)
  for _, name in ipairs { "repeat", "retries", "slowest" } do
    if given[name] then given[name] = whole(name, given[name], name == "retries" and 0 or 1) end
  end
  local timeout = tonumber(given.timeout)
  if not timeout or not (timeout > 0 and timeout < 1e6) then
    misuse(format("--timeout needs a number of seconds, more than 0, got '%s'", given.timeout))
  end
  given.timeout = timeout
  given.filters = given.filter
  for _, pattern in ipairs(not given.plain and given.filters or {}) do
    local fine, message = pcall(string.find, "", pattern)
    if not fine then misuse(format("--filter: %s; --plain takes it literally", message)) end
  end
  for _, name in ipairs { "tags", "skip-tags" } do
    given[name] = words(given[name])
    if given[name] and not next(given[name]) then misuse(format("--%s needs words, like a,b", name)) end
  end
  if given.shard then
    local part, count = given.shard:match "^(%d+)/(%d+)$"
    part, count = tonumber(part), tonumber(count)
    if not part or part < 1 or part > count then
      misuse(format("--shard needs a part and how many there are, like 2/3, got '%s'", given.shard))
    end
    given.shard = { part, count }
  end
  check_reports(given)
  if given["coverage-min"] then
    local percent = tonumber(given["coverage-min"])
    if not percent or percent < 0 or percent > 100 then
      misuse(format("--coverage-min needs a number from 0 to 100, got '%s'", given["coverage-min"]))
    end
    given["coverage-min"], given.coverage = percent, given.coverage or true
  end
  for _, path in ipairs(given["coverage-source"] or {}) do
    given.coverage = given.coverage or true
    local kind, message = system.kind(path)
    if not kind then misuse(format("--coverage-source: cannot find '%s': %s", path, message:gsub(" %(.*%)$", ""))) end
  end
  if given.watch and given.list then misuse "--watch and --list exclude each other" end
  if given.coverage == "" then misuse "--coverage= needs a file behind it" end
  if given.coverage == true then given.coverage = "lcov.info" end
  if given.trace then
    if given.trace == "" then misuse "--trace needs a directory for the recordings" end
    local made, message = system.make_directory(given.trace)
    if not made then misuse(format("--trace: %s: %s", given.trace, message)) end
  end
  given.tz = given.tz or "UTC"
  if given.tz == "local" then
    given.tz = os.getenv "TZ"
  elseif not is_zone(given.tz) then
    misuse(format("--tz needs a time zone, like Europe/Berlin, UTC or local, got '%s'", given.tz))
  end
end

--- Returns the options and the paths among the arguments.
function options.parse(arguments)
  local given, paths, i, only_paths = { format = "readable", timeout = 10 }, {}, 1, false
  while i <= #arguments do
    local argument = arguments[i]
    local name, value = argument:match "^%-%-([^=]+)=(.*)$"
    name = name or argument:match "^%-%-(.+)$"
    if only_paths or argument:sub(1, 1) ~= "-" or argument == "-" then
      paths[#paths + 1] = argument
    elseif argument == "--" then
      only_paths = true
    elseif argument == "-h" then
      given.help = true
    elseif VALUES[name] then
      if not value then
        i = i + 1
        value = arguments[i]
      end
      if not value then misuse(format("--%s needs a value", name)) end
      if LISTS[name] then
        given[name] = given[name] or {}
        table.insert(given[name], value)
      else
        given[name] = value
      end
    elseif FLAGS[name] and (not value or name == "coverage") then
      given[name] = value or true
    elseif FLAGS[name] then
      misuse(format("--%s takes no value", name))
    else
      misuse(format("unknown option '%s'%s", argument, suggestion(name or argument:sub(2))))
    end
    i = i + 1
  end
  if given.help then
    io.write(USAGE)
    os.exit(0)
  end
  check(given)
  return given, paths
end

-- Files ---------------------------------------------------------------------------------------------------------------

function options.is_test_file(name) return name:find "_test%.lua$" or name:find "^test_.*%.lua$" end

--- Adds to `found` the paths of the files below a directory whose names are wanted.
local function search(directory, is_wanted, found, been)
  -- A symbolic link may lead back to a directory that contains it.
  local identity = system.identity(directory)
  if identity and been[identity] then return end
  been[identity or directory] = true
  local names = system.entries(directory)
  for _, name in ipairs(names or {}) do
    local path = directory == "." and name or directory:gsub("/+$", "") .. "/" .. name
    if name:sub(1, 1) ~= "." then
      local kind = system.kind(path)
      if kind == "directory" then
        search(path, is_wanted, found, been)
      elseif kind == "file" and is_wanted(name) then
        found[#found + 1] = path
      end
    end
  end
end
options.search = search

--- Returns the test files of paths, and the paths that were searched. If a file has `lines`, only the tests at these
--- lines are meant.
function options.find_files(paths)
  local seen, files, been = {}, {}, {}
  local function add(path, line)
    local known = seen[path]
    if not known then
      known = { path = path, lines = line and {} or nil }
      seen[path] = known
      files[#files + 1] = known
    end
    -- The whole file includes each of its lines.
    if line and known.lines then known.lines[#known.lines + 1] = line else known.lines = nil end
  end
  if #paths == 0 then
    paths = { system.kind "tests" == "directory" and "tests" or system.kind "test" == "directory" and "test" or "." }
  end
  for _, path in ipairs(paths) do
    local kind, message = system.kind(path)
    local line
    if not kind then
      local file, number = path:match "^(.*):(%d+)$"
      if file and system.kind(file) == "file" then kind, path, line = "file", file, tonumber(number) end
    end
    if not kind then misuse(format("cannot find '%s': %s", path, message:gsub(" %(.*%)$", ""))) end
    if path:find "[\t\n]" then misuse(format("a path cannot hold tabs or new lines: %q", path)) end
    local found = { path }
    if kind == "directory" then
      found = {}
      search(path, options.is_test_file, found, been)
    end
    for _, each in ipairs(found) do add(each, line) end
  end
  return files, paths
end

return options
