// A module `posix` with the system calls that the Lua peers need and plain Lua lacks. The program of C and Lua that
// sets the lower bound uses this binding. So do rlhost and each peer that watches a bare descriptor. Reads and writes
// then cost the same everywhere.
#include "shared.h"
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>

static int fail(lua_State *L) {
  lua_pushnil(L);
  lua_pushstring(L, strerror(errno));
  return 2;
}

static int l_now(lua_State *L) {
  lua_pushnumber(L, now_ns() * 1e-9);
  return 1;
}
static int l_cpu(lua_State *L) {
  lua_pushnumber(L, cpu_seconds());
  return 1;
}
static int l_memory(lua_State *L) {
  lua_pushinteger(L, anonymous_bytes());
  return 1;
}

static int push_two(lua_State *L, int status, const int fds[2]) {
  if (status < 0) return fail(L);
  lua_pushinteger(L, fds[0]);
  lua_pushinteger(L, fds[1]);
  return 2;
}

static int l_pipe(lua_State *L) {
  int fds[2];
  return push_two(L, pipe2(fds, O_NONBLOCK | O_CLOEXEC), fds);
}

static int l_socketpair(lua_State *L) {
  int fds[2];
  return push_two(L, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), fds);
}

static int l_listen(lua_State *L) {  // -> fd, port
  int fds[2];
  fds[0] = listen_on_loopback(&fds[1]);
  return push_two(L, fds[0], fds);
}

static int l_accept(lua_State *L) {
  int fd = accept_connection((int)luaL_checkinteger(L, 1));
  if (fd < 0) return fail(L);
  lua_pushinteger(L, fd);
  return 1;
}

static int l_read(lua_State *L) {
  char buffer[4096];
  ssize_t n = read((int)luaL_checkinteger(L, 1), buffer, sizeof buffer);
  if (n < 0) return fail(L);
  lua_pushlstring(L, buffer, (size_t)n);
  return 1;
}

static int l_write(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 2, &length);
  ssize_t n = write((int)luaL_checkinteger(L, 1), bytes, length);
  if (n < 0) return fail(L);
  lua_pushinteger(L, n);
  return 1;
}

static int l_close(lua_State *L) {
  lua_pushboolean(L, close((int)luaL_checkinteger(L, 1)) == 0);
  return 1;
}

int luaopen_posix(lua_State *L) {
  static const luaL_Reg functions[] = {{"now", l_now},
                                       {"cpu", l_cpu},
                                       {"memory", l_memory},
                                       {"pipe", l_pipe},
                                       {"socketpair", l_socketpair},
                                       {"listen", l_listen},
                                       {"accept", l_accept},
                                       {"read", l_read},
                                       {"write", l_write},
                                       {"close", l_close},
                                       {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
