// Lua values to JSON text.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

typedef struct encoder {
  lua_State *L;
  json_buffer *buffer;
  int depth;
  const char *indent;  // NULL: all on one line
  size_t indent_length;
  int sorts;
} encoder;

static void encode_value(encoder *e, int index);

static inline void put(encoder *e, const char *bytes, size_t count) {
  json_reserve(e->L, e->buffer, count);
  memcpy(e->buffer->bytes + e->buffer->length, bytes, count);
  e->buffer->length += count;
}

static inline void put_byte(encoder *e, char byte) {
  json_reserve(e->L, e->buffer, 1);
  e->buffer->bytes[e->buffer->length++] = byte;
}

static void put_line(encoder *e) {
  put_byte(e, '\n');
  for (int i = 0; i < e->depth; i++) put(e, e->indent, e->indent_length);
}

// Raises `problem` with the path to the value that is being written. From index 3 on, the stack has for each table that
// is being written: its sorted names if there are any, the current key, and the value of that key.
static int raise_problem(encoder *e, const char *problem) {
  lua_State *L = e->L;
  luaL_Buffer text;
  int top = lua_gettop(L);
  luaL_checkstack(L, 10, "JSON");
  luaL_buffinit(L, &text);
  luaL_addstring(&text, "json.encode: ");
  luaL_addstring(&text, problem);
  int shown = 0;
  for (int i = 0; i < e->depth && i < 20; i++) {
    int key = 4 + e->sorts + (2 + e->sorts) * i;
    if (key > top) break;
    int type = lua_type(L, key);
    if (type != LUA_TSTRING && type != LUA_TNUMBER) break;
    luaL_addstring(&text, shown++ ? "" : " (at ");
    if (type == LUA_TNUMBER) luaL_addchar(&text, '[');
    else if (shown > 1) luaL_addchar(&text, '.');
    lua_pushvalue(L, key);
    luaL_addvalue(&text);
    if (type == LUA_TNUMBER) luaL_addchar(&text, ']');
  }
  if (shown) luaL_addstring(&text, e->depth > 20 ? "…)" : ")");
  luaL_pushresult(&text);
  json_release(e->buffer);
  return json_refuse(L, 0, "%s", lua_tostring(L, -1));
}

// 0: written as it is; 1: as \u00XX; 2: begins a longer sequence; else: the character after a backslash.
static const unsigned char escapes[256] = {
    [0 ... 7] = 1,   'b',         't',           'n',       [11] = 1,         'f', 'r',
    [14 ... 31] = 1, ['"'] = '"', ['\\'] = '\\', [127] = 1, [128 ... 255] = 2};

static void encode_string(encoder *e, int index) {
  static const char hex[] = "0123456789abcdef";
  size_t length;
  const unsigned char *p = (const unsigned char *)lua_tolstring(e->L, index, &length), *end = p + length;
  json_reserve(e->L, e->buffer, length + 2);
  put_byte(e, '"');
  const unsigned char *start = p;
  for (;;) {
    while (p < end && !escapes[*p]) p++;
    if (p == end) break;
    unsigned char escape = escapes[*p];
    if (escape == 2) {
      int count = json_utf8_length(p, end);
      if (!count) raise_problem(e, "a string is not UTF-8");
      p += count;
      continue;
    }
    put(e, (const char *)start, (size_t)(p - start));
    if (escape == 1) {
      const char text[] = {'\\', 'u', '0', '0', hex[*p >> 4], hex[*p & 15]};
      put(e, text, sizeof text);
    } else {
      const char text[] = {'\\', (char)escape};
      put(e, text, sizeof text);
    }
    start = ++p;
  }
  put(e, (const char *)start, (size_t)(p - start));
  put_byte(e, '"');
}

static void encode_number(encoder *e, int index) {
  json_reserve(e->L, e->buffer, JSON_NUMBER_SIZE);
  char *to = e->buffer->bytes + e->buffer->length;
  if (lua_isinteger(e->L, index)) {
    e->buffer->length += (size_t)json_write_integer(to, lua_tointeger(e->L, index));
    return;
  }
  double number = lua_tonumber(e->L, index);
  if (number != number) raise_problem(e, "not a number (nan) cannot be written");
  if (number - number != 0) raise_problem(e, "an infinite number cannot be written");
  e->buffer->length += (size_t)json_write_double(to, number);
}

// Writes the name of a field. In a table that is marked as an object, a number becomes text, which must differ from all
// other names.
static void encode_key(encoder *e, int table, int key, int is_marked) {
  if (lua_type(e->L, key) == LUA_TSTRING) {
    encode_string(e, key);
  } else if (lua_type(e->L, key) == LUA_TNUMBER && is_marked) {
    put_byte(e, '"');
    size_t start = e->buffer->length;
    encode_number(e, key);
    lua_pushlstring(e->L, e->buffer->bytes + start, e->buffer->length - start);
    lua_pushvalue(e->L, -1);
    if (lua_rawget(e->L, table) != LUA_TNIL) {
      lua_pushfstring(e->L, "the keys %s and \"%s\" both become the name \"%s\"", lua_tostring(e->L, -2),
                      lua_tostring(e->L, -2), lua_tostring(e->L, -2));
      raise_problem(e, lua_tostring(e->L, -1));
    }
    lua_pop(e->L, 2);
    put_byte(e, '"');
  } else {
    const char *type = luaL_typename(e->L, key);
    const char *problem =
        lua_type(e->L, key) == LUA_TNUMBER
            ? "a table has names and numbers as keys: mark it with json.object, or nest one in the other"
            : "a %s cannot be the name of a field";
    lua_pushfstring(e->L, problem, type);
    raise_problem(e, lua_tostring(e->L, -1));
  }
  if (e->indent) put(e, ": ", 2);
  else put_byte(e, ':');
}

static inline void begin_element(encoder *e, int is_first) {
  if (!is_first) put_byte(e, ',');
  if (e->indent) put_line(e);
}

static void end_elements(encoder *e, char closing, int is_empty) {
  e->depth--;
  if (e->indent && !is_empty) put_line(e);
  put_byte(e, closing);
}

// Writes an array from 1 to its largest number. Marked arrays may have holes, which become null.
static void encode_array(encoder *e, int table, int is_marked) {
  lua_State *L = e->L;
  lua_Integer largest = 0, count = 0;
  lua_pushnil(L);
  for (; lua_next(L, table); count++) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1) {
      lua_pushfstring(L,
                      is_marked ? "an array has the key '%s', which is not an index"
                                : "a table has numbers and '%s' as keys: mark it with json.object",
                      luaL_tolstring(L, -1, NULL));
      raise_problem(e, lua_tostring(L, -1));
    }
    if (lua_tointeger(L, -1) > largest) largest = lua_tointeger(L, -1);
  }
  if (!is_marked && largest != count)
    raise_problem(e, "a table has holes: fill them with json.null, mark it with json.array, or with json.object");
  // The check keeps one large key from producing an unlimited number of bytes.
  if (largest > 1000 && (largest - 1) / 10 >= count) {
    // This text is not on Lua's stack, where raise_problem looks for the path to the value.
    char problem[128];
    snprintf(problem, sizeof problem, "an array has only %lld of %lld values: mark it with json.object",
             (long long)count, (long long)largest);
    raise_problem(e, problem);
  }
  put_byte(e, '[');
  for (lua_Integer i = 1; i <= largest; i++) {
    begin_element(e, i == 1);
    lua_pushinteger(L, i);
    lua_rawgeti(L, table, i);
    encode_value(e, lua_gettop(L));
    lua_pop(L, 2);
  }
  end_elements(e, ']', largest == 0);
}

typedef struct field_name {
  const char *bytes;
  size_t length;
  lua_Integer place;  // the position of its key before sorting
} field_name;

static int compare_names(const void *left, const void *right) {
  const field_name *a = left, *b = right;
  int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
  return order ? order : (a->length > b->length) - (a->length < b->length);
}

// Sorts names by bytes, which is the order of their characters. A finalizer may change the table at any time: a copy of
// the keys is sorted.
static void encode_sorted_object(encoder *e, int table, int is_marked) {
  lua_State *L = e->L;
  lua_Integer count = 0, place = 0;
  lua_createtable(L, 8, 0);
  lua_pushnil(L);
  for (; lua_next(L, table); count++) {
    // Numbers are sorted by their text.
    if (lua_type(L, -2) == LUA_TNUMBER) lua_pushvalue(L, -2), luaL_tolstring(L, -1, NULL), lua_replace(L, -2);
    else lua_type(L, -2) == LUA_TSTRING ? lua_pushvalue(L, -2) : (void)lua_pushliteral(L, "");
    lua_rawseti(L, -4, 2 * count + 2);
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, 2 * count + 1);
  }
  field_name *names = lua_newuserdatauv(L, (size_t)count * sizeof *names, 1);
  for (; place < count; place++) {
    lua_rawgeti(L, -2, 2 * place + 2);
    names[place].bytes = lua_tolstring(L, -1, &names[place].length);
    names[place].place = 2 * place + 1;
    lua_pop(L, 1);
  }
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  lua_replace(L, table + 1);
  qsort(names, (size_t)count, sizeof *names, compare_names);
  put_byte(e, '{');
  int is_first = 1;
  for (place = 0; place < count; place++) {
    lua_getiuservalue(L, table + 1, 1);
    lua_rawgeti(L, -1, names[place].place);
    lua_replace(L, -2);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, table) != LUA_TNIL) {
      begin_element(e, is_first);
      is_first = 0;
      encode_key(e, table, lua_gettop(L) - 1, is_marked);
      encode_value(e, lua_gettop(L));
    }
    lua_pop(L, 2);
  }
  end_elements(e, '}', is_first);
}

static void encode_object(encoder *e, int table, int is_marked) {
  if (e->sorts) return encode_sorted_object(e, table, is_marked);
  put_byte(e, '{');
  lua_pushnil(e->L);
  int is_first = 1;
  for (; lua_next(e->L, table); is_first = 0) {
    int value = lua_gettop(e->L);
    begin_element(e, is_first);
    encode_key(e, table, value - 1, is_marked);
    encode_value(e, value);
    lua_pop(e->L, 1);
  }
  end_elements(e, '}', is_first);
}

// Writes a table without a mark. One traversal is enough if the numbers come in order. The stack grows by two for each
// level, key and value; raise_problem reads the path from it.
static void encode_table(encoder *e, int table) {
  lua_State *L = e->L;
  if (++e->depth > JSON_DEPTH) {
    e->depth = 0;
    raise_problem(e, "more than 1000 nested tables; does one contain itself?");
  }
  luaL_checkstack(L, 12, "JSON");
  if (e->sorts) lua_pushnil(L);
  if (lua_getmetatable(L, table)) {
    int is_array = lua_rawequal(L, -1, lua_upvalueindex(JSON_ARRAY));
    int is_object = lua_rawequal(L, -1, lua_upvalueindex(JSON_OBJECT));
    lua_pop(L, 1);
    if (is_array) return encode_array(e, table, 1);
    if (is_object) return encode_object(e, table, 1);
  }
  size_t start = e->buffer->length;
  lua_pushnil(L);
  if (!lua_next(L, table)) {
    put(e, "{}", 2);
    e->depth--;
    return;
  }
  if (lua_type(L, -2) != LUA_TNUMBER) {
    lua_pop(L, 2);
    return encode_object(e, table, 0);
  }
  put_byte(e, '[');
  lua_Integer i = 1;
  do {
    int value = lua_gettop(L);
    if (!lua_isinteger(L, value - 1) || lua_tointeger(L, value - 1) != i) {
      lua_pop(L, 2);
      e->buffer->length = start;
      return encode_array(e, table, 0);
    }
    begin_element(e, i++ == 1);
    encode_value(e, value);
    lua_pop(L, 1);
  } while (lua_next(L, table));
  end_elements(e, ']', 0);
}

static void encode_value(encoder *e, int index) {
  switch (lua_type(e->L, index)) {
    case LUA_TSTRING: encode_string(e, index); return;
    case LUA_TNUMBER: encode_number(e, index); return;
    case LUA_TTABLE:
      encode_table(e, index);
      if (e->sorts) lua_settop(e->L, index);
      return;
    case LUA_TBOOLEAN: lua_toboolean(e->L, index) ? put(e, "true", 4) : put(e, "false", 5); return;
    case LUA_TNIL: put(e, "null", 4); return;
    case LUA_TLIGHTUSERDATA:
      if (!lua_touserdata(e->L, index)) {
        put(e, "null", 4);
        return;
      }
  }
  lua_pushfstring(e->L, "a %s cannot be written", luaL_typename(e->L, index));
  raise_problem(e, lua_tostring(e->L, -1));
}

static void read_options(encoder *e) {
  lua_State *L = e->L;
  if (lua_isnoneornil(L, 2)) return;
  if (lua_type(L, 2) != LUA_TTABLE) json_refuse(L, 2, "json.encode: argument #2 must be a table of options");
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    lua_pop(L, 1);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : luaL_tolstring(L, -1, NULL);
    if (strcmp(name, "indent") != 0 && strcmp(name, "sort") != 0)
      json_refuse(L, 0, "json.encode: unknown field '%s'", name);
  }
  static const char blanks[] = "                ";
  int type = lua_getfield(L, 2, "indent");
  if (type == LUA_TNUMBER) {
    lua_Integer count = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
    if (count < 0 || count > 16) json_refuse(L, -1, "json.encode: field 'indent' must be from 0 to 16 blanks");
    e->indent = blanks;
    e->indent_length = (size_t)count;
  } else if (type == LUA_TSTRING) {
    e->indent = lua_tolstring(L, -1, &e->indent_length);
    if (strspn(e->indent, " \t") != e->indent_length)
      json_refuse(L, -1, "json.encode: field 'indent' must consist of blanks and tabs");
  } else if (type == LUA_TBOOLEAN) {
    e->indent = lua_toboolean(L, -1) ? blanks : NULL;
    e->indent_length = 2;
  } else if (type != LUA_TNIL) {
    json_refuse(L, -1, "json.encode: field 'indent' must be a number of blanks or a string");
  }
  type = lua_getfield(L, 2, "sort");
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) json_refuse(L, -1, "json.encode: field 'sort' must be a boolean");
  e->sorts = lua_toboolean(L, -1);
  lua_pop(L, 2);  // the table of options keeps the string
}

int json_encode(lua_State *L) {
  if (lua_gettop(L) == 0) return json_refuse(L, 1, "json.encode: argument #1 must be a value");
  lua_settop(L, 2);
  encoder e = {.L = L, .buffer = lua_touserdata(L, lua_upvalueindex(JSON_BUFFER))};
  read_options(&e);
  e.buffer->length = 0;
  lua_pushvalue(L, 1);
  encode_value(&e, 3);
  lua_pushlstring(L, e.buffer->bytes, e.buffer->length);
  json_release(e.buffer);
  return 1;
}
