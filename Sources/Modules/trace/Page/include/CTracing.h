// The page that shows a recording, as it is in the sources: one HTML file without data. What writes a recording appends chunks to it.
#pragma once

#include <stddef.h>

/// The page's bytes, and how many.
const char *tracing_page(size_t *length);
