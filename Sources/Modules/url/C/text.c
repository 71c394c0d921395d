// Bytes of URLs: their classes, percent-encoding, and functions that the other files of the parser share.
#include <stdio.h>
#include <string.h>

#include "url.h"

#define QUERIES (URL_QUERY | URL_SPECIAL_QUERY)
#define PATHS (URL_PATH | URL_USER)
#define HOSTS (URL_NOT_IN_HOST | URL_NOT_IN_DOMAIN)
#define ALL_BUT(class) (0xff & ~(class))

const unsigned char url_classes[256] = {
    [0] = 0xff,
    [1 ... 8] = ALL_BUT(URL_NOT_IN_HOST),
    [9 ... 10] = 0xff,
    [11 ... 12] = ALL_BUT(URL_NOT_IN_HOST),
    [13] = 0xff,
    [14 ... 31] = ALL_BUT(URL_NOT_IN_HOST),
    [127] = ALL_BUT(URL_NOT_IN_HOST),
    [128 ... 255] = ALL_BUT(HOSTS),
    [' '] = URL_FRAGMENT | QUERIES | PATHS | HOSTS,
    ['"'] = URL_FRAGMENT | QUERIES | PATHS,
    ['#'] = QUERIES | PATHS | HOSTS,
    ['%'] = URL_NOT_IN_DOMAIN,
    ['\''] = URL_SPECIAL_QUERY,
    ['/'] = URL_USER | HOSTS,
    [':'] = URL_USER | HOSTS,
    [';'] = URL_USER,
    ['<'] = URL_FRAGMENT | QUERIES | PATHS | HOSTS,
    ['='] = URL_USER,
    ['>'] = URL_FRAGMENT | QUERIES | PATHS | HOSTS,
    ['?'] = PATHS | HOSTS,
    ['@'] = URL_USER | HOSTS,
    ['['] = URL_USER | HOSTS,
    ['\\'] = URL_USER | HOSTS,
    [']'] = URL_USER | HOSTS,
    ['^'] = URL_USER | HOSTS,
    ['`'] = URL_FRAGMENT | PATHS,
    ['{'] = PATHS,
    ['|'] = URL_USER | HOSTS,
    ['}'] = PATHS,
};

int url_fail(url *to, const char *problem) {
  snprintf(to->problem, sizeof to->problem, "%s", problem);
  return 0;
}

int url_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

void url_append(url *to, const char *bytes, size_t length) {
  if (!linux_reserve(&to->text, length + 1)) luaL_error(to->L, "not enough memory");
  if (length) memcpy(to->text.bytes + to->text.length, bytes, length);
  to->text.length += length;
}

void url_encode(url *to, const char *bytes, size_t length, int class) {
  if (!linux_reserve(&to->text, length * 3 + 1)) luaL_error(to->L, "not enough memory");
  char *p = to->text.bytes + to->text.length;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (!(url_classes[c] & class)) *p++ = (char)c;
    else *p++ = '%', *p++ = "0123456789ABCDEF"[c >> 4], *p++ = "0123456789ABCDEF"[c & 15];
  }
  to->text.length = (size_t)(p - to->text.bytes);
}
