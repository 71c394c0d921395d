-- runloop.watched: reports, in a program of `rlhost --watch`, which Lua files it reads.

local native = ...
local package, loadfile, dofile = package, loadfile, dofile
local type, gsub, gmatch, sub = type, string.gsub, string.gmatch, string.sub
local searcher = package.searchers[2]

package.searchers[2] = function(name)
  local loader, path = searcher(name)
  if type(loader) == "function" then
    native.note(path)
  elseif type(name) == "string" then
    -- No file was found, but the module may be created later at a place that is searched: below the script, not in the
    -- system.
    local place = gsub(gsub(name, "%.", "/"), "%%", "%%%%")
    for template in gmatch(type(package.path) == "string" and package.path or "", "[^;]+") do
      if sub(template, 1, 1) ~= "/" then native.note((gsub(template, "%?", place))) end
    end
  end
  return loader, path
end

function _G.loadfile(path, ...)
  if type(path) == "string" then native.note(path) end
  return loadfile(path, ...)
end

function _G.dofile(path)
  if type(path) == "string" then native.note(path) end
  return dofile(path)
end
