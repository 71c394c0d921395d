// WebSocket frames and compression for Lua.
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "private.h"

int lua_http_push_frame(lua_State *L, char *bytes, size_t length, size_t *taken) {
  http_frame frame;
  const char *problem = NULL;
  int found = length ? http_read_frame(&frame, bytes, length, &problem) : 0;
  if (found > 0 && frame.is_masked != lua_toboolean(L, 2))
    found = -1, problem = frame.is_masked ? "a server must not mask" : "a client has to mask";
  if (found > 0 && frame.is_compressed && !lua_toboolean(L, 4)) found = -1, problem = "a reserved bit is set";
  if (found < 0) return lua_http_refuse(L, 1002, problem);
  if (found > 0 && frame.length > (uint64_t)luaL_checkinteger(L, 3))
    return lua_http_refuse(L, 1009, "a message that is too long");
  if (found == 0 || length - frame.head_length < frame.length) {
    lua_pushnil(L);
    lua_pushinteger(L, found ? (lua_Integer)(frame.length - (length - frame.head_length)) : 1);
    return 2;
  }
  lua_pushinteger(L, frame.code);
  *taken = frame.head_length + (size_t)frame.length;
  char *payload = bytes + frame.head_length;
  if (frame.is_masked) http_mask(payload, (size_t)frame.length, frame.mask, 0);
  lua_pushlstring(L, payload, (size_t)frame.length);
  lua_pushboolean(L, frame.is_final);
  lua_pushboolean(L, frame.is_compressed);
  return 4;
}

// write_frame(code, payload, masks, is_compressed) -> bytes
int lua_http_write_frame(lua_State *L) {
  size_t length;
  const char *payload = luaL_checklstring(L, 2, &length);
  unsigned char mask[4];
  int masks = lua_toboolean(L, 3);
  if (masks && getrandom(mask, sizeof mask, 0) != sizeof mask) return luaL_error(L, "http: no random numbers");
  char head[14];
  size_t head_length =
      http_write_frame(head, (int)luaL_checkinteger(L, 1), lua_toboolean(L, 4), length, masks ? mask : NULL);
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, head_length + length);
  memcpy(to, head, head_length);
  memcpy(to + head_length, payload, length);
  if (masks) http_mask(to + head_length, length, mask, 0);
  luaL_pushresultsize(&buffer, head_length + length);
  return 1;
}

// check_utf8(state, bytes) -> state, or nil. The lowest byte of the state is 0 between two characters.
int lua_http_check_utf8(lua_State *L) {
  size_t length;
  uint32_t state = (uint32_t)luaL_checkinteger(L, 1);
  const char *bytes = luaL_checklstring(L, 2, &length);
  if (!http_check_utf8(&state, bytes, length)) return lua_pushnil(L), 1;
  lua_pushinteger(L, (state & 255) ? state : 0);
  return 1;
}

// accept_key(key) -> the server's answer to it
int lua_http_accept_key(lua_State *L) {
  static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  size_t length;
  const char *key = luaL_checklstring(L, 1, &length);
  char text[128];
  if (length > 80) return lua_pushnil(L), 1;
  memcpy(text, key, length);
  memcpy(text + length, magic, sizeof magic - 1);
  unsigned char digest[20];
  http_sha1(digest, text, length + sizeof magic - 1);
  lua_pushlstring(L, text, linux_write_base64(text, digest, 20));
  return 1;
}

int lua_http_random_key(lua_State *L) {
  unsigned char bytes[16];
  char text[24];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return luaL_error(L, "http: no random numbers");
  lua_pushlstring(L, text, linux_write_base64(text, bytes, sizeof bytes));
  return 1;
}

// zlib ----------------------------------------------------------------------------------------------------------------

static const char STREAM[] = "runloop.http.deflate";

typedef struct stream {
  linux_deflate *deflate;
  linux_bytes output;
} stream;

// stream(bytes, is last, max) -> bytes; or nil, problem
static int step(lua_State *L) {
  stream *s = lua_touserdata(L, lua_upvalueindex(1));
  if (!s->deflate) return luaL_error(L, "http: the compression has ended");
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  s->output.length = 0;
  int status = linux_step_deflate(s->deflate, bytes, length, lua_toboolean(L, 2),
                                  (size_t)luaL_optinteger(L, 3, 1 << 30), &s->output);
  if (status == 1) lua_pushlstring(L, s->output.bytes, s->output.length);
  else lua_pushnil(L);
  if (s->output.capacity > 65536) {
    free(s->output.bytes);
    s->output = (linux_bytes){0};
  }
  if (status == 1) return 1;
  if (status == -2) return luaL_error(L, "not enough memory");
  lua_pushstring(L, status == 0 ? "the compressed data is damaged" : "a message that is too long");
  return 2;
}

static int reset(lua_State *L) {
  stream *s = lua_touserdata(L, lua_upvalueindex(1));
  if (s->deflate) linux_reset_deflate(s->deflate);
  return 0;
}

static int collect(lua_State *L) {
  stream *s = luaL_checkudata(L, 1, STREAM);
  if (s->deflate) linux_close_deflate(s->deflate);
  free(s->output.bytes);
  *s = (stream){0};
  return 0;
}

// deflate(compresses, is gzip, window) -> step, reset; or nil without libz
int lua_http_deflate(lua_State *L) {
  if (!linux_has_zlib()) return lua_pushnil(L), 1;
  stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (stream){0};
  if (luaL_newmetatable(L, STREAM)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  s->deflate = linux_open_deflate(lua_toboolean(L, 1), lua_toboolean(L, 2), (int)luaL_optinteger(L, 3, 15));
  if (!s->deflate) return luaL_error(L, "not enough memory");
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, step, 1);
  lua_insert(L, -2);
  lua_pushcclosure(L, reset, 1);
  return 2;
}
