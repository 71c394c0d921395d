// Clocks.
#pragma once

#include <stdint.h>
#include <time.h>

/// Returns the time of CLOCK_MONOTONIC in nanoseconds.
static inline int64_t linux_monotonic_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Returns the same time with a resolution of a few milliseconds, for a quarter of the cost.
static inline int64_t linux_monotonic_coarse(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Returns the nanoseconds for which the calling thread has waited for a processor since it began; -1 if the kernel
/// does not count that.
int64_t linux_run_delay(void);

/// Returns the time of CLOCK_REALTIME in seconds.
static inline double linux_wall_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/// Returns a descriptor that, once armed, becomes readable when CLOCK_REALTIME is set or the machine was suspended. -1
/// and errno on failure.
int linux_watch_wall_clock(void);
/// Arms the descriptor again: it is not readable until the next jump. -1 and errno on failure.
int linux_rearm_wall_clock(int fd);

/// Returns whether `linux_ticks` counts at a constant speed, equal on all cores. Returns 0 if the processor has no such
/// counter, or with RLHOST_TICKS=off in the environment.
int linux_ticks_are_steady(void);

/// Returns the processor's tick counter, at half the cost of the clock. Valid only if `linux_ticks_are_steady`.
static inline uint64_t linux_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}
