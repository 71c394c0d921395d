-- runloop.fs: files without blocking the loop. runloop.fs.watch watches directories for changes.

local native = ...
local misuse = require "runloop.misuse"
local watching = require "runloop.fs.watch"
local lock = require "runloop.fs.lock"

local fs = { watch = watching.watch, watcher = watching.watcher }
local raise, describe = misuse.raise, misuse.describe
local type, ipairs = type, ipairs
local match, find, gsub = string.match, string.find, string.gsub
local file = native.file

local MAX = 1 << 30

local function path_of(what, value, index)
  if type(value) ~= "string" then
    raise("%s: argument #%d must be a path, got %s", what, index or 1, describe(value))
  end
  if value == "" then raise("%s: argument #%d must be a path, got an empty one", what, index or 1) end
  if find(value, "\0", 1, true) then raise("%s: argument #%d has a NUL in it", what, index or 1) end
  return value
end

local function join(directory, name) return find(directory, "/$") and directory .. name or directory .. "/" .. name end

function fs.read(path, max)
  path_of("fs.read", path)
  if max == nil then max = MAX end
  misuse.argument(max, "count", "fs.read", 2)
  return file("read", path, max)
end

function fs.write(path, data, options)
  path_of("fs.write", path)
  misuse.argument(data, "string", "fs.write", 2)
  options = misuse.options(options, { append = "boolean", mode = "count", sync = "boolean" }, "fs.write", 3)
  if options.mode and options.mode > 4095 then
    raise("fs.write: mode must be from 0 to 0o7777, got %d", options.mode)
  end
  return file("write", path, data, options.mode or 0, options.append or false, options.sync or false)
end

function fs.stat(path, options)
  options = misuse.options(options, { follow = "boolean" }, "fs.stat", 2)
  return file(options.follow == false and "link_stat" or "stat", path_of("fs.stat", path))
end

function fs.lock(path, options)
  path_of("fs.lock", path)
  return lock(path, options)
end

-- Walks a tree depth first; a directory comes before its contents. Links are not followed, so the walk ends. A
-- directory that cannot be read raises an error.
function fs.walk(path)
  path_of("fs.walk", path)
  local stack = {}
  local function push(directory)
    local entries, message = fs.list(directory)
    if not entries then error("fs.walk: " .. message, 0) end
    for index = #entries, 1, -1 do stack[#stack + 1] = { join(directory, entries[index].name), entries[index].kind } end
  end
  local pending = path
  return function()
    if pending then
      local directory = pending
      pending = nil
      push(directory)
    end
    local entry = table.remove(stack)
    if not entry then return nil end
    if entry[2] == "directory" then pending = entry[1] end
    return entry[1], entry[2]
  end
end

function fs.make_directory(path, options)
  path_of("fs.make_directory", path)
  options = misuse.options(options, { parents = "boolean", mode = "count" }, "fs.make_directory", 2)
  local mode = options.mode or 511
  local made, message, code = file("make_directory", path, mode)
  if made or not options.parents then return made, message, code end
  if code == "EEXIST" then
    local there = fs.stat(path)
    if there and there.kind == "directory" then return true end
  elseif code == "ENOENT" then
    local parent = match(gsub(path, "/+$", ""), "^(.*[^/])/+[^/]+$")
    if parent then
      local fine, why, name = fs.make_directory(parent, { parents = true, mode = options.mode })
      if not fine then return nil, why, name end
      made, message, code = file("make_directory", path, mode)
      -- Another process may have made the directory first.
      if code == "EEXIST" then return true end
    end
  end
  return made, message, code
end

function fs.remove(path, options)
  path_of("fs.remove", path)
  options = misuse.options(options, { recursive = "boolean" }, "fs.remove", 2)
  local done, message, code = file("remove", path)
  if done or not options.recursive then return done, message, code end
  if code ~= "ENOTEMPTY" and code ~= "EEXIST" then return nil, message, code end
  local entries, why, name = fs.list(path)
  if not entries then return nil, why, name end
  for _, entry in ipairs(entries) do
    local fine, wrong, error_name = fs.remove(join(path, entry.name), options)
    -- Another process may be removing the entry, too.
    if not fine and error_name ~= "ENOENT" then return nil, wrong, error_name end
  end
  return file("remove", path)
end

for _, name in ipairs { "rename", "link", "symbolic_link", "copy" } do
  local what = "fs." .. name
  fs[name] = function(from, to) return file(name, path_of(what, from), path_of(what, to, 2)) end
end
for _, name in ipairs { "list", "read_link", "real_path" } do
  fs[name] = function(path) return file(name, path_of("fs." .. name, path)) end
end
function fs.temporary_directory(prefix)
  if prefix == nil then prefix = "rlhost" end
  if type(prefix) ~= "string" or find(prefix, "[/%z]") or prefix == "" then
    raise("fs.temporary_directory: argument #1 must be a name without '/', got %s", describe(prefix))
  end
  return file("temporary_directory", prefix)
end

return fs
