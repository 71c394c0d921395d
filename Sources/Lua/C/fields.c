// Checks options for the modules written in Lua. Valid options cost one lookup for each field. For a mistake, the part
// runloop.hints is loaded, which describes it.
#include "private.h"

// The kinds of values that a field accepts, as a set of bits.
enum {
  IS_STRING = 1,
  IS_BOOLEAN = 2,
  IS_TABLE = 4,
  IS_FUNCTION = 8,
  IS_NUMBER = 16,
  IS_COUNT = 32,
  IS_POSITIVE = 64,
  IS_ANY = 128,
  IS_REQUIRED = 256
};
static const struct {
  const char *name;
  int bits;
} kinds[] = {{"string", IS_STRING},  {"boolean", IS_BOOLEAN}, {"table", IS_TABLE}, {"function", IS_FUNCTION},
             {"number", IS_NUMBER},  {"seconds", IS_NUMBER},  {"count", IS_COUNT}, {"positive", IS_POSITIVE},
             {"bytes", IS_POSITIVE}, {"any", IS_ANY}};

// The registry has a weak table under this address. Its keys are declarations; its values are tables with the bits of
// their fields.
static const char compiled = 0;

static void push_compiled(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &compiled) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &compiled);
}

// Returns the bits for the kind, or the list of kinds, that is on top of the stack.
static int bits_of(lua_State *L) {
  if (lua_type(L, -1) == LUA_TBOOLEAN) return IS_ANY;
  if (lua_type(L, -1) == LUA_TSTRING) {
    const char *name = lua_tostring(L, -1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
      if (strcmp(kinds[i].name, name) == 0) return kinds[i].bits;
    return luaL_error(L, "there is no kind of options '%s'", name);
  }
  if (lua_type(L, -1) != LUA_TTABLE) return luaL_error(L, "a kind of options is expected");
  lua_getfield(L, -1, "required");
  int bits = lua_toboolean(L, -1) ? IS_REQUIRED : 0;
  lua_pop(L, 1);
  for (int i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    bits |= bits_of(L);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return bits;
}

// Pushes a table for the declaration at index 2: from the name of a field to its bits. Element 1 is the number of
// required fields; element 2 is true if integer keys are allowed.
static void compile(lua_State *L) {
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checkstack(L, 12, NULL);
  lua_Integer required = 0;
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    int bits = bits_of(L);
    lua_pop(L, 1);
    required += (bits & IS_REQUIRED) != 0;
    lua_pushvalue(L, -1);
    lua_pushinteger(L, bits);
    lua_rawset(L, -4);
  }
  lua_pushinteger(L, required);
  lua_rawseti(L, -2, 1);
  lua_getfield(L, -1, "...");
  lua_pushboolean(L, !lua_isnil(L, -1));
  lua_rawseti(L, -3, 2);
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_setfield(L, -2, "...");
  push_compiled(L);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

// If a float in the options equals an integer, such as 1e6, replaces it by the integer, so that texts show it without
// ".0". The float is on top of the stack, and the field's name below it.
static int become_integer(lua_State *L) {
  int is_whole;
  lua_Integer number = lua_tointegerx(L, -1, &is_whole);
  if (!is_whole) return 0;
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_pushinteger(L, number);
  lua_rawset(L, 1);
  lua_pushinteger(L, number);
  return 1;
}

// Whether the value on top of the stack has one of the kinds in `bits`. The field's name is below the value.
static int fits(lua_State *L, lua_Integer bits) {
  if (bits & IS_ANY) return 1;
  switch (lua_type(L, -1)) {
    case LUA_TSTRING: return (bits & IS_STRING) != 0;
    case LUA_TBOOLEAN: return (bits & IS_BOOLEAN) != 0;
    case LUA_TTABLE: return (bits & IS_TABLE) != 0;
    case LUA_TFUNCTION: return (bits & IS_FUNCTION) != 0;
    case LUA_TNUMBER: break;
    default: return 0;
  }
  if (!lua_isinteger(L, -1)) {
    if (bits & IS_NUMBER) return lua_tonumber(L, -1) >= 0;
    if (!(bits & (IS_COUNT | IS_POSITIVE)) || !become_integer(L)) return 0;
  }
  lua_Integer number = lua_tointeger(L, -1);
  return number > 0 ? (bits & (IS_NUMBER | IS_COUNT | IS_POSITIVE)) != 0
                    : number == 0 && (bits & (IS_NUMBER | IS_COUNT)) != 0;
}

// Whether the options, at index 1, are right. The bits by field are on top of the stack.
static int are_right(lua_State *L) {
  int bits_by_field = lua_gettop(L);
  lua_Integer required = 0;
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    lua_pushvalue(L, -2);
    lua_rawget(L, bits_by_field);
    lua_Integer bits = lua_tointeger(L, -1);
    if (lua_type(L, -3) != LUA_TSTRING) {
      if (!lua_isinteger(L, -3) || lua_rawgeti(L, bits_by_field, 2) != LUA_TBOOLEAN || !lua_toboolean(L, -1)) return 0;
      lua_settop(L, bits_by_field + 1);
      continue;
    }
    lua_pop(L, 1);
    if (!bits || !fits(L, bits)) return 0;
    required += (bits & IS_REQUIRED) != 0;
    lua_pop(L, 1);
  }
  lua_rawgeti(L, bits_by_field, 1);
  return required == lua_tointeger(L, -1);
}

int cl_check_fields(lua_State *L) {
  lua_settop(L, 4);
  if (lua_istable(L, 1)) {
    push_compiled(L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TTABLE) compile(L);
    int is_right = are_right(L);
    lua_settop(L, 4);
    if (is_right) return lua_settop(L, 1), 1;
  }
  cl_push_require(L);
  lua_pushliteral(L, "runloop.hints");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "refuse");
  for (int i = 1; i <= 4; i++) lua_pushvalue(L, i);
  lua_call(L, 4, 0);
  lua_settop(L, 1);
  return 1;
}
