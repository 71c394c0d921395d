// Bytes as text: hexadecimal, base64, base64url and base32 (RFC 4648).
#include <stdint.h>
#include <string.h>

#include "codecs.h"

struct codecs_form {
  const char *name, *letters;
  int width;                     // bits of a letter
  int letter_count, byte_count;  // in a group
  enum { NEVER, MAY_PAD, PADS } padding;
};

static const codecs_form forms[] = {
    {"hex", "0123456789abcdef", 4, 2, 1, NEVER},
    {"base64", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 6, 4, 3, PADS},
    {"base64url", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", 6, 4, 3, MAY_PAD},
    {"base32", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 5, 8, 5, PADS},
};
enum { FORMS = sizeof forms / sizeof *forms };

const codecs_form *codecs_check_form(lua_State *L, int index, const char *function) {
  if (lua_isnoneornil(L, index)) return NULL;
  const char *name = codecs_check_string(L, index, function, NULL);
  for (int i = 0; i < FORMS; i++)
    if (strcmp(name, forms[i].name) == 0) return &forms[i];
  lua_createtable(L, 0, FORMS);
  for (int i = 0; i < FORMS; i++) lua_pushboolean(L, 1), lua_setfield(L, -2, forms[i].name);
  codecs_unknown(L, index, function, "form");
  return NULL;
}

// Encoding ------------------------------------------------------------------------------------------------------------

// Writes whole groups. A constant form lets the compiler unroll the loops.
static inline __attribute__((always_inline)) size_t write_groups(char *to, const unsigned char *bytes, size_t length,
                                                                 const codecs_form form) {
  size_t at = 0;
  for (; length - at >= (size_t)form.byte_count; at += (size_t)form.byte_count) {
    uint64_t word = 0;
    for (int i = 0; i < form.byte_count; i++) word = word << 8 | bytes[at + (size_t)i];
    for (int i = form.letter_count; i-- > 0; word >>= form.width) to[i] = form.letters[word & ((1u << form.width) - 1)];
    to += form.letter_count;
  }
  return at;
}

void codecs_push(lua_State *L, const char *source, size_t length, const codecs_form *form) {
  if (!form) {
    lua_pushlstring(L, source, length);
    return;
  }
  const unsigned char *bytes = (const unsigned char *)source;
  size_t groups = length / (size_t)form->byte_count, most = (groups + 1) * (size_t)form->letter_count;
  char small[256];
  luaL_Buffer buffer;
  char *start = most <= sizeof small ? small : luaL_buffinitsize(L, &buffer, most);
  size_t at = form == &forms[0]   ? write_groups(start, bytes, length, forms[0])
              : form == &forms[1] ? write_groups(start, bytes, length, forms[1])
              : form == &forms[2] ? write_groups(start, bytes, length, forms[2])
                                  : write_groups(start, bytes, length, forms[3]);
  char *to = start + groups * (size_t)form->letter_count;
  if (at < length) {
    uint64_t word = 0;
    int bits = (int)(length - at) * 8, space = form->byte_count * 8;
    for (int i = 0; i < form->byte_count; i++, at++) word = word << 8 | (at < length ? bytes[at] : 0);
    for (int i = 0; i < form->letter_count; i++, bits -= form->width) {
      space -= form->width;
      if (bits > 0) *to++ = form->letters[word >> space & ((1u << form->width) - 1)];
      else if (form->padding == PADS) *to++ = '=';
    }
  }
  if (start == small) lua_pushlstring(L, small, (size_t)(to - small));
  else luaL_pushresultsize(&buffer, (size_t)(to - start));
}

// encode(bytes, form) -> text
static int encode(lua_State *L) {
  static const char name[] = "encoding.encode";
  size_t length;
  const char *bytes = codecs_check_string(L, 1, name, &length);
  const codecs_form *form = codecs_check_form(L, 2, name);
  if (!form) return codecs_wrong(L, 2, name, "the name of a form");
  codecs_push(L, bytes, length, form);
  return 1;
}

// Decoding ------------------------------------------------------------------------------------------------------------

enum { NOT_A_LETTER = 255 };

static void fill_values(unsigned char values[256], const codecs_form *form, int is_lenient) {
  memset(values, NOT_A_LETTER, 256);
  for (int i = 0; form->letters[i]; i++) {
    unsigned char letter = (unsigned char)form->letters[i];
    values[letter] = (unsigned char)i;
    // Hexadecimal digits may have either case; so may the letters of base32 if the reader is lenient.
    if (form->width == 4 && letter >= 'a') values[letter - 32] = (unsigned char)i;
    if (form->width == 5 && is_lenient && letter >= 'A') values[letter + 32] = (unsigned char)i;
  }
}

// Reads whole groups, up to the first group with a character that the form does not use. Returns the number of letters.
static inline __attribute__((always_inline)) size_t read_groups(char *to, const unsigned char *text, size_t length,
                                                                const unsigned char values[256],
                                                                const codecs_form form) {
  size_t at = 0;
  for (; length - at >= (size_t)form.letter_count; at += (size_t)form.letter_count, to += form.byte_count) {
    uint64_t word = 0;
    unsigned found = 0;
    for (int i = 0; i < form.letter_count; i++) {
      unsigned value = values[text[at + (size_t)i]];
      found |= value;
      word = word << form.width | value;
    }
    if (found & 128) break;
    for (int i = form.byte_count; i-- > 0; word >>= 8) to[i] = (char)word;
  }
  return at;
}

// Returns nil, "base64: " and the text on top, "EBADMSG" to Lua.
static int refuse(lua_State *L, const codecs_form *form) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", form->name, lua_tostring(L, -2));
  lua_pushliteral(L, "EBADMSG");
  return 3;
}

static int refuse_byte(lua_State *L, const codecs_form *form, size_t at, unsigned char byte, const char *reason) {
  static const char digits[] = "0123456789ABCDEF";
  if (byte < 32 || byte > 126)
    lua_pushfstring(L, "byte %I is 0x%c%c%s", (lua_Integer)at, digits[byte >> 4], digits[byte & 15], reason);
  else lua_pushfstring(L, "byte %I is '%c'%s", (lua_Integer)at, byte, reason);
  return refuse(L, form);
}

// decode(text, form, is_lenient) -> bytes, or nil, problem, code
static int decode(lua_State *L) {
  static const char name[] = "encoding.decode";
  size_t length;
  const unsigned char *text = (const unsigned char *)codecs_check_string(L, 1, name, &length);
  const codecs_form *form = codecs_check_form(L, 2, name);
  if (!form) return codecs_wrong(L, 2, name, "the name of a form");
  int is_lenient = lua_toboolean(L, 3), width = form->width;
  unsigned char values[256];
  fill_values(values, form, is_lenient);
  luaL_Buffer buffer;
  size_t most = length / (size_t)form->letter_count * (size_t)form->byte_count + 8;
  char *start = luaL_buffinitsize(L, &buffer, most), *to = start;
  size_t at = form == &forms[0]   ? read_groups(to, text, length, values, forms[0])
              : form == &forms[1] ? read_groups(to, text, length, values, forms[1])
              : form == &forms[2] ? read_groups(to, text, length, values, forms[2])
                                  : read_groups(to, text, length, values, forms[3]);
  size_t letters = at, padding = 0, last = at;
  to += at / (size_t)form->letter_count * (size_t)form->byte_count;
  uint32_t word = 0;
  int bits = 0;
  for (; at < length; at++) {
    unsigned char byte = text[at], value = values[byte];
    if (value != NOT_A_LETTER && !padding) {
      word = word << width | value;
      letters++, last = at + 1;
      if ((bits += width) >= 8) *to++ = (char)(word >> (bits -= 8));
    } else if (is_lenient && (byte == ' ' || (byte >= '\t' && byte <= '\r'))) {
      continue;
    } else if (byte == '=' && form->padding != NEVER && letters % (size_t)form->letter_count) {
      padding++;
    } else {
      return refuse_byte(L, form, at + 1, byte, padding ? ", behind the padding" : "");
    }
  }
  size_t rest = letters % (size_t)form->letter_count, missing = rest ? (size_t)form->letter_count - rest : 0;
  const char *problem = NULL;
  if (bits >= width) problem = "cut off after byte %I";
  else if (padding > missing) problem = "too much padding at byte %I";
  else if (padding < missing && !is_lenient && (form->padding == PADS || padding))
    problem = "the padding is missing at byte %I";
  if (problem) return lua_pushfstring(L, problem, (lua_Integer)(bits >= width ? last : length)), refuse(L, form);
  if (word & ((1u << bits) - 1)) return refuse_byte(L, form, last, text[last - 1], ", whose unused bits are not 0");
  luaL_pushresultsize(&buffer, (size_t)(to - start));
  return 1;
}

int encoding_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"encode", encode}, {"decode", decode}, {NULL, NULL}};
  codecs_push_library(L, functions);
  return 1;
}
