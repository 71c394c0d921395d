-- The options of the test runner, and the files it runs.

local system = ...
local report = require "runloop.test.report"

local options = {}
local format, pairs, ipairs, tonumber, pcall = string.format, pairs, ipairs, tonumber, pcall

local USAGE = [[
usage: rlhost [options] test [paths] [options]
Runs the tests in the files given, and in the files *_test.lua and test_*.lua of the directories given;
without a path: in tests or test, if there is such a directory, else here.
  --filter pattern   only tests whose full name matches the Lua pattern
  --list             print the tests' names, do not run them
  --format name      readable (default), tap or junit
  --shuffle          run files and tests in random order; the seed is printed
  --seed n           the seed of the order, and of math.random in each test
  --fail-fast        stop at the first failure
  --jobs n           run so many files at a time, each in a process of its own
  --timeout s        real seconds that a test may take (default 10)
  --real-time        let time pass as it really does
  --coverage[=file]  count the lines of Lua that run; print a summary, write lcov's format (lcov.info)
  --watch            run again what is concerned whenever a file changes
  --help             show this help and exit
Exit status: 0 all passed, 1 a failure, 5 no test found, 64 wrong use.
]]

local function leave(status) os.exit(status) end

local function misuse(text)
  io.stderr:write("rlhost: test: ", text, "\n")
  leave(64)
end

-- Options -------------------------------------------------------------------------------------------------------------

local FLAGS = { list = true, shuffle = true, ["fail-fast"] = true, ["real-time"] = true, watch = true, help = true,
  coverage = true }
local VALUES = { filter = true, format = true, seed = true, jobs = true, timeout = true }

local function suggestion(name)
  for _, known in ipairs { "filter", "list", "format", "shuffle", "seed", "fail-fast", "jobs", "timeout", "real-time",
    "coverage", "watch", "help" } do
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

--- Options and paths from the arguments.
function options.parse(arguments)
  local given, paths, i, only_paths = { format = "readable", timeout = 10, jobs = 1 }, {}, 1, false
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
      given[name] = value
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
    leave(0)
  end
  if not report.formats[given.format] then
    misuse(format("--format must be readable, tap or junit, got '%s'", given.format))
  end
  if given.seed then given.seed = whole("seed", given.seed, 0) end
  given.jobs = whole("jobs", given.jobs, 1)
  local timeout = tonumber(given.timeout)
  if not timeout or not (timeout > 0 and timeout < 1e6) then
    misuse(format("--timeout needs a number of seconds, more than 0, got '%s'", given.timeout))
  end
  given.timeout = timeout
  if given.filter then
    local fine, message = pcall(string.find, "", given.filter)
    if not fine then misuse("--filter: " .. message) end
  end
  if given.watch and given.list then misuse "--watch and --list exclude each other" end
  if given.coverage == true then given.coverage = "lcov.info" end
  return given, paths
end

-- Files ---------------------------------------------------------------------------------------------------------------

local function is_test_file(name) return name:find "_test%.lua$" or name:find "^test_.*%.lua$" end

local function search(directory, found)
  local names = system.entries(directory)
  for _, name in ipairs(names or {}) do
    local path = directory == "." and name or directory:gsub("/+$", "") .. "/" .. name
    if name:sub(1, 1) ~= "." then
      local kind = system.kind(path)
      if kind == "directory" then
        search(path, found)
      elseif kind == "file" and is_test_file(name) then
        found[#found + 1] = path
      end
    end
  end
end

--- The test files of paths, and the paths that were searched.
function options.find_files(paths)
  local found, seen, files = {}, {}, {}
  if #paths == 0 then
    paths = { system.kind "tests" == "directory" and "tests" or system.kind "test" == "directory" and "test" or "." }
  end
  for _, path in ipairs(paths) do
    local kind, message = system.kind(path)
    if not kind then misuse(format("cannot find '%s': %s", path, message)) end
    if path:find "[\t\n]" then misuse(format("a path cannot hold tabs or new lines: %q", path)) end
    if kind == "directory" then search(path, found) else found[#found + 1] = path end
  end
  for _, path in ipairs(found) do
    if not seen[path] then
      seen[path] = true
      files[#files + 1] = path
    end
  end
  return files, paths
end

return options
