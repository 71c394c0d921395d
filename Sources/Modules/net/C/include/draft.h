// The draft of a thread: one small write that the C half of a module has prepared, for the stream that is called next.
#pragma once

#include <stddef.h>

enum { STREAM_DRAFT_SIZE = 1024 };

typedef struct {
  char *bytes;     ///< STREAM_DRAFT_SIZE bytes
  size_t *length;  ///< 0 if there is no draft
} stream_draft;

/// Returns the calling thread's draft, which exists as long as the thread.
stream_draft streams_draft(void);
