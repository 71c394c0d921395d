// used() -> the bytes that malloc has given out. Resident memory cannot show a small leak: the leak fills gaps first.
#include <lauxlib.h>
#include <malloc.h>

static int used(lua_State *L) {
  struct mallinfo2 info = mallinfo2();
  lua_pushinteger(L, (lua_Integer)(info.uordblks + info.hblkhd));
  return 1;
}

int luaopen_used(lua_State *L) {
  lua_pushcfunction(L, used);
  return 1;
}
