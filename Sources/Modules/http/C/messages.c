// Converts requests and responses between bytes and tables.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "private.h"

void lua_http_push_fields(lua_State *L, http_span rest, int are_lists, int metatable) {
  int count = 0;
  const char *end = rest.start + rest.length;
  for (const char *p = rest.start; p < end && *p != '\r' && (p = memchr(p, '\n', (size_t)(end - p))); p++) count++;
  lua_createtable(L, 0, count);
  for (http_field field; http_next_field(&rest, &field);) {
    http_span name = field.name, value = field.value;
    char lower[256];
    if (name.length > sizeof lower) continue;
    for (size_t k = 0; k < name.length; k++) {
      unsigned char c = (unsigned char)name.start[k];
      lower[k] = (char)(c >= 'A' && c <= 'Z' ? c | 32 : c);
    }
    lua_pushlstring(L, lower, name.length);
    lua_pushvalue(L, -1);
    int is_first = lua_rawget(L, -3) == LUA_TNIL;
    int is_list = are_lists && name.length == 10 && memcmp(lower, "set-cookie", 10) == 0;
    if (is_list) {
      // name, list or nil
      if (is_first) {
        lua_pop(L, 1);
        lua_createtable(L, 1, 0);
      }
      lua_pushlstring(L, value.start, value.length);
      lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    } else if (is_first) {
      lua_pop(L, 1);
      lua_pushlstring(L, value.start, value.length);
    } else {
      lua_pushstring(L, name.length == 6 && memcmp(lower, "cookie", 6) == 0 ? "; " : ", ");
      lua_pushlstring(L, value.start, value.length);
      lua_concat(L, 3);
    }
    lua_rawset(L, -3);
  }
  lua_pushvalue(L, metatable);
  lua_setmetatable(L, -2);
}

// read_fields(head) -> the fields of a head that was read
int lua_http_read_fields(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  lua_http_push_fields(L, http_fields(bytes, length), 0, lua_upvalueindex(1));
  return 1;
}

// find_accepted(head) -> Accept-Encoding and Range of a request's head that was read, or nil
int lua_http_find_accepted(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_pushnil(L);
  http_span rest = http_fields(bytes, length);
  for (http_field field; http_next_field(&rest, &field);) {
    int place = field.name.length == 15 && strncasecmp(field.name.start, "accept-encoding", 15) == 0 ? 2
                : field.name.length == 5 && strncasecmp(field.name.start, "range", 5) == 0           ? 3
                                                                                                     : 0;
    if (!place) continue;
    lua_pushlstring(L, field.value.start, field.value.length);
    if (lua_isstring(L, place)) lua_pushfstring(L, "%s, %s", lua_tostring(L, place), lua_tostring(L, -1));
    lua_replace(L, place);
    lua_settop(L, 3);
  }
  return 2;
}

// Output goes into a buffer that the Lua state keeps in a userdata, an upvalue.
typedef struct output {
  lua_State *L;
  linux_bytes *to;
  int closes;  // whether a field Connection requests the end of the connection
} output;

static output begin_output(lua_State *L, int buffer) {
  output out = {L, lua_touserdata(L, buffer), 0};
  out.to->length = 0;
  return out;
}

static char *reserve(output *out, size_t count) {
  if (!linux_reserve(out->to, count)) luaL_error(out->L, "not enough memory");
  return out->to->bytes + out->to->length;
}

static void put(output *out, const char *bytes, size_t count) {
  memcpy(reserve(out, count), bytes, count);
  out->to->length += count;
}

static void put_length(output *out, uint64_t length) {
  char *to = reserve(out, 40);
  out->to->length += (size_t)snprintf(to, 40, "Content-Length: %" PRIu64 "\r\n", length);
}

// Raises an error without a position: the caller adds which message was wrong.
static void complain(lua_State *L, const char *format, const char *name, const char *kind) {
  lua_pushfstring(L, format, name, kind);
  lua_error(L);
}

static void put_field(output *out, const char *name, size_t name_length, const char *value, size_t value_length) {
  if (!http_is_value(value, value_length))
    complain(out->L, "http: the field '%s' has a control character in its value, which would split the message", name,
             "");
  size_t length = name_length + value_length + 4;
  char *to = reserve(out, length);
  memcpy(to, name, name_length);
  memcpy(to + name_length, ": ", 2);
  memcpy(to + name_length + 2, value, value_length);
  memcpy(to + length - 2, "\r\n", 2);
  out->to->length += length;
}

static int finish_output(output *out) {
  lua_pushlstring(out->L, out->to->bytes, out->to->length);
  if (out->to->capacity > 65536) {
    free(out->to->bytes);
    *out->to = (linux_bytes){0};
  }
  return 1;
}

enum { HAS_LENGTH = 1, HAS_ENCODING = 2, HAS_CONNECTION = 4, HAS_DATE = 8, HAS_HOST = 16, HAS_TYPE = 32 };

static int which_field(const char *name, size_t length) {
  switch (length) {
    case 4: return strcasecmp(name, "date") == 0 ? HAS_DATE : strcasecmp(name, "host") == 0 ? HAS_HOST : 0;
    case 10: return strcasecmp(name, "connection") == 0 ? HAS_CONNECTION : 0;
    case 12: return strcasecmp(name, "content-type") == 0 ? HAS_TYPE : 0;
    case 14: return strcasecmp(name, "content-length") == 0 ? HAS_LENGTH : 0;
    case 17: return strcasecmp(name, "transfer-encoding") == 0 ? HAS_ENCODING : 0;
    default: return 0;
  }
}

static void put_value(output *out, const char *name, size_t name_length) {
  lua_State *L = out->L;
  size_t length;
  if (lua_type(L, -1) == LUA_TNUMBER) {
    lua_pushvalue(L, -1);
    const char *value = lua_tolstring(L, -1, &length);
    put_field(out, name, name_length, value, length);
    lua_pop(L, 1);
  } else if (lua_type(L, -1) == LUA_TSTRING) {
    const char *value = lua_tolstring(L, -1, &length);
    put_field(out, name, name_length, value, length);
  } else {
    complain(L, "http: the field '%s' must be a string, a number or a list of them, got %s", name,
             luaL_typename(L, -1));
  }
}

// Writes the fields of the table at `index`, except those in `left_out`. Returns the set of known fields that the table
// has.
static int put_fields(output *out, int index, int left_out) {
  lua_State *L = out->L;
  int found = 0;
  if (lua_isnoneornil(L, index)) return 0;
  if (lua_type(L, index) != LUA_TTABLE)
    complain(L, "http: headers must be a table, got %s", luaL_typename(L, index), "");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    size_t length;
    if (lua_type(L, -2) != LUA_TSTRING)
      complain(L, "http: the name of a field must be a string, got %s", luaL_typename(L, -2), "");
    const char *name = lua_tolstring(L, -2, &length);
    if (!http_is_token(name, length)) complain(L, "http: '%s' cannot be the name of a field", name, "");
    int known = which_field(name, length);
    // false suppresses a field that would be added. A request cannot be without Host.
    int is_none = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    if (!is_none || known != HAS_HOST) found |= known;
    if (known == HAS_CONNECTION && lua_type(L, -1) == LUA_TSTRING) {
      const char *value = lua_tolstring(L, -1, &length);
      out->closes |= http_list_has((http_span){value, length}, "close");
      length = lua_rawlen(L, -2);
    }
    if (!(known & left_out) && !is_none) {
      if (lua_type(L, -1) == LUA_TTABLE) {
        lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
        for (lua_Integer i = 1; i <= count; i++) {
          lua_rawgeti(L, -1, i);
          put_value(out, name, length);
          lua_pop(L, 1);
        }
      } else {
        put_value(out, name, length);
      }
    }
    lua_pop(L, 1);
  }
  return found;
}

void lua_http_push_response(lua_State *L, int index, int *flags, int buffer) {
  output out = begin_output(L, buffer);
  int is_switch = *flags & ANSWER_IS_SWITCH;
  lua_Integer status = luaL_checkinteger(L, index);
  size_t length = 0, type_length;
  const char *body = lua_type(L, index + 2) == LUA_TSTRING ? lua_tolstring(L, index + 2, &length) : NULL;
  const char *reason = lua_http_reason(status);
  char *line = reserve(&out, 64);
  memcpy(line, "HTTP/1.1 ", 9);
  line[9] = (char)('0' + status / 100), line[10] = (char)('0' + status / 10 % 10), line[11] = (char)('0' + status % 10);
  line[12] = ' ';
  out.to->length = 13;
  put(&out, reason, strlen(reason));
  put(&out, "\r\n", 2);
  int found = put_fields(&out, index + 1, HAS_LENGTH | HAS_ENCODING | (is_switch ? 0 : HAS_CONNECTION));
  if (!(found & HAS_DATE)) put_field(&out, "Date", 4, lua_http_date(), 29);
  const char *type = found & HAS_TYPE ? NULL : lua_tolstring(L, index + 3, &type_length);
  if (type) put_field(&out, "Content-Type", 12, type, type_length);
  if (*flags & ANSWER_IS_CHUNKED) {
    put(&out, "Transfer-Encoding: chunked\r\n", 28);
  } else if (body || lua_isinteger(L, index + 2)) {
    put_length(&out, body ? length : (uint64_t)lua_tointeger(L, index + 2));
  }
  if (out.closes) *flags &= ~ANSWER_KEEPS_ALIVE;
  if (!is_switch) {
    if (!(*flags & ANSWER_KEEPS_ALIVE)) put(&out, "Connection: close\r\n", 19);
    else if (*flags & ANSWER_IS_OLD) put(&out, "Connection: keep-alive\r\n", 24);
  }
  put(&out, "\r\n", 2);
  if (body && !(*flags & ANSWER_WITHOUT_BODY)) put(&out, body, length);
  finish_output(&out);
}

// write_request(method, target, fields, body or its length or nil, host) -> bytes. A length of -2: chunked.
int lua_http_write_request(lua_State *L) {
  output out = begin_output(L, lua_upvalueindex(1));
  size_t method_length, target_length, host_length, length = 0;
  const char *method = luaL_checklstring(L, 1, &method_length), *target = luaL_checklstring(L, 2, &target_length);
  const char *host = luaL_checklstring(L, 5, &host_length);
  const char *body = lua_type(L, 4) == LUA_TSTRING ? lua_tolstring(L, 4, &length) : NULL;
  put(&out, method, method_length);
  put(&out, " ", 1);
  put(&out, target, target_length);
  put(&out, " HTTP/1.1\r\n", 11);
  int found = put_fields(&out, 3, HAS_LENGTH | HAS_ENCODING);
  if (!(found & HAS_HOST)) put_field(&out, "Host", 4, host, host_length);
  if (lua_isinteger(L, 4) && lua_tointeger(L, 4) == -2) {
    put(&out, "Transfer-Encoding: chunked\r\n", 28);
  } else if (body || lua_isinteger(L, 4)) {
    put_length(&out, body ? length : (uint64_t)lua_tointeger(L, 4));
  }
  put(&out, "\r\n", 2);
  if (body) put(&out, body, length);
  return finish_output(&out);
}
