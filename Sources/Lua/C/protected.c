// Protected calls from Swift: errors that Lua raises in them become a status. They pass texts through the scratch
// buffer.
#include "private.h"

#include <stdlib.h>

// The scratch buffer -------------------------------------------------------------------------------------------------

void cl_reset(cl_state *state) { state->length = 0; }

int cl_write(cl_state *state, const void *bytes, size_t length) {
  if (!cl_reserve(&state->scratch, state->length, &state->capacity, length, 256)) return 0;
  memcpy(state->scratch + state->length, bytes, length);
  state->length += length;
  return 1;
}

// Moves the scratch buffer out of the state. The script's call hook also runs when Lua calls a C function of the host,
// and the hook may call the host, which would overwrite the buffer.
cl_taken cl_take_scratch(cl_state *state) {
  cl_taken taken = {state->scratch, state->length, state->capacity};
  state->scratch = NULL;
  state->length = state->capacity = 0;
  return taken;
}

void cl_return_scratch(cl_state *state, cl_taken taken) {
  free(state->scratch);
  state->scratch = taken.bytes;
  state->length = taken.length;
  state->capacity = taken.capacity;
}

// Protected calls ----------------------------------------------------------------------------------------------------

// Called if there is no memory for a larger stack. Puts nil in place of the arguments, as the error value.
int cl_no_room(lua_State *L, int arguments) {
  lua_pop(L, arguments);
  lua_pushnil(L);  // at worst in one of the spare slots that Lua keeps at the end of every stack
  return LUA_ERRMEM;
}

_Thread_local int cl_own_calls;

int cl_call_protected(lua_State *L, lua_CFunction function, int arguments, int results) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, arguments);
  lua_pushcfunction(L, function);
  lua_insert(L, -1 - arguments);
  cl_own_calls++;
  int status = lua_pcall(L, arguments, results, 0);
  cl_own_calls--;
  return status;
}

const char *cl_chunk_mode;

static int p_load_file(lua_State *L) {
  int status = luaL_loadfilex(L, lua_touserdata(L, 1), cl_chunk_mode);
  cl_state_of(L)->is_unreadable = status == LUA_ERRFILE;
  return status == LUA_OK ? 1 : lua_error(L);
}

int cl_load_file(lua_State *L, const char *path) {
  lua_pushlightuserdata(L, (void *)path);
  return cl_call_protected(L, p_load_file, 1, 1);
}

static int p_load_text(lua_State *L) {
  int status = luaL_loadbuffer(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2), lua_touserdata(L, 3));
  return status == LUA_OK ? 1 : lua_error(L);
}

int cl_load_text(lua_State *L, const char *text, size_t length, const char *chunk_name) {
  lua_pushlightuserdata(L, (void *)text);
  lua_pushinteger(L, (lua_Integer)length);
  lua_pushlightuserdata(L, (void *)chunk_name);
  return cl_call_protected(L, p_load_text, 3, 1);
}

static int p_push_text(lua_State *L) {
  lua_pushlstring(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

int cl_push_text(lua_State *L, const char *text, size_t length) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)text);
  lua_pushinteger(L, (lua_Integer)length);
  return cl_call_protected(L, p_push_text, 2, 1);
}

int cl_push_scratch(lua_State *L) {
  cl_state *state = cl_state_of(L);
  cl_taken taken = cl_take_scratch(state);
  int status = cl_push_text(L, taken.bytes ? taken.bytes : "", taken.length);
  cl_return_scratch(state, taken);
  return status;
}

static int p_set_global(lua_State *L) {
  lua_pushvalue(L, 1);
  lua_setglobal(L, lua_touserdata(L, 2));
  return 0;
}

int cl_set_global(lua_State *L, const char *name) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 1);
  lua_pushlightuserdata(L, (void *)name);
  return cl_call_protected(L, p_set_global, 2, 0);
}

static int p_get_global(lua_State *L) {
  lua_getglobal(L, lua_touserdata(L, 1));
  return 1;
}

int cl_get_global(lua_State *L, const char *name) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)name);
  return cl_call_protected(L, p_get_global, 1, 1);
}

static int p_equal(lua_State *L) {
  lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPEQ));
  return 1;
}

int cl_equal(lua_State *L, int index, int other) {
  if (lua_rawequal(L, index, other)) return 1;
  int type = lua_type(L, index);
  // Only tables and userdata have an __eq metamethod.
  if (type != lua_type(L, other) || (type != LUA_TTABLE && type != LUA_TUSERDATA)) return 0;
  index = lua_absindex(L, index), other = lua_absindex(L, other);
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0), -1;
  lua_pushvalue(L, index);
  lua_pushvalue(L, other);
  if (cl_call_protected(L, p_equal, 2, 1) != LUA_OK) return -1;
  int is_equal = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is_equal;
}

static int p_collect_values(lua_State *L) {
  int count = lua_gettop(L);
  lua_createtable(L, count, 0);
  lua_insert(L, 1);
  for (int i = count; i > 0; i--) lua_rawseti(L, 1, i);
  return 1;
}

int cl_collect_values(lua_State *L, int count) { return cl_call_protected(L, p_collect_values, count, 1); }
