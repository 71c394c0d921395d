// The headers of Lua 5.4 itself, as pkg-config finds them.
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
