#include "queue.h"

#include <lauxlib.h>
#include <stdint.h>

static const char QUEUE[] = "runloop.nats.queue";
// The first size of a list. A queue that had more than LARGE elements is freed when it is empty.
enum { SMALL = 4, LARGE = 1024, CROWDED = 1024 };

// The bit in `sizes` that shows that a message is marked.
enum { MARKED = 1u << 31 };

typedef struct {
  const void *kind;
  uint32_t *sizes;             // the bytes of each message's data, with MARKED; a user value keeps it
  int64_t first, count, size;  // the ring has `size` places, a power of two
  int64_t bytes, most, most_bytes;
  int64_t received, handled, dropped;
  char is_slow;   // messages were dropped since it was empty
  char is_quiet;  // a message was reported, and the owner has not called `listen` since then
} queue;

// Costs if removed: luaL_checkudata instead takes 150 instructions for each message.
static queue *queue_at(lua_State *L, int index) {
  queue *it = lua_touserdata(L, index);
  if (!it || lua_rawlen(L, index) != sizeof *it || it->kind != QUEUE) luaL_typeerror(L, index, QUEUE);
  return it;
}

static int64_t place_of(const queue *it, int64_t number) { return (it->first + number) & (it->size - 1); }

// Doubles the list.
static void grow(lua_State *L, queue *it, int index) {
  int64_t size = it->size ? it->size * 2 : SMALL;
  lua_getiuservalue(L, index, QUEUE_LIST);
  lua_createtable(L, (int)size, 0);
  uint32_t *sizes = lua_newuserdatauv(L, (size_t)size * sizeof *sizes, 0);
  for (int64_t i = 0; i < it->count; i++) {
    lua_rawgeti(L, -3, place_of(it, i) + 1);
    lua_rawseti(L, -3, i + 1);
    sizes[i] = it->sizes[place_of(it, i)];
  }
  lua_setiuservalue(L, index, QUEUE_SIZES);
  lua_setiuservalue(L, index, QUEUE_LIST);
  lua_pop(L, 1);
  it->sizes = sizes;
  it->first = 0;
  it->size = size;
}

int nats_queue_push(lua_State *L, int index, int message, size_t size, int is_marked) {
  queue *it = lua_touserdata(L, index);
  if (it->count >= it->most || it->bytes + (int64_t)size > it->most_bytes) {
    it->dropped++;
    if (it->is_slow) return 0;
    it->is_slow = 1;
    return QUEUE_FULL;
  }
  if (it->count == it->size) grow(L, it, index);
  int64_t place = place_of(it, it->count);
  lua_getiuservalue(L, index, QUEUE_LIST);
  lua_pushvalue(L, message);
  lua_rawseti(L, -2, place + 1);
  lua_pop(L, 1);
  it->sizes[place] = (uint32_t)size | (is_marked ? MARKED : 0);
  it->bytes += (int64_t)size;
  it->received++;
  int what = it->count++ == CROWDED ? QUEUE_CROWDED : 0;
  if (it->is_quiet) return what;
  it->is_quiet = 1;
  return what | QUEUE_WOKEN;
}

static size_t size_of(lua_State *L, int message) {
  lua_pushliteral(L, "data");
  lua_rawget(L, message);
  size_t size = lua_rawlen(L, -1);
  lua_pop(L, 1);
  return size;
}

static int has(lua_State *L, int message, const char *name) {
  lua_pushstring(L, name);
  int type = lua_rawget(L, message);
  lua_pop(L, 1);
  return type != LUA_TNIL;
}

static int is_marked(lua_State *L, int message) { return has(L, message, "headers") || has(L, message, "_flow"); }

// push(queue, message) -> what happened, bits
static int push(lua_State *L) {
  queue_at(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  lua_pushinteger(L, nats_queue_push(L, 1, 2, size_of(L, 2), is_marked(L, 2)));
  return 1;
}

static void be_empty(lua_State *L, queue *it) {
  it->is_slow = 0;
  it->first = it->count = it->bytes = 0;
  if (it->size <= LARGE) return;
  it->size = 0;
  it->sizes = NULL;
  lua_pushnil(L);
  lua_setiuservalue(L, 1, QUEUE_LIST);
  lua_pushnil(L);
  lua_setiuservalue(L, 1, QUEUE_SIZES);
}

// Pushes the next message. Returns whether the message is marked.
static int pop(lua_State *L, queue *it) {
  int64_t place = place_of(it, 0);
  lua_getiuservalue(L, 1, QUEUE_LIST);
  lua_rawgeti(L, -1, place + 1);
  lua_pushnil(L);
  lua_rawseti(L, -3, place + 1);
  lua_remove(L, -2);
  uint32_t size = it->sizes[place];
  it->bytes -= size & ~MARKED;
  it->handled++;
  it->first++;
  if (--it->count == 0) be_empty(L, it);
  return (size & MARKED) != 0;
}

// take(queue) -> the next message; nothing if it is empty
static int take(lua_State *L) {
  queue *it = queue_at(L, 1);
  if (it->count == 0) return 0;
  pop(L, it);
  return 1;
}

// The arguments of `handle`, and the functions that it calls.
enum { HANDLE_QUEUE = 1, HANDLE_FN, HANDLE_OWNER, HANDLE_MARKED, HANDLE_ARGUMENTS = HANDLE_MARKED };

static int go_on(lua_State *L, int status, lua_KContext left) {
  (void)status;
  queue *it = lua_touserdata(L, HANDLE_QUEUE);
  while (left-- > 0 && it->count > 0) {
    lua_settop(L, HANDLE_ARGUMENTS);
    lua_pushvalue(L, HANDLE_FN);
    int is_marked = pop(L, it);
    lua_pushvalue(L, HANDLE_OWNER);
    if (is_marked) {
      lua_pushvalue(L, HANDLE_MARKED);
      lua_replace(L, HANDLE_ARGUMENTS + 1);
    }
    lua_callk(L, 2, 0, left, go_on);
  }
  return 0;
}

// handle(queue, fn, subscription, marked, number): calls fn(message, subscription) for at most `number` waiting
// messages. For a message that has headers, calls `marked` instead of `fn`. May wait.
static int handle(lua_State *L) {
  queue_at(L, HANDLE_QUEUE);
  lua_Integer most = luaL_checkinteger(L, HANDLE_ARGUMENTS + 1);
  return go_on(L, LUA_OK, (lua_KContext)most);
}

// clear(queue) -> a list of the messages that waited
static int clear(lua_State *L) {
  queue *it = queue_at(L, 1);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, QUEUE_LIST);
  lua_createtable(L, (int)it->count, 0);
  for (int64_t i = 0; i < it->count; i++) {
    lua_rawgeti(L, 2, place_of(it, i) + 1);
    lua_rawseti(L, 3, i + 1);
  }
  it->size = LARGE + 1;
  be_empty(L, it);
  return 1;
}

// pending(queue) -> the number of messages, and of their bytes
static int pending(lua_State *L) {
  queue *it = queue_at(L, 1);
  lua_pushinteger(L, it->count);
  lua_pushinteger(L, it->bytes);
  return 2;
}

// stats(queue) -> received, handled, dropped
static int stats(lua_State *L) {
  queue *it = queue_at(L, 1);
  lua_pushinteger(L, it->received);
  lua_pushinteger(L, it->handled);
  lua_pushinteger(L, it->dropped);
  return 3;
}

// listen(queue): makes the queue report the next message to its owner.
static int listen(lua_State *L) {
  queue_at(L, 1)->is_quiet = 0;
  return 0;
}

// queue(subscription, the largest number of messages, of bytes) -> queue
static int make(lua_State *L) {
  lua_Integer most = luaL_checkinteger(L, 2), most_bytes = luaL_checkinteger(L, 3);
  queue *it = lua_newuserdatauv(L, sizeof *it, QUEUE_SIZES);
  *it = (queue){.kind = QUEUE, .most = most, .most_bytes = most_bytes};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, QUEUE_OWNER);
  return 1;
}

void nats_queue_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"push", push},       {"take", take},     {"clear", clear},
                                       {"pending", pending}, {"stats", stats},   {"listen", listen},
                                       {"queue", make},      {"handle", handle}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
