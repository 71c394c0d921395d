// Raises an interruption again, outside a loop that keeps catching it. The code remembers which line of Lua code
// catches errors around the interrupted code, and checks whether that line calls a catching function again.
#define _GNU_SOURCE
#include "private.h"

#include <time.h>

// Search only this number of levels: lua_getstack counts from the innermost level each time, so searching all levels of
// a runaway recursion would take minutes.
enum { GUARD_LEVELS = 5000 };

static int is_catcher(lua_State *L, lua_Debug *debug) {
  lua_getinfo(L, "f", debug);
  lua_CFunction function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  lua_CFunction *catchers = cl_state_of(L)->catchers;
  return function && (function == catchers[0] || function == catchers[1] || function == catchers[2]);
}

// Finds the innermost line of Lua code that calls a function that catches errors, such as pcall. Begins at a level of a
// coroutine. Returns 0 if there is no such line, and -1 if it is too many levels away.
static int find_guard(lua_State *L, int level, const char **source, int *line) {
  cl_state *state = cl_state_of(L);
  cl_resumption *record = state->resumption;
  lua_Debug debug;
  while (1) {
    int catches = 0;
    for (; lua_getstack(L, level, &debug); level++) {
      if (level > GUARD_LEVELS) return -1;
      lua_getinfo(L, "Sl", &debug);
      if (*debug.what == 'C') {
        catches |= is_catcher(L, &debug);
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

// `while true do pcall(work) end` swallows the error and would go on for ever. A script may catch an interruption and
// clean up. But if the line that caught it calls pcall again, the line is in a loop, and the error is raised once more,
// outside of the pcall.
_Thread_local int cl_is_guarding;
static _Thread_local struct {
  int is_open;  // the line was too many levels away to be found, so the next line that calls pcall counts
  const char *source;
  int line;
  time_t until;
  lua_CFunction raise;
} guard;

enum { GUARD_SECONDS = 60 };

static time_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec;
}

void cl_guard(lua_State *L, lua_CFunction raise) {
  cl_state_of(L)->raised_in_hook = 1;
  int found = find_guard(L, 1, &guard.source, &guard.line);
  cl_is_guarding = found != 0;
  guard.is_open = found < 0;
  guard.until = now() + GUARD_SECONDS;
  guard.raise = raise;
  if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
  else cl_set_usual_hook(L);
}

void cl_on_guarded_call(lua_State *L, lua_Debug *debug) {
  if (!cl_is_guarding || now() > guard.until) {
    cl_is_guarding = 0;
    cl_set_usual_hook(L);
    return;
  }
  lua_Debug caller;
  if (!is_catcher(L, debug) || !lua_getstack(L, 1, &caller)) return;
  lua_getinfo(L, "Sl", &caller);
  if (guard.is_open && caller.currentline > 0) {
    guard.is_open = 0;
    guard.source = caller.source;
    guard.line = caller.currentline;
  } else if (caller.source == guard.source && caller.currentline == guard.line) {
    guard.raise(L);
  }
}
