// How luv calls functions of scripts, once runloop.luv serves it: through a dispatcher in Lua.
#include <dlfcn.h>

#include "../../encoding/C/codecs.h"

typedef int (*luv_call)(lua_State *L, int arguments, int results, int flags);

static const char dispatcher;

// luv's contract: takes the function and its arguments from the stack, and returns how many results it leaves.
static int call_back(lua_State *L, int arguments, int results, int flags) {
  (void)flags;
  int function = lua_gettop(L) - arguments;
  if (!lua_checkstack(L, 4)) return lua_settop(L, function - 1), 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &dispatcher);
  lua_pushinteger(L, results);
  lua_rotate(L, function, 2);
  if (lua_pcall(L, arguments + 2, results, 0)) {
    lua_settop(L, function - 1);
    return -1;
  }
  return results == LUA_MULTRET ? lua_gettop(L) - function + 1 : results;
}

// serve(path, dispatcher) -> true; or nil: this luv cannot be served. Without a dispatcher, luv calls by itself again.
static int serve(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!library) return 0;
  void *set = dlsym(library, "luv_set_callback"), *own = dlsym(library, "luv_cfpcall");
  void *loop = dlsym(library, "luv_loop"), *set_loop = dlsym(library, "luv_set_loop");
  if (!set || !own || !loop || !set_loop) return dlclose(library), 0;
  // luv calls on the coroutine that has required it first, which may have been a task's.
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  (*(void (**)(lua_State *, void *))&set_loop)(lua_tothread(L, -1), (*(void *(**)(lua_State *))&loop)(L));
  lua_settop(L, 2);
  int is_served = lua_isfunction(L, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &dispatcher);
  luv_call chosen = is_served ? call_back : *(luv_call *)&own;
  (*(void (**)(lua_State *, luv_call))&set)(L, chosen);
  dlclose(library);
  lua_pushboolean(L, 1);
  return 1;
}

int luv_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"serve", serve}, {NULL, NULL}};
  lua_createtable(L, 0, 1);
  luaL_setfuncs(L, functions, 0);
  return 1;
}
