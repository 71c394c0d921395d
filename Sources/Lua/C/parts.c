// The parts of the host that are written in Lua: their text and their globals. Among the globals is a `require` that
// also finds private parts. No other function finds these, since they are in no table of Lua's library.
#include "private.h"

#include <LuaModules.h>

// The surroundings --------------------------------------------------------------------------------------------------

// The registry keeps two tables under these addresses: the globals of all parts, and the loaded private parts by name.
// The globals are Lua's own functions and libraries: they stay the same if a script changes its globals. In the table
// of loaded parts, false means that no part has the name.
static const char surroundings = 0, loaded_parts = 0;

// require(name), for the parts. Upvalues: the loaded parts, and the state's own require.
static int require_part(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL && lua_type(L, 1) == LUA_TSTRING && cl_state_of(L)->open_part) {
    lua_settop(L, 1);
    lua_pushcfunction(L, cl_state_of(L)->open_part);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_rawset(L, lua_upvalueindex(1));
    cl_state_of(L)->names_are_old = 1;
  }
  if (lua_toboolean(L, 2)) return 1;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

// Pushes the surroundings, and makes them if the state has none. Call it before a script can change Lua's globals.
static void push_surroundings(lua_State *L) {
  static const char *const names[] = {
      "_G",     "assert", "collectgarbage", "coroutine", "debug",  "error",  "getmetatable", "io",
      "ipairs", "load",   "loadfile",       "math",      "next",   "os",     "package",      "pairs",
      "pcall",  "print",  "rawequal",       "rawget",    "rawlen", "rawset", "select",       "setmetatable",
      "string", "table",  "tonumber",       "tostring",  "type",   "utf8",   "xpcall"};
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &surroundings) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, sizeof names / sizeof *names + 1);
  lua_pushglobaltable(L);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_pushstring(L, names[i]);
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    lua_rawset(L, -4);
  }
  lua_pushliteral(L, "require");
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &loaded_parts);
  lua_pushvalue(L, -2);
  lua_rawget(L, -4);
  lua_pushcclosure(L, require_part, 2);
  lua_rawset(L, -4);
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "__index");
  lua_rotate(L, -2, 1);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &surroundings);
}

void cl_push_require(lua_State *L) {
  push_surroundings(L);
  lua_getfield(L, -1, "require");
  lua_remove(L, -2);
}

void cl_push_loaded_parts(lua_State *L) {
  push_surroundings(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &loaded_parts);
  lua_remove(L, -2);
}

// Loading ------------------------------------------------------------------------------------------------------------

typedef struct text {
  const char *start;
  size_t length;
} text;

static int p_load_own(lua_State *L) {
  const text *text = lua_touserdata(L, 1);
  if (luaL_loadbuffer(L, text->start, text->length, CL_SOURCE) != LUA_OK) return lua_error(L);
  push_surroundings(L);
  lua_setupvalue(L, -2, 1);
  return 1;
}

int cl_load_own(lua_State *L, const char *start, size_t length) {
  text text = {start, length};
  lua_pushlightuserdata(L, &text);
  return cl_call_protected(L, p_load_own, 1, 1);
}

static int p_push_part(lua_State *L) {
  cl_push_require(L);
  lua_pushstring(L, lua_touserdata(L, 1));
  lua_call(L, 1, 1);
  return 1;
}

int cl_push_part(lua_State *L, const char *name) {
  lua_pushlightuserdata(L, (void *)name);
  return cl_call_protected(L, p_push_part, 1, 1);
}

// Tries the module's bytecode first; a Lua that refuses it (another version, other sizes) compiles the text.
int cl_load_module(lua_State *L, const char *name) {
  if (!lua_modules_has(name)) {
    (void)cl_push_text(L, "there is no such module", 23);
    return LUA_ERRERR;
  }
  size_t length;
  const char *code = lua_modules_code(name, &length);
  if (code) {
    if (cl_load_own(L, code, length) == LUA_OK) return LUA_OK;
    lua_pop(L, 1);
  }
  const char *text = lua_modules_find(name);
  return cl_load_own(L, text, strlen(text));
}

int cl_load_prelude(lua_State *L) { return cl_load_module(L, "runloop.prelude"); }
int cl_load_notifications(lua_State *L) { return cl_load_module(L, "runloop.notifications"); }

int cl_has_module(const char *name) { return lua_modules_has(name); }

int cl_push_module_text(lua_State *L, const char *name) {
  const char *text = lua_modules_find(name);
  return text ? cl_push_text(L, text, strlen(text)) : cl_push_text(L, "", 0);
}
