// A part of signals.c: an interruption that a loop catches again and again is raised outside of it. It uses what stands above the
// place where it is included, and nothing else includes it.
#pragma once

// `while true do pcall(work) end` swallows the error and would go on for ever. A script may well catch it and clean up; but
// where the same line that caught it calls pcall again, it is a loop, and the error is raised once more, outside of it.
static _Thread_local struct {
  int is_set;
  int is_open;  // which line it is was too far to see: it is the next one that calls pcall
  const char *source;
  int line;
  time_t until;
} loop_guard;

enum { GUARD_SECONDS = 60 };

// The entry that runs has been asked to end and has not noticed yet.
static volatile sig_atomic_t entry_pending;
static void hook(lua_State *L);

static time_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec;
}

static void on_call(lua_State *L, lua_Debug *debug);

// Another thread than the one that signals are for, where Lua code can be cancelled.
static _Thread_local cl_host *cancelled_host;
static _Thread_local volatile sig_atomic_t cancel_pending;

static int interrupt(lua_State *L) {
  int found = cl_find_guard(L, 1, &loop_guard.source, &loop_guard.line);
  loop_guard.is_set = found != 0;
  loop_guard.is_open = found < 0;
  loop_guard.until = now() + GUARD_SECONDS;
  lua_sethook(L, loop_guard.is_set ? on_call : NULL, loop_guard.is_set ? LUA_MASKCALL : 0, 0);
  cl_host *host = cancelled_host;
  int pressure = host ? 0 : cl_pressure_on_entry();
  if (pressure > 0) cl_disarm_handlers(L);
  if (pressure > 1) {
    entry_pending = 1;
    hook(L);
  }
  if (!host || !host->cancelled) return cl_raise_interruption(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->anchors);
  lua_rawgeti(L, -1, host->cancelled);
  return lua_error(L);
}

static void on_call(lua_State *L, lua_Debug *debug) {
  if (!loop_guard.is_set || now() > loop_guard.until) {
    loop_guard.is_set = 0;
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  lua_Debug caller;
  if (!cl_is_catcher(L, debug) || !lua_getstack(L, 1, &caller)) return;
  lua_getinfo(L, "Sl", &caller);
  if (loop_guard.is_open && caller.currentline > 0) {
    loop_guard.is_open = 0;
    loop_guard.source = caller.source;
    loop_guard.line = caller.currentline;
  } else if (caller.source == loop_guard.source && caller.currentline == loop_guard.line) interrupt(L);
}
