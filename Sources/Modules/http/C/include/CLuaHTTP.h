// CLuaHTTP: the native half of `runloop.http`. Functions of Lua's own kind over HTTP and libcurl: they raise, so Swift never calls
// them; Lua does.
#pragma once

#include <lua.h>

/// Pushes the table of functions about messages, frames, texts and files. A lua_CFunction.
int http_open_native(lua_State *L);
/// Pushes the table of functions over libcurl, which it loads; or nil and what is missing. A lua_CFunction.
int http_open_curl(lua_State *L);
