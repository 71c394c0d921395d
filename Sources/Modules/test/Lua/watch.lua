-- The watch mode: runs the affected test files again whenever a file changes.

local rl = require "runloop"
local fs = require "runloop.fs"
local system = ...
local find_files = require "runloop.test.options".find_files

local concat, pairs, ipairs, next = table.concat, pairs, ipairs, next
local io, utf8 = io, utf8

local function normal(path) return (path:gsub("^%./", "")) end

-- Returns the test files that a change affects: those that have changed, and those that have loaded a changed file.
-- Returns all files if the change affects no known file.
local function concerned(files, changed, dependencies)
  local chosen = {}
  for _, file in ipairs(files) do
    local hit = changed[normal(file.path)]
    for _, other in ipairs(dependencies[file.path] or {}) do hit = hit or changed[normal(other)] end
    if hit then chosen[#chosen + 1] = file end
  end
  return #chosen > 0 and chosen or files, #chosen > 0
end

-- Keys ----------------------------------------------------------------------------------------------------------------

local KEYS = [[

  a      run all tests
  f      only those that failed the last time
  p      only those whose names hold a text
  Enter  the same as before, again
  q      quit
]]

-- Returns whether this job may read keys from the terminal, which belongs to the foreground job only.
local function has_terminal()
  if not (system.is_terminal(0) and system.is_terminal(1)) then return false end
  local file <close> = io.open "/proc/self/stat"
  local group, foreground = (file and file:read "a" or ""):match "%) %a %d+ (%d+) %d+ %d+ (-?%d+)"
  return group ~= nil and group == foreground
end

-- Reads a line key by key. Calls `done` with the line, or without a value after Escape.
local function read_line(title, done)
  local text = ""
  io.write(title)
  io.flush()
  return function(key)
    if key.name == "enter" or key.name == "escape" then
      io.write "\n"
      return done(key.name == "enter" and text or nil)
    elseif key.name == "backspace" then
      local last = utf8.offset(text, -1)
      if not last then return end
      text = text:sub(1, last - 1)
      io.write("\r\27[K", title, text)
    elseif key.text then
      text = text .. key.text
      io.write(key.text)
    end
    io.flush()
  end
end

-- Calls `act` with the name of a key, and with the text that was typed for it.
local function watch_keys(act)
  if not has_terminal() then return false end
  local terminal = require "runloop.terminal".open()
  if not terminal or not terminal:raw { signals = true, paste = false } then return false end
  local typing
  terminal:on_key(function(key)
    if typing then return typing(key) end
    if key.name == "p" then
      typing = read_line("\nonly tests with: ", function(text)
        typing = nil
        if text then act("p", text) end
      end)
    elseif key.name == "h" or key.name == "?" then
      io.write(KEYS)
      io.flush()
    else
      act(key.name)
    end
  end)
  return true
end

-- Watching ------------------------------------------------------------------------------------------------------------

--- Runs the files of paths now and whenever something changes, by calling run_files(files, dependencies, done).
--- `options` are the runner's; `quit` ends the program.
local function watch(paths, options, run_files, quit)
  local dependencies, is_running, changed = {}, true, {}
  local soon, run
  local watchers = {}
  local function note(changes)
    for _, change in ipairs(changes) do
      -- The watcher has lost events, so any file may have changed.
      if change.kind == "rescan" then changed[""] = true end
      for _, path in pairs { change.path, change.from } do
        if path:find "%.lua$" then changed[normal(path)] = true end
      end
    end
    if next(changed) then soon() end
  end
  local function is_hidden(path) return path:match "[^/]*$":sub(1, 1) == "." end
  local function watch(path, recursive)
    path = normal(path)
    for other, is_deep in pairs(watchers) do
      if path == other
        or is_deep and (other == "." and not path:find "^%.*/" or path:sub(1, #other + 1) == other .. "/") then
        return
      end
    end
    local watcher, message = fs.watch(path, { recursive = recursive, ignore = is_hidden, latency = 0 }, note)
    if watcher then watchers[path] = recursive
    elseif recursive then io.stderr:write("rlhost: test: --watch: ", message, "\n") end
  end
  local function directory_of(path) return path:match "^(.*)/[^/]*$" or "." end
  local function watch_all()
    for _, path in ipairs(paths) do
      path = path:gsub("(.)/+$", "%1")
      if system.kind(path) == "directory" then watch(path, true) else watch(directory_of(path), false) end
    end
    for _, files in pairs(dependencies) do
      for _, file in ipairs(files) do watch(directory_of(file), false) end
    end
  end
  local files_now, asked, has_keys
  local function start(files)
    is_running = true
    changed = {}
    files_now = files
    run = run_files(files, dependencies, function()
      is_running = false
      watch_all()
      if asked then
        local choose = asked
        asked = nil
        return start(choose())
      end
      io.write("\nwaiting for changes (", has_keys and "q ends, h lists other keys" or "Ctrl-C ends", ")\n")
      io.flush()
      if next(changed) then soon() end
    end)
  end
  has_keys = watch_keys(function(key, text)
    local choose
    if key == "q" then
      return quit()
    elseif key == "a" then
      options.filters = nil
      choose = find_files
    elseif key == "f" then
      options.filters = nil
      choose = function() return options.memory:choose(find_files(paths)) end
    elseif key == "p" then
      options.filters = text ~= "" and { text } or nil
      choose = find_files
    elseif key == "enter" then
      choose = function() return files_now end
    else
      return
    end
    if not is_running then
      io.write "\n"
      return start(choose(paths))
    end
    asked = function() return choose(paths) end
    run:abandon()
  end)
  -- An editor writes several files, and one file several times.
  local rerun = rl.debounce(0.05, function()
    if is_running then return end
    local names = {}
    for name in pairs(changed) do names[#names + 1] = name ~= "" and name or "unknown files (events were lost)" end
    table.sort(names)
    io.write("\nchanged: ", concat(names, ", "), "\n\n")
    start(concerned(find_files(paths), changed, dependencies))
  end)
  function soon()
    if not is_running then return rerun() end
    -- The current run tests an outdated file, so it ends early.
    local _, concerns = concerned(find_files(paths), changed, dependencies)
    if concerns and run then run:abandon() end
  end
  watch_all()
  start(find_files(paths))
end

return watch
