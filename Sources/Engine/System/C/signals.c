#define _GNU_SOURCE
#include "signals.h"
#include "clock.h"
#include "death.h"
#include "first_process.h"
#include "terminal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

int linux_watch_signals(int quits) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  if (quits) sigaddset(&set, SIGQUIT);
  sigprocmask(SIG_BLOCK, &set, NULL);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int linux_take_watched_signal(int fd) {
  struct signalfd_siginfo info;
  return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

// Listeners -----------------------------------------------------------------------------------------------------------

enum { LISTENERS = 256 };

// The listeners. The signal handler reads this table; changes need the lock. An entry is free while its number is 0.
static struct listener {
  _Atomic int number, fd, hears;
  _Atomic int is_waiting;  // a signal has come that `linux_take_signal` has not taken yet
  _Atomic int64_t came;    // the time at which it came, in nanoseconds
} listeners[LISTENERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before[NSIG];
static int hearing[NSIG];
// The number of running handlers. A descriptor is closed only while no handler runs, since a handler might write to it.
static atomic_int running;

static void pass_on(int number, siginfo_t *info, void *context) {
  const struct sigaction *old = &before[number];
  if (old->sa_flags & SA_SIGINFO) {
    old->sa_sigaction(number, info, context);
  } else if (old->sa_handler == SIG_DFL) {
    if (number != SIGTSTP && number != SIGCONT) linux_do_last_acts();
    // The signal is blocked until this handler returns, and then ends the process.
    linux_raise_default(number);
  } else if (old->sa_handler != SIG_IGN) {
    old->sa_handler(number);
  }
}

static void on_signal(int number, siginfo_t *info, void *context) {
  const int saved = errno;
  atomic_fetch_add_explicit(&running, 1, memory_order_seq_cst);
  const int64_t time = linux_monotonic_now();
  const int ends = number == SIGINT || number == SIGTERM || number == SIGQUIT;
  int is_heard = 0, is_stuck = 0;
  if (number == SIGCONT) linux_take_terminals_up();
  if (number == SIGCHLD) linux_note_child_end();
  for (int i = 0; i < LISTENERS; i++) {
    struct listener *listener = &listeners[i];
    if (atomic_load_explicit(&listener->number, memory_order_seq_cst) != number ||
        !atomic_load_explicit(&listener->hears, memory_order_seq_cst))
      continue;
    is_heard = 1;
    if (atomic_exchange_explicit(&listener->is_waiting, 1, memory_order_seq_cst) &&
        time - atomic_load_explicit(&listener->came, memory_order_seq_cst) < 1000000000LL)
      is_stuck = ends;
    atomic_store_explicit(&listener->came, time, memory_order_seq_cst);
    const uint64_t one = 1;
    (void)!write(atomic_load_explicit(&listener->fd, memory_order_seq_cst), &one, sizeof one);
  }
  if (!is_heard || is_stuck) pass_on(number, info, context);
  atomic_fetch_sub_explicit(&running, 1, memory_order_seq_cst);
  errno = saved;
}

static struct listener *find(int fd) {
  for (int i = 0; i < LISTENERS; i++)
    if (listeners[i].number && listeners[i].fd == fd) return &listeners[i];
  return NULL;
}

int linux_open_signal(int number) {
  if (number < 1 || number >= NSIG || number == SIGKILL || number == SIGSTOP) {
    errno = EINVAL;
    return -1;
  }
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return -1;
  pthread_mutex_lock(&lock);
  struct listener *free_one = NULL;
  for (int i = 0; i < LISTENERS && !free_one; i++)
    if (!listeners[i].number) free_one = &listeners[i];
  if (free_one) {
    free_one->fd = fd;
    free_one->hears = 0;
    free_one->is_waiting = 0;
    free_one->number = number;
  }
  pthread_mutex_unlock(&lock);
  if (free_one) return fd;
  close(fd);
  errno = ENOSPC;
  return -1;
}

static void hear(struct listener *listener, int hears) {
  const int number = listener->number;
  if (listener->hears == hears) return;
  listener->hears = hears;
  if (hears && hearing[number]++ == 0) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, &before[number]);
  } else if (!hears && --hearing[number] == 0) {
    sigaction(number, &before[number], NULL);
    linux_guard_signal_again(number);
  }
}

void linux_hear_signal(int fd, int hears) {
  pthread_mutex_lock(&lock);
  struct listener *listener = find(fd);
  if (listener) hear(listener, !!hears);
  pthread_mutex_unlock(&lock);
}

uint64_t linux_take_signal(int fd) {
  uint64_t count = 0;
  pthread_mutex_lock(&lock);
  struct listener *listener = find(fd);
  if (listener) listener->is_waiting = 0;
  pthread_mutex_unlock(&lock);
  return listener && read(fd, &count, sizeof count) == sizeof count ? count : 0;
}

void linux_close_signal(int fd) {
  pthread_mutex_lock(&lock);
  struct listener *listener = find(fd);
  if (listener) {
    hear(listener, 0);
    listener->number = 0;
  }
  pthread_mutex_unlock(&lock);
  while (atomic_load_explicit(&running, memory_order_seq_cst)) sched_yield();
  if (listener) close(fd);
}
