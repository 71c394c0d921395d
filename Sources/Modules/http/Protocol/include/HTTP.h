// HTTP: what the protocol says, as functions from bytes to bytes. No loop, no socket, no Lua. Everything may be called from any
// thread; nothing is kept between calls but in what the caller owns.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/// Bytes in somebody else's memory.
typedef struct http_span {
  const char *start;
  size_t length;
} http_span;

typedef struct http_field {
  http_span name, value;
} http_field;

/// The length that the fields of an answer announce. Begins as zeros.
typedef struct http_answer_length {
  int has_length, has_encoding;
  int64_t length;
  char problem[128];
} http_answer_length;

/// The head of a message: all before its body. The spans are in the bytes that were read.
typedef struct http_head {
  int is_response;
  int status;              ///< a response's; of a bad request, the status to answer with
  int minor;               ///< HTTP/1.minor
  http_span method, target, reason;
  int64_t content_length;  ///< bytes; -1: none was given
  int is_chunked;
  int keeps_alive;         ///< another message may follow
  int is_upgrade;          ///< Connection and Upgrade ask for another protocol
  int expects_continue;
  size_t length;           ///< bytes of the head, the empty line included
  const char *problem;     ///< why it is bad
  http_answer_length answer;  ///< of a response only
} http_head;

/// Reads the head of a message from the beginning of these bytes: 1 if it is there and good, 0 if its end is still missing, -1 if
/// it is bad, with `status` and `problem` set. What two servers could read differently is bad.
int http_read_head(http_head *head, const char *bytes, size_t length, int is_response, size_t max_length,
                   int max_fields);

/// Returns the bytes behind the first line of a head that was read and found good, for `http_next_field`.
http_span http_fields(const char *bytes, size_t length);
/// Takes the next field from `rest`. Returns 0 at the end of the head.
int http_next_field(http_span *rest, http_field *field);

/// Notes a field of an answer's head, if it is about the length of the body. Returns 0 with `problem` set if the value
/// is no length, or if it contradicts an earlier field: two clients would then find different ends of the answer (RFC
/// 9112, 6.3).
int http_note_answer_field(http_answer_length *answer, http_span name, http_span value);
/// Reads a length of 1 to 18 decimal digits. Returns 0 if the value is anything else.
int http_read_length(http_span value, int64_t *length);
/// The span without blanks and tabs at its ends.
http_span http_trim(http_span span);

/// Where the decoder of a chunked body is. Begins as zeros.
typedef struct http_chunks {
  int state;
  uint64_t left;     ///< of the chunk's data, or its size so far
  int digits;        ///< of the size so far
  size_t length;     ///< of extensions and trailers so far
  int line_length;   ///< of the trailer's line so far
  int has_name;      ///< whether the name in it is over
} http_chunks;

/// Takes bytes of a chunked body and finds the next piece of its data. Returns how many bytes were taken; `data` is in them, and
/// empty if there was none. `is_done` is set to 1 at the body's end, to -1 if the body is bad.
size_t http_read_chunk(http_chunks *chunks, const char *bytes, size_t length, http_span *data, int *is_done);

/// Whether the comma-separated list has this word, in any case.
int http_list_has(http_span list, const char *word);
/// Whether a span is this word, in any case.
int http_is(http_span span, const char *word);
/// What a hexadecimal digit is worth, or -1.
static inline int http_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
/// Whether all bytes may be in a name: a method, a field's name, a parameter.
int http_is_token(const char *bytes, size_t length);
/// Whether no byte ends a field's value: CR, LF and 0 would split the message.
int http_is_value(const char *bytes, size_t length);

/// "Sun, 06 Nov 1994 08:49:37 GMT", 29 bytes and a 0, for seconds since 1970.
void http_write_date(char to[30], int64_t seconds);
/// Seconds since 1970 of one of the three forms of dates; -1 if it is none.
int64_t http_read_date(const char *bytes, size_t length);

/// Decodes %XX; with `is_form`, + is a blank. Returns the length, at most as many bytes as there were; -1 for a bad escape.
ptrdiff_t http_unescape(char *to, const char *bytes, size_t length, int is_form);
/// The path without "." and ".." segments and doubled slashes, each segment decoded: it begins with a slash and cannot leave its
/// root. A slash that was encoded does not end a segment: it is a zero byte in it, which no path has otherwise. Returns the length,
/// at most one more than there was; -1 if it is bad, or would leave.
ptrdiff_t http_clean_path(char *to, const char *bytes, size_t length, int *has_slashes);

/// A frame of a WebSocket, but for its payload.
typedef struct http_frame {
  int is_final, is_compressed, code, is_masked;
  unsigned char mask[4];
  uint64_t length;       ///< of the payload
  size_t head_length;
} http_frame;

enum { HTTP_CONTINUATION = 0, HTTP_TEXT = 1, HTTP_BINARY = 2, HTTP_CLOSE = 8, HTTP_PING = 9, HTTP_PONG = 10 };

/// Reads a frame's head: 1 if it is there, 0 if more is needed, -1 if it breaks the rules of RFC 6455, with `problem` set.
int http_read_frame(http_frame *frame, const char *bytes, size_t length, const char **problem);
/// Writes the head of a final frame, at most 14 bytes, and returns its length. `mask` may be NULL.
size_t http_write_frame(char to[14], int code, int is_compressed, uint64_t length, const unsigned char *mask);
/// Masks or unmasks; `position` is how many bytes of the payload came before.
void http_mask(char *bytes, size_t length, const unsigned char mask[4], uint64_t position);

/// Goes on checking text: `state` begins as 0. Returns 0 if it is not UTF-8.
int http_check_utf8(uint32_t *state, const char *bytes, size_t length);

/// SHA-1, for the handshake of WebSockets alone.
void http_sha1(unsigned char digest[20], const char *bytes, size_t length);
