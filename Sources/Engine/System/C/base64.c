// Encoding of bytes as base64.
#include "base64.h"

#include <stdint.h>

size_t linux_write_base64(char *to, const unsigned char *bytes, size_t length) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *p = to;
  for (size_t i = 0; i < length; i += 3) {
    uint32_t word = (uint32_t)bytes[i] << 16;
    if (i + 1 < length) word |= (uint32_t)bytes[i + 1] << 8;
    if (i + 2 < length) word |= bytes[i + 2];
    *p++ = letters[word >> 18];
    *p++ = letters[word >> 12 & 63];
    *p++ = i + 1 < length ? letters[word >> 6 & 63] : '=';
    *p++ = i + 2 < length ? letters[word & 63] : '=';
  }
  return (size_t)(p - to);
}
