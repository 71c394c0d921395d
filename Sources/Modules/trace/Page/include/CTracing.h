// The page that shows a recording: one HTML file without data. A writer of recordings appends chunks to it.
#pragma once

#include <stddef.h>

/// Returns the page's bytes, and sets their number.
const char *tracing_page(size_t *length);
