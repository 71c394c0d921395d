// Memory that malloc holds and nobody uses.
#pragma once

#include <stdint.h>

/// Gives memory back to the system if malloc holds much that is free; for a thread that is about to sleep. At most once a second for
/// the process. Returns for how many nanoseconds the thread may sleep before it asks again; INT64_MAX: as long as it likes.
///
/// - now: by CLOCK_MONOTONIC.
int64_t linux_give_memory_back(int64_t now);
