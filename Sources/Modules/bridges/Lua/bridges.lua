-- runloop.bridges: the common parts of bridges to the loops of libraries.

local native = ...
local rl = require "runloop"
local misuse, objects = require "runloop.misuse", require "runloop.objects"

local bridges = { label = native.label, start = native.start }

-- Requires the library of a bridge. The error for a missing library says how to install it.
function bridges.library(name)
  local is_there, library = pcall(require, name)
  if is_there then return library end
  local text = tostring(library)
  local reason = text:match "not allowed by the sandbox: [^\n]*"
    or not text:find(("module '%s' not found"):format(name), 1, true) and text:match "^[^\n]*"
    or ("%s is not installed (apt install lua-%s)"):format(name, name)
  error(("module 'runloop.%s': %s"):format(name, reason), 0)
end

-- Raises an error unless the first argument of a method is a function.
function bridges.expect_function(name, value)
  if type(value) ~= "function" then misuse.wrong("bridge:" .. name, "argument #1", "a function", value) end
end

-- Makes the class of a module's bridge, with the methods that all bridges have. `leave` returns the library to the
-- script.
function bridges.class(library, leave)
  local Bridge = objects.class("runloop." .. library .. ".Bridge",
    { __name = library .. " bridge", __stays = true, __item = "_port" })

  function Bridge:is_valid() return self._port:is_valid() end
  function Bridge:name() return library end

  function Bridge:invalidate()
    if not self:is_valid() then return end
    self._port:invalidate()
    leave(self)
    package.loaded["runloop." .. library] = nil
  end

  return Bridge
end

-- Makes the port of a bridge and adds it to the common modes. `plan` has the fields fd, name, callback and source.
-- `source` describes the library's loop.
function bridges.port(plan)
  local port = native.port(plan)
  rl.current():add(port, "common")
  return port
end

return bridges
