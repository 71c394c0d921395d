// Calls with which a loop sleeps and asks what is ready.
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/// epoll_pwait2 with a timeout in nanoseconds; negative for no limit. Kernels before 5.11 lack it; the timeout then is
/// in whole milliseconds, rounded up so that no wait ends early.
int linux_epoll_wait(int epoll, struct epoll_event *events, int count, int64_t timeout);

/// Returns an epoll instance that contains a wake-up descriptor, with all ones as its token. -1 and errno on failure.
int linux_epoll_waking(int wake);

/// Whether this process is a child that C code has forked. In such a child, the loops and their descriptors belong to
/// the parent.
extern int linux_is_fork;
static inline int linux_has_forked(void) { return linux_is_fork; }

/// epoll_ctl(2). Does nothing in a child that C code has forked: it would change the parent's epoll instance.
static inline int linux_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  return linux_is_fork ? 0 : epoll_ctl(epoll, operation, fd, event);
}

/// Reports that a loop's own descriptors were closed, and ends the process with status 1.
_Noreturn void linux_lose_loop(void);

/// Waits until one of three descriptors is readable, at most `timeout` nanoseconds; negative for no limit. A descriptor
/// of -1 is ignored.
void linux_poll_all(int a, int b, int c, int64_t timeout);

/// Returns the present result of poll(2) for one descriptor: POLLIN, POLLOUT, POLLHUP, POLLERR, POLLRDHUP, POLLNVAL, or
/// 0.
static inline short linux_poll_now(int fd, short events) {
  struct pollfd p = {.fd = fd, .events = events};
  int n;
  do n = poll(&p, 1, 0);
  while (n < 0 && errno == EINTR);
  return n > 0 ? p.revents : 0;
}

typedef struct {
  short first, second;
} linux_two_answers;

/// Returns the present results of poll(2) for two descriptors, with one system call.
static inline linux_two_answers linux_poll_two_now(int first, short first_events, int second, short second_events) {
  struct pollfd p[] = {{.fd = first, .events = first_events}, {.fd = second, .events = second_events}};
  int n;
  do n = poll(p, 2, 0);
  while (n < 0 && errno == EINTR);
  return n > 0 ? (linux_two_answers){p[0].revents, p[1].revents} : (linux_two_answers){0, 0};
}

/// Prefetches the memory at `offset` bytes from an address, which need not be valid.
static inline void linux_prefetch(const void *address, int offset) {
  __builtin_prefetch((const char *)address + offset);
}
