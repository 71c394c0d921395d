// Runs a Lua script with the codecs of the modules, and nothing else of rlhost. scripts/portability builds this program
// for aarch64: the program contains no Swift, so it needs no Swift compiler for aarch64.
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

int json_open(lua_State *L);
int encoding_open(lua_State *L);
int url_open(lua_State *L);
int zlib_open(lua_State *L);
int crypto_open(lua_State *L);
int redis_open(lua_State *L);
int metrics_open(lua_State *L);

static const luaL_Reg libraries[] = {
    {"json", json_open},     {"encoding", encoding_open}, {"url", url_open},         {"zlib", zlib_open},
    {"crypto", crypto_open}, {"redis", redis_open},       {"metrics", metrics_open}, {NULL, NULL}};

int main(int count, char **words) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  for (const luaL_Reg *library = libraries; library->name; library++) {
    lua_pushcfunction(L, library->func);
    lua_newtable(L);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
      fprintf(stderr, "%s: %s\n", library->name, lua_tostring(L, -1));
      return 1;
    }
    lua_setglobal(L, library->name);
  }
  if (count < 2 || luaL_dofile(L, words[1]) != LUA_OK) {
    fprintf(stderr, "%s\n", count < 2 ? "a script is missing" : lua_tostring(L, -1));
    return 1;
  }
  lua_close(L);
  return 0;
}
