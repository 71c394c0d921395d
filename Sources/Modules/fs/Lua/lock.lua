-- runloop.fs.lock: locks of files between processes, threads and tasks, by flock(2).

local native = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local format, min, max, setmetatable = string.format, math.min, math.max, setmetatable

local Lock = objects.class("runloop.fs.Lock", { __name = "lock" })
local FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.02

-- Tasks of this state may wait for a lock that another task of the state holds. For each file: the condition for which
-- these tasks wait, and the number of locks that the state holds.
local freed, counts = {}, {}

local function release(self)
  local fd, file = self._fd, self._file
  if not fd then return end
  self._fd = nil
  native.unlock(fd, file)
  counts[file] = counts[file] > 1 and counts[file] - 1 or nil
  if freed[file] then freed[file]:broadcast() end
end

function Lock:close() release(self) end
Lock.__close, Lock.__gc = release, release
function Lock:__tostring() return format("lock (%s%s)", self._path, self._fd and "" or ", closed") end
objects.methods(Lock, "lock")

-- Waits until the lock may be free, `left` seconds at most. Returns the seconds that count as waited, and the next
-- pause.
local function wait(file, left, pause)
  if counts[file] then
    local condition = freed[file] or objects.condition "fs.lock"
    freed[file] = condition
    local began = rl.now()
    condition:wait(left < math.huge and left or nil)
    return rl.now() - began, FIRST_PAUSE
  end
  pause = min(pause, left)
  if native.is_own_lock(file) then
    rl.sleep(pause)  -- another thread holds the lock
  else
    native.lock_pause(pause)
  end
  return pause, min(pause * 2, LONGEST_PAUSE)
end

local OPTIONS <const> = { timeout = "seconds", shared = "boolean" }

return function(path, options)
  options = misuse.options(options, OPTIONS, "fs.lock", 2)
  local left, pause = options.timeout or math.huge, FIRST_PAUSE
  while true do
    local fd, file, code = native.try_lock(path, options.shared or false)
    if fd then
      counts[file] = (counts[file] or 0) + 1
      return setmetatable({ _fd = fd, _file = file, _path = path }, Lock)
    end
    if fd == nil then return nil, file, code end
    if left <= 0 then
      local holder = native.lock_holder(file)
      local by = holder and format("process %d", holder) or "another process"
      return nil, format("EBUSY: held by %s (%s)", by, path), "EBUSY"
    end
    local waited
    waited, pause = wait(file, left, max(pause, FIRST_PAUSE))
    left = left - waited
  end
end
