// LuaModules: what of the product is written in Lua, by the names under which it is required.
#pragma once

/// The text of the module of this name, or of the reference of the library and all modules (`runloop.reference`), which the prompt's help
/// shows; NULL if there is none. From any thread.
const char *lua_modules_find(const char *name);
