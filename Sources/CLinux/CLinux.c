#define _GNU_SOURCE
#include "CLinux.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/signalfd.h>

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

void linux_write_all(int fd, const void *bytes, size_t length) {
  const char *p = bytes;
  while (length > 0) {
    ssize_t n = write(fd, p, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {  // somebody made it non-blocking: nothing is lost for that
      struct pollfd ready = {.fd = fd, .events = POLLOUT};
      poll(&ready, 1, -1);
      continue;
    }
    if (n < 0) return;
    p += n;
    length -= (size_t)n;
  }
}

void linux_lose_loop(void) {
  static const char text[] =
      "run loop: its own descriptor is gone: close only descriptors that you have opened, or do so before the loop is used\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
  exit(1);
}

void linux_keep_standard_descriptors(void) {
  // From the lowest on: `open` takes the first number that is free.
  for (int fd = 0; fd <= 2; fd++)
    if (!linux_is_open(fd)) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

int linux_epoll_waking(int wake) {
  int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return -1;
  // Edge-triggered, so that nobody ever has to read it: each wake-up is one system call, the writer's.
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX};
  if (epoll_ctl(fd, EPOLL_CTL_ADD, wake, &event) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

void linux_print(int fd, const void *bytes, size_t length) {
  FILE *stream = fd == 1 ? stdout : stderr;
  fwrite(bytes, 1, length, stream);
  fflush(stream);
}

static _Thread_local void *thread_value;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
// The same for all threads, each of which sets it.
static void (*_Atomic dropper)(void *);

static void make_key(void) { pthread_key_create(&key, dropper); }

void *linux_thread_value(void) { return thread_value; }

// The thread-local variable is the fast way to the value; the key exists for its destructor.
void linux_set_thread_value(void *value, void (*drop)(void *)) {
  if (drop) {
    dropper = drop;
    pthread_once(&once, make_key);
    pthread_setspecific(key, value);
  }
  thread_value = value;
}

void linux_poll_both(int a, int b, int64_t timeout) {
  struct pollfd both[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
  struct timespec t = {.tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000};
  ppoll(both, 2, timeout < 0 ? NULL : &t, NULL);
}

int linux_watch_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int linux_take_watched_signal(int fd) {
  struct signalfd_siginfo info;
  return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}
