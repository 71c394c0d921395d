// Compression by the system's libz, which is loaded at its first use.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/// A stream of zlib, for WebSockets, HTTP responses and recordings. Not for several threads at once.
typedef struct linux_deflate linux_deflate;

/// Makes one that compresses or decompresses, raw or with gzip's head and tail. `window` is the base-2 logarithm of its memory, 9 to
/// 15. NULL when libz is not installed, or memory is out; see linux_has_zlib.
linux_deflate *linux_open_deflate(int compresses, int is_gzip, int window);
void linux_close_deflate(linux_deflate *stream);
/// Whether the system's libz can be loaded.
int linux_has_zlib(void);
/// What a step has made: bytes that the caller frees with `free`.
typedef struct linux_bytes {
  char *bytes;
  size_t length, capacity;
} linux_bytes;
/// Room for `count` more. Returns whether there was memory for it.
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
/// Appends what becomes of these bytes, all of it that a peer needs to go on. Decompressing ends with more than `max` bytes.
/// Returns 1; 0 for bad data; -1 if there is too much of it, -2 when memory is out.
int linux_step_deflate(linux_deflate *stream, const char *bytes, size_t length, int is_last, size_t max, linux_bytes *to);
/// Forgets what came before, for the next message.
void linux_reset_deflate(linux_deflate *stream);

/// Takes the encodings of a body off, and knows whether it has come to its end. Not for several threads at once.
typedef struct linux_decoder linux_decoder;

/// One for what Content-Encoding says: at most four of gzip and deflate, the last of which was put on last. NULL for others, or when memory
/// or libz is not there.
linux_decoder *linux_open_decoder(const char *codings, size_t length);
void linux_close_decoder(linux_decoder *decoder);
/// Gives it bytes, which it keeps until they are decoded. 0: memory is out.
int linux_feed_decoder(linux_decoder *decoder, const char *bytes, size_t length);
/// Appends what becomes of them until `to` has `limit` bytes: 2 if there is or may be more then, 1 if not. 0 for bad data, -2 when memory is out.
int linux_decode(linux_decoder *decoder, linux_bytes *to, size_t limit);
/// Whether nothing is missing behind what was decoded. What had no bytes at all is whole.
int linux_decoder_is_whole(const linux_decoder *decoder);
