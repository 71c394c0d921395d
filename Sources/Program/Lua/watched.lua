-- runloop.watched: reports, in a program of `rlhost --watch`, which Lua files it reads.

local native = ...
require "runloop.reading"(native.note)
