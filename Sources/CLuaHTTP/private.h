// Between the C files of this target.
#pragma once

#include <HTTP.h>
#include <lauxlib.h>

#include "CLuaHTTP.h"

int lua_http_read_request(lua_State *L);
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
