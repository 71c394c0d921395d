// Finds out why a coroutine cannot be suspended: the C function or metamethod through which Lua cannot yield.
#include "CLuaSupport.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char text[96];

// Whether Lua can yield through a C function of the standard library: these three continue after the wait.
static int is_suspendable(const char *name) {
  return strcmp(name, "pcall") == 0 || strcmp(name, "xpcall") == 0 || strcmp(name, "dofile") == 0;
}

// Whether the C function on top of the stack says, by an entry in the registry under its address, that Lua can yield
// through it.
static int is_continued(lua_State *L) {
  int type = lua_rawgetp(L, LUA_REGISTRYINDEX, (void *)lua_tocfunction(L, -1));
  lua_pop(L, 1);
  return type == LUA_TBOOLEAN;
}

// Finds the function on top of the stack among the globals and the fields of global tables: "table.sort". Uses raw
// access only, so that no metamethod runs and nothing is allocated. Pops the function.
static const char *global_name(lua_State *L) {
  const char *found = NULL;
  int function = lua_gettop(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  lua_pushnil(L);
  while (!found && lua_next(L, function + 1)) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      if (lua_rawequal(L, -1, function)) {
        snprintf(text, sizeof text, "%s", lua_tostring(L, -2));
        found = text;
      } else if (lua_type(L, -1) == LUA_TTABLE && !lua_rawequal(L, -1, function + 1)) {
        lua_pushnil(L);
        while (!found && lua_next(L, function + 3)) {
          if (lua_type(L, -2) == LUA_TSTRING && lua_rawequal(L, -1, function)) {
            snprintf(text, sizeof text, "%s.%s", lua_tostring(L, function + 2), lua_tostring(L, -2));
            found = text;
          }
          lua_settop(L, function + 4);
        }
      }
    }
    lua_settop(L, function + 2);
  }
  lua_settop(L, function - 1);
  return found;
}

const char *cl_blocker(lua_State *L) {
  lua_Debug debug;
  if (!lua_checkstack(L, 10)) return NULL;
  // Search a limited number of levels: lua_getstack counts from the innermost level each time, so in a deep recursion
  // searching all levels would take minutes.
  for (int level = 1; level < 5000 && lua_getstack(L, level, &debug); level++) {
    lua_getinfo(L, "Snf", &debug);
    // Lua's core calls these metamethods from C: a finalizer, and the closing of a variable.
    int is_metamethod = debug.name && strcmp(debug.namewhat, "metamethod") == 0;
    if (is_metamethod && (strcmp(debug.name, "__gc") == 0 || strcmp(debug.name, "close") == 0)) {
      lua_pop(L, 1);
      return strcmp(debug.name, "close") == 0 ? "__close" : "__gc";
    }
    if (*debug.what != 'C' || is_continued(L)) {
      lua_pop(L, 1);
      continue;
    }
    const char *name = global_name(L);
    if (!name) name = debug.name;
    if (name && !is_suspendable(name)) return name;
  }
  return NULL;
}
