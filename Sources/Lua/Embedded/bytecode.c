// The modules as bytecode: loading it takes a tenth of the time of compiling the text, which was most of a short
// script's start. Only scripts/build makes it. A build without it compiles the texts, so it never contains outdated
// bytecode.
//
// Costs if removed: 3.2 million instructions for `require "runloop"`.
#include "LuaModules.h"

#include <string.h>

#if __has_embed(<rlhost-modules.bytecode>)

_Alignas(lua_modules_row) static const char file[] = {
#embed <rlhost-modules.bytecode>
};

const char *lua_modules_code(const char *name, size_t *length) {
  for (const lua_modules_row *row = (const lua_modules_row *)file; *row->name; row++) {
    if (strcmp(row->name, name) != 0) continue;
    *length = row->length;
    return file + row->offset;
  }
  return NULL;
}

#else

const char *lua_modules_code(const char *name, size_t *length) {
  (void)name, (void)length;
  return NULL;
}

#endif
