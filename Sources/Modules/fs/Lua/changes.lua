-- runloop.fs.changes: filters the paths that a watcher reports, and turns events into changes of their entries.

local native = ...
local instance = require "runloop.fs.instance"
local difference = require "runloop.fs.difference"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local tree = require "runloop.fs.tree"
local raise, describe = misuse.raise, misuse.describe
local type, ipairs = type, ipairs
local match, find, gsub = string.match, string.find, string.gsub
local sub, byte = string.sub, string.byte

-- The flags of inotify(7).
local MOVED_FROM, MOVED_TO = 0x40, 0x80

local M = {}

-- Returns a pattern for "*.o" and "?". The pattern is matched against the last part of a path; a pattern with "/" is
-- matched against the path relative to the root.
local function glob(pattern)
  local text = gsub(pattern, "[%^%$%(%)%%%.%[%]%*%+%-%?]", function(c)
    return c == "*" and "[^/]*" or c == "?" and "[^/]" or "%" .. c
  end)
  text = gsub(text, "%[%^/%]%*%[%^/%]%*", ".*")
  return "^" .. gsub(text, "^/", "") .. "$"
end

function M.ignore(what, ignore)
  if ignore == nil then return function() return false end end
  if type(ignore) == "function" then
    return function(relative, is_directory) return ignore(relative, is_directory) end
  end
  if type(ignore) == "string" then ignore = { ignore } end
  if type(ignore) ~= "table" then
    raise("%s: ignore must be a function or a list of patterns, got %s", what, describe(ignore))
  end
  local names, paths = {}, {}
  for index, pattern in ipairs(ignore) do
    if type(pattern) ~= "string" then
      raise("%s: ignore: entry %d must be a string, got %s", what, index, describe(pattern))
    end
    pattern = gsub(pattern, "/$", "")
    if find(pattern, "/", 1, true) then paths[#paths + 1] = glob(pattern) else names[#names + 1] = glob(pattern) end
  end
  return function(relative)
    local name = match(relative, "[^/]*$")
    for _, pattern in ipairs(names) do if find(name, pattern) then return true end end
    for _, pattern in ipairs(paths) do if find(relative, pattern) then return true end end
    return false
  end
end

local function relative(self, path)
  return path == self._root and "" or sub(path, #self._root + (self._root == "/" and 1 or 2))
end

function M.is_wanted(self, path, is_directory)
  if self._file then return path == self._file end
  if not self._goes_on then return not self._ignore(relative(self, path), is_directory) end
  -- An error in the script's function must not lose the events that follow.
  local fine, answer = pcall(self._ignore, relative(self, path), is_directory)
  if not fine then rl.perform(function() error(answer, 0) end) end
  return not (fine and answer)
end

-- Changes are reported in the order of their events. An entry that moves several times is reported at the place of its
-- last move.
local function count(self, entry)
  self._count = self._count + 1
  entry.at = self._count
end

-- Returns the entry of a path in the current batch. The entry has the item that existed when the batch began. For the
-- item that exists now, it has the `origin`: the path of that item when the batch began, or nil if the item is new. An
-- item that moves at the moment has no path, and arrives as new.
function M.touch(self, path)
  local entry = self._touched[path]
  if not entry then
    local known = byte(path) ~= 0 and self._known[path] or nil
    entry = { path = path, before = known, origin = known and path, is_directory = known == "directory" }
    self._touched[path] = entry
    self._order[#self._order + 1] = entry
    count(self, entry)
  end
  return entry
end
local touch = M.touch

-- Records that an item has moved from one path to another, alone or with its directory. Reports nothing.
local function carry(self, from, to, kind, has_moved)
  local source = touch(self, from)
  local origin, wrote = source.origin, source.wrote
  has_moved = has_moved or source.has_moved
  source.origin, source.wrote, source.has_moved = nil, nil, nil
  tree.know(self, from, nil)
  local target = touch(self, to)
  count(self, target)
  target.origin, target.wrote, target.has_moved, target.is_directory = origin, wrote, has_moved, kind == "directory"
  tree.know(self, to, kind)
end

-- Records that a path exists now. A new directory is listed after all pending events were handled: files put into it
-- before it was watched give no events, and by then it may have another name.
function M.appear(self, path, is_directory)
  local entry = touch(self, path)
  entry.origin, entry.wrote, entry.has_moved, entry.is_directory = nil, nil, nil, is_directory
  tree.know(self, path, is_directory and "directory" or "file")
  if is_directory and self._recursive then self._unseen[path] = true end
end
local appear = M.appear

function M.vanish(self, path)
  local gone = self._known[path] == "directory" and tree.below(self, path) or {}
  gone[#gone + 1] = path
  touch(self, path)
  for _, each in ipairs(gone) do
    local entry = touch(self, each)
    entry.origin, entry.wrote, entry.has_moved = nil, nil, nil
    tree.know(self, each, nil)
    local number = self._numbers[each]
    if number then
      instance.unwatch(self, number)
      tree.assign(self, number, nil)
    end
  end
end
local vanish = M.vanish

-- Records that all known contents of a directory were removed, since another directory now has its name.
function M.empty(self, path)
  for _, below in ipairs(tree.below(self, path)) do if self._known[below] then vanish(self, below) end end
end

function M.move(self, from, to, is_directory)
  if self._known[to] == "directory" then vanish(self, to) end
  local moved = is_directory and tree.below(self, from) or {}
  carry(self, from, to, is_directory and "directory" or "file", true)
  for _, below in ipairs(moved) do carry(self, below, to .. sub(below, #from + 1), self._known[below]) end
  if not is_directory then return end
  moved[#moved + 1] = from
  tree.carry(self, moved, from, to)
  -- The directory may be so new that it has not been listed.
  if self._recursive then self._unseen[to] = true end
end

-- Everything below the two paths is listed again.
function M.exchange(self, path, is_directory, other, was_directory)
  self._exchanged = is_directory or was_directory
  vanish(self, path) vanish(self, other)
  appear(self, path, is_directory) appear(self, other, was_directory)
end

-- Compares the names of moves with the file system, after all pending events were handled. An exchange of two names
-- gives the same events as two moves. Also, an event of a renamed directory may have been attributed to the directory's
-- old name.
function M.look_at_names(self)
  local names = self._moved
  self._moved = {}
  for path in pairs(names) do
    local kind, known = native.kind(path, true), self._known[path]
    local is_directory = kind == "directory"
    if known and (not kind or is_directory ~= (known == "directory")) then
      vanish(self, path)
      known = nil
    end
    if kind and not known then appear(self, path, is_directory) end
    if is_directory and self._recursive then self._unseen[path] = true end
  end
end

-- Returns the path to which the item of an event moves, or nil if that path is not watched. Consumes the event of the
-- other half of the move.
function M.target(self, events, index)
  local arrivals = events.arrivals
  if not arrivals then
    arrivals = {}
    for place, event in ipairs(events) do if event.mask & MOVED_TO ~= 0 then arrivals[event.cookie] = place end end
    events.arrivals = arrivals
  end
  local place = arrivals[events[index].cookie]
  local other = place and place > index and events[place]
  local directory = other and other.mask & MOVED_TO ~= 0 and self._directories[other.watch]
  if directory then
    other.mask = 0
    return tree.join(directory, other.name)
  end
end

-- If one call has exchanged `path` and `target` (renameat2 with RENAME_EXCHANGE), returns the MOVED_FROM event of the
-- move from `target` to `path`, and clears the mask of its MOVED_TO event. The kernel reports the same events for
-- `mv a b; mv b a`; but after those commands there is no b.
function M.exchanged(self, events, index, path, target)
  local other
  for later = index + 1, #events do
    local event = events[later]
    local directory = event.name and event.mask ~= 0 and self._directories[event.watch]
    if directory then
      local place = tree.join(directory, event.name)
      if not other then
        if event.mask & MOVED_FROM == 0 or place ~= target then return nil end
        other = event
      elseif event.cookie ~= other.cookie or place ~= path or not native.kind(target, true) then
        return nil
      else
        event.mask = 0
        return other
      end
    end
  end
end

-- Returns the next event if it has the same directory and name as this one and reports a move away from that name,
-- although an item still has the name.
function M.goes(events, index, exists)
  local event, later = events[index], index + 1
  while events[later] and not events[later].name do later = later + 1 end
  local other = events[later]
  return exists and other and other.watch == event.watch and other.name == event.name
    and other.mask & MOVED_FROM ~= 0 and other
end

-- Returns the changes of a batch, and begins the next one.
function M.take(self)
  local order, touched, changes = self._order, self._touched, {}
  self._order, self._touched, self._armed = {}, {}, false
  local function tell(kind, path, is_directory, from, message)
    changes[#changes + 1] = {
      kind = kind, path = self._shown(path), from = from and self._shown(from),
      is_directory = is_directory, message = message,
    }
  end
  if self._rescan then
    tell("rescan", self._root, true, nil, self._problem)
    self._rescan, self._problem = false, nil
  else
    difference(order, touched, self._known, tell)
  end
  return changes
end

return M
