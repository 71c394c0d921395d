-- runloop.http.native: the functions that are C.

local library, internals = ...
local native = library.open()
native.curl = library.curl
native.start, native.cancel, native.site, native.is_ending = library.start, library.cancel, library.site, library.is_ending
native.label, native.begins, native.ends = library.label, library.begins, library.ends
native.belongs = library.belongs
native.internals = internals
return native
