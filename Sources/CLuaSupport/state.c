// Opening a state, and closing it.
#include "private.h"

#include <pthread.h>
#include <unistd.h>
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
  cl_host_of(L)->warns = is_on;
  return 1;
}

int cl_warns(cl_host *host) { return host->warns; }

static void warn_off(void *data, const char *message, int to_be_continued) { is_control(data, message, to_be_continued); }

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

static int p_prepare(lua_State *L) {
  cl_host *host = cl_host_of(L);
  // Texts that Lua 5.4.4 makes outside any protection, when it can least afford to: from now on they exist.
  static const char *const texts[] = {"error in error handling", "cannot resume non-suspended coroutine",
                                      "cannot resume dead coroutine", "C stack overflow", "not enough memory"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lua_pushstring(L, texts[i]);
    luaL_ref(L, LUA_REGISTRYINDEX);
  }
  cl_prepare_failures(L);
  lua_newtable(L);
  host->anchors = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  host->boxes = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

cl_host *cl_open(void *swift) {
  cl_host *host = calloc(1, sizeof *host);
  if (!host) return NULL;
  host->sites = cl_new_sites();
  if (host->sites) {
    host->swift = swift;
    host->thread = cl_this_thread();
    const char *plain = getenv("RLHOST_MALLOC");
    host->main = cl_new_state(host, plain && *plain && strcmp(plain, "0") != 0 ? cl_allocate_plainly : cl_allocate);
    if (host->main) {
      *(cl_host **)lua_getextraspace(host->main) = host;
      lua_atpanic(host->main, panic);
      lua_setwarnf(host->main, warn_off, host->main);
      cl_set_usual_hook(host->main);
      if (cl_call_protected(host->main, p_prepare, 0, 0) == LUA_OK) return host;
      lua_close(host->main);
    }
  }
  cl_free(host);
  return NULL;
}

void cl_close(cl_host *host) {
  lua_State *L = host->main;
  host->main = NULL;  // finalizers that let go of anchors find none
  // Their coroutines are freed before the finalizers have all run.
  host->running = NULL;
  host->resumption = NULL;
  if (L) lua_close(L);
  cl_free_slabs(host);
}

void cl_free(cl_host *host) {
  cl_free_parcel(host->packed);
  cl_free_slabs(host);
  cl_drop_signals(host);
  cl_free_sites(host->sites);
  free(host->scratch);
  free(host->free_slots);
  free(host);
}

static int p_open_libraries(lua_State *L) {
  if (lua_toboolean(L, 1)) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  cl_replace_functions(L);
  // As lua does it: a script starts in generational mode.
  if (lua_gc(L, LUA_GCISRUNNING)) lua_gc(L, LUA_GCGEN, 0, 0);
  return 0;
}

int cl_open_libraries(lua_State *L, int without_environment) {
  lua_pushboolean(L, without_environment);
  return cl_call_protected(L, p_open_libraries, 1, 0);
}

void cl_stop_collector(lua_State *L) { lua_gc(L, LUA_GCSTOP); }

static int p_start_collector(lua_State *L) {
  lua_gc(L, LUA_GCRESTART);
  lua_gc(L, LUA_GCGEN, 0, 0);
  return 0;
}

int cl_start_collector(lua_State *L) { return cl_call_protected(L, p_start_collector, 0, 0); }

void cl_exit(int status) { exit(status); }

char *cl_real_path(const char *path) { return realpath(path, NULL); }

void cl_free_text(char *text) { free(text); }

void cl_die(int number) {
  cl_flush_files();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  signal(number, SIG_DFL);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  _exit(128 + number);
}

int cl_live_objects(int change) {
  static _Thread_local int count;
  return count += change;
}
