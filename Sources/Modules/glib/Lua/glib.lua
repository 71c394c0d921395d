-- runloop.glib: serves GLib's default main context on the run loop of this thread.

local native = ...
local misuse, objects = require "runloop.misuse", require "runloop.objects"
local bridges = require "runloop.bridges"
local glib = native.open(misuse)
local turn = glib.turn

local source, fd, code = glib.serve()
if not source then
  local problem = code == "ENOENT" and "GLib is not installed (apt install libglib2.0-0)" or fd:gsub("^%u+: ", "")
  error("module 'runloop.glib': " .. problem, 0)
end

local Bridge = bridges.class("glib", function() glib.leave(source) end)

function Bridge:set_keeps_alive(on)
  if on ~= nil and type(on) ~= "boolean" then
    misuse.wrong("bridge:set_keeps_alive", "argument #1", "a boolean or nil", on)
  end
  self._port:set_keeps_alive(on)
end
objects.methods(Bridge, "bridge")

local port = bridges.port { fd = fd, name = "glib", source = source, callback = function() turn(source) end }
return setmetatable({ _port = port }, Bridge)
