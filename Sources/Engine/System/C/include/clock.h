// What time it is.
#pragma once

#include <stdint.h>
#include <time.h>

/// Nanoseconds of CLOCK_MONOTONIC.
static inline int64_t linux_monotonic_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// The same with a resolution of a few milliseconds, for a quarter of the price.
static inline int64_t linux_monotonic_coarse(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Nanoseconds in which the calling thread was ready to run and had to wait for a processor, since it began. -1: the kernel does not say.
int64_t linux_run_delay(void);

/// Seconds of CLOCK_REALTIME.
static inline double linux_wall_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/// A descriptor that becomes readable when CLOCK_REALTIME is set, or the machine has slept, once it is armed. -1 and errno: there
/// is none.
int linux_watch_wall_clock(void);
/// Arms it, again: it is not readable until the next time. -1 and errno.
int linux_rearm_wall_clock(int fd);

/// Whether `linux_ticks` counts at one speed, on all cores alike, whatever the processor does.
int linux_ticks_are_steady(void);

/// The processor's own count, for half of what a look at the clock costs; only where `linux_ticks_are_steady`.
static inline uint64_t linux_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}
