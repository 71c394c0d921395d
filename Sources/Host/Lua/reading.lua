-- runloop.reading: reports which Lua files this state reads, for programs that run again when one of them changes.

local package, loadfile, dofile = package, loadfile, dofile
local pcall, error = pcall, error
local type, gsub, gmatch, sub = type, string.gsub, string.gmatch, string.sub
local searcher, searchpath = package.searchers[2], package.searchpath

-- Calls `note` with the path of each file from now on.
return function(note)
  package.searchers[2] = function(name)
    local is_fine, loader, path = pcall(searcher, name)
    local templates = type(name) == "string" and type(package.path) == "string" and package.path or ""
    if type(loader) == "function" then
      note(path)
    elseif not is_fine then
      -- The module's file does not compile. Note it all the same, since the user may correct it.
      local found = templates ~= "" and searchpath(name, templates)
      if found then note(found) end
      error(loader, 0)
    elseif templates ~= "" then
      -- No file was found, but the user may create the module later. Note the paths below the script's directory, but
      -- not those of the system.
      local place = gsub(gsub(name, "%.", "/"), "%%", "%%%%")
      for template in gmatch(templates, "[^;]+") do
        if sub(template, 1, 1) ~= "/" then note((gsub(template, "%?", place))) end
      end
    end
    return loader, path
  end

  function _G.loadfile(path, ...)
    if type(path) == "string" then note(path) end
    return loadfile(path, ...)
  end

  function _G.dofile(path)
    if type(path) == "string" then note(path) end
    return dofile(path)
  end
end
