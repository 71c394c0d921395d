// HTTP: the protocol as functions from bytes to bytes, without loops, sockets or Lua. Any thread may call them: the
// only state is in the caller's structures.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/// Bytes in memory that belongs to the caller.
typedef struct http_span {
  const char *start;
  size_t length;
} http_span;

typedef struct http_field {
  http_span name, value;
} http_field;

/// The length that an answer's fields announce. The initial state is all zeros.
typedef struct http_answer_length {
  int has_length, has_encoding;
  int64_t length;
  char problem[128];
} http_answer_length;

/// The head of a message: everything before its body. The spans are in the bytes that were read.
typedef struct http_head {
  int is_response;
  int status;  ///< of a response; for a bad request, the status to answer with
  int minor;   ///< HTTP/1.minor
  http_span method, target, reason;
  int64_t content_length;  ///< bytes; -1: not given
  int is_chunked;
  int keeps_alive;  ///< another message may follow on the connection
  int is_upgrade;   ///< Connection and Upgrade ask for another protocol
  int expects_continue;
  size_t length;              ///< bytes of the head, with the empty line
  const char *problem;        ///< why the head is bad
  http_answer_length answer;  ///< of a response only
} http_head;

/// Reads the head of a message at the beginning of these bytes. Returns 1 if it is complete and good, 0 if it is
/// incomplete, -1 if it is bad, with `status` and `problem` set. A head that two servers could read differently is bad.
int http_read_head(http_head *head, const char *bytes, size_t length, int is_response, size_t max_length,
                   int max_fields);

/// Returns the bytes after the first line of a good head, for `http_next_field`.
http_span http_fields(const char *bytes, size_t length);
/// Takes the next field from `rest`. Returns 0 at the end of the head.
int http_next_field(http_span *rest, http_field *field);

/// Notes a field of an answer's head if it is about the length of the body. Returns 0 with `problem` set if the value
/// is not a length, or contradicts an earlier field: two clients would then find different ends of the answer (RFC
/// 9112, 6.3).
int http_note_answer_field(http_answer_length *answer, http_span name, http_span value);
/// Reads a length of 1 to 18 decimal digits. Returns 0 if the value is anything else.
int http_read_length(http_span value, int64_t *length);
/// Returns the span without blanks and tabs at its ends.
http_span http_trim(http_span span);

/// The state of a decoder of chunked bodies. The initial state is all zeros.
typedef struct http_chunks {
  int state;
  uint64_t left;    ///< remaining bytes of the chunk; while its size is parsed, the size so far
  int digits;       ///< digits of the size so far
  size_t length;    ///< bytes of extensions and trailers so far
  int line_length;  ///< bytes of the trailer's line so far
  int has_name;     ///< the name in the trailer's line has ended
} http_chunks;

/// Takes bytes of a chunked body and finds the next piece of its data. Returns how many bytes were taken; `data` is the
/// piece within these bytes; it is empty if they have no data. Sets `is_done` to 1 at the end of the body, to -1 if the
/// body is bad.
size_t http_read_chunk(http_chunks *chunks, const char *bytes, size_t length, http_span *data, int *is_done);

/// Whether the comma-separated list has this word, in any case.
int http_list_has(http_span list, const char *word);
/// Whether a span is this word, in any case.
int http_is(http_span span, const char *word);
/// The value of a hexadecimal digit, or -1.
static inline int http_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
/// Whether all bytes may be in a token: a method, a field's name, a parameter.
int http_is_token(const char *bytes, size_t length);
/// Whether the bytes can be a field's value: CR, LF and 0 would end it, and split the message.
int http_is_value(const char *bytes, size_t length);

/// Writes "Sun, 06 Nov 1994 08:49:37 GMT" for seconds since 1970: 29 bytes and a 0.
void http_write_date(char to[30], int64_t seconds);
/// Reads a date in one of the three forms. Returns seconds since 1970, or -1 if it is invalid.
int64_t http_read_date(const char *bytes, size_t length);

/// Decodes %XX. With `is_form`, + is a blank and a bad escape stays as it is, as browsers read forms; without, the
/// result is -1 for a bad escape. Returns the length, at most `length`.
ptrdiff_t http_unescape(char *to, const char *bytes, size_t length, int is_form);
/// Writes the path without "." and ".." segments and doubled slashes, each segment decoded: it begins with a slash and
/// cannot leave its root. An encoded slash does not end a segment: it becomes a zero byte, which paths do not have
/// otherwise. Returns the length, at most `length` + 1; -1 if the path is malformed, or would leave its root.
ptrdiff_t http_clean_path(char *to, const char *bytes, size_t length, int *has_slashes);

/// The head of a WebSocket frame.
typedef struct http_frame {
  int is_final, is_compressed, code, is_masked;
  unsigned char mask[4];
  uint64_t length;  ///< of the payload
  size_t head_length;
} http_frame;

enum { HTTP_CONTINUATION = 0, HTTP_TEXT = 1, HTTP_BINARY = 2, HTTP_CLOSE = 8, HTTP_PING = 9, HTTP_PONG = 10 };

/// Reads the head of a frame. Returns 1 if it is complete, 0 if it is incomplete, -1 if it breaks a rule of RFC 6455,
/// with `problem` set.
int http_read_frame(http_frame *frame, const char *bytes, size_t length, const char **problem);
/// Writes the head of a final frame, at most 14 bytes, and returns its length. `mask` may be NULL.
size_t http_write_frame(char to[14], int code, int is_compressed, uint64_t length, const unsigned char *mask);
/// Masks or unmasks bytes of the payload, `position` bytes after its beginning.
void http_mask(char *bytes, size_t length, const unsigned char mask[4], uint64_t position);

/// Checks the next bytes of a text: `state` begins as 0. Returns 0 if they are not UTF-8.
int http_check_utf8(uint32_t *state, const char *bytes, size_t length);

/// SHA-1, only for the handshake of WebSockets.
void http_sha1(unsigned char digest[20], const char *bytes, size_t length);
