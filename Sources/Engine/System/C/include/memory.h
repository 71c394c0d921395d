// Free memory that malloc holds.
#pragma once

#include <stdint.h>

/// Gives memory back to the system if malloc holds much free memory. Called by a thread that is about to sleep; works
/// at most once a second for the process. Returns the nanoseconds that the thread may sleep before the next call;
/// INT64_MAX for any time.
///
/// - now: By CLOCK_MONOTONIC, in nanoseconds.
int64_t linux_give_memory_back(int64_t now);
