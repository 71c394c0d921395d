// The sources of bridges to the loops of libraries, and the system calls that bridges need.
#include <lauxlib.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>

#include "CLuaCodecs.h"

static const char class;  // its address is the key of the metatable of sources

static int collect(lua_State *L) {
  bridge_source *source = bridge_source_at(L, 1);
  if (!source) return luaL_typeerror(L, 1, "source");
  source->end(source, L);
  return 0;
}

bridge_source *bridge_push_source(lua_State *L, size_t size, bridge_source head) {
  bridge_source *source = memset(lua_newuserdatauv(L, size, 0), 0, size);
  *source = head;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &class) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &class);
  }
  lua_setmetatable(L, -2);
  return source;
}

bridge_source *bridge_source_at(lua_State *L, int index) {
  bridge_source *source = lua_touserdata(L, index);
  if (!source || !lua_checkstack(L, 2) || !lua_getmetatable(L, index)) return NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &class);
  int is_source = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is_source ? source : NULL;
}

int bridge_timer(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); }

void bridge_set_timer(int timer, int64_t date) {
  struct itimerspec when = {0};
  if (date != BRIDGE_NEVER) {
    // A date of 0 would disarm the timer.
    when.it_value.tv_sec = date / 1000000000;
    when.it_value.tv_nsec = date % 1000000000 | (date == 0);
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

int bridge_is_readable(int fd) {
  struct pollfd it = {.fd = fd, .events = POLLIN};
  return poll(&it, 1, 0) > 0;
}
