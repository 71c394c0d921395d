// Which line of Lua code catches errors around what runs: an interruption is raised again where that goes on as before.
#include "private.h"

// Lua counts levels from the innermost each time: to look at all of a runaway recursion would take minutes.
enum { GUARD_LEVELS = 5000 };

int cl_is_catcher(lua_State *L, lua_Debug *debug) {
  lua_getinfo(L, "f", debug);
  lua_CFunction function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  lua_CFunction *catchers = cl_host_of(L)->catchers;
  return function && (function == catchers[0] || function == catchers[1] || function == catchers[2]);
}

// The innermost line of Lua code that calls a catching function, from a level of a coroutine outwards. Returns 0 without one,
// and -1 when it is too far away.
int cl_find_guard(lua_State *L, int level, const char **source, int *line) {
  cl_host *host = cl_host_of(L);
  cl_resumption *record = host->resumption;
  lua_Debug debug;
  while (1) {
    int catches = 0;
    for (; lua_getstack(L, level, &debug); level++) {
      if (level > GUARD_LEVELS) return -1;
      lua_getinfo(L, "Sl", &debug);
      if (*debug.what == 'C') {
        catches |= cl_is_catcher(L, &debug);
      } else if (catches) {
        *source = debug.source;
        *line = debug.currentline;
        return 1;
      }
    }
    while (record && record->coroutine != L) record = record->outer;
    if (!record) return 0;
    L = record->from;
    level = 0;
  }
}
