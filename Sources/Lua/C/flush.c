// Writing out what files hold before the process ends.
#define _GNU_SOURCE
#include "private.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static void *flush_all(void *nothing) {
  fflush(NULL);
  return nothing;
}

// Writes out what files hold. One from which another thread reads at this moment is locked until something comes: it is not waited
// for, nor are those behind it for long.
void cl_flush_files(void) {
  if (ftrylockfile(stdout) == 0) {
    fflush_unlocked(stdout);
    funlockfile(stdout);
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t helper;
  int failure = pthread_create(&helper, NULL, flush_all, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure) return;
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_nsec += 200 * 1000 * 1000;
  if (limit.tv_nsec >= 1000 * 1000 * 1000) {
    limit.tv_nsec -= 1000 * 1000 * 1000;
    limit.tv_sec++;
  }
  pthread_timedjoin_np(helper, NULL, &limit);
}
