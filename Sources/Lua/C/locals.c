// rl.locals: values of a task. Tasks and callbacks that the task creates inherit them.
//
// The registry has two tables. One contains the table of values of each coroutine, by slot. The other one is weak: it
// contains, for each object whose callback will run later, the values with which the callback runs. A table of values
// never changes: setting a value makes a new table. So a new task inherits all values by one assignment. Neither table
// exists before the first value is set.
#include "private.h"

static void push_tables(lua_State *L, cl_state *state) { lua_rawgeti(L, LUA_REGISTRYINDEX, state->locals); }

// Pushes the values of a slot. Returns whether there are any values; if not, pushes nothing.
static int push_values(lua_State *L, cl_state *state, uint32_t slot) {
  if (!state->locals) return 0;
  push_tables(L, state);
  int type = lua_rawgeti(L, -1, slot);
  lua_remove(L, -2);
  if (type == LUA_TTABLE) return 1;
  lua_pop(L, 1);
  return 0;
}

static void check_name(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING) return;
  cl_push_position(L);
  lua_pushliteral(L, "rl.locals: a name must be a string, got ");
  // The name as a message shows it: the number itself, or the type of any other value.
  if (lua_type(L, 2) == LUA_TNUMBER) luaL_tolstring(L, 2, NULL);
  else lua_pushfstring(L, "a %s", luaL_typename(L, 2));
  lua_concat(L, 3);
  lua_error(L);
}

static int get_local(lua_State *L) {  // (rl.locals, name)
  check_name(L);
  cl_state *state = cl_state_of(L);
  if (!push_values(L, state, state->running_slot)) return 0;
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

// Pushes a copy of the running task's values.
static void push_copy(lua_State *L, cl_state *state) {
  lua_createtable(L, 0, 4);
  if (!push_values(L, state, state->running_slot)) return;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
}

static void make_tables(lua_State *L, cl_state *state) {
  if (state->locals) return;
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_newtable(L);
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
  state->inheritances = luaL_ref(L, LUA_REGISTRYINDEX);
  state->locals = luaL_ref(L, LUA_REGISTRYINDEX);
}

static int set_local(lua_State *L) {  // (rl.locals, name, value)
  check_name(L);
  lua_settop(L, 3);
  cl_state *state = cl_state_of(L);
  make_tables(L, state);
  push_tables(L, state);
  push_copy(L, state);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, -3);
  lua_pushnil(L);
  if (lua_next(L, -2)) {
    lua_pop(L, 2);
  } else {
    lua_pop(L, 1);
    lua_pushboolean(L, 0);  // the last value was removed
  }
  lua_rawseti(L, -2, state->running_slot);
  return 0;
}

static int next_local(lua_State *L) {  // (copy of the values, name)
  lua_settop(L, 2);
  return lua_next(L, 1) ? 2 : 0;
}

static int local_pairs(lua_State *L) {
  lua_pushcfunction(L, next_local);
  push_copy(L, cl_state_of(L));
  return 2;
}

int cl_new_locals(lua_State *L) {
  lua_settop(L, 0);
  lua_newtable(L);
  lua_createtable(L, 0, 4);
  lua_pushcfunction(L, get_local);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, set_local);
  lua_setfield(L, -2, "__newindex");
  lua_pushcfunction(L, local_pairs);
  lua_setfield(L, -2, "__pairs");
  lua_pushliteral(L, "locals");
  lua_setfield(L, -2, "__name");
  lua_setmetatable(L, -2);
  return 1;
}

void cl_bequeath_locals(lua_State *L, int object) {
  cl_state *state = cl_state_of(L);
  object = lua_absindex(L, object);
  if (!push_values(L, state, state->running_slot)) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->inheritances);
  lua_pushvalue(L, object);
  lua_rotate(L, -3, -1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

static int p_set_values(lua_State *L) {  // (values, slot)
  push_tables(L, cl_state_of(L));
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, lua_tointeger(L, 2));
  return 0;
}

// Pops a table of values and stores it for a slot. If there is no memory, the slot then has no values.
static void give(lua_State *L, uint32_t slot) {
  lua_pushinteger(L, slot);
  if (cl_call_protected(L, p_set_values, 2, 0) != LUA_OK) lua_pop(L, 1);
}

void cl_hand_locals_down(cl_state *state, uint32_t slot) {
  lua_State *L = state->main;
  if (lua_checkstack(L, 24) && push_values(L, state, state->running_slot)) give(L, slot);
}

void cl_adopt_locals(cl_state *state, lua_State *from, int object, uint32_t slot) {
  if (!lua_checkstack(from, 24)) return;
  lua_pushvalue(from, object);
  lua_rawgeti(from, LUA_REGISTRYINDEX, state->inheritances);
  lua_insert(from, -2);
  if (lua_rawget(from, -2) == LUA_TTABLE) {
    lua_remove(from, -2);
    give(from, slot);
  } else {
    lua_pop(from, 2);
  }
}

// Replacing an existing element cannot raise.
void cl_drop_locals(cl_state *state, uint32_t slot) {
  lua_State *L = state->main;
  if (!lua_checkstack(L, 4) || !push_values(L, state, slot)) return;
  lua_pop(L, 1);
  push_tables(L, state);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
}
