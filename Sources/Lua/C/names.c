// Values that are sent to other states by name: values of loaded modules, which the other state has as well.
#include "private.h"

#include <stdio.h>

static int has_name(lua_State *L, int names) {
  lua_pushvalue(L, -1);
  int found = lua_rawget(L, names) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}

// Expects the module's table on top of the stack, and its path so far in `path`.
static void name_fields(lua_State *L, int names, char *path, size_t length, int depth, int *budget) {
  luaL_checkstack(L, 8, NULL);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    int type = lua_type(L, -1);
    size_t key_length = 0;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &key_length) : NULL;
    int wanted = type == LUA_TFUNCTION || type == LUA_TTABLE || type == LUA_TUSERDATA || type == LUA_TLIGHTUSERDATA;
    if (key && wanted && strlen(key) == key_length && length + key_length + 1 < 200 && --*budget > 0 &&
        !has_name(L, names)) {
      memcpy(path + length, key, key_length + 1);
      lua_pushvalue(L, -1);
      lua_pushlstring(L, path, length + key_length + 1);
      lua_rawset(L, names);
      if (type == LUA_TTABLE && depth > 0) name_fields(L, names, path, length + key_length + 1, depth - 1, budget);
    }
    lua_pop(L, 1);
  }
}

static void build_names(lua_State *L) {
  cl_state *state = cl_state_of(L);
  luaL_checkstack(L, 12, NULL);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  int names = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  int loaded = lua_gettop(L);
  cl_push_loaded_parts(L);
  state->named_modules = 0;
  // Names the modules themselves first, so that each module is known by its own name and not as a field of another
  // module. Public modules come before parts.
  for (int turn = 0; turn < 4; turn++) {
    int round = turn / 2;
    lua_pushnil(L);
    while (lua_next(L, loaded + turn % 2)) {
      if (turn == 0) state->named_modules++;
      size_t length = 0;
      const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &length) : NULL;
      char path[256];
      if (name && strlen(name) == length && length < 100) {
        memcpy(path, name, length + 1);
        int type = lua_type(L, -1);
        if (round == 0) {
          if (type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA) {
            lua_pushvalue(L, -1);
            lua_pushlstring(L, path, length + 1);
            lua_rawset(L, names);
          }
        } else if (type == LUA_TTABLE && strcmp(name, "_G") != 0) {
          int budget = 5000;
          name_fields(L, names, path, length + 1, 2, &budget);
        } else if (type == LUA_TTABLE) {
          // Give names only to Lua's basic functions, which every state has. Functions of the script are copied.
          lua_pushnil(L);
          while (lua_next(L, -2)) {
            if (lua_iscfunction(L, -1) && lua_type(L, -2) == LUA_TSTRING && !has_name(L, names)) {
              snprintf(path + 3, sizeof path - 3, "%s", lua_tostring(L, -2));
              lua_pushvalue(L, -1);
              lua_pushlstring(L, path, 3 + strlen(path + 3) + 1);
              lua_rawset(L, names);
            }
            lua_pop(L, 1);
          }
        }
      }
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 2);
  if (state->names) luaL_unref(L, LUA_REGISTRYINDEX, state->names);
  lua_pushvalue(L, names);
  state->names = luaL_ref(L, LUA_REGISTRYINDEX);
}

static lua_Integer count_modules(lua_State *L, int loaded) {
  lua_Integer count = 0;
  lua_pushnil(L);
  for (; lua_next(L, loaded); count++) lua_pop(L, 1);
  return count;
}

// The __newindex of package.loaded: (package.loaded, name, module).
static int note_module(lua_State *L) {
  lua_settop(L, 3);
  cl_state_of(L)->names_are_old = 1;
  lua_rawset(L, 1);
  return 0;
}

// From the first parcel on, makes Lua report new modules, by a metatable of package.loaded. Counting the modules for
// each parcel instead would take an eighth of its time. If a script has set a metatable, that one stays.
static void guard_modules(lua_State *L, int loaded) {
  if (lua_getmetatable(L, loaded)) {
    lua_pop(L, 1);
    return;
  }
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, note_module);
  lua_setfield(L, -2, "__newindex");
  cl_state_of(L)->modules_guard = lua_topointer(L, -1);
  lua_setmetatable(L, loaded);
}

static int are_guarded(lua_State *L, int loaded) {
  if (!lua_getmetatable(L, loaded)) return 0;
  int are = lua_topointer(L, -1) == cl_state_of(L)->modules_guard;
  lua_pop(L, 1);
  return are;
}

void cl_push_names(lua_State *L) {
  cl_state *state = cl_state_of(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  int loaded = lua_gettop(L);
  int are_old = !state->names ||
                (are_guarded(L, loaded) ? state->names_are_old : count_modules(L, loaded) != state->named_modules);
  if (are_old) {
    guard_modules(L, loaded);
    state->names_are_old = 0;
    build_names(L);
  } else {
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->names);
  }
  lua_remove(L, loaded);
}
