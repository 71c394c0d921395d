// luv's loop as the source of a bridge, and how luv calls functions of scripts: through a dispatcher in Lua.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../../encoding/C/codecs.h"

typedef int (*luv_call)(lua_State *L, int arguments, int results, int flags);

// libuv's functions are those of the libuv that luv is linked with.
#define FUNCTIONS(X)                                         \
  X(int, uv_run, void *, int)                                \
  X(int, uv_loop_alive, const void *)                        \
  X(int, uv_backend_timeout, const void *)                   \
  X(int, uv_backend_fd, const void *)                        \
  X(uint64_t, uv_now, const void *)                          \
  X(void, uv_update_time, void *)                            \
  X(void, uv_walk, void *, void (*)(void *, void *), void *) \
  X(int, uv_is_active, const void *)                         \
  X(int, uv_has_ref, const void *)                           \
  X(int, uv_handle_get_type, const void *)                   \
  X(const char *, uv_handle_type_name, int)                  \
  X(int, uv_fileno, const void *, int *)                     \
  X(void, luv_set_callback, lua_State *, luv_call)           \
  X(void *, luv_loop, lua_State *)                           \
  X(void, luv_set_loop, lua_State *, void *)

typedef struct served {
  bridge_source source;
  void *loop, *library;
  luv_call own;
  int is_running;
  unsigned calls;
#define DECLARE(result, name, ...) result (*name)(__VA_ARGS__);
  FUNCTIONS(DECLARE)
} served;

static const char dispatcher, serving;

// Calls ---------------------------------------------------------------------------------------------------------------

// As luv requires, this function takes the callback and its arguments from the stack, and returns the number of results
// that it leaves there.
static int call_back(lua_State *L, int arguments, int results, int flags) {
  (void)flags;
  int function = lua_gettop(L) - arguments;
  if (!lua_checkstack(L, 4)) return lua_settop(L, function - 1), 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &serving);
  served *self = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (self) self->calls++;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &dispatcher);
  lua_pushinteger(L, results);
  lua_rotate(L, function, 2);
  if (lua_pcall(L, arguments + 2, results, 0)) {
    lua_settop(L, function - 1);
    return -1;
  }
  return results == LUA_MULTRET ? lua_gettop(L) - function + 1 : results;
}

// The source ----------------------------------------------------------------------------------------------------------

static int is_active(bridge_source *source) {
  served *self = (served *)source;
  return self->uv_loop_alive(self->loop);
}

// Timers count from the time that libuv has noted last. In libuv's own loop that is the time of the end of the last
// sleep.
static void wake(bridge_source *source) {
  served *self = (served *)source;
  if (!self->is_running) self->uv_update_time(self->loop);
}

static int64_t date(bridge_source *source) {
  enum { MILLISECOND = 1000000 };
  served *self = (served *)source;
  // libuv's loop cannot run inside itself.
  if (self->is_running) return BRIDGE_NEVER;
  wake(source);
  if (!self->uv_loop_alive(self->loop)) return BRIDGE_IDLE;
  int milliseconds = self->uv_backend_timeout(self->loop);
  if (milliseconds < 0) return BRIDGE_NEVER;
  return milliseconds ? ((int64_t)self->uv_now(self->loop) + milliseconds) * MILLISECOND : BRIDGE_NOW;
}

typedef struct text {
  served *self;
  char *at;
  size_t left;
  int count;
} text;

static void write_address(text *into, int fd) {
  struct sockaddr_storage address = {0};
  socklen_t size = sizeof address;
  char ip[INET6_ADDRSTRLEN];
  if (getpeername(fd, (struct sockaddr *)&address, &size)) {
    size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size)) return;
  }
  int is_six = address.ss_family == AF_INET6;
  if (!is_six && address.ss_family != AF_INET) return;
  struct sockaddr_in *four = (struct sockaddr_in *)&address;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
  inet_ntop(address.ss_family, is_six ? (void *)&six->sin6_addr : (void *)&four->sin_addr, ip, sizeof ip);
  int length = snprintf(into->at, into->left, is_six ? " [%s]:%d" : " %s:%d", ip,
                        ntohs(is_six ? six->sin6_port : four->sin_port));
  if (length > 0 && (size_t)length < into->left) into->at += length, into->left -= (size_t)length;
}

static void describe_handle(void *handle, void *context) {
  enum { MOST = 20 };
  text *into = context;
  served *self = into->self;
  if (!self->uv_is_active(handle) || !self->uv_has_ref(handle)) return;
  if (into->count++ >= MOST) return;
  int fd, length = snprintf(into->at, into->left, "%s%s", into->count > 1 ? ", " : "",
                            self->uv_handle_type_name(self->uv_handle_get_type(handle)));
  if (length < 0 || (size_t)length >= into->left) return;
  into->at += length, into->left -= (size_t)length;
  if (self->uv_fileno(handle, &fd) == 0) write_address(into, fd);
}

static void describe(bridge_source *source, char *buffer, size_t size) {
  served *self = (served *)source;
  text into = {self, buffer, size, 0};
  *buffer = 0;
  self->uv_walk(self->loop, describe_handle, &into);
  if (into.count == 0) snprintf(buffer, size, self->uv_loop_alive(self->loop) ? "requests" : "nothing active");
  else if (into.count > 20) snprintf(into.at, into.left, " and %d more", into.count - 20);
}

// For Lua -------------------------------------------------------------------------------------------------------------

static int find_functions(served *self) {
#define FIND(result, name, ...) \
  if (!(*(void **)&self->name = dlsym(self->library, #name))) return 0;
  FUNCTIONS(FIND)
  void *own = dlsym(self->library, "luv_cfpcall");
  self->own = *(luv_call *)&own;
  return own != NULL;
}

static void end(bridge_source *source, lua_State *L) {
  served *self = (served *)source;
  // A callback of luv has ended the program. luv's finalizer would run the loop inside itself.
  if (self->is_running && luaL_getmetatable(L, "uv_loop.meta") == LUA_TTABLE) {
    lua_pushnil(L);
    lua_setfield(L, -2, "__gc");
  }
  if (self->library) dlclose(self->library);
  self->library = NULL;
}

static served *served_at(lua_State *L, int index) {
  served *self = (served *)bridge_source_at(L, index);
  if (!self || self->source.end != end || !self->library) luaL_typeerror(L, index, "source");
  return self;
}

// serve(path, dispatcher) -> the source, its descriptor; nothing: this luv cannot be served
static int serve(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  bridge_source head = {is_active, date, describe, 0, end, wake};
  served *self = (served *)bridge_push_source(L, sizeof *self, head);
  self->library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!self->library || !find_functions(self)) return 0;
  // luv calls functions on the coroutine that required it first, which may belong to a task.
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main = lua_tothread(L, -1);
  lua_pop(L, 1);
  self->loop = self->luv_loop(L);
  self->uv_update_time(self->loop);
  self->luv_set_loop(main, self->loop);
  lua_pushvalue(L, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &dispatcher);
  lua_pushvalue(L, 3);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &serving);
  self->luv_set_callback(L, call_back);
  lua_pushinteger(L, self->uv_backend_fd(self->loop));
  return 2;
}

// leave(source): luv calls functions directly again.
static int leave(lua_State *L) {
  served *self = served_at(L, 1);
  self->luv_set_callback(L, self->own);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &dispatcher);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &serving);
  return 0;
}

// turn(source) -> whether it has called any function: calls the due functions
static int turn(lua_State *L) {
  // A round that calls nothing shows that no event is left, which saves a system call. ROUNDS is a limit:
  // the run loop's own callbacks wait meanwhile.
  enum { NOWAIT = 2, ROUNDS = 8 };
  served *self = served_at(L, 1);
  if (self->is_running) return 0;
  unsigned before = self->calls, last;
  int rounds = 0;
  self->is_running = 1;
  do {
    last = self->calls;
    self->uv_run(self->loop, NOWAIT);
  } while (self->calls != last && ++rounds < ROUNDS);
  self->is_running = 0;
  self->source.is_drained = self->calls == last;
  lua_pushboolean(L, self->calls != before);
  return 1;
}

int luv_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"serve", serve}, {"leave", leave}, {"turn", turn}, {NULL, NULL}};
  lua_createtable(L, 0, 3);
  luaL_setfuncs(L, functions, 0);
  return 1;
}
