// The host's replacements for `print` and for functions of Lua's `coroutine` and `os`; and the arguments of a chunk.
#include "private.h"

#include <limits.h>
#include <stdio.h>

// Whether a coroutine runs a task. The host has made such a coroutine. To the script it looks like the main coroutine,
// as it would under lua.
static int is_task(lua_State *L) { return cl_state_of(L)->running == L; }

static int co_running(lua_State *L) {
  int is_main = lua_pushthread(L) || is_task(L);
  lua_pushboolean(L, is_main);
  return 2;
}

static int co_isyieldable(lua_State *L) {
  lua_State *thread = lua_type(L, 1) == LUA_TTHREAD ? lua_tothread(L, 1) : L;
  lua_pushboolean(L, lua_isyieldable(thread) && !is_task(thread));
  return 1;
}

static int co_yield(lua_State *L) {
  if (is_task(L)) {
    lua_pushliteral(L, "attempt to yield from outside a coroutine");  // without a position, like lua's
    return lua_error(L);
  }
  return lua_yield(L, lua_gettop(L));
}

// Records a resumption, since a signal must interrupt the coroutine that runs, and not the coroutine that has resumed
// it. The record is removed when the resumption ends; none of the Lua functions called meanwhile raises past it.
static void enter(cl_resumption *record, lua_State *from, lua_State *coroutine) {
  cl_state *state = cl_state_of(from);
  record->coroutine = coroutine;
  record->from = from;
  record->outer = state->resumption;
  state->resumption = record;
  cl_pass_interrupt(state, coroutine);
}

static void leave(cl_resumption *record) {
  cl_state *state = cl_state_of(record->from);
  state->resumption = record->outer;
  cl_pass_interrupt(state, record->from);
}

// Whether one of the host's coroutines is idle: it has not begun, or has ended, and can run another task.
static int is_idle(lua_State *fiber) {
  lua_Debug debug;
  return lua_status(fiber) != LUA_YIELD && !lua_getstack(fiber, 0, &debug);
}

static int co_status(lua_State *L) {
  lua_State *coroutine = lua_tothread(L, 1);
  if (!coroutine || !cl_is_fiber(coroutine) || !is_idle(coroutine)) return cl_state_of(L)->status_function(L);
  lua_pushliteral(L, "dead");
  return 1;
}

// Refuses to resume a task's coroutine. A script may have a reference to it, but only the host may resume it, when the
// task's wait has ended.
static int refuse_resume(lua_State *L, lua_State *fiber) {
  lua_pushboolean(L, 0);
  if (lua_status(fiber) == LUA_YIELD) {
    lua_pushliteral(L, "cannot resume the coroutine of a task: it continues by itself when its wait ends");
  } else if (is_idle(fiber)) {
    lua_pushliteral(L, "cannot resume dead coroutine");
  } else {
    lua_pushliteral(L, "cannot resume non-suspended coroutine");
  }
  return 2;
}

static int co_resume(lua_State *L) {
  lua_State *coroutine = lua_tothread(L, 1);
  if (coroutine && cl_is_fiber(coroutine)) return refuse_resume(L, coroutine);
  if (!coroutine || coroutine == L) return cl_state_of(L)->resume_function(L);  // it raises
  cl_resumption record;
  enter(&record, L, coroutine);
  int count = cl_state_of(L)->resume_function(L);
  leave(&record);
  return count;
}

static int co_close(lua_State *L) {
  lua_State *coroutine = lua_tothread(L, 1);
  if (coroutine && cl_is_fiber(coroutine)) {
    if (is_idle(coroutine)) {
      lua_pushboolean(L, 1);
      return 1;
    }
    if (lua_status(coroutine) == LUA_YIELD)
      return luaL_error(L, "cannot close the coroutine of a task; task:cancel() ends it where it waits");
    // The coroutine runs, or has resumed the running one: Lua's function raises its usual error for that.
  }
  // For a coroutine that is not suspended, Lua's function raises an error or runs no code, so there is no resumption to
  // record.
  if (!coroutine || lua_status(coroutine) != LUA_YIELD) return cl_state_of(L)->close_function(L);
  cl_resumption record;
  enter(&record, L, coroutine);
  int count = cl_state_of(L)->close_function(L);
  leave(&record);
  return count;
}

// The function that coroutine.wrap returns. Lua's own function cannot be used: it raises errors before the record of
// the resumption can be removed.
static int call_wrapped(lua_State *L) {
  lua_State *coroutine = lua_tothread(L, lua_upvalueindex(1));
  int arguments = lua_gettop(L), results = 0, status;
  if (!lua_checkstack(coroutine, arguments + 1)) return luaL_error(L, "too many arguments to resume");
  lua_xmove(L, coroutine, arguments);
  cl_resumption record;
  enter(&record, L, coroutine);
  status = lua_resume(coroutine, L, arguments, &results);
  leave(&record);
  if (status == LUA_OK || status == LUA_YIELD) {
    if (!lua_checkstack(L, results + 1)) {
      lua_pop(coroutine, results);
      return luaL_error(L, "too many results to resume");
    }
    lua_xmove(coroutine, L, results);
    return results;
  }
  lua_xmove(coroutine, L, 1);
  status = lua_status(coroutine);
  if (status != LUA_OK && status != LUA_YIELD) {  // the coroutine has failed; lua_resetthread closes its variables
    lua_xmove(L, coroutine, 1);
    enter(&record, L, coroutine);
    status = lua_resetthread(coroutine);
    leave(&record);
    lua_xmove(coroutine, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    int is_interruption = cl_is_interruption(L, -1);
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    if (is_interruption) cl_note_interruption(L);
  }
  return lua_error(L);
}

static int co_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *coroutine = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, coroutine, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

// os.exit([code [, close]]): like Lua's, but only 0 becomes status 0. Numbers above 255 and negative multiples of 256
// become 255.
static int os_exit(lua_State *L) {
  int status;
  if (lua_isboolean(L, 1)) {
    status = lua_toboolean(L, 1) ? 0 : 1;
  } else if (lua_type(L, 1) == LUA_TUSERDATA) {
    // With a userdata as argument, the call probably comes from `rl.after(1, os.exit)`.
    const char *name = luaL_getmetafield(L, 1, "__name") == LUA_TSTRING ? lua_tostring(L, -1) : "userdata";
    return luaL_error(L,
                      "os.exit: argument #1 must be true, false or an integer, got a %s: callbacks are called with "
                      "their object, so write function() os.exit() end",
                      name);
  } else {
    lua_Integer code = luaL_optinteger(L, 1, 0);
    status = code > 255 || (code < 0 && (code & 255) == 0) ? 255 : (int)(code & 255);
  }
  cl_state *state = cl_state_of(L);
  int closes = lua_toboolean(L, 2);
  if (closes && state->closing) {
    // A finalizer has called os.exit while the state is being closed: the remaining finalizers run, too, as under lua,
    // and no Lua code runs after them.
    state->end = NULL;  // the status of this call of os.exit counts
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_close(lua_tothread(L, -1));
  }
  state->exit(state, status, closes);
  return 0;
}

// Set by the main thread, read by any.
static void (*_Atomic around_program)(int begins);

void cl_set_around_program(void (*function)(int begins)) { around_program = function; }

// os.execute([command]): like Lua's, but calls a function before and after it, so that the prompt can lend the terminal
// to the program.
static int os_execute(lua_State *L) {
  void (*around)(int begins) = around_program;
  lua_CFunction execute = cl_state_of(L)->execute_function;
  if (!around || !luaL_optstring(L, 1, NULL)) return execute(L);
  around(1);
  int count = execute(L);
  around(0);
  return count;
}

// print(...): like Lua's, but writes a line as a whole, even if other threads print meanwhile.
static int print(lua_State *L) {
  int count = lua_gettop(L);
  luaL_checkstack(L, count, "too many arguments to 'print'");
  for (int i = 1; i <= count; i++) luaL_tolstring(L, i, NULL);
  // Read `stdout` once: a thread that redirects its output may replace the variable meanwhile.
  FILE *out = stdout;
  flockfile(out);
  for (int i = 1; i <= count; i++) {
    size_t length;
    const char *text = lua_tolstring(L, count + i, &length);
    if (i > 1) putc_unlocked('\t', out);
    fwrite_unlocked(text, 1, length, out);
  }
  putc_unlocked('\n', out);
  fflush_unlocked(out);
  funlockfile(out);
  return 0;
}

void cl_push_print(lua_State *L) { lua_pushcfunction(L, print); }

void cl_replace_functions(lua_State *L) {
  static const luaL_Reg coroutines[] = {{"running", co_running}, {"isyieldable", co_isyieldable},
                                        {"yield", co_yield},     {"resume", co_resume},
                                        {"close", co_close},     {"wrap", co_wrap},
                                        {"status", co_status},   {NULL, NULL}};
  cl_state *state = cl_state_of(L);
  lua_getglobal(L, LUA_COLIBNAME);
  lua_getfield(L, -1, "resume");
  state->resume_function = lua_tocfunction(L, -1);
  lua_getfield(L, -2, "close");
  state->close_function = lua_tocfunction(L, -1);
  lua_getfield(L, -3, "status");
  state->status_function = lua_tocfunction(L, -1);
  lua_pop(L, 3);
  luaL_setfuncs(L, coroutines, 0);
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_pushcfunction(L, os_exit);
  lua_setfield(L, -2, "exit");
  lua_getfield(L, -1, "execute");
  state->execute_function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  lua_pushcfunction(L, os_execute);
  lua_setfield(L, -2, "execute");
  lua_pushcfunction(L, print);
  lua_setglobal(L, "print");
  lua_getglobal(L, "pcall");
  state->catchers[0] = lua_tocfunction(L, -1);
  lua_getglobal(L, "xpcall");
  state->catchers[1] = lua_tocfunction(L, -1);
  state->catchers[2] = co_resume;
  lua_pop(L, 4);
  cl_replace_hooks(L);
  cl_replace_collector(L);
}

// Makes a coroutine of the host, in which tasks and callbacks run.
static int p_new_thread(lua_State *L) {
  lua_State *thread = lua_newthread(L);
  *(uintptr_t *)lua_getextraspace(thread) |= 1;
  // The new coroutine must not inherit the hook of the one that runs now.
  cl_set_usual_hook(thread);
  return 1;
}

int cl_new_thread(lua_State *L) { return cl_call_protected(L, p_new_thread, 0, 1); }

static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) return luaL_error(L, "'arg' is not a table");
  lua_Integer count = luaL_len(L, 1);
  if (count >= INT_MAX) return luaL_error(L, "too many arguments to script");
  luaL_checkstack(L, (int)count + 3, "too many arguments to script");
  for (lua_Integer i = 1; i <= count; i++) lua_rawgeti(L, 1, i);
  return (int)count;
}

int cl_push_arguments(lua_State *L) { return cl_call_protected(L, push_arguments, 0, LUA_MULTRET); }
