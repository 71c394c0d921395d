// Chunked bodies, strictly as in RFC 9112: a lax reading of their ends would let requests hide in bodies.
#include <string.h>

#include "HTTP.h"

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF, DONE };

/// The largest number of bytes of extensions and trailers in a body. These bytes are ignored.
enum { MAX_EXTRA = 16384 };

// Takes a byte of the line with a chunk's size. Returns 0 if the byte is not allowed at this place.
static inline int read_size(http_chunks *chunks, unsigned char c) {
  int value = http_digit(c);
  if (value >= 0) {
    if (++chunks->digits > 15) return 0;
    chunks->left = chunks->left << 4 | (uint64_t)value;
    return 1;
  }
  if (chunks->digits == 0 || (c != '\r' && c != ';')) return 0;
  chunks->state = c == '\r' ? SIZE_LF : EXTENSION;
  return 1;
}

// Takes a byte of a trailer's line. Returns 0 if the line is not a valid field: other programs might read it as
// something else.
static inline int read_trailer(http_chunks *chunks, unsigned char c) {
  const char byte = (char)c;
  if (c == '\r') {
    if (chunks->line_length && !chunks->has_name) return 0;
    chunks->state = TRAILER_LF;
    return 1;
  }
  if (++chunks->length > MAX_EXTRA || (c < 32 && c != '\t') || c == 127) return 0;
  if (!chunks->has_name && !http_is_token(&byte, 1)) {
    if (c != ':' || chunks->line_length == 0) return 0;
    chunks->has_name = 1;
  }
  chunks->line_length++;
  return 1;
}

size_t http_read_chunk(http_chunks *chunks, const char *bytes, size_t length, http_span *data, int *is_done) {
  *data = (http_span){bytes, 0};
  *is_done = 0;
  size_t i = 0;
  for (; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    switch (chunks->state) {
      case SIZE:
        if (!read_size(chunks, c)) goto bad;
        break;
      case EXTENSION:
        if (++chunks->length > MAX_EXTRA) goto bad;
        if (c == '\r') chunks->state = SIZE_LF;
        else if ((c < 32 && c != '\t') || c == 127) goto bad;
        break;
      case SIZE_LF:
        if (c != '\n') goto bad;
        chunks->state = chunks->left ? DATA : TRAILER;
        chunks->digits = 0;
        chunks->line_length = chunks->has_name = 0;
        break;
      case DATA: {
        size_t count = length - i < chunks->left ? length - i : (size_t)chunks->left;
        *data = (http_span){bytes + i, count};
        chunks->left -= count;
        if (chunks->left == 0) chunks->state = DATA_CR;
        return i + count;
      }
      case DATA_CR:
        if (c != '\r') goto bad;
        chunks->state = DATA_LF;
        break;
      case DATA_LF:
        if (c != '\n') goto bad;
        chunks->state = SIZE;
        break;
      case TRAILER:
        if (!read_trailer(chunks, c)) goto bad;
        break;
      case TRAILER_LF:
        if (c != '\n') goto bad;
        if (chunks->line_length == 0) {
          chunks->state = DONE;
          *is_done = 1;
          return i + 1;
        }
        chunks->line_length = chunks->has_name = 0;
        chunks->state = TRAILER;
        break;
      default: *is_done = 1; return i;
    }
  }
  return i;
bad:
  *is_done = -1;
  return i;
}
