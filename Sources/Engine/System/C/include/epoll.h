// How a loop sleeps, and asks what is ready.
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/// epoll_pwait2 with a timeout in nanoseconds, negative for none. Kernels before 5.11 lack it: there, whole
/// milliseconds, rounded up, so that nothing ends early.
int linux_epoll_wait(int epoll, struct epoll_event *events, int count, int64_t timeout);

/// An epoll instance with a wake-up descriptor in it, under the token of all ones. -1 and errno: there is none.
int linux_epoll_waking(int wake);

/// Whether this process is a child that C code has forked, and not the one whose loops these are: what they wait by is the parent's.
extern int linux_is_fork;
static inline int linux_has_forked(void) { return linux_is_fork; }

/// epoll_ctl(2), which in such a child would take the parent's descriptors away: there it does nothing.
static inline int linux_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  return linux_is_fork ? 0 : epoll_ctl(epoll, operation, fd, event);
}

/// Says that a loop's own descriptors are gone, and ends the process with status 1.
_Noreturn void linux_lose_loop(void);

/// Waits until one of two descriptors is readable, at most so many nanoseconds; negative: without limit.
void linux_poll_all(int a, int b, int c, int64_t timeout);

/// What poll(2) says of one descriptor right now: POLLIN, POLLOUT, POLLHUP, POLLERR, POLLRDHUP, POLLNVAL; 0 for nothing.
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

/// The same of two at once.
static inline linux_two_answers linux_poll_two_now(int first, short first_events, int second, short second_events) {
  struct pollfd p[] = {{.fd = first, .events = first_events}, {.fd = second, .events = second_events}};
  int n;
  do n = poll(p, 2, 0);
  while (n < 0 && errno == EINTR);
  return n > 0 ? (linux_two_answers){p[0].revents, p[1].revents} : (linux_two_answers){0, 0};
}

/// Lets the processor fetch what is `offset` bytes from an address, which need not exist.
static inline void linux_prefetch(const void *address, int offset) { __builtin_prefetch((const char *)address + offset); }
