-- runloop.fs.difference: turns the entries of a batch into the changes that a watcher reports.
--
-- The reported changes lead, step by step, from the old state to the new one. So each step is tried on a copy of the
-- old state. A rename is reported where possible, under the name that the item has at that step; all other differences
-- are reported as created, changed and removed.

local tree = require "runloop.fs.tree"
local pairs, ipairs, sort = pairs, ipairs, table.sort
local match, sub, byte = string.match, string.sub, string.byte

-- Returns the touched paths with the origin of each, and the path of each origin.
local function copy(order)
  local there = { _known = {}, _inside = {} }
  local paths = {}
  for _, entry in ipairs(order) do
    if entry.before then
      tree.know(there, entry.path, entry.path)
      paths[entry.path] = entry.path
    end
  end
  return there, paths
end

local function forget(there, paths, path)
  paths[there._known[path]] = nil
  tree.know(there, path, nil)
end

-- Renames an item in the copy. Removes everything at `to` and below it, and calls `gives_way` with the paths below.
local function rename(there, paths, from, to, gives_way)
  local list, origins = tree.below(there, from), {}
  list[#list + 1] = from
  for _, path in ipairs(list) do
    origins[path] = there._known[path]
    tree.know(there, path, nil)
  end
  local below = tree.below(there, to)
  for index = #below, 1, -1 do
    gives_way(below[index])
    forget(there, paths, below[index])
  end
  if there._known[to] then forget(there, paths, to) end
  for path, origin in pairs(origins) do
    local now = to .. sub(path, #from + 1)
    tree.know(there, now, origin)
    paths[origin] = now
  end
end

local function above(touched, entry) return touched[match(entry.path, "^(.*)/[^/]*$") or ""] end

-- Returns the entries in the order of their events, but each entry after the directories that contain it: such a
-- directory may have taken the place of another item.
local function in_order(order, touched, known)
  sort(order, function(a, b) return a.at < b.at end)
  local list, is_taken = {}, {}
  local function take(entry)
    if is_taken[entry] then return end
    is_taken[entry] = true
    local directory = known[entry.path] and above(touched, entry)
    while directory do
      if directory.before ~= known[directory.path] or directory.has_moved and directory.origin then take(directory) end
      directory = above(touched, directory)
    end
    list[#list + 1] = entry
  end
  for _, entry in ipairs(order) do take(entry) end
  return list
end

-- Returns the entries that are renames, and the state after these renames alone.
local function find_renames(order, known)
  local there, paths = copy(order)
  local is_rename, goes_on = {}, {}
  for _, entry in ipairs(order) do
    local from = entry.has_moved and known[entry.path] and byte(entry.path) ~= 0 and paths[entry.origin]
    -- If another item has the old name by now, the names cannot distinguish the two items.
    if from and from ~= entry.path and not known[from] then
      rename(there, paths, from, entry.path, function() end)
      is_rename[entry], goes_on[entry.origin] = true, true
    end
  end
  return is_rename, goes_on, paths
end

-- Returns a function that calls `tell` with each change: kind, path, whether it is a directory, the old path, message.
return function(order, touched, known, tell)
  order = in_order(order, touched, known)
  local is_rename, goes_on, ends = find_renames(order, known)
  local there, paths = copy(order)
  local function was_directory(path) return touched[there._known[path]].before == "directory" end
  local function remove(path) tell("removed", path, was_directory(path)) end

  -- Returns whether a later change reports that something inside the path moves elsewhere.
  local function is_needed(path)
    for _, below in ipairs(was_directory(path) and tree.below(there, path) or {}) do
      if goes_on[there._known[below]] then return true end
    end
  end

  for _, entry in ipairs(order) do
    local path, place = entry.path, paths[entry.path]
    local kind = byte(path) ~= 0 and known[path]
    local other = there._known[path]
    if not kind then
      if place and not known[ends[path] or place] and not is_needed(place) then
        remove(place)
        forget(there, paths, place)
      end
    elseif is_rename[entry] then
      local from = paths[entry.origin]
      rename(there, paths, from, path, remove)
      goes_on[entry.origin] = nil
      tell("renamed", path, entry.is_directory, from, entry.message)
      if entry.wrote then tell("changed", path, entry.is_directory) end
    elseif not other then
      tell("created", path, entry.is_directory, nil, entry.message)
    else
      -- A directory that has moved only together with the directory around it does not count as another item: the
      -- changes of its contents are reported.
      local is_another = other ~= entry.origin
        and (entry.has_moved or not entry.origin or kind ~= "directory" or not was_directory(path))
      if is_another or entry.wrote or entry.message then
        tell("changed", path, entry.is_directory, nil, entry.message)
      end
    end
  end
  for path in pairs(there._known) do if not known[path] then remove(path) end end
end
