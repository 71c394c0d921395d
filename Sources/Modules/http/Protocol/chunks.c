// Chunked bodies, by the letter of RFC 9112: what is lax about their ends hides requests in bodies.
#include <string.h>

#include "HTTP.h"

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF, DONE };

/// Bytes of extensions and trailers that a body may have; they are not used.
enum { MAX_EXTRA = 16384 };

size_t http_read_chunk(http_chunks *chunks, const char *bytes, size_t length, http_span *data, int *is_done) {
  *data = (http_span){bytes, 0};
  *is_done = 0;
  size_t i = 0;
  for (; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    switch (chunks->state) {
      case SIZE: {
        int value = http_digit(c);
        if (value >= 0) {
          if (++chunks->digits > 15) goto bad;
          chunks->left = chunks->left << 4 | (uint64_t)value;
        } else if (chunks->digits == 0) {
          goto bad;
        } else if (c == '\r') {
          chunks->state = SIZE_LF;
        } else if (c == ';') {
          chunks->state = EXTENSION;
        } else {
          goto bad;
        }
        break;
      }
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
        // A field as in heads: what is none would be something else for others.
        if (c == '\r') {
          if (chunks->line_length && !chunks->has_name) goto bad;
          chunks->state = TRAILER_LF;
          break;
        }
        if (++chunks->length > MAX_EXTRA || (c < 32 && c != '\t') || c == 127) goto bad;
        if (!chunks->has_name && !http_is_token(bytes + i, 1)) {
          if (c != ':' || chunks->line_length == 0) goto bad;
          chunks->has_name = 1;
        }
        chunks->line_length++;
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
