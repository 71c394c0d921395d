-- The test runner that runs again what is concerned whenever a file changes.

local rl = require "runloop"
local system = ...
local find_files = require "runloop.test.options".find_files

local concat, unpack_string, pairs, ipairs, next, assert = table.concat, string.unpack, pairs, ipairs, next, assert
local io, utf8 = io, utf8

local function watched_directories(paths, dependencies)
  local directories = {}
  local function add(path, deep)
    if system.kind(path) ~= "directory" then return end
    directories[path] = true
    if not deep then return end
    for _, name in ipairs(system.entries(path) or {}) do
      if name:sub(1, 1) ~= "." then add((path == "." and "" or path .. "/") .. name, true) end
    end
  end
  for _, path in ipairs(paths) do
    if system.kind(path) == "directory" then add(path, true) else add(path:match "^(.*)/[^/]*$" or ".", false) end
  end
  for _, files in pairs(dependencies) do
    for _, file in ipairs(files) do add(file:match "^(.*)/[^/]*$" or ".", false) end
  end
  return directories
end

-- Of inotify: it concerns a directory.
local IS_DIRECTORY = 0x40000000

local function normal(path) return (path:gsub("^%./", "")) end

-- Which test files a change concerns: those that are changed, and those that have loaded what is. All, if none is known.
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

-- Whether the terminal is ours to ask for keys: not another job's.
local function has_terminal()
  if not (system.is_terminal(0) and system.is_terminal(1)) then return false end
  local file <close> = io.open "/proc/self/stat"
  local group, foreground = (file and file:read "a" or ""):match "%) %a %d+ (%d+) %d+ %d+ (-?%d+)"
  return group ~= nil and group == foreground
end

-- A line, key by key: calls `done` with it, or with nothing after Escape.
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

-- Calls `act` with the name of what a key asks for, and with the text that has been typed for that.
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

-- Watching --------------------------------------------------------------------------------------------------------------

--- Runs the files of paths now and whenever something changes, by calling run_files(files, dependencies, done). `options` are the
--- runner's, `quit` ends it.
local function watch(paths, options, run_files, quit)
  local dependencies = {}
  local fd = assert(system.watch_files())
  local places, is_running, changed, soon, run, takes_new = {}, true, {}, nil, nil, false
  local function path_in(place, name) return (places[place] == "." and "" or normal(places[place]) .. "/") .. name end
  local function watch_all()
    for directory in pairs(watched_directories(paths, dependencies)) do
      local number = system.watch_directory(fd, directory)
      if number then
        -- What a new directory held before it was watched is as new.
        if takes_new and not places[number] then
          places[number] = directory
          for _, name in ipairs(system.entries(directory) or {}) do
            if name:find "%.lua$" then changed[path_in(number, name)] = true end
          end
        end
        places[number] = directory
      end
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
      io.write("\nwaiting for changes (", has_keys and "q ends, h tells of other keys" or "Ctrl-C ends", ")\n")
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
  local timer
  function soon()
    if is_running then
      -- A run of what is no longer so is not worth waiting for.
      local _, concerns = concerned(find_files(paths), changed, dependencies)
      if concerns and run then run:abandon() end
      return
    end
    if timer and timer:is_valid() then return end
    -- An editor writes more than one file, and one file more than once.
    timer = rl.after(0.05, function()
      local names = {}
      for name in pairs(changed) do names[#names + 1] = name end
      table.sort(names)
      io.write("\nchanged: ", concat(names, ", "), "\n\n")
      start(concerned(find_files(paths), changed, dependencies))
    end)
  end
  rl.on_readable(fd, function()
    while true do
      local events = system.read(fd)
      if not events or events == "" then break end
      local position = 1
      while position <= #events do
        local place, mask, _, length = unpack_string("=i4I4I4I4", events, position)
        local name = events:sub(position + 16, position + 15 + length):match "^[^%z]*"
        position = position + 16 + length
        if mask & IS_DIRECTORY ~= 0 and places[place] then
          takes_new = true
          watch_all()
          takes_new = false
        elseif name:find "%.lua$" and places[place] then
          changed[path_in(place, name)] = true
        end
      end
    end
    if next(changed) then soon() end
  end)
  watch_all()
  start(find_files(paths))
end

return watch
