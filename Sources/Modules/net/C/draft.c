#include "draft.h"

static _Thread_local char bytes[STREAM_DRAFT_SIZE];
static _Thread_local size_t length;

static _Thread_local stream_outlet outlet;

stream_draft streams_draft(void) { return (stream_draft){bytes, &length}; }
stream_outlet *streams_outlet(void) { return &outlet; }
