// The texts of the modules, packed. Only scripts/build packs them; in another build, `modules.c` has the texts
// themselves. The prompt's help and the measurement of coverage need them, and so does a Lua that refuses the bytecode.
//
// Costs if removed: 0.95 MB of the program.
#include "LuaModules.h"
#include "unpack.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if __has_embed(<rlhost-modules.texts>)

_Alignas(lua_modules_row) static const unsigned char file[] = {
#embed <rlhost-modules.texts>
};

// The texts that were unpacked so far. They stay in memory until the process ends.
static char *_Atomic unpacked[LUA_MODULES_MOST];

// A packed text begins with its size in bytes.
static char *unpack(const lua_modules_row *row) {
  unsigned size;
  memcpy(&size, file + row->offset, sizeof size);
  char *text = malloc((size_t)size + 1);
  if (!text) return NULL;
  if (!lua_modules_unpack(file + row->offset + sizeof size, row->length - sizeof size, text, size)) {
    free(text);
    return NULL;
  }
  text[size] = '\0';
  return text;
}

const char *lua_modules_packed_text(const char *name) {
  const lua_modules_row *rows = (const lua_modules_row *)file;
  for (size_t i = 0; *rows[i].name; i++) {
    if (strcmp(rows[i].name, name) != 0) continue;
    char *text = atomic_load_explicit(&unpacked[i], memory_order_acquire);
    if (text) return text;
    char *new = unpack(&rows[i]);
    if (!new || atomic_compare_exchange_strong_explicit(&unpacked[i], &text, new, memory_order_acq_rel,
                                                        memory_order_acquire))
      return new;
    // Another thread has unpacked the same text meanwhile.
    free(new);
    return text;
  }
  return NULL;
}

#else

const char *lua_modules_packed_text(const char *name) {
  (void)name;
  return NULL;
}

#endif
