// LuaModules: what of the product is written in Lua, by the names under which it is required.
#pragma once

#include <stddef.h>

/// One text: a module, or the reference of the library and all modules (`runloop.reference`), which the prompt's help shows.
typedef struct lua_module {
  const char *name;   ///< as `require` takes it
  const char *text;   ///< not terminated
  size_t length;      ///< bytes
} lua_module;

/// The module of this name, or NULL. From any thread.
const lua_module *lua_modules_find(const char *name);
