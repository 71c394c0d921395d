-- Leaks: the descriptors, items, tasks, threads, programs and observers that a test leaves behind.

local system, internals = ...
local explain = require "runloop.test.explain"

local leaks = {}
local pairs, setmetatable, collectgarbage = pairs, setmetatable, collectgarbage
local io_type, type, package = io.type, type, package
local format, fileno, io_open = string.format, internals.fileno, io.open
local notifications = require "runloop".notifications
local here

-- The places where files were opened, by file.
local opened_at = setmetatable({}, { __mode = "k" })

local function wrap_open(library, name)
  local open = library[name]
  library[name] = function(...)
    local function note(file, ...)
      if io_type(file) == "file" then opened_at[file] = here() end
      return file, ...
    end
    return note(open(...))
  end
end

-- The observers of notifications, with the places where they were added.
local observers = {}

local function wrap_observe()
  local observe = notifications.observe
  function notifications.observe(...)
    local observer = observe(...)
    observers[#observers + 1] = { observer = observer, where = here() }
    return observer
  end
end

--- Removes all observers of notifications.
function leaks.forget_observers()
  for _, entry in pairs(observers) do entry.observer:invalidate() end
  observers = {}
end

local function site_of(fd)
  for file, site in pairs(opened_at) do
    if io_type(file) == "file" and fileno(file) == fd then return site end
  end
end

-- The databases that were open before the test or belong to a group. Each value is the group, or true.
local kept = setmetatable({}, { __mode = "k" })

--- Returns the open databases that are not exempt.
local function databases()
  local list = {}
  for db in pairs(internals.databases or {}) do if not kept[db] then list[#list + 1] = db end end
  return list
end

leaks.databases = databases

--- Exempts the open databases that are not in a list: they belong to a group, or to no test.
function leaks.keep_databases(group, but)
  local others = {}
  for _, db in pairs(but or {}) do others[db] = true end
  for _, db in pairs(databases()) do if not others[db] then kept[db] = group or true end end
end

--- Ends the exemption of a group's databases: from now on, one that is still open is a leak.
function leaks.release_databases(group)
  for db, owner in pairs(kept) do if owner == group then kept[db] = nil end end
end

-- Returns whether a descriptor belongs to the runner, or is one that loops and threads open and keep.
local function is_ours(target) return target == nil or target:find "^anon_inode:%[event" end

-- The number of loaded modules. A module may open descriptors when it is loaded, and keep them.
local modules = 0

local function has_loaded_more()
  local count = 0
  for _, loaded in pairs { package.loaded, internals.loaded } do
    for _ in pairs(loaded) do count = count + 1 end
  end
  local has = count > modules
  modules = count
  return has
end

--- Returns descriptions of the descriptors that are open now and were not before, and the string of those that are open
--- now.
function leaks.descriptors(before)
  local after = system.open_fds()
  if before == after then return {}, after end
  collectgarbage()
  collectgarbage()
  after = system.open_fds()
  -- A thread that is about to close its files gets 50 ms for it.
  local patience = system.real_clock() + 0.05
  while after ~= before and system.real_clock() < patience do after = system.open_fds() end
  local found, is_new = {}, has_loaded_more()
  for i = 1, #after do
    if after:byte(i) ~= 0 and before:byte(i) == 0 then
      local fd = i - 1
      local target = system.fd_target(fd)
      if not is_ours(target) and not system.is_clocks(fd) then
        local site = site_of(fd)
        if site or not is_new then
          found[#found + 1] = format("descriptor %d (%s%s)", fd, target, site and ", opened at " .. site or "")
        end
      end
    end
  end
  return found, after
end

--- Records from now on where files are opened and observers are added; `place` returns the position in the script.
function leaks.watch(place)
  here = place
  for _, name in pairs { "open", "popen", "tmpfile" } do wrap_open(io, name) end
  wrap_observe()
  has_loaded_more()
end

local function command_of(pid)
  local file = io_open(format("/proc/%d/cmdline", pid))
  local text = file and file:read "a" or ""
  if file then file:close() end
  text = text:gsub("%z+$", ""):gsub("%z", " ")
  return text ~= "" and text or "one that ends"
end

--- Kills the programs that run and are not among `pids`.
function leaks.end_programs(pids)
  local give_up = system.real_clock() + 2
  repeat
    local some = false
    for _, pid in pairs(system.programs()) do
      if not pids[pid] then
        system.signal(pid, 9)
        some = true
      end
    end
  until not some or system.real_clock() > give_up
end

--- Lets closed pools end their functions, for a second at most: a test has no other way to wait for them.
function leaks.await_pools()
  local is_closing, give_up = internals.are_pools_closing, system.real_clock() + 1
  while is_closing and is_closing() and system.real_clock() < give_up do
    system.await_threads(0.002)
    system.last_pass()
  end
end

--- Returns descriptions of everything that a test has left, except descriptors. `pids` are programs that do not belong
--- to the test.
function leaks.find(current, pids)
  local found, running, known = {}, {}, {}
  for _, program in pairs(current.programs) do
    if program:is_running() then running[#running + 1] = program end
    known[program:pid()] = true
    program:release()
  end
  local scheduled = system.scheduled()
  if #scheduled > 0 then
    -- An object that is no longer referenced, such as a stream at its end, leaves the loop when it is collected.
    collectgarbage()
    collectgarbage()
    scheduled = system.scheduled()
  end
  for _, text in pairs(scheduled) do found[#found + 1] = text end
  for _, task in pairs(system.waiting()) do
    local place = explain.trim(task.frames)[1]
    found[#found + 1] = format("%s waits in %s%s", task.what or "task", task.place,
      place and " (" .. place .. ")" or "")
  end
  if #databases() > 0 then
    -- An unreachable database closes itself.
    collectgarbage()
    for _, db in pairs(databases()) do found[#found + 1] = tostring(db) end
    leaks.keep_databases()
  end
  -- The host keeps threads that wait for the next call of rl.blocking. The next test starts with new threads.
  if internals.end_blocking then internals.end_blocking() end
  -- A thread that is about to end gets a second for it: other programs may load the machine.
  if #system.threads() > 0 then system.await_threads(1) end
  for _, text in pairs(system.threads()) do found[#found + 1] = text .. " still runs" end
  for _, program in pairs(running) do
    found[#found + 1] = format("program '%s' still runs (started at %s)", program.title, program.where)
  end
  -- A program that is about to end gets half a second for it.
  local patience = system.real_clock() + 0.5
  local others
  repeat
    others = {}
    for _, pid in pairs(system.programs()) do
      if not known[pid] and not pids[pid] then others[#others + 1] = pid end
    end
  until #others == 0 or system.real_clock() > patience
  for _, pid in pairs(others) do
    found[#found + 1] = format("program '%s' still runs (process %d, in the background)", command_of(pid), pid)
  end
  for _, entry in pairs(observers) do
    if entry.observer:is_valid() then
      found[#found + 1] = format("observer of notification \"%s\" (made at %s)", entry.observer:name(),
        entry.where or "?")
    end
  end
  for i = 1, #found do found[i] = explain.whole(found[i]) end
  return found
end

--- Returns the list without the kinds that the test may leave behind.
function leaks.without(list, kinds)
  if type(kinds) ~= "table" then return list end
  local rest = {}
  for _, text in pairs(list) do
    local is_allowed = false
    for _, kind in pairs(kinds) do is_allowed = is_allowed or text:sub(1, #kind) == kind end
    if not is_allowed then rest[#rest + 1] = text end
  end
  return rest
end

return leaks
