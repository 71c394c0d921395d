#define _GNU_SOURCE
// The floor for a host of Lua: epoll, and one Lua function under lua_pcall for each read. server_floor SCRIPT WORKLOAD PORT
#include <arpa/inet.h>
#include <lauxlib.h>
#include <lualib.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[65536];

// serve(port, fn): fn(descriptor, bytes) -> what to write, whether to close; "" are the bytes of the end.
static int serve(lua_State *L) {
  int server = socket(AF_INET, SOCK_STREAM, 0), one = 1, epoll = epoll_create1(0);
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((int)luaL_checkinteger(L, 1)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(server, (struct sockaddr *)&a, sizeof a) || listen(server, 4096)) return luaL_error(L, "cannot listen");
  struct epoll_event event = {.events = EPOLLIN, .data.fd = server}, events[256];
  epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event);
  while (1) {
    int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      if (fd == server) {
        int new = accept(server, NULL, NULL);
        if (new < 0) continue;
        setsockopt(new, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        event = (struct epoll_event){.events = EPOLLIN, .data.fd = new};
        epoll_ctl(epoll, EPOLL_CTL_ADD, new, &event);
        continue;
      }
      long got = read(fd, bytes, sizeof bytes);
      lua_settop(L, 2);
      lua_pushvalue(L, 2);
      lua_pushinteger(L, fd);
      lua_pushlstring(L, bytes, got > 0 ? (size_t)got : 0);
      if (lua_pcall(L, 2, 2, 0) != LUA_OK) lua_pop(L, 1), lua_pushnil(L), lua_pushnil(L);
      size_t length;
      const char *answer = lua_tolstring(L, -2, &length);
      if (answer && write(fd, answer, length) < 0) got = 0;
      if (got <= 0 || lua_toboolean(L, -1)) close(fd);
    }
  }
}

int main(int count, char **arguments) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "serve", serve);
  lua_createtable(L, 2, 0);
  for (int i = 2; i < count; i++) {
    lua_pushstring(L, arguments[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  if (count < 4 || luaL_dofile(L, arguments[1]) != LUA_OK) return 1;
  return 0;
}
