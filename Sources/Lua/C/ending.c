// How a signal ends the process, at once or later. All functions are safe in a signal handler.
#define _GNU_SOURCE
#include "private.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static void (*last_words)(void);
static void (*end_process)(int status);

void cl_set_ends(void (*words)(void), void (*end)(int status)) {
  last_words = words;
  end_process = end;
}

void cl_end(int status) {
  if (end_process) end_process(status);
  _exit(status);
}

void cl_end_by(int number) {
  if (last_words) last_words();
  signal(number, SIG_DFL);
  raise(number);
  // The kernel does not end process 1 by a default action.
  if (getpid() == 1) _exit(128 + number);
}

void cl_wake_in_milliseconds(int milliseconds) {
  static timer_t timer;
  static int is_made;
  if (!is_made) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGTERM};
    event._sigev_un._tid = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return;
    is_made = 1;
  }
  struct itimerspec time = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000000L}};
  timer_settime(timer, 0, &time, NULL);
}

void cl_wake_in(int seconds) { cl_wake_in_milliseconds(seconds * 1000); }
