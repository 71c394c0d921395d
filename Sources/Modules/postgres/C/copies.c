// The data of copies.
#include <lauxlib.h>

#include "private.h"

int cpostgres_put_copy(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 2, &length);
  int done = pq.PQputCopyData(cpostgres_self(L)->connection, bytes, (int)length);
  if (done < 0) return lua_pushnil(L), 1;
  return lua_pushboolean(L, done), 1;
}

int cpostgres_end_copy(lua_State *L) {
  int done = pq.PQputCopyEnd(cpostgres_self(L)->connection, luaL_optstring(L, 2, NULL));
  if (done < 0) return lua_pushnil(L), 1;
  return lua_pushboolean(L, done), 1;
}

int cpostgres_get_copy(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  char *bytes = NULL;
  int length = pq.PQgetCopyData(it->connection, &bytes, 1);
  if (length == 0) {
    if (!pq.PQconsumeInput(it->connection)) return 0;
    length = pq.PQgetCopyData(it->connection, &bytes, 1);
  }
  if (length == 0) return lua_pushboolean(L, 0), 1;
  if (length < 0) return 0;
  lua_pushlstring(L, bytes, (size_t)length);
  pq.PQfreemem(bytes);
  return 1;
}
