// The floor for a host of Lua: one Lua function under lua_pcall for each read. server_floor SCRIPT WORKLOAD PORT
#include "loop.h"
#include <lauxlib.h>
#include <lualib.h>

static int answer(void *context, int fd, long got) {
  lua_State *L = context;
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  lua_pushinteger(L, fd);
  lua_pushlstring(L, bytes, got);
  if (lua_pcall(L, 2, 2, 0) != LUA_OK) lua_pop(L, 1), lua_pushnil(L), lua_pushnil(L);
  size_t length;
  const char *text = lua_tolstring(L, -2, &length);
  return text && write(fd, text, length) < 0 || lua_toboolean(L, -1);
}

// serve(port, fn): fn(descriptor, bytes) -> what to write, whether to close; at the end of input, the bytes are "".
static int start(lua_State *L) {
  return serve((int)luaL_checkinteger(L, 1), answer, L) ? luaL_error(L, "cannot listen") : 0;
}

int main(int count, char **arguments) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "serve", start);
  lua_createtable(L, 2, 0);
  for (int i = 2; i < count; i++) {
    lua_pushstring(L, arguments[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  return count < 4 || luaL_dofile(L, arguments[1]) != LUA_OK;
}
