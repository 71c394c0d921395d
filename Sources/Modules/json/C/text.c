// Functions for both halves of the codec: buffers, UTF-8, and errors for misuse.
#include <stdarg.h>
#include <stdlib.h>

#include "private.h"

void json_grow(lua_State *L, json_buffer *buffer, size_t count) {
  size_t capacity = buffer->capacity ? buffer->capacity : 1024;
  while (capacity - buffer->length < count) capacity *= 2;
  char *larger = realloc(buffer->bytes, capacity);
  if (!larger) luaL_error(L, "not enough memory");
  buffer->bytes = larger;
  buffer->capacity = capacity;
}

void json_release(json_buffer *buffer) {
  buffer->length = 0;
  if (buffer->capacity <= 65536) return;
  free(buffer->bytes);
  *buffer = (json_buffer){0};
}

int json_utf8_length(const unsigned char *p, const unsigned char *end) {
  unsigned char first = *p;
  int length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || end - p < length) return 0;
  for (int i = 1; i < length; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  // The sequence is not the shortest form, encodes a surrogate, or is beyond the last code point.
  if ((first == 0xE0 && p[1] < 0xA0) || (first == 0xED && p[1] > 0x9F) || (first == 0xF0 && p[1] < 0x90) ||
      (first == 0xF4 && p[1] > 0x8F))
    return 0;
  return length;
}

int json_refuse(lua_State *L, int index, const char *text, ...) {
  if (index) lua_pushvalue(L, index);
  va_list arguments;
  va_start(arguments, text);
  lua_pushvalue(L, lua_upvalueindex(JSON_REFUSE));
  lua_pushvfstring(L, text, arguments);
  va_end(arguments);
  lua_pushboolean(L, index != 0);
  if (index) lua_pushvalue(L, -4);
  else lua_pushnil(L);
  lua_call(L, 3, 0);
  return 0;  // never
}
