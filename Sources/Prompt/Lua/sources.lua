-- Shows the source of functions, and loads modules again while the program runs. The arguments of the chunk are: the
-- texts of entries, by chunk name; a function that removes control characters; a function that returns the text of one
-- of our parts; and the loaded parts, by name.

local entries, harmless, text_of_part, loaded_parts = ...
local type, next, pcall = type, next, pcall
local rawget, rawset = rawget, rawset
local tostring, setmetatable = tostring, setmetatable
local getinfo, getupvalue, upvalueid, upvaluejoin = debug.getinfo, debug.getupvalue, debug.upvalueid, debug.upvaluejoin
local getmetatable, open, loadfile, package = debug.getmetatable, io.open, loadfile, package
local sub, find, match = string.sub, string.find, string.match
local format, concat = string.format, table.concat

local sources = {}

-- Source --------------------------------------------------------------------------------------------------------------

-- Built-in code has no file, and all built-in code has the same chunk name. So the module of a function is found by
-- searching the loaded modules, and these parts of the library itself, for a function with its name in its line.
local PARTS = { "prelude", "notifications", "channels", "pool", "shutdown", "timing" }

local function built_in(info, name)
  local wanted = name and "^function [%w_]+[.:]" .. match(name, "([%w_]+)$") .. "%("
  local function look(module)
    local text, number = wanted and text_of_part(module) or "", 0
    for line in text:gmatch "(.-)\n" do
      number = number + 1
      if number == info.linedefined then return find(line, wanted) and text end
    end
  end
  for i = 1, #PARTS do
    local text = look("runloop." .. PARTS[i])
    if text then return text, "runloop" end
  end
  for _, loaded in next, { package.loaded, loaded_parts } do
    for module in next, loaded do
      local text = type(module) == "string" and sub(module, 1, 8) == "runloop." and look(module)
      if text then return text, module end
    end
  end
  return nil, format("it is built in%s", name and ": " .. name .. "? says what it does" or "")
end

-- Returns the text that contains a function, and its origin; or nil and the reason.
local function text_of(info, name)
  local source = info.source
  if source == "=[rlhost]" then return built_in(info, name) end
  if sub(source, 1, 1) == "@" then
    local file, message = open(sub(source, 2), "r")
    if not file then return nil, "its source is not available: " .. message end
    local text = file:read "a"
    file:close()
    return text, info.short_src
  elseif sub(source, 1, 1) == "=" then
    local text = entries[sub(source, 2)]
    return text, text and info.short_src or "its source is not available: the host keeps no text of " .. info.short_src
  end
  return source, info.short_src
end

--- Returns the source of a function, after its place; or nil and the reason. `name` is set for one of our functions.
function sources.text(fn, name)
  local objects = loaded_parts["runloop.objects"]
  fn = type(objects) == "table" and objects.originals[fn] or fn
  local info = getinfo(fn, "S")
  local _, inner = getupvalue(fn, 1)
  -- A function of the library, called through a C function.
  if info.what == "C" and name and type(inner) == "function" then info = getinfo(inner, "S") end
  if info.what == "C" then return nil, "it is a function of C: there is no source here" end
  local text, place = text_of(info, name)
  if not text then return nil, place end
  local lines, number = {}, 0
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    if number >= info.linedefined and (number <= info.lastlinedefined or info.lastlinedefined <= 0) then
      lines[#lines + 1] = harmless(line)
    end
  end
  while lines[#lines] == "" do lines[#lines] = nil end
  if #lines == 0 then return nil, "its source is not in " .. info.short_src .. " any more" end
  return format("-- %s:%d\n%s", place, info.linedefined > 0 and info.linedefined or 1, concat(lines, "\n"))
end

-- Loading again -------------------------------------------------------------------------------------------------------

-- The result of loading a module again: maps each old function to the new function that replaces it, and each variable
-- of the new functions to an old variable.
local Change = {}
Change.__index = Change

function Change:note(new, old)
  if self.seen[new] then return end
  self.seen[new] = true
  self.functions[#self.functions + 1] = new
  local known = {}
  for i = 1, 255 do
    local name, value = getupvalue(old or new, i)
    if not name then break end
    known[name] = { i, value }
  end
  for i = 1, 255 do
    local name, value = getupvalue(new, i)
    if not name then break end
    local before = old and known[name]
    if type(value) == "function" then
      -- A local function of the module.
      local other = before and before[2]
      if getinfo(value, "S").what ~= "C" then self:note(value, type(other) == "function" and other or nil) end
    elseif before and name ~= "_ENV" and type(before[2]) ~= "function" then
      self.variables[upvalueid(new, i)] = { old, before[1] }
    end
  end
end

function Change:merge(old, new)
  if self.seen[new] or old == new then return end
  self.seen[new] = true
  for key, value in next, new do
    local before = rawget(old, key)
    if type(value) == "function" then
      if type(before) == "function" then self.replaced = self.replaced + 1 else self.added = self.added + 1 end
      self:note(value, type(before) == "function" and before or nil)
      rawset(old, key, value)
    elseif before == nil then
      rawset(old, key, value)
    elseif type(value) == "table" and type(before) == "table" then
      self:merge(before, value)
    end
  end
  local meta, new_meta = getmetatable(old), getmetatable(new)
  if type(meta) == "table" and type(new_meta) == "table" then self:merge(meta, new_meta) end
end

-- Functions that share a variable continue to share it, including new functions.
function Change:join()
  local joins = {}
  for _, fn in next, self.functions do
    for i = 1, 255 do
      if not getupvalue(fn, i) then break end
      local variable = self.variables[upvalueid(fn, i)]
      if variable then joins[#joins + 1] = { fn, i, variable[1], variable[2] } end
    end
  end
  for _, join in next, joins do upvaluejoin(join[1], join[2], join[3], join[4]) end
end

--- Runs a module's file again, and replaces the functions in the module's table, which all users of the module share.
--- Variables, and fields that are not functions, keep their values. Returns the changes; or nil and the reason why
--- nothing has changed.
function sources.reload(name)
  local old = package.loaded[name]
  if old == nil then return nil, format("no module '%s' is loaded", name) end
  local path = package.searchpath(name, package.path)
  if not path then return nil, format("there is no file of Lua for the module '%s'; nothing has changed", name) end
  local chunk, message = loadfile(path)
  if not chunk then return nil, message .. "; nothing has changed" end
  local fine, new = pcall(chunk, name, path)
  if not fine then return nil, harmless(tostring(new)) .. "; nothing has changed" end
  if type(old) ~= "table" or type(new) ~= "table" then
    package.loaded[name] = new == nil and true or new
    return format("%s is loaded again from %s; variables with its old value keep that", name, path)
  end
  local change = setmetatable({ seen = {}, functions = {}, variables = {}, replaced = 0, added = 0 }, Change)
  change:merge(old, new)
  change:join()
  return format("%s is loaded again from %s: %d function%s replaced, %d new; all other values are kept", name, path,
    change.replaced, change.replaced == 1 and "" or "s", change.added)
end

return sources
