-- runloop.zlib.pieces: gzip for the pieces of HTTP answers.

local native = ...
return native.open(require "runloop.misuse")
