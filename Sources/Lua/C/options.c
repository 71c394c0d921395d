// Reads the arguments of functions that clients of protocols call for every message. All arguments are read in one C
// call, since each call between Swift and C costs time.
#include "private.h"

static int is_third(int third, int option, const char *key, const char *name, size_t length) {
  return third == option && memcmp(key, name, length) == 0;
}

static int read_third(lua_State *L, cl_options *found) {
  switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
      if (!lua_isinteger(L, -1)) return 0;
      found->kind = CL_IS_INTEGER;
      found->integer = lua_tointeger(L, -1);
      return 1;
    case LUA_TBOOLEAN:
      found->kind = CL_IS_BOOLEAN;
      found->integer = lua_toboolean(L, -1);
      return 1;
    case LUA_TSTRING:
      found->kind = CL_IS_TEXT;
      found->text = lua_tolstring(L, -1, &found->length);
      return 1;
    default: return 0;
  }
}

static int read_max(lua_State *L, cl_options *found) {
  if (!lua_isinteger(L, -1)) return 0;
  found->max = lua_tointeger(L, -1);
  return found->max > 0;
}

static int read_timeout(lua_State *L, cl_options *found) {
  if (lua_type(L, -1) != LUA_TNUMBER) return 0;
  found->timeout = lua_tonumber(L, -1);
  return found->timeout >= 0;
}

// Reads the option whose value is on top of the stack and whose key is below it.
static int read_option(lua_State *L, int third, cl_options *found) {
  if (lua_type(L, -2) != LUA_TSTRING) return 0;
  size_t length;
  const char *key = lua_tolstring(L, -2, &length);
  switch (length) {
    case 3: return memcmp(key, "max", 3) == 0 && read_max(L, found);
    case 4: return is_third(third, CL_SKIP, key, "skip", 4) && read_third(L, found);
    case 5: return is_third(third, CL_WORDS_OPTION, key, "words", 5) && read_third(L, found);
    case 6: return is_third(third, CL_ADJUST, key, "adjust", 6) && read_third(L, found);
    case 7: return memcmp(key, "timeout", 7) == 0 && read_timeout(L, found);
    default: return 0;
  }
}

int cl_read_options(lua_State *L, int table, int third, cl_options *found) {
  found->timeout = -1;
  found->max = 0;
  found->kind = CL_IS_ABSENT;
  if (lua_type(L, table) != LUA_TTABLE) return 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (!read_option(L, third, found)) {
      lua_pop(L, 2);
      return 0;
    }
    lua_pop(L, 1);
  }
  return 1;
}

// The pieces that were measured last, and the texts of the numbers among them.
static _Thread_local struct {
  const char *start;
  size_t length;
} pieces[CL_FEW_PIECES];
static _Thread_local char numbers[CL_FEW_PIECES][64];
static _Thread_local int piece_count;

int cl_measure_pieces(lua_State *L, int first, size_t *total) {
  int count = lua_gettop(L) - first + 1;
  size_t sum = 0;
  for (int i = 0; i < count; i++) {
    int type = lua_type(L, first + i);
    if (type == LUA_TSTRING) {
      pieces[i].start = lua_tolstring(L, first + i, &pieces[i].length);
    } else if (type == LUA_TNUMBER) {
      pieces[i].start = numbers[i];
      pieces[i].length = cl_number_text(L, first + i, numbers[i]);
    } else {
      return first + i;
    }
    sum += pieces[i].length;
  }
  piece_count = count;
  *total = sum;
  return 0;
}

// Copies the first and the last bytes, which may overlap. The size is a constant, so memcpy needs no function call.
#define COPY_ENDS(size) (memcpy(place, start, size), memcpy(place + length - (size), start + length - (size), size))

// Costs if removed: 20 instructions for each piece.
static void copy_piece(char *place, const char *start, size_t length) {
  if (length > 16) memcpy(place, start, length);
  else if (length >= 8) COPY_ENDS(8);
  else if (length >= 4) COPY_ENDS(4);
  else if (length >= 2) COPY_ENDS(2);
  else if (length) *place = *start;
}

void cl_copy_pieces(char *place) {
  for (int i = 0; i < piece_count; i++) {
    copy_piece(place, pieces[i].start, pieces[i].length);
    place += pieces[i].length;
  }
}
