// Where Lua code is.
#include "private.h"

#include <string.h>

enum { LEVELS = 1000 };

int cl_place(lua_State *thread, char *source) {
  lua_Debug debug;
  for (int level = 0; level < LEVELS && lua_getstack(thread, level, &debug); level++) {
    lua_getinfo(thread, "Sl", &debug);
    if (debug.currentline <= 0 || cl_is_hosts(&debug)) continue;
    memcpy(source, debug.short_src, sizeof debug.short_src);
    return debug.currentline;
  }
  return 0;
}

void cl_push_position(lua_State *L) {
  lua_Debug debug;
  for (int level = 1; level < 16 && lua_getstack(L, level, &debug); level++) {
    if (!cl_is_scripts(L, &debug)) continue;
    lua_pushfstring(L, "%s:%d: ", debug.short_src, debug.currentline);
    return;
  }
  lua_pushliteral(L, "");
}

lua_State *cl_innermost(cl_state *state) {
  // The main coroutine is for code that runs outside tasks.
  return state->resumption ? state->resumption->coroutine : state->running ? state->running : state->main;
}
