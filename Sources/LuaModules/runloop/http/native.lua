-- runloop.http.native: the functions that are C.

local library = ...
local native = library.open()
native.curl = library.curl
return native
