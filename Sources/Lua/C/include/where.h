// Where Lua code is, and for what it runs there. Nothing of this raises.
#pragma once

#include <lua.h>

struct cl_state;
/// The innermost line of a coroutine's that is the script's, and its source, in LUA_IDSIZE bytes; 0: there is none.
int cl_place(lua_State *thread, char *source);
/// What messages call the object for which the host's part runs that a coroutine is in, or NULL. Valid as long as the coroutine is
/// where it is.
const char *cl_subject(lua_State *thread, size_t *length);
/// The coroutine that runs, or would: for a signal handler, too.
lua_State *cl_innermost(struct cl_state *state);
/// Name of the C function, or the kind of metamethod, that keeps a coroutine from waiting, if one can be found. The text is
/// valid until the next call on the same thread.
const char *cl_blocker(lua_State *L);
