#define _GNU_SOURCE
#include "first_process.h"
#include "death.h"
#include "ending.h"
#include "threads.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

int linux_main_thread;

static sem_t child_ended;
static int (*main_body)(void);

void linux_note_child_end(void) {
  if (linux_main_thread) sem_post(&child_ended);
}

static void on_child(int number) {
  (void)number;
  const int saved = errno;
  linux_note_child_end();
  errno = saved;
}

static void *run_body(void *nothing) {
  linux_main_thread = linux_thread_number();
  linux_end(main_body());
  return nothing;
}

// Starts the thread with a stack as large as that of the first thread, on which the body would have run.
static int begin_body(void) {
  pthread_attr_t attributes;
  struct rlimit limit;
  const size_t usual = 8 << 20;
  if (pthread_attr_init(&attributes) != 0) return 0;
  const int is_known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  pthread_attr_setstacksize(&attributes, is_known && limit.rlim_cur > usual ? (size_t)limit.rlim_cur : usual);
  pthread_t thread;
  const int failure = pthread_create(&thread, &attributes, run_body, NULL);
  pthread_attr_destroy(&attributes);
  return !failure;
}

// The kernel makes this thread the parent of all orphans. The thread starts no processes, so that all its children are
// orphans.
_Noreturn static void reap_orphans(void) {
  for (;;) {
    while (waitpid(-1, NULL, WNOHANG | __WNOTHREAD | __WALL) > 0) {}
    // Check at least every 10 s, since a C module may have replaced the handler of SIGCHLD.
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 10;
    sem_timedwait(&child_ended, &limit);
  }
}

void linux_run_main(int (*body)(void)) {
  if (getpid() != 1) linux_end(body());
  sem_init(&child_ended, 0, 0);
  main_body = body;
  static const int ends[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) linux_guard_end(ends[i]);
  struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
  sigemptyset(&action.sa_mask);
  sigaction(SIGCHLD, &action, NULL);
  if (!begin_body()) linux_end(body());
  // All other signals go to the second thread.
  sigset_t others;
  sigfillset(&others);
  sigdelset(&others, SIGCHLD);
  pthread_sigmask(SIG_SETMASK, &others, NULL);
  reap_orphans();
}
