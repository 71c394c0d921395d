// The table of functions and the class of connections, for Lua.
#include <lauxlib.h>

#include "private.h"

// Places --------------------------------------------------------------------------------------------------------------

static int push_options(lua_State *L, PQconninfoOption *options, int only_set) {
  lua_newtable(L);
  for (PQconninfoOption *at = options; at && at->keyword; at++) {
    if (only_set && !at->val) continue;
    lua_pushstring(L, only_set ? at->val : "string");
    lua_setfield(L, -2, at->keyword);
  }
  if (options) pq.PQconninfoFree(options);
  return 1;
}

// parse(text) -> table of keywords; nil if it is malformed
static int parse(lua_State *L) {
  char *problem = NULL;
  PQconninfoOption *options = pq.PQconninfoParse(luaL_checkstring(L, 1), &problem);
  // libpq's message shows parts of the text: a password may be in it.
  if (problem) pq.PQfreemem(problem);
  return options ? push_options(L, options, 1) : 0;
}

// keywords() -> table by keyword
static int keywords(lua_State *L) { return push_options(L, pq.PQconndefaults(), 0); }

static void set_functions(lua_State *L, const luaL_Reg *functions) {
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  luaL_setfuncs(L, functions, 2);
}

int cpostgres_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"parse", parse},
                                       {"keywords", keywords},
                                       {"refused", cpostgres_refused},
                                       {"pool", cpostgres_new_pool},
                                       {"quick", cpostgres_new_quick},
                                       {"on", cpostgres_on},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"poll", cpostgres_poll},
                                     {"put_copy", cpostgres_put_copy},
                                     {"end_copy", cpostgres_end_copy},
                                     {"get_copy", cpostgres_get_copy},
                                     {NULL, NULL}};
  lua_settop(L, 2);
  luaL_newmetatable(L, CPOSTGRES_CLASS);
  set_functions(L, cpostgres_methods);
  set_functions(L, methods);
  cpostgres_add_quick_methods(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_newtable(L);
  set_functions(L, cpostgres_functions);
  set_functions(L, functions);
  return 1;
}
