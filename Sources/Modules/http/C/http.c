// The table of native functions; texts and dates.
#include <CLuaCodecs.h>
#include <hosts.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "private.h"

static int write_date(lua_State *L) {
  char text[30];
  http_write_date(text, luaL_checkinteger(L, 1));
  lua_pushlstring(L, text, 29);
  return 1;
}

static int read_date(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  int64_t seconds = http_read_date(text, length);
  if (seconds < 0) return lua_pushnil(L), 1;
  lua_pushinteger(L, seconds);
  return 1;
}

static int check(lua_State *L, int (*is)(const char *, size_t)) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  lua_pushboolean(L, is(text, length));
  return 1;
}

static int is_token(lua_State *L) { return check(L, http_is_token); }
static int is_value(lua_State *L) { return check(L, http_is_value); }

// The names in a table of fields are in lower case. Looks up other spellings in lower case, too.
static int find_field(lua_State *L) {
  size_t length;
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  const char *name = lua_tolstring(L, 2, &length);
  char lower[256];
  if (length > sizeof lower) return 0;
  int is_lower = 1;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)name[i];
    if (c >= 'A' && c <= 'Z') is_lower = 0, c |= 32;
    lower[i] = (char)c;
  }
  if (is_lower) return 0;
  lua_pushlstring(L, lower, length);
  lua_rawget(L, 1);
  return 1;
}

// unacknowledged(fd) -> bytes that the peer has not received yet; 0 if unknown
static int unacknowledged(lua_State *L) {
  int is_number, bytes = 0;
  lua_Integer fd = lua_tointegerx(L, 1, &is_number);
  if (!is_number || fd < 0 || fd > INT_MAX || ioctl((int)fd, SIOCOUTQ, &bytes) != 0) bytes = 0;
  lua_pushinteger(L, bytes);
  return 1;
}

// ascii_host(name) -> the name, or nil, text, code
static int ascii_host(lua_State *L) {
  char out[256], code[32], text[512];
  size_t length;
  const char *name = luaL_checklstring(L, 1, &length);
  if (strlen(name) == length && linux_ascii_host(name, out, code, text)) {
    lua_pushstring(L, out);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, strlen(name) == length ? text : "a host name must not contain a zero byte");
  lua_pushstring(L, strlen(name) == length ? code : "EINVAL");
  return 3;
}

// Scripts can find the finalizers by debug functions, so each checks its argument.
static const char OUTPUT[] = "runloop.http.output";

static int free_output(lua_State *L) {
  linux_bytes *output = luaL_checkudata(L, 1, OUTPUT);
  free(output->bytes);
  *output = (linux_bytes){0};
  return 0;
}

typedef struct {
  const char *name;
  int number;
} number;

// Sets a field of the table on top of the stack to a new table with these numbers.
static void set_numbers(lua_State *L, const char *field, const number *numbers) {
  lua_newtable(L);
  for (; numbers->name; numbers++) {
    lua_pushinteger(L, numbers->number);
    lua_setfield(L, -2, numbers->name);
  }
  lua_setfield(L, -2, field);
}

// Gives Lua the numbers that C declares.
static void share_numbers(lua_State *L) {
  static const number request_flags[] = {
      {"IS_UPGRADE", HTTP_IS_UPGRADE}, {"IS_OLD", HTTP_IS_OLD}, {"HAS_BODY", HTTP_HAS_BODY}, {NULL, 0}};
  static const number own[] = {
      {"CONNECTION", OWN_CONNECTION}, {"FLAGS", OWN_FLAGS}, {"HEAD", OWN_HEAD}, {"ROUTE", OWN_ROUTE}, {NULL, 0}};
  set_numbers(L, "request_flags", request_flags);
  set_numbers(L, "own", own);
}

int http_open_native(lua_State *L) {
  static const luaL_Reg functions[] = {{"unescape", url_unescape_text},
                                       {"escape", url_escape_text},
                                       {"write_date", write_date},
                                       {"read_date", read_date},
                                       {"is_token", is_token},
                                       {"is_value", is_value},
                                       {"find_accepted", lua_http_find_accepted},
                                       {"write_frame", lua_http_write_frame},
                                       {"check_utf8", lua_http_check_utf8},
                                       {"accept_key", lua_http_accept_key},
                                       {"random_key", lua_http_random_key},
                                       {"deflate", lua_http_deflate},
                                       {"open_file", lua_http_open_file},
                                       {"open_log", lua_http_open_log},
                                       {"lose_log", lua_http_lose_log},
                                       {"read_file", lua_http_read_file},
                                       {"seek_file", lua_http_seek_file},
                                       {"close_file", lua_http_close_file},
                                       {"unacknowledged", unacknowledged},
                                       {"ascii_host", ascii_host},
                                       {NULL, NULL}};
  luaL_newlib(L, functions);
  share_numbers(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, find_field);
  lua_setfield(L, -2, "__index");
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "fields");
  lua_http_open_reader(L);
  lua_setfield(L, -3, "reader");
  lua_pushcclosure(L, lua_http_read_fields, 1);
  lua_setfield(L, -2, "read_fields");
  linux_bytes *output = lua_newuserdatauv(L, sizeof *output, 0);
  *output = (linux_bytes){0};
  luaL_newmetatable(L, OUTPUT);
  lua_pushcfunction(L, free_output);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, lua_http_server, 1);
  lua_setfield(L, -3, "server");
  lua_pushcclosure(L, lua_http_write_request, 1);
  lua_setfield(L, -2, "write_request");
  return 1;
}
