// The modules as bytecode. Loading bytecode takes a tenth of the time of compiling the text, which would be most of a
// short script's start. Only scripts/build makes the bytecode. Other builds compile the texts, so they never contain
// outdated bytecode.
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
