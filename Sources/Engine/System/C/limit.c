// The time that a test takes, independent of other load on the machine.
#define _GNU_SOURCE
#include "worker.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  int64_t real, process, main, delayed, rested;
} moment;

// Nanoseconds. Only the main thread writes.
static _Atomic int64_t rested, rests_since;
static moment began;

static int64_t clock_of(clockid_t clock) {
  struct timespec now;
  return clock_gettime(clock, &now) ? 0 : (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Returns the nanoseconds that the calling thread has waited for a processor; 0 if the kernel does not count that.
static int64_t delay(void) {
  char text[128];
  int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  text[count > 0 ? count : 0] = 0;
  const char *at = text;
  while (*at && *at != ' ') at++;
  int64_t value = 0;
  while (*at == ' ') at++;
  while (*at >= '0' && *at <= '9') value = value * 10 + (*at++ - '0');
  return value;
}

static moment now(void) {
  moment it = {clock_of(CLOCK_MONOTONIC), clock_of(CLOCK_PROCESS_CPUTIME_ID), clock_of(CLOCK_THREAD_CPUTIME_ID),
               delay(), rested};
  int64_t since = rests_since;
  if (since) it.rested += it.real - since;
  return it;
}

void linux_begin_count(void) { began = now(); }

double linux_seconds_taken(void) {
  moment it = now();
  int64_t waited =
      it.real - began.real - (it.main - began.main) - (it.delayed - began.delayed) - (it.rested - began.rested);
  return (double)(it.process - began.process + (waited > 0 ? waited : 0)) / 1e9;
}

void linux_count_rest(int begins) {
  int64_t real = clock_of(CLOCK_MONOTONIC), since = rests_since;
  // Keep this order: a signal handler that runs between the two lines then counts some rest twice, which only shortens
  // the measured time.
  if (!begins && since) rested += real - since;
  rests_since = begins ? real : 0;
}
