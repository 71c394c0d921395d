// Lua's collector in a state that has nothing else to do.
//
// A generational collector, as scripts begin with, frees old objects all at once, and only when the script allocates:
// the remains of fifty thousand tasks would lie there until the next burst. So the host collects in small steps, which
// only the incremental mode has. Three things cannot be divided: the ways into that mode and out of it, which visit each
// object, and the atomic end of a cycle.
#include "private.h"

#include <time.h>

#define MANY 1000000  // blocks: to leave the generational mode takes some 10 ns for each
#define FEW 250000    // blocks: to enter it takes some 40 ns for each

static int64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int cl_begin_collection(cl_state *state) {
  lua_State *L = state->main;
  // -1 in a finalizer.
  if (!L || lua_gc(L, LUA_GCISRUNNING) != 1) return 0;
  if (state->is_generational) {
    if (state->blocks > MANY) return 0;
    lua_gc(L, LUA_GCINC, 0, 0, 0);
  }
  state->is_collecting = 1;
  return 1;
}

int cl_collect(cl_state *state, int64_t nanoseconds, int64_t *spent) {
  if (!state->is_collecting || !state->main) return -1;
  int64_t used = now(CLOCK_THREAD_CPUTIME_ID), end = now(CLOCK_MONOTONIC) + nanoseconds;
  int result;
  do result = lua_gc(state->main, LUA_GCSTEP, 0);
  while (result == 0 && state->is_collecting && now(CLOCK_MONOTONIC) < end);
  *spent += now(CLOCK_THREAD_CPUTIME_ID) - used;
  return result;
}

void cl_end_collection(cl_state *state) {
  if (!state->is_collecting) return;
  state->is_collecting = 0;
  // With many objects the incremental mode stays, in which a long pause is not to be expected either.
  if (state->is_generational && state->blocks <= FEW) lua_gc(state->main, LUA_GCGEN, 0, 0);
}

// collectgarbage([opt [, …]]): as Lua's. The answer to a script that sets a mode is the mode that the script has set before.
static int collectgarbage(lua_State *L) {
  cl_state *state = cl_state_of(L);
  const char *option = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  int is_generational = strcmp(option, "generational") == 0;
  if (is_generational || strcmp(option, "incremental") == 0) {
    state->is_collecting = 0;
    if (state->is_generational) lua_gc(L, LUA_GCGEN, 0, 0);
    // Also -1, which is nil for the script: a finalizer changes nothing.
    if (lua_gc(L, LUA_GCISRUNNING) >= 0) state->is_generational = is_generational;
  }
  return state->collect_function(L);
}

void cl_replace_collector(lua_State *L) {
  lua_getglobal(L, "collectgarbage");
  cl_state_of(L)->collect_function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  lua_pushcfunction(L, collectgarbage);
  lua_setglobal(L, "collectgarbage");
}

void cl_collect_generations(lua_State *L) {
  lua_gc(L, LUA_GCGEN, 0, 0);
  cl_state_of(L)->is_generational = 1;
}
