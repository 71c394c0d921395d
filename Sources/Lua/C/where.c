// Finds the positions of running and waiting Lua code.
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

// The key under which an object of the host has its text.
static char subject;

int cl_set_subject(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  lua_rawsetp(L, 1, &subject);
  return 0;
}

// Returns the text of the object that is the function's first local variable, or NULL.
static const char *subject_at(lua_State *thread, lua_Debug *debug, size_t *length) {
  if (!lua_getlocal(thread, debug, 1)) return NULL;
  const char *text = NULL;
  if (lua_istable(thread, -1)) {
    if (lua_rawgetp(thread, -1, &subject) == LUA_TSTRING) text = lua_tolstring(thread, -1, length);
    lua_pop(thread, 1);
  }
  lua_pop(thread, 1);
  return text;
}

const char *cl_subject(lua_State *thread, size_t *length) {
  lua_Debug debug;
  if (!lua_checkstack(thread, 4)) return NULL;
  int first = 0, beyond = 1;
  while (lua_getstack(thread, beyond, &debug)) first = beyond, beyond *= 2;
  while (beyond - first > 1) {
    int middle = first + (beyond - first) / 2;
    if (lua_getstack(thread, middle, &debug)) first = middle;
    else beyond = middle;
  }
  // Search from the outermost frame inwards, and stop at the first frame of the script: an object whose method the
  // script calls is not the subject.
  for (int level = first; level >= 0 && lua_getstack(thread, level, &debug); level--) {
    lua_getinfo(thread, "S", &debug);
    if (!cl_is_hosts(&debug)) return NULL;
    const char *text = subject_at(thread, &debug, length);
    if (text) return text;
  }
  return NULL;
}

lua_State *cl_innermost(cl_state *state) {
  // Code outside of tasks runs in the main coroutine.
  return state->resumption ? state->resumption->coroutine : state->running ? state->running : state->main;
}
