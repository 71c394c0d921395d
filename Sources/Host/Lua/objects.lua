-- runloop.objects: common code for objects of modules written in Lua: classes with checked methods, conditions, modes,
-- and creation sites.

local _, internals = ...
local misuse = require "runloop.misuse"
local type, next, ipairs, pcall = type, next, ipairs, pcall
local find = string.find

local objects = {}

-- Makes a condition for a module. Messages about waits show `name`, the function that the script has called, in place
-- of condition:wait. The names are those of WaitName.swift.
function objects.condition(name) return package.loaded.runloop.condition(misuse, name) end

-- Returns the creation site as objects describe it.
function objects.made_at()
  local here = misuse.place()
  return here and "made at " .. here or "made by the host"
end

-- Returns the modes that an option names as a list; "common" if the option is absent.
function objects.modes(modes, what)
  if modes == nil then return { "common" } end
  if type(modes) == "string" then return { modes } end
  local list = {}
  for index, mode in ipairs(modes) do
    if type(mode) ~= "string" then
      misuse.raise("%s: field 'modes' must be names of modes, got %s in it", what, misuse.describe(mode))
    end
    list[index] = mode
  end
  if #list == 0 then misuse.raise("%s: field 'modes' must name at least one mode, as \"common\" does", what) end
  return list
end

-- Returns the method of a value with this name, for a value of any kind; nil if it has none.
function objects.method(object, name)
  local found, method = pcall(function() return object[name] end)
  return found and type(method) == "function" and method or nil
end

-- The original methods of classes; the keys are the functions that replace them. Help shows the source of the original.
objects.originals = {}

-- Replaces the methods that a class has so far by functions that check `self` first; `kind` is the name of its objects
-- in messages. The check costs a call, so frequent methods check `self` themselves.
function objects.methods(class, kind)
  for name, fn in next, class do
    if type(fn) == "function" and not find(name, "^_") then
      local what = kind .. ":" .. name
      class[name] = function(self, ...)
        misuse.receiver(self, class, what)
        return fn(self, ...)
      end
      objects.originals[class[name]] = fn
    end
  end
end

-- Classes whose objects are tables, for the prompt's help. The keys are metatables; a value has the class's name in the
-- reference, and its methods.
objects.classes = {}

-- Makes a metatable a class. The class's methods are `methods`, or else the metatable's own fields. A call of a method
-- that does not exist raises an error that suggests an existing one.
function objects.class(name, metatable, methods)
  objects.classes[metatable] = { name = name, methods = methods or metatable }
  metatable.__index = metatable
  internals.on_missing(methods or metatable, metatable.__name)
  return metatable
end

return objects
