#include "draft.h"

static _Thread_local char bytes[STREAM_DRAFT_SIZE];
static _Thread_local size_t length;

stream_draft streams_draft(void) { return (stream_draft){bytes, &length}; }
