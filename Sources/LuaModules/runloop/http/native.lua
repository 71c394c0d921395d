-- runloop.http.native: the functions that are C.

local library = ...
local native = library.open()
native.curl = library.curl
native.task, native.site = library.task, library.site
native.label, native.begins, native.ends = library.label, library.begins, library.ends
return native
