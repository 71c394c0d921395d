// How `require` finds the host's modules. The `require` of scripts finds the public modules; the `require` of the
// host's parts also finds private parts.
#include "private.h"

// The last searcher: (name) -> the line about a public module with a similar name, or nothing.
static int suggest_module(lua_State *L) {
  lua_settop(L, 1);
  if (cl_state_of(L)->closing || lua_type(L, 1) != LUA_TSTRING) return 0;
  cl_push_require(L);
  lua_pushliteral(L, "runloop.hints");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "module");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

// Adds the last searcher, before the first search that may need it. A script that requires only modules of the host
// never needs this searcher.
static void prepare_to_suggest(lua_State *L) {
  if (cl_state_of(L)->suggests_modules) return;
  cl_state_of(L)->suggests_modules = 1;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "package") != LUA_TTABLE) return;
  if (lua_getfield(L, -1, "searchers") != LUA_TTABLE) return;
  lua_pushcfunction(L, suggest_module);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

// Makes a public module: (name, where it was found). The function's upvalue is the opener. Calls of functions that the
// module does not have will raise an error with a suggestion.
static int open_public(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  if (lua_istable(L, -1) && lua_type(L, 1) == LUA_TSTRING) {
    if (lua_getmetatable(L, -1)) lua_pop(L, 1);
    else cl_watch_missing(L, lua_tostring(L, 1));
  }
  return 1;
}

static void push_opener(lua_State *L, const cl_entry *entry) {
  cl_push_function(L, entry);
  lua_pushcclosure(L, open_public, 1);
}

// (package.preload, name) -> the function that makes the module, or nothing, so that `require` goes on looking.
static int find_module(lua_State *L) {
  static const char prefix[] = "runloop.";
  cl_state *state = cl_state_of(L);
  lua_settop(L, 2);
  if (state->closing || lua_type(L, 2) != LUA_TSTRING) return 0;
  int is_known = strncmp(lua_tostring(L, 2), prefix, sizeof prefix - 1) == 0 &&
                 ((cl_function)lua_touserdata(L, lua_upvalueindex(1)))(L);
  if (!is_known) return prepare_to_suggest(L), 0;
  push_opener(L, &state->openers[CL_OPEN_OTHER]);
  return 1;
}

// (name) -> the private part, or false
static int open_part(lua_State *L) {
  cl_push_function(L, &cl_state_of(L)->openers[CL_OPEN_PART]);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

// Registers modules lazily: Lua asks package.preload first, and honours its __index.
static int p_open_modules(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  push_opener(L, &cl_state_of(L)->openers[CL_OPEN_RUNLOOP]);
  lua_setfield(L, -2, "runloop");
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, find_module, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  return 0;
}

int cl_open_modules(lua_State *L, const cl_entry *openers, cl_function knows) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  cl_state_of(L)->openers = openers;
  cl_state_of(L)->open_part = open_part;
  lua_pushlightuserdata(L, (void *)knows);
  return cl_call_protected(L, p_open_modules, 1, 0);
}
