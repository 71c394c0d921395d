-- runloop.fs.changes: what a watcher leaves out, and what the changes that it has seen come to.

local misuse = require "runloop.misuse"
local raise, describe = misuse.raise, misuse.describe
local type, ipairs = type, ipairs
local match, find, gsub = string.match, string.find, string.gsub

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
  for _, entry in ipairs(order) do
    local path, after = entry.path, known[entry.path] ~= nil
    local kind = entry.kind
    if not kind then
      if after and entry.before then
        if entry.wrote or entry.replaced and entry.origin ~= path then kind = "changed" end
      elseif after then
        kind = "created"
      elseif entry.before and not consumed[path] then
        kind = "removed"
      end
    end
    if kind then
      changes[#changes + 1] = { kind = kind, path = self._shown(path), from = kind == "renamed" and self._shown(entry.origin) or nil,
        is_directory = entry.is_directory, message = entry.message }
    end
  end
  return changes
end

return M
