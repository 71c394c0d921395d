// The Lua-written part of the library, compiled once for all states.
#include "private.h"

#include <LuaModules.h>
#include <stdatomic.h>
#include <stdlib.h>

// Compiled code of the prelude, from the second state on. Each thread has one of its own, and compiling would be most of what
// its start costs. Without line numbers and names of variables, or loading would be a fifth of it.
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

// Stripped code has no source either. It is put back where lua_dump leaves a place for it: tracebacks tell by it what is the
// host's, and so do we. Whether that is right for the Lua at hand shows when it is loaded.
static int name_source(lua_State *L, compiled *code) {
  enum { header = 4 + 1 + 1 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number) + 1 };
  const unsigned char none = 0x80;
  if (code->length <= header || (unsigned char)code->bytes[header] != none) return 0;
  const char length = (char)(none | sizeof CL_SOURCE);
  if (append(L, CL_SOURCE, sizeof CL_SOURCE - 1, code) != 0) return 0;  // for the room
  memmove(code->bytes + header + sizeof CL_SOURCE, code->bytes + header + 1, code->length - header - sizeof CL_SOURCE);
  code->bytes[header] = length;
  memcpy(code->bytes + header + 1, CL_SOURCE, sizeof CL_SOURCE - 1);
  int status = cl_load_text(L, code->bytes, code->length, CL_SOURCE);
  lua_Debug debug = {0};
  if (status == LUA_OK) lua_getinfo(L, ">S", &debug);
  else lua_pop(L, 1);
  return status == LUA_OK && cl_is_hosts(&debug);
}

// Keeps the compiled function on top of the stack for all. Without memory for that nothing is kept.
static void keep(lua_State *L) {
  compiled *code = calloc(1, sizeof *code);
  if (!code) return;
  compiled *none = NULL;
  if (lua_dump(L, append, code, 1) != 0 || !name_source(L, code) ||
      !atomic_compare_exchange_strong(&compiled_prelude, &none, code))
    drop(code);
}

int cl_load_prelude(lua_State *L) {
  static atomic_int others;
  const compiled *code = atomic_load(&compiled_prelude);
  if (code) return cl_load_text(L, code->bytes, code->length, CL_SOURCE);
  const lua_module *prelude = lua_modules_find("runloop.prelude");
  int status = cl_load_text(L, prelude->text, prelude->length, CL_SOURCE);
  if (status == LUA_OK && atomic_exchange(&others, 1)) keep(L);
  return status;
}

int cl_has_module(const char *name) { return lua_modules_find(name) != NULL; }

int cl_load_module(lua_State *L, const char *name) {
  const lua_module *module = lua_modules_find(name);
  if (module) return cl_load_text(L, module->text, module->length, CL_SOURCE);
  (void)cl_push_text(L, "there is no such module", 23);
  return LUA_ERRERR;
}

int cl_push_module_text(lua_State *L, const char *name) {
  const lua_module *module = lua_modules_find(name);
  return module ? cl_push_text(L, module->text, module->length) : cl_push_text(L, "", 0);
}
