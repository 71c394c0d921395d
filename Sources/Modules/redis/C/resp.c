// RESP3: commands as arrays of strings, and a parser that is fed bytes in any pieces. An incremental scan finds the end
// of an answer; only then are values made. So a large answer is scanned once, in however many pieces it arrives.
#include <lauxlib.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CLuaCodecs.h"

static const char PARSER[] = "runloop.redis.parser";
enum { DEEPEST = 64, ERRORS = 1 };

typedef struct {
  char *bytes;
  size_t start, length, capacity;
  size_t at;                   // where the scan continues
  uint64_t left[DEEPEST + 1];  // how many elements are left at each depth
  int depth;
  size_t most;  // limit for the bytes of an answer
} parser;

// Commands ------------------------------------------------------------------------------------------------------------

// Each word has such a header: snprintf would take half of the time for encoding a short command.
static void add_header(luaL_Buffer *to, char type, size_t count) {
  char text[32], *at = text + sizeof text;
  *--at = '\n';
  *--at = '\r';
  do *--at = (char)('0' + count % 10);
  while (count /= 10);
  *--at = type;
  luaL_addlstring(to, at, (size_t)(text + sizeof text - at));
}

// Writes a number as the shortest text that reads back the same.
static size_t write_number(lua_State *L, int index, char text[40]) {
  if (lua_isinteger(L, index)) return (size_t)snprintf(text, 40, "%lld", (long long)lua_tointeger(L, index));
  double number = lua_tonumber(L, index);
  for (int digits = 15; digits <= 17; digits++) {
    int length = snprintf(text, 40, "%.*g", digits, number);
    if (digits == 17 || strtod(text, NULL) == number) return (size_t)length;
  }
  return 0;
}

// Adds the word at an index of the stack. Returns 0 if the value is neither a string nor a number.
static int add_word(lua_State *L, luaL_Buffer *to, int index) {
  char number[40];
  size_t length;
  int type = lua_type(L, index);
  if (type != LUA_TSTRING && type != LUA_TNUMBER) return 0;
  const char *text = number;
  if (type == LUA_TNUMBER) length = write_number(L, index, number);
  else text = lua_tolstring(L, index, &length);
  add_header(to, '$', length);
  luaL_addlstring(to, text, length);
  luaL_addlstring(to, "\r\n", 2);
  return 1;
}

// encode(words, first, last) -> bytes; or nil and the index of a word that is neither a string nor a number
static int encode(lua_State *L) {
  enum { WORDS = 1, FIRST, LAST, SLOT };
  lua_Integer first = luaL_checkinteger(L, FIRST), last = luaL_checkinteger(L, LAST);
  luaL_checktype(L, WORDS, LUA_TTABLE);
  lua_settop(L, LAST);
  lua_pushnil(L);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  add_header(&to, '*', last >= first ? (size_t)(last - first + 1) : 0);
  for (lua_Integer i = first; i <= last; i++) {
    lua_rawgeti(L, WORDS, i);
    lua_replace(L, SLOT);
    if (!add_word(L, &to, SLOT)) return lua_pushnil(L), lua_pushinteger(L, i), 2;
  }
  luaL_pushresult(&to);
  return 1;
}

// encode_all(words...) -> as encode
static int encode_all(lua_State *L) {
  int count = lua_gettop(L);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  add_header(&to, '*', (size_t)count);
  for (int i = 1; i <= count; i++)
    if (!add_word(L, &to, i)) return lua_pushnil(L), lua_pushinteger(L, i), 2;
  luaL_pushresult(&to);
  return 1;
}

// The scan ------------------------------------------------------------------------------------------------------------

// Reads the number of a header such as "$12\r\n". Returns the beginning of the rest; NULL if the line is not such a
// header.
static const char *read_count(const char *at, const char *end, int64_t *count) {
  int is_negative = at < end && *at == '-';
  uint64_t value = 0;
  at += is_negative;
  if (at == end || *at < '0' || *at > '9') return NULL;
  for (; at < end && *at >= '0' && *at <= '9'; at++) {
    if (value > INT64_MAX / 20) return NULL;
    value = value * 10 + (uint64_t)(*at - '0');
  }
  *count = is_negative ? -(int64_t)value : (int64_t)value;
  return at + 2 == end && at[0] == '\r' ? end : NULL;
}

// Called when an element has ended. Returns whether the whole answer has arrived.
static int end_element(parser *it) {
  while (it->depth > 0 && --it->left[it->depth] == 0) it->depth--;
  return it->depth == 0;
}

// Scans one element, which begins at `at`. Returns 1 if the answer ends with it, 0 if it does not, 2 if bytes are
// missing, -1 if it breaks the protocol, -2 if the answer is too long.
static int scan_element(parser *it) {
  const char *from = it->bytes + it->at, *end = it->bytes + it->length;
  const char *line = memchr(from, '\n', (size_t)(end - from));
  if (!line) return (size_t)(end - from) > it->most ? -2 : 2;
  line++;
  int64_t count = 0;
  if (strchr("$=!*~>%|", *from) && *from) {
    if (!read_count(from + 1, line, &count) || count < -1) return -1;
  } else if (!*from || !strchr("+-:,#_(", *from)) {
    return -1;
  }
  switch (*from) {
    case '$':
    case '=':
    case '!':
      if (count > (int64_t)it->most) return -2;
      if (count >= 0) {
        if (end - line < count + 2) return 2;
        if (line[count] != '\r' || line[count + 1] != '\n') return -1;
        line += count + 2;
      }
      break;
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
      if (count > (int64_t)it->most) return -2;
      if (*from == '%') count *= 2;
      // The answer follows its attributes.
      if (*from == '|') count = count * 2 + 1;
      if (count > 0) {
        if (it->depth == DEEPEST) return -1;
        it->left[++it->depth] = (uint64_t)count;
        it->at = (size_t)(line - it->bytes);
        return 0;
      }
      break;
    default: break;
  }
  it->at = (size_t)(line - it->bytes);
  return end_element(it);
}

// Values --------------------------------------------------------------------------------------------------------------

typedef struct {
  lua_State *L;
  const char *at, *end;
} maker;

static void push_value(maker *m);

// Pushes an error as a table { message } of the class of errors.
static void push_error(lua_State *L, const char *text, size_t length) {
  lua_createtable(L, 1, 0);
  lua_pushlstring(L, text, length);
  lua_rawseti(L, -2, 1);
  lua_pushvalue(L, lua_upvalueindex(ERRORS));
  lua_setmetatable(L, -2);
}

static void push_double(lua_State *L, const char *text, size_t length) {
  char copy[64];
  snprintf(copy, sizeof copy, "%.*s", (int)(length < 63 ? length : 63), text);
  lua_pushnumber(L, strcmp(copy, "nan") == 0 ? (lua_Number)NAN : strtod(copy, NULL));
}

static void push_list(maker *m, int64_t count) {
  lua_createtable(m->L, count < 1 << 20 ? (int)count : 0, 0);
  for (int64_t i = 1; i <= count; i++) {
    push_value(m);
    lua_rawseti(m->L, -2, i);
  }
}

static void push_map(maker *m, int64_t count) {
  lua_createtable(m->L, 0, count < 1 << 20 ? (int)count : 0);
  for (int64_t i = 0; i < count; i++) {
    push_value(m);
    push_value(m);
    // An element whose key cannot be a key in Lua, nil or NaN, is left out.
    int can_be_key = !lua_isnil(m->L, -2) && (lua_type(m->L, -2) != LUA_TNUMBER || lua_rawequal(m->L, -2, -2));
    if (can_be_key) lua_rawset(m->L, -3);
    else lua_pop(m->L, 2);
  }
}

static void push_value(maker *m) {
  lua_State *L = m->L;
  luaL_checkstack(L, 6, "an answer of Redis is nested too deeply");
  // The scan has checked that the line ends. Not strchr, which would stop at a zero byte in a text.
  const char *from = m->at, *line = (const char *)memchr(from, '\n', (size_t)(m->end - from)) + 1;
  size_t length = (size_t)(line - from) - (line[-2] == '\r' ? 3 : 2);
  int64_t count = 0;
  m->at = line;
  switch (*from) {
    case '+': lua_pushlstring(L, from + 1, length); return;
    case '-': push_error(L, from + 1, length); return;
    case ':': lua_pushinteger(L, strtoll(from + 1, NULL, 10)); return;
    case ',': push_double(L, from + 1, length); return;
    case '#': lua_pushboolean(L, from[1] == 't'); return;
    case '_': lua_pushlightuserdata(L, NULL); return;
    case '(': lua_pushlstring(L, from + 1, length); return;
    default: break;
  }
  count = strtoll(from + 1, NULL, 10);
  if (count < 0) {
    lua_pushlightuserdata(L, NULL);
    return;
  }
  switch (*from) {
    case '$':
    case '=':
    case '!': {
      // A verbatim text has its kind in front: "txt:".
      size_t skipped = *from == '=' && count >= 4 ? 4 : 0;
      if (*from == '!') push_error(L, line, (size_t)count);
      else lua_pushlstring(L, line + skipped, (size_t)count - skipped);
      m->at = line + count + 2;
      return;
    }
    case '%': push_map(m, count); return;
    case '|':
      for (int64_t i = 0; i < count * 2; i++) {
        push_value(m);
        lua_pop(L, 1);
      }
      push_value(m);
      return;
    default: push_list(m, count); return;
  }
}

// The parser ----------------------------------------------------------------------------------------------------------

// parser:feed(bytes): returns nothing, or false without memory
static int feed(lua_State *L) {
  parser *it = luaL_checkudata(L, 1, PARSER);
  size_t length;
  const char *bytes = luaL_checklstring(L, 2, &length);
  if (it->start > 0 && (it->start == it->length || it->start > it->capacity / 2)) {
    memmove(it->bytes, it->bytes + it->start, it->length - it->start);
    it->at -= it->start;
    it->length -= it->start;
    it->start = 0;
  }
  // Functions that read numbers stop at a zero byte, so the buffer has room for a zero byte after the data.
  if (it->capacity - it->length < length + 1) {
    size_t capacity = (it->length + length + 1) * 2;
    char *larger = realloc(it->bytes, capacity);
    if (!larger) return lua_pushboolean(L, 0), 1;
    it->bytes = larger;
    it->capacity = capacity;
  }
  memcpy(it->bytes + it->length, bytes, length);
  it->length += length;
  it->bytes[it->length] = 0;
  return 0;
}

// parser:next() -> the type of the next answer and its value; nothing if it is not complete; false and the reason if it
// breaks the protocol
static int next_answer(lua_State *L) {
  parser *it = luaL_checkudata(L, 1, PARSER);
  int found = 0;
  while (found == 0) {
    if (it->at == it->length) return 0;
    found = scan_element(it);
  }
  if (found == 2) {
    if (it->length - it->start <= it->most + 64) return 0;
    found = -2;
  }
  if (found < 0) {
    char shown[41];
    size_t rest = it->length - it->at;
    snprintf(shown, sizeof shown, "%.*s", (int)(rest < 40 ? rest : 40), it->bytes + it->at);
    for (char *c = shown; *c; c++)
      if ((unsigned char)*c < ' ') *c = ' ';
    lua_pushboolean(L, 0);
    if (found == -2) lua_pushfstring(L, "EMSGSIZE: an answer of more than %I bytes", (LUAI_UACINT)it->most);
    else lua_pushfstring(L, "EPROTO: this is not Redis's protocol: %s", shown);
    return 2;
  }
  maker m = {L, it->bytes + it->start, it->bytes + it->at};
  // The attributes before an answer do not change its type.
  lua_pushlstring(L, m.at, 1);
  push_value(&m);
  it->start = it->at;
  if (it->start == it->length && it->capacity > 1 << 16) {
    free(it->bytes);
    it->bytes = NULL;
    it->start = it->length = it->capacity = it->at = 0;
  }
  return 2;
}

static int collect(lua_State *L) {
  parser *it = luaL_checkudata(L, 1, PARSER);
  free(it->bytes);
  it->bytes = NULL;
  it->start = it->length = it->capacity = it->at = 0;
  return 0;
}

// parser(most bytes) -> parser
static int make_parser(lua_State *L) {
  lua_Integer most = luaL_checkinteger(L, 1);
  parser *it = lua_newuserdatauv(L, sizeof *it, 0);
  *it = (parser){.most = (size_t)most};
  luaL_setmetatable(L, PARSER);
  return 1;
}

int redis_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"feed", feed}, {"next", NULL}, {"__gc", collect}, {NULL, NULL}};
  luaL_checktype(L, 1, LUA_TTABLE);
  if (luaL_newmetatable(L, PARSER)) {
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, next_answer, ERRORS);
    lua_setfield(L, -2, "next");
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
  }
  lua_newtable(L);
  lua_pushcfunction(L, encode);
  lua_setfield(L, -2, "encode");
  lua_pushcfunction(L, encode_all);
  lua_setfield(L, -2, "encode_all");
  lua_pushcfunction(L, make_parser);
  lua_setfield(L, -2, "parser");
  return 1;
}
