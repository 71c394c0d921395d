// Jumps of the wall clock, and the processor's tick counter.
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#else  // no counter: the recorder reads the clock
#endif

int linux_watch_wall_clock(void) { return timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK); }

// A jump of the clock cancels only an armed timer. So arm the timer for a date that never comes, in the year 2242.
int linux_rearm_wall_clock(int fd) {
  struct itimerspec never = {.it_value = {.tv_sec = 0x1ffffffff}};
  int result;
  // ECANCELED: the clock was set during the call. Try again: the caller reads the clock after this call, and so notices
  // the change.
  do result = timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
  while (result < 0 && errno == ECANCELED);
  return result;
}

int64_t linux_run_delay(void) {
  const int saved = errno;
  char text[96];
  long long delay = -1;
  int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    text[count > 0 ? count : 0] = 0;
    if (sscanf(text, "%*u %lld", &delay) != 1) delay = -1;
  }
  errno = saved;
  return delay;
}

int linux_ticks_are_steady(void) {
  const char *wish = getenv("RLHOST_TICKS");
  if (wish && strcmp(wish, "off") == 0) return 0;
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#else
  return 0;
#endif
}
