-- runloop.fs.links: the symbolic links on the way to a watched path. If one of them is replaced, such as a link to the
-- newest version of something, the path leads elsewhere.

local native = ...
local instance = require "runloop.fs.instance"
local tree = require "runloop.fs.tree"
local pairs, select = pairs, select
local match, sub, find, byte = string.match, string.sub, string.find, string.byte

local links = {}

-- The flags of inotify(7): all events that change which file a name stands for. The nearest existing directory above a
-- missing one is watched for the same events.
local CHANGES = 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
-- The number of links that the kernel follows.
local MOST = 40

-- Calls a function with the directory and the name of each link on the way, including links that other links lead to.
-- Then does the same for the first name that does not exist.
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

-- Watches the directories of these links, and records where the path leads. Call this before the root is watched: the
-- root may be one of these directories, and its own watch requests more events.
function links.watch(self)
  for number in pairs(self._links or {}) do
    if not self._directories[number] and number ~= self._above then instance.unwatch(self, number) end
  end
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

-- Returns whether an event concerns one of the links.
function links.concern(self, event)
  local names = event.name and self._links[event.watch]
  return names and names[event.name]
end

return links
