-- What a test leaves behind.

local system, internals = ...
local explain = require "runloop.test.explain"

local leaks = {}
local pairs, setmetatable, collectgarbage, io_type = pairs, setmetatable, collectgarbage, io.type
local format, fileno = string.format, internals.fileno
local here

-- Where the files were opened, by descriptor.
local opened_at = {}

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
setmetatable(opened_at, { __mode = "k" })

local function site_of(fd)
  for file, site in pairs(opened_at) do
    if io_type(file) == "file" and fileno(file) == fd then return site end
  end
end

-- The runner's own, and those that loops and threads make and keep.
local function is_ours(target) return target == nil or target:find "^anon_inode:%[event" end

--- What descriptors are open that were not open before, and which are now.
function leaks.descriptors(before)
  local after = system.open_fds()
  if before == after then return {}, after end
  collectgarbage()
  collectgarbage()
  after = system.open_fds()
  local found = {}
  for i = 1, #after do
    if after:byte(i) ~= 0 and before:byte(i) == 0 then
      local fd = i - 1
      local target = system.fd_target(fd)
      if not is_ours(target) then
        local site = site_of(fd)
        found[#found + 1] = format("descriptor %d (%s%s)", fd, target, site and ", opened at " .. site or "")
      end
    end
  end
  return found, after
end

--- From now on it is noted where files are opened; `place` says where the script is.
function leaks.watch_files(place)
  here = place
  for _, name in pairs { "open", "popen", "tmpfile" } do wrap_open(io, name) end
end

--- What is left when a test is over, other than descriptors.
function leaks.find(current)
  local found, running = {}, {}
  for _, program in pairs(current.programs) do
    if program:is_running() then running[#running + 1] = program end
    program:release()
  end
  for _, text in pairs(system.scheduled()) do found[#found + 1] = text end
  local waiting = system.waiting()
  for i = 1, #waiting do
    local task = waiting[i]
    local place = explain.trim(task.frames)[1]
    found[#found + 1] = format("%s waits in %s%s", task.what or "task", task.place, place and " (" .. place .. ")" or "")
  end
  local threads = system.threads()
  if #threads > 0 then
    -- One that is about to end may do so.
    local patience = system.real_clock() + 0.1
    while #threads > 0 and system.real_clock() < patience do threads = system.threads() end
  end
  for _, text in pairs(threads) do found[#found + 1] = text .. " still runs" end
  for _, program in pairs(running) do
    found[#found + 1] = format("program '%s' still runs (started at %s)", program.title, program.where)
  end
  return found
end

return leaks
