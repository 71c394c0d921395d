// Does what real C modules do to their host: it forks, and uses a state's allocator in threads of its own.
#include <lauxlib.h>
#include <lua.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int l_fork(lua_State *L) {
  lua_pushinteger(L, fork());
  return 1;
}

static int l_wait(lua_State *L) {
  int status = 0;
  waitpid((pid_t)luaL_checkinteger(L, 1), &status, 0);
  lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return 1;
}

enum { THREADS = 4, BLOCKS = 256, ROUNDS = 20000 };
static lua_Alloc allocate;
static void *data;
static pthread_t threads[THREADS];
static struct {
  unsigned char *bytes;
  size_t size;
} blocks[THREADS][BLOCKS];

static int is_whole(const unsigned char *bytes, size_t size, unsigned char value) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != value) return 0;
  return 1;
}

// Resizes and frees blocks of the owner, and allocates blocks of its own. Returns the number of damaged blocks.
static void *work(void *number) {
  unsigned self = (unsigned)(uintptr_t)number, seed = self + 1;
  uintptr_t damaged = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int i = rand_r(&seed) % BLOCKS;
    size_t size = (size_t)(rand_r(&seed) % 600);
    unsigned char *old = blocks[self][i].bytes;
    size_t old_size = blocks[self][i].size, kept = old_size < size ? old_size : size;
    unsigned char *now = allocate(data, old, old ? old_size : 0, size);
    if (now && old && !is_whole(now, kept, (unsigned char)(self + 1))) damaged++;
    if (now) memset(now, (int)self + 1, size);
    blocks[self][i].bytes = now;
    blocks[self][i].size = now ? size : 0;
  }
  return (void *)damaged;
}

static int l_begin(lua_State *L) {
  allocate = lua_getallocf(L, &data);
  for (unsigned t = 0; t < THREADS; t++) {
    // The owner has allocated half of the blocks, on its own thread.
    for (int i = 0; i < BLOCKS; i += 2) {
      blocks[t][i].size = (size_t)(i % 200 + 1);
      blocks[t][i].bytes = allocate(data, NULL, 0, blocks[t][i].size);
      memset(blocks[t][i].bytes, (int)t + 1, blocks[t][i].size);
    }
  }
  for (uintptr_t t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)t);
  return 0;
}

// The owner's thread frees half of the remaining blocks.
static int l_finish(lua_State *L) {
  uintptr_t damaged = 0;
  for (unsigned t = 0; t < THREADS; t++) {
    void *result;
    pthread_join(threads[t], &result);
    damaged += (uintptr_t)result;
    for (int i = 0; i < BLOCKS; i++) {
      if (blocks[t][i].bytes && !is_whole(blocks[t][i].bytes, blocks[t][i].size, (unsigned char)(t + 1))) damaged++;
      if (blocks[t][i].bytes) allocate(data, blocks[t][i].bytes, blocks[t][i].size, 0);
      blocks[t][i].bytes = NULL;
    }
  }
  lua_pushinteger(L, (lua_Integer)damaged);
  return 1;
}

int luaopen_foreign(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"fork", l_fork}, {"wait", l_wait}, {"begin", l_begin}, {"finish", l_finish}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
