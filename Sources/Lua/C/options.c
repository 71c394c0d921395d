// Arguments of calls that clients of protocols make for every message: read in one go, since each crossing costs.
#include "private.h"

static int read_value(lua_State *L, cl_option *option) {
  switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
      option->kind = lua_isinteger(L, -1) ? CL_IS_INTEGER : CL_IS_FLOAT;
      if (option->kind == CL_IS_INTEGER) option->integer = lua_tointeger(L, -1);
      option->number = lua_tonumber(L, -1);
      return 1;
    case LUA_TBOOLEAN:
      option->kind = CL_IS_BOOLEAN;
      option->integer = lua_toboolean(L, -1);
      return 1;
    case LUA_TSTRING:
      option->kind = CL_IS_TEXT;
      option->text = lua_tolstring(L, -1, &option->length);
      return 1;
    default: return 0;
  }
}

static int is_name(const char *key, size_t length, const char *name) {
  return length == strlen(name) && memcmp(key, name, length) == 0;
}

int cl_read_options(lua_State *L, int table, const char *third, cl_options *found) {
  found->timeout.kind = found->max.kind = found->third.kind = CL_IS_ABSENT;
  if (lua_type(L, table) != LUA_TTABLE) return 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    size_t length;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &length) : NULL;
    cl_option *option = NULL;
    if (!key) option = NULL;
    else if (is_name(key, length, third)) option = &found->third;
    else if (is_name(key, length, "timeout")) option = &found->timeout;
    else if (is_name(key, length, "max")) option = &found->max;
    if (!option || !read_value(L, option)) {
      lua_pop(L, 2);
      return 0;
    }
    lua_pop(L, 1);
  }
  return 1;
}

// The texts of the numbers among the arguments, between the two functions below.
static _Thread_local char numbers[CL_FEW_PIECES][64];
static _Thread_local size_t lengths[CL_FEW_PIECES];

int cl_measure_pieces(lua_State *L, int first, size_t *total) {
  int last = lua_gettop(L);
  *total = 0;
  for (int i = first; i <= last; i++) {
    switch (lua_type(L, i)) {
      case LUA_TSTRING: *total += lua_rawlen(L, i); break;
      case LUA_TNUMBER:
        lengths[i - first] = cl_number_text(L, i, numbers[i - first]);
        *total += lengths[i - first];
        break;
      default: return i;
    }
  }
  return 0;
}

void cl_copy_pieces(lua_State *L, int first, char *place) {
  int last = lua_gettop(L);
  for (int i = first; i <= last; i++) {
    size_t length = lengths[i - first];
    const char *piece = numbers[i - first];
    if (lua_type(L, i) == LUA_TSTRING) piece = lua_tolstring(L, i, &length);
    memcpy(place, piece, length);
    place += length;
  }
}
