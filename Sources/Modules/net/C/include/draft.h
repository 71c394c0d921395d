// The draft of a thread: one small write that the C half of a module has prepared, for the stream that is called next.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { STREAM_DRAFT_SIZE = 1024 };

typedef struct {
  char *bytes;     ///< STREAM_DRAFT_SIZE bytes
  size_t *length;  ///< 0 if there is no draft
} stream_draft;

/// Returns the calling thread's draft, which exists as long as the thread.
stream_draft streams_draft(void);

/// A stream into whose buffer the C half of a module writes without calls of Lua.
typedef struct {
  void *stream;       ///< NULL if there is no outlet
  const void *owner;  ///< the stream's userdata, which has to be kept alive
  /// Returns memory for this number of bytes at the end of the stream's buffer; NULL if the stream takes no bytes.
  void *(*room)(void *stream, size_t count);
  /// Called when the bytes are in the memory that `room` has returned. Returns the number of unsent bytes.
  int64_t (*filled)(void *stream, size_t count);
} stream_outlet;

/// Returns the calling thread's outlet, which the hidden method `outlet` of streams sets. The method passes it from C
/// to C, because Lua must not get addresses.
stream_outlet *streams_outlet(void);
