// The script's own hooks (debug.sethook) in the host's coroutines.
//
// To the script, each task runs in the main coroutine. So a hook that a chunk sets holds for all tasks and callbacks,
// as debuggers and tools that count lines expect. A hook that a callback or another task sets ends with that callback
// or task, and affects no other.
#include "private.h"

#include <pthread.h>
#include <stdatomic.h>

// The registry keeps the function of the hook for all tasks under this address.
static const char everywhere = 0;

// A bit in a coroutine's extra space, next to the state's address: the coroutine runs a chunk.
enum { RUNS_CHUNK = 2 };

void cl_chunk_runs(lua_State *L, int runs) {
  uintptr_t *space = lua_getextraspace(L);
  *space = runs ? *space | RUNS_CHUNK : *space & ~(uintptr_t)RUNS_CHUNK;
}

static int runs_chunk(lua_State *L) { return (int)(*(uintptr_t *)lua_getextraspace(L) & RUNS_CHUNK); }

// Whether this coroutine is running. The host also calls functions on the stacks of other coroutines, to put arguments
// and results there. Hooks must ignore such calls: Lua does not count their depth, so a hook that started other
// callbacks there would overflow the C stack.
static int runs(lua_State *L) { return cl_state_of(L)->running == L; }

// The function of debug.sethook that calls the script's. The hook is the same in all states.
static _Atomic(lua_Hook) library_hook;

static void call_own_hook(lua_State *L, lua_Debug *debug) {
  if (runs(L)) atomic_load_explicit(&library_hook, memory_order_relaxed)(L, debug);
}

static void call_hook(lua_State *L, lua_Debug *debug) {
  static const char *const events[] = {"call", "return", "line", "count", "tail call"};
  // A coroutine that a script makes inherits the C hook of its creator, but debug.sethook has no function for it. As
  // Lua's own hook does, do nothing then.
  if (!cl_is_fiber(L) || !runs(L)) return;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &everywhere) != LUA_TFUNCTION) {
    lua_pop(L, 1);
    return;
  }
  lua_pushstring(L, events[debug->event]);
  if (debug->currentline >= 0) lua_pushinteger(L, debug->currentline);
  else lua_pushnil(L);
  lua_call(L, 2, 0);
}

// The hook that counts lines and calls in all states, or NULL.
static _Atomic(lua_Hook) counter;

void cl_count_with(lua_Hook hook) { atomic_store_explicit(&counter, hook, memory_order_seq_cst); }

void cl_set_usual_hook(lua_State *L) {
  cl_state *state = cl_state_of(L);
  lua_Hook counts = atomic_load_explicit(&counter, memory_order_relaxed);
  if (counts) lua_sethook(L, counts, LUA_MASKLINE | LUA_MASKCALL, 0);
  else if (cl_is_fiber(L) && state->hook_mask) lua_sethook(L, call_hook, state->hook_mask, state->hook_count);
  else lua_sethook(L, NULL, 0, 0);
}

// The script's own hook while the host's hook replaces it.
static _Thread_local struct {
  lua_State *thread;
  lua_Hook hook;
  int mask, count;
} displaced;

void cl_displace_hook(lua_State *L, lua_Hook hook, lua_Hook guard) {
  // The following calls of Lua are safe in a signal handler.
  lua_Hook own = lua_gethook(L);
  if (own && own != hook && own != guard) {
    displaced.hook = own;
    displaced.mask = lua_gethookmask(L);
    displaced.count = lua_gethookcount(L);
    displaced.thread = L;
  }
  lua_sethook(L, hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

void cl_give_hook_back(lua_State *L) {
  if (displaced.thread == L) lua_sethook(L, displaced.hook, displaced.mask, displaced.count);
  else cl_set_usual_hook(L);
}

// Lua calls no hook while a finalizer runs, nor while variables are closed after an error in a hook. So no hook could
// end such code if it ran for ever. A byte of lua_State says whether hooks are allowed. No function of Lua's interface
// changes this byte, so this file does; it first checks the byte's offset.
enum { ALLOWS_HOOKS = sizeof(void *) + 3 };
static pthread_once_t checked = PTHREAD_ONCE_INIT;
static int knows_place;

static void check_in_hook(lua_State *L, lua_Debug *debug) {
  (void)debug;
  knows_place = ((const volatile unsigned char *)L)[ALLOWS_HOOKS] == 0;
}
static int do_nothing(lua_State *L) { return (void)L, 0; }

static void check_place(void) {
  lua_State *L = luaL_newstate();
  if (!L) return;
  const volatile unsigned char *place = (const volatile unsigned char *)L + ALLOWS_HOOKS;
  int is_allowed = *place == 1;
  lua_sethook(L, check_in_hook, LUA_MASKCALL, 0);
  lua_pushcfunction(L, do_nothing);
  lua_call(L, 0, 0);
  knows_place = knows_place && is_allowed && *place == 1;
  lua_close(L);
}

void cl_prepare_hooks(void) { pthread_once(&checked, check_place); }

void cl_allow_hooks(lua_State *L) {
  if (knows_place) ((volatile unsigned char *)L)[ALLOWS_HOOKS] = 1;
}

void cl_forget_hook(void) { displaced.thread = NULL; }

void cl_hook_task(lua_State *L, int goes_on) {
  lua_Hook own = lua_gethook(L);
  // A task that goes on keeps its own hook. If it has none, it gets the present hook for all tasks, which may have
  // changed meanwhile.
  if (!goes_on || !own || own == call_hook) cl_set_usual_hook(L);
}

static lua_State *target_of(lua_State *L) { return lua_isthread(L, 1) ? lua_tothread(L, 1) : L; }

// debug.sethook([thread,] hook, mask [, count])
static int set_hook(lua_State *L) {
  cl_state *state = cl_state_of(L);
  lua_State *target = target_of(L);
  int function = lua_isthread(L, 1) ? 2 : 1;
  int count = state->sethook_function(L);
  state->has_hooks = 1;
  if (cl_is_fiber(target) && lua_gethook(target)) {
    atomic_store_explicit(&library_hook, lua_gethook(target), memory_order_relaxed);
    lua_sethook(target, call_own_hook, lua_gethookmask(target), lua_gethookcount(target));
  }
  if (runs_chunk(target)) {
    state->hook_mask = lua_gethookmask(target);
    state->hook_count = lua_gethookcount(target);
    if (state->hook_mask) lua_pushvalue(L, function);
    else lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &everywhere);
  }
  return count;
}

// Pushes the function of a coroutine's own hook, or nil, from the table in which Lua 5.4's debug.sethook keeps it.
static void push_own_function(lua_State *L, lua_State *target) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, "_HOOKKEY") != LUA_TTABLE) return;
  luaL_checkstack(target, 1, NULL);
  lua_pushthread(target);
  lua_xmove(target, L, 1);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

// debug.gethook([thread])
static int get_hook(lua_State *L) {
  lua_State *target = target_of(L);
  lua_Hook hook = lua_gethook(target);
  if (hook != call_hook && hook != call_own_hook) return cl_state_of(L)->gethook_function(L);
  char mask[4];
  int length = 0, set = lua_gethookmask(target);
  if (set & LUA_MASKCALL) mask[length++] = 'c';
  if (set & LUA_MASKRET) mask[length++] = 'r';
  if (set & LUA_MASKLINE) mask[length++] = 'l';
  if (hook == call_hook) lua_rawgetp(L, LUA_REGISTRYINDEX, &everywhere);
  else push_own_function(L, target);
  lua_pushlstring(L, mask, (size_t)length);
  lua_pushinteger(L, lua_gethookcount(target));
  return 3;
}

void cl_replace_hooks(lua_State *L) {
  cl_state *state = cl_state_of(L);
  lua_getglobal(L, LUA_DBLIBNAME);
  lua_getfield(L, -1, "sethook");
  state->sethook_function = lua_tocfunction(L, -1);
  lua_getfield(L, -2, "gethook");
  state->gethook_function = lua_tocfunction(L, -1);
  lua_pop(L, 2);
  static const luaL_Reg functions[] = {{"sethook", set_hook}, {"gethook", get_hook}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}
