// Declarations that the C files of the codec share.
#pragma once

#include <lauxlib.h>

#include "CJSON.h"

/// How deep arrays and objects may be nested.
enum { JSON_DEPTH = 1000 };

/// Upvalues of the functions of the codec.
enum { JSON_ARRAY = 1, JSON_OBJECT = 2, JSON_BUFFER = 3, JSON_REFUSE = 4 };

/// A buffer that the Lua state keeps for later texts, in a userdata that frees it.
typedef struct json_buffer {
  char *bytes;
  size_t length, capacity;
} json_buffer;

/// Makes room for `count` more bytes. Raises an error without memory.
void json_grow(lua_State *L, json_buffer *buffer, size_t count);
static inline void json_reserve(lua_State *L, json_buffer *buffer, size_t count) {
  if (buffer->capacity - buffer->length < count) json_grow(L, buffer, count);
}
/// Called after use: frees a buffer that a large text has enlarged.
void json_release(json_buffer *buffer);

/// Returns the length of the UTF-8 sequence at `p`, which begins with a byte above 127; 0 if it is invalid.
int json_utf8_length(const unsigned char *p, const unsigned char *end);

/// Raises a message at the script's position. Appends the value at `index` in the form of all messages of misuse; 0:
/// appends none.
int json_refuse(lua_State *L, int index, const char *text, ...) __attribute__((format(printf, 3, 4)));

int json_decode(lua_State *L);
int json_encode(lua_State *L);
