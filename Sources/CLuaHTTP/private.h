// Between the C files of this target.
#pragma once

#include <HTTP.h>
#include <lauxlib.h>

#include "CLuaHTTP.h"

/// What Lua is told of a request.
enum {
  HTTP_KEEPS_ALIVE = 1, HTTP_IS_UPGRADE = 2, HTTP_EXPECTS_CONTINUE = 4, HTTP_HAS_SLASHES = 8, HTTP_IS_OLD = 16, HTTP_IS_HEAD = 32,
  HTTP_HAS_BODY = 64
};

/// The date of an answer that is written now: 29 bytes.
const char *lua_http_date(void);

int lua_http_read_requests(lua_State *L);
int lua_http_write_text(lua_State *L);
int lua_http_read_fields(lua_State *L);
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
int lua_http_read_file(lua_State *L);
int lua_http_seek_file(lua_State *L);
int lua_http_close_file(lua_State *L);
