// Opening a state, and closing it.
#include "limit.h"
#include "private.h"

#include <pthread.h>
#include <unistd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int panic(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fprintf(stderr, "rlhost: unprotected error in Lua (%s)\n", message ? message : "no text");
  return 0;  // Lua aborts
}

static void warn(void *data, const char *message, int to_be_continued);
static void warn_continued(void *data, const char *message, int to_be_continued);
static void warn_off(void *data, const char *message, int to_be_continued);

static int is_control(lua_State *L, const char *message, int to_be_continued) {
  if (to_be_continued || *message++ != '@') return 0;
  int is_on = strcmp(message, "on") == 0;
  if (!is_on && strcmp(message, "off") != 0) return 1;
  lua_setwarnf(L, is_on ? warn : warn_off, L);
  cl_state_of(L)->warns = is_on;
  return 1;
}

int cl_warns(cl_state *state) { return state->warns; }

static void warn_off(void *data, const char *message, int to_be_continued) {
  is_control(data, message, to_be_continued);
}

static void warn_continued(void *data, const char *message, int to_be_continued) {
  fputs(message, stderr);
  if (to_be_continued) {
    lua_setwarnf(data, warn_continued, data);
  } else {
    fputc('\n', stderr);
    lua_setwarnf(data, warn, data);
  }
}

static void warn(void *data, const char *message, int to_be_continued) {
  if (is_control(data, message, to_be_continued)) return;
  fputs("Lua warning: ", stderr);
  warn_continued(data, message, to_be_continued);
}

// The finalizer of the oldest object with a finalizer, so Lua calls it last when it closes the state. If the process
// ends as well, this function jumps out of lua_close, which would otherwise free each object now.
//
// Costs if removed: 125,000 instructions of a script that requires runloop, a fifteenth of all.
static int p_leave(lua_State *L) {
  jmp_buf *end = cl_state_of(L)->end;
  if (end) longjmp(*end, 1);
  return 0;
}

static void push_oldest(lua_State *L) {
  lua_newuserdatauv(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, p_leave);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
}

static int p_prepare(lua_State *L) {
  cl_state *state = cl_state_of(L);
  push_oldest(L);
  luaL_ref(L, LUA_REGISTRYINDEX);
  // When memory is short, Lua 5.4.4 makes these strings in unprotected code, where a failure would end the process. So
  // make them now; Lua then finds them.
  static const char *const texts[] = {"error in error handling", "cannot resume non-suspended coroutine",
                                      "cannot resume dead coroutine", "C stack overflow", "not enough memory"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lua_pushstring(L, texts[i]);
    luaL_ref(L, LUA_REGISTRYINDEX);
  }
  cl_prepare_failures(L);
  lua_newtable(L);
  state->anchors = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  state->boxes = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

cl_state *cl_open(void *swift) {
  cl_state *state = calloc(1, sizeof *state);
  if (!state) return NULL;
  state->sites = cl_new_sites();
  if (state->sites) {
    state->swift = swift;
    state->thread = cl_this_thread();
    state->bytes_limit = state->bytes_mark = SIZE_MAX;
    const char *plain = getenv("RLHOST_MALLOC");
    state->main = cl_new_state(state, plain && *plain && strcmp(plain, "0") != 0 ? cl_allocate_plainly : cl_allocate);
    if (state->main) {
      *(cl_state **)lua_getextraspace(state->main) = state;
      lua_atpanic(state->main, panic);
      lua_setwarnf(state->main, warn_off, state->main);
      cl_set_usual_hook(state->main);
      if (cl_call_protected(state->main, p_prepare, 0, 0) == LUA_OK) return state;
      lua_close(state->main);
    }
  }
  cl_free(state);
  return NULL;
}

void cl_close(cl_state *state, int with_process) {
  lua_State *L = state->main;
  state->main = NULL;  // so that finalizers can release no anchors
  // The coroutines are freed before all finalizers have run.
  state->running = NULL;
  state->resumption = NULL;
  state->finalizing = L;
  // Without slabs, a tool such as valgrind may look for blocks that were not freed: free all of them.
  jmp_buf end;
  if (with_process && (state->chunks || state->full_chunks)) state->end = &end;
  if (L && (!state->end || !setjmp(end))) lua_close(L);
  state->end = NULL;
  state->finalizing = NULL;
  cl_end_limits(state);
  cl_end_sharing(state);
  cl_free_slabs(state);
}

void cl_free(cl_state *state) {
  cl_free_parcel(state->packed);
  cl_free_slabs(state);
  cl_drop_signals(state);
  cl_free_sites(state->sites);
  free(state->scratch);
  free(state->free_slots);
  free(state);
}

static int p_open_libraries(lua_State *L) {
  if (lua_toboolean(L, 1)) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  cl_replace_functions(L);
  cl_replace_for_sandbox(L);
  // As in lua, a script starts in generational mode.
  if (lua_gc(L, LUA_GCISRUNNING)) cl_collect_generations(L);
  return 0;
}

int cl_open_libraries(lua_State *L, int without_environment) {
  lua_pushboolean(L, without_environment);
  return cl_call_protected(L, p_open_libraries, 1, 0);
}

void cl_stop_collector(lua_State *L) { lua_gc(L, LUA_GCSTOP); }

static int p_start_collector(lua_State *L) {
  lua_gc(L, LUA_GCRESTART);
  cl_collect_generations(L);
  return 0;
}

int cl_start_collector(lua_State *L) { return cl_call_protected(L, p_start_collector, 0, 0); }

char *cl_real_path(const char *path) { return realpath(path, NULL); }

void cl_free_text(char *text) { free(text); }

int cl_live_objects(int change) {
  static _Thread_local int count;
  return count += change;
}
