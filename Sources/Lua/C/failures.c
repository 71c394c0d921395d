// Uncaught errors: their message, their traceback, and whether the host raised them.
#include "private.h"

static void write_to_scratch(lua_State *L, const char *text) { cl_write(cl_state_of(L), text, strlen(text)); }

static void text_to_scratch(lua_State *L, int index) {
  size_t length;
  const char *text = lua_tolstring(L, index, &length);
  cl_reset(cl_state_of(L));
  cl_write(cl_state_of(L), text, length);
}

static void say_to_scratch(lua_State *L, const char *text) {
  cl_reset(cl_state_of(L));
  write_to_scratch(L, text);
}

// Calls a function that may run a script's __tostring. If that happens on the main coroutine, no task counts as running
// meanwhile, so that a signal interrupts the main coroutine.
static int call_aside(lua_State *L, lua_CFunction function, int arguments, int results) {
  cl_state *state = cl_state_of(L);
  lua_State *running = state->running;
  cl_resumption *resumption = state->resumption;
  if (L == state->main) {
    state->running = NULL;
    state->resumption = NULL;
  }
  int status = cl_call_protected(L, function, arguments, results);
  state->running = running;
  state->resumption = resumption;
  return status;
}

// Replaces the text on top of the stack by one in which each NUL is "\\0": luaL_traceback and others stop at the first
// NUL.
static void show_zeros(lua_State *L) {
  size_t length;
  const char *text = lua_tolstring(L, -1, &length), *zero;
  if (!memchr(text, 0, length)) return;
  luaL_Buffer shown;
  luaL_buffinit(L, &shown);
  const char *end = text + length;
  for (; (zero = memchr(text, 0, (size_t)(end - text))); text = zero + 1) {
    luaL_addlstring(&shown, text, (size_t)(zero - text));
    luaL_addstring(&shown, "\\0");
  }
  luaL_addlstring(&shown, text, (size_t)(end - text));
  luaL_pushresult(&shown);
  lua_replace(L, -2);
}

// The registry keeps the function that shows tables under this address.
static const char shower = 0;

// (value) -> its fields as text
static int show_table(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &shower) != LUA_TFUNCTION) {
    if (cl_load_module(L, "runloop.inspect") != LUA_OK) return lua_error(L);
    if (cl_load_module(L, "runloop.keywords") != LUA_OK) return lua_error(L);
    lua_call(L, 0, 1);
    if (cl_load_module(L, "runloop.text") != LUA_OK) return lua_error(L);
    lua_call(L, 0, 1);
    lua_call(L, 2, 1);
    lua_getfield(L, -1, "error_text");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &shower);
  }
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

// (value) -> what its __tostring returns, or nil if it has none
static int describe_itself(lua_State *L) {
  if (!luaL_callmeta(L, 1, "__tostring")) lua_pushnil(L);
  return 1;
}

// Calls a function with the value at index 1, and pushes its result. Returns whether the result is a string.
static int push_text_by(lua_State *L, lua_CFunction function) {
  lua_pushcfunction(L, function);
  lua_pushvalue(L, 1);
  return lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
}

// Pushes the message of the error value at index 1. Returns whether a traceback should follow it.
static int push_message(lua_State *L) {
  int has_more = 1;
  if (lua_type(L, 1) == LUA_TSTRING || lua_type(L, 1) == LUA_TNUMBER) {
    lua_pushvalue(L, 1);
  } else if (push_text_by(L, describe_itself)) {
    // As in lua, there is no traceback for an error object with a __tostring.
    has_more = 0;
  } else if (!(lua_istable(L, 1) && push_text_by(L, show_table))) {
    lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  show_zeros(L);
  return has_more;
}

// Pushes the message, and the hint in a line of its own if there is one. Returns as `push_message` does.
static int push_report(lua_State *L) {
  int has_more = push_message(L);
  if (lua_type(L, 1) != LUA_TSTRING || !cl_push_hint(L, lua_tostring(L, -1))) return has_more;
  lua_pushliteral(L, "\n");
  lua_insert(L, -2);
  lua_concat(L, 3);
  return has_more;
}

// (error value, thread) -> message, traceback or nil
static int p_explain(lua_State *L) {
  lua_State *from = lua_touserdata(L, 2);
  if (push_report(L)) luaL_traceback(L, from, NULL, 0);
  else lua_pushnil(L);
  return 2;
}

size_t cl_explain(lua_State *L, lua_State *from) {
  cl_state *state = cl_state_of(L);
  if (!lua_checkstack(L, 24) || !lua_checkstack(from, 4)) {
    say_to_scratch(L, "not enough memory");
    return state->length;
  }
  lua_pushvalue(from, -1);
  if (from != L) lua_xmove(from, L, 1);
  lua_pushlightuserdata(L, from);
  if (call_aside(L, p_explain, 2, 2) != LUA_OK) {
    say_to_scratch(L, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "error in error handling");
    lua_pop(L, 1);
    return state->length;
  }
  text_to_scratch(L, -2);
  size_t length = state->length;
  if (lua_type(L, -1) == LUA_TSTRING) {
    write_to_scratch(L, "\n");
    write_to_scratch(L, lua_tostring(L, -1));
  }
  lua_pop(L, 2);
  return length;
}

// (thread) -> traceback
static int p_trace(lua_State *L) {
  luaL_traceback(L, lua_touserdata(L, 1), NULL, 0);
  return 1;
}

void cl_trace(lua_State *L, lua_State *from) {
  cl_reset(cl_state_of(L));
  if (!lua_checkstack(L, 24)) return;
  lua_pushlightuserdata(L, from);
  if (cl_call_protected(L, p_trace, 1, 1) == LUA_OK) text_to_scratch(L, -1);
  lua_pop(L, 1);
}

static int p_to_text(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

void cl_to_text(lua_State *L, int index) {
  if (!lua_checkstack(L, 24)) {
    say_to_scratch(L, "not enough memory");
    return;
  }
  lua_pushvalue(L, index);
  if (call_aside(L, p_to_text, 1, 1) == LUA_OK) text_to_scratch(L, -1);
  else say_to_scratch(L, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "(an error while describing a value)");
  lua_pop(L, 1);
}

static int traceback(lua_State *L) {
  cl_state_of(L)->was_interrupted = cl_is_interruption(L, 1);
  lua_settop(L, 1);
  if (push_report(L)) luaL_traceback(L, L, lua_tostring(L, -1), 1);
  return 1;
}

int cl_call_traced(lua_State *L, int arguments, int results) {
  cl_state_of(L)->was_interrupted = 0;
  if (!lua_checkstack(L, 24)) return cl_no_room(L, arguments + 1);
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, traceback);
  lua_insert(L, base);
  int status = lua_pcall(L, arguments, results, base);
  lua_remove(L, base);
  return status;
}

// Interruptions -------------------------------------------------------------------------------------------------------

// The registry has the error value of the latest interruption under this address; false if there was none, so that
// storing one allocates nothing.
static const char interruption = 0;

void cl_prepare_failures(lua_State *L) {
  lua_pushboolean(L, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &interruption);
}

void cl_note_interruption(lua_State *L) {
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &interruption);
}

int cl_is_interruption(lua_State *L, int index) {
  if (!lua_checkstack(L, 1)) return 0;
  index = lua_absindex(L, index);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &interruption);
  int is = lua_type(L, -1) == LUA_TSTRING && lua_rawequal(L, -1, index);
  lua_pop(L, 1);
  return is;
}

int cl_raise_interruption(lua_State *L) {
  luaL_where(L, 1);
  lua_pushliteral(L, "interrupted!");
  lua_concat(L, 2);
  cl_note_interruption(L);
  return lua_error(L);
}

// Chunks --------------------------------------------------------------------------------------------------------------

static const char failure_mark = 0;

enum { HANDLER = 1, TABLE = 2 };           // indices on the stack of `run_chunk`
enum { VALUE = 1, TEXT = 2, LENGTH = 3 };  // fields of the table that keeps the error

// The message handler. It converts an error to the same text as lua does. To-be-closed variables and reader functions
// of `load` get that text, too. The handler's upvalue is a table that keeps the original error.
static int explain(lua_State *L) {
  int table = lua_upvalueindex(1);
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_rawseti(L, table, VALUE);
  if (!push_report(L)) return 1;
  size_t length = lua_rawlen(L, -1);
  luaL_traceback(L, L, lua_tostring(L, -1), 1);
  lua_pushvalue(L, -1);
  lua_rawseti(L, table, TEXT);
  lua_pushinteger(L, (lua_Integer)length);
  lua_rawseti(L, table, LENGTH);
  return 1;
}

static int after_chunk(lua_State *L, int status, lua_KContext first) {
  cl_chunk_runs(L, 0);
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)first + 1;
  int text = lua_gettop(L);
  lua_pushlightuserdata(L, (void *)&failure_mark);
  // Lua calls the handler for errors of scripts only.
  if (status == LUA_ERRRUN) lua_rawgeti(L, TABLE, VALUE);
  else lua_pushvalue(L, text);
  // If a variable failed to close, its error has replaced the text.
  lua_rawgeti(L, TABLE, TEXT);
  if (lua_rawequal(L, -1, text)) lua_rawgeti(L, TABLE, LENGTH);
  else lua_pushnil(L);
  lua_replace(L, -2);
  lua_pushvalue(L, text);
  return 4;
}

// (function, arguments) -> its results, or failure mark, error value, length of the message, text. The function's frame
// is below the chunk, like that of lua's own C function: "[C]: in ?" in a traceback.
static int run_chunk(lua_State *L) {
  lua_newtable(L);
  lua_insert(L, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, explain, 1);
  lua_insert(L, HANDLER);
  cl_chunk_runs(L, 1);
  int status = lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, HANDLER, TABLE + 1, after_chunk);
  return after_chunk(L, status, TABLE + 1);
}

void cl_push_chunk_runner(lua_State *L) { lua_pushcfunction(L, run_chunk); }

int cl_is_failure(lua_State *L, int results) { return results == 4 && lua_touserdata(L, -4) == &failure_mark; }
