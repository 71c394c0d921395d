// CLuaHTTP: the native half of `runloop.http`, C functions for Lua over HTTP and libcurl. The functions raise errors,
// so that only Lua may call them, not Swift.
#pragma once

#include <lua.h>

/// Pushes the table of functions for messages, frames, texts and files. A lua_CFunction.
int http_open_native(lua_State *L);
/// Loads libcurl and pushes the table of functions for it; or nil and the reason. A lua_CFunction.
int http_open_curl(lua_State *L);
