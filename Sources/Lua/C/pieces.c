// Answers that consist of several pieces of bytes that Swift has returned: the words of a line, or the values of a
// frame.
//
// The pieces become strings after Swift has returned, since making a string may raise. Making a string may also run a
// finalizer, which may overwrite the bytes by reading from a stream, or use another format. So all data that is needed
// later is copied first.
#include <pthread.h>
#include <stdlib.h>

#include "private.h"

enum { LOCAL = 1024, MOST_WORDS = 64, MOST_VALUES = 32, LONGEST_FORMAT = 48, FORMATS = 8 };
enum { IS_BIG_ENDIAN = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

// Words --------------------------------------------------------------------------------------------------------------

static int is_blank(char c) { return c == ' ' || c == '\t'; }

static int push_words(lua_State *L, const char *bytes, size_t length) {
  char local[LOCAL];
  luaL_checkstack(L, MOST_WORDS + 4, NULL);
  if (length <= sizeof local) bytes = memcpy(local, bytes, length);
  else bytes = lua_pushlstring(L, bytes, length);
  const char *end = bytes + length;
  int count = 0;
  while (1) {
    while (bytes < end && is_blank(*bytes)) bytes++;
    if (bytes == end) break;
    const char *start = bytes;
    count++;
    if (count == MOST_WORDS) bytes = end;
    while (bytes < end && !is_blank(*bytes)) bytes++;
    lua_pushlstring(L, start, (size_t)(bytes - start));
  }
  if (count == 0) lua_pushliteral(L, ""), count = 1;
  return count;
}

// Frames -------------------------------------------------------------------------------------------------------------

typedef struct {
  char kind;
  unsigned char is_big;
  short offset, size;
} value;

// A parsed format of string.pack.
typedef struct {
  char text[LONGEST_FORMAT];
  size_t length;
  int count, size;
  value values[MOST_VALUES];
} frame;

typedef struct {
  const char *next, *end;
  int is_big, most_alignment;
  const char *problem;
} reader;

static int read_number(reader *r, int otherwise) {
  if (r->next == r->end || *r->next < '0' || *r->next > '9') return otherwise;
  int number = 0;
  while (r->next < r->end && *r->next >= '0' && *r->next <= '9') {
    number = number * 10 + (*r->next++ - '0');
    if (number > CL_LARGEST_HEAD) number = CL_LARGEST_HEAD + 1;
  }
  return number;
}

static int read_size(reader *r, int otherwise, int most, const char *problem) {
  int size = read_number(r, otherwise);
  if (size < 1 || size > most) r->problem = problem;
  return size;
}

// Reads one option. Returns the kind of the option's value, and its size; 0 for an option without a value.
static char read_option(reader *r, int *size) {
  char c = *r->next++;
  *size = 0;
  switch (c) {
    case 'b': *size = 1; return 'i';
    case 'B': *size = 1; return 'u';
    case 'h': *size = sizeof(short); return 'i';
    case 'H': *size = sizeof(short); return 'u';
    case 'l': *size = sizeof(long); return 'i';
    case 'L': *size = sizeof(long); return 'u';
    case 'j': *size = sizeof(lua_Integer); return 'i';
    case 'J': *size = sizeof(lua_Integer); return 'u';
    case 'T': *size = sizeof(size_t); return 'u';
    case 'i': *size = read_size(r, sizeof(int), 8, "may have integers of at most 8 bytes"); return 'i';
    case 'I': *size = read_size(r, sizeof(int), 8, "may have integers of at most 8 bytes"); return 'u';
    case 'f': *size = sizeof(float); return 'f';
    case 'd': *size = sizeof(double); return 'd';
    case 'n': *size = sizeof(lua_Number); return 'd';
    case 'c':
      *size = read_number(r, -1);
      if (*size < 0) r->problem = "lacks a number after 'c'";
      return 'c';
    case 'x': *size = 1; return 'x';
    case 'X': return 'X';
    case '<': r->is_big = 0; return 0;
    case '>': r->is_big = 1; return 0;
    case '=': r->is_big = IS_BIG_ENDIAN; return 0;
    case '!': r->most_alignment = read_size(r, 8, 16, "may align to 1 to 16 bytes"); return 0;
    case ' ': return 0;
    case 's':
    case 'z': r->problem = "must have a fixed size, and has a string without one"; return 0;
    default: r->problem = "has an option that string.pack does not know"; return 0;
  }
}

// Returns the number of padding bytes before a value that must be aligned.
static int filling(reader *r, char kind, int size, int offset) {
  int align = size;
  if (kind == 'X') {
    if (r->next == r->end || read_option(r, &align) == 0 || align == 0) {
      r->problem = "lacks an option with an alignment after 'X'";
      return 0;
    }
  }
  if (kind == 'c' || kind == 'x' || align <= 1) return 0;
  if (align > r->most_alignment) align = r->most_alignment;
  if (align & (align - 1)) {
    r->problem = "asks for an alignment other than a power of 2";
    return 0;
  }
  return (align - (offset & (align - 1))) & (align - 1);
}

static const char *parse(const char *text, size_t length, frame *frame) {
  reader r = {text, text + length, IS_BIG_ENDIAN, 1, NULL};
  char last = 0;
  frame->count = frame->size = 0;
  while (r.next < r.end && !r.problem) {
    int size;
    char kind = read_option(&r, &size);
    if (!kind || r.problem) continue;
    frame->size += filling(&r, kind, size, frame->size);
    if (kind == 'i' || kind == 'u' || kind == 'f' || kind == 'd' || kind == 'c') {
      if (frame->count == MOST_VALUES) return "may have at most 32 values";
      frame->values[frame->count++] = (value){kind, (unsigned char)r.is_big, (short)frame->size, (short)size};
      last = kind;
    }
    if (kind != 'X') frame->size += size;
    if (frame->size > CL_LARGEST_HEAD) return "may have at most 1024 bytes";
  }
  if (r.problem) return r.problem;
  if (last != 'i' && last != 'u') return "must end with an integer, the length of the body";
  frame->length = length;
  memcpy(frame->text, text, length);
  return NULL;
}

// The formats that were used last; NULL if none was used yet: a thread-local array would cost each thread 2 kB.
static _Thread_local frame *formats;
static _Thread_local int latest;
static pthread_key_t formats_key;
static pthread_once_t formats_once = PTHREAD_ONCE_INIT;

static void make_key(void) { pthread_key_create(&formats_key, free); }

static frame *make_formats(void) {
  pthread_once(&formats_once, make_key);
  frame *made = calloc(FORMATS, sizeof *made);
  pthread_setspecific(formats_key, made);
  return made;
}

static int is_of(const frame *frame, const char *text, size_t length) {
  if (frame->length != length) return 0;
  // Comparing byte by byte is fast enough, since most formats are short.
  for (size_t i = 0; i < length; i++) {
    if (frame->text[i] != text[i]) return 0;
  }
  return 1;
}

static const frame *find(const char *text, size_t length, const char **problem) {
  if (!formats && !(formats = make_formats())) {
    *problem = "needs more memory";
    return NULL;
  }
  if (length > 0 && is_of(&formats[latest], text, length)) return &formats[latest];
  if (length > LONGEST_FORMAT) {
    *problem = "may have at most 48 bytes";
    return NULL;
  }
  for (int i = 0; i < FORMATS; i++) {
    if (length == 0 || !is_of(&formats[i], text, length)) continue;
    latest = i;
    return &formats[i];
  }
  frame new;
  *problem = parse(text, length, &new);
  if (*problem) return NULL;
  latest = (latest + 1) % FORMATS;
  formats[latest] = new;
  return &formats[latest];
}

const char *cl_find_frame(const char *format, size_t length, cl_frame *found) {
  const char *problem = NULL;
  const frame *frame = find(format, length, &problem);
  if (!frame) return problem;
  const value *last = &frame->values[frame->count - 1];
  *found = (cl_frame){latest + 1, frame->size, last->offset, last->size, last->is_big, last->kind == 'i'};
  return NULL;
}

static lua_Integer integer_at(const char *bytes, const value *value) {
  lua_Unsigned number = 0;
  for (int i = 0; i < value->size; i++) {
    number = number << 8 | (unsigned char)bytes[value->is_big ? i : value->size - 1 - i];
  }
  if (value->kind == 'i' && value->size < 8) {
    lua_Unsigned sign = (lua_Unsigned)1 << (value->size * 8 - 1);
    number = (number ^ sign) - sign;
  }
  return (lua_Integer)number;
}

static lua_Number number_at(const char *bytes, const value *value) {
  char turned[8];
  for (int i = 0; i < value->size; i++) {
    turned[i] = bytes[value->is_big == IS_BIG_ENDIAN ? i : value->size - 1 - i];
  }
  if (value->kind == 'd') {
    double number;
    memcpy(&number, turned, sizeof number);
    return number;
  }
  float number;
  memcpy(&number, turned, sizeof number);
  return number;
}

// Pushes the values of a head, without the length, and the body. `place` is the format's place in the cache; if it is
// 0, the format is argument 1 of the method.
static int push_frame(lua_State *L, const char *bytes, size_t length, int place) {
  char head[CL_LARGEST_HEAD];
  const frame *frame = place ? &formats[place - 1] : NULL;
  if (!frame) {
    size_t size;
    const char *problem, *format = lua_tolstring(L, 2, &size);
    frame = find(format, size, &problem);
    if (!frame) return luaL_error(L, "stream:read_frame: argument #1 has changed");
  }
  if (frame->count > 8) luaL_checkstack(L, frame->count + 4, NULL);
  int count = frame->count - 1;
  value values[MOST_VALUES];
  memcpy(values, frame->values, (size_t)count * sizeof *values);
  memcpy(head, bytes, (size_t)frame->size);
  lua_pushlstring(L, bytes + frame->size, length - (size_t)frame->size);
  for (int i = 0; i < count; i++) {
    const value *value = &values[i];
    const char *start = head + value->offset;
    switch (value->kind) {
      case 'c': lua_pushlstring(L, start, (size_t)value->size); break;
      case 'f':
      case 'd': lua_pushnumber(L, number_at(start, value)); break;
      default: lua_pushinteger(L, integer_at(start, value));
    }
  }
  if (count) lua_rotate(L, -count - 1, -1);
  return count + 1;
}

// Answers ------------------------------------------------------------------------------------------------------------

int cl_answer_pieces(lua_State *L) {
  cl_state *state = cl_state_of(L);
  switch (state->bytes_form) {
    case CL_WORDS: return push_words(L, state->bytes_start, state->bytes_length);
    case CL_FRAME: return push_frame(L, state->bytes_start, state->bytes_length, state->bytes_number);
    default: break;
  }
  lua_Integer which = state->bytes_number;
  lua_pushlstring(L, state->bytes_start, state->bytes_length);
  lua_pushinteger(L, which);
  return 2;
}
