// The parts of a request that Lua receives.
#include <string.h>
#include <strings.h>

#include "private.h"

// TRACE would reveal fields that a proxy has added, and CONNECT would turn the server into a proxy: handlers do not get
// such requests.
static int is_refused(http_span method) {
  return (method.length == 5 && memcmp(method.start, "TRACE", 5) == 0) ||
         (method.length == 7 && memcmp(method.start, "CONNECT", 7) == 0);
}

static int flags_of(const http_head *head) {
  int has_body = head->is_chunked || head->content_length > 0;
  return (head->keeps_alive ? HTTP_KEEPS_ALIVE : 0) | (head->is_upgrade ? HTTP_IS_UPGRADE : 0) |
         (has_body ? HTTP_HAS_BODY : 0) |
         (head->expects_continue && (has_body || head->content_length == 0) ? HTTP_EXPECTS_CONTINUE : 0) |
         (head->minor == 0 ? HTTP_IS_OLD : 0) | (http_is(head->method, "HEAD") ? HTTP_IS_HEAD : 0) |
         (is_refused(head->method) ? HTTP_IS_REFUSED : 0);
}

// Returns the path of "http://host/path", the form that clients send to proxies.
static http_span without_origin(http_span target) {
  size_t scheme = target.length > 7 && strncasecmp(target.start, "http://", 7) == 0    ? 7
                  : target.length > 8 && strncasecmp(target.start, "https://", 8) == 0 ? 8
                                                                                       : 0;
  if (!scheme) return target;
  while (scheme < target.length && target.start[scheme] != '/' && target.start[scheme] != '?') scheme++;
  return (http_span){target.start + scheme, target.length - scheme};
}

// Whether the target is the path itself, as most are.
static int is_plain(http_span target) {
  if (target.start[0] != '/' && (target.length != 1 || target.start[0] != '*')) return 0;
  for (size_t i = 0; i < target.length; i++) {
    char c = target.start[i];
    if (c == '?' || c == '%') return 0;
    if (c == '/' && i + 1 < target.length && (target.start[i + 1] == '/' || target.start[i + 1] == '.')) return 0;
  }
  return 1;
}

// Pushes the path, or nil for a bad one, and finds the query.
static void push_path(lua_State *L, http_span target, http_span *query, int *flags) {
  http_span path = without_origin(target);
  const char *mark = memchr(path.start, '?', path.length);
  if (mark) {
    *query = (http_span){mark + 1, path.length - (size_t)(mark + 1 - path.start)};
    path.length = (size_t)(mark - path.start);
  }
  if (path.length == 0) path = (http_span){"/", 1};
  luaL_Buffer buffer;
  int has_slashes = 0;
  char *to = luaL_buffinitsize(L, &buffer, path.length + 1);
  ptrdiff_t count = http_clean_path(to, path.start, path.length, &has_slashes);
  luaL_pushresultsize(&buffer, count > 0 ? (size_t)count : 0);
  if (has_slashes) *flags |= HTTP_HAS_SLASHES;
  if (count > 0) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

// Replaces each zero byte of the path by "%2F". The stack has the path below the request's table, which is on top.
static void show_slashes(lua_State *L) {
  int request = lua_gettop(L), path = request - 1;
  size_t length;
  const char *bytes = lua_tolstring(L, path, &length);
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  for (size_t i = 0; i < length; i++) {
    if (bytes[i]) luaL_addchar(&buffer, bytes[i]);
    else luaL_addstring(&buffer, "%2F");
  }
  luaL_pushresult(&buffer);
  lua_pushvalue(L, path);
  lua_setfield(L, request, "coded_path");
  lua_replace(L, path);
}

static void set_span(lua_State *L, const char *name, http_span span) {
  lua_pushlstring(L, span.start, span.length);
  lua_setfield(L, -2, name);
}

int lua_http_push_request(lua_State *L, const http_head *head, int text) {
  int flags = flags_of(head);
  http_span query = {"", 0};
  lua_pushlstring(L, head->method.start, head->method.length);
  // CONNECT has a host and a port as target.
  int is_whole = is_plain(head->target) || (flags & HTTP_IS_REFUSED && head->method.length == 7);
  if (is_whole) lua_pushlstring(L, head->target.start, head->target.length);
  else push_path(L, head->target, &query, &flags);
  // The table has room for few fields: others are computed when a script uses them.
  lua_createtable(L, OWN_COUNT, 4);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, OWN_CONNECTION);
  lua_pushinteger(L, flags);
  lua_rawseti(L, -2, OWN_FLAGS);
  lua_pushvalue(L, text);
  lua_rawseti(L, -2, OWN_HEAD);
  if (flags & HTTP_HAS_SLASHES) show_slashes(L);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "method");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "path");
  if (is_whole) return flags;
  set_span(L, "target", head->target);
  if (query.length) set_span(L, "query_string", query);
  return flags;
}
