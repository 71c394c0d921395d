// Loaded before the C library: a wall clock that jumps. JUMP="3600:0.2" puts it forward by 3600 seconds, 0.2 seconds
// after the process has asked for notice of jumps.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

static double jump, delay, when;

static double monotonic(void) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  struct timespec t;
  real(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, t);
  if (clock == CLOCK_REALTIME && when > 0 && monotonic() >= when) t->tv_sec += (time_t)jump;
  return result;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old) {
  static int (*real)(int, int, const struct itimerspec *, struct itimerspec *);
  if (!real)
    real = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timerfd_settime");
  const char *wanted = getenv("JUMP");
  if (!(flags & TFD_TIMER_CANCEL_ON_SET) || !wanted || when > 0) return real(fd, flags, value, old);
  char *rest;
  jump = strtod(wanted, &rest);
  delay = strtod(rest + 1, NULL);
  when = monotonic() + delay;
  struct itimerspec soon = {
      .it_value = {.tv_sec = (time_t)delay, .tv_nsec = (long)((delay - (double)(time_t)delay) * 1e9)}};
  return real(fd, 0, &soon, old);
}
