-- runloop.http.native: the functions that are written in C.

local library, internals = ...
local native = library.open()
native.curl = library.curl
native.start, native.cancel, native.site = library.start, library.cancel, library.site
native.is_ending = library.is_ending
native.label, native.begins, native.ends = library.label, library.begins, library.ends
native.belongs = library.belongs
native.internals = internals
return native
