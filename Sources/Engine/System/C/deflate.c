// Uses the system's libz, which is loaded at its first use. Every system has libz, but scripts that do not need it
// should not spend time on loading it.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "deflate.h"
#include "libraries.h"

// clang-format off
#define FUNCTIONS(X) \
  X(deflateInit2_) X(deflate) X(deflateReset) X(deflateEnd) X(inflateInit2_) X(inflate) X(inflateReset) X(inflateEnd)
// clang-format on
static struct {
#define DECLARE(name) __typeof__(name) *name;
  FUNCTIONS(DECLARE)
} zlib;

static const char *find_functions(void *library) {
#define FIND(name) \
  if (!(zlib.name = dlsym(library, #name))) return "lacks a function";
  FUNCTIONS(FIND)
  return NULL;
}

int linux_has_zlib(void) {
  static struct linux_library library = {"libz.so.1", "zlib1g", find_functions, 0};
  char problem[512];
  return linux_use_library(&library, problem, sizeof problem) == 0;
}

struct linux_deflate {
  z_stream z;
  int compresses;
};

linux_deflate *linux_open_deflate(int compresses, int is_gzip, int window) {
  if (!linux_has_zlib()) return NULL;
  linux_deflate *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  stream->compresses = compresses;
  int bits = is_gzip ? window + 16 : -window;
  const int size = (int)sizeof(z_stream);
  int status = compresses ? zlib.deflateInit2_(&stream->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, 8,
                                               Z_DEFAULT_STRATEGY, ZLIB_VERSION, size)
                          : zlib.inflateInit2_(&stream->z, bits, ZLIB_VERSION, size);
  if (status == Z_OK) return stream;
  free(stream);
  return NULL;
}

void linux_close_deflate(linux_deflate *stream) {
  if (!stream) return;
  stream->compresses ? zlib.deflateEnd(&stream->z) : zlib.inflateEnd(&stream->z);
  free(stream);
}

void linux_reset_deflate(linux_deflate *stream) {
  stream->compresses ? zlib.deflateReset(&stream->z) : zlib.inflateReset(&stream->z);
}

int linux_step_deflate(linux_deflate *stream, const char *bytes, size_t length, int is_last, size_t max,
                       linux_bytes *to) {
  z_stream *z = &stream->z;
  z->next_in = (Bytef *)bytes;
  z->avail_in = (uInt)length;
  for (;;) {
    if (to->capacity - to->length < 256) {
      size_t capacity = to->capacity ? to->capacity * 2 : length < 2048 ? 4096 : length * 2;
      char *larger = realloc(to->bytes, capacity);
      if (!larger) return -2;
      to->bytes = larger;
      to->capacity = capacity;
    }
    z->next_out = (Bytef *)to->bytes + to->length;
    z->avail_out = (uInt)(to->capacity - to->length);
    uInt room = z->avail_out;
    const int flush = stream->compresses && is_last ? Z_FINISH : Z_SYNC_FLUSH;
    int status = stream->compresses ? zlib.deflate(z, flush) : zlib.inflate(z, flush);
    to->length += room - z->avail_out;
    if (!stream->compresses && to->length > max) return -1;
    if (status == Z_STREAM_END) return 1;
    if (status != Z_OK && status != Z_BUF_ERROR) return 0;
    // If there is room left, zlib has written everything that it can.
    if (z->avail_out > 0) return 1;
  }
}

// Encoded bodies ------------------------------------------------------------------------------------------------------

enum { MOST = 4 };

struct stage {
  z_stream z;
  int is_gzip, is_open, has_ended, is_full;  // is_full: zlib may produce more output without further input
  char input[16384];                         // output of the previous stage
};

struct linux_decoder {
  int count, was_fed;
  linux_bytes pending;
  size_t taken;  // the part of `pending` that was read
  struct stage stages[];
};

static int is_name(const char *start, size_t length, const char *name) {
  return length == strlen(name) && strncasecmp(start, name, length) == 0;
}

linux_decoder *linux_open_decoder(const char *codings, size_t length) {
  int kinds[MOST], count = 0;
  const char *end = codings + length;
  while (codings < end) {
    const char *comma = memchr(codings, ',', (size_t)(end - codings)), *last = comma ? comma : end;
    const char *start = codings;
    codings = comma ? comma + 1 : end;
    while (start < last && (*start == ' ' || *start == '\t')) start++;
    while (start < last && (last[-1] == ' ' || last[-1] == '\t')) last--;
    size_t size = (size_t)(last - start);
    if (size == 0 || is_name(start, size, "identity")) continue;
    int is_gzip = is_name(start, size, "gzip") || is_name(start, size, "x-gzip");
    if (count == MOST || (!is_gzip && !is_name(start, size, "deflate"))) return NULL;
    kinds[count++] = is_gzip;
  }
  if (!linux_has_zlib()) return NULL;
  linux_decoder *decoder = calloc(1, sizeof *decoder + (size_t)count * sizeof *decoder->stages);
  if (!decoder) return NULL;
  decoder->count = count;
  for (int i = 0; i < count; i++) decoder->stages[i].is_gzip = kinds[count - 1 - i];
  return decoder;
}

void linux_close_decoder(linux_decoder *decoder) {
  if (!decoder) return;
  for (int i = 0; i < decoder->count; i++)
    if (decoder->stages[i].is_open) zlib.inflateEnd(&decoder->stages[i].z);
  free(decoder->pending.bytes);
  free(decoder);
}

static int reserve(linux_bytes *bytes, size_t room) {
  if (bytes->capacity - bytes->length >= room) return 1;
  size_t capacity = bytes->capacity * 2 > bytes->length + room ? bytes->capacity * 2 : bytes->length + room;
  char *larger = realloc(bytes->bytes, capacity);
  if (!larger) return 0;
  bytes->bytes = larger;
  bytes->capacity = capacity;
  return 1;
}

int linux_feed_decoder(linux_decoder *decoder, const char *bytes, size_t length) {
  linux_bytes *pending = &decoder->pending;
  if (decoder->taken == pending->length) decoder->taken = pending->length = 0;
  if (!reserve(pending, length)) return 0;
  memcpy(pending->bytes + pending->length, bytes, length);
  pending->length += length;
  if (length) decoder->was_fed = 1;
  return 1;
}

// Gets the next output of a stage; stage -1 is the input. Returns the output's length; 0 if more input is needed, -1
// for bad data, -2 without memory.
static ptrdiff_t pull(linux_decoder *decoder, int number, char *to, size_t room) {
  if (number < 0) {
    size_t count = decoder->pending.length - decoder->taken;
    if (count > room) count = room;
    if (count) memcpy(to, decoder->pending.bytes + decoder->taken, count);
    decoder->taken += count;
    return (ptrdiff_t)count;
  }
  struct stage *stage = &decoder->stages[number];
  z_stream *z = &stage->z;
  for (;;) {
    if (z->avail_in == 0 && !stage->is_full) {
      ptrdiff_t count = pull(decoder, number - 1, stage->input, sizeof stage->input);
      if (count <= 0) return count;
      z->next_in = (Bytef *)stage->input;
      z->avail_in = (uInt)count;
    }
    if (stage->has_ended) {
      // Another gzip member may follow. Ignore other bytes after the end.
      if (!stage->is_gzip || *z->next_in != 0x1f) {
        z->avail_in = 0;
        continue;
      }
      zlib.inflateReset(z);
      stage->has_ended = 0;
    }
    if (!stage->is_open) {
      // Some senders omit zlib's header with "deflate".
      int bits = stage->is_gzip ? 15 + 16 : (*z->next_in & 15) == 8 ? 15 : -15;
      if (zlib.inflateInit2_(z, bits, ZLIB_VERSION, (int)sizeof *z) != Z_OK) return -2;
      stage->is_open = 1;
    }
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)room;
    int status = zlib.inflate(z, Z_NO_FLUSH);
    size_t made = room - z->avail_out;
    stage->is_full = z->avail_out == 0 && status != Z_STREAM_END;
    if (status == Z_MEM_ERROR) return -2;
    if (status == Z_STREAM_END) stage->has_ended = 1;
    else if (status != Z_OK && (status != Z_BUF_ERROR || (z->avail_in > 0 && made == 0))) return -1;
    if (made > 0) return (ptrdiff_t)made;
  }
}

int linux_decode(linux_decoder *decoder, linux_bytes *to, size_t limit) {
  while (to->length < limit) {
    size_t room = limit - to->length < 16384 ? limit - to->length : 16384;
    if (!reserve(to, room)) return -2;
    ptrdiff_t count = pull(decoder, decoder->count - 1, to->bytes + to->length, room);
    if (count <= 0) return count == 0 ? 1 : count == -1 ? 0 : -2;
    to->length += (size_t)count;
  }
  return 2;
}

int linux_decoder_is_whole(const linux_decoder *decoder) {
  for (int i = 0; i < decoder->count; i++)
    if (!decoder->stages[i].has_ended) return !decoder->was_fed;
  return 1;
}
