// URLs for Lua: tables with the parts, and texts in the normal form.
#include <HTTP.h>
#include <stdlib.h>
#include <string.h>

#include "url.h"

// Upvalues: runloop.misuse, the metatable of URLs, two records that keep their memory for the next call.
enum { CLASS = 2, FIRST, SECOND };

static url *record(lua_State *L, int upvalue) {
  url *found = lua_touserdata(L, lua_upvalueindex(upvalue));
  found->L = L;
  return found;
}

#define RECORD "runloop.url.record"

static int free_record(lua_State *L) {
  url *own = luaL_checkudata(L, 1, RECORD);
  free(own->text.bytes);
  free(own->scratch.bytes);
  free(own->input.bytes);
  *own = (url){0};
  return 0;
}

static int refuse(lua_State *L, const url *from, const char *text) {
  if (strcmp(from->code, "ENOENT") == 0) return codecs_refuse(L, from->code, "%s", from->problem);
  return codecs_refuse(L, from->code, "%s (%s)", from->problem, text);
}

static void set_part(lua_State *L, const url *from, const char *name, url_part part) {
  lua_pushlstring(L, from->text.bytes + part.at, part.length);
  lua_setfield(L, -2, name);
}

// parse(text) -> URL, or nil, problem, code
static int parse(lua_State *L) {
  size_t length;
  const char *text = codecs_check_string(L, 1, "url.parse", &length);
  url *own = record(L, FIRST);
  if (!url_parse(own, text, length, NULL)) return refuse(L, own, text);
  lua_createtable(L, 0, 4 + (own->port >= 0) + own->has_query + own->has_fragment);
  set_part(L, own, "scheme", own->scheme);
  if (own->user.length) set_part(L, own, "user", own->user);
  if (own->password.length) set_part(L, own, "password", own->password);
  if (own->has_host) set_part(L, own, "host", own->host);
  if (own->port >= 0) lua_pushinteger(L, own->port), lua_setfield(L, -2, "port");
  set_part(L, own, "path", own->path);
  if (own->has_query) set_part(L, own, "query", own->query);
  if (own->has_fragment) set_part(L, own, "fragment", own->fragment);
  lua_pushvalue(L, lua_upvalueindex(CLASS));
  lua_setmetatable(L, -2);
  return 1;
}

// join(base, reference) -> text, or nil, problem, code
static int join(lua_State *L) {
  size_t length, base_length;
  const char *base = codecs_check_string(L, 1, "url.join", &base_length);
  const char *text = codecs_check_string(L, 2, "url.join", &length);
  url *from = record(L, FIRST), *to = record(L, SECOND);
  if (!url_parse(from, base, base_length, NULL)) return refuse(L, from, base);
  if (!url_parse(to, text, length, from)) return refuse(L, to, text);
  lua_pushlstring(L, to->text.bytes, to->text.length);
  return 1;
}

// Fields --------------------------------------------------------------------------------------------------------------

// Raises an error about the value on top of the stack.
static int wrong(lua_State *L, const char *name, const char *expected) {
  lua_getfield(L, lua_upvalueindex(1), "wrong");
  lua_pushliteral(L, "url");
  lua_pushfstring(L, "field '%s'", name);
  lua_pushstring(L, expected);
  lua_pushvalue(L, -5);
  lua_call(L, 4, 0);
  return 0;
}

// Returns a field of the URL at index 1; NULL if it is absent. Raises an error if the field is not a string.
static const char *field(lua_State *L, const char *name, size_t *length) {
  lua_pushstring(L, name);
  int type = lua_rawget(L, 1);
  if (type == LUA_TNIL) return NULL;
  if (type != LUA_TSTRING) wrong(L, name, "a string");
  return lua_tolstring(L, -1, length);
}

static void put_field(lua_State *L, url *to, const char *sign, const char *name, int class) {
  size_t length;
  const char *text = field(L, name, &length);
  if (!text) return;
  url_append(to, sign, strlen(sign));
  url_encode(to, text, length, class);
}

static void put_authority(lua_State *L, url *to, const char *host, size_t length) {
  size_t user_length = 0, password_length = 0;
  const char *user = field(L, "user", &user_length), *password = field(L, "password", &password_length);
  lua_pushliteral(L, "port");
  int type = lua_rawget(L, 1), has_port = type != LUA_TNIL, is_integer = 0;
  lua_Integer number = lua_tointegerx(L, -1, &is_integer);
  if (has_port && (type != LUA_TNUMBER || !is_integer || number < 0 || number > 65535))
    wrong(L, "port", "an integer from 0 to 65535");
  int has_user = user_length || password_length;
  if ((has_user || has_port) && (!length || to->is_file))
    codecs_raise(L, "url: field '%s' needs a host, and not a file URL", has_port ? "port" : user ? "user" : "password");
  if (!host && !to->is_file) return;
  url_append(to, "//", 2);
  if (user) url_encode(to, user, user_length, URL_USER);
  if (password_length) url_append(to, ":", 1), url_encode(to, password, password_length, URL_USER);
  if (has_user) url_append(to, "@", 1);
  url_append(to, host ? host : "", length);
  if (!has_port) return;
  lua_pushinteger(L, number);
  size_t port_length;
  const char *port = lua_tolstring(L, -1, &port_length);
  url_append(to, ":", 1);
  url_append(to, port, port_length);
}

static void put_path(lua_State *L, url *to, int has_host, int is_special) {
  size_t length = 0;
  const char *path = field(L, "path", &length);
  if (!path) path = "";
  if (has_host && length && *path != '/' && !(is_special && *path == '\\')) url_append(to, "/", 1);
  if (!has_host && length > 1 && memcmp(path, "//", 2) == 0) url_append(to, "/.", 2);
  int is_list = has_host || (length && *path == '/');
  for (size_t i = 0; i < length; i++) {
    int is_end = path[i] == '?' || path[i] == '#';
    url_encode(to, path + i, 1, is_end || is_list ? URL_PATH : URL_CONTROL);
  }
}

// __tostring: the normal form of the fields as they are now. Raises an error for a bad field.
static int text_of(lua_State *L) {
  url *made = record(L, FIRST), *found = record(L, SECOND);
  size_t scheme_length, host_length = 0;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_checkstack(L, 20, NULL);
  const char *scheme = field(L, "scheme", &scheme_length), *host = field(L, "host", &host_length);
  if (!scheme) return codecs_raise(L, "url: field 'scheme' is missing");
  lua_pushfstring(L, "%s:", scheme);
  const char *start = lua_tostring(L, -1);
  int is_good = url_parse(found, start, scheme_length + 1, NULL);
  if (found->scheme.length != scheme_length || strlen(scheme) != scheme_length || (!is_good && !found->is_special))
    return codecs_raise(L, "url: field 'scheme' must be letters, digits, '+', '-' and '.', got '%s'", scheme);
  made->text.length = 0;
  made->is_file = found->is_file;
  url_append(made, start, scheme_length + 1);
  int is_special = found->is_special;
  if (is_special && !made->is_file && !host_length) return codecs_raise(L, "url: field 'host' is missing");
  found->text.length = 0;
  size_t inside = host_length && *host == '[' ? host_length : 0;
  for (size_t i = 0; i < host_length; i++)
    if (strchr("/?#@\\:", host[i]) && !(host[i] == ':' && inside))
      return codecs_raise(L, "url: field 'host' has a '%c'", host[i]);
  if (host_length && !url_write_host(found, host, host_length))
    return codecs_raise(L, "url: field 'host': %s", found->problem);
  put_authority(L, made, host ? found->text.bytes : NULL, found->text.length);
  put_path(L, made, host || is_special, is_special);
  put_field(L, made, "?", "query", is_special ? URL_SPECIAL_QUERY : URL_QUERY);
  put_field(L, made, "#", "fragment", URL_FRAGMENT);
  if (!url_parse(found, made->text.bytes, made->text.length, NULL))
    return codecs_raise(L, "url: the fields make no URL: %s", found->problem);
  lua_pushlstring(L, found->text.bytes, found->text.length);
  return 1;
}

// Escapes -------------------------------------------------------------------------------------------------------------

int url_unescape_text(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  int is_form = lua_toboolean(L, 2);
  // Most texts have no escapes.
  if (!memchr(text, '%', length) && !(is_form && memchr(text, '+', length))) return lua_settop(L, 1), 1;
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, length);
  ptrdiff_t count = http_unescape(to, text, length, is_form);
  if (count < 0) return lua_pushnil(L), 1;
  luaL_pushresultsize(&buffer, (size_t)count);
  return 1;
}

int url_escape_text(lua_State *L) {
  static const char hex[] = "0123456789ABCDEF";
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  int is_form = lua_toboolean(L, 2);
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, length * 3 + 1);
  size_t count = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (url_is_letter((char)c) || (c >= '0' && c <= '9') || (c && strchr("-._~", c))) to[count++] = (char)c;
    else if (c == ' ' && is_form) to[count++] = '+';
    else to[count++] = '%', to[count++] = hex[c >> 4], to[count++] = hex[c & 15];
  }
  luaL_pushresultsize(&buffer, count);
  return 1;
}

static void push_record(lua_State *L) {
  url *new = lua_newuserdatauv(L, sizeof *new, 0);
  *new = (url){0};
  luaL_newmetatable(L, RECORD);
  lua_pushcfunction(L, free_record);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
}

// Argument #2 is the metatable of URLs.
int url_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"parse", parse}, {"join", join}, {"text_of", text_of}, {NULL, NULL}};
  luaL_checkstack(L, 12, NULL);
  lua_settop(L, 2);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  push_record(L);
  push_record(L);
  luaL_setfuncs(L, functions, SECOND);
  lua_pushcfunction(L, url_escape_text);
  lua_setfield(L, -2, "escape");
  lua_pushcfunction(L, url_unescape_text);
  lua_setfield(L, -2, "unescape");
  return 1;
}
