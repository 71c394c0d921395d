// Lua's collector in a state that is idle.
//
// A generational collector, with which scripts begin, frees old objects all at once, and only when the script
// allocates: the garbage of fifty thousand tasks would stay until the next burst. So the host collects in small steps,
// which only the incremental mode offers. Three parts cannot be divided into steps: entering that mode and leaving it,
// which both visit each object, and the atomic end of a cycle.
#include "private.h"

#include <time.h>

#define MANY 1000000  // blocks: leaving the generational mode takes about 10 ns for each
#define FEW 250000    // blocks: entering it takes about 40 ns for each

static int64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int cl_begin_collection(cl_state *state) {
  lua_State *L = state->main;
  // lua_gc returns -1 in a finalizer.
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
  // With many objects, stay in incremental mode: entering the generational mode would be a long pause.
  if (state->is_generational && state->blocks <= FEW) lua_gc(state->main, LUA_GCGEN, 0, 0);
}

// collectgarbage([opt [, …]]): like Lua's. A script that sets a mode gets back the mode that it has set before.
static int collectgarbage(lua_State *L) {
  cl_state *state = cl_state_of(L);
  const char *option = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  int is_generational = strcmp(option, "generational") == 0;
  if (is_generational || strcmp(option, "incremental") == 0) {
    state->is_collecting = 0;
    if (state->is_generational) lua_gc(L, LUA_GCGEN, 0, 0);
    // lua_gc returns -1 in a finalizer. The script's call then has changed nothing and returns nil.
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
