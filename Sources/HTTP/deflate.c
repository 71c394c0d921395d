// The system's libz, loaded at its first use: it is in every system, but no program that does not need it should load it.
#include <dlfcn.h>
#include <libraries.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "HTTP.h"

static struct {
  __typeof__(deflateInit2_) *deflateInit2_;
  __typeof__(deflate) *deflate;
  __typeof__(deflateReset) *deflateReset;
  __typeof__(deflateEnd) *deflateEnd;
  __typeof__(inflateInit2_) *inflateInit2_;
  __typeof__(inflate) *inflate;
  __typeof__(inflateReset) *inflateReset;
  __typeof__(inflateEnd) *inflateEnd;
} zlib;

static const char *find_functions(void *library) {
  int is_whole = (zlib.deflateInit2_ = dlsym(library, "deflateInit2_")) && (zlib.deflate = dlsym(library, "deflate")) &&
              (zlib.deflateReset = dlsym(library, "deflateReset")) && (zlib.deflateEnd = dlsym(library, "deflateEnd")) &&
              (zlib.inflateInit2_ = dlsym(library, "inflateInit2_")) && (zlib.inflate = dlsym(library, "inflate")) &&
              (zlib.inflateReset = dlsym(library, "inflateReset")) && (zlib.inflateEnd = dlsym(library, "inflateEnd"));
  return is_whole ? NULL : "is of no use";
}

int http_has_zlib(void) {
  static struct linux_library library = {"libz.so.1", "zlib1g", find_functions, 0};
  char problem[512];
  return linux_use_library(&library, problem, sizeof problem) == 0;
}

struct http_deflate {
  z_stream z;
  int compresses;
};

http_deflate *http_open_deflate(int compresses, int is_gzip, int window) {
  if (!http_has_zlib()) return NULL;
  http_deflate *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  stream->compresses = compresses;
  int bits = is_gzip ? window + 16 : -window;
  int status = compresses ? zlib.deflateInit2_(&stream->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY,
                                               ZLIB_VERSION, (int)sizeof(z_stream))
                          : zlib.inflateInit2_(&stream->z, bits, ZLIB_VERSION, (int)sizeof(z_stream));
  if (status == Z_OK) return stream;
  free(stream);
  return NULL;
}

void http_close_deflate(http_deflate *stream) {
  if (!stream) return;
  stream->compresses ? zlib.deflateEnd(&stream->z) : zlib.inflateEnd(&stream->z);
  free(stream);
}

void http_reset_deflate(http_deflate *stream) {
  stream->compresses ? zlib.deflateReset(&stream->z) : zlib.inflateReset(&stream->z);
}

int http_step_deflate(http_deflate *stream, const char *bytes, size_t length, int is_last, size_t max, http_bytes *to) {
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
    int status = stream->compresses ? zlib.deflate(z, is_last ? Z_FINISH : Z_SYNC_FLUSH) : zlib.inflate(z, Z_SYNC_FLUSH);
    to->length += room - z->avail_out;
    if (!stream->compresses && to->length > max) return -1;
    if (status == Z_STREAM_END) return 1;
    if (status != Z_OK && status != Z_BUF_ERROR) return 0;
    // With room left, everything that could be written has been.
    if (z->avail_out > 0) return 1;
  }
}
