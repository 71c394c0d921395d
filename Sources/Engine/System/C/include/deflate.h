// Compression by the system's libz, which is loaded at its first use.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/// A stream of zlib, for WebSockets, HTTP responses and recordings. Not thread-safe.
typedef struct linux_deflate linux_deflate;

/// Makes a stream that compresses or decompresses, raw or with gzip's header and trailer. `window` is the base-2
/// logarithm of the window's size in bytes, from 9 to 15. Returns NULL without libz (see linux_has_zlib) or memory.
linux_deflate *linux_open_deflate(int compresses, int is_gzip, int window);
void linux_close_deflate(linux_deflate *stream);
/// Returns whether the system's libz can be loaded.
int linux_has_zlib(void);
/// Output of a stream, which the caller must free with `free`.
typedef struct linux_bytes {
  char *bytes;
  size_t length, capacity;
} linux_bytes;
/// Makes room for `count` more bytes. Returns 0 without memory.
static inline int linux_reserve(linux_bytes *to, size_t count) {
  if (to->capacity - to->length >= count) return 1;
  size_t capacity = to->capacity ? to->capacity : 1024;
  while (capacity - to->length < count) capacity *= 2;
  char *larger = realloc(to->bytes, capacity);
  if (!larger) return 0;
  to->bytes = larger;
  to->capacity = capacity;
  return 1;
}
/// Compresses or decompresses bytes and appends the output. Flushes the stream, so that a peer can decompress all bytes
/// so far. Decompressing fails if the output exceeds `max` bytes. Returns 1; 0 for bad data, -1 for too much output, -2
/// without memory.
int linux_step_deflate(linux_deflate *stream, const char *bytes, size_t length, int is_last, size_t max,
                       linux_bytes *to);
/// Resets the stream for the next message.
void linux_reset_deflate(linux_deflate *stream);

/// Removes the content codings of a body, and checks that the body is complete. Not thread-safe.
typedef struct linux_decoder linux_decoder;

/// Makes a decoder for a Content-Encoding: a list of at most four codings, each gzip or deflate, in the order in which
/// they were applied. Returns NULL for other codings, and without memory or libz.
linux_decoder *linux_open_decoder(const char *codings, size_t length);
void linux_close_decoder(linux_decoder *decoder);
/// Adds encoded bytes. The decoder copies them. Returns 0 without memory.
int linux_feed_decoder(linux_decoder *decoder, const char *bytes, size_t length);
/// Appends decoded bytes until `to` has `limit` bytes. Returns 2 if there may be more decoded bytes, 1 if not; 0 for
/// bad data, -2 without memory.
int linux_decode(linux_decoder *decoder, linux_bytes *to, size_t limit);
/// Returns whether the decoded data is complete. An empty body counts as complete.
int linux_decoder_is_whole(const linux_decoder *decoder);
