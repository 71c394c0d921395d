// The answer of a handler that returns a text: nearly all of its head is that of the one before.
#include <string.h>
#include <time.h>

#include "private.h"

// Seconds pass more slowly than answers.
const char *lua_http_date(void) {
  static _Thread_local time_t latest;
  static _Thread_local char text[30];
  time_t now = time(NULL);
  if (now != latest) {
    http_write_date(text, now);
    latest = now;
  }
  return text;
}

// Puts a number before `to`. Returns where it begins.
static char *put_number(char *to, size_t number) {
  do *--to = (char)('0' + number % 10);
  while (number /= 10);
  return to;
}

// write_text(answer, flags of the request, whether the connection goes on) -> bytes of a whole response with the status 200; nil for what
// is no text, and for requests that want something else than this.
int lua_http_write_text(lua_State *L) {
  static const char date_field[] = "HTTP/1.1 200 OK\r\nDate: ", length_field[] = "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ";
  enum { DATE = sizeof date_field - 1, DATE_LENGTH = 29, LENGTH = sizeof length_field - 1 };
  lua_Integer flags = lua_tointeger(L, 2);
  if (lua_type(L, 1) != LUA_TSTRING || (flags & (HTTP_IS_HEAD | HTTP_EXPECTS_CONTINUE))) return 0;
  size_t length;
  const char *text = lua_tolstring(L, 1, &length);
  char number[24], *digits = put_number(number + sizeof number, length);
  size_t digit_count = (size_t)(number + sizeof number - digits);
  const char *end = !lua_toboolean(L, 3)    ? "\r\nConnection: close\r\n\r\n"
                    : (flags & HTTP_IS_OLD) ? "\r\nConnection: keep-alive\r\n\r\n"
                                            : "\r\n\r\n";
  size_t end_length = strlen(end), head_length = DATE + DATE_LENGTH + LENGTH + digit_count + end_length;
  char small[1024];
  luaL_Buffer buffer;
  int is_small = head_length + length <= sizeof small;
  char *to = is_small ? small : luaL_buffinitsize(L, &buffer, head_length + length), *p = to;
  memcpy(p, date_field, DATE), p += DATE;
  memcpy(p, lua_http_date(), DATE_LENGTH), p += DATE_LENGTH;
  memcpy(p, length_field, LENGTH), p += LENGTH;
  memcpy(p, digits, digit_count), p += digit_count;
  memcpy(p, end, end_length), p += end_length;
  memcpy(p, text, length);
  if (is_small) lua_pushlstring(L, to, head_length + length);
  else luaL_pushresultsize(&buffer, head_length + length);
  return 1;
}
