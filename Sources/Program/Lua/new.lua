-- runloop.new: `rlhost new` makes the first files of a project.

local native = ...
local rl = require "runloop"
local fs = require "runloop.fs"
local json = require "runloop.json"
local misuse = require "runloop.misuse"
local shown = require "runloop.text".shown

local USAGE = [[
usage: rlhost new tool|service|web|test NAME    begin a project: a directory NAME with a script, its tests and more
       rlhost new editor [DIR]                  set up a Lua editor: write DIR/.luarc.json, which names the annotations
NAME has small letters, digits, '_' and '-', and begins with a letter. Existing files are not changed.
Without DIR, the file is in the current directory. If it exists, only missing settings are added, and the rest stays
unchanged; if they cannot be added, the file is not changed, and the lines to add are printed.
exit status: 0 all went well, 1 NAME exists, or a file cannot be read, written or completed, 64 wrong use
]]

local new = {}
-- The keys are the first words of commands; the values are functions that get the other words.
local kinds = {}

-- Called after a failure: removes the files that were made.
local on_failure

local function fail(status, text, ...)
  if on_failure then on_failure() end
  io.stderr:write("rlhost: new: ", shown(text:format(...)), "\n")
  os.exit(status)
end

local function refuse_option(word)
  local near = misuse.nearest(word, { ["--help"] = true })
  fail(64, "unknown option '%s'%s", word,
    near and (" (did you mean '%s'?)"):format(near) or "; see 'rlhost new --help'")
end

local function write(path, text)
  local written, problem = fs.write(path, text)
  if not written then fail(1, "%s", problem) end
end

-- The editor ----------------------------------------------------------------------------------------------------------

-- Writes the annotations that are inside the program. Returns their directory.
local function unpack_annotations()
  local home = os.getenv "HOME"
  local data = os.getenv "XDG_DATA_HOME"
  if not data or data:sub(1, 1) ~= "/" then data = home and home .. "/.local/share" end
  if not data then fail(1, "there is no directory for the annotations: set HOME or XDG_DATA_HOME") end
  local library = ("%s/rlhost/%s/lua/library"):format(data, rl.version)
  local made, problem = fs.make_directory(library, { parents = true })
  if not made then fail(1, "%s", problem) end
  for text in ("\n" .. native.reference()):gsub("\n(%-%-%-@meta )", "\n\0%1"):gmatch "%z([^%z]+)" do
    local path = ("%s/%s.lua"):format(library, text:match "^%-%-%-@meta (%S+)":gsub("%.", "-"))
    if fs.read(path) ~= text then write(path, text) end
  end
  return library
end

-- Returns the text of the setting that names the directory of the annotations, and the directory: the one next to the
-- program, or else one in the user's data directory.
local function find_library()
  local program = fs.read_link "/proc/self/exe" or ""
  local library = (program:match "^(.*)/[^/]*/[^/]*$" or "") .. "/share/rlhost/lua/library"
  if not fs.stat(library .. "/runloop.lua") then library = unpack_annotations() end
  local is_text, text = pcall(json.encode, library)
  if not is_text then fail(1, "JSON cannot contain the path %s, which is not UTF-8", library) end
  return ('  "workspace.library": [%s]'):format(text), library
end

-- Returns the value of a setting. The file may have the setting under its full name, or in nested tables.
local function setting(settings, name)
  for _, start in ipairs { name, "Lua." .. name } do
    if settings[start] ~= nil then return settings[start] end
    local value = settings
    for word in start:gmatch "[^.]+" do value = type(value) == "table" and value[word] or nil end
    if value ~= nil then return value end
  end
end

local function has(list, library)
  for _, path in pairs(type(list) == "table" and list or { list }) do
    if type(path) == "string" and path:gsub("/+$", "") == library then return true end
  end
  return false
end

function kinds.editor(directory, ...)
  if ... then fail(64, "editor takes one directory, not '%s' too", (...)) end
  directory = directory or "."
  if directory:sub(1, 1) == "-" then refuse_option(directory) end
  local path = (directory == "." and "" or directory:gsub("/*$", "") .. "/") .. ".luarc.json"
  local line, library = find_library()
  local lines = { line }
  local text, problem, code = fs.read(path)
  if not text then
    if code ~= "ENOENT" or not fs.stat(directory) then fail(1, "%s", problem) end
    table.insert(lines, 1, '  "runtime.version": "Lua 5.4"')
    write(path, ("{\n%s\n}\n"):format(table.concat(lines, ",\n")))
    return print(path)
  end
  local settings = json.decode(text)
  local known = type(settings) == "table" and text:find "^%s*{" and setting(settings, "workspace.library")
  if known and has(known, library) then return end
  local is_readable = type(settings) == "table" and text:find "^%s*{"
  -- A file with comments cannot be parsed as JSON, so search its text for the settings.
  local has_version = text:find("runtime.version", 1, true) or text:find '"runtime"'
  if is_readable then has_version = setting(settings, "runtime.version") ~= nil end
  if not has_version then table.insert(lines, 1, '  "runtime.version": "Lua 5.4"') end
  if known or not is_readable then
    print(table.concat(lines, ",\n"))
    fail(1, "%s %s; add the line%s above to it", path,
      known and "has another workspace.library" or "cannot be read as JSON", #lines > 1 and "s" or "")
  end
  local start, rest = text:match "^(%s*{)(.*)$"
  -- The first line ending is the one that the file already uses, if any.
  local ending = next(settings) ~= nil and "," or rest:find "^%s*\n" and "" or "\n"
  write(path, ("%s\n%s%s%s"):format(start, table.concat(lines, ",\n"), ending, rest))
  print(path)
end

-- Projects ------------------------------------------------------------------------------------------------------------

local function make_project(kind, name, ...)
  if not name then fail(64, "%s needs a name: rlhost new %s NAME", kind, kind) end
  if ... then fail(64, "%s takes one name, not '%s' too", kind, (...)) end
  if not name:find "^%l[%l%d_-]*$" then
    fail(64, "a name has small letters, digits, '_' and '-', and begins with a letter, not as '%s'", name)
  end
  local line = find_library()
  local made, problem = fs.make_directory(name)
  if not made then fail(1, "%s", problem) end
  -- If this fails, remove the new directory: an incomplete project would make the next attempt fail.
  on_failure = function() fs.remove(name, { recursive = true }) end
  made, problem = fs.make_directory(name .. "/tests")
  if not made then fail(1, "%s", problem) end
  local identifier = name:gsub("-", "_")
  -- A keyword cannot be a variable's name, and the templates have these two variables.
  if not load("local " .. identifier) or identifier == "rl" or identifier == "t" then
    identifier = "my_" .. identifier
  end
  local words = { NAME = name, IDENT = identifier }
  local files = { [".luarc.json"] = ('{\n  "runtime.version": "Lua 5.4",\n%s\n}\n'):format(line) }
  for path, text in pairs(require "runloop.new.templates"[kind]) do
    files[path:gsub("NAME", words)] = text:gsub("%u+", words)
  end
  local paths = {}
  for path in pairs(files) do paths[#paths + 1] = path end
  table.sort(paths)
  for _, path in ipairs(paths) do
    write(name .. "/" .. path, files[path])
    print(name .. "/" .. path)
  end
end

for _, kind in ipairs { "tool", "service", "web", "test" } do
  kinds[kind] = function(...) make_project(kind, ...) end
end

-- The command ---------------------------------------------------------------------------------------------------------

function new.run(kind, ...)
  if kind == "-h" or kind == "--help" then
    io.write(USAGE)
    os.exit(0)
  end
  if not kind then fail(64, "it needs a word: rlhost new tool|service|web|test NAME, or rlhost new editor [DIR]") end
  if kind:find "^%-." then refuse_option(kind) end
  if not kinds[kind] then fail(64, "there is nothing called '%s'%s", kind, misuse.hint(kind, kinds)) end
  kinds[kind](...)
  os.exit(0)
end

return new
