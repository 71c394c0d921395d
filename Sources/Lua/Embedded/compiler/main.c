// Compiles the modules that are written in Lua, at build time, with the Lua that the program is linked with.
// scripts/build builds and runs it, and `bytecode.c` embeds its output.
//
//     compile-modules FILE
//
// The file begins with a row for each module (`lua_modules_row`), then a row without a name, then the code. The code is
// stripped: line numbers and names would be half of it, and errors show no positions inside the host's own code.
#include <LuaModules.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODULES = 512 };
static lua_modules_row rows[MAX_MODULES];

typedef struct bytes {
  char *start;
  size_t length;
} bytes;

static int append(lua_State *L, const void *piece, size_t length, void *data) {
  (void)L;
  bytes *all = data;
  char *larger = realloc(all->start, all->length + length);
  if (!larger) return 1;
  memcpy(larger + all->length, piece, length);
  *all = (bytes){larger, all->length + length};
  return 0;
}

// Stripping removes the source's name as well. This inserts it where lua_dump leaves a place for it, because tracebacks
// and positions recognize the host's own functions by it.
static int append_named(lua_State *L, const bytes *code, bytes *all) {
  enum { HEADER = 4 + 1 + 1 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number) + 1 };
  const unsigned char none = 0x80, length = none | sizeof LUA_MODULES_SOURCE;
  if (code->length <= HEADER || (unsigned char)code->start[HEADER] != none) return 1;
  return append(L, code->start, HEADER, all) || append(L, &length, 1, all) ||
         append(L, LUA_MODULES_SOURCE, sizeof LUA_MODULES_SOURCE - 1, all) ||
         append(L, code->start + HEADER + 1, code->length - HEADER - 1, all);
}

static int fail(const char *what, const char *why) {
  fprintf(stderr, "compile-modules: %s: %s\n", what, why);
  return 1;
}

static int compile(lua_State *L, const char *name, lua_modules_row *row, bytes *all) {
  const char *text = lua_modules_find(name);
  if (strlen(name) >= sizeof row->name) return fail(name, "the name is too long");
  if (luaL_loadbuffer(L, text, strlen(text), LUA_MODULES_SOURCE) != LUA_OK) return fail(name, lua_tostring(L, -1));
  bytes code = {0};
  size_t offset = all->length;
  if (lua_dump(L, append, &code, 1) || append_named(L, &code, all)) return fail(name, "cannot dump its code");
  free(code.start);
  lua_settop(L, 0);
  *row = (lua_modules_row){.offset = (unsigned)offset, .length = (unsigned)(all->length - offset)};
  strcpy(row->name, name);
  return 0;
}

int main(int count, char **arguments) {
  if (count != 2) return fail("usage", "compile-modules FILE");
  lua_State *L = luaL_newstate();
  if (!L) return fail("Lua", "not enough memory");
  bytes all = {0};
  size_t used = 0;
  const char *name;
  for (size_t i = 0; (name = lua_modules_name(i)); i++) {
    if (!*name || strcmp(name, "runloop.reference") == 0) continue;
    if (used + 1 >= MAX_MODULES) return fail(name, "there are too many modules");
    if (compile(L, name, &rows[used++], &all)) return 1;
  }
  size_t start = (used + 1) * sizeof *rows;
  for (size_t i = 0; i < used; i++) rows[i].offset += (unsigned)start;
  FILE *file = fopen(arguments[1], "wb");
  if (!file) return fail(arguments[1], "cannot be written");
  fwrite(rows, sizeof *rows, used + 1, file);
  fwrite(all.start, 1, all.length, file);
  if (ferror(file) || fclose(file) != 0) return fail(arguments[1], "cannot be written");
  return 0;
}
