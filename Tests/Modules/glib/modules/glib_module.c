// A module for Lua that uses GLib as foreign C code does: timeouts, idle functions, descriptors, threads, files. It
// needs no header of GLib.
#include <lauxlib.h>
#include <stdlib.h>

typedef int (*callback)(void *data);
typedef void (*finished)(void *object, void *result, void *data);
unsigned g_timeout_add_full(int, unsigned, callback, void *, void (*)(void *));
unsigned g_idle_add_full(int, callback, void *, void (*)(void *));
unsigned g_unix_fd_add_full(int, int, int, int (*)(int, int, void *), void *, void (*)(void *));
unsigned g_unix_signal_add_full(int, int, callback, void *, void (*)(void *));
int g_source_remove(unsigned);
void *g_thread_new(const char *, void *(*)(void *), void *);
void g_thread_unref(void *);
void *g_main_loop_new(void *, int);
void g_main_loop_run(void *);
void g_main_loop_quit(void *);
void *g_file_new_for_path(const char *);
void g_file_load_contents_async(void *, void *, finished, void *);
int g_file_load_contents_finish(void *, void *, char **, size_t *, char **, void **);
void g_free(void *);
void g_object_unref(void *);

static lua_State *state;

static void forget(void *data) { luaL_unref(state, LUA_REGISTRYINDEX, (int)(size_t)data); }

// Calls a function, and returns whether its result is true.
static int call(void *data) {
  lua_rawgeti(state, LUA_REGISTRYINDEX, (int)(size_t)data);
  if (lua_pcall(state, 0, 1, 0)) {
    lua_getglobal(state, "report");
    lua_insert(state, -2);
    lua_call(state, 1, 1);
  }
  int goes_on = lua_toboolean(state, -1);
  lua_pop(state, 1);
  return goes_on;
}

static int call_for_fd(int fd, int events, void *data) { return (void)fd, (void)events, call(data); }

static void *keep(lua_State *L, int index) {
  luaL_checktype(L, index, LUA_TFUNCTION);
  lua_pushvalue(L, index);
  return (void *)(size_t)luaL_ref(L, LUA_REGISTRYINDEX);
}

static int timeout(lua_State *L) {
  lua_pushinteger(L, g_timeout_add_full(0, (unsigned)luaL_checkinteger(L, 1), call, keep(L, 2), forget));
  return 1;
}

static int idle(lua_State *L) {
  lua_pushinteger(L, g_idle_add_full((int)luaL_optinteger(L, 2, 200), call, keep(L, 1), forget));
  return 1;
}

static int readable(lua_State *L) {
  lua_pushinteger(L, g_unix_fd_add_full(0, (int)luaL_checkinteger(L, 1), 1, call_for_fd, keep(L, 2), forget));
  return 1;
}

static int on_signal(lua_State *L) {
  lua_pushinteger(L, g_unix_signal_add_full(0, (int)luaL_checkinteger(L, 1), call, keep(L, 2), forget));
  return 1;
}

static int take_away(lua_State *L) { return lua_pushboolean(L, g_source_remove((unsigned)luaL_checkinteger(L, 1))), 1; }

static void *in_thread(void *data) { return g_idle_add_full(0, call, data, forget), NULL; }

static int thread(lua_State *L) { return g_thread_unref(g_thread_new("other", in_thread, keep(L, 1))), 0; }

static void *loop;
static int run(lua_State *L) {
  (void)L;
  loop = g_main_loop_new(NULL, 0);
  g_main_loop_run(loop);
  return 0;
}
static int quit(lua_State *L) { return (void)L, g_main_loop_quit(loop), 0; }

static void has_read(void *file, void *result, void *data) {
  char *text = NULL;
  size_t length = 0;
  void *problem = NULL;
  lua_rawgeti(state, LUA_REGISTRYINDEX, (int)(size_t)data);
  if (g_file_load_contents_finish(file, result, &text, &length, NULL, &problem)) lua_pushlstring(state, text, length);
  else lua_pushnil(state);
  g_free(text);
  g_object_unref(file);
  lua_call(state, 1, 0);
  forget(data);
}

static int load(lua_State *L) {
  g_file_load_contents_async(g_file_new_for_path(luaL_checkstring(L, 1)), NULL, has_read, keep(L, 2));
  return 0;
}

int luaopen_glib_module(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  state = lua_tothread(L, -1);
  static const luaL_Reg functions[] = {
      {"timeout", timeout}, {"idle", idle}, {"readable", readable}, {"remove", take_away},    {"thread", thread},
      {"run", run},         {"quit", quit}, {"load", load},         {"on_signal", on_signal}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
