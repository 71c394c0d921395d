// Prints text from outside so that it cannot command a terminal.
#include "private.h"

#include <stdio.h>

// Decodes one UTF-8 character. Returns the character's number of bytes, or 0 if the bytes are not UTF-8.
static int decode(const unsigned char *text, unsigned *character) {
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  int length = *text < 0x80 ? 1 : *text < 0xC2 ? 0 : *text < 0xE0 ? 2 : *text < 0xF0 ? 3 : *text < 0xF5 ? 4 : 0;
  unsigned code = length == 1 ? *text : *text & (0x7Fu >> length);
  for (int i = 1; i < length; i++) {
    // The zero at the end of the text fails this test, too.
    if ((text[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3F);
  }
  if (!length || code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  *character = code;
  return length;
}

static int is_command(unsigned c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

void cl_print_shown(const char *text, size_t limit) {
  const unsigned char *at = (const unsigned char *)text, *start = at;
  while ((size_t)(at - start) < limit && *at) {
    unsigned character = 0;
    int length = decode(at, &character), escapes = !length || is_command(character);
    if (!length) length = 1;
    for (; length > 0; length--, at++) fprintf(stderr, escapes ? "\\x%02x" : "%c", *at);
  }
}
