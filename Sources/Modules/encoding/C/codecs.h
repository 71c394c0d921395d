// Declarations that the C files of this target share. The first upvalue of each function is the module runloop.misuse.
#pragma once

#include <lauxlib.h>
#include <libraries.h>

#include "CLuaCodecs.h"

/// A form of bytes as text, such as base64.
typedef struct codecs_form codecs_form;

/// Returns the form that an argument names; NULL if the argument is absent. Raises an error for other values.
const codecs_form *codecs_check_form(lua_State *L, int index, const char *function);
/// Pushes bytes in a form; NULL stands for the bytes themselves.
void codecs_push(lua_State *L, const char *bytes, size_t length, const codecs_form *form);

/// Returns a string argument. Raises an error for other values, numbers included.
const char *codecs_check_string(lua_State *L, int index, const char *function, size_t *length);
/// Raises an error such as "encoding.encode: argument #1 must be a string, got 5".
int codecs_wrong(lua_State *L, int index, const char *function, const char *expected);
/// Raises an error for an unknown name at `index`, with the most similar key of the table on top of the stack.
int codecs_unknown(lua_State *L, int index, const char *function, const char *kind);
/// Raises an error with the script's position. The text is formatted by lua_pushfstring.
int codecs_raise(lua_State *L, const char *text, ...);
/// Returns nil, "CODE: text", "CODE" to Lua. The text is formatted by lua_pushfstring.
int codecs_refuse(lua_State *L, const char *code, const char *text, ...);
/// Opens a library at its first use. Returns 0; if that fails, the number of values for Lua, which it has pushed.
int codecs_use(lua_State *L, struct linux_library *library);
/// Pushes the functions of a module into a new table. The module runloop.misuse is at index 1.
void codecs_push_library(lua_State *L, const luaL_Reg *functions);
