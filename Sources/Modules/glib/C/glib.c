// GLib's default main context as the source of a bridge. The file needs no header of GLib: the few functions are
// declared here.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "../../encoding/C/codecs.h"

// struct pollfd is GPollFD on Linux.
#define FUNCTIONS(X)                                                     \
  X(void *, g_main_context_default, void)                                \
  X(int, g_main_context_acquire, void *)                                 \
  X(void, g_main_context_release, void *)                                \
  X(int, g_main_context_prepare, void *, int *)                          \
  X(int, g_main_context_query, void *, int, int *, struct pollfd *, int) \
  X(int, g_main_context_check, void *, int, struct pollfd *, int)        \
  X(void, g_main_context_dispatch, void *)                               \
  X(void *, g_main_context_find_source_by_id, void *, unsigned)          \
  X(void *, g_idle_source_new, void)                                     \
  X(unsigned, g_source_attach, void *, void *)                           \
  X(void, g_source_destroy, void *)                                      \
  X(void, g_source_unref, void *)

static struct {
#define DECLARE(result, name, ...) result (*name)(__VA_ARGS__);
  FUNCTIONS(DECLARE)
} glib;

static const char *find_functions(void *library) {
#define FIND(result, name, ...) \
  if (!(*(void **)&glib.name = dlsym(library, #name))) return "has no " #name ": it is too old";
  FUNCTIONS(FIND)
  return NULL;
}

typedef struct context {
  bridge_source source;
  void *glib;
  int epoll;                     // contains the descriptors for which GLib waits
  int is_looking;                // a source's prepare function may run the loop
  int has_readies;               // some descriptor is always ready, such as a file's
  int timeout;                   // as from g_main_context_query: milliseconds, or -1
  struct pollfd *fds, *watched;  // as GLib has last requested them; and as `epoll` watches them, in the same order
  int count, capacity, watching;
  unsigned *ids, next_id;  // sources without descriptor and date, and the first unchecked source number
  int id_count, id_capacity;
} context;

// Descriptors ---------------------------------------------------------------------------------------------------------

static int reserve(context *self, int count) {
  if (count <= self->capacity) return 1;
  struct pollfd *fds = realloc(self->fds, sizeof *fds * (size_t)count);
  if (fds) self->fds = fds;
  struct pollfd *watched = realloc(self->watched, sizeof *watched * (size_t)count);
  if (watched) self->watched = watched;
  if (!fds || !watched) return 0;
  self->capacity = count;
  return 1;
}

// Asks GLib for the events for which it waits. Returns the priority of the sources that are already ready.
static int ask(context *self) {
  int priority, count;
  self->is_looking = 1;
  glib.g_main_context_prepare(self->glib, &priority);
  self->is_looking = 0;
  while ((count = glib.g_main_context_query(self->glib, priority, &self->timeout, self->fds, self->capacity)) >
         self->capacity)
    if (!reserve(self, count * 2)) break;
  self->count = count < self->capacity ? count : self->capacity;
  return priority;
}

static void watch(context *self, int operation, const struct pollfd *it) {
  struct epoll_event event = {.events = (uint32_t)it->events, .data.fd = it->fd};
  if (epoll_ctl(self->epoll, operation, it->fd, &event) == 0) return;
  // Other code has closed the descriptor, whose number belongs to another file now.
  if (errno == ENOENT) epoll_ctl(self->epoll, EPOLL_CTL_ADD, it->fd, &event);
  else if (errno == EEXIST) epoll_ctl(self->epoll, EPOLL_CTL_MOD, it->fd, &event);
  if (errno == EPERM) self->has_readies = 1;
}

// Makes `epoll` wait for the events that GLib waits for. Each descriptor costs a system call: only the kernel knows
// whether it still is the same file.
static void synchronize(context *self) {
  int i = 0, j = 0;
  self->has_readies = 0;
  while (i < self->count || j < self->watching) {
    if (j == self->watching || i < self->count && self->fds[i].fd < self->watched[j].fd) {
      watch(self, EPOLL_CTL_ADD, &self->fds[i++]);
    } else if (i == self->count || self->watched[j].fd < self->fds[i].fd) {
      epoll_ctl(self->epoll, EPOLL_CTL_DEL, self->watched[j++].fd, NULL);
    } else {
      watch(self, EPOLL_CTL_MOD, &self->fds[i++]);
      j++;
    }
  }
  memcpy(self->watched, self->fds, sizeof *self->fds * (size_t)self->count);
  self->watching = self->count;
}

// The source ----------------------------------------------------------------------------------------------------------

static int64_t date(bridge_source *source) {
  context *self = (context *)source;
  if (!self->glib) return BRIDGE_IDLE;
  if (self->is_looking) return BRIDGE_NEVER;
  ask(self);
  synchronize(self);
  if (self->timeout == 0 || self->has_readies) return BRIDGE_NOW;
  if (self->timeout < 0) return BRIDGE_NEVER;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + (int64_t)self->timeout * 1000000;
}

static void keep(context *self, unsigned id) {
  if (!glib.g_main_context_find_source_by_id(self->glib, id)) return;
  if (self->id_count == self->id_capacity) {
    int capacity = self->id_capacity ? self->id_capacity * 2 : 16;
    unsigned *ids = realloc(self->ids, sizeof *ids * (size_t)capacity);
    if (!ids) return;
    self->ids = ids;
    self->id_capacity = capacity;
  }
  self->ids[self->id_count++] = id;
}

// Returns whether there is an attached source without a descriptor and a date: only another thread or a signal makes
// such a source ready. GLib has no list of sources, but numbers them.
static int has_silent_sources(context *self) {
  void *probe = glib.g_idle_source_new();
  unsigned end = glib.g_source_attach(probe, self->glib);
  glib.g_source_destroy(probe);
  glib.g_source_unref(probe);
  for (; self->next_id < end; self->next_id++) keep(self, self->next_id);
  self->next_id = end + 1;
  int left = 0;
  for (int i = 0; i < self->id_count; i++)
    if (glib.g_main_context_find_source_by_id(self->glib, self->ids[i])) self->ids[left++] = self->ids[i];
  self->id_count = left;
  return left > 0;
}

static int is_active(bridge_source *source) {
  context *self = (context *)source;
  if (!self->glib) return 0;
  if (self->is_looking) return 1;
  ask(self);
  // GLib itself always has one descriptor, by which other threads wake the context.
  return self->timeout >= 0 || self->count > 1 || has_silent_sources(self);
}

static void describe(bridge_source *source, char *text, size_t size) {
  context *self = (context *)source;
  int count = self->watching > 0 ? self->watching - 1 : 0;
  int length = snprintf(text, size, "%d descriptor%s", count, count == 1 ? "" : "s");
  if (self->timeout >= 0 && length > 0 && (size_t)length < size)
    snprintf(text + length, size - (size_t)length, ", next in %.3g s", self->timeout / 1000.0);
}

static void end(bridge_source *source, lua_State *L) {
  (void)L;
  context *self = (context *)source;
  if (self->glib) glib.g_main_context_release(self->glib);
  if (self->epoll >= 0) close(self->epoll);
  free(self->fds);
  free(self->watched);
  free(self->ids);
  *self = (context){.epoll = -1, .source = self->source};
}

// For Lua -------------------------------------------------------------------------------------------------------------

static context *context_at(lua_State *L, int index) {
  bridge_source *source = bridge_source_at(L, index);
  if (!source || source->end != end) luaL_typeerror(L, index, "source");
  return (context *)source;
}

static int leave(lua_State *L) { return end(&context_at(L, 1)->source, L), 0; }

// serve() -> the source, its descriptor; or nil, problem, code
static int serve(lua_State *L) {
  enum { FIRST = 8 };
  static struct linux_library library = {"libglib-2.0.so.0", "libglib2.0-0", find_functions, 0};
  int refused = codecs_use(L, &library);
  if (refused) return refused;
  bridge_source head = {is_active, date, describe, 0, end, NULL};
  context *self = (context *)bridge_push_source(L, sizeof *self, head);
  self->epoll = self->timeout = -1;
  self->next_id = 1;
  if (!reserve(self, FIRST)) return luaL_error(L, "not enough memory");
  self->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (self->epoll < 0) return codecs_refuse(L, "EMFILE", "no descriptor is left");
  void *shared = glib.g_main_context_default();
  if (!glib.g_main_context_acquire(shared))
    return codecs_refuse(L, "EBUSY", "GLib's default main context belongs to another thread");
  self->glib = shared;
  lua_pushinteger(L, self->epoll);
  return 2;
}

// turn(source): dispatches the sources that are due
static int turn(lua_State *L) {
  context *self = context_at(L, 1);
  if (!self->glib || self->is_looking) return 0;
  int priority = ask(self);
  poll(self->fds, (nfds_t)self->count, 0);
  if (glib.g_main_context_check(self->glib, priority, self->fds, self->count)) glib.g_main_context_dispatch(self->glib);
  return 0;
}

int glib_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"serve", serve}, {"leave", leave}, {"turn", turn}, {NULL, NULL}};
  codecs_push_library(L, functions);
  return 1;
}
