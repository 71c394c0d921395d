// Ends this process when its own code asks for it: `linux_end`, `linux_end_by`, `exit`. death.c handles signals that
// end the process.
#define _GNU_SOURCE
#include "ending.h"
#include "standard.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Acts ----------------------------------------------------------------------------------------------------------------

static void (*_Atomic acts[LINUX_LAST_ACTS])(void);
// The process that set the actions. A child that a C module has forked must not do these actions.
static _Atomic pid_t owner;

static void do_acts(void) {
  if (atomic_load_explicit(&owner, memory_order_seq_cst) != getpid()) return;
  for (int i = 0; i < LINUX_LAST_ACTS; i++) {
    void (*act)(void) = atomic_exchange_explicit(&acts[i], NULL, memory_order_seq_cst);
    if (act) act();
  }
}

// C code may call `exit`.
static void heed_exit(void) { atexit(do_acts); }

void linux_at_end(enum linux_last_act act, void (*function)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, heed_exit);
  atomic_store_explicit(&owner, getpid(), memory_order_seq_cst);
  atomic_store_explicit(&acts[act], function, memory_order_seq_cst);
}

// Files ---------------------------------------------------------------------------------------------------------------

static struct flusher {
  _Atomic pid_t thread;
  _Atomic int is_done;
} flusher;

static void *flush_all(void *nothing) {
  atomic_store_explicit(&flusher.thread, gettid(), memory_order_seq_cst);
  fflush(NULL);
  atomic_store_explicit(&flusher.is_done, 1, memory_order_seq_cst);
  return nothing;
}

// Returns whether the flushing thread waits for the lock of a file, rather than in a slow write.
static int waits_for_lock(void) {
  char path[64], text[32] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)flusher.thread);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  // Without /proc, assume that the thread waits for a lock: that is more likely than a write that takes this long.
  if (fd < 0) return 1;
  ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  return count > 0 && text[0] != 'r' && atoi(text) == SYS_futex;
}

static struct timespec in_milliseconds(long milliseconds) {
  struct timespec date;
  clock_gettime(CLOCK_REALTIME, &date);
  date.tv_nsec += milliseconds * 1000000;
  date.tv_sec += date.tv_nsec / 1000000000;
  date.tv_nsec %= 1000000000;
  return date;
}

// Flushes all files except the standard streams. Skips a file from which another thread is reading: that thread holds
// the file's lock while it waits, and the file has nothing to write.
static void flush_files(void) {
  // Flushing stdin moves the descriptor's position back to the first byte that was not used.
  if (ftrylockfile(stdin) == 0) {
    fflush_unlocked(stdin);
    funlockfile(stdin);
  }
  if (__libc_single_threaded) {
    fflush(NULL);
    return;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int failure = pthread_create(&thread, NULL, flush_all, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure) return;
  struct timespec date = in_milliseconds(200);
  while (pthread_timedjoin_np(thread, NULL, &date) != 0 &&
         !atomic_load_explicit(&flusher.is_done, memory_order_seq_cst)) {
    if (waits_for_lock()) return;
    date = in_milliseconds(200);
  }
}

// The end -------------------------------------------------------------------------------------------------------------

// Begins the end of the process. If the process is ending already, on another thread or in a call further up on this
// thread's stack, does not return. Returns the status, which shows whether output was lost.
static int begin(int status) {
  static atomic_flag has_begun = ATOMIC_FLAG_INIT;
  static _Thread_local int is_ours;
  if (is_ours) _exit(status);
  while (atomic_flag_test_and_set(&has_begun)) pause();
  is_ours = 1;
  do_acts();
  status = linux_settle_standard_streams(status);
  flush_files();
  return status;
}

void linux_end(int status) { _exit(begin(status)); }

void linux_end_by(int number) {
  begin(128 + number);
  signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  _exit(128 + number);
}
