// The system calls that bridges to the loops of libraries need.
#include <poll.h>
#include <sys/timerfd.h>

#include "CLuaCodecs.h"

int bridge_timer(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); }

void bridge_set_timer(int timer, int64_t date) {
  struct itimerspec when = {0};
  if (date != BRIDGE_NEVER) {
    // A date of 0 would disarm the timer.
    when.it_value.tv_sec = date / 1000000000;
    when.it_value.tv_nsec = date % 1000000000 | (date == 0);
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

int bridge_is_readable(int fd) {
  struct pollfd it = {.fd = fd, .events = POLLIN};
  return poll(&it, 1, 0) > 0;
}
