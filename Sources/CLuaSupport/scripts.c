// The Lua-written parts of the program.
#include "CLuaSupport.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char prelude[] = {
#embed "lua/prelude.lua"
};

// Compiled code of the prelude. Each thread has a state of its own, and compiling would be most of what its start costs.
typedef struct compiled {
  size_t length, capacity;
  char *bytes;
} compiled;
static _Atomic(compiled *) compiled_prelude;

static void drop(compiled *code) {
  free(code->bytes);
  free(code);
}

static int append(lua_State *L, const void *bytes, size_t length, void *data) {
  (void)L;
  compiled *code = data;
  if (code->length + length > code->capacity) {
    size_t capacity = code->capacity ? code->capacity : 16384;
    while (capacity < code->length + length) capacity *= 2;
    char *larger = realloc(code->bytes, capacity);
    if (!larger) return 1;
    code->bytes = larger;
    code->capacity = capacity;
  }
  memcpy(code->bytes + code->length, bytes, length);
  code->length += length;
  return 0;
}

// Keeps the compiled function on top of the stack for all. Without memory for that nothing is kept.
static void keep(lua_State *L) {
  compiled *code = calloc(1, sizeof *code);
  if (!code) return;
  compiled *none = NULL;
  // With line numbers and names: errors in the prelude are told apart as in any script.
  if (lua_dump(L, append, code, 0) != 0 || !atomic_compare_exchange_strong(&compiled_prelude, &none, code)) drop(code);
}

int cl_load_prelude(lua_State *L) {
  const compiled *code = atomic_load(&compiled_prelude);
  if (code) return cl_load_text(L, code->bytes, code->length, "=[rlhost]");
  int status = cl_load_text(L, prelude, sizeof prelude, "=[rlhost]");
  if (status == LUA_OK) keep(L);
  return status;
}
