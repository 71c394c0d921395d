// Arguments, errors and answers of all modules of this target.
#include "codecs.h"

#include <errno.h>
#include <errors.h>
#include <stdarg.h>
#include <string.h>

int codecs_wrong(lua_State *L, int index, const char *function, const char *expected) {
  int is_there = index <= lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  lua_getfield(L, lua_upvalueindex(1), "wrong");
  lua_pushstring(L, function);
  lua_pushfstring(L, "argument #%d", index);
  lua_pushstring(L, expected);
  if (is_there) lua_pushvalue(L, index);
  else lua_pushnil(L);
  lua_call(L, 4, 0);
  return 0;  // never
}

const char *codecs_check_string(lua_State *L, int index, const char *function, size_t *length) {
  if (lua_type(L, index) != LUA_TSTRING) codecs_wrong(L, index, function, "a string");
  return lua_tolstring(L, index, length);
}

int codecs_unknown(lua_State *L, int index, const char *function, const char *kind) {
  int known = lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  lua_getfield(L, lua_upvalueindex(1), "unknown_name");
  lua_pushstring(L, function);
  lua_pushstring(L, kind);
  lua_pushvalue(L, index);
  lua_pushvalue(L, known);
  lua_call(L, 4, 0);
  return 0;  // never
}

int codecs_raise(lua_State *L, const char *text, ...) {
  luaL_checkstack(L, 8, NULL);
  lua_getfield(L, lua_upvalueindex(1), "raise");
  lua_pushliteral(L, "%s");
  va_list arguments;
  va_start(arguments, text);
  lua_pushvfstring(L, text, arguments);
  va_end(arguments);
  lua_call(L, 2, 0);
  return 0;  // never
}

int codecs_refuse(lua_State *L, const char *code, const char *text, ...) {
  luaL_checkstack(L, 8, NULL);
  lua_pushnil(L);
  lua_pushfstring(L, "%s: ", code);
  va_list arguments;
  va_start(arguments, text);
  lua_pushvfstring(L, text, arguments);
  va_end(arguments);
  lua_concat(L, 2);
  lua_pushstring(L, code);
  return 3;
}

int codecs_use(lua_State *L, struct linux_library *library) {
  char problem[512];
  int error = linux_use_library(library, problem, sizeof problem);
  if (!error) return 0;
  if (error != ENOPKG) return codecs_refuse(L, linux_error_name(error), "%s", problem);
  if (strstr(problem, "apt install")) return codecs_refuse(L, "ENOENT", "%s", problem);
  return codecs_refuse(L, "ENOENT", "%s (apt install %s)", problem, library->package);
}

void codecs_push_library(lua_State *L, const luaL_Reg *functions) {
  luaL_checkstack(L, 8, NULL);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  luaL_setfuncs(L, functions, 1);
}
