// Answers with a text. Most of the head is the same as in the answer before, and is copied.
#include <string.h>
#include <time.h>

#include "private.h"

// The date, which is made once a second.
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

const char *lua_http_reason(lua_Integer status) {
  switch (status) {
// clang-format off
#define STATUS(number, text) case number: return text;
    STATUS(100, "Continue") STATUS(101, "Switching Protocols") STATUS(103, "Early Hints")
    STATUS(200, "OK") STATUS(201, "Created") STATUS(202, "Accepted") STATUS(203, "Non-Authoritative Information")
    STATUS(204, "No Content") STATUS(205, "Reset Content") STATUS(206, "Partial Content") STATUS(207, "Multi-Status")
    STATUS(300, "Multiple Choices") STATUS(301, "Moved Permanently") STATUS(302, "Found") STATUS(303, "See Other")
    STATUS(304, "Not Modified") STATUS(307, "Temporary Redirect") STATUS(308, "Permanent Redirect")
    STATUS(400, "Bad Request") STATUS(401, "Unauthorized") STATUS(402, "Payment Required") STATUS(403, "Forbidden")
    STATUS(404, "Not Found") STATUS(405, "Method Not Allowed") STATUS(406, "Not Acceptable")
    STATUS(408, "Request Timeout") STATUS(409, "Conflict") STATUS(410, "Gone") STATUS(411, "Length Required")
    STATUS(412, "Precondition Failed") STATUS(413, "Content Too Large") STATUS(414, "URI Too Long")
    STATUS(415, "Unsupported Media Type") STATUS(416, "Range Not Satisfiable") STATUS(417, "Expectation Failed")
    STATUS(418, "I'm a teapot") STATUS(421, "Misdirected Request") STATUS(422, "Unprocessable Content")
    STATUS(423, "Locked")
    STATUS(425, "Too Early") STATUS(426, "Upgrade Required") STATUS(428, "Precondition Required")
    STATUS(429, "Too Many Requests") STATUS(431, "Request Header Fields Too Large")
    STATUS(451, "Unavailable For Legal Reasons") STATUS(500, "Internal Server Error") STATUS(501, "Not Implemented")
    STATUS(502, "Bad Gateway") STATUS(503, "Service Unavailable") STATUS(504, "Gateway Timeout")
    STATUS(505, "HTTP Version Not Supported") STATUS(507, "Insufficient Storage")
#undef STATUS
        // clang-format on
        default : return "Unknown";
  }
}

// Writes a number that ends before `to`. Returns its beginning.
static char *put_number(char *to, size_t number) {
  do *--to = (char)('0' + number % 10);
  while (number /= 10);
  return to;
}

size_t lua_http_text_answer(lua_State *L, int status, const char *type, int flags, char *small, size_t size) {
  static const char date_field[] = "HTTP/1.1 200 OK\r\nDate: ", type_field[] = "\r\nContent-Type: ",
                    length_field[] = "\r\nContent-Length: ";
  enum {
    DATE = sizeof date_field - 1,
    DATE_LENGTH = 29,
    TYPE = sizeof type_field - 1,
    LENGTH = sizeof length_field - 1,
    CODE = 9,
    REASON = 13
  };
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  char number[24], *digits = put_number(number + sizeof number, length);
  size_t digit_count = (size_t)(number + sizeof number - digits), type_length = strlen(type);
  const char *end = !(flags & HTTP_KEEPS_ALIVE) ? "\r\nConnection: close\r\n\r\n"
                    : (flags & HTTP_IS_OLD)     ? "\r\nConnection: keep-alive\r\n\r\n"
                                                : "\r\n\r\n";
  const char *reason = status == 200 ? "OK" : lua_http_reason(status);
  size_t end_length = strlen(end), reason_length = strlen(reason);
  size_t most = DATE + reason_length + DATE_LENGTH + TYPE + type_length + LENGTH + digit_count + end_length + length;
  luaL_Buffer buffer;
  int is_small = most <= size;
  char *to = is_small ? small : luaL_buffinitsize(L, &buffer, most), *p = to;
  memcpy(p, date_field, DATE);
  if (status == 200) {
    p += DATE;
  } else {
    p[CODE] = (char)('0' + status / 100);
    p[CODE + 1] = (char)('0' + status / 10 % 10);
    p[CODE + 2] = (char)('0' + status % 10);
    p += REASON;
    memcpy(p, reason, reason_length), p += reason_length;
    memcpy(p, date_field + REASON + 2, DATE - REASON - 2), p += DATE - REASON - 2;
  }
  memcpy(p, lua_http_date(), DATE_LENGTH), p += DATE_LENGTH;
  memcpy(p, type_field, TYPE), p += TYPE;
  memcpy(p, type, type_length), p += type_length;
  memcpy(p, length_field, LENGTH), p += LENGTH;
  memcpy(p, digits, digit_count), p += digit_count;
  memcpy(p, end, end_length), p += end_length;
  memcpy(p, text, length), p += length;
  if (is_small) return (size_t)(p - to);
  luaL_pushresultsize(&buffer, (size_t)(p - to));
  return 0;
}
