// Lua 5.4's own headers, as pkg-config finds them.
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
