-- runloop.fs.links: the symbolic links on the way to what a watcher watches. When one of them is put anew, as that to the newest version of
-- something is, the way leads elsewhere.

local native = ...
local instance = require "runloop.fs.instance"
local tree = require "runloop.fs.tree"
local pairs, select = pairs, select
local match, sub, find, byte = string.match, string.sub, string.find, string.byte

local links = {}

-- inotify(7): whatever changes which file a name is; and what is wanted of the nearest directory above one that has gone.
local CHANGES = 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
-- As many as the kernel follows.
local MOST = 40

-- Calls a function with the directory and the name of each, those that links lead to included; and of what is missing on the way.
local function each_link(path, visit, depth)
  local ends = 0
  repeat
    ends = find(path, "/", ends + 1, true)
    local part = ends and sub(path, 1, ends - 1) or path
    local target = part ~= "" and depth < MOST and native.link_target(part)
    local is_missing = part ~= "" and not target and not native.kind(part)
    if target or is_missing then
      local directory, name = match(part, "^(.*)/([^/]*)$")
      if not name then directory, name = ".", part end
      if directory == "" then directory = "/" end
      visit(directory, name)
      if is_missing then return end
      each_link(byte(target) == 47 and target or tree.join(directory, target), visit, depth + 1)
    end
  until not ends
end

-- Watches the directories that these links are in, and notes what the way leads to. Before what is there is watched: that wants more of a
-- directory that is both.
function links.watch(self)
  for number in pairs(self._links or {}) do if not self._directories[number] and number ~= self._above then instance.unwatch(self, number) end end
  self._links = {}
  each_link(self._root, function(directory, name)
    local number = instance.watch(self, directory, CHANGES)
    if number then
      self._links[number] = self._links[number] or {}
      self._links[number][name] = true
    end
  end, 0)
  self._identity = select(2, native.kind(self._root))
end

-- Whether an event is about one of them.
function links.concern(self, event)
  local names = event.name and self._links[event.watch]
  return names and names[event.name]
end

return links
