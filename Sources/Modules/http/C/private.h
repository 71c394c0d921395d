// Declarations that the C files of this target share.
#pragma once

#include <HTTP.h>
#include <base64.h>
#include <deflate.h>
#include <lauxlib.h>

#include "CLuaHTTP.h"

/// Flags of a request. Lua has those that http.c lists in `native.request_flags`.
enum {
  HTTP_KEEPS_ALIVE = 1,
  HTTP_IS_UPGRADE = 2,
  HTTP_EXPECTS_CONTINUE = 4,
  HTTP_HAS_SLASHES = 8,
  HTTP_IS_OLD = 16,
  HTTP_IS_HEAD = 32,
  HTTP_HAS_BODY = 64,
  HTTP_IS_REFUSED = 128
};

/// Flags of an answer. Lua has them in `native.answer_flags`.
enum {
  ANSWER_KEEPS_ALIVE = 1,
  ANSWER_WITHOUT_BODY = 2,
  ANSWER_IS_CHUNKED = 4,
  ANSWER_IS_OLD = 8,
  ANSWER_IS_SWITCH = 16
};

/// Where the table of a request keeps its rarely used values. Lua has the indices in `native.own`.
enum { OWN_CONNECTION = 1, OWN_FLAGS, OWN_HEAD, OWN_ROUTE, OWN_RESPONSE, OWN_COUNT = OWN_RESPONSE };

/// The current date for an answer: 29 bytes.
const char *lua_http_date(void);

/// The reason phrase of a status.
const char *lua_http_reason(lua_Integer status);
/// Pushes the method and the path of a request; nil for a bad path. Finds its flags, and its query.
int lua_http_push_request(lua_State *L, const http_head *head, int *flags, http_span *query);
/// Makes a whole response with the text on top as its body. `flags` are the request's, with HTTP_KEEPS_ALIVE if the
/// connection continues. Returns its length if it fits into `small`; else pushes it and returns 0.
size_t lua_http_text_answer(lua_State *L, int status, const char *type, int flags, char *small, size_t size);

int lua_http_serving(lua_State *L);
/// Returns false, a status or close code, and the problem to Lua.
static inline int lua_http_refuse(lua_State *L, int code, const char *problem) {
  lua_pushboolean(L, 0);
  lua_pushinteger(L, code);
  lua_pushstring(L, problem);
  return 3;
}
int lua_http_read_fields(lua_State *L);
int lua_http_find_accepted(lua_State *L);
int lua_http_read_response(lua_State *L);
int lua_http_write_response(lua_State *L);
int lua_http_write_request(lua_State *L);

int lua_http_read_frame(lua_State *L);
int lua_http_write_frame(lua_State *L);
int lua_http_check_utf8(lua_State *L);
int lua_http_accept_key(lua_State *L);
int lua_http_random_key(lua_State *L);
int lua_http_deflate(lua_State *L);

int lua_http_open_file(lua_State *L);
int lua_http_open_log(lua_State *L);
int lua_http_read_file(lua_State *L);
int lua_http_seek_file(lua_State *L);
int lua_http_close_file(lua_State *L);
