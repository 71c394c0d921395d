// A buffer of bytes that have arrived from a peer and were not consumed yet, and the message that they contain. Clients
// and servers use this reader for all heads and bodies. A server's connection contains a reader. The client of tests,
// and each WebSocket, has a reader as a userdata.
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

/// A buffer of at most this size is kept when it is empty. A larger one is freed, since most connections are idle.
enum { KEPT = 4096 };
/// A head of at most this size is parsed again for each piece of it that arrives.
enum { LITTLE = 4096 };

void lua_http_feed(lua_State *L, http_reader *reader, const char *bytes, size_t length) {
  if (!length) return;
  size_t unread = http_unread(reader);
  // At this point, moving the unread bytes costs no more than reading the consumed ones did.
  if (reader->position && reader->position >= unread) {
    memmove(reader->bytes.bytes, http_bytes(reader), unread);
    reader->bytes.length = unread;
    reader->position = 0;
  }
  if (!linux_reserve(&reader->bytes, length)) luaL_error(L, "not enough memory");
  memcpy(reader->bytes.bytes + reader->bytes.length, bytes, length);
  reader->bytes.length += length;
}

void http_skip(http_reader *reader, size_t count) {
  reader->position += count;
  reader->tried = reader->searched = 0;
  if (http_unread(reader)) return;
  reader->position = reader->bytes.length = 0;
  if (reader->bytes.capacity <= KEPT) return;
  free(reader->bytes.bytes);
  reader->bytes = (linux_bytes){0};
}

void http_free_reader(http_reader *reader) {
  free(reader->bytes.bytes);
  *reader = (http_reader){0};
}

int http_next_head(http_reader *reader, http_head *head, int is_response, size_t max, int max_fields) {
  const char *bytes = http_bytes(reader);
  size_t count = http_unread(reader), tried = reader->tried;
  if (!count) return 0;
  // A long head is parsed when it has grown by half, is complete, or is too long: parsing it for each piece would take
  // quadratic time.
  if (tried >= LITTLE && count - tried < tried / 2 && count <= max) {
    size_t from = reader->searched - 2;
    reader->searched = count;
    if (!memmem(bytes + from, count - from, "\n\r\n", 3)) return 0;
  }
  reader->tried = reader->searched = count;
  return http_read_head(head, bytes, count, is_response, max, max_fields);
}

// Decodes the chunks in place, so that only one string is made.
static void take_chunks(lua_State *L, http_reader *reader, size_t max) {
  char *bytes = http_bytes(reader);
  size_t count = http_unread(reader), taken = 0, length = 0;
  int is_done = 0;
  // The body stays malformed if there is no memory for the string: its bytes are lost.
  reader->left = HTTP_IS_BAD;
  while (!is_done && taken < count && length < max) {
    http_span piece;
    size_t most = count - taken < max - length ? count - taken : max - length;
    taken += http_read_chunk(&reader->chunks, bytes + taken, most, &piece, &is_done);
    memmove(bytes + length, piece.start, piece.length);
    length += piece.length;
  }
  if (is_done < 0) {
    lua_pushboolean(L, 0);
    return;
  }
  if (length || !is_done) lua_pushlstring(L, bytes, length);
  else lua_pushnil(L);
  reader->left = is_done ? 0 : HTTP_IS_CHUNKED;
  http_skip(reader, taken);
}

void lua_http_take(lua_State *L, http_reader *reader, size_t max) {
  size_t count = http_unread(reader);
  if (reader->left == 0) {
    lua_pushnil(L);
  } else if (reader->left == HTTP_IS_BAD) {
    lua_pushboolean(L, 0);
  } else if (reader->left == HTTP_IS_CHUNKED && count) {
    take_chunks(L, reader, max);
  } else {
    if (count > max) count = max;
    if (reader->left > 0 && count > (uint64_t)reader->left) count = (size_t)reader->left;
    lua_pushlstring(L, count ? http_bytes(reader) : "", count);
    if (reader->left > 0) reader->left -= (int64_t)count;
    http_skip(reader, count);
  }
}

void http_expect(http_reader *reader, int64_t left) {
  reader->left = left;
  reader->chunks = (http_chunks){0};
  reader->discarded = 0;
}

int http_discard(http_reader *reader, size_t max) {
  while (reader->left != 0) {
    size_t count = http_unread(reader);
    if (reader->left < HTTP_IS_CHUNKED || reader->left > (int64_t)max || reader->discarded > max) return 0;
    if (!count) return -1;
    if (reader->left == HTTP_IS_CHUNKED) {
      http_span piece;
      int is_done;
      count = http_read_chunk(&reader->chunks, http_bytes(reader), count, &piece, &is_done);
      if (is_done) reader->left = is_done < 0 ? HTTP_IS_BAD : 0;
    } else {
      if (count > (uint64_t)reader->left) count = (size_t)reader->left;
      reader->left -= (int64_t)count;
    }
    reader->discarded += count;
    http_skip(reader, count);
  }
  return 1;
}

int lua_http_push_rest(lua_State *L, http_reader *reader) {
  size_t count = http_unread(reader);
  lua_pushlstring(L, count ? http_bytes(reader) : "", count);
  http_skip(reader, count);
  return 1;
}

// The reader of a client ----------------------------------------------------------------------------------------------

static const char READER[] = "http.reader";

static http_reader *check_reader(lua_State *L) { return luaL_checkudata(L, 1, READER); }

static int feed(lua_State *L) {
  http_reader *reader = check_reader(L);
  size_t length;
  const char *bytes = luaL_checklstring(L, 2, &length);
  lua_http_feed(L, reader, bytes, length);
  return 0;
}

static int rest(lua_State *L) { return lua_http_push_rest(L, check_reader(L)); }

// reader:take(max) -> bytes of the body; "" if they have not arrived, nil at its end, false if its chunks are malformed
static int take(lua_State *L) {
  http_reader *reader = check_reader(L);
  lua_http_take(L, reader, (size_t)luaL_checkinteger(L, 2));
  return 1;
}

// reader:ends() -> whether the end of the input is the end of the body
static int ends(lua_State *L) {
  lua_pushboolean(L, check_reader(L)->left == HTTP_UNTIL_END);
  return 1;
}

// reader:answer(max, method) -> status, fields, reason, minor, head; nil if it is incomplete; false, status, problem if
// it is bad. The body follows.
static int answer(lua_State *L) {
  http_reader *reader = check_reader(L);
  size_t max = (size_t)luaL_checkinteger(L, 2);
  int is_bare = strcmp(luaL_checkstring(L, 3), "HEAD") == 0;
  http_head head;
  int found = http_next_head(reader, &head, 1, max, INT_MAX);
  if (found == 0) return lua_pushnil(L), 1;
  if (found < 0) return lua_http_refuse(L, head.status, head.problem);
  lua_pushinteger(L, head.status);
  lua_http_push_fields(L, http_fields(http_bytes(reader), head.length), 1, lua_upvalueindex(1));
  lua_pushlstring(L, head.reason.start, head.reason.length);
  lua_pushinteger(L, head.minor);
  lua_pushlstring(L, http_bytes(reader), head.length);
  is_bare |= head.status < 200 || head.status == 204 || head.status == 304;
  http_expect(reader, is_bare                    ? 0
                      : head.is_chunked          ? HTTP_IS_CHUNKED
                      : head.content_length >= 0 ? head.content_length
                                                 : HTTP_UNTIL_END);
  http_skip(reader, head.length);
  return 5;
}

// reader:frame(is_masked, max, is_compressed) -> code, payload, is final, is compressed. Returns nil and the number of
// missing bytes; or false, close code, problem. `is_masked`: whether frames must be masked.
static int frame(lua_State *L) {
  http_reader *reader = check_reader(L);
  size_t taken = 0;
  int count = lua_http_push_frame(L, http_bytes(reader), http_unread(reader), &taken);
  if (taken) http_skip(reader, taken);
  return count;
}

// Scripts can call the finalizer through debug functions, even twice: it checks its argument.
static int collect(lua_State *L) {
  http_free_reader(check_reader(L));
  return 0;
}

static int make(lua_State *L) {
  http_reader *reader = lua_newuserdatauv(L, sizeof *reader, 0);
  *reader = (http_reader){0};
  luaL_setmetatable(L, READER);
  return 1;
}

void lua_http_open_reader(lua_State *L) {
  static const luaL_Reg methods[] = {{"feed", feed},     {"rest", rest},   {"take", take}, {"ends", ends},
                                     {"answer", answer}, {"frame", frame}, {NULL, NULL}};
  luaL_newmetatable(L, READER);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  luaL_newlibtable(L, methods);
  lua_pushvalue(L, -3);
  luaL_setfuncs(L, methods, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_pushcfunction(L, make);
}
