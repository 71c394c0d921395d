#define _GNU_SOURCE
#include "epoll.h"
#include "descriptors.h"
#include "ending.h"
#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

int linux_epoll_wait(int epoll, struct epoll_event *events, int count, int64_t timeout) {
  static atomic_bool missing;
  if (timeout == 0) return epoll_wait(epoll, events, count, 0);
  if (timeout < 0) return epoll_wait(epoll, events, count, -1);
  if (!atomic_load_explicit(&missing, memory_order_relaxed)) {
    struct timespec t = {.tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000};
    int n = (int)syscall(SYS_epoll_pwait2, epoll, events, count, &t, NULL, 0);
    if (n >= 0 || errno != ENOSYS) return n;
    atomic_store_explicit(&missing, 1, memory_order_relaxed);
  }
  int64_t milliseconds = timeout / 1000000 + (timeout % 1000000 != 0);
  return epoll_wait(epoll, events, count, milliseconds > INT32_MAX ? INT32_MAX : (int)milliseconds);
}

int linux_is_fork;

static atomic_int has_loops;

// Notes the fork only if there is a loop. If a process forks before it has a loop, as the test runner does, the child
// may make loops of its own.
static void note_fork(void) {
  linux_is_fork = has_loops;
  linux_is_first_thread = 1;  // the child has only this thread
}

// This is a constructor, since pthread_once makes a system call even if no thread waits.
__attribute__((constructor)) static void heed_forks(void) {
  linux_is_first_thread = 1;
  pthread_atfork(NULL, NULL, note_fork);
}

int linux_epoll_waking(int wake) {
  int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return -1;
  has_loops = 1;
  // The wake-up descriptor is edge-triggered, so that the loop need not read it: a wake-up takes one system call, the
  // write.
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX};
  if (epoll_ctl(fd, EPOLL_CTL_ADD, wake, &event) == 0) return fd;
  return linux_give_up(fd);
}

void linux_lose_loop(void) {
  static const char text[] =
      "run loop: its own descriptor is gone: close only descriptors that you have opened, "
      "or do so before the loop is used\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
  linux_end(1);
}

void linux_poll_all(int a, int b, int c, int64_t timeout) {
  struct pollfd all[3] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}, {.fd = c, .events = POLLIN}};
  struct timespec t = {.tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000};
  ppoll(all, 3, timeout < 0 ? NULL : &t, NULL);
}
