// The codec's library, and what both halves of it share.
#include <stdlib.h>

#include "private.h"

void json_grow(lua_State *L, json_buffer *buffer, size_t count) {
  size_t capacity = buffer->capacity ? buffer->capacity : 1024;
  while (capacity - buffer->length < count) capacity *= 2;
  char *larger = realloc(buffer->bytes, capacity);
  if (!larger) luaL_error(L, "not enough memory");
  buffer->bytes = larger;
  buffer->capacity = capacity;
}

void json_release(json_buffer *buffer) {
  buffer->length = 0;
  if (buffer->capacity <= 65536) return;
  free(buffer->bytes);
  *buffer = (json_buffer){0};
}

static int collect_buffer(lua_State *L) {
  json_buffer *buffer = lua_touserdata(L, 1);
  free(buffer->bytes);
  *buffer = (json_buffer){0};
  return 0;
}

int json_utf8_length(const unsigned char *p, const unsigned char *end) {
  unsigned char first = *p;
  int length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || end - p < length) return 0;
  for (int i = 1; i < length; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  // Spelled longer than need be, a surrogate, or beyond the last code point.
  if ((first == 0xE0 && p[1] < 0xA0) || (first == 0xED && p[1] > 0x9F) || (first == 0xF0 && p[1] < 0x90) ||
      (first == 0xF4 && p[1] > 0x8F))
    return 0;
  return length;
}

static int mark(lua_State *L, int upvalue, const char *name) {
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 0);
    lua_newtable(L);
  } else if (lua_type(L, 1) != LUA_TTABLE) {
    return luaL_error(L, "%s: argument #1 must be a table, got %s", name, luaL_typename(L, 1));
  }
  if (lua_getmetatable(L, 1)) {
    if (!lua_rawequal(L, -1, lua_upvalueindex(JSON_ARRAY)) && !lua_rawequal(L, -1, lua_upvalueindex(JSON_OBJECT)))
      return luaL_error(L, "%s: the table has a metatable of its own: copy it into a plain table first", name);
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
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, collect_buffer);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_setfuncs(L, functions, 3);
  // One that crosses to other threads and is the same there.
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  return 1;
}
