-- runloop.http.native: the functions that are C.

local library, internals = ...
local native = library.open()
native.curl = library.curl
native.start, native.cancel, native.site = library.start, library.cancel, library.site
native.label, native.begins, native.ends = library.label, library.begins, library.ends
native.internals = internals
return native
