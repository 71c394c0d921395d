-- runloop.watch: `rlhost --watch` runs a script as a program, and again when a file that it has read changes.

local native = ...
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local escaped = require "runloop.text".shown

local QUIET, GRACE = 0.1, 5
local watch = {}

local function say(text, ...) io.stderr:write("rlhost: watch: ", escaped(text:format(...)), "\n") end

local function fail(problem)
  say("%s", problem)
  os.exit(1)
end

-- The files that the script has read: absolute paths. Before the program reads a file, it appends a line to the file at
-- `place`: the modification time in seconds and nanoseconds, the size, and the path.
local files, directories, place, taken = {}, {}, nil, 0
-- The paths that were resolved for the running program. They are resolved again for the next program, since links may
-- have changed.
local known = {}
-- The keys are paths of missing directories; the values are the names of files below them that the script has looked
-- for.
local awaited = {}
local add
local soon, shown
local current, no_directory = process.directory()

local function absolute(path)
  if path:sub(1, 1) ~= "/" then path = (current or fail(no_directory)) .. "/" .. path end
  return (path:gsub("/%./", "/"):gsub("//+", "/"))
end

local function changed(name)
  shown = shown or name or "an unknown file"
  soon()
end

-- Called when a missing directory has appeared at a path: watches the directories of the files that were looked for
-- below it.
local function appeared(path)
  local names = awaited[path]
  awaited[path] = nil
  for name in pairs(names) do
    known[absolute(name)] = nil
    add(name)
    if fs.stat(absolute(name)) then changed((name:gsub("^%./", ""))) end
  end
end

local function note(changes)
  for _, change in ipairs(changes) do
    for _, path in pairs { change.path, change.from } do
      local name = files[absolute(path)]
      if name or change.kind == "rescan" then changed(name) end
      if awaited[absolute(path)] then appeared(absolute(path)) end
    end
  end
end

local function watched(directory)
  if not directories[directory] then directories[directory] = fs.watch(directory, { latency = 0 }, note) or nil end
  return directories[directory]
end

-- Watches the nearest directory that exists above a missing one.
local function await(directory, name)
  local path = directory:gsub("/+$", "")
  while path ~= "" do
    if watched(path:match "^(.*)/" .. "/") then
      awaited[path] = awaited[path] or {}
      awaited[path][name] = true
      -- The path may have appeared before its parent was watched.
      if fs.stat(path) then appeared(path) end
      return
    end
    path = path:match "^(.*)/"
  end
end

-- Returns all paths at which the file of a path can change: the path itself, and the paths to which symbolic links
-- lead. Watchers follow links to directories by themselves.
local function places_of(path)
  local places, target = { path }, fs.read_link(path)
  while target and #places < 40 do
    path = absolute(target:sub(1, 1) == "/" and target or path:match "^.*/" .. target)
    places[#places + 1], target = path, fs.read_link(path)
  end
  return places
end

function add(name, modified, size)
  local path = absolute(name)
  if known[path] then return end
  known[path] = true
  for _, place in ipairs(places_of(path)) do
    files[place] = files[place] or name:gsub("^%./", "")
    local directory = place:match "^(.*)/" .. "/"
    -- If the directory is missing, it may be created later, together with the missing module.
    if not watched(directory) then await(directory, name) end
  end
  -- The file may have changed after the program read it, and before its directory was watched.
  local now = fs.stat(path)
  if modified and now and (math.abs(now.modified - modified) > 1e-6 or now.size ~= size) then
    note { { path = path } }
  end
end

local function take_files()
  local text = fs.read(place .. "/files") or ""
  local whole = text:match "^.*\n" or ""
  for seconds, nanoseconds, size, name in whole:sub(taken + 1):gmatch "(%d+) (%d+) (%d+) ([^\n]+)" do
    add(name, seconds + nanoseconds / 1e9, tonumber(size))
  end
  taken = #whole
end

-- The running program; nil between its end and its next start.
local program, is_over
local words, script

local function ended(own, how, value)
  if own ~= program then return end
  program = nil
  -- Control-C goes to the program, which has the terminal.
  if how == "signal" and value == "INT" then return watch.finish "INT" end
  if is_over then return end
  say(how == "signal" and "ended by SIG%s; waiting for a change" or "ended with status %s; waiting for a change", value)
end

local function start()
  assert(fs.write(place .. "/files", ""))
  taken, known = 0, {}
  local options = {
    foreground = true, environment = { RLHOST_WATCHED = place .. "/files" }, on_exit = ended, input = "inherit",
    output = "inherit", errors = "inherit", table.unpack(words),
  }
  local problem
  program, problem = process.start(options)
  if not program and problem:find "^EBUSY" then
    options.foreground = nil
    program, problem = process.start(options)
  end
  if not program then say("%s; waiting for a change", problem) end
  add(script)
end

local function stop()
  local own = program
  program = nil
  if own then own:stop(GRACE) end
end

local is_restarting = false
local function restart()
  if is_restarting or is_over then return end
  is_restarting = true
  repeat
    say("%s changed", shown)
    shown = nil
    stop()
    take_files()
    if not is_over then start() end
  until not shown
  is_restarting = false
end

function watch.finish(signal)
  if is_over then return end
  is_over = true
  local own = program
  if own then
    own:signal(signal)
    rl.timeout(GRACE, own.wait, own)
    own:stop(0)
  end
  fs.remove(place, { recursive = true })
  native.die(signal)
end

-- Runs the command. The arguments are the script's path, and the command line for the program: that of this process,
-- without --watch.
function watch.run(name, ...)
  script, words = name, { ... }
  local problem
  place, problem = fs.temporary_directory "rlhost-watch"
  if not place then fail(problem) end
  soon = rl.debounce(QUIET, function() rl.task(restart) end)
  for _, name in ipairs { "INT", "TERM", "HUP" } do
    process.on_signal(name, function() rl.task(watch.finish, name) end)
  end
  add(script)
  assert(fs.watch(place .. "/", { latency = 0, while_writing = true }, take_files))
  start()
end

return watch
