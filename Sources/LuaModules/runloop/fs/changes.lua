-- runloop.fs.changes: what a watcher leaves out, and what the changes that it has seen come to.

local native = ...
local instance = require "runloop.fs.instance"
local rl = require "runloop"
local misuse = require "runloop.misuse"
local tree = require "runloop.fs.tree"
local raise, describe = misuse.raise, misuse.describe
local type, ipairs, sort = type, ipairs, table.sort
local match, find, gsub, sub, byte = string.match, string.find, string.gsub, string.sub, string.byte

-- inotify(7).
local MOVED_FROM, MOVED_TO = 0x40, 0x80

local M = {}

-- "*.o" and "?" against the last part of a path, patterns with "/" against the part below the root.
local function glob(pattern)
  local text = gsub(pattern, "[%^%$%(%)%%%.%[%]%*%+%-%?]", function(c) return c == "*" and "[^/]*" or c == "?" and "[^/]" or "%" .. c end)
  text = gsub(text, "%[%^/%]%*%[%^/%]%*", ".*")
  return "^" .. gsub(text, "^/", "") .. "$"
end

function M.ignore(what, ignore)
  if ignore == nil then return function() return false end end
  if type(ignore) == "function" then return function(relative, is_directory) return ignore(relative, is_directory) end end
  if type(ignore) == "string" then ignore = { ignore } end
  if type(ignore) ~= "table" then raise("%s: ignore must be a function or a list of patterns, got %s", what, describe(ignore)) end
  local names, paths = {}, {}
  for index, pattern in ipairs(ignore) do
    if type(pattern) ~= "string" then raise("%s: ignore: entry %d must be a string, got %s", what, index, describe(pattern)) end
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

local function relative(self, path) return path == self._root and "" or sub(path, #self._root + (self._root == "/" and 1 or 2)) end

function M.is_wanted(self, path, is_directory)
  if self._file then return path == self._file end
  if not self._goes_on then return not self._ignore(relative(self, path), is_directory) end
  -- An error in the script's function must not cost what has happened behind it.
  local fine, answer = pcall(self._ignore, relative(self, path), is_directory)
  if not fine then rl.perform(function() error(answer, 0) end) end
  return not (fine and answer)
end

-- Changes are told in the order in which they have happened: of an entry, its last move.
local function count(self, entry)
  self._count = self._count + 1
  entry.at = self._count
end
local function earlier(a, b) return a.at < b.at end

-- The entry of a path in the batch that is being gathered: whether it was there when the batch began.
function M.touch(self, path)
  local entry = self._touched[path]
  if not entry then
    local known = self._known[path]
    entry = { path = path, before = known ~= nil, is_directory = known == "directory" }
    self._touched[path] = entry
    self._order[#self._order + 1] = entry
    count(self, entry)
  end
  return entry
end
local touch = M.touch

-- What is in a directory has moved along with it, without a word of its own. It is told of by itself where the move cannot be told as one
-- of the directory: when directories change places.
local function carry(self, source, target, below, kind)
  local rest = sub(below, #source.path + 1)
  local left = touch(self, below)
  left.left = source
  tree.know(self, below, nil)
  local entry = touch(self, target.path .. rest)
  count(self, entry)
  entry.carried, entry.is_directory, entry.wrote, entry.came = target, kind == "directory", left.wrote, below
  -- New is what came within the batch by another way than with this directory.
  entry.replaced, entry.is_new = left.replaced, left.is_new or not left.before and left.carried ~= source
  tree.know(self, entry.path, kind)
end

-- Returns what has moved along.
local function carry_all(self, from, to, is_directory)
  local source = touch(self, from)
  -- What was carried there is not what was there before.
  local origin = source.origin or (source.before and not source.replaced and not source.carried and from) or nil
  local wrote = source.wrote
  source.origin = nil
  local target = touch(self, to)
  count(self, target)
  local moved = is_directory and tree.below(self, from) or {}
  for _, below in ipairs(moved) do carry(self, source, target, below, self._known[below]) end
  tree.know(self, from, nil)
  target.replaced, target.origin, target.wrote, target.is_directory = true, origin, wrote, is_directory
  tree.know(self, to, is_directory and "directory" or "file")
  return moved
end

-- A path that is there now. A directory is looked into when all that has happened was taken: what was put into it before it was watched
-- would else never be told; and by then it may have another name.
function M.appear(self, path, is_directory)
  local entry = touch(self, path)
  entry.replaced, entry.origin, entry.is_directory = true, nil, is_directory
  tree.know(self, path, is_directory and "directory" or "file")
  if is_directory and self._recursive then self._unseen[path] = true end
end
local appear = M.appear

function M.vanish(self, path)
  touch(self, path).origin = nil
  local gone = self._known[path] == "directory" and tree.below(self, path) or {}
  gone[#gone + 1] = path
  for _, each in ipairs(gone) do
    touch(self, each)
    tree.know(self, each, nil)
    local number = self._numbers[each]
    if number then
      instance.unwatch(self, number)
      tree.assign(self, number, nil)
    end
  end
end
local vanish = M.vanish

-- What was known to be in a directory is in another one.
function M.empty(self, path)
  for _, below in ipairs(tree.below(self, path)) do if self._known[below] then vanish(self, below) end end
end

function M.move(self, from, to, is_directory)
  if self._known[to] == "directory" then vanish(self, to) end
  local moved = carry_all(self, from, to, is_directory)
  if not is_directory then return end
  moved[#moved + 1] = from
  tree.carry(self, moved, from, to)
  -- If it was made a moment ago, nobody has looked into it.
  if self._recursive then self._unseen[to] = true end
end

-- What is below is looked at anew.
function M.exchange(self, path, is_directory, other, was_directory)
  self._exchanged = is_directory or was_directory
  vanish(self, path) vanish(self, other)
  appear(self, path, is_directory) appear(self, other, was_directory)
end

-- Looks at the names that something has gone from or come to, once all that has happened was taken. What the kernel tells of names that
-- are exchanged it tells of two moves, too; and what is told by the watch of a directory that has another name by now may have been taken
-- for another's.
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

-- Whither it goes, what the event says goes, among what is watched; nil if that is not known. Its other half is taken.
function M.target(self, events, index)
  for later = index + 1, #events do
    local other = events[later]
    local directory = other.cookie == events[index].cookie and other.mask & MOVED_TO ~= 0 and self._directories[other.watch]
    if directory then
      other.mask = 0
      return tree.join(directory, other.name)
    end
  end
end

-- Whether two names have been exchanged in one step. What the kernel tells is what it tells of `mv a b; mv b a`; only that leaves no b.
-- Returns the event of the way back, whose other half is taken.
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

-- The next event, if it says that what has the name of this one goes, and something is there.
function M.goes(events, index, exists)
  local event, later = events[index], index + 1
  while events[later] and not events[later].name do later = later + 1 end
  local other = events[later]
  return exists and other and other.watch == event.watch and other.name == event.name and other.mask & MOVED_FROM ~= 0 and other
end

local function kind_of(entry, known, consumed)
  local path, after, before, carrier = entry.path, known[entry.path] ~= nil, entry.before, entry.carried
  local is_along = carrier and carrier.kind == "renamed"
  if is_along then
    before = not entry.is_new
    -- What had its name before has been told to have gone elsewhere.
    local place = entry.came
    while before and place and #place > #carrier.origin do
      before, place = not consumed[place], match(place, "^(.*)/")
    end
  end
  if after and before then
    local is_another = entry.replaced and entry.origin ~= path
      or carrier and (carrier.kind == "changed" or carrier.kind == "created") and not entry.is_directory
    if entry.wrote or is_another then return "changed" end
  elseif after then
    return "created"
  elseif before and not consumed[path] and not (entry.left and consumed[entry.left.path]) then
    return "removed"
  end
end

-- What a batch of changes comes to.
function M.take(self)
  local order, known, changes, consumed = self._order, self._known, {}, {}
  self._order, self._touched, self._armed = {}, {}, false
  if self._rescan then
    self._rescan = false
    changes[1] = { kind = "rescan", path = self._shown(self._root), is_directory = true, message = self._problem }
    self._problem = nil
    return changes
  end
  for _, entry in ipairs(order) do
    local path, origin = entry.path, entry.origin
    if known[path] and origin and origin ~= path and not known[origin] then entry.kind, consumed[origin] = "renamed", true end
  end
  for _, entry in ipairs(order) do if not entry.carried then entry.kind = entry.kind or kind_of(entry, known, consumed) end end
  sort(order, earlier)
  for _, entry in ipairs(order) do
    local kind = entry.kind or entry.carried and kind_of(entry, known, consumed) or entry.message and known[entry.path] and "changed"
    -- What is on its way has no path.
    if kind and byte(entry.path) ~= 0 then
      changes[#changes + 1] = { kind = kind, path = self._shown(entry.path), from = kind == "renamed" and self._shown(entry.origin) or nil,
        is_directory = entry.is_directory, message = entry.message }
    end
  end
  return changes
end

return M
