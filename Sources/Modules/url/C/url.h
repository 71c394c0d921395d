// Declarations that the C files of runloop.url share: URLs as WHATWG's standard reads and writes them.
#pragma once

#include <deflate.h>

#include "../../encoding/C/codecs.h"

typedef struct url_part {
  size_t at, length;
} url_part;

/// A URL in its normal form, and where its parts are in it.
typedef struct url {
  linux_bytes text, scratch, input;
  url_part scheme, user, password, host, path, query, fragment;
  int port, default_port;  // -1: none
  int is_special, is_file, is_opaque, has_host, has_query, has_fragment;
  const char *code;  // the problem's
  char problem[600];
  lua_State *L;  // only for raising an error if memory runs out
} url;

/// The sets of characters that are percent-encoded, as bits of url_classes.
enum {
  URL_CONTROL = 1,
  URL_FRAGMENT = 2,
  URL_QUERY = 4,
  URL_SPECIAL_QUERY = 8,
  URL_PATH = 16,
  URL_USER = 32,
  URL_NOT_IN_HOST = 64,
  URL_NOT_IN_DOMAIN = 128
};
extern const unsigned char url_classes[256];

/// Parses a text into `to`; `base` may be NULL. Returns 0 for a text that is not a URL, with the problem in `to`.
int url_parse(url *to, const char *text, size_t length, const url *base);
/// Appends a host. Returns 0 for a host that is not allowed.
int url_write_host(url *to, const char *text, size_t length);

void url_append(url *to, const char *bytes, size_t length);
/// Appends bytes, percent-encoded if they are in the class.
void url_encode(url *to, const char *bytes, size_t length, int class);
/// Notes the problem, and returns 0.
int url_fail(url *to, const char *problem);
/// The value of a hexadecimal digit, or -1.
int url_digit(char c);
static inline int url_is_letter(char c) { return (unsigned char)((c | 32) - 'a') < 26; }
