// A module in C that starts a thread of its own, which writes into a pipe after 0.3 s. Closing the pipe waits for the
// thread: its code is unloaded with the state.
#include <lauxlib.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

static pthread_t thread;

static void *write_later(void *end) {
  usleep(300000);
  write((int)(intptr_t)end, "x", 1);
  close((int)(intptr_t)end);
  return NULL;
}

static int start(lua_State *L) {
  int ends[2];
  if (pipe(ends)) return luaL_error(L, "no pipe");
  pthread_create(&thread, NULL, write_later, (void *)(intptr_t)ends[1]);
  lua_pushinteger(L, ends[0]);
  return 1;
}

static int close_end(lua_State *L) {
  close((int)luaL_checkinteger(L, 1));
  pthread_join(thread, NULL);
  return 0;
}

int luaopen_writer(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, start);
  lua_setfield(L, -2, "start");
  lua_pushcfunction(L, close_end);
  lua_setfield(L, -2, "close");
  return 1;
}
