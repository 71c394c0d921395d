-- runloop.fs.scan: lists the directories that a watcher watches.

local native = ...
local changes = require "runloop.fs.changes"
local instance = require "runloop.fs.instance"
local tree = require "runloop.fs.tree"

local is_wanted, touch, appear, move = changes.is_wanted, changes.touch, changes.appear, changes.move
local know, assign, join = tree.know, tree.assign, tree.join
local pairs, ipairs, tonumber = pairs, ipairs, tonumber
local match, byte = string.match, string.byte

-- The flags of inotify(7).
local MODIFY, CLOSE_WRITE = 0x2, 0x8
local MOVED_FROM, MOVED_TO, CREATE = 0x40, 0x80, 0x100
local DELETE, DELETE_SELF, MOVE_SELF = 0x200, 0x400, 0x800

local M = {}

-- Returns the entries of a directory that may concern the watcher.
local function list(self, path)
  if not self._file then return native.list(path) end
  local kind = native.kind(self._file, true)
  return kind and { { name = match(self._file, "[^/]*$"), kind = kind } } or {}
end

local watch_directory

-- Watches a directory for a watcher, and records its contents; reports them as new if `tells` is true. Returns nil,
-- message, code on failure.
function M.watch_directory(self, path, tells)
  if self._root ~= path and not is_wanted(self, path, true) then return true end
  local number, message, code = instance.watch(self, path,
    CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
      | (self._while_writing and MODIFY or 0), self._file and match(self._file, "[^/]*$"))
  if not number then
    -- If the directory is gone again, an event will report that. Other failures, such as a directory that may not be
    -- listed, are errors.
    if code == "ENOENT" or code == "ENOTDIR" then return true end
    return nil, message, code
  end
  -- The kernel identifies directories whatever their names are. If this directory was renamed, its old name may belong
  -- to another one by now.
  local before = self._directories[number]
  local cookie = before and before ~= path and tonumber(match(before, "^\0(%d+)$"))
  if cookie then
    -- The directory has moved here from a watched place before this place was watched.
    self._leaving[cookie] = nil
    move(self, before, path, true)
    self._unseen[path] = nil
  elseif before and before ~= path and self._recursive then
    changes.empty(self, before)
    self._unseen[before] = true
  end
  local other = self._numbers[path]
  if other and other ~= number then
    changes.empty(self, path)
    assign(self, other, nil)
  end
  assign(self, number, path)
  local entries
  entries, message, code = list(self, path)
  if not entries and code ~= "ENOENT" and code ~= "ENOTDIR" then return nil, message, code end
  for _, entry in ipairs(entries or {}) do
    local below, is_directory = join(path, entry.name), entry.kind == "directory"
    if is_wanted(self, below, is_directory) and not self._known[below] then
      if tells then
        appear(self, below, is_directory)
      else
        know(self, below, is_directory and "directory" or "file")
        if is_directory and self._recursive then
          local fine, why, name = watch_directory(self, below, false)
          if name == "EACCES" then touch(self, below).message = why
          elseif not fine then return nil, why, name end
        end
      end
    end
  end
  return true
end
watch_directory = M.watch_directory

-- Lists the directories that are new or have moved, except those whose move is not complete.
function M.look(self)
  changes.look_at_names(self)
  local has_looked
  repeat
    local unseen = self._unseen
    self._unseen, has_looked = {}, false
    for path in pairs(unseen) do if byte(path) == 0 then self._unseen[path] = true end end
    for path in pairs(unseen) do
      if byte(path) ~= 0 and self._known[path] == "directory" then
        local fine, message, code = watch_directory(self, path, true)
        if not fine then touch(self, path).message = instance.limit_message(message, code) end
        has_looked = true
      end
    end
  until not has_looked
end

return M
