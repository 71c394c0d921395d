// Declarations that the C files of this target share.
#pragma once

#include <HTTP.h>
#include <base64.h>
#include <deflate.h>
#include <lauxlib.h>

#include "CLuaHTTP.h"

/// Flags of a request. Lua gets the flags that http.c lists in `native.request_flags`.
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

/// Flags of an answer.
enum {
  ANSWER_KEEPS_ALIVE = 1,
  ANSWER_WITHOUT_BODY = 2,
  ANSWER_IS_CHUNKED = 4,
  ANSWER_IS_OLD = 8,
  ANSWER_IS_SWITCH = 16
};

/// The index of each rarely used value in a request's table. `native.own` has the same indices for Lua.
enum { OWN_CONNECTION = 1, OWN_FLAGS, OWN_HEAD, OWN_ROUTE, OWN_COUNT = OWN_ROUTE };

/// The received bytes that were not consumed yet, and the number of them that belong to the body of a message. The
/// initial state is all zeros.
typedef struct http_reader {
  linux_bytes bytes;
  size_t position;         ///< of the first unread byte
  size_t tried, searched;  ///< unread bytes in which a head was looked for, and an empty line
  int64_t left;            ///< bytes of the body that were not taken, or one of the values below
  size_t discarded;        ///< bytes of the body that were discarded
  http_chunks chunks;
} http_reader;

enum { HTTP_IS_CHUNKED = -1, HTTP_UNTIL_END = -2, HTTP_IS_BAD = -3 };

static inline size_t http_unread(const http_reader *reader) { return reader->bytes.length - reader->position; }
static inline char *http_bytes(const http_reader *reader) { return reader->bytes.bytes + reader->position; }
/// Appends a copy of the bytes. Raises an error without memory.
void lua_http_feed(lua_State *L, http_reader *reader, const char *bytes, size_t length);
/// Drops unread bytes.
void http_skip(http_reader *reader, size_t count);
/// Frees the memory. The reader is then in its initial state.
void http_free_reader(http_reader *reader);
/// Reads the next head without consuming it, like `http_read_head`.
int http_next_head(http_reader *reader, http_head *head, int is_response, size_t max, int max_fields);
/// Begins a body of this length, which may be HTTP_IS_CHUNKED or HTTP_UNTIL_END.
void http_expect(http_reader *reader, int64_t left);
/// Takes and pushes the next bytes of the body, at most `max`; "" if they have not arrived, nil at the end of the body,
/// false if its chunks are malformed.
void lua_http_take(lua_State *L, http_reader *reader, size_t max);
/// Discards the rest of the body. Returns 1 when that is done, -1 if some of it has not arrived, 0 if more than `max`
/// bytes are left, or the body is malformed.
int http_discard(http_reader *reader, size_t max);
/// Takes and pushes all unread bytes. Returns 1.
int lua_http_push_rest(lua_State *L, http_reader *reader);
/// Pushes the function that makes a reader for Lua. The metatable of fields is on top of the stack.
void lua_http_open_reader(lua_State *L);

/// The current date for an answer: 29 bytes.
const char *lua_http_date(void);

/// The reason phrase of a status.
const char *lua_http_reason(lua_Integer status);
/// Pushes the method, the path, and the table of a request; nil for a bad path. The connection is at the index 1, the
/// text of the head at `text`. Returns the flags.
int lua_http_push_request(lua_State *L, const http_head *head, int text);
/// Makes a whole response with the text on top as its body. `flags` are the request's, with HTTP_KEEPS_ALIVE if the
/// connection continues. Returns the response's length if it fits into `small`; else pushes the response and returns 0.
size_t lua_http_text_answer(lua_State *L, int status, const char *type, int flags, char *small, size_t size);

/// Pushes a table of fields with names in lower case. Values of repeated fields are joined by commas, except cookies.
/// The metatable of fields is at `metatable`.
void lua_http_push_fields(lua_State *L, http_span rest, int are_lists, int metatable);
/// Pushes a response: its status is at `index`, then fields, body or its length or nil, type or nil. Adds the length of
/// a body that is a string; adds the type unless the fields have one. A field Connection may clear ANSWER_KEEPS_ALIVE.
/// The buffer for output is at the index `buffer`.
void lua_http_push_response(lua_State *L, int index, int *flags, int buffer);

/// server(settings, policy) -> the functions of a server
int lua_http_server(lua_State *L);
/// Returns false, a status or close code, and the problem to Lua.
static inline int lua_http_refuse(lua_State *L, int code, const char *problem) {
  lua_pushboolean(L, 0);
  lua_pushinteger(L, code);
  lua_pushstring(L, problem);
  return 3;
}
int lua_http_read_fields(lua_State *L);
int lua_http_find_accepted(lua_State *L);
int lua_http_write_request(lua_State *L);

/// Pushes the frame at the beginning of the bytes, unmasked: see `reader:frame`. Sets `taken` to the frame's length if
/// the frame is whole.
int lua_http_push_frame(lua_State *L, char *bytes, size_t length, size_t *taken);
int lua_http_write_frame(lua_State *L);
int lua_http_check_utf8(lua_State *L);
int lua_http_accept_key(lua_State *L);
int lua_http_random_key(lua_State *L);
int lua_http_deflate(lua_State *L);

int lua_http_open_file(lua_State *L);
int lua_http_open_log(lua_State *L);
int lua_http_lose_log(lua_State *L);
int lua_http_read_file(lua_State *L);
int lua_http_seek_file(lua_State *L);
int lua_http_close_file(lua_State *L);
