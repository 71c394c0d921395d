// The functions and values of the codec.
#include <stdlib.h>

#include "private.h"

static const char BUFFER[] = "runloop.json.buffer";

// Scripts can find this finalizer by debug functions, and call it with any value.
static int collect_buffer(lua_State *L) {
  json_buffer *buffer = luaL_checkudata(L, 1, BUFFER);
  free(buffer->bytes);
  *buffer = (json_buffer){0};
  return 0;
}

static int mark(lua_State *L, int upvalue, const char *name) {
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 0);
    lua_newtable(L);
  } else if (lua_type(L, 1) != LUA_TTABLE) {
    return json_refuse(L, 1, "%s: argument #1 must be a table", name);
  }
  if (lua_getmetatable(L, 1)) {
    if (!lua_rawequal(L, -1, lua_upvalueindex(JSON_ARRAY)) && !lua_rawequal(L, -1, lua_upvalueindex(JSON_OBJECT)))
      return json_refuse(L, 0, "%s: the table has a metatable of its own: copy it into a plain table first", name);
    lua_pop(L, 1);
  }
  lua_pushvalue(L, lua_upvalueindex(upvalue));
  lua_setmetatable(L, 1);
  lua_settop(L, 1);
  return 1;
}

static int json_array(lua_State *L) { return mark(L, JSON_ARRAY, "json.array"); }
static int json_object(lua_State *L) { return mark(L, JSON_OBJECT, "json.object"); }

static void push_mark(lua_State *L, const char *name) {
  lua_createtable(L, 0, 1);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
}

int json_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"encode", json_encode}, {"decode", json_decode}, {"array", json_array}, {"object", json_object}, {NULL, NULL}};
  luaL_checkstack(L, 8, NULL);
  luaL_newlibtable(L, functions);
  push_mark(L, "json.array");
  push_mark(L, "json.object");
  json_buffer *buffer = lua_newuserdatauv(L, sizeof *buffer, 0);
  *buffer = (json_buffer){0};
  luaL_newmetatable(L, BUFFER);
  lua_pushcfunction(L, collect_buffer);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  luaL_setfuncs(L, functions, 4);
  // null is a light userdata, which is the same in all threads.
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  return 1;
}
