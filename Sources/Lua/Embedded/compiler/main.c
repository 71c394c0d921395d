// Compiles the modules that are written in Lua, at build time, with the Lua that the program is linked with.
// scripts/build builds and runs it, and `bytecode.c` embeds its output.
//
//     compile-modules FILE TEXTS
//
// Both files begin with a row for each module (`lua_modules_row`), and end the rows with one without a name. Then FILE
// has the bytecode. It is stripped: line numbers and names would be half of its size, and errors show no positions
// inside the host's code anyway. TEXTS has the texts, packed, for texts.c.
#include <LuaModules.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../unpack.h"

static lua_modules_row rows[LUA_MODULES_MOST], text_rows[LUA_MODULES_MOST];

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

// Stripping removes the source's name as well. But tracebacks and positions recognize the host's functions by that
// name, so this function inserts it again, in the field that lua_dump leaves empty.
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

// Appends the text of a module: its size, and the text compressed by zlib. The program unpacks it with the code of
// unpack.c; this function checks that unpack.c can do so.
static int pack(lua_State *L, const char *name, lua_modules_row *row, bytes *all) {
  const char *text = lua_modules_find(name);
  const unsigned size = (unsigned)strlen(text), most = size + size / 8 + 64;
  unsigned char *packed = malloc(most);
  char *again = malloc(size + 1);
  if (!packed || !again || strlen(name) >= sizeof row->name) return fail(name, "cannot be packed");
  z_stream z = {.next_in = (Bytef *)text, .avail_in = size, .next_out = packed, .avail_out = most};
  if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK ||
      deflate(&z, Z_FINISH) != Z_STREAM_END || deflateEnd(&z) != Z_OK)
    return fail(name, "zlib does not pack it");
  if (!lua_modules_unpack(packed, z.total_out, again, size) || memcmp(again, text, size) != 0)
    return fail(name, "cannot be unpacked");
  *row = (lua_modules_row){.offset = (unsigned)all->length, .length = (unsigned)(z.total_out + sizeof size)};
  strcpy(row->name, name);
  if (append(L, &size, sizeof size, all) || append(L, packed, z.total_out, all)) return fail(name, "no memory");
  free(packed);
  free(again);
  return 0;
}

static int write_file(const char *path, lua_modules_row *all_rows, size_t used, const bytes *all) {
  const size_t start = (used + 1) * sizeof *all_rows;
  for (size_t i = 0; i < used; i++) all_rows[i].offset += (unsigned)start;
  FILE *file = fopen(path, "wb");
  if (!file) return fail(path, "cannot be written");
  fwrite(all_rows, sizeof *all_rows, used + 1, file);
  fwrite(all->start, 1, all->length, file);
  return ferror(file) || fclose(file) != 0 ? fail(path, "cannot be written") : 0;
}

int main(int count, char **arguments) {
  if (count != 3) return fail("usage", "compile-modules FILE TEXTS");
  lua_State *L = luaL_newstate();
  if (!L) return fail("Lua", "not enough memory");
  bytes all = {0}, texts = {0};
  size_t used = 0, packed = 0;
  const char *name;
  for (size_t i = 0; (name = lua_modules_name(i)); i++) {
    if (!*name) continue;
    if (packed + 1 >= LUA_MODULES_MOST) return fail(name, "there are too many modules");
    if (pack(L, name, &text_rows[packed++], &texts)) return 1;
    if (strcmp(name, "runloop.reference") != 0 && compile(L, name, &rows[used++], &all)) return 1;
  }
  return write_file(arguments[1], rows, used, &all) || write_file(arguments[2], text_rows, packed, &texts);
}
