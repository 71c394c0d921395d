-- runloop.fs.tree: the paths that a watcher knows, and the directories that the kernel watches for it.
--
-- `_known` maps a path to "directory" or "file". `_inside` maps a directory to the paths in it, with their count at
-- index 1. `_directories` maps watch numbers to paths, and `_numbers` maps paths to watch numbers.
-- Costs if removed: without `_inside`, each removed directory would search all known paths; a large tree then took a
-- minute.

local match = string.match
local type, pairs, ipairs = type, pairs, ipairs

local tree = {}

function tree.clear(self)
  self._known, self._inside, self._directories, self._numbers, self._unseen = {}, {}, {}, {}, {}
end

function tree.join(directory, name) return directory == "/" and "/" .. name or directory .. "/" .. name end

-- Records the kind of the item at a path; nil: there is no item.
function tree.know(self, path, kind)
  local known = self._known
  if (known[path] == nil) ~= (kind == nil) then
    local directory = match(path, "^(.*)/[^/]*$") or ""
    local all = self._inside[directory]
    if kind then
      if not all then
        all = { 0 }
        self._inside[directory] = all
      end
      all[path], all[1] = true, all[1] + 1
    else
      all[path], all[1] = nil, all[1] - 1
      if all[1] == 0 then self._inside[directory] = nil end
    end
  end
  known[path] = kind
end

-- Returns all known paths below a directory. A directory comes before its contents.
function tree.below(self, directory)
  local list, place = {}, 0
  while directory do
    for path in pairs(self._inside[directory] or {}) do if type(path) == "string" then list[#list + 1] = path end end
    place = place + 1
    directory = list[place]
  end
  return list
end

-- Assigns a watch to a directory; nil ends the assignment. A directory has one watch.
function tree.assign(self, number, path)
  local before = self._directories[number]
  if before and self._numbers[before] == number then self._numbers[before] = nil end
  local other = path and self._numbers[path]
  if other then self._directories[other] = nil end
  self._directories[number] = path
  if path then self._numbers[path] = number end
end

-- Gives the watches of moved directories their new paths. If an old path was marked as still to be listed, marks the
-- new path instead. `list` has the old paths, which begin with `from`.
function tree.carry(self, list, from, to)
  local numbers, unseen = {}, {}
  for _, path in ipairs(list) do
    local number, now = self._numbers[path], to .. path:sub(#from + 1)
    if number then numbers[number] = now end
    if self._unseen[path] then
      self._unseen[path] = nil
      unseen[#unseen + 1] = now
    end
  end
  for number in pairs(numbers) do tree.assign(self, number, nil) end
  for number, path in pairs(numbers) do tree.assign(self, number, path) end
  for _, path in ipairs(unseen) do self._unseen[path] = true end
end

return tree
