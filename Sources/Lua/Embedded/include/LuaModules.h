// LuaModules: the parts of the product that are written in Lua, by the names under which they are required.
#pragma once

#include <stddef.h>

/// The version: of the program, of `rl.version`, and of packages. CHANGELOG.md begins with the same version.
#define RLHOST_VERSION "0.1.0"

/// The chunk name of all modules. The name distinguishes the host's own functions from a script's.
#define LUA_MODULES_SOURCE "=[rlhost]"

/// Returns the text of the module of this name, or NULL if there is none. The text is empty if there is no memory.
/// `runloop.reference` is the reference of the library and all modules, which the prompt's help shows. May be called on
/// any thread.
const char *lua_modules_find(const char *name);

/// Whether there is a module of this name. May be called on any thread.
int lua_modules_has(const char *name);

/// Returns the text of a module of a build with packed texts, or NULL if it is unknown or there is no memory.
const char *lua_modules_packed_text(const char *name);

/// The largest number of modules that a build can have.
enum { LUA_MODULES_MOST = 512 };

/// Returns the name of the module at this index, or NULL after the last one. May be called on any thread.
const char *lua_modules_name(size_t index);

/// The head of a compiled module, or of a packed text: where it lies in its file, in bytes.
typedef struct lua_modules_row {
  unsigned offset, length;
  char name[40];
} lua_modules_row;

/// Returns the stripped bytecode of the module of this name, and stores its length in bytes. Returns NULL in builds
/// without bytecode, which compile the text. May be called on any thread.
const char *lua_modules_code(const char *name, size_t *length);
