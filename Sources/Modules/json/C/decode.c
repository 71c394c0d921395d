// JSON text to Lua values.
#include <stdint.h>
#include <string.h>

#include "private.h"

typedef struct decoder {
  lua_State *L;
  const unsigned char *text, *p, *end;
  const unsigned char *place;  // the position of the problem
  const char *problem;         // its text, or NULL
  const char *expected;        // or what was expected there
  json_buffer *buffer;
  int depth;
} decoder;

static int decode_value(decoder *d);

static int fail(decoder *d, const unsigned char *place, const char *problem) {
  d->place = place;
  d->problem = problem;
  return 0;
}

static int expect(decoder *d, const char *what) {
  d->place = d->p;
  d->expected = what;
  return 0;
}

static inline void skip_blanks(decoder *d) {
  const unsigned char *p = d->p;
  // Lua's strings end with a 0, which stops the loop.
  while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') p++;
  d->p = p;
}

static int hex4(const unsigned char *p, uint32_t *code) {
  *code = 0;
  for (int i = 0; i < 4; i++) {
    unsigned char c = p[i], low = c | 32;
    if (c >= '0' && c <= '9') *code = *code << 4 | (uint32_t)(c - '0');
    else if (low >= 'a' && low <= 'f') *code = *code << 4 | (uint32_t)(low - 'a' + 10);
    else return 0;
  }
  return 1;
}

static char *write_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xC0 | code >> 6), *to++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *to++ = (char)(0xE0 | code >> 12), *to++ = (char)(0x80 | (code >> 6 & 63)), *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xF0 | code >> 18), *to++ = (char)(0x80 | (code >> 12 & 63));
    *to++ = (char)(0x80 | (code >> 6 & 63)), *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

// Decodes an escape at a backslash. The result is never longer than the escape.
static const unsigned char *decode_escape(decoder *d, const unsigned char *p, char **to) {
  uint32_t code, second;
  char c;
  switch (p[1]) {
    case '"':
    case '\\':
    case '/': c = (char)p[1]; break;
    case 'b': c = '\b'; break;
    case 'f': c = '\f'; break;
    case 'n': c = '\n'; break;
    case 'r': c = '\r'; break;
    case 't': c = '\t'; break;
    case 'u':
      if (d->end - p < 6 || !hex4(p + 2, &code)) return fail(d, p, "'\\u' needs four hexadecimal digits"), NULL;
      if (code >= 0xD800 && code < 0xE000) {
        if (code >= 0xDC00 || d->end - p < 12 || p[6] != '\\' || p[7] != 'u' || !hex4(p + 8, &second) ||
            second < 0xDC00 || second > 0xDFFF)
          return fail(d, p, "half of a surrogate pair, without the other half"), NULL;
        code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
        p += 6;
      }
      *to = write_utf8(*to, code);
      return p + 6;
    default: return fail(d, p, "unknown escape in a string"), NULL;
  }
  *(*to)++ = c;
  return p + 2;
}

// Bytes that end a run of plain characters: quotes, backslashes, control characters, and the beginnings of longer
// sequences.
static const unsigned char special[256] = {[0 ... 31] = 1, ['"'] = 1, ['\\'] = 1, [128 ... 255] = 1};

static int decode_string(decoder *d) {
  const unsigned char *start = d->p + 1, *p = start;
  char *to = NULL;  // set at the first escape
  for (;;) {
    while (!special[*p]) p++;
    if (*p == '"') break;
    if (*p >= 128) {
      int length = json_utf8_length(p, d->end);
      if (!length) return fail(d, p, "these bytes are not UTF-8");
      p += length;
    } else if (*p == '\\') {
      if (!to) {
        d->buffer->length = 0;
        // The result is at most as long as the rest of the string's text, which ends at the next quote without a
        // backslash.
        const unsigned char *q = p;
        while (q < d->end && *q != '"') q += *q == '\\' ? 2 : 1;
        json_reserve(d->L, d->buffer, (size_t)(q - start) + 8);
        to = d->buffer->bytes;
      }
      memcpy(to, start, (size_t)(p - start)), to += p - start;
      p = start = decode_escape(d, p, &to);
      if (!p) return 0;
    } else if (p >= d->end) {
      return fail(d, d->p, "this string is not terminated");
    } else {
      return fail(d, p, "a control character in a string has to be escaped");
    }
  }
  if (to) {
    memcpy(to, start, (size_t)(p - start)), to += p - start;
    lua_pushlstring(d->L, d->buffer->bytes, (size_t)(to - d->buffer->bytes));
  } else {
    lua_pushlstring(d->L, (const char *)start, (size_t)(p - start));
  }
  d->p = p + 1;
  return 1;
}

static inline int is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static int decode_number(decoder *d) {
  const unsigned char *start = d->p, *p = start;
  int is_negative = *p == '-';
  p += is_negative;
  if (!is_digit(*p)) return d->p = p, expect(d, "a digit");
  if (*p == '0' && is_digit(p[1])) return fail(d, start, "a number must not begin with 0");
  uint64_t digits = 0;
  const unsigned char *first = p;
  for (; is_digit(*p); p++) digits = digits * 10 + (uint64_t)(*p - '0');
  if (*p != '.' && (*p | 32) != 'e') {
    ptrdiff_t count = p - first;
    // Nineteen digits do not overflow 64 bits; the comparison checks Lua's range. -0 is an integer, as in Lua.
    if (count <= 19 && digits <= (uint64_t)INT64_MAX + (uint64_t)is_negative) {
      lua_pushinteger(d->L, (lua_Integer)(is_negative ? -digits : digits));
      d->p = p;
      return 1;
    }
  } else {
    if (*p == '.') {
      d->p = ++p;
      if (!is_digit(*p)) return expect(d, "a digit");
      while (is_digit(*p)) p++;
    }
    if ((*p | 32) == 'e') {
      p++;
      p += *p == '+' || *p == '-';
      d->p = p;
      if (!is_digit(*p)) return expect(d, "a digit");
      while (is_digit(*p)) p++;
    }
  }
  double number = json_read_double((const char *)start, (const char *)p);
  if (number - number != 0) return fail(d, start, "this number is larger than any float");
  lua_pushnumber(d->L, number);
  d->p = p;
  return 1;
}

static int enter(decoder *d) {
  if (++d->depth > JSON_DEPTH) return fail(d, d->p, "more than 1000 nested arrays and objects");
  luaL_checkstack(d->L, 6, "JSON");
  return 1;
}

static int decode_array(decoder *d) {
  if (!enter(d)) return 0;
  lua_createtable(d->L, 4, 0);
  lua_pushvalue(d->L, lua_upvalueindex(JSON_ARRAY));
  lua_setmetatable(d->L, -2);
  d->p++;
  skip_blanks(d);
  if (*d->p == ']') return d->p++, d->depth--, 1;
  for (lua_Integer i = 1;; i++) {
    if (!decode_value(d)) return 0;
    lua_rawseti(d->L, -2, i);
    skip_blanks(d);
    if (*d->p == ']') break;
    if (*d->p != ',') return expect(d, "',' or ']'");
    d->p++;
    skip_blanks(d);
  }
  d->p++;
  d->depth--;
  return 1;
}

static int decode_object(decoder *d) {
  if (!enter(d)) return 0;
  lua_createtable(d->L, 0, 4);
  d->p++;
  skip_blanks(d);
  if (*d->p == '}') {
    // The mark makes an empty table count as an object. Tables with fields do not need the mark.
    lua_pushvalue(d->L, lua_upvalueindex(JSON_OBJECT));
    lua_setmetatable(d->L, -2);
    return d->p++, d->depth--, 1;
  }
  for (;;) {
    if (*d->p != '"') return expect(d, "a name in quotes");
    if (!decode_string(d)) return 0;
    skip_blanks(d);
    if (*d->p != ':') return expect(d, "':'");
    d->p++;
    skip_blanks(d);
    if (!decode_value(d)) return 0;
    lua_rawset(d->L, -3);
    skip_blanks(d);
    if (*d->p == '}') break;
    if (*d->p != ',') return expect(d, "',' or '}'");
    d->p++;
    skip_blanks(d);
  }
  d->p++;
  d->depth--;
  return 1;
}

static int decode_word(decoder *d, const char *word, size_t length) {
  if ((size_t)(d->end - d->p) < length || memcmp(d->p, word, length) != 0) return expect(d, "a value");
  d->p += length;
  return 1;
}

static int decode_value(decoder *d) {
  switch (*d->p) {
    case '"': return decode_string(d);
    case '{': return decode_object(d);
    case '[': return decode_array(d);
    case '-':
    case '0' ... '9': return decode_number(d);
    case 't': return decode_word(d, "true", 4) && (lua_pushboolean(d->L, 1), 1);
    case 'f': return decode_word(d, "false", 5) && (lua_pushboolean(d->L, 0), 1);
    case 'n': return decode_word(d, "null", 4) && (lua_pushlightuserdata(d->L, NULL), 1);
    default: return expect(d, "a value");
  }
}

// Returns nil, "line 2, column 7: expected ':', found '}'", "EBADMSG"
static int answer_failure(decoder *d) {
  lua_State *L = d->L;
  lua_settop(L, 0);
  int line = 1, column = 1;
  for (const unsigned char *p = d->text; p < d->place; p++) {
    if (*p == '\n') line++, column = 1;
    else column += (*p & 0xC0) != 0x80;  // characters, not bytes
  }
  lua_pushnil(L);
  if (d->problem) {
    lua_pushfstring(L, "line %d, column %d: %s", line, column, d->problem);
  } else if (d->place >= d->end) {
    lua_pushfstring(L, "line %d, column %d: expected %s, found the end", line, column, d->expected);
  } else if (*d->place > 32 && *d->place < 127) {
    lua_pushfstring(L, "line %d, column %d: expected %s, found '%c'", line, column, d->expected, *d->place);
  } else {
    static const char hex[] = "0123456789ABCDEF";
    lua_pushfstring(L, "line %d, column %d: expected %s, found the byte 0x%c%c", line, column, d->expected,
                    hex[*d->place >> 4], hex[*d->place & 15]);
  }
  lua_pushliteral(L, "EBADMSG");
  return 3;
}

int json_decode(lua_State *L) {
  if (lua_type(L, 1) != LUA_TSTRING) return json_refuse(L, 1, "json.decode: argument #1 must be a string");
  lua_settop(L, 1);
  size_t length;
  decoder d = {.L = L, .text = (const unsigned char *)lua_tolstring(L, 1, &length)};
  d.p = d.text;
  d.end = d.text + length;
  d.buffer = lua_touserdata(L, lua_upvalueindex(JSON_BUFFER));
  if (length >= 3 && memcmp(d.p, "\xEF\xBB\xBF", 3) == 0) d.p += 3;  // byte-order mark
  skip_blanks(&d);
  int is_good = decode_value(&d);
  if (is_good) {
    skip_blanks(&d);
    if (d.p != d.end) is_good = expect(&d, "nothing more");
  }
  int count = is_good ? 1 : answer_failure(&d);
  json_release(d.buffer);
  return count;
}
