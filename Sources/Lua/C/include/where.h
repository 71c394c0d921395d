// The position of Lua code, and the object for which the code runs. No function here raises.
#pragma once

#include <lua.h>

struct cl_state;
/// Returns the script's innermost line in a coroutine, or 0 if there is none. Writes the line's source, of LUA_IDSIZE
/// bytes at most.
int cl_place(lua_State *thread, char *source);
/// Returns the name that messages use for the object that the host's Lua part serves in this coroutine, or NULL. Valid
/// until the coroutine continues.
const char *cl_subject(lua_State *thread, size_t *length);
/// Returns the running coroutine; if no code runs, the coroutine that would run code. Safe in a signal handler.
lua_State *cl_innermost(struct cl_state *state);
/// Returns the name of the C function, or the kind of metamethod, that keeps a coroutine from waiting, or NULL if none
/// is found. The text is valid until the next call on the same thread.
const char *cl_blocker(lua_State *L);
